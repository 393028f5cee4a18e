//! Phase 8b of a budgeted rewrite: charges (rules SFI-B04 to B07).
//!
//! Charges divide the code into segments. Each call's target, each place whose address is taken and
//! each target of a jump backwards is a charge. So is the target of a jump forwards that leads over
//! another charge. A charge changes the flags, so no flags may be needed at its place. It pays for
//! the instructions up to the next one, or to the trap at the function's end.

use crate::object::decode::InsnIndex;
use crate::text::emit::{Branch, Emitter, Fixups, Item, Label, Target};
use crate::text::layout::LINE;
use foldhash::{HashMap, HashSet, HashSetExt};
use iced_x86::{FlowControl, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};

/// `jb`
const BELOW: Branch = Branch::Condition(2);
/// `sub %rcx,%r14`
const COUNT: [u8; 3] = [0x49, 0x29, 0xce];

/// A place where a charge must stand although flags are needed there.
pub(crate) struct NeedsFlags(pub InsnIndex);

/// Puts the charges into the code of all sections. `entered` says whether control comes to an
/// original instruction by a call or an address, and `flags` whether flags are needed there.
/// `saved` returns the number of words that lie on the control stack there.
pub(crate) fn place(
    emitters: &mut [Emitter],
    entered: impl Fn(InsnIndex) -> bool,
    flags: impl Fn(InsnIndex) -> bool,
    saved: impl Fn(InsnIndex) -> usize,
) -> Vec<NeedsFlags> {
    let mut wanted: HashSet<Label> = HashSet::new();
    for emitter in emitters.iter() {
        let local: HashSet<Label> = labels(emitter).map(|(label, _)| label).collect();
        for item in &emitter.items {
            match item {
                Item::Label(label @ Label::Old(at)) if entered(*at) => {
                    wanted.insert(*label);
                }
                Item::Label(label @ Label::Pad(_)) => {
                    wanted.insert(*label);
                }
                Item::Bytes { fixups, .. } => {
                    wanted.extend(emitter.fixups(*fixups).iter().filter_map(|fixup| label_of(fixup.target)));
                }
                Item::Branch { kind, target } => {
                    let elsewhere = |label: &Label| *kind == Branch::Call || !local.contains(label);
                    wanted.extend(label_of(*target).filter(elsewhere));
                }
                _ => {}
            }
        }
    }
    let mut refused = Vec::new();
    for emitter in emitters {
        let charged = charged(emitter, &wanted);
        let needs = |label: Label| match label {
            Label::Old(at) if flags(at) => Some(NeedsFlags(at)),
            _ => None,
        };
        let here = labels(emitter).filter(|(_, item)| charged.contains(item));
        refused.extend(here.filter_map(|(label, _)| needs(label)));
        insert(emitter, &charged, &saved);
    }
    refused
}

fn label_of(target: Target) -> Option<Label> {
    match target {
        Target::Label(label) => Some(label),
        _ => None,
    }
}

/// Returns the labels of a section's code, each with the item that follows it.
fn labels(emitter: &Emitter) -> impl Iterator<Item = (Label, usize)> {
    let behind = |mut item: usize| {
        while matches!(emitter.items.get(item), Some(Item::Label(_))) {
            item += 1;
        }
        item
    };
    emitter.items.iter().enumerate().filter_map(move |(item, what)| match what {
        Item::Label(label) => Some((*label, behind(item))),
        _ => None,
    })
}

/// Returns the items before which charges stand.
fn charged(emitter: &Emitter, wanted: &HashSet<Label>) -> BTreeSet<usize> {
    let places: HashMap<Label, usize> = labels(emitter).collect();
    let mut charged: BTreeSet<usize> = wanted.iter().filter_map(|label| places.get(label).copied()).collect();
    let branches: Vec<(usize, usize)> = emitter
        .items
        .iter()
        .enumerate()
        .filter_map(|(item, what)| match what {
            Item::Branch { target, .. } => Some((item, *places.get(&label_of(*target)?)?)),
            _ => None,
        })
        .collect();
    charged.extend(branches.iter().filter(|(from, to)| to <= from).map(|(_, to)| *to));
    loop {
        let before = charged.len();
        let traps = traps(emitter, &charged);
        for (from, to) in &branches {
            if from < to
                && (charged.range(from + 1..=*to).next().is_some() || traps.range(from + 1..=*to).next().is_some())
            {
                charged.insert(*to);
            }
        }
        if charged.len() == before {
            return charged;
        }
    }
}

fn is_code(item: &Item) -> bool {
    matches!(item, Item::Bytes { .. } | Item::Branch { .. })
}

/// Says whether control does not go on behind an item.
fn ends(emitter: &Emitter, item: usize) -> bool {
    if let Item::Branch { kind, .. } = emitter.items[item] {
        return kind == Branch::Jump;
    }
    let last = emitter.instruction(item).map(|ins| ins.flow_control());
    matches!(last, Some(FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception))
}

/// Returns the items before which traps stand: the first one behind each piece of code that ends,
/// if a charge follows it.
fn traps(emitter: &Emitter, charged: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut traps = BTreeSet::new();
    for charge in charged {
        let last = emitter.items[..*charge].iter().rposition(is_code);
        traps.extend(last.filter(|last| ends(emitter, *last)).map(|last| last + 1));
    }
    traps
}

