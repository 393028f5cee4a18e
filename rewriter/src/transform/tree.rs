//! Switches that compare their index (see [`crate::analysis::trees`]).

use super::Transform;
use crate::analysis::r15::like;
use crate::analysis::trees::Tree;
use crate::object::decode::InsnIndex;
use crate::refusal::Refusal;
use crate::text::emit::{Branch, Label, condition, old};
use iced_x86::{Code as Opcode, ConditionCode, Instruction, Register};

impl Transform<'_, '_, '_> {
    /// Emits the search for a switch's index among its runs.
    pub(super) fn search(&mut self, tree: &Tree) -> Result<(), Refusal> {
        self.search_among(like(Register::EAX, tree.index), &tree.runs)?;
        self.delta = None;
        Ok(())
    }

    /// Emits the search among some runs. The index is in one of them.
    fn search_among(&mut self, index: Register, runs: &[(u32, InsnIndex)]) -> Result<(), Refusal> {
        let middle = runs.len() / 2;
        let (before, from) = runs.split_at(middle);
        let &[(first, target), ref behind @ ..] = from else { return Ok(()) };
        let Some(&(_, only)) = before.first() else {
            self.out.branch(Branch::Jump, old(target));
            return Ok(());
        };
        // cmp $first,%index32
        let code = match i8::try_from(first) {
            Ok(_) => Opcode::Cmp_rm32_imm8,
            Err(_) if index == Register::EAX => Opcode::Cmp_EAX_imm32,
            Err(_) => Opcode::Cmp_rm32_imm32,
        };
        self.put_new(Instruction::with2(code, index, first))?;
        let mut from = from;
        if behind.first().is_some_and(|(next, _)| *next == first + 1) {
            self.branch_if(ConditionCode::e, old(target));
            from = behind;
        }
        if before.len() == 1 {
            self.branch_if(ConditionCode::b, old(only));
            return self.search_among(index, from);
        }
        let label = self.out.new_label();
        self.branch_if(ConditionCode::ae, label);
        self.search_among(index, before)?;
        self.out.label(label);
        self.search_among(index, from)
    }

    fn branch_if(&mut self, on: ConditionCode, target: Label) {
        if let Some(code) = condition(on) {
            self.out.branch(Branch::Condition(code), target);
        }
    }
}
