//! Phase 8b: equal ends of a function share one copy.
//!
//! Compilers repeat a function's end at every return, because pops are short. The loads that
//! replace pops are not short. So a later copy becomes a jump into the first.

use crate::object::decode::PerInsn;
use crate::text::emit::{Branch, Emitter, Fixup, Fixups, Item, LoaderSymbol, Target};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

/// Least size of an end that is shared. A jump takes up to 5 bytes, so less is not worth it. Bytes.
const WORTH: usize = 10;

/// Lets the returns of each unit share their common ends. `unit` has the unit of each original
/// instruction.
pub(crate) fn ends(emitter: &mut Emitter, unit: &PerInsn<u32>) {
    // The ends of each unit that were kept. Each lists its items, the return first.
    let mut kept = HashMap::<u32, Vec<Vec<usize>>>::new();
    for mark in 0..emitter.marks.len() {
        let first = emitter.marks[mark].item as usize;
        let behind = emitter.marks.get(mark + 1).map_or(emitter.items.len(), |next| next.item as usize);
        let Some(ret) = (first..behind).find(|&item| is_return(emitter, item)) else { continue };
        let kept = kept.entry(unit[emitter.marks[mark].insn]).or_default();
        let end: Vec<usize> = (0..=ret).rev().take_while(|&item| item == ret || is_simple(emitter, item)).collect();
        let common = |other: &&Vec<usize>| {
            end.iter().zip(*other).take_while(|(a, b)| code(emitter, **a) == code(emitter, **b)).count()
        };
        let Some(like) = kept.iter().max_by_key(common) else {
            kept.push(end);
            continue;
        };
        let count = common(&like);
        let size: usize =
            end[..count].iter().map(|item| code(emitter, *item).map_or(0, |(bytes, _)| bytes.len())).sum();
        if size < WORTH {
            kept.push(end);
            continue;
        }
        let place = like[count - 1];
        for &item in &end[..count] {
            emitter.items[item] = Item::Bytes { start: 0, len: 0, fixups: Fixups::default() };
        }
        let label = emitter.label_at(place);
        emitter.items[end[count - 1]] = Item::Branch { kind: Branch::Jump, target: label.into() };
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
