//! The checks of mode match ([`sfi_contract::matching`]) before the stores of the support code,
//! which has no indirect branches.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use sfi_contract::matching::{BRANCH, HEAD, STORE, STORE_KEEPING_FLAGS};

/// Instructions before a `rep movsb` that belong to its unsafe region: two masks of two each.
const REGION: usize = 4;

/// The same instructions with a check before each store and each indirect call.
pub(crate) fn add(plain: &[Instruction]) -> Result<Vec<Instruction>, IcedError> {
    let mut checked = Vec::new();
    for (at, i) in plain.iter().enumerate() {
        let first = checked.len();
        if plain.get(at + REGION).is_some_and(|copy| copy.code() == Code::Movsb_m8_m8) {
            let last = MemoryOperand::with_base_index_scale_displ_size(Register::RDI, Register::RCX, 1, -1, 1);
            for end in [MemoryOperand::with_base(Register::RDI), last] {
                // jrcxz behind the check; the lengths of `lea` differ. The masks change the flags.
                let lea = if end.displacement == 0 { 3 } else { 5 };
                let over = HEAD.len() + lea + STORE.len();
                bytes(&mut checked, &[0xe3, over as u8])?;
                check(&mut checked, end, &STORE)?;
            }
        } else if plain.get(at + 1).is_some_and(Instruction::is_call_near_indirect) {
            // The mask and the call are one region.
            let pointer = MemoryOperand::with_base(i.op0_register().full_register());
            check(&mut checked, pointer, &BRANCH)?;
        } else if i.op0_kind() == iced_x86::OpKind::Memory && !i.is_call_near_indirect() && i.memory_base().is_gpr32() {
            let [base, index] = [i.memory_base(), i.memory_index()].map(Register::full_register);
            let displacement = i.memory_displacement64() as i32;
            let scale = i.memory_index_scale();
            let place = MemoryOperand::new(base, index, scale, displacement.into(), 1, false, Register::None);
            check(&mut checked, place, &STORE_KEEPING_FLAGS)?;
        }
        // A label names the first of them.
        let mut own = *i;
        if let Some(check) = checked.get_mut(first) {
            check.set_ip(i.ip());
            own.set_ip(0);
        }
        checked.push(own);
    }
    Ok(checked)
}

fn check(to: &mut Vec<Instruction>, place: MemoryOperand, tail: &[u8]) -> Result<(), IcedError> {
    bytes(to, &HEAD)?;
    to.push(Instruction::with2(Code::Lea_r64_m, Register::RCX, place)?);
    bytes(to, tail)
}

fn bytes(to: &mut Vec<Instruction>, bytes: &[u8]) -> Result<(), IcedError> {
    for part in bytes.chunks(16) {
        to.push(Instruction::with_declare_byte(part)?);
    }
    Ok(())
}
