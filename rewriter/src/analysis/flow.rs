//! Phase 4: who follows whom. Labels, entries, and the *units* of code that share one register assignment.
//!
//! A unit is a function with all that jumps connect to it: its `.cold` part, its switch targets, the function into whose middle it
//! jumps. Tail calls to a function's entry do not connect.

use crate::analysis::height::{Height, State};
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Dest, Flow, Insn, InsnIndex};
use crate::object::read::Place;
use crate::unwind::{Landing, Unwind};
use iced_x86::OpKind;
use std::collections::{HashMap, HashSet};

/// Where an indirect jump may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpKind {
    /// Labels of its own unit: a switch or a computed goto.
    Inside,
    /// Out of the function.
    Tail,
    /// Not known; nothing is on the stack, so both look the same.
    Either,
}

/// Control flow of an object.
pub struct FlowGraph {
    /// Instructions that something names: branch targets, symbols, taken addresses.
    pub label: Vec<bool>,
    /// Instructions that something behind them jumps to.
    pub looped: Vec<bool>,
    /// Instructions where a symbol's extent ends.
    pub end: Vec<bool>,
    /// Instructions where functions begin: called, exported or taken as an address and named by a function symbol.
    pub entry: Vec<bool>,
    /// Unit of each instruction; the number is an instruction of the unit.
    pub unit: Vec<u32>,
    /// Targets of indirect jumps by unit: labels whose address is taken and that are no entries.
    pub interior: HashMap<u32, Vec<InsnIndex>>,
    /// Indirect jumps whose kind is settled; see [`FlowGraph::settle`].
    jumps: HashMap<InsnIndex, JumpKind>,
    /// Targets of the indirect jumps whose switch tables are known.
    pub tables: HashMap<InsnIndex, Vec<InsnIndex>>,
    /// Where exceptions out of calls go.
    landings: HashMap<InsnIndex, Landing>,
    /// Units whose interior labels do not agree about the stack's height.
    mixed: HashSet<u32>,
}

impl FlowGraph {
    /// Where control may go after an instruction, apart from a call's callee: calls `visit` for every successor.
    pub fn successors(&self, code: &Code<'_, '_>, at: InsnIndex, mut visit: impl FnMut(InsnIndex)) {
        match code.insns[at].flow {
            Flow::Next | Flow::Call(_) | Flow::CallIndirect => {
                let next = self.next(code, at);
                if let Some(next) = next {
                    visit(next);
                }
                if let Some(landing) = self.landing(at).filter(|landing| Some(landing.pad) != next) {
                    visit(landing.pad);
                }
            }
            Flow::Branch(dest) => {
                if let Some(next) = self.next(code, at) {
                    visit(next);
                }
                if let Some(target) = insn_of(code, dest) {
                    visit(target);
                }
            }
            Flow::Jump(dest) => {
                if let Some(target) = insn_of(code, dest) {
                    visit(target);
                }
            }
            Flow::JumpIndirect if self.jump_kind(at) != JumpKind::Tail => {
                for &target in self.jump_targets(at) {
                    visit(target);
                }
            }
            Flow::JumpIndirect | Flow::Return | Flow::Stop => {}
        }
    }

    /// Where an exception out of a call goes.
    pub fn landing(&self, at: InsnIndex) -> Option<Landing> {
        self.landings.get(&at).copied()
    }

    /// The instruction behind, if it is in the same section.
    pub fn next(&self, code: &Code<'_, '_>, at: InsnIndex) -> Option<InsnIndex> {
        let next = at + 1;
        (next < code.insns.len() && code.insns[next].section == code.insns[at].section).then_some(next)
    }

    /// Labels of its own unit that an indirect jump may reach.
    pub fn jump_targets(&self, at: InsnIndex) -> &[InsnIndex] {
        self.tables.get(&at).or(self.interior.get(&self.unit[at])).map_or(&[], Vec::as_slice)
    }

    /// Whether the unit has labels that indirect jumps reach.
    pub fn has_interior(&self, at: InsnIndex) -> bool {
        self.interior.contains_key(&self.unit[at])
    }

