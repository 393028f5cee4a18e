//! The second opinion: every instruction is read again by another decoder (yaxpeax-x86), and both
//! must read the same.
//!
//! Reason: the decoder is the one part of the trusted base that nobody can read in an hour, and a
//! store that it takes for a load is an escape. Two decoders by different authors, with tables of
//! their own, would have to make the same mistake. The second one is asked what the rules depend
//! on: length, name, memory operands with segment and address size, what is written, general
//! registers, target of a branch. It knows nothing of the positive list, and its answers are only
//! compared ([`check`], rule `SFI-D05`), never used instead of the first one's.
//!
//! Where yaxpeax-x86 has no reading at all, `gaps` has a closed list of encodings that it reads
//! itself. What neither reads is refused.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod first;
mod gaps;
mod names;
mod reading;
mod yaxpeax;

pub use first::First;

use reading::Reading;

/// Rule `SFI-D05`. The bytes are exactly those of the instruction. Gives the difference in words.
///
/// # Errors
/// What the second decoder reads differently.
pub fn check(bytes: &[u8], first: &First<'_>) -> Result<(), &'static str> {
    let one = first.reading();
    let second = match yaxpeax::Second::decode(bytes) {
        Ok(second) if !second.is_gather() => second,
        _ => {
            let other = gaps::read(bytes).ok_or("the second decoder does not know it")?;
            return compare(&one, &other);
        }
    };
    if second.length() != bytes.len() {
        return Err("the second decoder reads another length");
    }
    if !names::same(first.mnemonic(), second.opcode()) {
        return Err("the second decoder reads another instruction");
    }
    compare(&one, &second.reading()?)
}

fn compare(first: &Reading, second: &Reading) -> Result<(), &'static str> {
    if first.memory != second.memory {
        Err("the second decoder reads another memory operand")
    } else if first.stores != second.stores {
        Err("the second decoder differs on what it writes to memory")
    } else if first.named != second.named {
        Err("the second decoder reads other registers")
    } else if second.written & !first.written != 0 {
        Err("the second decoder knows a register that it writes besides")
    } else if first.branch != second.branch {
        Err("the second decoder reads another target")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
