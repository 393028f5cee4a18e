//! The reason to refuse an instruction that is not on the positive list. The refusal is already
//! certain here. This module only finds the rule and the words that explain it best.
//!
//! It asks the decoder for mnemonics and features and not for descriptions of operands, whose
//! tables are large. A test compares its answers for all forms with those descriptions.

use crate::Rule;
use iced_x86::{Code, CpuidFeature as F, FlowControl, Instruction, Mnemonic as M};

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
    use Code::*;
    matches!(
        code,
        Mov_rm16_Sreg
            | Mov_r32m16_Sreg
            | Mov_r64m16_Sreg
            | Mov_Sreg_rm16
            | Mov_Sreg_r32m16
            | Mov_Sreg_r64m16
            | Pushw_ES
            | Pushd_ES
            | Popw_ES
            | Popd_ES
            | Pushw_CS
            | Pushd_CS
            | Popw_CS
            | Pushw_SS
            | Pushd_SS
            | Popw_SS
            | Popd_SS
            | Pushw_DS
            | Pushd_DS
            | Popw_DS
            | Popd_DS
            | Pushw_FS
            | Pushd_FS
            | Pushq_FS
            | Popw_FS
            | Popd_FS
            | Popq_FS
            | Pushw_GS
            | Pushd_GS
            | Pushq_GS
            | Popw_GS
            | Popd_GS
            | Popq_GS
    ) || matches!(
        code.mnemonic(),
        M::Svdc
            | M::Rsdc
            | M::Lds
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
    matches!(
        code.mnemonic(),
        M::Movdir64b
            | M::Enqcmd
            | M::Enqcmds
            | M::Ldtilecfg
            | M::Sttilecfg
            | M::Tileloadd
            | M::Tileloaddt1
            | M::Tilestored
            | M::Bndldx
            | M::Bndstx
            | M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Vpgatherdd
            | M::Vpscatterdd
            | M::Vpgatherdq
            | M::Vpscatterdq
            | M::Vpgatherqd
            | M::Vpscatterqd
            | M::Vpgatherqq
            | M::Vpscatterqq
            | M::Vgatherdps
            | M::Vscatterdps
            | M::Vgatherpf0dps
            | M::Vscatterpf0dps
            | M::Vgatherpf1dps
            | M::Vscatterpf1dps
            | M::Vgatherdpd
            | M::Vscatterdpd
            | M::Vgatherpf0dpd
            | M::Vscatterpf0dpd
            | M::Vgatherpf1dpd
            | M::Vscatterpf1dpd
            | M::Vgatherqps
            | M::Vscatterqps
            | M::Vgatherpf0qps
            | M::Vscatterpf0qps
            | M::Vgatherpf1qps
            | M::Vscatterpf1qps
            | M::Vgatherqpd
            | M::Vscatterqpd
            | M::Vgatherpf0qpd
            | M::Vscatterpf0qpd
            | M::Vgatherpf1qpd
            | M::Vscatterpf1qpd
    )
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
    code.is_privileged()
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
        || code.is_jmp_far()
        || code.is_call_far()
        || code.is_jmp_far_indirect()
        || code.is_call_far_indirect()
}
