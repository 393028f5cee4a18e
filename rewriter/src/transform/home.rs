//! The original code's r15 in memory: in a slot of the frame, or at a fixed place of the TCB page.

use super::memory::is_high_byte;
use super::scratch::fixed;
use super::{SP, Transform};
use crate::analysis::r15::{like, replace};
use crate::analysis::regs::bit;
use crate::object::decode::Flow;
use crate::refusal::Refusal;
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, MemorySize, Mnemonic, OpKind, Register};
use sfi_contract::layout::TCB_R15;

const HOME_SLOT: u64 = 11;

impl Transform<'_, '_, '_> {
    /// Returns the memory operand that stands for r15 at the current instruction: its slot in the
    /// frame, or its place in the TCB page.
    fn home(&self, store: bool) -> MemoryOperand {
        let facts = self.facts;
        let slot = facts.slots.depth(facts.graph.unit[self.at]);
        match slot.and_then(|depth| crate::analysis::r15::slot::operand(&facts.states[self.at], depth)) {
            Some((Register::RSP, distance)) => {
                let distance = distance - facts.saves.shrinks(self.at, facts.states, slot.unwrap_or(0));
                if store { self.slot_for_store(distance) } else { self.slot_for_load(distance) }
            }
            Some((_, displacement)) if store || self.full() => {
                MemoryOperand::new(Register::EBP, Register::None, 1, displacement, 1, false, Register::GS)
            }
            Some((base, displacement)) => MemoryOperand::with_base_displ(base, displacement),
            None if store => fixed(TCB_R15),
            None => self.fixed_for_load(TCB_R15),
        }
    }

    /// Loads r15, or its low half, from its home.
    pub(super) fn load_home(&mut self, register: Register) -> Result<(), Refusal> {
        let code = if register.is_gpr32() { Opcode::Mov_r32_rm32 } else { Opcode::Mov_r64_rm64 };
        self.put_new(Instruction::with2(code, register, self.home(false)))
    }

    /// Gives the home the value of a register: `mov %register,home`.
    pub(super) fn store_home(&mut self, register: Register) -> Result<(), Refusal> {
        self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, self.home(true), register))
    }

    /// Rewrites an instruction that names r15 with a register in r15's place.
    pub(super) fn with_register(&mut self, ins: &Instruction, register: Register) -> Result<(), Refusal> {
        let mut replaced = *ins;
        replace(&mut replaced, SP, register);
        let copies = matches!(replaced.code(), Opcode::Mov_r64_rm64 | Opcode::Mov_rm64_r64);
        let idle =
            copies && replaced.op0_kind() == replaced.op1_kind() && replaced.op0_register() == replaced.op1_register();
        if idle { Ok(()) } else { self.lower(replaced) }
    }

    /// Rewrites an instruction that names an r15 that lives in memory.
    pub(super) fn homed(&mut self) -> Result<(), Refusal> {
        let ins = *self.facts.code.ins(self.at);
        if matches!(self.facts.code.insns[self.at].flow, Flow::CallIndirect | Flow::JumpIndirect) {
            return self.lower(ins);
        }
        if self.facts.slots.is_move(self.at) {
            // The instruction saves or restores the caller's r15, which this unit never overwrites.
            // So only the stack pointer moves.
            self.held = None;
            match ins.mnemonic() {
                Mnemonic::Push => self.move_sp(-8),
                Mnemonic::Pop => self.move_sp(8),
                _ => {}
            }
            return Ok(());
        }
        let effects = self.facts.effects[self.at];
        let reads = effects.uses & bit(SP) != 0 || !is_whole_write(&ins);
        let writes = effects.writes & bit(SP) != 0;
        let avoid = high_byte_avoid(&ins);
        if let Some(register) = self.held_for(&ins, avoid)? {
            return self.with_held(&ins, register);
        }
        if let Some(register) = self.holder(&ins, avoid) {
            if reads {
                self.load_home(register)?;
            }
            return self.with_held(&ins, register);
        }
        if let Some(direct) = self.with_memory_home(&ins) {
            return self.put(&direct, &[]);
        }
        if let Some(target) = self.loaded_register(&ins) {
            // mov home,%target ; mov d(%target),%target
            self.busy |= bit(target);
            self.load_home(target)?;
            return self.with_register(&ins, target);
        }
        // The scratch register takes r15's place in the instruction.
        let scratch = self.scratch(avoid, HOME_SLOT)?;
        if reads {
            self.load_home(scratch.register)?;
        }
        self.with_register(&ins, scratch.register)?;
        if writes {
            self.store_home(scratch.register)?;
        }
        self.release(scratch)
    }

    /// Returns the register that an instruction loads, or computes an address in, if it holds
    /// nothing before. It can hold r15, which the operand's address names.
    fn loaded_register(&self, ins: &Instruction) -> Option<Register> {
        let insn = &self.facts.code.insns[self.at];
        let loads = matches!(
            ins.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd | Mnemonic::Lea
        );
        // Thread locals and relocated displacements have code of their own, which may need both.
        let plain = ins.segment_prefix() == Register::None && insn.disp_reloc.is_none();
        let target = ins.op0_register();
        let whole = ins.op0_kind() == OpKind::Register && (target.is_gpr64() || target.is_gpr32());
        let stack = [SP, Register::RSP].contains(&target.full_register());
        let unused = self.facts.effects[self.at].uses & bit(target) == 0;
        (loads && plain && ins.op1_kind() == OpKind::Memory && whole && !stack && unused)
            .then(|| target.full_register())
    }

    /// Returns the instruction with r15's home as its memory operand, if one instruction can do it.
    fn with_memory_home(&self, ins: &Instruction) -> Option<Instruction> {
        if (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory) {
            return None;
        }
        if matches!(ins.code(), Opcode::Inc_rm64 | Opcode::Dec_rm64 | Opcode::Neg_rm64 | Opcode::Not_rm64) {
            return Instruction::with1(ins.code(), self.home(true)).ok();
        }
        if ins.op_count() != 2 {
            return None;
        }
        let is_sp = |op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == SP;
        let names_rsp = (0..2)
            .any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == Register::RSP);
        if names_rsp || self.facts.code.insns[self.at].imm_reloc.is_some() {
            return None;
        }
        // test %r15,%r15 has the flags of cmp $0,%r15.
        match ins.code() {
            Opcode::Test_rm64_r64 if is_sp(0) && is_sp(1) => {
                return Instruction::with2(Opcode::Cmp_rm64_imm8, self.home(false), 0).ok();
            }
            Opcode::Test_rm32_r32 if is_sp(0) && is_sp(1) => {
                return Instruction::with2(Opcode::Cmp_rm32_imm8, self.home(false), 0).ok();
            }
            _ => {}
        }
        if is_sp(0) == is_sp(1) {
            return None;
        }
        if is_sp(1) {
            let code = loading_form(ins.code())?;
            return Instruction::with2(code, ins.op0_register(), self.home(false)).ok();
        }
        if ins.mnemonic() == Mnemonic::Mov {
            return match ins.code() {
                Opcode::Mov_rm64_r64 | Opcode::Mov_r64_rm64 => {
                    Instruction::with2(Opcode::Mov_rm64_r64, self.home(true), ins.op1_register()).ok()
                }
                Opcode::Mov_rm64_imm32 => {
                    Instruction::with2(Opcode::Mov_rm64_imm32, self.home(true), ins.immediate32to64() as i32).ok()
                }
                // mov $imm,%r15d clears the upper half. The sign-extended 64-bit store does so too
                // if the value is not negative.
                Opcode::Mov_r32_imm32 if (ins.immediate32() as i32) >= 0 => {
                    Instruction::with2(Opcode::Mov_rm64_imm32, self.home(true), ins.immediate32() as i32).ok()
                }
                _ => None,
            };
        }
        // op %reg,%r15 and op $imm,%r15 with r15 as the ModRM operand. A narrower one may only
        // read, because a 32-bit store would not clear the upper half.
        // Of the forms with two registers, the reversed ones have r15 in the other field.
        let wide = ins.op0_register().is_gpr64() || ins.op0_register().is_gpr32();
        let modrm = wide && loading_form(ins.code()) != Some(ins.code());
        let reads_only = matches!(ins.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        let arithmetic = matches!(
            ins.mnemonic(),
            Mnemonic::Add
                | Mnemonic::Sub
                | Mnemonic::And
                | Mnemonic::Or
                | Mnemonic::Xor
                | Mnemonic::Cmp
                | Mnemonic::Test
        );
        if !modrm || !arithmetic || (!reads_only && !ins.op0_register().is_gpr64()) {
            return None;
        }
        let home = self.home(!reads_only);
        let mut direct = *ins;
        direct.set_op0_kind(OpKind::Memory);
        direct.set_memory_base(home.base);
        direct.set_memory_index(Register::None);
        direct.set_memory_index_scale(1);
        direct.set_memory_displacement64(home.displacement as u64);
        direct.set_memory_displ_size(home.displ_size);
        direct.set_segment_prefix(home.segment_prefix);
        debug_assert!(direct.memory_size() != MemorySize::Unknown);
        Some(direct)
    }
}

