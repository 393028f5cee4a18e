//! The meaning of original instructions that have no single new counterpart, spelled out.

use crate::code::Insn;
use crate::machine::{Fields, Machine, Unknown};
use crate::sets::number;
use crate::value::Values;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

impl Machine {
    /// Executes `bts %offset,(mem)`: tests the bit in the word of memory that holds it.
    pub(crate) fn bit_test(
        &mut self,
        values: &mut Values,
        factory: &mut InstructionInfoFactory,
        insn: &Insn,
        fields: &Fields,
    ) -> Result<(), Unknown> {
        use iced_x86::Code;
        let ins = &insn.ins;
        let wide = ins.op1_register().is_gpr64();
        let address = self.address(values, insn, fields)?;
        let mut work = self.clone();
        // Any other register than that of the offset.
        let (at, whole, low) = match number(ins.op1_register()) {
            Some(11) => (10, Register::R10, Register::R10D),
            _ => (11, Register::R11, Register::R11D),
        };
        let scratch = if wide { whole } else { low };
        let offset = self.read(values, ins.op1_register());
        // The reference: lea, extension, sar, lea, load, test, store.
        work.registers[at] = offset;
        if !wide {
            let extend = Instruction::with2(Code::Movsxd_r64_rm32, whole, low);
            work.reference(values, factory, extend)?;
        }
        let shift = Instruction::with2(Code::Sar_rm64_imm8, whole, if wide { 6 } else { 5 });
        work.reference(values, factory, shift)?;
        let place = values.sum(address, work.registers[at], if wide { 8 } else { 4 }, 0);
        let size = if wide { 8 } else { 4 };
        let word = self.load(values, place, size);
        let mut work = self.clone();
        work.write(values, scratch, word);
        let mut test = *ins;
        test.set_has_lock_prefix(false);
        test.set_op0_kind(OpKind::Register);
        test.set_op0_register(scratch);
        work.reference(values, factory, Ok(test))?;
        self.flags = work.flags;
        if ins.mnemonic() != Mnemonic::Bt {
            let value = work.read(values, scratch);
            self.store(values, place, size, value)?;
        }
        Ok(())
    }

    /// Executes an instruction that neither object holds.
    fn reference(
        &mut self,
        values: &mut Values,
        factory: &mut InstructionInfoFactory,
        ins: Result<Instruction, iced_x86::IcedError>,
    ) -> Result<(), Unknown> {
        let ins = ins.map_err(|error| Unknown(error.to_string()))?;
        let fields = Fields { displacement: None, immediate: None, constant: None };
        self.step(values, factory, &Insn::plain(ins), &fields)
    }

    /// Executes `pushf` and `popf` on the image of the flags that programs see.
    pub(crate) fn flags_on_stack(
        &mut self,
        values: &mut Values,
        factory: &mut InstructionInfoFactory,
        pushed: bool,
    ) -> Result<(), Unknown> {
        use iced_x86::Code;
        let mut work = self.clone();
        let (rax, ah, al) = (Register::RAX, Register::AH, Register::AL);
        if pushed {
            for ins in [
                Ok(Instruction::with(Code::Lahf)),
                Instruction::with1(Code::Seto_rm8, al),
                Instruction::with2(Code::Movzx_r32_rm16, Register::EAX, Register::AX),
                Instruction::with2(Code::Rol_rm16_imm8, Register::AX, 8),
                Instruction::with2(Code::Shl_rm8_imm8, ah, 3),
                // Bit 1 and the interrupt flag are always set.
                Instruction::with2(Code::Or_EAX_imm32, Register::EAX, 0x202),
            ] {
                work.reference(values, factory, ins)?;
            }
            return self.push(values, work.registers[0]);
        }
        let image = self.pop(values);
        work.write(values, rax, image);
        for ins in [
            Instruction::with2(Code::Shr_rm8_imm8, ah, 3),
            Instruction::with2(Code::And_rm8_imm8, ah, 1),
            Instruction::with2(Code::Rol_rm16_imm8, Register::AX, 8),
            Instruction::with2(Code::Add_AL_imm8, al, 0x7f),
            Ok(Instruction::with(Code::Sahf)),
        ] {
            work.reference(values, factory, ins)?;
        }
        self.flags = work.flags;
        Ok(())
    }
}