    /// Where an indirect jump may lead; until it is settled, out of the function.
    pub fn jump_kind(&self, at: InsnIndex) -> JumpKind {
        if self.tables.contains_key(&at) {
            return JumpKind::Inside;
        }
        self.jumps.get(&at).copied().unwrap_or(JumpKind::Tail)
    }

    /// Whether the label is an interior one of a unit whose interior labels disagree about the stack's height.
    pub fn is_mixed(&self, at: InsnIndex) -> bool {
        self.mixed.contains(&self.unit[at])
            && self.interior.get(&self.unit[at]).is_some_and(|labels| labels.binary_search(&at).is_ok())
    }

    /// Tells tail calls from jumps inside a unit, one round: `heights` are those that the jumps settled so far imply. Says whether
    /// more was settled.
    ///
    /// A tail call happens with nothing on the stack. A jump with something on it stays inside. What remains: where other jumps of
    /// the unit reach its labels with something on the stack, one that has nothing on it cannot mean the same labels.
    pub fn settle(&mut self, code: &Code<'_, '_>, states: &[State]) -> bool {
        let open: Vec<InsnIndex> = (0..code.insns.len())
            .filter(|&at| code.insns[at].flow == Flow::JumpIndirect && self.has_interior(at))
            .filter(|at| !self.tables.contains_key(at) && !self.jumps.contains_key(at))
            .filter(|&at| states[at].rsp != Height::Unseen)
            .collect();
        // Without position-independent code a switch jumps through the table itself.
        let inside = |at: InsnIndex| {
            let through_table = code.insns[at].ins.op0_kind() == OpKind::Memory && code.insns[at].disp_reloc.is_some();
            states[at].rsp != Height::Known(0) || through_table
        };
        let deep: Vec<InsnIndex> = open.iter().copied().filter(|&at| inside(at)).collect();
        if !deep.is_empty() {
            self.jumps.extend(deep.into_iter().map(|at| (at, JumpKind::Inside)));
            return true;
        }
        let occupied = |label: &InsnIndex| !matches!(states[*label].rsp, Height::Unseen | Height::Known(0));
        for &at in &open {
            let kind =
                if self.interior[&self.unit[at]].iter().any(occupied) { JumpKind::Tail } else { JumpKind::Either };
            self.jumps.insert(at, kind);
        }
        !open.is_empty()
    }

    /// Finds the units whose interior labels disagree, given the final heights.
    pub fn find_mixed(&mut self, states: &[State]) {
        for (unit, labels) in &self.interior {
            let empty = labels.iter().filter(|&&at| states[at].rsp == Height::Known(0)).count();
            if empty != 0 && empty != labels.len() {
                self.mixed.insert(*unit);
            }
        }
    }
}

/// Whether `dest` is a tail call or call of a function rather than a jump inside one.
fn is_entry_jump(entry: &[bool], code: &Code<'_, '_>, dest: Dest) -> bool {
    insn_of(code, dest).is_none_or(|target| entry[target])
}

