//! Branches that compilers write as calls, against speculation. If the callee replaces its return
//! address at once, the call is `jmp *%r` (`call 1f ; 2: pause ; lfence ; jmp 2b ; 1: mov %r,(%rsp)
//! ; ret`). If the callee drops it, the call is `ret` (`1: lea 8(%rsp),%rsp ; ret`).

use crate::object::decode::{Code, Dest, Flow, InsnIndex};
use iced_x86::{Code as Opcode, Instruction, Mnemonic, OpKind, Register};

/// Replaces such calls by their meaning. The code after them never runs.
pub(crate) fn replace(code: &mut Code<'_, '_>) {
    for at in code.indexes() {
        let Some((ins, flow)) = meaning(code, at) else { continue };
        code.replace(at, &ins);
        let insn = &mut code.insns[at];
        (insn.disp_reloc, insn.imm_reloc, insn.flow) = (None, None, flow);
    }
}

fn meaning(code: &Code<'_, '_>, at: InsnIndex) -> Option<(Instruction, Flow)> {
    let Flow::Call(Dest::Insn(callee)) = code.insns[at].flow else { return None };
    let (first, second) = (code.insns.get(callee)?, code.insns.get(callee.next())?);
    let returns = code.form(second).code() == Opcode::Retnq && second.section == first.section;
    if !returns || first.disp_reloc.or(first.imm_reloc).is_some() {
        return None;
    }
    let ins = code.form(first);
    let at_top = ins.memory_base() == Register::RSP && ins.memory_index() == Register::None;
    let drops = ins.op0_register() == Register::RSP
        && match ins.mnemonic() {
            Mnemonic::Add => ins.try_immediate(1).is_ok_and(|bytes| bytes == 8),
            Mnemonic::Lea => at_top && ins.memory_displacement64() == 8,
            _ => false,
        };
    let replaces = ins.code() == Opcode::Mov_rm64_r64
        && ins.op0_kind() == OpKind::Memory
        && at_top
        && ins.memory_displacement64() == 0
        && ins.segment_prefix() == Register::None
        && ins.op1_register() != Register::RSP;
    if drops {
        Some((Instruction::with(Opcode::Retnq), Flow::Return))
    } else if replaces {
        let jump = Instruction::with1(Opcode::Jmp_rm64, ins.op1_register()).ok()?;
        Some((jump, Flow::JumpIndirect))
    } else {
        None
    }
}
