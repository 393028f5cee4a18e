//! The second opinion: every instruction is read again by another decoder (yaxpeax-x86), and both must read the same.
//!
//! Reason: the decoder is the one part of the trusted base that nobody can read in an hour, and a store that it takes for a load
//! is an escape. Two decoders by different authors, with tables of their own, would have to make the same mistake. The
//! second one is asked what the rules depend on: length, name, memory operands with segment and address size, what is
//! written, general registers, target of a branch. It knows nothing of the positive list, and its answers are only compared
//! ([`check`], rule `SFI-D05`), never used instead of the first one's.
//!
//! Where yaxpeax-x86 has no reading at all, `gaps` has a closed list of encodings that it reads itself. What neither reads is refused.

#![forbid(unsafe_code)]

mod first;
mod gaps;
mod names;
mod yaxpeax;

pub use first::First;

/// What an instruction does, as far as a rule depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// Memory operands in the order of the operands, rdi's first of a string instruction's. None on the list has three.
    memory: [Option<Address>; 2],
    /// Bit i: `memory[i]` is written.
    stores: u8,
    /// General registers named by operands, base and index included; bit = number.
    named: u16,
    /// General registers written. Of what is no operand the second decoder does not speak; a test of the list compares that.
    written: u16,
    /// Distance of a direct branch's target from the instruction's end.
    branch: Option<i32>,
}

impl Reading {
    /// Notes a memory operand. Those of a string instruction are told apart by their pointers, as decoders order them
    /// differently.
    fn operand(&mut self, position: usize, address: Address, written: bool) {
        let slot = if position == 0 && self.memory[0].is_none() { 0 } else { 1 };
        self.memory[slot] = Some(address);
        self.stores |= u8::from(written) << slot;
        if self.memory[1].is_some_and(|second| second.base == Some(Register::Wide(7))) {
            self.memory.swap(0, 1);
            self.stores = self.stores >> 1 | self.stores << 1 & 2;
        }
    }
}

/// Where a memory operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    base: Option<Register>,
    index: Option<Register>,
    /// 1 without an index.
    scale: u8,
    /// As the processor adds it: EVEX displacements are multiplied. From the instruction's end if rip-relative.
    displacement: i32,
    /// The GS segment; no other is ever accepted.
    gs: bool,
    /// Truncated to 32 bits.
    narrow: bool,
}

/// A register that an address is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    /// A general register of 64 bits.
    Wide(u8),
    /// A general register of 32 bits.
    Narrow(u8),
    /// rip or eip.
    Ip,
    /// xmm, ymm, zmm: bytes and number.
    Vector(u8, u8),
}

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
