//! Indirect calls that compare their target with likely callees (see [`crate::analysis::likely`]).

use super::Transform;
use crate::object::decode::Dest;
use crate::refusal::Refusal;
use crate::text::emit::{Branch, Label, address_of};
use iced_x86::{Code as Opcode, ConditionCode, Instruction, Register};

impl<'x> Transform<'x, '_, '_> {
    /// Returns the callees with which an indirect call compares its target, which is in a register.
    pub(super) fn likely(&self, register: Register) -> &'x [Dest] {
        let facts = self.facts;
        // A trap behind a call would stand behind each.
        let compares = register == Register::RAX && !facts.stops.contains(&self.at);
        if compares { facts.likely.callees(facts.code, self.at) } else { &[] }
    }

    /// Emits a branch for each function that a call's target in rax may be. Returns where they
    /// lead.
    pub(super) fn branch_to(&mut self, functions: &[Dest]) -> Result<Vec<Label>, Refusal> {
        let mut ways = Vec::with_capacity(functions.len());
        for function in functions {
            // lea f(%rip),%r11d ; cmp %r11d,%eax ; je 1f
            // r11 is free, because it carries nothing into a call through a pointer.
            self.address_into(Register::R11D, address_of(self.facts.pads, *function), 0)?;
            self.put_new(Instruction::with2(Opcode::Cmp_rm32_r32, Register::EAX, Register::R11D))?;
            let way = self.out.new_label();
            self.branch_if(ConditionCode::e, way);
            ways.push(way);
        }
        Ok(ways)
    }

    /// Emits the calls of the functions where those branches lead, behind the call through a slot.
    pub(super) fn call_at(&mut self, ways: &[Label], functions: &[Dest]) -> Result<(), Refusal> {
        if ways.is_empty() {
            return Ok(());
        }
        let behind = self.out.new_label();
        for (number, (way, function)) in (1..).zip(ways.iter().zip(functions)) {
            // jmp 2f ; 1: call f
            self.out.branch(Branch::Jump, behind);
            self.out.label(*way);
            self.out.branch(Branch::Call, *function);
            self.returns_here(number)?;
        }
        self.out.label(behind);
        Ok(())
    }
}
