//! The original instructions once their new code is made: the facts that layout, debug information
//! and tables still need. They take a ninth of the memory of the decoded instructions.

use crate::object::decode::{Code, CodeMap, Flow, Insn, InsnIndex, PerInsn};
use crate::refusal::{Reason, Refusal};
use crate::stats::Part;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use std::ops::Deref;

/// An original instruction.
#[derive(Clone, Copy)]
pub(crate) struct Original {
    /// Offset in its section.
    pub offset: u32,
    pub mnemonic: Mnemonic,
    pub len: u8,
    /// The purpose of its bytes.
    pub part: Part,
}

impl Original {
    /// Returns the offset of the first byte after the instruction.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

/// All original instructions of an object, with their places.
pub(crate) struct Originals<'o, 'a> {
    map: CodeMap<'o, 'a>,
    pub insns: PerInsn<Original>,
}

impl<'o, 'a> Deref for Originals<'o, 'a> {
    type Target = CodeMap<'o, 'a>;

    fn deref(&self) -> &CodeMap<'o, 'a> {
        &self.map
    }
}

impl<'o, 'a> Originals<'o, 'a> {
    /// Drops all other facts.
    pub(crate) fn new(code: Code<'o, 'a>) -> Originals<'o, 'a> {
        let forms: Vec<_> = code.forms.iter().map(|form| (form.mnemonic(), part(form))).collect();
        let original = |insn: &Insn| {
            let (mnemonic, part) = forms[usize::from(insn.form)];
            let part = match insn.flow {
                _ if insn.is_nop() => Part::Padding,
                Flow::CallIndirect | Flow::JumpIndirect => Part::Indirect,
                Flow::Call(_) | Flow::Jump(_) | Flow::Branch(_) => Part::Branch,
                _ => part,
            };
            Original { offset: insn.offset, mnemonic, len: insn.len(), part }
        };
        Originals { insns: code.insns.iter().map(original).collect(), map: code.map }
    }

    /// Returns a refusal that points at an instruction.
    pub(crate) fn refuse(&self, at: InsnIndex, reason: Reason, detail: impl Into<String>) -> Refusal {
        let section = self.map.section_of(at);
        let offset = u64::from(self.insns[at].offset);
        let bytes = &self.object.sections[section].data[offset as usize..];
        let ins = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE).decode();
        let instruction = Some(sfi_contract::syntax::text(&ins));
        Refusal { instruction, ..self.refuse_offset(section, offset, reason, detail) }
    }
}

/// Returns the purpose of the bytes of an instruction that is no branch and no padding.
fn part(ins: &Instruction) -> Part {
    let named = |register| {
        let operand = (0..ins.op_count())
            .any(|op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).full_register() == register);
        operand || ins.memory_base().full_register() == register || ins.memory_index().full_register() == register
    };
    let memory = (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory);
    match ins.mnemonic() {
        Mnemonic::Push => Part::Push,
        Mnemonic::Pop => Part::Pop,
        _ if named(Register::R15) => Part::R15,
        _ if memory && matches!(ins.memory_base(), Register::RSP | Register::RBP) => Part::Frame,
        _ if memory => Part::Memory,
        _ if named(Register::RSP) => Part::StackPointer,
        _ => Part::Rest,
    }
}