/// Builds the graph.
pub fn build(code: &Code<'_, '_>, addresses: &Addresses, unwind: &Unwind) -> FlowGraph {
    let count = code.insns.len();
    let mut label = vec![false; count];
    let mut entry = vec![false; count];
    let mut end = vec![false; count];
    let mut jumped = vec![false; count];
    let mut looped = vec![false; count];
    for (at, insn) in code.insns.iter().enumerate() {
        match insn.flow {
            Flow::Call(dest) => {
                if let Some(target) = insn_of(code, dest) {
                    label[target] = true;
                    entry[target] = true;
                }
            }
            Flow::Jump(dest) | Flow::Branch(dest) => {
                if let Some(target) = insn_of(code, dest) {
                    label[target] = true;
                    jumped[target] = true;
                    looped[target] |= target <= at;
                }
            }
            _ => {}
        }
    }
    for (target, taken) in addresses.taken.iter().enumerate() {
        label[target] |= taken;
    }
    for (_, landing) in unwind.landings() {
        label[landing.pad] = true;
        jumped[landing.pad] = true;
    }
    for symbol in &code.object.symbols {
        let Place::Section(section) = symbol.place else { continue };
        if let Some(behind) = code.at(section, symbol.end()) {
            end[behind] = true;
        }
        let Some(target) = code.at(section, symbol.value) else { continue };
        label[target] = true;
        let function = symbol.is_function();
        // A local function symbol that only jumps and switches reach is a .cold part, not a function.
        let inner = jumped[target] || addresses.taken[target];
        if symbol.is_open() || (function && (addresses.pointed[target] || !inner)) {
            entry[target] = true;
        }
    }
    // A taken label outside every function's extent is a function that lacks a symbol.
    for (at, insn) in code.insns.iter().enumerate() {
        if addresses.taken[at] && function_around(code, insn).is_none() {
            entry[at] = true;
        }
    }
    let unit = units(code, addresses, unwind, &entry);
    // And so is one in a unit that has no indirect jump that could reach it: it is called.
    let jumping: HashSet<u32> =
        (0..count).filter(|&at| code.insns[at].flow == Flow::JumpIndirect).map(|at| unit[at]).collect();
    for at in 0..count {
        entry[at] |= addresses.taken[at] && !jumping.contains(&unit[at]);
    }
    let mut interior = HashMap::<u32, Vec<InsnIndex>>::new();
    for at in 0..count {
        if addresses.taken[at] && !entry[at] {
            interior.entry(unit[at]).or_default().push(at);
        }
    }
    FlowGraph {
        label,
        looped,
        end,
        entry,
        unit,
        interior,
        jumps: HashMap::new(),
        tables: HashMap::new(),
        landings: unwind.landings().collect(),
        mixed: HashSet::new(),
    }
}

/// The first instruction of the function whose symbol's extent contains an instruction.
fn function_around(code: &Code<'_, '_>, insn: &Insn) -> Option<InsnIndex> {
    let symbol = &code.object.symbols[code.function_at(insn.section as usize, insn.offset.into())?];
    let inside = symbol.size == 0 || u64::from(insn.offset) < symbol.end();
    inside.then(|| code.at(insn.section as usize, symbol.value)).flatten()
}

fn units(code: &Code<'_, '_>, addresses: &Addresses, unwind: &Unwind, entry: &[bool]) -> Vec<u32> {
    let mut parent: Vec<u32> = (0..code.insns.len() as u32).collect();
    for at in 0..code.insns.len() {
        let insn = &code.insns[at];
        let next = (at + 1 < code.insns.len() && code.insns[at + 1].section == insn.section).then_some(at + 1);
        match insn.flow {
            Flow::Jump(dest) | Flow::Branch(dest) if !is_entry_jump(entry, code, dest) => {
                if let Some(target) = insn_of(code, dest) {
                    join(&mut parent, at, target);
                }
            }
            _ => {}
        }
        // Fall-through connects, except into a function's entry.
        if let Some(next) = next
            && !matches!(insn.flow, Flow::Jump(_) | Flow::JumpIndirect | Flow::Return | Flow::Stop)
            && !entry[next]
        {
            join(&mut parent, at, next);
        }
    }
    for (by, targets) in &addresses.tables {
        for &target in targets {
            if !entry[target] {
                join(&mut parent, *by, target);
            }
        }
    }
    for (call, landing) in unwind.landings() {
        join(&mut parent, call, landing.pad);
    }
    // Code that nothing but a taken label reaches (computed goto) belongs to the function that a symbol says contains it.
    for (at, insn) in code.insns.iter().enumerate().filter(|(at, _)| addresses.taken[*at] && !entry[*at]) {
        if let Some(first) = function_around(code, insn) {
            join(&mut parent, at, first);
        }
    }
    (0..code.insns.len()).map(|at| root(&mut parent, at)).collect()
}

fn root(parent: &mut [u32], mut at: usize) -> u32 {
    while parent[at] as usize != at {
        parent[at] = parent[parent[at] as usize];
        at = parent[at] as usize;
    }
    at as u32
}

fn join(parent: &mut [u32], a: usize, b: usize) {
    let (a, b) = (root(parent, a), root(parent, b));
    let (low, high) = (a.min(b), a.max(b));
    parent[high as usize] = low;
}