/// Returns the first item of the unsafe region of a string instruction with rep.
fn repeated(emitter: &Emitter, item: usize) -> Option<usize> {
    let ins = emitter.instruction(item)?;
    if !ins.is_string_instruction() || !(ins.has_rep_prefix() || ins.has_repne_prefix()) {
        return None;
    }
    let pointer = |register: Register| matches!(register.full_register(), Register::RSI | Register::RDI);
    let is_mask = |item: usize| {
        emitter.instruction(item).is_some_and(|ins| {
            let register = ins.op0_kind() == OpKind::Register && pointer(ins.op0_register());
            let truncates = ins.op1_kind() == OpKind::Register && ins.op0_register() == ins.op1_register();
            let rebases = ins.op1_kind() == OpKind::Memory && ins.segment_prefix() == Register::GS;
            let rebases = rebases && ins.mnemonic() == iced_x86::Mnemonic::Add;
            register && (truncates || rebases)
        })
    };
    let mut start = item;
    // The masks come in pairs. Another instruction of this form stands before them.
    while start >= 2 && item - start < 4 && is_mask(start - 1) && is_mask(start - 2) {
        start -= 2;
    }
    Some(start)
}

/// Returns the most instructions that an item becomes.
fn count(item: &Item) -> u32 {
    match item {
        Item::Label(_) | Item::Bytes { len: 0, .. } => 0,
        Item::Align { to } => (*to - 1).div_ceil(9),
        Item::Loop => LINE.div_ceil(9),
        Item::Bytes { .. } | Item::Branch { kind: Branch::Jump | Branch::Call | Branch::Condition(_), .. } => 1,
        Item::Branch { kind: Branch::Short(_), .. } => 3,
    }
}

/// Inserts charges and traps, and moves the marks with the code.
fn insert(emitter: &mut Emitter, charged: &BTreeSet<usize>, saved: impl Fn(InsnIndex) -> usize) {
    let traps = traps(emitter, charged);
    let counts: BTreeSet<usize> = (0..emitter.items.len()).filter_map(|item| repeated(emitter, item)).collect();
    let falls = emitter.items.iter().rposition(is_code).is_some_and(|last| !ends(emitter, last));
    let old = std::mem::take(&mut emitter.items);
    // The traps, by the item before which they stand and the words that are saved there.
    let mut labels = BTreeMap::<(usize, usize), Label>::new();
    traps.iter().for_each(|at| _ = labels.insert((*at, 0), emitter.new_label()));
    // The trap that follows each place with a branch to one.
    let trap_of = charged.iter().chain(&counts).map(|item| {
        let saved = emitter.marks.served(*item as u32).map_or(0, &saved);
        let behind = traps.range(item + 1..).next().copied().unwrap_or(old.len());
        (*item, *labels.entry((behind, saved)).or_insert_with(|| emitter.new_label()))
    });
    let trap_of: HashMap<usize, Label> = trap_of.collect();
    // The instructions from each item on, up to the next charge or trap. A nop may end the section.
    let mut following = vec![1; old.len() + 1];
    for item in (0..old.len()).rev() {
        let next = item + 1;
        let rest = if charged.contains(&next) || traps.contains(&next) { 0 } else { following[next] };
        following[item] = rest + count(&old[item]) + if counts.contains(&item) { 2 } else { 0 };
    }
    let mut moved = Vec::with_capacity(old.len() + 1);
    let int3 = |emitter: &mut Emitter, item: usize| {
        for label in labels.range((item, 0)..(item + 1, 0)).map(|(_, label)| *label) {
            emitter.items.push(Item::Label(label));
            raw(emitter, &[0xcc]);
        }
    };
    for (item, what) in old.iter().enumerate() {
        int3(emitter, item);
        moved.push(emitter.items.len() as u32);
        if charged.contains(&item) {
            constant(emitter, following[item] + 2);
            emitter.branch(BELOW, trap_of[&item]);
        }
        if counts.contains(&item) {
            raw(emitter, &COUNT);
            emitter.branch(BELOW, trap_of[&item]);
        }
        emitter.items.push(*what);
    }
    moved.push(emitter.items.len() as u32);
    if charged.contains(&old.len()) {
        constant(emitter, following[old.len()] + 2);
        emitter.branch(BELOW, trap_of[&old.len()]);
    }
    // Code that falls out of the section meets a trap of its own, because branches to the others
    // may have saved another number of words.
    if falls && labels.range((old.len(), 0)..).next().is_some() {
        raw(emitter, &[0xcc]);
    }
    int3(emitter, old.len());
    emitter.moved(&moved);
}

/// Appends `sub $amount,%r14`.
fn constant(emitter: &mut Emitter, amount: u32) {
    match i8::try_from(amount) {
        Ok(short) => raw(emitter, &[0x49, 0x83, 0xee, short as u8]),
        Err(_) => {
            let [a, b, c, d] = amount.to_le_bytes();
            raw(emitter, &[0x49, 0x81, 0xee, a, b, c, d]);
        }
    }
}

/// Appends encoded bytes.
fn raw(emitter: &mut Emitter, bytes: &[u8]) {
    let start = emitter.bytes.len() as u32;
    emitter.bytes.extend_from_slice(bytes);
    emitter.items.push(Item::Bytes { start, len: bytes.len() as u8, fixups: Fixups::default() });
}
