//! Copies of new code.
//!
//! The new code of most instructions depends only on their form, and on `delta` if they name the
//! stack pointer. It is made once for each form of an object, and copied wherever an instruction of
//! this form has no relocation.

use super::Transform;
use crate::analysis::regs::bit;
use crate::text::copies::Copy;
use iced_x86::{Instruction, Register};

/// The state before new code is made.
pub(super) struct Before {
    items: usize,
    stores: u64,
    delta: Option<i64>,
}

impl Transform<'_, '_, '_> {
    /// Emits the code that an instruction of the current one's form had before. Says whether there
    /// was one.
    pub(super) fn copy(&mut self) -> bool {
        let insn = &self.facts.code.insns[self.at];
        if insn.disp_reloc.or(insn.imm_reloc).is_some() {
            return false;
        }
        let Some(copy) = self.copies.get(insn.form, self.delta()) else { return false };
        self.stats.stores += u64::from(copy.store);
        self.out.encoded(copy.bytes());
        true
    }

    /// Returns what [`Transform::keep`] needs.
    pub(super) fn before(&self) -> Before {
        Before { items: self.out.items.len(), stores: self.stats.stores, delta: self.delta }
    }

    /// Keeps the new code of the current instruction `ins` for others of its form, if it depends on
    /// nothing else: [`Transform::ordinary`] made it.
    pub(super) fn keep(&mut self, before: &Before, ins: &Instruction) {
        let (insn, effects) = (&self.facts.code.insns[self.at], &self.facts.effects[self.at]);
        let stack = bit(Register::RSP);
        // Live flags have a say in changes of rsp, and in the checks of mode match.
        let alone = effects.writes & stack == 0 && !self.matching() && before.delta == self.delta;
        let placed = insn.disp_reloc.or(insn.imm_reloc).is_some() || ins.is_ip_rel_memory_operand();
        if let Some(code) = self.out.made_since(before.items).filter(|_| alone && !placed) {
            let delta = (effects.uses & stack != 0).then_some(self.delta());
            self.copies.keep(insn.form, Copy::new(code, self.stats.stores != before.stores, delta));
        }
    }
}
