//! What an instruction is, apart from where it stands: all that the sweep needs to know of it. Found once for each head by decoding
//! ([`Facts::new`]) and remembered by [`crate::memo`]: the rules about single instructions ([`crate::instruction`]) and the second
//! decoder run for what was not seen before.
//!
//! The head of an instruction is what stands in front of its displacement and immediate: prefixes, opcode, ModRM, SIB. All facts follow
//! from it. Where a rule asks for a certain displacement or immediate ([`Facts::step_of`]), the sweep looks at it in its place.

use crate::instruction::{Decoded, Fault, Rules, reads_rbx};
use crate::length::window;
use crate::prefix;
use crate::region::Step;
use iced_x86::{Decoder, Instruction};
use sfi_contract::Usage;
use sfi_contract::layout::{DISPATCH_MASK, DISPATCH_OFFSET, HEADER_BASE};
use sfi_contract::policy::{self, Class, general, refusal};

/// What an instruction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub uses: Uses,
    pub shape: Shape,
    pub displacement: Field,
    pub immediate: Field,
    /// It is a direct branch: its immediate is the distance.
    pub branch: bool,
    /// No rule about its place, but those about relocations and targets.
    pub plain: bool,
    /// What it is to an unsafe region, if it has the right number.
    step: Step,
    /// What its place has to show about its load.
    pub load: Load,
}

/// Bytes of the head in the upper half, of the whole in the lower. The head is 0 if the facts are not to be remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape(pub u8);

impl Shape {
    #[inline]
    pub fn head(self) -> usize {
        usize::from(self.0 >> 4)
    }

    #[inline]
    pub fn length(self) -> usize {
        usize::from(self.0 & 15)
    }
}

/// A constant in an instruction: offset in the lower half, number of bytes in the upper. 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field(u8);

impl Field {
    fn new(offset: usize, size: usize) -> Field {
        Field(if size == 0 { 0 } else { (size << 4 | offset & 15) as u8 })
    }

    pub fn offset(self) -> usize {
        usize::from(self.0 & 15)
    }

    pub fn size(self) -> usize {
        usize::from(self.0 >> 4)
    }

    /// The signed number in this field of the instruction that the bytes begin with, 0 if there is none.
    #[inline]
    pub fn number(self, instruction: &[u8]) -> u64 {
        let above = 64u32.saturating_sub(8 * self.size() as u32);
        let bytes = window(instruction.get(self.offset()..).unwrap_or_default());
        (bytes.checked_shl(above).unwrap_or(0) as i64 >> above.min(63)) as u64
    }
}

/// What instructions use: the set of their [`Class`]es, and from bit 16 and 32 on the general registers written and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses(u64);

impl Uses {
    #[inline]
    pub fn add(&mut self, other: Uses) {
        self.0 |= other.0;
    }

    pub fn usage(self) -> Usage {
        Usage::new(self.0 as u16, self.written(), self.named())
    }

    pub fn written(self) -> u16 {
        (self.0 >> 16) as u16
    }

    pub fn named(self) -> u16 {
        (self.0 >> 32) as u16
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
    /// `add %gs:...,%r`: only the header page's first word, and not relocated.
    Header,
}

impl Facts {
    /// The facts of the instruction that the decoder read last, from exactly these bytes, and the rules that it breaks wherever it
    /// stands. To be remembered only if there are none.
    pub fn new(raw: &[u8], instruction: &Instruction, decoder: &Decoder<'_>, rules: &Rules) -> (Facts, Vec<Fault>) {
        let constants = decoder.get_constant_offsets(instruction);
        let mut facts = Facts {
            displacement: Field::new(constants.displacement_offset(), constants.displacement_size()),
            immediate: Field::new(constants.immediate_offset(), constants.immediate_size()),
            shape: Shape(raw.len() as u8 & 15),
            ..Facts::default()
        };
        let prefixes = match prefix::scan(raw) {
            Ok(prefixes) => prefixes,
            Err(fault) => return (facts, vec![fault]),
        };
        let Some(form) = policy::lookup(instruction.code()) else { return (facts, vec![refusal::reason(instruction)]) };
        let decoded = Decoded::new(raw, instruction, prefixes, form);
        facts.branch = form.class == Class::Branch;
        facts.uses = uses(&decoded);
        facts.step = rules.step(&decoded);
        facts.load = rules.load(&decoded);
        facts.plain = facts.step == Step::Other && facts.load == Load::Free;
        let faults = rules.check(&decoded, &facts);
        if !decoded.hides_scale() {
            facts.shape.0 |= facts.head(raw.len()) << 4;
        }
        (facts, faults)
    }

    /// Bytes in front of displacement and immediate, 0 if anything else stands there or behind (the register of `vblendvps`).
    fn head(&self, length: usize) -> u8 {
        let fields = [self.displacement, self.immediate];
        let head = fields.iter().filter(|field| field.size() != 0).map(|field| field.offset()).min().unwrap_or(length);
        if head + fields[0].size() + fields[1].size() == length { head as u8 } else { 0 }
    }

    /// What the instruction that the bytes begin with is to an unsafe region.
    pub fn step_of(&self, instruction: &[u8]) -> Step {
        let (field, wanted) = match self.step {
            Step::Mask(_) => (self.immediate, DISPATCH_MASK.into()),
            Step::Through(_) => (self.displacement, DISPATCH_OFFSET),
            Step::Rebase(_) => (self.displacement, HEADER_BASE),
            step => return step,
        };
        match self.step {
            step if field.number(instruction) == wanted => step,
            Step::Through(_) => Step::Astray,
            _ => Step::Other,
        }
    }
}

/// What one instruction uses.
fn uses(decoded: &Decoded<'_>) -> Uses {
    let (i, form) = (decoded.instruction, decoded.form);
    let operands = [i.op0_register(), i.op1_register(), i.op2_register(), i.op3_register()].map(general);
    let address = general(i.memory_base()) | general(i.memory_index());
    let named = operands.iter().fold(address | reads_rbx(i.code()), |all, bit| all | bit);
    let mut written = form.clobbers;
    for (n, bit) in operands.iter().enumerate() {
        written |= if form.writes & (1 << n) != 0 { *bit } else { 0 };
    }
    Uses(1 << form.class as u8 | u64::from(written) << 16 | u64::from(named) << 32)
}
