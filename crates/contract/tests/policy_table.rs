//! Checks the positive list against what iced knows about every instruction form, and writes it.
//!
//! The list was drawn up by the selection in [`selected`]: everything that belongs to the CPUID features gcc and clang
//! use up to x86-64-v4, minus what is left out by name or by property, as the documentation of `sfi_contract::policy` says.
//! `SFI_WRITE_POLICY=1 cargo test -p sfi-contract --test policy_table` writes the tables anew; without the variable
//! the test compares. When a new iced version brings forms that the selection would take, the comparison fails until
//! somebody has reviewed the difference; the product goes on refusing them.

use iced_x86::{
    Code, CpuidFeature, Encoder, EncodingKind, FlowControl, Instruction, InstructionInfoFactory, MandatoryPrefix,
    MemoryOperand, OpAccess, OpCodeOperandKind as K, OpKind, Register,
};
use sfi_contract::policy::{self, Class, Form, Memory, prefix};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The features whose forms are candidates.
fn feature_allowed(feature: CpuidFeature) -> bool {
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
            | F::XSAVE
            | F::ADX
            | F::BMI1
            | F::BMI2
            | F::LZCNT
            | F::POPCNT
            | F::MOVBE
            | F::RDRAND
            | F::RDSEED
            | F::PREFETCHW
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
    )
}

/// Left out by mnemonic, beyond what [`selected`] leaves out by property.
fn mnemonic_excluded(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(
        code.mnemonic(),
        // Direction and interrupt flags.
        M::Std | M::Cli | M::Sti
        // State of the host and its descriptor tables.
        | M::Lar | M::Lsl | M::Verr | M::Verw | M::Sldt | M::Str | M::Smsw | M::Sgdt | M::Sidt | M::Lmsw
        // The whole XSAVE feature but xgetbv.
        | M::Xsave | M::Xsave64 | M::Xrstor | M::Xrstor64 | M::Xsetbv
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

/// Left out by name: undocumented aliases that iced keeps apart with a suffix, and single forms.
fn name_excluded(code: Code) -> bool {
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
            // Intel and AMD read a 16-bit movsxd differently, the 32-bit one is a mov nobody emits.
            Code::Movsxd_r16_rm16 | Code::Movsxd_r32_rm32
            // Undefined result.
            | Code::Bswap_r16
            // 16-bit environments.
            | Code::Fnstenv_m14byte | Code::Fldenv_m14byte | Code::Fnsave_m94byte | Code::Frstor_m94byte
        )
}

fn is_branch_form(code: Code) -> bool {
    let op = code.op_code();
    matches!(op.op0_kind(), K::br64_1 | K::br64_4) && op.address_size() != 32
}

/// A form is on the list if all of this holds.
fn selected(code: Code) -> bool {
    let op = code.op_code();
    let features = code.cpuid_features();
    if code == Code::INVALID
        || !op.is_instruction()
        || !op.mode64()
        || !op.intel_decoder64()
        || !matches!(op.encoding(), EncodingKind::Legacy | EncodingKind::VEX | EncodingKind::EVEX)
        || !features.iter().all(|f| feature_allowed(*f))
        || op.is_privileged()
        || op.must_be_cpl0()
        || op.is_input_output()
        || op.is_reserved_nop()
        || op.fwait()
        || mnemonic_excluded(code)
        || name_excluded(code)
    {
        return false;
    }
    // Operands that are not registers, ModRM memory or immediates.
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
        FlowControl::Next => !op.is_stack_instruction(),
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call => is_branch_form(code),
        FlowControl::IndirectBranch => code == Code::Jmp_rm64,
        FlowControl::IndirectCall => code == Code::Call_rm64,
        FlowControl::Return => code == Code::Retnq,
        FlowControl::Interrupt => code == Code::Int3,
        FlowControl::Exception => code == Code::Ud2,
        FlowControl::XbeginXabortXend => false,
    };
    let effects = Effects::of(code);
    let stack = matches!(code, Code::Retnq | Code::Call_rm64 | Code::Call_rel32_64);
    flow && (stack || !effects.stack)
        && !effects.segment
        && (effects.implicit_memory == 0 || stack || is_string(code) || code == Code::Xlat_m8)
        && !(effects.vsib && effects.memory_written)
}

fn is_string(code: Code) -> bool {
    code.op_code().op_kinds().iter().any(|k| matches!(k, K::seg_rSI | K::es_rDI))
}

fn is_vsib(kind: K) -> bool {
    matches!(kind, K::mem_vsib32x | K::mem_vsib64x | K::mem_vsib32y | K::mem_vsib64y | K::mem_vsib32z | K::mem_vsib64z)
}

