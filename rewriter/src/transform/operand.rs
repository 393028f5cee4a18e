//! The address of a memory operand as an instruction, and the size of its displacement.

use iced_x86::{Code as Opcode, Instruction, OpKind, Register};

/// Returns `lea EA,%to` with the registers' upper halves and without a segment.
pub(super) fn address_into(ins: &Instruction, to: Register) -> Instruction {
    let mut lea = *ins;
    lea.set_code(Opcode::Lea_r64_m);
    lea.set_op0_kind(OpKind::Register);
    lea.set_op0_register(to);
    lea.set_op1_kind(OpKind::Memory);
    lea.set_segment_prefix(Register::None);
    lea.set_has_lock_prefix(false);
    lea.set_memory_base(ins.memory_base().full_register());
    lea.set_memory_index(ins.memory_index().full_register());
    lea
}

/// Lets the encoder choose the shortest displacement, or a 32-bit one where a relocation goes.
pub(super) fn size_displacement(ins: &mut Instruction, relocated: bool) {
    if ins.is_ip_rel_memory_operand() {
        // The encoder computes the field from a target; a relocation overwrites it.
        ins.set_memory_displacement64(0);
        return;
    }
    let narrow = |r: Register| r.is_gpr32();
    let wide = if narrow(ins.memory_base()) || narrow(ins.memory_index()) { 4 } else { 8 };
    if ins.memory_base() == Register::None && !ins.memory_index().is_gpr() {
        // Without registers, the displacement's size chooses the address size.
        return;
    }
    let size = if relocated {
        wide
    } else if ins.memory_displacement64() == 0 {
        0
    } else {
        1
    };
    ins.set_memory_displ_size(size);
}
