//! r15 of the original code in memory, at a fixed place of the TCB page.

use super::scratch::fixed;
use super::{SP, Transform};
use crate::decode::Flow;
use crate::r15::{like, replace};
use crate::refusal::Refusal;
use crate::regs::bit;
use iced_x86::{Code as Opcode, Instruction, MemorySize, Mnemonic, OpKind, Register};
use sfi_contract::layout::TCB_R15;

const HOME_SLOT: u64 = 11;

impl Transform<'_, '_, '_> {
    /// Rewrites an instruction that names r15 where r15 lives in memory.
    pub(super) fn homed(&mut self) -> Result<(), Refusal> {
        let ins = self.facts.code.insns[self.at].ins;
        if matches!(self.facts.code.insns[self.at].flow, Flow::CallIndirect | Flow::JumpIndirect) {
            return self.lower(ins);
        }
        if let Some(direct) = self.with_memory_home(&ins) {
            return self.put(&direct, &[]);
        }
        let effects = self.facts.effects[self.at];
        let reads = effects.uses & bit(SP) != 0;
        let writes = effects.writes & bit(SP) != 0;
        // A plain load into r15 may use its own base as the scratch register; others want a free one.
        let scratch = self.scratch(high_byte_avoid(&ins), HOME_SLOT)?;
        if reads || !is_whole_write(&ins) {
            self.load_fixed(scratch.register, TCB_R15)?;
        }
        let mut replaced = ins;
        replace(&mut replaced, SP, scratch.register);
        self.lower(replaced)?;
        if writes {
            self.store_fixed(TCB_R15, scratch.register)?;
        }
        self.release(scratch)
    }

    /// The instruction with r15's memory place as its memory operand, where one instruction can do it.
    fn with_memory_home(&self, ins: &Instruction) -> Option<Instruction> {
        if (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory) || ins.op_count() != 2 {
            return None;
        }
        let is_sp = |op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == SP;
        let names_rsp = (0..2)
            .any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == Register::RSP);
        if names_rsp || is_sp(0) == is_sp(1) || self.facts.code.insns[self.at].imm_reloc.is_some() {
            return None;
        }
        if ins.mnemonic() == Mnemonic::Mov {
            return match ins.code() {
                // mov %r15,%reg loads; the low half is at the same address.
                Opcode::Mov_rm64_r64 | Opcode::Mov_r64_rm64 if is_sp(1) => {
                    Instruction::with2(Opcode::Mov_r64_rm64, ins.op0_register(), fixed(TCB_R15)).ok()
                }
                Opcode::Mov_rm32_r32 | Opcode::Mov_r32_rm32 if is_sp(1) => {
                    Instruction::with2(Opcode::Mov_r32_rm32, ins.op0_register(), fixed(TCB_R15)).ok()
                }
                Opcode::Mov_rm64_r64 | Opcode::Mov_r64_rm64 => {
                    Instruction::with2(Opcode::Mov_rm64_r64, fixed(TCB_R15), ins.op1_register()).ok()
                }
                // mov $imm,%r15d clears the upper half: the same as the sign-extended 64-bit store of a positive value.
                Opcode::Mov_r32_imm32 if (ins.immediate32() as i32) >= 0 => {
                    Instruction::with2(Opcode::Mov_rm64_imm32, fixed(TCB_R15), ins.immediate32() as i32).ok()
                }
                _ => None,
            };
        }
        // op %reg,%r15 and op $imm,%r15 whose ModRM operand is r15: 64-bit ones may write, narrower ones may only read.
        let (slot, other_is_plain) = (0, !is_sp(1));
        let code = ins.op_code();
        let modrm = matches!(
            code.op_kind(slot),
            iced_x86::OpCodeOperandKind::r64_or_mem | iced_x86::OpCodeOperandKind::r32_or_mem
        );
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
        if !is_sp(0) || !other_is_plain || !modrm || !arithmetic || (!reads_only && !ins.op0_register().is_gpr64()) {
            return None;
        }
        let mut direct = *ins;
        direct.set_op0_kind(OpKind::Memory);
        direct.set_memory_base(Register::None);
        direct.set_memory_index(Register::None);
        direct.set_memory_index_scale(1);
        direct.set_memory_displacement64(TCB_R15);
        direct.set_memory_displ_size(4);
        direct.set_segment_prefix(Register::GS);
        debug_assert!(direct.memory_size() != MemorySize::Unknown);
        Some(direct)
    }
}

/// Whether the write to r15 covers all of it (32-bit writes clear the upper half).
fn is_whole_write(ins: &Instruction) -> bool {
    ins.op0_kind() == OpKind::Register
        && ins.op0_register().full_register() == SP
        && (ins.op0_register().is_gpr64() || ins.op0_register().is_gpr32())
}

/// An instruction with a high byte register cannot name a register that needs REX.
fn high_byte_avoid(ins: &Instruction) -> u32 {
    let high = (0..ins.op_count()).any(|op| {
        ins.op_kind(op) == OpKind::Register
            && matches!(ins.op_register(op), Register::AH | Register::BH | Register::CH | Register::DH)
    });
    if high { 0xff00 | bit(like(Register::RAX, Register::RSI)) } else { 0 }
}