fn may_be_memory(kind: K) -> bool {
    is_vsib(kind)
        || matches!(
            kind,
            K::mem
                | K::r8_or_mem
                | K::r16_or_mem
                | K::r32_or_mem
                | K::r64_or_mem
                | K::mm_or_mem
                | K::xmm_or_mem
                | K::ymm_or_mem
                | K::zmm_or_mem
                | K::k_or_mem
        )
}

/// Some instance of a form. `memory`: the operand that may be memory is memory. Registers that an instruction names
/// are never among those that instructions use implicitly.
fn instance(code: Code, memory: bool) -> Instruction {
    let op = code.op_code();
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    instruction.set_code_size(iced_x86::CodeSize::Code64);
    let m = MemoryOperand::with_base_displ(Register::R13, 0);
    for i in 0..op.op_count() {
        let kind = op.op_kind(i);
        let reg = |class: Register, n: u32| Register::values().nth(class as usize + n as usize).unwrap();
        let register = match kind {
            K::r8_or_mem | K::r8_reg | K::r8_opcode => reg(Register::R8L, i),
            K::r16_or_mem | K::r16_reg | K::r16_reg_mem | K::r16_rm | K::r16_opcode => reg(Register::R8W, i),
            K::r32_or_mem | K::r32_reg | K::r32_reg_mem | K::r32_rm | K::r32_opcode | K::r32_vvvv => {
                reg(Register::R8D, i)
            }
            K::r64_or_mem | K::r64_reg | K::r64_reg_mem | K::r64_rm | K::r64_opcode | K::r64_vvvv => {
                reg(Register::R8, i)
            }
            K::k_or_mem | K::k_reg | K::k_rm | K::k_vvvv => reg(Register::K2, i),
            K::mm_or_mem | K::mm_reg | K::mm_rm => reg(Register::MM2, i),
            K::xmm_or_mem | K::xmm_reg | K::xmm_rm | K::xmm_vvvv | K::xmm_is4 | K::xmm_is5 => reg(Register::XMM5, i),
            K::ymm_or_mem | K::ymm_reg | K::ymm_rm | K::ymm_vvvv | K::ymm_is4 | K::ymm_is5 => reg(Register::YMM5, i),
            K::zmm_or_mem | K::zmm_reg | K::zmm_rm | K::zmm_vvvv => reg(Register::ZMM5, i),
            K::al => Register::AL,
            K::cl => Register::CL,
            K::ax => Register::AX,
            K::dx => Register::DX,
            K::eax => Register::EAX,
            K::rax => Register::RAX,
            K::st0 => Register::ST0,
            K::sti_opcode => Register::ST3,
            _ => Register::None,
        };
        if may_be_memory(kind) && (memory || register == Register::None) {
            instruction.set_op_kind(i, OpKind::Memory);
            instruction.set_memory_base(m.base);
            instruction.set_memory_displ_size(1);
            instruction.set_memory_displacement64(16);
            let index = match kind {
                K::mem_vsib32x | K::mem_vsib64x => Register::XMM9,
                K::mem_vsib32y | K::mem_vsib64y => Register::YMM9,
                K::mem_vsib32z | K::mem_vsib64z => Register::ZMM9,
                _ => Register::None,
            };
            instruction.set_memory_index(index);
        } else if register != Register::None {
            instruction.set_op_kind(i, OpKind::Register);
            instruction.set_op_register(i, register);
        } else {
            let kind = match kind {
                K::imm8 | K::imm8_const_1 => OpKind::Immediate8,
                K::imm4_m2z => OpKind::Immediate8,
                K::imm8sex16 => OpKind::Immediate8to16,
                K::imm8sex32 => OpKind::Immediate8to32,
                K::imm8sex64 => OpKind::Immediate8to64,
                K::imm16 => OpKind::Immediate16,
                K::imm32 => OpKind::Immediate32,
                K::imm32sex64 => OpKind::Immediate32to64,
                K::imm64 => OpKind::Immediate64,
                K::br64_1 | K::br64_4 => OpKind::NearBranch64,
                K::seg_rSI => OpKind::MemorySegRSI,
                K::es_rDI => OpKind::MemoryESRDI,
                K::seg_rBX_al => {
                    instruction.set_memory_base(Register::RBX);
                    instruction.set_memory_index(Register::AL);
                    OpKind::Memory
                }
                K::None => OpKind::Register,
                other => panic!("{code:?} has an operand of kind {other:?}"),
            };
            instruction.set_op_kind(i, kind);
            if op.op_kind(i) == K::imm8_const_1 {
                instruction.set_immediate8(1);
            }
        }
    }
    if op.require_op_mask_register() {
        instruction.set_op_mask(Register::K1);
    }
    instruction
}

