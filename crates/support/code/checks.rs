//! The checks of mode match ([`sfi_contract::matching`]) before the stores and the indirect calls
//! of the support code.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use sfi_contract::Anchored;
use sfi_contract::matching::{BRANCH, HEAD, Pattern, STORE, STORE_KEEPING_FLAGS};

/// Instructions of an unsafe region before its `rep movsb`: two masks of two instructions each.
const REGION: usize = 4;

/// An instruction, or bytes of a pattern.
pub(crate) struct Piece {
    pub(crate) instruction: Instruction,
    /// Fields of a pattern's bytes. The field of an instruction is its displacement, which holds a
    /// symbolic number.
    pub(crate) fields: Vec<(usize, Anchored)>,
}

impl From<Instruction> for Piece {
    fn from(instruction: Instruction) -> Piece {
        Piece { instruction, fields: Vec::new() }
    }
}

/// Returns the instructions with a check before each store and each indirect call.
pub(crate) fn add(plain: &[Instruction]) -> Result<Vec<Piece>, IcedError> {
    let mut checked = Vec::new();
    for (at, i) in plain.iter().enumerate() {
        let first = checked.len();
        if plain.get(at + REGION).is_some_and(|copy| copy.code() == Code::Movsb_m8_m8) {
            let last = MemoryOperand::with_base_index_scale_displ_size(Register::RDI, Register::RCX, 1, -1, 1);
            for end in [MemoryOperand::with_base(Register::RDI), last] {
                // jrcxz skips the check. The lengths of `lea` differ. The masks change the flags
                // anyway, so the check need not keep them.
                let lea = if end.displacement == 0 { 3 } else { 5 };
                let over = HEAD.bytes.len() + lea + STORE.bytes.len();
                checked.push(Instruction::with_declare_byte(&[0xe3, over as u8])?.into());
                check(&mut checked, end, &STORE)?;
            }
        } else if plain.get(at + 1).is_some_and(Instruction::is_call_near_indirect) {
            // The mask and the call are one region, so the check precedes both.
            let pointer = MemoryOperand::with_base(i.op0_register().full_register());
            check(&mut checked, pointer, &BRANCH)?;
        } else if i.op0_kind() == iced_x86::OpKind::Memory && !i.is_call_near_indirect() && i.memory_base().is_gpr32() {
            let [base, index] = [i.memory_base(), i.memory_index()].map(Register::full_register);
            let displacement = i.memory_displacement64() as i32;
            let scale = i.memory_index_scale();
            let place = MemoryOperand::new(base, index, scale, displacement.into(), 1, false, Register::None);
            check(&mut checked, place, &STORE_KEEPING_FLAGS)?;
        }
        // A label names the first instruction of the check.
        let mut own = *i;
        if let Some(check) = checked.get_mut(first) {
            check.instruction.set_ip(i.ip());
            own.set_ip(0);
        }
        checked.push(own.into());
    }
    Ok(checked)
}

fn check(to: &mut Vec<Piece>, place: MemoryOperand, tail: &Pattern) -> Result<(), IcedError> {
    pattern(to, &HEAD)?;
    to.push(Instruction::with2(Code::Lea_r64_m, Register::RCX, place)?.into());
    pattern(to, tail)
}

/// Declares the bytes of a pattern in pieces of at most 16 bytes, none of which ends inside a
/// field.
fn pattern(to: &mut Vec<Piece>, pattern: &Pattern) -> Result<(), IcedError> {
    let mut start = 0;
    while start < pattern.bytes.len() {
        let most = (start + 16).min(pattern.bytes.len());
        let torn = pattern.fields.iter().find(|(at, _)| (at + 1..at + 4).contains(&most));
        let end = torn.map_or(most, |(at, _)| *at);
        let inside = pattern.fields.iter().filter(|(at, _)| (start..end).contains(at));
        let fields = inside.map(|(at, place)| (at - start, *place)).collect();
        to.push(Piece { instruction: Instruction::with_declare_byte(&pattern.bytes[start..end])?, fields });
        start = end;
    }
    Ok(())
}
