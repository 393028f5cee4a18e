//! Switches that compare their index (see [`crate::analysis::trees`]).

use super::Transform;
use crate::analysis::r15::like;
use crate::analysis::trees::Tree;
use crate::object::decode::InsnIndex;
use crate::refusal::Refusal;
use crate::text::emit::{Branch, old};
use iced_x86::{Code as Opcode, ConditionCode, Instruction, Register};

/// The first index of a run, and its target.
type Run = (u32, InsnIndex);

impl Transform<'_, '_, '_> {
    /// Emits the search for a switch's index among its runs.
    pub(super) fn search(&mut self, tree: &Tree) -> Result<(), Refusal> {
        let index = like(Register::EAX, tree.index);
        if !self.search_among(index, &tree.runs, Some(self.at.next()))? {
            self.delta = None;
        }
        Ok(())
    }

    /// Emits the search among some runs, one of which has the index. Says whether control goes on
    /// behind the search, to `next`.
    fn search_among(&mut self, index: Register, runs: &[Run], next: Option<InsnIndex>) -> Result<bool, Refusal> {
        let (before, mut from) = runs.split_at(runs.len() / 2);
        let &[(first, target), ref behind @ ..] = from else { return Ok(false) };
        if before.is_empty() {
            let falls = next == Some(target);
            if !falls {
                self.out.branch(Branch::Jump, old(target));
            }
            return Ok(falls);
        }
        // cmp $first,%index32
        let code = match i8::try_from(first) {
            Ok(_) => Opcode::Cmp_rm32_imm8,
            Err(_) if index == Register::EAX => Opcode::Cmp_EAX_imm32,
            Err(_) => Opcode::Cmp_rm32_imm32,
        };
        self.put_new(Instruction::with2(code, index, first))?;
        if behind.first().is_some_and(|(second, _)| *second == first + 1) {
            self.branch_if(ConditionCode::e, old(target));
            from = behind;
        }
        match (before, from) {
            ([(_, only)], [_, ..]) if from.len() > 1 || next != Some(*only) => {
                self.branch_if(ConditionCode::b, old(*only));
                self.search_among(index, from, next)
            }
            (_, [(_, only)]) => {
                self.branch_if(ConditionCode::ae, old(*only));
                self.search_among(index, before, next)
            }
            _ => {
                let label = self.out.new_label();
                self.branch_if(ConditionCode::ae, label);
                self.search_among(index, before, None)?;
                self.out.label(label);
                self.search_among(index, from, next)
            }
        }
    }
}
