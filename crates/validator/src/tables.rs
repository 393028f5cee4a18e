//! Data, relocations and symbols. Each one of the original object has its counterpart.

use crate::code::Index;
use crate::context::Context;
use crate::graph::Graph;
use crate::object::{Spot, is_open, kind, may_go};
use crate::report::Verdict;
use crate::unread::Searches;
use foldhash::{HashMap, HashMapExt, HashSet};
use sfi_contract::{Anchor, names};
use sfi_elf::number::{SHT_GROUP, SHT_NOBITS, STT_FILE, STT_SECTION};
use sfi_elf::{Place, Relocation, Section, Symbol};

/// A difference: verdict, text, original section, offset.
pub(crate) type Difference = (Verdict, String, usize, u64);

/// The number of the section of common blocks of the medium code model (psABI,
/// `SHN_X86_64_LCOMMON`).
const LARGE_COMMON: u32 = 0xff02;

/// Compares all tables.
pub(crate) fn check(context: &Context<'_, '_>, graph: &Graph, searches: &Searches) -> Vec<Difference> {
    let mut found = Vec::new();
    let unread = searches.unread(context, graph);
    for (index, section) in context.pair.old.sections.iter().enumerate() {
        let Some(at) = context.pair.new_of[index] else { continue };
        let new = &context.pair.new.sections[at];
        if section.is_executable() || section.kind == SHT_GROUP {
            continue;
        }
        let same = section.size == new.size && (section.kind == SHT_NOBITS || section.data == new.data);
        if !same || section.align != new.align || section.entry_size != new.entry_size {
            found.push((Verdict::Wrong, format!("section {} has other contents", section.name), index, 0));
            continue;
        }
        let mut others: HashMap<(u64, u32), &Relocation> = HashMap::new();
        for reloc in &new.relocations {
            others.insert((reloc.offset, reloc.kind), reloc);
        }
        // The new program has no entries of a table that it does not read.
        let of_unread =
            |offset: u64| graph.base(index, offset as i64).is_some_and(|(base, _)| unread.contains(&(index, base)));
        let stays = |reloc: &&Relocation| reloc.kind != kind::PC32 || !of_unread(reloc.offset);
        let left: Vec<&Relocation> = section.relocations.iter().filter(stays).collect();
        if left.len() != new.relocations.len() {
            found.push((Verdict::Wrong, "relocations of data are missing".into(), index, 0));
        }
        for reloc in left {
            let other = others.get(&(reloc.offset, reloc.kind)).copied();
            if let Some(what) = relocation(context, graph, index, reloc, other) {
                found.push((Verdict::Wrong, what, index, reloc.offset));
            }
        }
    }
    symbols(context, &mut found);
    slots(context, graph, &mut found);
    found
}

/// Returns the defect of a relocation's counterpart in data.
fn relocation(
    context: &Context<'_, '_>,
    graph: &Graph,
    section: usize,
    reloc: &Relocation,
    other: Option<&Relocation>,
) -> Option<String> {
    let Some(other) = other else { return Some("a relocation has no counterpart".into()) };
    if context.pair.old_code(reloc.symbol).is_none() || !context.pair.old.sections[section].is_allocated() {
        let old = context.old_meaning(reloc.symbol, reloc.addend);
        let same = old.is_some() && old == context.new_meaning(other.symbol, other.addend);
        let debugging = !context.pair.old.sections[section].is_allocated();
        return (!same && !debugging).then(|| "a relocation names something else".into());
    }
    let (old, distance) = match reloc.kind {
        kind::ABSOLUTE => {
            let by = graph.jump_tables.by((section, reloc.offset as i64));
            let old = match by {
                Some(by) => entry(context, reloc, (0, by)),
                None => context.old_meaning(reloc.symbol, reloc.addend),
            };
            (old, 0)
        }
        kind::PC32 => match graph.base(section, reloc.offset as i64) {
            Some((base, by)) => {
                let distance = reloc.offset as i64 - base;
                (entry(context, reloc, (distance, by)), distance)
            }
            None => return Some("the base of a switch table is not known".into()),
        },
        _ => return Some("a relocation of code in data has an unknown type".into()),
    };
    // The addend serves the table and not the place.
    let new = context.new_meaning(other.symbol, 0).map(|(spot, at)| (spot, at.wrapping_add(other.addend)));
    let same = match (old, new) {
        (Some((old, 0)), Some((new, more))) => old == new && more == distance,
        (Some((old, at)), Some((new, more))) => old == new && more == at.wrapping_add(distance),
        _ => false,
    };
    (!same).then(|| "a pointer or an entry of a table leads elsewhere".into())
}

/// Returns the new place that an entry of a table means, at a distance from the table's base.
pub(crate) fn entry(
    context: &Context<'_, '_>,
    reloc: &Relocation,
    (distance, by): (i64, Index),
) -> Option<(Spot, i64)> {
    let more = reloc.addend.wrapping_sub(distance);
    let place = context.pair.old_code(reloc.symbol);
    let never = place.and_then(|(text, value)| context.old.never_reached(by, text, value.wrapping_add_signed(more)));
    match never {
        Some(trap) => Some((context.spot(trap), 0)),
        None => context.old_meaning(reloc.symbol, more),
    }
}

