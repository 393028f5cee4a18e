//! The data stack: push, pop, leave, and adjustments of its pointer.

use super::{SP, Transform, canonical};
use crate::analysis::regs::{FLAGS, bit};
use crate::object::decode::Flow;
use crate::refusal::{Reason, Refusal};
use iced_x86::{Code as Opcode, IcedError, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use sfi_contract::layout::STACK_LEAD;

/// Number of instructions after a push among which the next place that fixes r15 is looked for.
const LOOK_AHEAD: usize = 16;

impl Transform<'_, '_, '_> {
    /// Emits `lea n(%r15),%r15` so that `delta` becomes `wanted`. Flags survive.
    pub(super) fn adjust_to(&mut self, wanted: i64) -> Result<(), Refusal> {
        let by = wanted - self.delta();
        self.delta = Some(wanted);
        if by == 0 {
            return Ok(());
        }
        self.put_new(Instruction::with2(Opcode::Lea_r64_m, SP, MemoryOperand::with_base_displ(SP, by)))
    }

    /// Returns the stack slot at a distance from rsp', for a store: `%gs:n(%r15d)`.
    pub(super) fn slot_for_store(&self, distance: i64) -> MemoryOperand {
        let displ = distance - self.delta();
        MemoryOperand::new(Register::R15D, Register::None, 1, displ, displacement_size(displ), false, Register::GS)
    }

    /// Returns the stack slot at a distance from rsp', for a load.
    pub(super) fn slot_for_load(&self, distance: i64) -> MemoryOperand {
        if self.full() {
            self.slot_for_store(distance)
        } else {
            let displ = distance - self.delta();
            MemoryOperand::new(SP, Register::None, 1, displ, displacement_size(displ), false, Register::None)
        }
    }

    pub(super) fn move_sp(&mut self, by: i64) {
        self.delta = Some(self.delta() - by);
    }

    /// Moves rsp' down, unless the frame is left out. r15 follows if it would be far above, because
    /// a signal's handler uses the stack below r15 and its lead.
    fn grow(&mut self, by: i64) -> Result<(), Refusal> {
        if let Some(change) = self.facts.saves.change(self.at) {
            self.delta = Some(self.delta() + change);
            return Ok(());
        }
        self.move_sp(by);
        if self.delta() > STACK_LEAD { self.adjust_to(0) } else { Ok(()) }
    }

    /// Says whether the next place that fixes r15 needs it at rsp' after the current push.
    fn is_last_push(&self) -> bool {
        let facts = self.facts;
        let mut next = facts.graph.next(self.at);
        for _ in 0..LOOK_AHEAD {
            let Some(at) = next else { return false };
            if facts.graph.label[at] {
                return canonical(facts.graph, facts.states, at) == 0;
            }
            match facts.code.insns[at].flow {
                Flow::Call(_) | Flow::CallIndirect => return true,
                Flow::Jump(dest) | Flow::Branch(dest) => return self.delta_of(dest) == 0,
                Flow::Next => {}
                _ => return false,
            }
            if facts.effects[at].writes & bit(Register::RSP) != 0 {
                return false;
            }
            next = facts.graph.next(at);
        }
        false
    }

    /// Emits a push or pop on the control stack.
    fn save(&mut self, ins: Result<Instruction, IcedError>, change: i64) -> Result<(), Refusal> {
        self.delta = Some(self.delta() + change);
        self.put_new(ins)
    }

    pub(super) fn push(&mut self, ins: Instruction) -> Result<(), Refusal> {
        if let Some(change) = self.facts.saves.change(self.at) {
            return self.save(Instruction::with1(Opcode::Push_r64, ins.op0_register()), change);
        }
        self.stats.stores += 1;
        if self.is_last_push() {
            // r15 moves before the store, which then needs no displacement.
            self.adjust_to(-8)?;
        }
        let slot = self.slot_for_store(-8);
        match (ins.code(), ins.op0_kind()) {
            (Opcode::Push_r64, _) if ins.op0_register() != Register::RSP => {
                // mov %reg,%gs:-8-delta(%r15d)
                self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, slot, ins.op0_register()))?;
            }
            (Opcode::Pushq_imm8 | Opcode::Pushq_imm32, _) if self.facts.code.insns[self.at].imm_reloc.is_none() => {
                // movq $imm,%gs:-8-delta(%r15d)
                self.put_new(Instruction::with2(Opcode::Mov_rm64_imm32, slot, ins.immediate(0) as i32))?;
            }
            (Opcode::Push_rm64, OpKind::Register) if ins.op0_register() != Register::RSP => {
                self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, slot, ins.op0_register()))?;
            }
            (Opcode::Push_rm64, OpKind::Memory) => {
                let scratch = self.scratch(0, 0)?;
                self.load_operand(ins, scratch.register, 8)?;
                self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, slot, scratch.register))?;
                self.release(scratch)?;
            }
            (Opcode::Push_r64 | Opcode::Push_rm64, _) => {
                // push %rsp stores the value before the push.
                let scratch = self.scratch(0, 0)?;
                let delta = self.delta();
                self.put_new(Instruction::with2(
                    Opcode::Lea_r64_m,
                    scratch.register,
                    MemoryOperand::with_base_displ(SP, -delta),
                ))?;
                self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, slot, scratch.register))?;
                self.release(scratch)?;
            }
            _ => return Err(self.refuse(Reason::StackPointerUse, "push of this operand")),
        }
        self.grow(-8)
    }

    pub(super) fn pop(&mut self, ins: Instruction) -> Result<(), Refusal> {
        if let Some(change) = self.facts.saves.change(self.at) {
            return self.save(Instruction::with1(Opcode::Pop_r64, ins.op0_register()), change);
        }
        let slot = self.slot_for_load(0);
        match (ins.code(), ins.op0_kind()) {
            (Opcode::Pop_r64 | Opcode::Pop_rm64, OpKind::Register) if ins.op0_register() == Register::RSP => {
                // pop %rsp: the popped value becomes the stack pointer.
                self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, SP, slot))?;
                self.delta = Some(0);
                return Ok(());
            }
            (Opcode::Pop_r64 | Opcode::Pop_rm64, OpKind::Register) => {
                // mov -delta(%r15),%reg
                self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, ins.op0_register(), slot))?;
                self.move_sp(8);
            }
            (Opcode::Pop_rm64, OpKind::Memory) => {
                let scratch = self.scratch(0, 0)?;
                self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, scratch.register, slot))?;
                // The processor computes the operand's address after it moved rsp.
                self.move_sp(8);
                let mut store = ins;
                store.set_code(Opcode::Mov_rm64_r64);
                store.set_op1_kind(OpKind::Register);
                store.set_op1_register(scratch.register);
                self.put_operand(store, false, true)?;
                self.release(scratch)?;
            }
            _ => return Err(self.refuse(Reason::StackPointerUse, "pop of this operand")),
        }
        Ok(())
    }

    /// Rewrites `leave` as `lea 8+delta(%rbp),%r15 ; mov (%rbp),%rbp`.
    pub(super) fn leave(&mut self) -> Result<(), Refusal> {
        let next = self.facts.graph.next(self.at).map(|next| self.facts.code.insns[next].flow);
        let delta = if next == Some(Flow::Return) { 8 } else { 0 };
        self.put_new(Instruction::with2(
            Opcode::Lea_r64_m,
            SP,
            MemoryOperand::with_base_displ(Register::RBP, 8 + delta),
        ))?;
        let saved = if self.full() {
            MemoryOperand::new(Register::EBP, Register::None, 1, 0, 1, false, Register::GS)
        } else {
            MemoryOperand::with_base(Register::RBP)
        };
        self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, Register::RBP, saved))?;
        self.delta = Some(delta);
        Ok(())
    }

    /// Rewrites adjustments of rsp by constants, copies of rsp, and computed values that become
    /// rsp. Says whether the instruction was one.
    pub(super) fn stack_arithmetic(&mut self, ins: Instruction) -> Result<bool, Refusal> {
        let flags_needed = self.facts.live.after[self.at] & self.facts.effects[self.at].writes & FLAGS != 0;
        let to_sp = ins.op_count() >= 2 && ins.op0_kind() == OpKind::Register && ins.op0_register() == Register::RSP;
        let from_sp = ins.op_count() == 2 && ins.op1_kind() == OpKind::Register && ins.op1_register() == Register::RSP;
        match ins.mnemonic() {
            Mnemonic::Add | Mnemonic::Sub if to_sp && !flags_needed => {
                let Ok(value) = ins.try_immediate(1) else { return Ok(false) };
                if self.facts.code.insns[self.at].imm_reloc.is_some() {
                    return Ok(false);
                }
                let value = value as i64;
                self.grow(if ins.mnemonic() == Mnemonic::Add { value } else { -value })?;
                Ok(true)
            }
            Mnemonic::Lea
                if to_sp
                    && ins.memory_base() == Register::RSP
                    && ins.memory_index() == Register::None
                    && self.facts.code.insns[self.at].disp_reloc.is_none() =>
            {
                self.grow(ins.memory_displacement64() as i64)?;
                Ok(true)
            }
            Mnemonic::Mov if from_sp && matches!(ins.code(), Opcode::Mov_rm64_r64 | Opcode::Mov_r64_rm64) => {
                if ins.op0_kind() != OpKind::Register || ins.op0_register() == Register::RSP {
                    return Ok(false);
                }
                // mov %rsp,%reg becomes lea -delta(%r15),%reg
                let (to, delta) = (ins.op0_register(), self.delta());
                if delta == 0 {
                    self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, to, SP))?;
                } else {
                    self.put_new(Instruction::with2(
                        Opcode::Lea_r64_m,
                        to,
                        MemoryOperand::with_base_displ(SP, -delta),
                    ))?;
                }
                Ok(true)
            }
            Mnemonic::Mov | Mnemonic::Lea if to_sp => {
                // The value becomes rsp', so the old delta does not matter any more.
                let mut replaced = ins;
                replaced.set_op0_register(SP);
                self.put_operand(replaced, ins.mnemonic() == Mnemonic::Mov, false)?;
                self.delta = Some(0);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Loads an instruction's memory operand (`size` bytes, 4 or 8) into a register.
    pub(super) fn load_operand(&mut self, ins: Instruction, to: Register, size: usize) -> Result<(), Refusal> {
        let mut load = ins;
        let (code, register) = if size == 8 {
            (Opcode::Mov_r64_rm64, to)
        } else {
            (Opcode::Mov_r32_rm32, crate::analysis::r15::like(Register::EAX, to))
        };
        load.set_code(code);
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(register);
        load.set_op1_kind(OpKind::Memory);
        self.put_operand(load, true, false)
    }
}

/// Returns the size that iced takes for a displacement: 0 is none, and 1 the shortest that fits.
fn displacement_size(displacement: i64) -> u32 {
    u32::from(displacement != 0)
}
