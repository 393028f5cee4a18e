//! The facts of an instruction, apart from its place: all that the sweep needs to know of it.
//! [`crate::instruction`] finds them once for each head: it decodes the instruction and holds it
//! against the rules. [`crate::memo`] remembers them.
//!
//! The head of an instruction is the part before its displacement and immediate: prefixes, opcode,
//! ModRM, SIB. All facts follow from it. Where a rule asks for a certain displacement or immediate
//! ([`Facts::step_of`]), the sweep reads it from the text.

use crate::length::{Shape, window};
use crate::region::Step;
use sfi_contract::based::FARTHEST;
use sfi_contract::layout::{DISPATCH, DISPATCH_MASK, HEADER_BASE};
use sfi_contract::policy::Class;
use sfi_contract::{Anchored, Usage};

/// The facts of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The general registers that it writes, with [`Usage::GS`], and from bit 16 on those that it
    /// names.
    pub registers: u32,
    pub class: Class,
    pub shape: Shape,
    /// The size of the displacement in the upper half, of the immediate in the lower. Bytes.
    pub sizes: u8,
    /// Its role in an unsafe region, if it has the right number: see [`Facts::step_of`].
    pub step: Step,
}

/// A constant in an instruction. The size is 0 if there is none. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: usize,
    pub size: usize,
}

impl Field {
    /// Returns the signed number in this field of the instruction that the bytes begin with, 0 if
    /// there is none.
    #[inline]
    pub(crate) fn number(self, instruction: &[u8]) -> u64 {
        let above = 64u32.saturating_sub(8 * self.size as u32);
        let bytes = window(instruction.get(self.offset..).unwrap_or_default());
        (bytes.checked_shl(above).unwrap_or(0) as i64 >> above.min(63)) as u64
    }
}

/// The resources that instructions use: the general registers written with [`Usage::GS`], from bit
/// 16 on those named, and from bit 32 on the set of their [`Class`]es.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses(u64);

impl Uses {
    /// Those of a branch out of the final text. The stub there may use GS.
    pub(crate) const AWAY: Uses = Uses(Usage::GS as u64);

    #[inline]
    pub(crate) fn add(&mut self, facts: &Facts) {
        self.0 |= u64::from(facts.registers) | 1 << (32 + facts.class as u8);
    }

    pub(crate) fn join(&mut self, other: Uses) {
        self.0 |= other.0;
    }

    pub(crate) fn usage(self) -> Usage {
        Usage::new((self.0 >> 32) as u32, self.0 as u16, (self.0 >> 16) as u16)
    }
}

impl Facts {
    /// The facts of no instruction.
    pub(crate) const NONE: Facts =
        Facts { registers: 0, class: Class::Hint, shape: Shape(0), sizes: 0, step: Step::Other };

    /// Returns the place of the displacement: it begins where the head ends.
    #[inline]
    pub(crate) fn displacement(&self) -> Field {
        Field { offset: self.shape.head(), size: usize::from(self.sizes >> 4) }
    }

    /// Returns the place of the immediate: it ends where the instruction ends.
    #[inline]
    pub(crate) fn immediate(&self) -> Field {
        let size = usize::from(self.sizes & 15);
        Field { offset: self.shape.length().saturating_sub(size), size }
    }

    /// Returns the general registers that it writes.
    pub(crate) fn written(&self) -> u16 {
        self.registers as u16 & !Usage::GS
    }

    /// Returns the general registers that it names.
    pub(crate) fn named(&self) -> u16 {
        (self.registers >> 16) as u16
    }

    /// Says whether it is a direct branch. Its immediate is the distance.
    #[inline]
    pub(crate) fn is_branch(&self) -> bool {
        self.class == Class::Branch
    }

    /// Returns the place that the displacement must name so that the instruction is a part of an
    /// unsafe region.
    pub(crate) fn place(&self) -> Option<Anchored> {
        match self.step {
            Step::Through => Some(DISPATCH),
            Step::Rebase | Step::RebaseOnly | Step::Base => Some(HEADER_BASE),
            _ => None,
        }
    }

    /// Returns the part that an instruction plays in an unsafe region. The bytes begin with it.
    /// `named` says that its displacement names its [`Facts::place`].
    pub(crate) fn step_of(&self, instruction: &[u8], named: bool) -> Step {
        match self.step {
            Step::Mask if self.immediate().number(instruction) != DISPATCH_MASK.into() => Step::Other,
            Step::Through if !named => Step::Astray,
            Step::Rebase | Step::RebaseOnly | Step::Base if !named => Step::Other,
            Step::Based if self.displacement().number(instruction) > FARTHEST => Step::Far,
            Step::RebaseOnly => Step::Rebase,
            step => step,
        }
    }
}
