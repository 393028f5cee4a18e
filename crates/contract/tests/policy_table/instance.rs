//! One instruction for each form.

use iced_x86::{Code, Instruction, MemoryOperand, OpCodeOperandKind as K, OpKind, Register};

pub fn is_string(code: Code) -> bool {
    code.op_code().op_kinds().iter().any(|k| matches!(k, K::seg_rSI | K::es_rDI))
}

pub fn is_vsib(kind: K) -> bool {
    matches!(kind, K::mem_vsib32x | K::mem_vsib64x | K::mem_vsib32y | K::mem_vsib64y | K::mem_vsib32z | K::mem_vsib64z)
}

pub fn may_be_memory(kind: K) -> bool {
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

/// Returns an instance of a form. With `memory`, the operand that may be memory is memory. Its
/// named registers are never registers that instructions use implicitly.
pub fn instance(code: Code, memory: bool) -> Instruction {
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
