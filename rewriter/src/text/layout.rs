//! Phase 9: places all code. Branches start short and grow until all reach.

use crate::object::decode::InsnIndex;
use crate::text::emit::{Branch, Emitter, Fixup, Item, Label, Target};
use foldhash::{HashMap, HashMapExt};
use object::elf;

/// A section's new bytes.
pub(crate) struct Text {
    pub bytes: Vec<u8>,
    pub relocs: Vec<TextReloc>,
    /// Offset of every label placed in the section.
    pub labels: HashMap<Label, u32>,
    /// The new place of each original instruction's code.
    pub marks: Vec<PlacedMark>,
}

/// A [`crate::text::emit::Mark`] that has a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedMark {
    pub offset: u32,
    pub insn: InsnIndex,
    pub pad: bool,
}

/// A relocation of the new text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextReloc {
    pub offset: u64,
    pub kind: u32,
    pub target: Target,
    pub addend: i64,
}

/// Lays out the emitted code of one section.
pub(crate) fn lay_out(emitter: &Emitter) -> Text {
    let local: HashMap<Label, usize> = emitter
        .items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| match item {
            Item::Label(label) => Some((*label, index)),
            _ => None,
        })
        .chain(emitter.placed.iter().copied())
        .collect();
    let mut long: Vec<bool> = emitter
        .items
        .iter()
        .map(|item| matches!(item, Item::Branch { kind, target } if *kind == Branch::Call || place(&local, *target).is_none()))
        .collect();
    let offsets = loop {
        let offsets = offsets(emitter, &long);
        let mut grew = false;
        for (index, item) in emitter.items.iter().enumerate() {
            let Item::Branch { target, .. } = item else { continue };
            if long[index] {
                continue;
            }
            let Some(target) = place(&local, *target) else { continue };
            let distance = i64::from(offsets[target]) - (i64::from(offsets[index]) + 2);
            if i8::try_from(distance).is_err() {
                long[index] = true;
                grew = true;
            }
        }
        if !grew {
            break offsets;
        }
    };
    write(emitter, &local, &long, &offsets)
}

/// Returns the item that holds a target's label, if it is in this section.
fn place(local: &HashMap<Label, usize>, target: Target) -> Option<usize> {
    match target {
        Target::Label(label) => local.get(&label).copied(),
        _ => None,
    }
}

fn branch_size(kind: Branch, long: bool) -> u32 {
    match (kind, long) {
        (Branch::Call, _) | (Branch::Jump, true) => 5,
        (_, false) => 2,
        (Branch::Condition(_), true) => 6,
        // jrcxz 1f ; jmp 2f ; 1: jmp target ; 2:
        (Branch::Short(_), true) => 2 + 2 + 5,
    }
}

fn offsets(emitter: &Emitter, long: &[bool]) -> Vec<u32> {
    let mut offset = 0u32;
    let mut offsets = Vec::with_capacity(emitter.items.len() + 1);
    for (index, item) in emitter.items.iter().enumerate() {
        offsets.push(offset);
        offset += match item {
            Item::Label(_) => 0,
            Item::Align { to, max } => padding(offset, *to, *max),
            Item::Bytes { len, .. } => u32::from(*len),
            Item::Branch { kind, .. } => branch_size(*kind, long[index]),
        };
    }
    offsets.push(offset);
    offsets
}

fn padding(offset: u32, to: u32, max: u32) -> u32 {
    let padding = offset.next_multiple_of(to) - offset;
    if padding <= max { padding } else { 0 }
}

fn write(emitter: &Emitter, local: &HashMap<Label, usize>, long: &[bool], offsets: &[u32]) -> Text {
    let marks = emitter.marks.iter().map(|m| PlacedMark { offset: offsets[m.item as usize], insn: m.insn, pad: m.pad });
    let mut text = Text { bytes: Vec::new(), relocs: Vec::new(), labels: HashMap::new(), marks: marks.collect() };
    for (index, item) in emitter.items.iter().enumerate() {
        debug_assert_eq!(text.bytes.len(), offsets[index] as usize);
        match item {
            Item::Label(label) => {
                text.labels.insert(*label, offsets[index]);
            }
            Item::Align { .. } => nops(&mut text.bytes, (offsets[index + 1] - offsets[index]) as usize),
            Item::Bytes { start, len, fixups } => {
                for &Fixup { field, kind, target, addend } in emitter.fixups(*fixups) {
                    text.relocs.push(TextReloc {
                        offset: u64::from(offsets[index]) + u64::from(field),
                        kind,
                        target,
                        addend,
                    });
                }
                text.bytes.extend_from_slice(&emitter.bytes[*start as usize..*start as usize + usize::from(*len)]);
            }
            Item::Branch { kind, target } => {
                let to = place(local, *target).map(|item| offsets[item]);
                branch(&mut text, *kind, long[index], *target, to);
            }
        }
    }
    // A branch over the last instruction needs an instruction to land on. After it the text goes on
    // as before.
    let end = text.bytes.len() as u32;
    let over = |item: &Item| match item {
        Item::Branch { target, .. } => place(local, *target).is_some_and(|item| offsets[item] == end),
        _ => false,
    };
    if emitter.items.iter().any(over) {
        nops(&mut text.bytes, 1);
    }
    text
}

fn branch(text: &mut Text, kind: Branch, long: bool, target: Target, to: Option<u32>) {
    match (kind, long) {
        (Branch::Jump, false) => text.bytes.push(0xeb),
        (Branch::Condition(code), false) => text.bytes.push(0x70 | code),
        (Branch::Short(short), false) => text.bytes.push(short.opcode()),
        (Branch::Call, _) => text.bytes.push(0xe8),
        (Branch::Jump, true) => text.bytes.push(0xe9),
        (Branch::Condition(code), true) => text.bytes.extend_from_slice(&[0x0f, 0x80 | code]),
        // jrcxz 1f ; jmp 2f ; 1: jmp target ; 2:
        (Branch::Short(short), true) => text.bytes.extend_from_slice(&[short.opcode(), 2, 0xeb, 5, 0xe9]),
    }
    let field = text.bytes.len();
    if !long && kind != Branch::Call {
        let distance = i64::from(to.unwrap_or(0)) - (field as i64 + 1);
        text.bytes.push(distance as i8 as u8);
        return;
    }
    match to {
        Some(to) => {
            let distance = i64::from(to) - (field as i64 + 4);
            text.bytes.extend_from_slice(&(distance as i32).to_le_bytes());
        }
        None => {
            text.bytes.extend_from_slice(&[0; 4]);
            text.relocs.push(TextReloc { offset: field as u64, kind: elf::R_X86_64_PLT32.0, target, addend: -4 });
        }
    }
}

/// Appends nops of canonical form (SDM volume 2B, NOP), each with one 66 prefix at most.
fn nops(bytes: &mut Vec<u8>, mut count: usize) {
    const NOPS: [&[u8]; 9] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    while count > 0 {
        let size = count.min(NOPS.len());
        bytes.extend_from_slice(NOPS[size - 1]);
        count -= size;
    }
}
