//! Instructions whose memory operand moves on its own: bit tests with a register offset, table look-up.

use super::Transform;
use crate::analysis::r15::like;
use crate::analysis::regs::{CARRY, FLAGS, bit};
use crate::refusal::{Reason, Refusal};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, OpKind, Register};

/// Spill places of the two registers that a bit test needs.
const BIT_SLOT: u64 = 0;

impl Transform<'_, '_, '_> {
    /// Rewrites `bt`, `bts`, `btr`, `btc` with a memory operand and a register offset, `xlat` where loads are confined. Says whether the instruction was one.
    pub(super) fn moving_operand(&mut self, ins: Instruction) -> Result<bool, Refusal> {
        match ins.mnemonic() {
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
                if ins.op0_kind() == OpKind::Memory && ins.op1_kind() == OpKind::Register =>
            {
                self.bit_test(ins).map(|()| true)
            }
            Mnemonic::Xlatb if self.full() => self.table_lookup(ins).map(|()| true),
            _ => Ok(false),
        }
    }

    /// ```text
    /// lea EA,%a ; mov %offset,%t ; sar $6,%t ; lea (%a,%t,8),%a
    /// mov (%a),%t ; bts %offset,%t ; mov %t,%gs:(%a32)
    /// ```
    fn bit_test(&mut self, ins: Instruction) -> Result<(), Refusal> {
        let other_flags = FLAGS & !CARRY;
        let wide = ins.op1_register().is_gpr64();
        if ins.has_lock_prefix()
            || !(wide || ins.op1_register().is_gpr32())
            || self.facts.live.after[self.at] & other_flags & !self.facts.effects[self.at].kills != 0
        {
            return Err(self.refuse(
                Reason::NoSafeForm,
                "bit test of memory that is locked, narrow, or whose other flags are needed",
            ));
        }
        let address = self.scratch(0, BIT_SLOT)?;
        let word = self.scratch(0, BIT_SLOT + 1)?;
        let offset = ins.op1_register();
        let mut lea = ins;
        lea.set_code(Opcode::Lea_r64_m);
        lea.set_op0_kind(OpKind::Register);
        lea.set_op0_register(address.register);
        lea.set_op1_kind(OpKind::Memory);
        self.put_operand(lea, false, false)?;
        let (shift, scale, extend) = if wide { (6, 8, Opcode::Mov_r64_rm64) } else { (5, 4, Opcode::Movsxd_r64_rm32) };
        self.put_new(Instruction::with2(extend, word.register, offset))?;
        self.put_new(Instruction::with2(Opcode::Sar_rm64_imm8, word.register, shift))?;
        let sum = MemoryOperand::with_base_index_scale(address.register, word.register, scale);
        self.put_new(Instruction::with2(Opcode::Lea_r64_m, address.register, sum))?;

        let value = if wide { word.register } else { like(Register::EAX, word.register) };
        let (load, store) = if wide {
            (Opcode::Mov_r64_rm64, Opcode::Mov_rm64_r64)
        } else {
            (Opcode::Mov_r32_rm32, Opcode::Mov_rm32_r32)
        };
        let place = MemoryOperand::with_base(address.register);
        let ins_load =
            Instruction::with2(load, value, place).map_err(|e| self.refuse(Reason::NoSafeForm, e.to_string()))?;
        let ins_store =
            Instruction::with2(store, place, value).map_err(|e| self.refuse(Reason::NoSafeForm, e.to_string()))?;
        let stores = ins.mnemonic() != Mnemonic::Bt;
        if stores {
            // What mode match says of a wild address comes before the load's fault.
            self.check_store(&ins_store, &[])?;
        }
        self.put_plain(ins_load, true, false)?;
        let mut test = ins;
        test.set_op0_kind(OpKind::Register);
        test.set_op0_register(value);
        self.put(&test, &[])?;
        if stores {
            self.put_plain(ins_store, false, true)?;
        }
        self.release(word)?;
        self.release(address)
    }

    /// `xlat` is `mov (%rbx,%al),%al`: `movzbl %al,%s ; mov %gs:(%ebx,%s),%al`
    fn table_lookup(&mut self, ins: Instruction) -> Result<(), Refusal> {
        if ins.segment_prefix() != Register::None || ins.memory_base() != Register::RBX {
            return Err(self.refuse(Reason::NoSafeForm, "xlat with a segment or 32-bit addresses"));
        }
        let scratch = self.scratch(bit(Register::RAX) | bit(Register::RBX), BIT_SLOT)?;
        let low = like(Register::EAX, scratch.register);
        self.put_new(Instruction::with2(Opcode::Movzx_r32_rm8, low, Register::AL))?;
        let place = MemoryOperand::new(Register::EBX, low, 1, 0, 0, false, Register::GS);
        self.put_new(Instruction::with2(Opcode::Mov_r8_rm8, Register::AL, place))?;
        self.release(scratch)
    }
}
