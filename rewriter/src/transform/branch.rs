//! Calls, jumps and returns. An indirect call or jump is an unsafe region:
//!
//! ```text
//! and $0xffff8,%r32 ; call|jmp *%gs:__sfi_dispatch(%r32)
//! ```

use super::scratch::spill_place;
use super::{Facts, SP, Transform, canonical};
use crate::analysis::depth::Height;
use crate::analysis::flow::JumpKind;
use crate::analysis::pads::{PAD_REGISTER, jump_register};
use crate::analysis::r15::like;
use crate::analysis::regs::{bit, bits};
use crate::object::decode::{CodeSection, Dest, Flow, InsnIndex};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, Label, Patch, ShortBranch, Target, condition, old};
use iced_x86::{Code as Opcode, ConditionCode, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use object::elf;
use sfi_contract::layout::{DISPATCH, DISPATCH_MASK};

/// Spill places of the register and the flags that a jump uses. Its landing pad restores them.
const PAD_SLOT: u64 = 12;
const PAD_FLAGS_SLOT: u64 = 13;

impl Facts<'_, '_, '_> {
    /// Says whether the trap behind a section's code is written: something names it, or landing
    /// pads follow code that may fall off the section's end.
    pub(super) fn needs_trap(&self, section: &CodeSection) -> bool {
        let padding = |at: &InsnIndex| self.code.insns[*at].is_nop() && !self.graph.label[*at];
        let last = || section.first.until(section.trap).rev().find(|at| !padding(at));
        let falls = |at: InsnIndex| match self.code.insns[at].flow {
            Flow::Next | Flow::Call(_) | Flow::CallIndirect | Flow::Branch(_) => !self.stops.contains(&at),
            Flow::Jump(_) | Flow::JumpIndirect | Flow::Return | Flow::Stop => false,
        };
        let padded = || section.first.until(section.end).any(|at| self.pads.has(at));
        self.graph.label[section.trap] || (last().is_some_and(falls) && padded())
    }
}

