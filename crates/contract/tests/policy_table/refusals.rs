//! The reasons of refusals, for all forms, against the decoder's descriptions of operands.

use iced_x86::{
    Code, CpuidFeature as F, EncodingKind, FlowControl, Instruction, Mnemonic as M, OpCodeOperandKind as K,
};
use sfi_contract::Rule;
use sfi_contract::policy::refusal::{is_silent, reason};

fn has(code: Code, wanted: impl Fn(K) -> bool) -> bool {
    code.op_code().op_kinds().iter().any(|kind| wanted(*kind))
}

fn touches_segments(code: Code) -> bool {
    let segment = |k| matches!(k, K::seg_reg | K::es | K::cs | K::ss | K::ds | K::fs | K::gs);
    let loads = matches!(code.mnemonic(), M::Lds | M::Les | M::Lfs | M::Lgs | M::Lss);
    let bases = matches!(code.mnemonic(), M::Rdfsbase | M::Rdgsbase | M::Wrfsbase | M::Wrgsbase | M::Swapgs);
    has(code, segment) || loads || bases
}

fn moves(code: Code) -> bool {
    let moving = |k| {
        use K::*;
        let vector = matches!(k, mem_vsib32x | mem_vsib64x | mem_vsib32y | mem_vsib64y | mem_vsib32z | mem_vsib64z);
        vector || matches!(k, sibmem | mem_mib | seg_rDI)
    };
    let named = matches!(code.mnemonic(), M::Movdir64b | M::Enqcmd | M::Enqcmds | M::Ldtilecfg | M::Sttilecfg);
    has(code, moving) || named
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

#[test]
fn reasons_are_those_of_the_descriptions() {
    let rule = |code: Code| {
        if touches_segments(code) {
            Rule::SegmentState
        } else if moves(code) {
            Rule::StoreMoving
        } else if is_silent(code) {
            Rule::SilentAccess
        } else if is_system(code) {
            Rule::System
        } else if code.is_stack_instruction() {
            Rule::StackImplicit
        } else if matches!(code.flow_control(), FlowControl::IndirectBranch | FlowControl::IndirectCall) {
            Rule::IndirectBranch
        } else {
            Rule::NotAllowed
        }
    };
    let differs = |code: &Code| {
        let mut instruction = Instruction::default();
        instruction.set_code(*code);
        reason(&instruction).0 != rule(*code)
    };
    // The decoder reads no MVEX, which processors with long mode do not have.
    let readable = Code::values().filter(|code| code.encoding() != EncodingKind::MVEX);
    let wrong: Vec<Code> = readable.filter(differs).collect();
    assert_eq!(wrong, Vec::<Code>::new());
    // Each rule is met.
    for wanted in [Rule::SegmentState, Rule::StoreMoving, Rule::SilentAccess, Rule::System, Rule::NotAllowed] {
        assert!(Code::values().any(|code| rule(code) == wanted), "{wanted:?}");
    }
}