/// Returns the form of `op %r15,%reg` that takes its source from memory. The low half of r15 is at
/// the same address.
fn loading_form(code: Opcode) -> Option<Opcode> {
    use Opcode::*;
    Some(match code {
        Mov_rm64_r64 | Mov_r64_rm64 => Mov_r64_rm64,
        Mov_rm32_r32 | Mov_r32_rm32 => Mov_r32_rm32,
        Add_rm64_r64 | Add_r64_rm64 => Add_r64_rm64,
        Add_rm32_r32 | Add_r32_rm32 => Add_r32_rm32,
        Sub_rm64_r64 | Sub_r64_rm64 => Sub_r64_rm64,
        Sub_rm32_r32 | Sub_r32_rm32 => Sub_r32_rm32,
        And_rm64_r64 | And_r64_rm64 => And_r64_rm64,
        And_rm32_r32 | And_r32_rm32 => And_r32_rm32,
        Or_rm64_r64 | Or_r64_rm64 => Or_r64_rm64,
        Or_rm32_r32 | Or_r32_rm32 => Or_r32_rm32,
        Xor_rm64_r64 | Xor_r64_rm64 => Xor_r64_rm64,
        Xor_rm32_r32 | Xor_r32_rm32 => Xor_r32_rm32,
        Cmp_rm64_r64 | Cmp_r64_rm64 => Cmp_r64_rm64,
        Cmp_rm32_r32 | Cmp_r32_rm32 => Cmp_r32_rm32,
        _ => return None,
    })
}

/// Says whether a write to r15 covers all of it (32-bit writes clear the upper half).
fn is_whole_write(ins: &Instruction) -> bool {
    ins.op0_kind() == OpKind::Register
        && ins.op0_register().full_register() == SP
        && (ins.op0_register().is_gpr64() || ins.op0_register().is_gpr32())
}

/// Returns the registers to avoid beside a high byte register, because they need REX.
fn high_byte_avoid(ins: &Instruction) -> u32 {
    if is_high_byte(ins) { 0xff00 | bit(like(Register::RAX, Register::RSI)) } else { 0 }
}
