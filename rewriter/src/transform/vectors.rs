//! Shorter names of instructions on vector registers.
//!
//! SSE has its plain moves three times: for integers, for double and for single precision. They do
//! the same, and only the last ones need no prefix. So do the two ways to clear a register.

use iced_x86::{Code as Opcode, Instruction, OpKind};

/// Gives an instruction the shortest opcode that does the same.
pub(super) fn shorten(ins: &mut Instruction) {
    use Opcode::*;
    let same = || ins.op1_kind() == OpKind::Register && ins.op0_register() == ins.op1_register();
    let code = match ins.code() {
        Movdqa_xmm_xmmm128 | Movapd_xmm_xmmm128 => Movaps_xmm_xmmm128,
        Movdqa_xmmm128_xmm | Movapd_xmmm128_xmm => Movaps_xmmm128_xmm,
        Movdqu_xmm_xmmm128 | Movupd_xmm_xmmm128 => Movups_xmm_xmmm128,
        Movdqu_xmmm128_xmm | Movupd_xmmm128_xmm => Movups_xmmm128_xmm,
        Movlpd_xmm_m64 => Movlps_xmm_m64,
        Movlpd_m64_xmm => Movlps_m64_xmm,
        Movhpd_xmm_m64 => Movhps_xmm_m64,
        Movhpd_m64_xmm => Movhps_m64_xmm,
        Pxor_xmm_xmmm128 | Xorpd_xmm_xmmm128 if same() => Xorps_xmm_xmmm128,
        _ => return,
    };
    ins.set_code(code);
}
