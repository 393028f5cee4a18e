//! The effects of a form, by iced's instruction information.

use crate::instance::{instance, is_string, is_vsib, may_be_memory};
use crate::selection::{is_branch_form, is_save};
use iced_x86::{
    Code, CpuidFeature, EncodingKind, InstructionInfoFactory, MandatoryPrefix, OpAccess, OpCodeOperandKind as K,
    OpKind, Register,
};
use sfi_contract::policy::{Class, Form, Memory, prefix};

/// The effects of a form, by iced's instruction information.
#[derive(Default)]
pub struct Effects {
    pub memory_operand: Option<u32>,
    pub memory_access: Option<OpAccess>,
    pub memory_written: bool,
    pub vsib: bool,
    pub implicit_memory: usize,
    pub written_operands: u8,
    pub clobbers: u16,
    pub stack: bool,
    pub segment: bool,
}

pub fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

impl Effects {
    pub fn of(code: Code) -> Effects {
        let op = code.op_code();
        let mut effects = Effects::default();
        let mut factory = InstructionInfoFactory::new();
        effects.memory_operand = (0..op.op_count()).find(|i| may_be_memory(op.op_kind(*i)));
        effects.vsib = op.op_kinds().iter().any(|k| is_vsib(*k));
        for memory in [false, true] {
            let instruction = instance(code, memory);
            let info = factory.info(&instruction);
            let operand = effects.memory_operand.filter(|i| instruction.op_kind(*i) == OpKind::Memory);
            if let Some(i) = operand {
                let access = info.op_access(i);
                effects.memory_access = Some(access);
                effects.memory_written |= is_write(access);
            }
            let explicit = operand.is_some_and(|i| info.op_access(i) != OpAccess::NoMemAccess);
            effects.implicit_memory =
                effects.implicit_memory.max(info.used_memory().len().saturating_sub(usize::from(explicit)));
            for i in 0..op.op_count() {
                if instruction.op_kind(i) == OpKind::Register && is_write(info.op_access(i)) {
                    effects.written_operands |= 1 << i;
                }
            }
            for used in info.used_registers() {
                let register = used.register();
                effects.stack |= register.full_register() == Register::RSP;
                effects.segment |= is_write(used.access()) && register.is_segment_register();
                let named = (0..op.op_count()).any(|i| {
                    instruction.op_kind(i) == OpKind::Register
                        && is_write(info.op_access(i))
                        && instruction.op_register(i).full_register() == register.full_register()
                });
                // rsp is no clobber here: `stack` tells which forms touch it.
                let stack = register.full_register() == Register::RSP;
                if is_write(used.access()) && register.is_gpr() && !named && !stack {
                    effects.clobbers |= 1 << register.full_register().number();
                }
            }
        }
        if is_string(code) {
            effects.clobbers |= 1 << 1; // rcx, with a rep prefix
        }
        effects
    }
}

pub fn class_of(code: Code) -> Class {
    use CpuidFeature as F;
    let op = code.op_code();
    let has = |feature: F| code.cpuid_features().contains(&feature);
    let operand = |kinds: &[K]| op.op_kinds().iter().any(|k| kinds.contains(k));
    let vector = operand(&[
        K::xmm_or_mem,
        K::ymm_or_mem,
        K::zmm_or_mem,
        K::xmm_reg,
        K::xmm_rm,
        K::xmm_vvvv,
        K::xmm_is4,
        K::ymm_reg,
        K::ymm_rm,
        K::ymm_vvvv,
        K::ymm_is4,
        K::zmm_reg,
        K::zmm_rm,
        K::zmm_vvvv,
    ]);
    match code {
        Code::Retnq => Class::Return,
        Code::Call_rm64 | Code::Jmp_rm64 => Class::IndirectBranch,
        _ if is_save(code) => Class::Save,
        Code::Int3 | Code::Ud2 => Class::Trap,
        Code::Rdtsc => Class::Clock,
        Code::Cpuid => Class::Identity,
        Code::Ldmxcsr_m32 | Code::VEX_Vldmxcsr_m32 | Code::Stmxcsr_m32 | Code::VEX_Vstmxcsr_m32 => Class::Mxcsr,
        Code::Fnstenv_m28byte | Code::Fnsave_m108byte => Class::X87Places,
        Code::Xlat_m8 => Class::Table,
        _ if is_branch_form(code) => Class::Branch,
        _ if is_string(code) => Class::String,
        _ if op.is_nop() || has(F::PAUSE) || has(F::CET_IBT) || has(F::MULTIBYTENOP) => Class::Hint,
        _ if matches!(code, Code::Lfence | Code::Mfence | Code::Sfence) => Class::Hint,
        // `fwait` waits for a pending exception of x87.
        Code::Wait => Class::X87,
        _ if has(F::FPU) || has(F::FPU287) || has(F::FPU387) => Class::X87,
        _ if operand(&[K::mm_or_mem, K::mm_reg, K::mm_rm]) || has(F::MMX) => Class::Mmx,
        _ if op.encoding() == EncodingKind::EVEX || operand(&[K::k_reg, K::k_rm, K::k_vvvv, K::k_or_mem]) => {
            Class::Avx512
        }
        _ if vector || has(F::AVX) => {
            if op.encoding() == EncodingKind::VEX {
                Class::Avx
            } else {
                Class::Sse
            }
        }
        _ => Class::Integer,
    }
}

pub fn prefixes_of(code: Code) -> u8 {
    let op = code.op_code();
    if op.encoding() != EncodingKind::Legacy {
        return 0;
    }
    let mandatory = match op.mandatory_prefix() {
        MandatoryPrefix::P66 => prefix::P66,
        MandatoryPrefix::PF3 => prefix::PF3,
        MandatoryPrefix::PF2 => prefix::PF2,
        MandatoryPrefix::PNP | MandatoryPrefix::None => 0,
    };
    mandatory | if op.operand_size() == 16 { prefix::P66 } else { 0 }
}

pub fn form_of(code: Code) -> Form {
    let op = code.op_code();
    let effects = Effects::of(code);
    let memory = match (effects.memory_operand, effects.memory_access) {
        (None, _) => Memory::None,
        (Some(0), _) if matches!(op.op1_kind(), K::r16_reg | K::r32_reg | K::r64_reg) && is_bit_test(code) => {
            Memory::Moving
        }
        (Some(_), _) if effects.vsib => Memory::Gather,
        (Some(_), Some(access)) if is_write(access) => {
            if op.can_use_lock_prefix() {
                Memory::Lockable
            } else {
                Memory::Store
            }
        }
        (Some(_), Some(OpAccess::NoMemAccess)) => Memory::Address,
        (Some(_), Some(OpAccess::None)) if op.is_nop() => Memory::Address,
        (Some(_), Some(OpAccess::Read | OpAccess::CondRead)) if is_masked_load(code) => Memory::Masked,
        (Some(_), Some(OpAccess::Read)) => Memory::Load,
        (Some(i), access) => panic!("{code:?}: operand {i} {access:?}"),
    };
    Form {
        class: class_of(code),
        memory,
        operand: effects.memory_operand.unwrap_or(0) as u8,
        prefixes: prefixes_of(code),
        writes: effects.written_operands,
        clobbers: effects.clobbers,
    }
}

pub fn is_bit_test(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(code.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
}

/// Says whether it is a VEX load that reads only the elements that a vector selects. (Another arm
/// has the stores of these names already.)
fn is_masked_load(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(code.mnemonic(), M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq)
}