/// What iced's instruction information says about a form.
#[derive(Default)]
struct Effects {
    memory_operand: Option<u32>,
    memory_access: Option<OpAccess>,
    memory_written: bool,
    vsib: bool,
    implicit_memory: usize,
    written_operands: u8,
    clobbers: u16,
    stack: bool,
    segment: bool,
}

fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

impl Effects {
    fn of(code: Code) -> Effects {
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
                // rsp is not a clobber: `stack` says who touches it.
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

fn class_of(code: Code) -> Class {
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
        Code::Int3 | Code::Ud2 => Class::Trap,
        Code::Rdtsc => Class::Clock,
        Code::Cpuid | Code::Xgetbv => Class::Identity,
        Code::Ldmxcsr_m32 | Code::VEX_Vldmxcsr_m32 | Code::Stmxcsr_m32 | Code::VEX_Vstmxcsr_m32 => Class::Mxcsr,
        Code::Xlat_m8 => Class::Table,
        _ if is_branch_form(code) => Class::Branch,
        _ if is_string(code) => Class::String,
        _ if op.is_nop() || has(F::PAUSE) || has(F::CET_IBT) || has(F::MULTIBYTENOP) => Class::Hint,
        _ if matches!(code, Code::Lfence | Code::Mfence | Code::Sfence) => Class::Hint,
        _ if op.instruction_string().to_lowercase().starts_with("prefetch") => Class::Hint,
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

fn prefixes_of(code: Code) -> u8 {
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

fn form_of(code: Code) -> Form {
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
        (Some(_), Some(OpAccess::Read | OpAccess::CondRead)) => Memory::Load,
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

fn is_bit_test(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(code.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
}

fn part(class: Class) -> &'static str {
    match class {
        Class::Branch | Class::IndirectBranch | Class::Return | Class::String | Class::Table => "branch",
        Class::Integer | Class::Hint | Class::Trap | Class::Clock | Class::Identity => "integer",
        Class::X87 | Class::Mmx => "float",
        Class::Sse | Class::Mxcsr => "sse",
        Class::Avx => "avx",
        Class::Avx512 => "avx512",
    }
}

/// The text of the tables, by part.
fn tables() -> BTreeMap<&'static str, String> {
    type Key = (Class, Memory, u8, u8, u8, u16);
    let mut groups: BTreeMap<Key, Vec<Code>> = BTreeMap::new();
    for code in Code::values().filter(|c| selected(*c)) {
        let f = form_of(code);
        groups.entry((f.class, f.memory, f.operand, f.prefixes, f.writes, f.clobbers)).or_default().push(code);
    }
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for ((class, memory, operand, prefixes, writes, clobbers), codes) in groups {
        let text = tables.entry(part(class)).or_insert_with(|| {
            "//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.\n\n\
             super::forms! {\n"
                .to_owned()
        });
        let named = |names: &[(u16, &str)], set: u16| -> String {
            assert_eq!(names.iter().fold(set, |rest, (bit, _)| rest & !bit), 0, "{codes:?} {set:x}");
            names.iter().filter(|(bit, _)| set & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
        };
        let prefixes = named(
            &[(prefix::P66.into(), "P66"), (prefix::PF3.into(), "PF3"), (prefix::PF2.into(), "PF2")],
            prefixes.into(),
        );
        let writes = named(&[(1, "0"), (2, "1"), (4, "2"), (8, "3")], writes.into());
        let clobbers =
            named(&[(1, "RAX"), (2, "RCX"), (4, "RDX"), (8, "RBX"), (1 << 6, "RSI"), (1 << 7, "RDI")], clobbers);
        writeln!(text, "    {class:?} {memory:?}({operand}) [{prefixes}] writes({writes}) clobbers({clobbers}) {{")
            .unwrap();
        let mut line = String::from("       ");
        for code in codes {
            let name = format!("{code:?}");
            if line.len() + 1 + name.len() > 118 {
                writeln!(text, "{line}").unwrap();
                line = String::from("       ");
            }
            line.push(' ');
            line.push_str(&name);
        }
        writeln!(text, "{line}\n    }}").unwrap();
    }
    for text in tables.values_mut() {
        text.push_str("}\n");
    }
    tables
}

#[test]
fn tables_are_up_to_date() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy");
    let write = std::env::var_os("SFI_WRITE_POLICY").is_some();
    for (name, text) in tables() {
        let path = folder.join(format!("{name}.rs"));
        if write {
            std::fs::write(&path, text).unwrap();
        } else {
            let current = std::fs::read_to_string(&path).unwrap();
            assert!(current == text, "{} differs from the selection; see the head of this test", path.display());
        }
    }
}

/// Every listed form says about memory, registers and prefixes what iced says.
#[test]
fn listed_forms_have_the_effects_that_iced_knows() {
    if std::env::var_os("SFI_WRITE_POLICY").is_some() {
        return;
    }
    let mut count = 0;
    for (code, form) in policy::allowed() {
        assert_eq!(*form, form_of(code), "{code:?}");
        assert!(selected(code), "{code:?}");
        count += 1;
    }
    assert!(count > 2000, "only {count} forms are listed");
}

/// The encoder produces exactly the legacy prefixes the list expects, with a register and with a memory operand.
#[test]
fn listed_prefixes_are_those_of_the_encoder() {
    for (code, form) in policy::allowed() {
        for memory in [false, true] {
            let instruction = instance(code, memory);
            if form.memory == Memory::None && memory {
                continue;
            }
            let mut encoder = Encoder::new(64);
            encoder.encode(&instruction, 0).unwrap_or_else(|e| panic!("{code:?}: {e}"));
            let mut seen = 0;
            for byte in encoder.take_buffer() {
                seen |= match byte {
                    0x66 => prefix::P66,
                    0xf3 => prefix::PF3,
                    0xf2 => prefix::PF2,
                    _ => break,
                };
            }
            assert_eq!(seen, form.prefixes, "{code:?}");
        }
    }
}

/// The verifier looks for the stack pointer, for memory, and for written registers in the first three operands.
#[test]
fn general_registers_are_in_the_first_three_operands() {
    for (code, form) in policy::allowed() {
        for i in 3..code.op_code().op_count() {
            let kind = format!("{:?}", code.op_code().op_kind(i));
            assert!(kind.starts_with("imm") || kind.starts_with("xmm") || kind.starts_with("ymm"), "{code:?} {kind}");
        }
        assert!(form.writes < 8 && form.operand < 3, "{code:?}");
    }
}

/// What the contract names as left out is not on the list.
#[test]
fn excluded_forms_are_not_listed() {
    use iced_x86::Mnemonic as M;
    let excluded = [
        M::Std,
        M::Popfq,
        M::Pushfq,
        M::Push,
        M::Pop,
        M::Leave,
        M::Enter,
        M::Syscall,
        M::Sysenter,
        M::Int,
        M::Int1,
        M::Iretq,
        M::In,
        M::Out,
        M::Insb,
        M::Outsb,
        M::Hlt,
        M::Maskmovq,
        M::Maskmovdqu,
        M::Vmaskmovdqu,
        M::Vpscatterdd,
        M::Vscatterqpd,
        M::Movdir64b,
        M::Enqcmd,
        M::Clflush,
        M::Clflushopt,
        M::Clwb,
        M::Xsave,
        M::Xsavec,
        M::Xrstor,
        M::Fxsave,
        M::Fxrstor,
        M::Sgdt,
        M::Sidt,
        M::Sldt,
        M::Str,
        M::Smsw,
        M::Lar,
        M::Lsl,
        M::Rdfsbase,
        M::Rdgsbase,
        M::Wrfsbase,
        M::Wrgsbase,
        M::Swapgs,
        M::Rdpid,
        M::Rdtscp,
        M::Rdpmc,
        M::Rdpkru,
        M::Wrpkru,
        M::Monitor,
        M::Mwait,
        M::Umonitor,
        M::Xbegin,
        M::Xabort,
        M::Xend,
        M::Xtest,
        M::Tileloadd,
        M::Tilestored,
        M::Incsspq,
        M::Rdsspq,
        M::Wrssq,
        M::Setssbsy,
        M::Loadiwkey,
        M::Aesenc128kl,
        M::Bndmk,
        M::Bndstx,
        M::Pfadd,
        M::Vfmaddps,
        M::Extrq,
        M::Insertq,
        M::Lfs,
        M::Lgs,
        M::Lss,
        M::Verr,
        M::Ud0,
        M::Ud1,
        M::Senduipi,
        M::Clui,
        M::Stui,
        M::Aadd,
        M::Vp2intersectd,
        M::Ptwrite,
        M::Retf,
    ];
    for (code, _) in policy::allowed() {
        assert!(!excluded.contains(&code.mnemonic()), "{code:?}");
    }
    // The two stores with an implicit or moving address that have safe relatives.
    for code in [Code::Mov_moffs64_RAX, Code::Mov_RAX_moffs64, Code::Jmp_m1664, Code::Call_m1664, Code::Retnq_imm16] {
        assert!(policy::lookup(code).is_none(), "{code:?}");
    }
}
