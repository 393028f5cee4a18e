//! Phase 8b: equal ends of functions share one copy.
//!
//! Compilers repeat a function's end at every return, because pops are short. The loads that
//! replace pops are not short. So a later copy becomes a jump into the first. A jump to the end of
//! another function must save more, because each call of a function with one return passes it.

use crate::object::decode::PerInsn;
use crate::text::emit::{Branch, Emitter, Fixup, Fixups, Item, LoaderSymbol, Target};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

/// Least size of an end that a function's returns share. A jump takes up to 5 bytes, so less is not
/// worth it. Bytes.
const WORTH: usize = 10;
/// Least size of an end that functions share. Bytes.
const WORTH_OF_OTHERS: usize = 22;
/// Most instructions of an end that functions share.
const LONGEST: usize = 16;

/// Lets the returns of a section share their common ends. `unit` has the unit of each original
/// instruction.
pub(crate) fn ends(emitter: &mut Emitter, unit: &PerInsn<u32>) {
    // The ends of each unit that were kept. Each lists its items, the return first.
    let mut kept = HashMap::<u32, Vec<Vec<usize>>>::new();
    // The first items of the kept ends, by the code from there to the return.
    let mut places = HashMap::<Vec<u8>, usize>::new();
    for ret in 0..emitter.items.len() {
        if !is_return(emitter, ret) {
            continue;
        }
        let Some(insn) = emitter.marks.served(ret as u32) else { continue };
        let kept = kept.entry(unit[insn]).or_default();
        let end: Vec<usize> = (0..=ret).rev().take_while(|&item| item == ret || is_simple(emitter, item)).collect();
        let common = |other: &&Vec<usize>| {
            end.iter().zip(*other).take_while(|(a, b)| code(emitter, **a) == code(emitter, **b)).count()
        };
        let size = |count: usize| -> usize {
            end[..count].iter().map(|item| code(emitter, *item).map_or(0, |(bytes, _)| bytes.len())).sum()
        };
        let own = kept.iter().max_by_key(common).map(|like| (common(&like), like));
        let own = own.filter(|(count, _)| size(*count) >= WORTH).map(|(count, like)| (count, like[count - 1]));
        let tails = Tails::new(emitter, &end);
        let other = tails.iter().rev().find_map(|(count, code)| Some((count, *places.get(code)?)));
        let Some((count, place)) = other.filter(|(count, _)| own.is_none_or(|(own, _)| *count > own)).or(own) else {
            for (count, code) in tails.iter() {
                let code = code.to_vec();
                places.entry(code).or_insert(end[count - 1]);
            }
            kept.push(end);
            continue;
        };
        for &item in &end[..count] {
            emitter.items[item] = Item::Bytes { start: 0, len: 0, fixups: Fixups::default() };
        }
        let label = emitter.label_at(place);
        emitter.items[end[count - 1]] = Item::Branch { kind: Branch::Jump, target: label.into() };
    }
}

/// The parts of an end up to the return that are worth sharing with other functions.
struct Tails {
    /// The code of the longest.
    code: Vec<u8>,
    /// Number of items and size of each, the shortest first.
    parts: Vec<(usize, usize)>,
}

impl Tails {
    fn new(emitter: &Emitter, end: &[usize]) -> Tails {
        let plain = |item: &usize| match code(emitter, *item) {
            Some((bytes, [])) => Some(bytes),
            _ => None,
        };
        let mut items: Vec<&[u8]> = end.iter().take(LONGEST).map_while(plain).collect();
        let mut size = 0;
        let mut parts = Vec::with_capacity(items.len());
        for (index, bytes) in items.iter().enumerate() {
            size += bytes.len();
            if size >= WORTH_OF_OTHERS {
                parts.push((index + 1, size));
            }
        }
        items.reverse();
        Tails { code: items.concat(), parts }
    }

    /// Returns the number of items and the code of each part, the shortest first.
    fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &[u8])> {
        self.parts.iter().map(|(count, size)| (*count, &self.code[self.code.len() - size..]))
    }
}

/// Returns the bytes of an item and its relocations, if these do not depend on its place.
fn code(emitter: &Emitter, item: usize) -> Option<(&[u8], &[Fixup])> {
    let Item::Bytes { start, len, fixups } = emitter.items[item] else { return None };
    let fixups = emitter.fixups(fixups);
    let fixed = |fixup: &Fixup| matches!(fixup.target, Target::Loader(LoaderSymbol::Anchor(_)));
    let bytes = &emitter.bytes[start as usize..start as usize + usize::from(len)];
    fixups.iter().all(fixed).then_some((bytes, fixups))
}

fn is_return(emitter: &Emitter, item: usize) -> bool {
    let Item::Bytes { start, len: 1, .. } = emitter.items[item] else { return false };
    emitter.bytes[start as usize] == 0xc3
}

/// Says whether an item is an instruction that has one effect at any place, and no part of an
/// unsafe region.
fn is_simple(emitter: &Emitter, item: usize) -> bool {
    let Some((bytes, _)) = code(emitter, item) else { return false };
    let ins: Instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    match ins.mnemonic() {
        Mnemonic::Lea | Mnemonic::Xor | Mnemonic::Movaps | Mnemonic::Movups => true,
        // `mov %edi,%edi` begins an unsafe region.
        Mnemonic::Mov => ins.op0_kind() != OpKind::Register || ins.op0_register() != ins.op1_register(),
        _ => false,
    }
}
