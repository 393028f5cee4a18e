//! Unlikely parts of functions, and places before them that no path reaches.

use crate::code::{Index, Old};
use crate::cold::stem;
use crate::graph::Graph;
use crate::object::is_open;
use crate::report::Verdict;
use sfi_elf::Symbol;

/// Returns findings for labels in unlikely parts that a pointer names, if no jump is known to lead
/// there: their code was not looked at.
pub(crate) fn unreached(old: &Old<'_, '_>, graph: &Graph) -> Vec<(Index, (Verdict, String))> {
    let labels = old.wholes.keys().filter_map(|(section, offset)| old.text.at(*section, *offset));
    let labels = labels.filter(|at| graph.is_pointed_label(*at) && !graph.facts.contains_key(at));
    let what = "no jump is known to lead to the label of an unlikely part that a pointer names";
    labels.map(|at| (at, (Verdict::Unproved, what.to_owned()))).collect()
}

impl Old<'_, '_> {
    /// Returns the trap after a section, if a branch or table of the code at `from` only seems to
    /// lead to a place: the cold part of another function begins there. Compilers put a label that
    /// they know to be unreachable before whatever comes next. The other function exists: if it was
    /// renamed, the part may be this function's.
    pub(crate) fn never_reached(&self, from: Index, section: usize, offset: u64) -> Option<Index> {
        let here = self.functions.get(&(section, offset))?;
        let insn = &self.text.insns[from];
        let own = (insn.section as usize, 0)..=(insn.section as usize, insn.offset());
        let (_, own) = self.functions.range(own).next_back()?;
        let exists = |name: &str| self.functions.values().flatten().any(|(other, cold)| !cold && *other == name);
        let other = |name: &str| own.iter().all(|(mine, _)| *mine != name) && exists(name);
        let foreign = here.iter().all(|(name, cold)| *cold && other(name));
        let end = self.pair.old.sections[section].data.len() as u64;
        self.text.at(section, end).filter(|_| foreign)
    }

    /// Says whether the unlikely part of a function begins at a place.
    pub(crate) fn begins_cold_part(&self, section: usize, offset: u64) -> bool {
        self.functions.get(&(section, offset)).is_some_and(|here| here.iter().any(|(_, cold)| *cold))
    }

    /// Says whether a symbol is one of a function's unlikely part that begins with padding, to
    /// which nothing leads.
    pub(crate) fn is_padded_part(&self, symbol: &Symbol<'_>, first: Index) -> bool {
        !is_open(symbol) && stem(symbol.name).1 && self.text.insns[first].is_nop()
    }

    /// Says whether a place that a pointer names is a label of a function: its unlikely part begins
    /// there, and nothing else does.
    ///
    /// This adds nothing to what is taken for granted of labels in general: that nobody calls a
    /// label inside a function by its address. The part is no function, so only a table of labels
    /// has the pointer. If the function has no indirect jump, the label counts as a function's
    /// beginning. If no jump leads to it, it is [unreached](unreached). The walk looks at the code
    /// of all others as at that of any label.
    pub(crate) fn is_label_in_cold_part(&self, section: usize, offset: u64) -> bool {
        self.wholes.contains_key(&(section, offset))
    }
}
