//! The causes of the new text's growth: bytes before and after, by the kind of the original
//! instruction.

use crate::object::decode::CodeSection;
use crate::stats::{Growth, Part};
use crate::text::layout::Text;
use crate::text::originals::Originals;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

/// Bytes of the opcodes of those instructions whose purpose does not depend on the one that they
/// serve. See [`inserted`].
const LEA: u8 = 0x8d;
const NOP: u8 = 0x90;
const LONG_NOP: u8 = 0x1f;
/// The byte before an opcode of two bytes, and the prefix of a form with two registers above rdi.
const TWO_BYTES: u8 = 0x0f;
const REX_WRB: u8 = 0x4d;

/// Counts the bytes of one section.
pub(crate) fn add(growth: &mut Growth, code: &Originals<'_, '_>, section: &CodeSection, text: &Text) {
    for insn in &code.insns[section.first..section.trap] {
        growth.0[insn.part as usize].0 += u64::from(insn.len);
    }
    for (mark, end) in text.marks.ranges(text.bytes.len() as u32) {
        let part = if mark.pad { Part::Indirect } else { code.insns[mark.insn].part };
        let bytes = &text.bytes[mark.at as usize..end as usize];
        let opcode = |byte: &u8| matches!(*byte, LEA | NOP | LONG_NOP);
        if !bytes.iter().any(opcode) || !(0..bytes.len()).any(|place| may_insert(bytes, place)) {
            growth.0[part as usize].1 += bytes.len() as u64;
            continue;
        }
        for new in Decoder::new(64, bytes, DecoderOptions::NONE) {
            growth.0[inserted(&new).unwrap_or(part) as usize].1 += new.len() as u64;
        }
    }
    // The bytes before the first mark are padding.
    growth.0[Part::Padding as usize].1 += text.marks.iter().next().map_or(0, |mark| u64::from(mark.at));
}

impl std::ops::AddAssign for Growth {
    fn add_assign(&mut self, more: Growth) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
    }
}

/// Says whether the byte at a place may be the opcode of an instruction that [`inserted`] knows.
fn may_insert(bytes: &[u8], place: usize) -> bool {
    let behind = |byte| place.checked_sub(1).is_some_and(|before| bytes[before] == byte);
    match bytes[place] {
        // lea d(%r15),%r15
        LEA => behind(REX_WRB),
        NOP => true,
        LONG_NOP => behind(TWO_BYTES),
        _ => false,
    }
}

/// Returns the purpose of a new instruction, if it does not depend on the one that it serves.
fn inserted(new: &Instruction) -> Option<Part> {
    let r15 = Register::R15;
    match new.mnemonic() {
        Mnemonic::Nop => Some(Part::Padding),
        Mnemonic::Lea if new.op0_register() == r15 && new.memory_base() == r15 && !new.memory_index().is_gpr() => {
            Some(Part::StackPointer)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_inserted_instructions_are_seen() {
        let inserted: [&[u8]; 7] = [
            &[0x4d, 0x8d, 0x7f, 0x08],                   // lea 8(%r15),%r15
            &[0x4d, 0x8d, 0xbf, 0x00, 0x01, 0x00, 0x00], // lea 256(%r15),%r15
            &[0x90],                                     // nop
            &[0x66, 0x90],                               // xchg %ax,%ax
            &[0x0f, 0x1f, 0x00],                         // nopl (%rax)
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],       // nopw 0(%rax,%rax)
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00], // nopl 0(%rax)
        ];
        let others: [&[u8]; 3] = [
            &[0x48, 0x8d, 0x40, 0x08], // lea 8(%rax),%rax
            &[0x83, 0xc0, 0x1f],       // add $31,%eax
            &[0x8d, 0x40, 0x08],       // lea 8(%rax),%eax
        ];
        let sees = |bytes: &[u8]| (0..bytes.len()).any(|place| may_insert(bytes, place));
        for bytes in inserted {
            let ins = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
            assert!(super::inserted(&ins).is_some() && sees(bytes), "{ins}");
        }
        for bytes in others {
            assert!(!sees(bytes), "{bytes:x?}");
        }
    }
}
