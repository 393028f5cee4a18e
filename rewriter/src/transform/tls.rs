//! Thread-local access sequences (psABI, and Drepper's "ELF Handling For Thread-Local Storage"). A
//! domain is linked statically, so every model becomes local-exec, in the domain's one block.

use super::Transform;
use super::scratch::fixed;
use crate::object::decode::{Dest, Flow};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Patch, Target};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, Register};
use object::elf;
use sfi_contract::layout::TCB;

impl Transform<'_, '_, '_> {
    /// Rewrites general-dynamic, local-dynamic and initial-exec sequences. Says whether the
    /// instruction was one.
    pub(super) fn thread_local(&mut self, ins: Instruction) -> Result<bool, Refusal> {
        let insn = &self.facts.code.insns[self.at];
        let Some(reloc) = self.facts.code.disp_reloc(insn) else { return Ok(false) };
        let behind_field = insn.behind_displacement();
        let patch = |immediate| Patch {
            immediate,
            kind: elf::R_X86_64_TPOFF32.0,
            target: Target::Symbol(reloc.symbol as u32),
            addend: reloc.addend.wrapping_add(behind_field),
        };
        match reloc.kind {
            k if k == elf::R_X86_64_TLSGD.0 => {
                self.absorb_get_addr()?;
                // mov %gs:TP,%rax ; lea x@tpoff(%rax),%rax
                self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, Register::RAX, fixed(TCB)))?;
                let operand = MemoryOperand::with_base_displ_size(Register::RAX, 0, 8);
                let lea = Instruction::with2(Opcode::Lea_r64_m, Register::RAX, operand)
                    .map_err(|error| self.refuse(Reason::ThreadLocal, error.to_string()))?;
                self.put(&lea, &[patch(false)])?;
                Ok(true)
            }
            k if k == elf::R_X86_64_TLSLD.0 => {
                self.absorb_get_addr()?;
                // mov %gs:TP,%rax
                // The DTPOFF relocations of the accesses become TPOFF.
                self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, Register::RAX, fixed(TCB)))?;
                Ok(true)
            }
            k if k == elf::R_X86_64_GOTTPOFF.0 => {
                let code = match ins.mnemonic() {
                    Mnemonic::Mov if ins.code() == Opcode::Mov_r64_rm64 => Opcode::Mov_rm64_imm32,
                    Mnemonic::Add if ins.code() == Opcode::Add_r64_rm64 => Opcode::Add_rm64_imm32,
                    _ => return Err(self.refuse(Reason::ThreadLocal, "initial-exec access other than mov and add")),
                };
                let immediate = Instruction::with2(code, ins.op0_register(), 0x7fff_ffff)
                    .map_err(|error| self.refuse(Reason::ThreadLocal, error.to_string()))?;
                self.put(&immediate, &[patch(true)])?;
                Ok(true)
            }
            k if [elf::R_X86_64_GOTPC32_TLSDESC.0, elf::R_X86_64_TLSDESC_CALL.0].contains(&k) => {
                Err(self.refuse(Reason::ThreadLocal, "TLS descriptors"))
            }
            _ => Ok(false),
        }
    }

    /// Absorbs the call of `__tls_get_addr` that must follow the current instruction.
    fn absorb_get_addr(&mut self) -> Result<(), Refusal> {
        let next = self.facts.graph.next(self.at);
        let call = next.filter(|&next| {
            !self.facts.graph.label[next]
                && matches!(self.facts.code.insns[next].flow, Flow::Call(Dest::Symbol(symbol))
                    if self.facts.code.object.symbols[symbol.index()].name == b"__tls_get_addr")
        });
        let Some(call) = call else {
            return Err(self.refuse(Reason::ThreadLocal, "no call of __tls_get_addr follows"));
        };
        self.absorbed.insert(call);
        Ok(())
    }
}