/// Checks that each original symbol has a new one, at the new place of the symbol's code or data.
fn symbols(context: &Context<'_, '_>, found: &mut Vec<Difference>) {
    let mut known: HashMap<(&str, u8, u8, u8), Vec<&Symbol<'_>>> = HashMap::new();
    for symbol in &context.pair.new.symbols {
        known.entry((symbol.name, symbol.binding, symbol.kind, symbol.visibility)).or_default().push(symbol);
    }
    for symbol in context.pair.old.symbols.iter().skip(1).filter(|s| !matches!(s.kind, STT_SECTION | STT_FILE)) {
        let wanted = match symbol.place {
            Place::Section(section) => {
                let Some(new) = context.pair.new_of[section] else {
                    if !may_go(&context.pair.old.sections[section]) {
                        found.push((Verdict::Wrong, format!("symbol {} is gone", symbol.name), section, symbol.value));
                    }
                    continue;
                };
                let at = context.old.text.at(section, symbol.value);
                let executable = context.pair.old.sections[section].is_executable();
                match at {
                    // In an empty section all places are one.
                    Some(_) if context.pair.old.sections[section].data.is_empty() => (Place::Section(new), None),
                    Some(at) => (Place::Section(new), Some(u64::from(context.old.place[at].1))),
                    None if executable => match context.carved(section, symbol.value) {
                        Some((Spot::Data(copy), offset)) => (Place::Section(copy), Some(offset as u64)),
                        _ => (Place::Section(new), Some(context.pair.new.sections[new].size)),
                    },
                    None => (Place::Section(new), Some(symbol.value)),
                }
            }
            // A window is small, so that no data in it is far.
            Place::Reserved(LARGE_COMMON) => (Place::Common, Some(symbol.value)),
            place => (place, (place != Place::Undefined).then_some(symbol.value)),
        };
        let key = (symbol.name, symbol.binding, symbol.kind, symbol.visibility);
        let fits = |other: &&&Symbol<'_>| other.place == wanted.0 && wanted.1.is_none_or(|value| other.value == value);
        if known.get(&key).into_iter().flatten().find(fits).is_none() {
            let (section, offset) = match symbol.place {
                Place::Section(section) => (section, symbol.value),
                _ => (0, 0),
            };
            found.push((Verdict::Wrong, format!("symbol {} is elsewhere or gone", symbol.name), section, offset));
        }
    }
    // New names for the linker would change how other objects resolve theirs.
    let open: HashSet<&str> = context.pair.old.symbols.iter().filter(|s| is_open(s)).map(|s| s.name).collect();
    for symbol in context.pair.new.symbols.iter().filter(|s| is_open(s)) {
        let stubs = [names::SYSCALL, names::DEPTH, names::RETURN, names::CUT];
        let ours = stubs.contains(&symbol.name) || Anchor::named(symbol.name).is_some();
        let ours = ours && symbol.place == Place::Undefined;
        if !ours && !open.contains(symbol.name) {
            found.push((Verdict::Wrong, format!("symbol {} is new", symbol.name), 0, 0));
        }
    }
}

/// Checks that addresses lead to a label with a landing pad through its pad only.
fn slots(context: &Context<'_, '_>, graph: &Graph, found: &mut Vec<Difference>) {
    let mut padded: HashMap<(usize, u64), usize> = HashMap::new();
    for (at, pad) in context.old.pad.iter().enumerate() {
        if pad.is_some() {
            let (section, offset) = context.old.place[at];
            padded.insert((section as usize, u64::from(offset)), at);
        }
    }
    if padded.is_empty() {
        return;
    }
    // Switches that jump by an array of slots use no pads, and `arrays` compares their slots.
    let named = |s: &Section<'_>| s.is_allocated() && !s.is_slot_array();
    for (index, section) in context.pair.new.sections.iter().enumerate().filter(|(_, s)| named(s)) {
        for reloc in section.relocations.iter().filter(|r| r.kind != kind::PLT32) {
            // A record for the unwinder begins with the address of its code. Nothing jumps there.
            if section.name == sfi_contract::names::UNWIND_SECTION && reloc.offset == 0 {
                continue;
            }
            let Some(symbol) = context.pair.new.symbols.get(reloc.symbol) else { continue };
            if let Place::Section(text) = symbol.place
                && let Some(&at) = padded.get(&(text, symbol.value))
                && context.pair.new.sections[text].is_executable()
                && !(graph.receivers(at).contains(&at) && in_pad(context, at, index, reloc.offset))
            {
                let insn = &context.old.text.insns[at];
                let what = "an address leads past the landing pad of a label".to_owned();
                found.push((Verdict::Wrong, what, insn.section as usize, insn.offset()));
            }
        }
    }
}

/// Says whether a field of the new code belongs to the pad of a label.
fn in_pad(context: &Context<'_, '_>, at: usize, section: usize, offset: u64) -> bool {
    let pad = context.old.pad[at].map(u64::from);
    let own = section == context.old.place[at].0 as usize;
    own && pad.is_some_and(|pad| (pad..context.stretch_end(section, pad)).contains(&offset))
}
