//! Instructions that themselves add a register to their operand's address: bit tests with an offset
//! in a register, and table look-ups (`xlat`).

use super::Transform;
use super::scratch::spill_place;
use crate::analysis::r15::like;
use crate::analysis::regs::{CARRY, FLAGS, bit};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::Branch;
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, OpKind, Register};

/// Spill places of the two registers that a bit test needs.
const BIT_SLOT: u64 = 0;
/// Spill place of rax, which `cmpxchg` names.
const OLD_SLOT: u64 = 2;
/// Spill place of a bit offset in rax.
const OFFSET_SLOT: u64 = 3;
/// `jne`
const NOT_EQUAL: Branch = Branch::Condition(5);

impl Transform<'_, '_, '_> {
    /// Rewrites `bt`, `bts`, `btr` and `btc` with a memory operand and an offset in a register, and
    /// `xlat` where loads are confined. Says whether the instruction was one.
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

    /// Rewrites a bit test. The end of a locked one differs, see [`Transform::locked_bit_test`].
    ///
    /// ```text
    /// lea EA,%a ; mov %offset,%t ; sar $6,%t ; lea (%a,%t,8),%a
    /// mov (%a),%t ; bts %offset,%t ; mov %t,%gs:(%a32)
    /// ```
    fn bit_test(&mut self, ins: Instruction) -> Result<(), Refusal> {
        let other_flags = FLAGS & !CARRY;
        let wide = ins.op1_register().is_gpr64();
        if !(wide || ins.op1_register().is_gpr32())
            || self.facts.live.after[self.at] & other_flags & !self.facts.effects[self.at].kills != 0
        {
            return Err(
                self.refuse(Reason::NoSafeForm, "bit test of memory that is narrow, or whose other flags are needed")
            );
        }
        // `cmpxchg` takes the old value from rax, so a locked test keeps rax for it.
        let avoid = if ins.has_lock_prefix() { bit(Register::RAX) } else { 0 };
        let address = self.scratch(avoid, BIT_SLOT)?;
        let word = self.scratch(avoid, BIT_SLOT + 1)?;
        let offset = ins.op1_register();
        let thread = ins.segment_prefix() == Register::FS;
        if thread {
            let displacement = self.displacement_patch(&ins)?;
            self.thread_address(&ins, displacement.as_slice(), address.register, word.register)?;
        } else {
            let mut lea = ins;
            lea.set_code(Opcode::Lea_r64_m);
            lea.set_has_lock_prefix(false);
            lea.set_op0_kind(OpKind::Register);
            lea.set_op0_register(address.register);
            lea.set_op1_kind(OpKind::Memory);
            self.put_operand(lea, false, false)?;
        }
        let (shift, scale, extend) = if wide { (6, 8, Opcode::Mov_r64_rm64) } else { (5, 4, Opcode::Movsxd_r64_rm32) };
        self.put_new(Instruction::with2(extend, word.register, offset))?;
        self.put_new(Instruction::with2(Opcode::Sar_rm64_imm8, word.register, shift))?;
        let sum = MemoryOperand::with_base_index_scale(address.register, word.register, scale);
        self.put_new(Instruction::with2(Opcode::Lea_r64_m, address.register, sum))?;

        // The validator knows thread locals by their place in the window.
        let base = if thread { like(Register::EAX, address.register) } else { address.register };
        if ins.has_lock_prefix() {
            self.locked_bit_test(ins, base, word.register)?;
            self.release(word)?;
            return self.release(address);
        }
        let value = if wide { word.register } else { like(Register::EAX, word.register) };
        let (load, store) = if wide {
            (Opcode::Mov_r64_rm64, Opcode::Mov_rm64_r64)
        } else {
            (Opcode::Mov_r32_rm32, Opcode::Mov_rm32_r32)
        };
        let place = MemoryOperand::with_base(base);
        let ins_load =
            Instruction::with2(load, value, place).map_err(|e| self.refuse(Reason::NoSafeForm, e.to_string()))?;
        let ins_store =
            Instruction::with2(store, place, value).map_err(|e| self.refuse(Reason::NoSafeForm, e.to_string()))?;
        let stores = ins.mnemonic() != Mnemonic::Bt;
        if stores {
            // The check of mode match stands before the load, so it traps at a wild address first.
            self.check_store(&ins_store, &[])?;
        }
        self.put_plain(ins_load, true, false)?;
        let mut test = ins;
        test.set_op0_kind(OpKind::Register);
        test.set_op0_register(value);
        test.set_segment_prefix(Register::None);
        self.put(&test, &[])?;
        if stores {
            self.put_plain(ins_store, false, true)?;
        }
        self.release(word)?;
        self.release(address)
    }

    /// Changes a bit of the word at an address atomically:
    ///
    /// ```text
    /// mov (%a),%rax ; 1: mov %rax,%t ; bts %offset,%t ; lock cmpxchg %t,%gs:(%a32) ; jne 1b
    /// bt %offset,%rax
    /// ```
    fn locked_bit_test(&mut self, ins: Instruction, address: Register, word: Register) -> Result<(), Refusal> {
        let wide = ins.op1_register().is_gpr64();
        let sized = |register| if wide { register } else { like(Register::EAX, register) };
        let [load, copy, exchange, test] = if wide {
            [Opcode::Mov_r64_rm64, Opcode::Mov_r64_rm64, Opcode::Cmpxchg_rm64_r64, Opcode::Bt_rm64_r64]
        } else {
            [Opcode::Mov_r32_rm32, Opcode::Mov_r32_rm32, Opcode::Cmpxchg_rm32_r32, Opcode::Bt_rm32_r32]
        };
        let error = |e: iced_x86::IcedError| self.facts.code.refuse(self.at, Reason::NoSafeForm, e.to_string());
        let place = MemoryOperand::with_base(address);
        let load = Instruction::with2(load, sized(Register::RAX), place).map_err(error)?;
        let mut exchange = Instruction::with2(exchange, place, sized(word)).map_err(error)?;
        exchange.set_has_lock_prefix(true);
        let kept = self.dead() & bit(Register::RAX) == 0;
        let mut offset = ins.op1_register();
        let mut moved = None;
        if offset.full_register() == Register::RAX {
            let scratch = self.scratch(bit(Register::RAX), OFFSET_SLOT)?;
            self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, scratch.register, Register::RAX))?;
            offset = sized(scratch.register);
            moved = Some(scratch);
        }
        if kept {
            self.store_fixed(spill_place(OLD_SLOT), Register::RAX)?;
        }
        self.check_store(&exchange, &[])?;
        self.put_plain(load, true, false)?;
        let again = self.out.new_label();
        self.out.label(again);
        self.put_new(Instruction::with2(copy, sized(word), sized(Register::RAX)))?;
        let mut change = ins;
        change.set_has_lock_prefix(false);
        change.set_op0_kind(OpKind::Register);
        change.set_op0_register(sized(word));
        change.set_segment_prefix(Register::None);
        change.set_op1_register(offset);
        self.put(&change, &[])?;
        self.put_plain(exchange, true, true)?;
        self.out.branch(NOT_EQUAL, again);
        self.put_new(Instruction::with2(test, sized(Register::RAX), offset))?;
        if kept {
            self.load_fixed(Register::RAX, spill_place(OLD_SLOT))?;
        }
        moved.map_or(Ok(()), |scratch| self.release(scratch))
    }

    /// Rewrites `xlat`, which is `mov (%rbx,%al),%al`, as `movzbl %al,%s ; mov %gs:(%ebx,%s),%al`.
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
