//! The forms that the list takes: everything that belongs to the CPUID features that gcc and clang
//! use up to x86-64-v4. Forms are left out by name or by property, as the documentation of
//! `sfi_contract::policy` says.

use crate::effects::Effects;
use crate::instance::is_string;
use iced_x86::{Code, CpuidFeature, EncodingKind, FlowControl, OpCodeOperandKind as K};
use sfi_contract::policy::refusal;

/// Says whether a feature's forms are candidates.
pub fn feature_allowed(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    matches!(
        feature,
        F::INTEL8086
            | F::INTEL186
            | F::INTEL286
            | F::INTEL386
            | F::INTEL486
            | F::X64
            | F::CMOV
            | F::CPUID
            | F::CX8
            | F::CMPXCHG16B
            | F::MULTIBYTENOP
            | F::PAUSE
            | F::TSC
            | F::CET_IBT
            | F::ADX
            | F::BMI1
            | F::BMI2
            | F::LZCNT
            | F::POPCNT
            | F::MOVBE
            | F::RDRAND
            | F::RDSEED
            | F::FPU
            | F::FPU287
            | F::FPU387
            | F::MMX
            | F::SSE
            | F::SSE2
            | F::SSE3
            | F::SSSE3
            | F::SSE4_1
            | F::SSE4_2
            | F::AES
            | F::PCLMULQDQ
            | F::SHA
            | F::GFNI
            | F::AVX
            | F::AVX2
            | F::FMA
            | F::F16C
            | F::VAES
            | F::VPCLMULQDQ
            | F::AVX_VNNI
            | F::AVX512F
            | F::AVX512BW
            | F::AVX512CD
            | F::AVX512DQ
            | F::AVX512VL
            | F::AVX512_VNNI
            | F::AVX512_IFMA
            | F::AVX512_VBMI
            | F::AVX512_VBMI2
            | F::AVX512_BITALG
            | F::AVX512_VPOPCNTDQ
            | F::AVX512_BF16
            // Only on AMD processors, undefined elsewhere. Vector registers and loads. Numeric
            // libraries have kernels for it.
            | F::FMA4
    )
}

/// Says whether a form is left out by mnemonic, beyond the properties in [`selected`].
pub fn mnemonic_excluded(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(
        code.mnemonic(),
        // Direction and interrupt flags.
        M::Std | M::Cli | M::Sti
        // State of the host and its descriptor tables.
        | M::Lar | M::Lsl | M::Verr | M::Verw | M::Sldt | M::Str | M::Smsw | M::Sgdt | M::Sidt | M::Lmsw
        // Decoders differ in their length.
        | M::Ud0 | M::Ud1
        // Only on 286 and 8087, nops today.
        | M::Fnsetpm | M::Fneni | M::Fndisi
        // Undocumented aliases.
        | M::Sal | M::Int1 | M::Fstpnce
        // 32-bit code's landing pad.
        | M::Endbr32
    )
}

/// Says whether a form is left out by name: undocumented aliases that iced marks with a suffix, and
/// single forms.
pub fn name_excluded(code: Code) -> bool {
    let name = format!("{code:?}");
    let alias = name.rsplit('_').next().is_some_and(|suffix| {
        // x87 `_DCD0`, `_DDC8`; `test` `_F6r1`
        let hex = suffix.len() >= 2 && suffix.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_lowercase());
        hex && suffix.len() == 4 && name.starts_with('F')
            || matches!(suffix, "F6r1" | "F7r1") && name.starts_with("Test")
    });
    alias
        || name.contains("fence_")
        || name.starts_with("Reservednop")
        || name.starts_with("Prefetchreserved")
        || name.contains("82") // 82 /r, invalid in 64-bit mode
        || matches!(
            code,
            // Intel and AMD read a 16-bit movsxd differently. The 32-bit one is a mov that no
            // compiler emits.
            Code::Movsxd_r16_rm16 | Code::Movsxd_r32_rm32
            // Undefined result.
            | Code::Bswap_r16
            // 16-bit environments.
            | Code::Fnstenv_m14byte | Code::Fldenv_m14byte | Code::Fnsave_m94byte | Code::Frstor_m94byte
        )
}

/// Says whether a form saves a register on the control stack, or takes it from there.
pub fn is_save(code: Code) -> bool {
    matches!(code, Code::Push_r64 | Code::Pop_r64)
}

pub fn is_branch_form(code: Code) -> bool {
    let op = code.op_code();
    matches!(op.op0_kind(), K::br64_1 | K::br64_4) && op.address_size() != 32
}

/// Says whether a form is on the list: all of these properties must hold.
pub fn selected(code: Code) -> bool {
    let op = code.op_code();
    let features = code.cpuid_features();
    if code == Code::INVALID
        || !op.is_instruction()
        || !op.mode64()
        || !(op.intel_decoder64() || features.contains(&CpuidFeature::FMA4))
        || !matches!(op.encoding(), EncodingKind::Legacy | EncodingKind::VEX | EncodingKind::EVEX)
        || !features.iter().all(|f| feature_allowed(*f))
        || op.is_privileged()
        || op.must_be_cpl0()
        || op.is_input_output()
        || op.is_reserved_nop()
        || op.fwait()
        || refusal::is_silent(code)
        || mnemonic_excluded(code)
        || name_excluded(code)
    {
        return false;
    }
    // Operands other than registers, ModRM memory and immediates.
    let odd = |kind: &K| {
        matches!(
            kind,
            K::farbr2_2
                | K::farbr4_2
                | K::mem_offs
                | K::mem_mpx
                | K::mem_mib
                | K::r32_or_mem_mpx
                | K::r64_or_mem_mpx
                | K::bnd_or_mem_mpx
                | K::seg_reg
                | K::kp1_reg
                | K::cr_reg
                | K::dr_reg
                | K::tr_reg
                | K::bnd_reg
                | K::es
                | K::cs
                | K::ss
                | K::ds
                | K::fs
                | K::gs
                | K::br16_1
                | K::br16_2
                | K::br32_1
                | K::br32_4
                | K::xbegin_2
                | K::xbegin_4
                | K::brdisp_2
                | K::brdisp_4
                | K::sibmem
                | K::tmm_reg
                | K::tmm_rm
                | K::tmm_vvvv
                | K::seg_rDI
                | K::xmmp3_vvvv
                | K::zmmp3_vvvv
        )
    };
    if op.op_kinds().iter().any(odd) {
        return false;
    }
    let flow = match code.flow_control() {
        FlowControl::Next => !op.is_stack_instruction() || is_save(code),
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call => is_branch_form(code),
        FlowControl::IndirectBranch => code == Code::Jmp_rm64,
        FlowControl::IndirectCall => code == Code::Call_rm64,
        FlowControl::Return => code == Code::Retnq,
        FlowControl::Interrupt => code == Code::Int3,
        FlowControl::Exception => code == Code::Ud2,
        FlowControl::XbeginXabortXend => false,
    };
    let effects = Effects::of(code);
    let stack = matches!(code, Code::Retnq | Code::Call_rm64 | Code::Call_rel32_64) || is_save(code);
    flow && (stack || !effects.stack)
        && !effects.segment
        && (effects.implicit_memory == 0 || stack || is_string(code) || code == Code::Xlat_m8)
        && !(effects.vsib && effects.memory_written)
}
