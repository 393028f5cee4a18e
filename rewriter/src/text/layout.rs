//! Phase 9: places all code. Branches start short and grow until all reach.

use crate::text::emit::{Branch, Emitter, Fixup, Item, Label, Target};
use crate::text::marks::Marks;
use foldhash::{HashMap, HashMapExt};
use object::elf;
use std::ops::Range;

/// Most items of a loop that is placed. More are of no small loop.
const LOOP_ITEMS: usize = 64;

/// The block in which processors fetch code. Bytes.
pub(crate) const LINE: u32 = 16;

/// A section's new bytes.
pub(crate) struct Text {
    pub bytes: Vec<u8>,
    pub relocs: Vec<TextReloc>,
    /// Offset of every label placed in the section.
    pub labels: HashMap<Label, u32>,
    /// The offset of each original instruction's code.
    pub marks: Marks,
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
    let places = places(emitter);
    let branches = branches(emitter, &places);
    let loops = loops(emitter, &branches);
    let mut long = vec![false; emitter.items.len()];
    for &(item, kind, to) in &branches {
        long[item] = kind == Branch::Call || to.is_none();
    }
    let mut offsets = Vec::with_capacity(emitter.items.len() + 1);
    loop {
        place_items(emitter, &long, &loops, &mut offsets);
        let mut grew = false;
        for &(item, _, to) in &branches {
            let Some(to) = to.filter(|_| !long[item]) else { continue };
            let distance = i64::from(offsets[to]) - (i64::from(offsets[item]) + 2);
            if i8::try_from(distance).is_err() {
                long[item] = true;
                grew = true;
            }
        }
        if !grew {
            break;
        }
    }
    write(emitter, places, &branches, &long, &offsets)
}

/// Returns the item that holds each label of the section.
pub(crate) fn places(emitter: &Emitter) -> HashMap<Label, u32> {
    let labels = emitter.items.iter().enumerate().filter_map(|(index, item)| match item {
        Item::Label(label) => Some((*label, index as u32)),
        _ => None,
    });
    let mut places = HashMap::with_capacity(emitter.count_labels());
    places.extend(labels);
    places
}

/// Returns the direct branches: the item of each, and the item that holds its target's label, if
/// that is in this section.
pub(crate) fn branches(emitter: &Emitter, places: &HashMap<Label, u32>) -> Vec<(usize, Branch, Option<usize>)> {
    let place = |target| match target {
        Target::Label(label) => places.get(&label).map(|item| *item as usize),
        _ => None,
    };
    let branch = |(index, item): (usize, &Item)| match *item {
        Item::Branch { kind, target } => Some((index, kind, place(target))),
        _ => None,
    };
    emitter.items.iter().enumerate().filter_map(branch).collect()
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

/// Returns the loops that are to be placed, in the order of the code: the items from the label to
/// the last jump back that is near.
fn loops(emitter: &Emitter, branches: &[(usize, Branch, Option<usize>)]) -> Vec<Range<usize>> {
    let marked = |(index, item): (usize, &Item)| matches!(item, Item::Loop).then_some(index + 1..index + 1);
    let mut loops: Vec<Range<usize>> = emitter.items.iter().enumerate().filter_map(marked).collect();
    for &(item, _, to) in branches {
        let Some(to) = to.filter(|to| (*to..*to + LOOP_ITEMS).contains(&item)) else { continue };
        if let Ok(found) = loops.binary_search_by_key(&to, |items| items.start) {
            loops[found].end = item + 1;
        }
    }
    loops
}

/// Returns the size of an item, without padding.
fn size(item: &Item, long: bool) -> u32 {
    match item {
        Item::Label(_) | Item::Align { .. } | Item::Loop => 0,
        Item::Bytes { len, .. } => u32::from(*len),
        Item::Branch { kind, .. } => branch_size(*kind, long),
    }
}

/// Fills a list with the offsets of all items, and the end.
fn place_items(emitter: &Emitter, long: &[bool], loops: &[Range<usize>], offsets: &mut Vec<u32>) {
    let mut loops = loops.iter();
    let mut end = 0u32;
    let items = emitter.items.iter().zip(long).map(|(item, is_long)| {
        let offset = end;
        end += match item {
            Item::Align { to } => offset.next_multiple_of(*to) - offset,
            Item::Loop => {
                let items = loops.next().cloned().unwrap_or_default();
                before_loop(offset, items.map(|item| size(&emitter.items[item], long[item])).sum())
            }
            _ => size(item, *is_long),
        };
        offset
    });
    offsets.clear();
    offsets.extend(items);
    offsets.push(end);
}

/// Returns the least padding before a loop with which it lies in as few lines as its size allows.
fn before_loop(offset: u32, size: u32) -> u32 {
    let first = offset % LINE;
    let lines = |padding: u32| (first + padding + size).div_ceil(LINE) - (first + padding) / LINE;
    (0..LINE).find(|padding| lines(*padding) <= size.max(1).div_ceil(LINE)).unwrap_or(0)
}

fn write(
    emitter: &Emitter,
    mut labels: HashMap<Label, u32>,
    branches: &[(usize, Branch, Option<usize>)],
    long: &[bool],
    offsets: &[u32],
) -> Text {
    let size = offsets.last().map_or(0, |end| *end as usize);
    labels.values_mut().for_each(|place| *place = offsets[*place as usize]);
    let mut text = Text {
        bytes: Vec::with_capacity(size + 1),
        relocs: Vec::new(),
        labels,
        marks: emitter.marks.moved(|item| offsets[item as usize]),
    };
    let mut next = branches.iter();
    for (index, item) in emitter.items.iter().enumerate() {
        debug_assert_eq!(text.bytes.len(), offsets[index] as usize);
        match item {
            Item::Label(_) => {}
            Item::Align { .. } | Item::Loop => nops(&mut text.bytes, (offsets[index + 1] - offsets[index]) as usize),
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
                let to = next.next().and_then(|(_, _, to)| *to).map(|item| offsets[item]);
                branch(&mut text, *kind, long[index], *target, to);
            }
        }
    }
    // A branch over the last instruction needs an instruction to land on. After it the text goes on
    // as before.
    let end = text.bytes.len() as u32;
    if branches.iter().any(|(_, _, to)| to.is_some_and(|item| offsets[item] == end)) {
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

#[cfg(test)]
mod tests {
    use super::{LINE, before_loop};

    #[test]
    fn a_loop_lies_in_as_few_lines_as_its_size_allows() {
        assert_eq!(before_loop(0x1ac, 31), 4);
        assert_eq!(before_loop(0x1b1, 31), 0);
        assert_eq!(before_loop(0x1b2, 31), 14);
        assert_eq!(before_loop(0x1b9, 7), 0);
        assert_eq!(before_loop(0x1ba, 7), 6);
        assert_eq!(before_loop(0x1bb, 0), 0);
        for (offset, size) in (0..2 * LINE).flat_map(|offset| (1..80).map(move |size| (offset, size))) {
            let first = offset + before_loop(offset, size);
            assert_eq!((first + size - 1) / LINE - first / LINE + 1, size.div_ceil(LINE), "{offset} {size}");
        }
    }
}
