//! The second opinion. Another decoder (yaxpeax-x86) reads every instruction again, and both
//! readings must agree.
//!
//! The decoder is the one part of the trusted base that nobody can read in an hour. If it takes a
//! store for a load, a domain escapes. With two decoders by different authors and with tables of
//! their own, both would have to make that mistake.
//!
//! The second decoder answers the questions that the rules depend on: length, name, memory operands
//! with segment and address size, written operands, general registers, target of a branch. It knows
//! nothing of the positive list. [`check`] (rule `SFI-D05`) only compares its answers and never
//! uses them instead of the first decoder's.
//!
//! `gaps` reads a closed list of encodings that yaxpeax-x86 cannot read. Encodings that neither
//! reads are refused.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod first;
mod gaps;
mod names;
mod reading;
mod yaxpeax;

pub use first::First;

use reading::Reading;

/// Checks rule `SFI-D05`. `bytes` are exactly those of the instruction.
///
/// # Errors
/// The difference in words, if the second decoder reads something else.
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
