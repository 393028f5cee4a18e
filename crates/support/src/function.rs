//! Assembling one function, with the calls that the linker resolves.

use crate::checks;
use iced_x86::code_asm::*;
use iced_x86::{BlockEncoder, BlockEncoderOptions, IcedError, InstructionBlock};
use sfi_contract::Mode;

/// Code of one function, with the external functions that it calls: (offset of the rel32, name).
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) bytes: Vec<u8>,
    pub(crate) calls: Vec<(u64, &'static str)>,
}

/// Assembles. The placeholders among the instructions are the calls of `externals`, in order.
pub(crate) fn function(
    name: &'static str,
    externals: &[&'static str],
    mode: Mode,
    emit: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Result<Function, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    emit(&mut a)?;
    let plain = a.take_instructions();
    let instructions = if mode == Mode::Match { checks::add(&plain)? } else { plain };
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
    Ok(Function { name, aliases: &[], bytes, calls })
}

/// `call` and `jmp` whose target a relocation gives.
const PLACEHOLDER_CALL: [u8; 5] = [0xe8, 0x11, 0x11, 0x11, 0x11];
const PLACEHOLDER_JUMP: [u8; 5] = [0xe9, 0x11, 0x11, 0x11, 0x11];

pub(crate) fn call_external(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.db(&PLACEHOLDER_CALL)
}

pub(crate) fn jump_external(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.db(&PLACEHOLDER_JUMP)
}
