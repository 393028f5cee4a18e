//! Phase 7d: the switches that compare their index.
//!
//! An indirect jump needs the depth 0 of the control stack, so a function with one cannot save
//! registers there (see [`crate::analysis::saves`]). A switch of few targets needs no indirect
//! jump:
//!
//! ```text
//! cmp $3,%i32 ; je 1f ; jb 2f ; jmp 3f
//! ```
//!
//! So it becomes a search for the index among *runs*, which are adjacent entries of one target. If
//! all jumps of a function do so, nothing reads its tables any more. Their entries are left out,
//! and their targets are labels like others.
//!
//! The index is what load and jump find in its register, so nothing but the sum stands between
//! them.

use crate::analysis::flow::FlowGraph;
use crate::analysis::switches::Line;
use crate::object::address::{Addresses, Table, is_named_by_data};
use crate::object::decode::{Code, InsnIndex, PerInsn};
use crate::object::read::SectionIndex;
use foldhash::{HashMap, HashSet};
use iced_x86::Register;

/// Most runs of a switch that compares. More take more branches than an indirect jump is worth.
const MOST: usize = 8;

/// A switch that may compare.
pub(crate) struct Tree {
    /// The register of the index.
    pub index: Register,
    /// The first index of each run, and its target.
    pub runs: Vec<(u32, InsnIndex)>,
    /// Index into [`Addresses::tables`].
    table: usize,
    /// Instructions that have no code: they load the entry and add the base, and make it if nobody
    /// else reads it.
    parts: Vec<InsnIndex>,
}

/// The switches of an object that compare, by their jumps.
#[derive(Default)]
pub(crate) struct Trees {
    jumps: HashMap<InsnIndex, Tree>,
    /// All their parts.
    parts: HashSet<InsnIndex>,
    /// The labels that nothing but their tables names.
    released: HashSet<InsnIndex>,
    /// The places of their entries.
    entries: HashSet<(SectionIndex, u64)>,
}

impl Trees {
    /// Finds the switches that may compare. `bodies` are those of [`crate::analysis::saves`].
    pub(crate) fn find(
        code: &Code<'_, '_>,
        addresses: &Addresses,
        graph: &FlowGraph,
        bodies: &PerInsn<u32>,
        lines: &[Line],
    ) -> Trees {
        let mut trees = Trees::default();
        for line in lines {
            let table = &addresses.tables[line.switch.table];
            let own = table.names.iter().all(|name| bodies[*name] == bodies[line.jump]);
            if let Some(tree) = tree(code, graph, line, table).filter(|_| own) {
                trees.jumps.insert(line.jump, tree);
            }
        }
        // Other jumps of the unit may read the same tables.
        let others = graph.tables.keys().filter(|jump| !trees.jumps.contains_key(jump));
        let others: HashSet<u32> = others.map(|jump| graph.unit[*jump]).collect();
        trees.keep(addresses, |jump| !others.contains(&graph.unit[jump]));
        trees
    }

    /// Keeps the switches that gain by it, given their jumps.
    pub(crate) fn keep(&mut self, addresses: &Addresses, gains: impl Fn(InsnIndex) -> bool) {
        self.jumps.retain(|jump, _| gains(*jump));
        self.note(addresses);
    }

    /// Notes what follows from the jumps.
    fn note(&mut self, addresses: &Addresses) {
        self.parts = self.jumps.values().flat_map(|tree| tree.parts.iter().copied()).collect();
        self.released.clear();
        self.entries.clear();
        if self.jumps.is_empty() {
            return;
        }
        let own: HashSet<usize> = self.jumps.values().map(|tree| tree.table).collect();
        let mut others = HashSet::<InsnIndex>::default();
        for (number, Table { section, base, targets, .. }) in addresses.tables.iter().enumerate() {
            if own.contains(&number) {
                self.released.extend(targets);
                self.entries.extend((0..targets.len() as u64).map(|entry| (*section, base + 4 * entry)));
            } else {
                others.extend(targets);
            }
        }
        self.released.retain(|at| !others.contains(at) && !addresses.pointed[*at]);
    }

    /// Returns how a jump compares.
    pub(crate) fn jump(&self, at: InsnIndex) -> Option<&Tree> {
        self.jumps.get(&at)
    }

    /// Says whether an instruction has no code, because such a switch needs none of it.
    pub(crate) fn is_part(&self, at: InsnIndex) -> bool {
        self.parts.contains(&at)
    }

    /// Says whether nothing but the tables of these switches names a label.
    pub(crate) fn is_released(&self, label: InsnIndex) -> bool {
        self.released.contains(&label)
    }

    /// Says whether the entry of a table at a place of data is left out.
    pub(crate) fn leaves_out(&self, section: SectionIndex, offset: u64) -> bool {
        self.entries.contains(&(section, offset))
    }
}

/// Returns how a switch may compare.
fn tree(code: &Code<'_, '_>, graph: &FlowGraph, line: &Line, table: &Table) -> Option<Tree> {
    let (switch, jump) = (line.switch, line.jump);
    let section = code.insns[jump].section;
    // A jump into another section would need the depth 0, and so would a function's beginning.
    let inside = |to: &InsnIndex| code.insns[*to].section == section && !graph.entry[*to] && !code.is_trap(*to);
    let mut between = switch.load.next().until(jump).filter(|at| *at != switch.sum);
    let index = code.ins(switch.load).memory_index();
    let fits = table.dense
        && index != code.ins(switch.load).memory_base()
        && table.targets.iter().all(inside)
        && between.all(|at| code.insns[at].is_nop())
        && !is_named_by_data(code, table.section, table.base, table.base + 4 * table.targets.len() as u64);
    let mut runs = Vec::<(u32, InsnIndex)>::new();
    for (number, &target) in (0..).zip(&table.targets).take_while(|_| fits) {
        if runs.last().is_none_or(|(_, last)| *last != target) {
            runs.push((number, target));
        }
    }
    let parts = [switch.load, switch.sum].into_iter().chain(line.idle).collect();
    ((1..=MOST).contains(&runs.len())).then_some(Tree { index, runs, table: switch.table, parts })
}
