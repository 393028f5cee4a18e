//! The common form in which the readings of both decoders are compared.

/// The effects of an instruction, as far as a rule depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Memory operands in the order of the operands. For a string instruction rdi's comes first. No
    /// instruction on the list has three.
    pub(crate) memory: [Option<Address>; 2],
    /// Bit i: `memory[i]` is written.
    pub(crate) stores: u8,
    /// General registers named by operands, base and index included; bit = number.
    pub(crate) named: u16,
    /// General registers written. The second decoder does not report registers that are no
    /// operands. A test of the list compares these.
    pub(crate) written: u16,
    /// Distance of a direct branch's target from the instruction's end.
    pub(crate) branch: Option<i32>,
}

impl Reading {
    /// Adds a memory operand. Decoders order the operands of a string instruction differently, so
    /// its pointers tell them apart.
    pub(crate) fn operand(&mut self, position: usize, address: Address, written: bool) {
        let slot = if position == 0 && self.memory[0].is_none() { 0 } else { 1 };
        self.memory[slot] = Some(address);
        self.stores |= u8::from(written) << slot;
        if self.memory[1].is_some_and(|second| second.base == Some(Register::Wide(7))) {
            self.memory.swap(0, 1);
            self.stores = self.stores >> 1 | self.stores << 1 & 2;
        }
    }
}

/// The address of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Option<Register>,
    pub(crate) index: Option<Register>,
    /// 1 without an index.
    pub(crate) scale: u8,
    /// The displacement as the processor adds it: EVEX displacements are multiplied. If
    /// rip-relative, it counts from the instruction's end.
    pub(crate) displacement: i32,
    /// The segment is GS. No other segment is ever accepted.
    pub(crate) gs: bool,
    /// The address is truncated to 32 bits.
    pub(crate) narrow: bool,
}

/// A register that an address is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    /// A general register of 64 bits.
    Wide(u8),
    /// A general register of 32 bits.
    Narrow(u8),
    /// rip or eip.
    Ip,
    /// xmm, ymm, zmm: bytes and number.
    Vector(u8, u8),
}
