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
use sfi_contract::layout::{DISPATCH_MASK, DISPATCH_OFFSET, HEADER_BASE};
use sfi_contract::policy::{self, Class, general, refusal};
use sfi_contract::{Rule, Usage};

/// What an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The general registers that it writes, and from bit 16 on those that it names.
    registers: u32,
    pub class: Class,
    pub shape: Shape,
    /// Bytes of the displacement in the upper half, of the immediate in the lower.
    sizes: u8,
    /// What it is to its neighbours, if it has the right number: see [`Facts::step_of`].
    pub step: Step,
}

/// Bytes of the head in the upper half, of the whole in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A constant in an instruction, bytes. The size is 0 if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: usize,
    pub size: usize,
}

impl Field {
    /// The signed number in this field of the instruction that the bytes begin with, 0 if there is none.
    #[inline]
    pub fn number(self, instruction: &[u8]) -> u64 {
        let above = 64u32.saturating_sub(8 * self.size as u32);
        let bytes = window(instruction.get(self.offset..).unwrap_or_default());
        (bytes.checked_shl(above).unwrap_or(0) as i64 >> above.min(63)) as u64
    }
}

/// What instructions use: the set of their [`Class`]es, and from bit 16 and 32 on the general registers written and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses(u64);

impl Uses {
    #[inline]
    pub fn add(&mut self, facts: &Facts) {
        self.0 |= u64::from(facts.registers) << 16 | 1 << facts.class as u8;
    }

    pub fn join(&mut self, other: Uses) {
        self.0 |= other.0;
    }

    pub fn usage(self) -> Usage {
        Usage::new(self.0 as u16, (self.0 >> 16) as u16, (self.0 >> 32) as u16)
    }
}

impl Facts {
    /// Those of no instruction.
    pub const NONE: Facts = Facts { registers: 0, class: Class::Hint, shape: Shape(0), sizes: 0, step: Step::Other };

    /// The facts of the instruction that the decoder read last, from exactly these bytes; the rules that it breaks wherever it
    /// stands; and whether they hold for all that has this head. To be remembered only if they do and none is broken.
    pub fn new(
        raw: &[u8],
        instruction: &Instruction,
        decoder: &Decoder<'_>,
        rules: &Rules,
    ) -> (Facts, Vec<Fault>, bool) {
        let constants = decoder.get_constant_offsets(instruction);
        let displacement = Field { offset: constants.displacement_offset(), size: constants.displacement_size() };
        let immediate = Field { offset: constants.immediate_offset(), size: constants.immediate_size() };
        let offset = |field: Field| if field.size == 0 { raw.len() } else { field.offset };
        let head = offset(displacement).min(offset(immediate));
        let mut facts = Facts {
            shape: Shape((head << 4 | raw.len()) as u8),
            sizes: (displacement.size << 4 | immediate.size) as u8,
            ..Facts::NONE
        };
        let prefixes = match prefix::scan(raw) {
            Ok(prefixes) => prefixes,
            Err(fault) => return (facts, vec![fault], false),
        };
        let Some(form) = policy::lookup(instruction.code()) else {
            return (facts, vec![refusal::reason(instruction)], false);
        };
        let decoded = Decoded::new(raw, instruction, prefixes, form);
        facts.class = form.class;
        facts.registers = registers(&decoded);
        facts.step = rules.step(&decoded);
        let mut faults = rules.check(&decoded, &facts);
        if offset(displacement) != offset(facts.displacement()) || offset(immediate) != offset(facts.immediate()) {
            faults.push((Rule::SecondReading, "its constants are not behind its head in their order"));
        }
        // Else something stands behind the constants: the register of `vblendvps`.
        let whole = head + displacement.size + immediate.size == raw.len();
        (facts, faults, whole && !decoded.hides_scale())
    }

    /// A displacement begins where the head ends,
    #[inline]
    pub fn displacement(&self) -> Field {
        Field { offset: self.shape.head(), size: usize::from(self.sizes >> 4) }
    }

    /// and an immediate ends where the instruction ends.
    #[inline]
    pub fn immediate(&self) -> Field {
        let size = usize::from(self.sizes & 15);
        Field { offset: self.shape.length().saturating_sub(size), size }
    }

    /// The general registers that it writes.
    pub fn written(&self) -> u16 {
        self.registers as u16
    }

    /// The general registers that it names.
    pub fn named(&self) -> u16 {
        (self.registers >> 16) as u16
    }

    /// It is a direct branch: its immediate is the distance.
    #[inline]
    pub fn is_branch(&self) -> bool {
        self.class == Class::Branch
    }

    /// What the instruction that the bytes begin with is to its neighbours.
    pub fn step_of(&self, instruction: &[u8]) -> Step {
        let (field, wanted, otherwise) = match self.step {
            Step::Mask => (self.immediate(), DISPATCH_MASK.into(), Step::Other),
            Step::Through => (self.displacement(), DISPATCH_OFFSET, Step::Astray),
            Step::Rebase | Step::RebaseOnly => (self.displacement(), HEADER_BASE, Step::Other),
            step => return step,
        };
        match self.step {
            _ if field.number(instruction) != wanted => otherwise,
            Step::RebaseOnly => Step::Rebase,
            step => step,
        }
    }
}

/// The registers of one instruction as in [`Facts`].
fn registers(decoded: &Decoded<'_>) -> u32 {
    let (i, form) = (decoded.instruction, decoded.form);
    let operands = [i.op0_register(), i.op1_register(), i.op2_register(), i.op3_register()].map(general);
    let address = general(i.memory_base()) | general(i.memory_index());
    let named = operands.iter().fold(address | reads_rbx(i.code()), |all, bit| all | bit);
    let mut written = form.clobbers;
    for (n, bit) in operands.iter().enumerate() {
        written |= if form.writes & (1 << n) != 0 { *bit } else { 0 };
    }
    u32::from(written) | u32::from(named) << 16
}
