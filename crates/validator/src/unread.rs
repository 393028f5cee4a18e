//! Tables that nothing reads in the new program, because all their switches compare (see
//! `searches`). Relocations of their entries may be missing.

use crate::code::Index;
use crate::context::Context;
use crate::facts::named_place;
use crate::graph::Graph;
use crate::object::{is_open, may_go};
use foldhash::HashSet;
use sfi_elf::Place;
use std::collections::BTreeSet;

/// The place of a table: section and offset.
pub(crate) type Table = (usize, i64);

/// A switch that compares.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    /// The original register of the index.
    pub index: usize,
    pub table: Table,
}

/// All switches that compare.
#[derive(Default)]
pub(crate) struct Searches {
    pub jumps: BTreeSet<Index>,
    pub tables: HashSet<Table>,
    /// Tables of which the new program loads entries or slots.
    pub loaded: HashSet<Table>,
}

impl Searches {
    /// Returns the tables that no instruction of the new program reads.
    pub(crate) fn unread(&self, context: &Context<'_, '_>, graph: &Graph) -> HashSet<Table> {
        let mut unread: HashSet<Table> = self.tables.difference(&self.loaded).copied().collect();
        if unread.is_empty() {
            return unread;
        }
        // Other jumps of a function may read the tables that it names.
        let others = graph.jumps.iter().filter(|(at, targets)| !targets.inside.is_empty() && !self.jumps.contains(at));
        let others: HashSet<u32> = others.map(|(at, _)| graph.group(*at)).collect();
        let old = &context.old;
        for at in (0..old.text.insns.len()).filter(|at| others.contains(&graph.group(*at))) {
            named_place(old, at).map(|place| unread.remove(&place));
        }
        // Data and other objects may give a table's address.
        let object = &context.pair.old;
        let data = object.sections.iter().filter(|s| s.is_allocated() && !s.is_executable() && !may_go(s));
        let pointers = data.flat_map(|s| &s.relocations).map(|reloc| (reloc.symbol, reloc.addend));
        let open = (0..object.symbols.len()).filter(|symbol| is_open(&object.symbols[*symbol])).map(|s| (s, 0));
        for (symbol, more) in pointers.chain(open) {
            if let Some(Place::Section(section)) = object.symbols.get(symbol).map(|symbol| symbol.place) {
                let place = (object.symbols[symbol].value as i64).wrapping_add(more);
                if let Some((base, _)) = graph.base(section, place) {
                    unread.remove(&(section, base));
                }
            }
        }
        unread
    }
}
