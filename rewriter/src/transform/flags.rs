//! `pushf` and `popf`. Only the six arithmetic flags take part, because the others do not change in
//! a domain. The pushed word also has bit 1 and the interrupt flag set, as a program sees it
//! natively.

use super::Transform;
use super::scratch::spill_place;
use crate::refusal::Refusal;
use iced_x86::{Code as Opcode, Instruction, Register};

/// Spill place of rax. The next one holds the flags.
const FLAGS_SLOT: u64 = 9;
/// Bit 1 and the interrupt flag.
const ALWAYS: u32 = 0x202;

impl Transform<'_, '_, '_> {
    /// Rewrites `pushf`:
    ///
    /// ```text
    /// mov %rax,%gs:place ; lahf ; seto %al ; mov %rax,%gs:place+8
    /// movzwl %ax,%eax ; rol $8,%ax ; shl $3,%ah ; or $0x202,%eax ; mov %rax,%gs:slot
    /// mov %gs:place+8,%rax ; add $0x7f,%al ; sahf ; mov %gs:place,%rax
    /// ```
    pub(super) fn push_flags(&mut self) -> Result<(), Refusal> {
        let place = spill_place(FLAGS_SLOT);
        self.stats.stores += 1;
        self.stats.flag_saves += 1;
        self.store_fixed(place, Register::RAX)?;
        self.put(&Instruction::with(Opcode::Lahf), &[])?;
        self.put_new(Instruction::with1(Opcode::Seto_rm8, Register::AL))?;
        self.store_fixed(place.plus(8), Register::RAX)?;
        // Moves the flags' low byte into al, and the overflow flag by bit 8 to bit 11.
        self.put_new(Instruction::with2(Opcode::Movzx_r32_rm16, Register::EAX, Register::AX))?;
        self.put_new(Instruction::with2(Opcode::Rol_rm16_imm8, Register::AX, 8))?;
        self.put_new(Instruction::with2(Opcode::Shl_rm8_imm8, Register::AH, 3))?;
        self.put_new(Instruction::with2(Opcode::Or_EAX_imm32, Register::EAX, ALWAYS))?;
        let slot = self.slot_for_store(-8);
        self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, slot, Register::RAX))?;
        self.load_fixed(Register::RAX, place.plus(8))?;
        self.put_new(Instruction::with2(Opcode::Add_AL_imm8, Register::AL, 0x7f))?;
        self.put(&Instruction::with(Opcode::Sahf), &[])?;
        self.load_fixed(Register::RAX, place)?;
        self.move_sp(-8);
        Ok(())
    }

    /// Rewrites `popf`:
    ///
    /// ```text
    /// mov %rax,%gs:place ; mov slot,%rax ; shr $3,%ah ; and $1,%ah ; rol $8,%ax
    /// add $0x7f,%al ; sahf ; mov %gs:place,%rax
    /// ```
    pub(super) fn pop_flags(&mut self) -> Result<(), Refusal> {
        let place = spill_place(FLAGS_SLOT);
        self.store_fixed(place, Register::RAX)?;
        let slot = self.slot_for_load(0);
        self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, Register::RAX, slot))?;
        self.put_new(Instruction::with2(Opcode::Shr_rm8_imm8, Register::AH, 3))?;
        self.put_new(Instruction::with2(Opcode::And_rm8_imm8, Register::AH, 1))?;
        self.put_new(Instruction::with2(Opcode::Rol_rm16_imm8, Register::AX, 8))?;
        // add $0x7f,%al sets OF if al was 1; sahf leaves OF alone.
        self.put_new(Instruction::with2(Opcode::Add_AL_imm8, Register::AL, 0x7f))?;
        self.put(&Instruction::with(Opcode::Sahf), &[])?;
        self.load_fixed(Register::RAX, place)?;
        self.move_sp(8);
        Ok(())
    }
}
