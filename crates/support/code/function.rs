//! The assembly of one function, with the calls that the linker resolves.

use crate::checks::{self, Piece};
use iced_x86::code_asm::*;
use iced_x86::{BlockEncoder, BlockEncoderOptions, IcedError, Instruction, InstructionBlock, MemoryOperand, Register};
use sfi_contract::{Anchored, Mode};

/// Code of one function. `calls` holds the external functions that it calls: offset of the rel32,
/// name.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) bytes: Vec<u8>,
    pub(crate) calls: Vec<(u64, &'static str)>,
    /// Offsets of 32-bit displacements, with the places that they name.
    pub(crate) places: Vec<(u64, Anchored)>,
}

/// Returns the operand `%gs:place` with 32-bit address size.
pub(crate) fn fixed(place: Anchored) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, place.symbolic() as i64, 4, false, Register::GS)
}

/// Assembles a function. The placeholders among the instructions are the calls of `externals`, in
/// order.
pub(crate) fn function(
    name: &'static str,
    externals: &[&'static str],
    mode: Mode,
    emit: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Result<Function, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    emit(&mut a)?;
    let plain = a.take_instructions();
    let pieces = match mode {
        Mode::Match => checks::add(&plain)?,
        _ => plain.into_iter().map(Piece::from).collect(),
    };
    let mut instructions: Vec<Instruction> = pieces.iter().map(|piece| piece.instruction).collect();
    let named: Vec<_> = instructions.iter_mut().map(take_place).collect();
    let block = InstructionBlock::new(&instructions, 0);
    let result = BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let mut bytes = result.code_buffer;
    let mut calls = Vec::new();
    let mut names = externals.iter();
    for &offset in &result.new_instruction_offsets {
        let at = offset as usize;
        if bytes.get(at..at + 5) == Some(&PLACEHOLDER_CALL) || bytes.get(at..at + 5) == Some(&PLACEHOLDER_JUMP) {
            bytes[at + 1..at + 5].fill(0);
            calls.extend(names.next().map(|name| (u64::from(offset) + 1, *name)));
        }
    }
    let mut places = Vec::new();
    let offsets = result.new_instruction_offsets.iter().map(|offset| u64::from(*offset));
    for ((at, piece), named) in offsets.clone().zip(&pieces).zip(named) {
        places.extend(piece.fields.iter().map(|(field, place)| (at + *field as u64, *place)));
        // The displacement comes last, because these instructions have no immediate.
        let end = offsets.clone().find(|end| *end > at).unwrap_or(bytes.len() as u64);
        places.extend(named.map(|place| (end - 4, place)));
    }
    Ok(Function { name, aliases: &[], bytes, calls, places })
}

/// Replaces a symbolic displacement by a number that can be encoded. Returns the place that it
/// named.
fn take_place(instruction: &mut Instruction) -> Option<Anchored> {
    let place = Anchored::from_symbolic(instruction.memory_displacement64())?;
    instruction.set_memory_displacement64(0);
    Some(place)
}

/// `call` and `jmp` with a target that a relocation will give.
const PLACEHOLDER_CALL: [u8; 5] = [0xe8, 0x11, 0x11, 0x11, 0x11];
const PLACEHOLDER_JUMP: [u8; 5] = [0xe9, 0x11, 0x11, 0x11, 0x11];

pub(crate) fn call_external(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.db(&PLACEHOLDER_CALL)
}

pub(crate) fn jump_external(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.db(&PLACEHOLDER_JUMP)
}
