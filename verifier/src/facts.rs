//! What an instruction is, wherever it stands: all that the rules about places ([`crate::sweep`]) need to know of it.
//!
//! Facts follow from the instruction's bytes and the [`Options`] alone. So they are found once for the same bytes and remembered
//! ([`crate::memo`]): decoding, the rules about single instructions ([`crate::instruction`]) and the second decoder run for
//! what was not seen before. The distance of a branch and the displacement of a memory operand are left out of them.

use crate::instruction::{Decoded, Fault, Rules, gpr, reads_rbx};
use crate::prefix;
use crate::refuse;
use crate::region::Step;
use iced_x86::{Decoder, Instruction};
use sfi_contract::policy::{self, Class};

/// What an instruction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub shape: Shape,
    /// No rule about its place, but those about relocations and targets.
    pub plain: bool,
    /// It is a direct branch: the field that is left open is its distance.
    pub branch: bool,
    /// What it is to an unsafe region.
    pub step: Step,
    /// What its place has to show about its load.
    pub load: Load,
    pub displacement: Field,
    pub immediate: Field,
    /// Bit of its [`Class`].
    pub class: u16,
    /// General registers written; bit = number.
    pub written: u16,
    /// General registers named.
    pub named: u16,
}

/// Which bytes the facts are about: their number, and in the upper half the [`Field`] that is open: no fact depends on its bytes. It is
/// the distance of a branch, or a displacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape(pub u16);

impl Shape {
    pub fn new(length: usize, open: Field) -> Shape {
        Shape(length as u16 & 15 | u16::from(open.0) << 8)
    }

    /// Bytes, all together.
    #[inline]
    pub fn length(self) -> usize {
        usize::from(self.0 & 15)
    }
}

/// A constant in an instruction: offset in the lower half, number of bytes in the upper. 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field(u8);

impl Field {
    pub fn new(offset: usize, size: usize) -> Field {
        Field(if size == 0 { 0 } else { (size << 4 | offset & 15) as u8 })
    }

    pub fn offset(self) -> usize {
        usize::from(self.0 & 15)
    }

    pub fn size(self) -> usize {
        usize::from(self.0 >> 4)
    }

    /// The signed number in this field of the instruction that the bytes begin with.
    pub fn number(self, instruction: &[u8]) -> u64 {
        match (self.size(), instruction.get(self.offset()..).unwrap_or_default()) {
            (1, [byte, ..]) => *byte as i8 as u64,
            (4, [a, b, c, d, ..]) => i32::from_le_bytes([*a, *b, *c, *d]) as u64,
            _ => 0,
        }
    }
}

/// Loads of mode full that are confined in the right place only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Load {
    /// No load, or one that is allowed anywhere.
    #[default]
    Free,
    /// Rip-relative without GS: needs a relocation, whose target the loader chooses.
    Relative,
    /// `add %gs:0xff000,%r`, the header page's first word: must not be relocated.
    Header,
}

impl Facts {
    /// The facts of the instruction that the decoder read last, from exactly these bytes, and the rules that it breaks wherever it
    /// stands. To be remembered only if there are none.
    pub fn new(raw: &[u8], instruction: &Instruction, decoder: &Decoder<'_>, rules: &Rules) -> (Facts, Vec<Fault>) {
        let mut facts = Facts::default();
        let constants = decoder.get_constant_offsets(instruction);
        facts.displacement = Field::new(constants.displacement_offset(), constants.displacement_size());
        facts.immediate = Field::new(constants.immediate_offset(), constants.immediate_size());
        facts.shape = Shape::new(raw.len(), Field::default());
        let prefixes = match prefix::scan(raw) {
            Ok(prefixes) => prefixes,
            Err(fault) => return (facts, vec![fault]),
        };
        let Some(form) = policy::lookup(instruction.code()) else { return (facts, vec![refuse::reason(instruction)]) };
        let decoded = Decoded::new(raw, instruction, prefixes, form);
        facts.branch = form.class == Class::Branch;
        if facts.branch {
            facts.shape = Shape::new(raw.len(), facts.immediate);
        } else if !decoded.displacement_decides() {
            facts.shape = Shape::new(raw.len(), facts.displacement);
        }
        facts.class = 1 << form.class as u16;
        (facts.named, facts.written) = registers(&decoded);
        facts.step = rules.step(&decoded);
        facts.load = rules.load(&decoded);
        facts.plain = facts.step == Step::Other && facts.load == Load::Free;
        let faults = rules.check(&decoded, &facts);
        (facts, faults)
    }
}

/// The general registers that an instruction names, and those that it writes.
fn registers(decoded: &Decoded<'_>) -> (u16, u16) {
    let (i, form) = (decoded.instruction, decoded.form);
    let operands = [i.op0_register(), i.op1_register(), i.op2_register(), i.op3_register()].map(gpr);
    let named = operands.iter().fold(gpr(i.memory_base()) | gpr(i.memory_index()), |all, bit| all | bit);
    let mut written = form.clobbers;
    for (n, bit) in operands.iter().enumerate() {
        written |= if form.writes & (1 << n) != 0 { *bit } else { 0 };
    }
    (named | reads_rbx(i.code()), written)
}
