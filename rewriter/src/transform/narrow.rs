//! 32-bit addresses of symbols (`sym(,%r,8)` and `$sym`), in code that is compiled to be linked at
//! a fixed place below 2 GiB (`-fno-pic`). Windows lie above 4 GiB, so the address goes through a
//! register: `lea sym(%rip),%s`. Flags survive.

use super::{SP, Transform};
use crate::analysis::r15::like;
use crate::analysis::regs::bit;
use crate::object::read::{Place, Reloc, SymbolIndex};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Patch, Target, address_of, tag_of};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use object::elf;

/// Spill place of the register that a displacement needs.
const DISPLACEMENT_SLOT: u64 = 8;
/// Spill place of the register that an immediate needs.
const IMMEDIATE_SLOT: u64 = 15;

impl Transform<'_, '_, '_> {
    /// Says whether a relocation's symbol has an address in the window.
    fn has_address(&self, reloc: &Reloc) -> bool {
        reloc.symbol != 0 && self.facts.code.object.symbols[reloc.symbol].place != Place::Absolute
    }

    /// Returns the relocation of the current instruction's displacement, if it wants an address and
    /// no distance. The address has 32 bits, or 64 in the form for the accumulator.
    pub(super) fn narrow_displacement(&self, ins: &Instruction) -> Option<Reloc> {
        let reloc = self.facts.code.disp_reloc(&self.facts.code.insns[self.at])?;
        let whole = [elf::R_X86_64_32.0, elf::R_X86_64_32S.0, elf::R_X86_64_64.0].contains(&reloc.kind);
        (whole && self.has_address(reloc) && !ins.is_ip_rel_memory_operand()).then_some(*reloc)
    }

    /// Returns the relocation of the current instruction's immediate, if it wants 32 bits of an
    /// address.
    pub(super) fn narrow_immediate(&self) -> Option<Reloc> {
        let reloc = self.facts.code.imm_reloc(&self.facts.code.insns[self.at])?;
        let half = [elf::R_X86_64_32.0, elf::R_X86_64_32S.0].contains(&reloc.kind);
        (half && self.has_address(reloc)).then_some(*reloc)
    }

    /// Emits an instruction whose displacement is an address:
    ///
    /// ```text
    /// lea sym(%rip),%s ; [lea (%s,%base),%s] ; OP (%s,%index,scale)
    /// ```
    pub(super) fn put_narrow(
        &mut self,
        mut ins: Instruction,
        reloc: Reloc,
        patches: Vec<Patch>,
        (load, store): (bool, bool),
    ) -> Result<(), Refusal> {
        let (base, index) = (ins.memory_base(), ins.memory_index());
        let half = [base, index].into_iter().any(|r| r.is_gpr32());
        if ins.segment_prefix() != Register::None {
            return Err(self.refuse(Reason::Relocation, "the address of a symbol in a segment"));
        }
        if ins.mnemonic() == Mnemonic::Lea && (half || !ins.op0_register().is_gpr64()) {
            return Err(self.refuse(Reason::Relocation, "the address of a symbol in 32 bits"));
        }
        let named = bit(base) | bit(index);
        let own = loaded(&ins).filter(|to| named & bit(*to) == 0);
        let scratch = match own {
            Some(_) => None,
            None => Some(self.scratch(named, DISPLACEMENT_SLOT)?),
        };
        let register = own.or(scratch.map(|scratch| scratch.register)).unwrap_or(Register::RAX);
        self.put_address(reloc, register)?;
        let sized = |register| if half { like(Register::EAX, register) } else { register };
        if index == Register::None && base != Register::None {
            ins.set_memory_index(sized(register));
            ins.set_memory_index_scale(1);
        } else {
            if base.full_register() == Register::RSP {
                return Err(self.refuse(Reason::Relocation, "a symbol, the stack pointer and an index in one address"));
            }
            if base != Register::None {
                // If the operand has a 32-bit address, it takes the low half of this sum.
                let sum = MemoryOperand::with_base_index(register, base.full_register());
                self.put_new(Instruction::with2(Opcode::Lea_r64_m, register, sum))?;
            }
            ins.set_memory_base(sized(register));
        }
        ins.set_memory_displacement64(0);
        self.put_memory(ins, patches, load, store)?;
        scratch.map_or(Ok(()), |scratch| self.release(scratch))
    }

    /// Rewrites an instruction whose immediate is an address: a register takes the immediate's
    /// place. Says whether the instruction was one.
    pub(super) fn narrow_operand(&mut self, ins: Instruction) -> Result<bool, Refusal> {
        let Some(reloc) = self.narrow_immediate() else { return Ok(false) };
        let to_register = ins.op0_kind() == OpKind::Register;
        if to_register && matches!(ins.code(), Opcode::Mov_r32_imm32 | Opcode::Mov_rm64_imm32) {
            let to = ins.op0_register().full_register();
            if [Register::RSP, SP].contains(&to) {
                return Err(self.refuse(Reason::StackPointerUse, "the stack pointer becomes an address of data"));
            }
            return self.put_address(reloc, to).map(|()| true);
        }
        let code = match ins.code() {
            Opcode::Mov_rm64_imm32 => Opcode::Mov_rm64_r64,
            Opcode::Cmp_rm64_imm32 | Opcode::Cmp_RAX_imm32 => Opcode::Cmp_rm64_r64,
            Opcode::Add_rm64_imm32 | Opcode::Add_RAX_imm32 => Opcode::Add_rm64_r64,
            Opcode::Sub_rm64_imm32 | Opcode::Sub_RAX_imm32 => Opcode::Sub_rm64_r64,
            Opcode::Pushq_imm32 => Opcode::Push_r64,
            _ => return Err(self.refuse(Reason::Relocation, "the address of a symbol in 32 bits")),
        };
        let scratch = self.scratch(0, IMMEDIATE_SLOT)?;
        self.put_address(reloc, scratch.register)?;
        let mut wide = ins;
        wide.set_code(code);
        let operand = u32::from(code != Opcode::Push_r64);
        wide.set_op_kind(operand, OpKind::Register);
        wide.set_op_register(operand, scratch.register);
        match code {
            Opcode::Push_r64 => self.push(wide)?,
            _ if self.stack_arithmetic(wide)? => {}
            _ => self.ordinary(wide)?,
        }
        self.release(scratch)?;
        Ok(true)
    }

    /// Loads a symbol's address: by `lea sym(%rip),%register`, or from the GOT if the symbol is
    /// weak and may be undefined.
    fn put_address(&mut self, reloc: Reloc, register: Register) -> Result<(), Refusal> {
        let symbol = &self.facts.code.object.symbols[reloc.symbol];
        let maybe = symbol.place == Place::Undefined && symbol.bind == elf::STB_WEAK.0;
        let (target, addend) = self.target(reloc.symbol, reloc.addend);
        if !maybe {
            return self.address_into(register, target, addend);
        }
        let place = MemoryOperand::with_base_displ_size(Register::RIP, 0, 4);
        let ins = Instruction::with2(Opcode::Mov_r64_rm64, register, place)
            .map_err(|error| self.refuse(Reason::Relocation, error.to_string()))?;
        self.put(&ins, &[Patch { immediate: false, kind: elf::R_X86_64_GOTPCREL.0, target, addend: 0 }])?;
        if addend != 0 {
            let sum = MemoryOperand::with_base_displ(register, addend);
            self.put_new(Instruction::with2(Opcode::Lea_r64_m, register, sum))?;
        }
        Ok(())
    }

    /// Returns the target of a relocation of the current instruction in the new object, and its
    /// addend. For an instruction the addend is the tag of a receiver, or 0.
    pub(super) fn target(&self, symbol: SymbolIndex, addend: i64) -> (Target, i64) {
        let code = self.facts.code.is_code_symbol(symbol);
        match self.facts.addresses.operands.get(&self.at).filter(|_| code) {
            Some(dest) => (address_of(self.facts.pads, *dest), tag_of(self.facts.pads, *dest)),
            None => (Target::Symbol(symbol as u32), addend),
        }
    }
}

/// Returns the 64-bit register that a plain load or `lea` overwrites.
fn loaded(ins: &Instruction) -> Option<Register> {
    let plain =
        matches!(ins.mnemonic(), Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd);
    let register = ins.op0_register();
    let whole = ins.op0_kind() == OpKind::Register && (register.is_gpr32() || register.is_gpr64());
    (plain && whole && ![Register::RSP, SP].contains(&register.full_register())).then(|| register.full_register())
}
