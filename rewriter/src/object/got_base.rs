//! Distances from the GOT, by which position-independent code of the medium code model reaches its
//! own large data: `lea _GLOBAL_OFFSET_TABLE_(%rip),%r ; movabs $x@GOTOFF,%s ; add %s,%r`. The sum
//! is the same wherever the GOT lies. A domain has none, so its address is 0, and the distance from
//! it is the address of the data.

use crate::object::decode::Code;
use iced_x86::{Code as Opcode, Instruction, Mnemonic, Register};
use object::elf;

/// Replaces the loads of the GOT's address by `mov $0,%r32`, which leaves the flags alone, too.
pub(crate) fn replace(code: &mut Code<'_, '_>) {
    for at in code.indexes() {
        let insn = &code.insns[at];
        if insn.disp_reloc.is_none() || code.form(insn).mnemonic() != Mnemonic::Lea {
            continue;
        }
        let base = code.disp_reloc(insn).is_some_and(|reloc| {
            reloc.kind == elf::R_X86_64_GOTPC32.0
                && reloc.addend.wrapping_add(insn.behind_displacement()) == 0
                && code.object.symbols[reloc.symbol].name == b"_GLOBAL_OFFSET_TABLE_"
        });
        let ins = code.form(insn);
        let loads =
            ins.memory_base() == Register::RIP && ins.op0_register().is_gpr64() && ins.op0_register() != Register::RSP;
        let low = ins.op0_register().full_register32();
        let zero = Instruction::with2(Opcode::Mov_r32_imm32, low, 0).ok().filter(|_| base && loads);
        let Some(zero) = zero else { continue };
        code.replace(at, &zero);
        code.insns[at].disp_reloc = None;
    }
}
