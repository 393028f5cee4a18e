//! The reason to refuse an instruction that is not on the positive list. The refusal is already
//! certain here. This module only finds the rule and the words that explain it best.

use crate::Rule;
use iced_x86::{Code, CpuidFeature as F, FlowControl, Instruction, Mnemonic as M, OpCodeOperandKind as K};

/// Returns the rule that the instruction breaks, and the reason in words.
pub fn reason(instruction: &Instruction) -> (Rule, &'static str) {
    let code = instruction.code();
    if touches_segments(code) {
        return (Rule::SegmentState, "segment registers and their bases belong to the host");
    }
    if moves(code) {
        return (Rule::StoreMoving, "its memory operand does not follow from a ModRM operand alone");
    }
    if is_silent(code) {
        return (Rule::SilentAccess, "it reaches any address and never faults");
    }
    if is_system(code) {
        return (Rule::System, "system and machine-state instructions belong to the host");
    }
    if code.is_stack_instruction() {
        return (Rule::StackImplicit, "only near `call` and plain `ret` may use the control stack");
    }
    if matches!(code.flow_control(), FlowControl::IndirectBranch | FlowControl::IndirectCall) {
        return (Rule::IndirectBranch, "only 64-bit near indirect branches through the dispatch table are allowed");
    }
    (Rule::NotAllowed, "nobody has reviewed this form")
}

fn touches_segments(code: Code) -> bool {
    let segment = |k: &K| matches!(k, K::seg_reg | K::es | K::cs | K::ss | K::ds | K::fs | K::gs);
    code.op_code().op_kinds().iter().any(segment)
        || matches!(
            code.mnemonic(),
            M::Lds
                | M::Les
                | M::Lfs
                | M::Lgs
                | M::Lss
                | M::Rdfsbase
                | M::Rdgsbase
                | M::Wrfsbase
                | M::Wrgsbase
                | M::Swapgs
        )
}

fn moves(code: Code) -> bool {
    let vector = |k: &K| {
        use K::*;
        matches!(
            k,
            mem_vsib32x
                | mem_vsib64x
                | mem_vsib32y
                | mem_vsib64y
                | mem_vsib32z
                | mem_vsib64z
                | sibmem
                | mem_mib
                | seg_rDI
        )
    };
    code.op_code().op_kinds().iter().any(vector)
        || matches!(code.mnemonic(), M::Movdir64b | M::Enqcmd | M::Enqcmds | M::Ldtilecfg | M::Sttilecfg)
}

/// Says whether an instruction is a hint about an address.
pub fn is_silent(code: Code) -> bool {
    matches!(
        code.mnemonic(),
        M::Prefetch
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Cldemote
    )
}

fn is_system(code: Code) -> bool {
    let op = code.op_code();
    let feature = |f: &F| {
        matches!(
            f,
            F::SYSCALL
                | F::SEP
                | F::MSR
                | F::RTM
                | F::HLE_or_RTM
                | F::PKU
                | F::CET_SS
                | F::FXSR
                | F::XSAVE
                | F::XSAVEC
                | F::XSAVEOPT
                | F::XSAVES
                | F::MONITOR
                | F::MONITORX
                | F::WAITPKG
                | F::SGX1
                | F::SMX
                | F::VMX
                | F::SVM
                | F::UINTR
                | F::RDPMC
                | F::RDTSCP
                | F::RDPID
                | F::RDPRU
                | F::PTWRITE
                | F::KL
                | F::AESKLE
                | F::WIDE_KL
                | F::SERIALIZE
                | F::FRED
                | F::CLFSH
                | F::CLFLUSHOPT
                | F::CLWB
                | F::AMX_TILE
                | F::TSXLDTRK
                | F::HRESET
        )
    };
    op.is_privileged()
        || op.must_be_cpl0()
        || op.is_input_output()
        || code.cpuid_features().iter().any(feature)
        || matches!(code.flow_control(), FlowControl::Interrupt)
        || matches!(
            code.mnemonic(),
            M::Std
                | M::Cli
                | M::Sti
                | M::Hlt
                | M::Lar
                | M::Lsl
                | M::Verr
                | M::Verw
                | M::Sldt
                | M::Str
                | M::Smsw
                | M::Sgdt
                | M::Sidt
                | M::Lgdt
                | M::Lidt
                | M::Lldt
                | M::Ltr
                | M::Lmsw
                | M::Iret
                | M::Iretd
                | M::Iretq
                | M::Retf
        )
        || op.op_kinds().iter().any(|k| matches!(k, K::cr_reg | K::dr_reg | K::tr_reg | K::farbr2_2 | K::farbr4_2))
        || code.is_jmp_far_indirect()
        || code.is_call_far_indirect()
}
