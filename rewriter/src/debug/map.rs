//! The map from new to original instructions (`sfi_debuginfo::map`).

use super::section::{DebugReloc, DebugSection, DebugTarget};
use crate::stats::Part;
use crate::text::layout::Text;
use crate::text::originals::Originals;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use sfi_debuginfo::map::{MapEntry, SECTION, encode};

/// Makes the section. `texts` are in the order of [`crate::object::decode::CodeMap::sections`].
pub(super) fn section(code: &Originals<'_, '_>, texts: &[Text]) -> DebugSection {
    let mut section = DebugSection { name: SECTION, bytes: Vec::new(), relocs: Vec::new() };
    for (of, text) in code.sections.iter().zip(texts) {
        let field = encode(&mut section.bytes, &entries(code, text));
        let target = DebugTarget::Code(of.section);
        section.relocs.push(DebugReloc { offset: field as u64, size: 8, target, addend: 0 });
    }
    section
}

fn entries(code: &Originals<'_, '_>, text: &Text) -> Vec<MapEntry> {
    let mut entries = Vec::new();
    for (mark, end) in text.marks.ranges(text.bytes.len() as u32) {
        let bytes = &text.bytes[mark.at as usize..end as usize];
        if bytes.is_empty() {
            continue;
        }
        let insn = &code.insns[mark.insn];
        let main = if mark.pad || insn.part == Part::Padding { None } else { main_of(insn.mnemonic, bytes) };
        entries.push(MapEntry { new: u64::from(mark.at), old: u64::from(insn.offset), main });
    }
    entries
}

/// Returns the offset of the new instruction that does the original one's work: the last one of its
/// kind. If there is none, it is the store or load that replaced a push or pop. Otherwise it is the
/// last one that is neither padding nor moves the data stack.
fn main_of(original: Mnemonic, bytes: &[u8]) -> Option<u64> {
    let new: Vec<Instruction> = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).into_iter().collect();
    let like = new.iter().rfind(|ins| ins.mnemonic() == original);
    let stack = || match original {
        Mnemonic::Push | Mnemonic::Pop => new.iter().find(|ins| ins.mnemonic() == Mnemonic::Mov),
        _ => None,
    };
    let last = || new.iter().rfind(|ins| !matches!(ins.mnemonic(), Mnemonic::Nop | Mnemonic::Lea));
    like.or_else(stack).or_else(last).map(Instruction::ip)
}
