//! Indirect calls that compare their target with likely callees (see [`crate::analysis::likely`]).

use super::Transform;
use crate::object::decode::Dest;
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Label, Patch, address_of};
use iced_x86::{Code as Opcode, ConditionCode, Instruction, MemoryOperand, Register};
use object::elf;
use sfi_contract::Mode;

impl<'x> Transform<'x, '_, '_> {
    /// Returns the callees with which an indirect call compares its target, which is in a register.
    pub(super) fn likely(&self, register: Register) -> &'x [Dest] {
        let facts = self.facts;
        // A trap behind a call would stand behind each. Checks and charges are for the region
        // alone.
        let plain = facts.mode != Mode::Match && !facts.budget && !facts.stops.contains(&self.at);
        if plain && register == Register::RAX { facts.likely.callees(facts.code, self.at) } else { &[] }
    }

    /// Emits a branch if a call's target in rax is a function. Returns where it leads.
    pub(super) fn branch_if_is(&mut self, function: Dest) -> Result<Label, Refusal> {
        // lea f(%rip),%r11d ; cmp %r11d,%eax ; je 1f
        // r11 is free, because it carries nothing into a call through a pointer.
        let operand = MemoryOperand::with_base_displ_size(Register::RIP, 0, 4);
        let lea = Instruction::with2(Opcode::Lea_r32_m, Register::R11D, operand)
            .map_err(|error| self.refuse(Reason::NoSafeForm, error.to_string()))?;
        let target = address_of(self.facts.pads, function);
        self.put(&lea, &[Patch { immediate: false, kind: elf::R_X86_64_PC32.0, target, addend: 0 }])?;
        self.put_new(Instruction::with2(Opcode::Cmp_rm32_r32, Register::EAX, Register::R11D))?;
        let way = self.out.new_label();
        self.branch_if(ConditionCode::e, way);
        Ok(way)
    }
}