impl Transform<'_, '_, '_> {
    pub(super) fn call(&mut self, dest: Dest) -> Result<(), Refusal> {
        self.adjust_to(0)?;
        if !self.facts.code.returns_twice(dest) {
            self.out.branch(Branch::Call, dest);
            return self.returns_here(0);
        }
        // lea 1f(%rip),%r11 ; call setjmp ; 1:
        // A second return comes to 1 through the dispatch table, so 1 needs a slot. r11 is free for
        // it, because it carries nothing into a call of another object.
        let label = self.out.new_label();
        self.address_into(Register::R11, label, 0)?;
        self.out.branch(Branch::Call, dest);
        self.out.label(label);
        self.returns_here(0)
    }

    /// Marks the place to which a call returns, for the unwind tables. Emits a trap there if the
    /// call is not to return (see `ends`).
    pub(super) fn returns_here(&mut self, number: u8) -> Result<(), Refusal> {
        if self.facts.unwind.knows(self.at) {
            self.out.label(Label::After(self.at, number));
        }
        if self.facts.stops.contains(&self.at) { self.stop() } else { Ok(()) }
    }

    pub(super) fn jump(&mut self, dest: Dest) -> Result<(), Refusal> {
        if self.facts.code.returns_twice(dest) {
            return Err(
                self.refuse(Reason::ReturnAddress, "a tail call of setjmp: its caller is gone when it returns again")
            );
        }
        if self.is_dead_way(dest) {
            return self.stop();
        }
        let wanted = self.delta_of(dest);
        self.adjust_to(wanted)?;
        self.out.branch(Branch::Jump, dest);
        self.delta = None;
        Ok(())
    }

    /// Says whether dead code leads to a place where registers are saved. It stops there.
    fn is_dead_way(&self, dest: Dest) -> bool {
        let dead = |to| self.facts.saves.is_dead_way(self.at, to, self.facts.states);
        matches!(dest, Dest::Insn(to) if dead(to))
    }

    pub(super) fn branch(&mut self, ins: Instruction, dest: Dest) -> Result<(), Refusal> {
        if self.is_dead_way(dest) {
            return self.stop();
        }
        let wanted = self.delta_of(dest);
        self.adjust_to(wanted)?;
        let kind = match ins.mnemonic() {
            Mnemonic::Jrcxz => Branch::Short(ShortBranch::Jrcxz),
            Mnemonic::Loop if ins.code() == Opcode::Loop_rel8_64_RCX => Branch::Short(ShortBranch::Loop),
            Mnemonic::Loope if ins.code() == Opcode::Loope_rel8_64_RCX => Branch::Short(ShortBranch::Loope),
            Mnemonic::Loopne if ins.code() == Opcode::Loopne_rel8_64_RCX => Branch::Short(ShortBranch::Loopne),
            _ => match condition(ins.condition_code()) {
                Some(code) if ins.is_jcc_short_or_near() => Branch::Condition(code),
                _ => return Err(self.refuse(Reason::NoSafeForm, "branch of this kind")),
            },
        };
        self.out.branch(kind, dest);
        Ok(())
    }

    /// Emits a conditional branch that only the new code has.
    pub(super) fn branch_if(&mut self, on: ConditionCode, target: Label) {
        if let Some(code) = condition(on) {
            self.out.branch(Branch::Condition(code), target);
        }
    }

    pub(super) fn ret(&mut self, ins: Instruction) -> Result<(), Refusal> {
        let popped = match ins.code() {
            Opcode::Retnq => 0,
            Opcode::Retnq_imm16 => i64::from(ins.immediate16()),
            _ => return Err(self.refuse(Reason::NoSafeForm, "return of this kind")),
        };
        self.adjust_to(8 + popped)?;
        self.delta = None;
        self.put(&Instruction::with(Opcode::Retnq), &[])
    }

    pub(super) fn call_indirect(&mut self, ins: Instruction) -> Result<(), Refusal> {
        if !ins.is_call_near_indirect() {
            return Err(self.refuse(Reason::NoSafeForm, "far call"));
        }
        self.adjust_to(0)?;
        // These registers are call-clobbered and carry no argument, so the mask may change them.
        let register = match self.operand_register(&ins) {
            Some(register) if bit(register) & bits(&[Register::RAX, Register::R10, Register::R11]) != 0 => register,
            _ => {
                // rax has the shortest encodings. If the address names a homed r15, this register
                // holds r15 while the target is loaded, so it must be none of the address's other
                // registers.
                let homed = self.is_homed() && self.names_r15(&ins);
                let named = if homed { bit(ins.memory_base()) | bit(ins.memory_index()) } else { 0 };
                let counted = if self.facts.counts[self.at] { bit(Register::RAX) } else { 0 };
                let free = |register: &Register| (named | counted) & bit(*register) == 0;
                let register = [Register::RAX, Register::R11].into_iter().find(free);
                let Some(register) = register else {
                    return Err(self.refuse(Reason::NoSafeForm, "the call's address names every free register"));
                };
                self.target_into(ins, register)?;
                register
            }
        };
        let likely = self.likely(register);
        let ways = self.branch_to(likely)?;
        self.region(register, Opcode::Call_rm64)?;
        self.returns_here(0)?;
        self.call_at(&ways, likely)
    }

    pub(super) fn jump_indirect(&mut self, ins: Instruction) -> Result<(), Refusal> {
        if !ins.is_jmp_near_indirect() {
            return Err(self.refuse(Reason::NoSafeForm, "far jump"));
        }
        let (graph, states) = (self.facts.graph, self.facts.states);
        let kind = graph.jump_kind(self.at);
        // A jump with something on the stack leads to no function. A function's label in its table
        // belongs to an unused entry, which compilers let lead to the code after the jump's
        // function.
        let empty = states[self.at].rsp == Height::Known(0);
        let meant = graph.jump_targets(self.at).iter().filter(|label| empty || !graph.entry[**label]);
        let mut deltas = meant.map(|label| canonical(graph, states, *label));
        let inside = deltas.next().unwrap_or(8);
        if deltas.any(|delta| delta != inside) {
            return Err(self.refuse(Reason::IndirectJump, "the jump leads to functions and to labels inside one"));
        }
        let wanted = match kind {
            JumpKind::Tail => 8,
            JumpKind::Inside => inside,
            JumpKind::Far => 0,
            JumpKind::Either if inside == 8 => 8,
            JumpKind::Either => {
                return Err(self.refuse(Reason::IndirectJump, "the jump may be a tail call or lead into the function"));
            }
        };
        self.adjust_to(wanted)?;
        if let Some(tree) = self.facts.trees.jump(self.at) {
            return self.search(tree);
        }
        let pads = self.facts.pads.unit(graph, self.at).filter(|_| !matches!(kind, JumpKind::Tail | JumpKind::Far));
        let register = if self.facts.arrays.is_part(self.at) {
            // It holds the slot already.
            ins.op0_register()
        } else if let Some(flags) = pads {
            self.store_fixed(spill_place(PAD_SLOT), PAD_REGISTER)?;
            if flags {
                self.save_flags(PAD_FLAGS_SLOT)?;
            }
            let named = bit(ins.memory_base()) | bit(ins.memory_index());
            if self.is_homed() && self.names_r15(&ins) && named & bit(PAD_REGISTER) != 0 {
                return Err(self.refuse(Reason::IndirectJump, "the jump's address names every free register"));
            }
            self.target_into(ins, PAD_REGISTER)?;
            PAD_REGISTER
        } else {
            let Some(register) = jump_register(&ins, self.facts.live, self.facts.counts, self.at) else {
                return Err(self.refuse(Reason::IndirectJump, "every register is live at the jump"));
            };
            if self.operand_register(&ins) != Some(register) {
                self.target_into(ins, register)?;
            }
            register
        };
        if kind == JumpKind::Far {
            self.untag(register)?;
        }
        self.delta = None;
        self.region(register, Opcode::Jmp_rm64)
    }

    /// Emits `lea ARRAY(,%index,8),%entry` in place of the load of a switch's entry (see `arrays`).
    pub(super) fn slot_of(&mut self, load: &Instruction, array: i64) -> Result<(), Refusal> {
        let place = MemoryOperand::with_index_scale_displ_size(load.memory_index(), 8, 0i64, 8);
        let lea = Instruction::with2(Opcode::Lea_r32_m, like(Register::EAX, load.op0_register()), place)
            .map_err(|error| self.refuse(Reason::NoSafeForm, error.to_string()))?;
        let patch = Patch { immediate: false, kind: elf::R_X86_64_32S.0, target: Target::Arrays, addend: array };
        self.put(&lea, &[patch])
    }

    /// Emits the landing pads of a section's labels (see `pads`).
    pub(super) fn landing_pads(&mut self, first: InsnIndex, end: InsnIndex) -> Result<(), Refusal> {
        if self.facts.pads.is_empty() {
            return Ok(());
        }
        for label in first.until(end).filter(|&at| self.facts.pads.has(at)) {
            self.at = label;
            self.stats.pads += 1;
            self.out.mark(label, true);
            self.out.label(Label::Pad(label));
            if self.facts.pads.is_receiver(label) {
                self.receive()?;
                continue;
            }
            if self.facts.pads.unit(self.facts.graph, label) == Some(true) {
                self.restore_flags(PAD_FLAGS_SLOT)?;
            }
            self.load_fixed(PAD_REGISTER, spill_place(PAD_SLOT))?;
            self.out.branch(Branch::Jump, old(label));
        }
        Ok(())
    }

    /// Returns the register operand of an indirect branch, or `None` for memory, r15 and rsp.
    fn operand_register(&self, ins: &Instruction) -> Option<Register> {
        (ins.op0_kind() == OpKind::Register && ins.op0_register() != SP && ins.op0_register() != Register::RSP)
            .then(|| ins.op0_register())
    }

    /// Loads the low half of an indirect branch's target into a register. In mode match it loads
    /// all of it, because the check looks at the whole address.
    fn target_into(&mut self, ins: Instruction, register: Register) -> Result<(), Refusal> {
        if ins.op0_kind() == OpKind::Register {
            let (shape, code) = match self.matching() {
                true => (Register::RAX, Opcode::Mov_r64_rm64),
                false => (Register::EAX, Opcode::Mov_r32_rm32),
            };
            let into = like(shape, register);
            return match ins.op0_register() {
                SP if self.is_homed() => self.load_home(into),
                SP | Register::RSP => Err(self.refuse(Reason::StackPointerUse, "branch to the stack pointer")),
                // mov %target32,%register32
                target => self.put_new(Instruction::with2(code, into, like(shape, target))),
            };
        }
        let mut load = ins;
        if self.is_homed() && self.names_r15(&ins) {
            self.load_home(register)?;
            crate::analysis::r15::replace(&mut load, SP, register);
        }
        self.load_operand(load, register, if self.matching() { 8 } else { 4 })
    }

    /// Emits the unsafe region of an indirect branch (rule SFI-I01).
    fn region(&mut self, register: Register, code: Opcode) -> Result<(), Refusal> {
        self.stats.indirect += 1;
        self.check_branch(register)?;
        let low = like(Register::EAX, register);
        // and $0xffff8,%r32
        let and = if low == Register::EAX { Opcode::And_EAX_imm32 } else { Opcode::And_rm32_imm32 };
        self.put_new(Instruction::with2(and, low, DISPATCH_MASK))?;
        // call|jmp *%gs:__sfi_dispatch(%r32)
        let slot = MemoryOperand::new(low, Register::None, 1, DISPATCH.symbolic() as i64, 4, false, Register::GS);
        self.put_new(Instruction::with1(code, slot))
    }
}
