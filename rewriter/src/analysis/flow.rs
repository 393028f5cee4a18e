//! Phase 4: the flow of control. Labels, entries, and the *units* of code that share one register
//! assignment.
//!
//! A unit is a function with all code that jumps connect to it: its `.cold` part, its switch
//! targets, the function into whose middle it jumps. Tail calls to a function's entry do not
//! connect.

use crate::analysis::depth::{Height, States};
use crate::analysis::receive::Far;
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Flow, Insn, InsnIndex, InsnSet, PerInsn};
use crate::object::read::Place;
use crate::unwind::{Landing, Unwind};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use std::ops::Range;

/// The kind of an indirect jump's targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JumpKind {
    /// Labels of its own unit: a switch or a computed goto.
    Inside,
    /// Out of the function.
    Tail,
    /// Not known. Nothing is on the stack, so both kinds look alike.
    Either,
    /// Into the frame of a caller.
    Far,
}

/// A jump to an entry of one table, added to the table's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    /// Loads the entry.
    pub load: InsnIndex,
    /// Adds the base.
    pub sum: InsnIndex,
    /// Index into [`Addresses::tables`].
    pub table: usize,
}

/// The ways on from one instruction that no other phase changes.
#[derive(Clone, Copy)]
struct Way {
    /// The number of the instruction that a direct branch or call names, or [`NOWHERE`].
    target: u32,
    /// Control may come to the instruction after it.
    follows: bool,
    kind: WayKind,
}

/// The instructions that control may reach next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WayKind {
    Next,
    Branch,
    Jump,
    End,
    /// A call with a landing pad or receivers, or an indirect jump.
    Special,
}

const NOWHERE: u32 = u32::MAX;
/// Most bytes of a loop whose place is worth padding: four lines in which the processor fetches
/// code.
const SMALL_LOOP: u64 = 64;

/// A value for each unit.
pub(crate) struct PerUnit<T>(Vec<T>);

impl<T: Clone> PerUnit<T> {
    /// Gives all units this value.
    pub(crate) fn new(code: &Code<'_, '_>, value: T) -> PerUnit<T> {
        PerUnit(vec![value; code.insns.len()])
    }
}

impl<T> PerUnit<T> {
    /// Returns the values of all numbers, with those that are no unit's.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.0)
    }
}

impl<T> std::ops::Index<u32> for PerUnit<T> {
    type Output = T;

    fn index(&self, unit: u32) -> &T {
        &self.0[unit as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for PerUnit<T> {
    fn index_mut(&mut self, unit: u32) -> &mut T {
        &mut self.0[unit as usize]
    }
}

/// Control flow of an object.
pub(crate) struct FlowGraph {
    ways: PerInsn<Way>,
    /// Instructions that code or data names: branch targets, symbols, taken addresses.
    pub label: InsnSet,
    /// Targets of jumps that come after them in the section, with little code in between, and no
    /// call.
    pub looped: InsnSet,
    /// Instructions at the end of a symbol's extent.
    pub end: InsnSet,
    /// Instructions where functions begin. They are called, exported, or taken as an address and
    /// named by a function symbol.
    pub entry: InsnSet,
    /// Those of them that are functions only because their address is taken and no jump of their
    /// unit can lead there.
    pub presumed: Vec<InsnIndex>,
    /// Unit of each instruction. The number is an instruction of the unit.
    pub unit: PerInsn<u32>,
    /// Targets of indirect jumps, by unit: labels whose address is taken and that are no entries.
    pub interior: HashMap<u32, Vec<InsnIndex>>,
    /// Those labels of `interior` that pointers name. The others are entries of switch tables only,
    /// and [`crate::analysis::jumps`] handles them.
    pub pointed: HashMap<u32, Vec<InsnIndex>>,
    /// Indirect jumps whose kind is settled, with their targets. See [`FlowGraph::settle`].
    jumps: HashMap<InsnIndex, (JumpKind, Vec<InsnIndex>)>,
    /// Targets of the indirect jumps whose tables are proven.
    pub tables: HashMap<InsnIndex, Vec<InsnIndex>>,
    /// The jumps among them that read one table, with their parts.
    pub switches: HashMap<InsnIndex, Switch>,
    /// The targets of exceptions, by call.
    landings: HashMap<InsnIndex, Landing>,
    /// Labels of jumps whose targets do not agree about the stack's height.
    mixed: HashSet<InsnIndex>,
    /// Jumps into the frames of callers, and where they arrive.
    pub far: Far,
}

impl FlowGraph {
    /// Keeps only the unit of each instruction.
    pub(crate) fn into_units(self) -> PerInsn<u32> {
        self.unit
    }

    /// Says whether a direct jump leads to a function, and not to a place inside one.
    pub(crate) fn leads_out(&self, jump: InsnIndex) -> bool {
        self.target(jump).is_none_or(|to| self.entry[to])
    }

    /// Says whether a direct jump or branch leads to a function, and not only to a trap.
    pub(crate) fn tail_calls(&self, code: &Code<'_, '_>, jump: InsnIndex) -> bool {
        let traps = match code.insns[jump].flow {
            Flow::Jump(dest) | Flow::Branch(dest) => code.only_traps(dest),
            _ => false,
        };
        self.leads_out(jump) && !traps
    }

    /// Calls `visit` for every instruction that control may reach next. A call's callee does not
    /// count.
    #[inline]
    pub(crate) fn successors(&self, code: &Code<'_, '_>, at: InsnIndex, mut visit: impl FnMut(InsnIndex)) {
        let way = self.ways[at];
        if way.kind == WayKind::Special {
            return self.special(code, at, &mut visit);
        }
        if way.follows && matches!(way.kind, WayKind::Next | WayKind::Branch) {
            visit(at.next());
        }
        if way.target != NOWHERE && matches!(way.kind, WayKind::Branch | WayKind::Jump) {
            visit(InsnIndex::from(way.target as usize));
        }
    }

    /// Calls `visit` for the instructions after a call with a landing pad or receivers, or after an
    /// indirect jump.
    fn special(&self, code: &Code<'_, '_>, at: InsnIndex, visit: &mut dyn FnMut(InsnIndex)) {
        if code.insns[at].flow == Flow::JumpIndirect {
            if self.jump_kind(at) != JumpKind::Tail {
                self.jump_targets(at).iter().copied().for_each(visit);
            }
            return;
        }
        let next = self.next(at);
        if let Some(next) = next {
            visit(next);
        }
        if let Some(landing) = self.landing(at).filter(|landing| Some(landing.pad) != next) {
            visit(landing.pad);
        }
        let receivers = self.far.receivers(self.unit[at]).iter().copied();
        receivers.filter(|to| Some(*to) != next).for_each(visit);
    }

    /// Returns the instruction after this one, if control can come to no other.
    #[inline]
    pub(crate) fn only_next(&self, at: InsnIndex) -> Option<InsnIndex> {
        let way = self.ways[at];
        (way.kind == WayKind::Next && way.follows).then(|| at.next())
    }

    /// Follows the straight line from an instruction to the first one that `stops` wants, or to its
    /// last one.
    #[inline]
    pub(crate) fn along(&self, mut at: InsnIndex, stops: impl Fn(InsnIndex) -> bool) -> InsnIndex {
        while !stops(at)
            && let Some(next) = self.only_next(at).filter(|next| !self.label[*next])
        {
            at = next;
        }
        at
    }

    /// Says whether control may go on from an instruction to others than the next one and the
    /// target of a direct branch.
    pub(crate) fn is_special(&self, at: InsnIndex) -> bool {
        self.ways[at].kind == WayKind::Special
    }

    /// Returns the longest runs of instructions of one unit.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<InsnIndex>> {
        let mut start = InsnIndex::FIRST;
        self.unit.raw.chunk_by(|a, b| a == b).map(move |run| {
            let end = InsnIndex::from(usize::from(start) + run.len());
            std::mem::replace(&mut start, end)..end
        })
    }

    /// Returns the instructions of some units, in order.
    pub(crate) fn members(&self, units: &HashSet<u32>) -> Vec<InsnIndex> {
        let runs = self.runs().filter(|run| units.contains(&self.unit[run.start]));
        runs.flat_map(|run| run.start.until(run.end)).collect()
    }

    /// Returns the instruction of this object that a direct branch or call names.
    pub(crate) fn target(&self, at: InsnIndex) -> Option<InsnIndex> {
        let target = self.ways[at].target;
        (target != NOWHERE).then(|| InsnIndex::from(target as usize))
    }

    /// Returns the target of an exception from a call.
    pub(crate) fn landing(&self, at: InsnIndex) -> Option<Landing> {
        self.landings.get(&at).copied()
    }

    /// Returns the instruction after this one, if it is in the same section.
    pub(crate) fn next(&self, at: InsnIndex) -> Option<InsnIndex> {
        self.ways[at].follows.then(|| at.next())
    }

    /// Returns the labels of its own unit that an indirect jump may reach.
    pub(crate) fn jump_targets(&self, at: InsnIndex) -> &[InsnIndex] {
        self.tables.get(&at).or(self.jumps.get(&at).map(|(_, targets)| targets)).map_or(&[], Vec::as_slice)
    }

    /// Says whether the unit has labels that indirect jumps reach.
    pub(crate) fn has_interior(&self, at: InsnIndex) -> bool {
        self.interior.contains_key(&self.unit[at])
    }

    /// Returns the kind of an indirect jump's targets. Until it is settled, the jump leaves the
    /// function.
    pub(crate) fn jump_kind(&self, at: InsnIndex) -> JumpKind {
        if self.far.is_jump(at) {
            return JumpKind::Far;
        }
        if self.tables.contains_key(&at) {
            return JumpKind::Inside;
        }
        self.jumps.get(&at).map_or(JumpKind::Tail, |(kind, _)| *kind)
    }

    /// Says whether the label is a target of a jump whose targets disagree about the stack's
    /// height.
    pub(crate) fn is_mixed(&self, at: InsnIndex) -> bool {
        self.mixed.contains(&at)
    }

    /// Tells tail calls from jumps inside a unit, one round. `states` are those that the jumps
    /// settled so far imply. Says whether more was settled.
    ///
    /// A jump without a proven table leads to a place that a pointer names. If its unit has no such
    /// label, it is a tail call. A tail call happens with nothing on the stack, so a jump with
    /// something on the stack stays inside. Two cases remain for a jump with nothing on the stack.
    /// If other jumps of the unit reach all its labels with something on the stack, this jump
    /// cannot lead to these labels. Otherwise it may be both, and is taken for neither. The rounds
    /// presume heights for the labels, and [`crate::analysis::height::check_returns`] checks them
    /// at the function's ends.
    pub(crate) fn settle(&mut self, code: &Code<'_, '_>, states: &States) -> bool {
        let open: Vec<InsnIndex> = code
            .indexes()
            .filter(|&at| code.insns[at].flow == Flow::JumpIndirect && self.pointed.contains_key(&self.unit[at]))
            .filter(|at| !self.tables.contains_key(at) && !self.jumps.contains_key(at) && !self.far.is_jump(*at))
            .filter(|&at| states[at].rsp != Height::Unseen)
            .collect();
        let deep: Vec<InsnIndex> = open.iter().copied().filter(|&at| states[at].rsp != Height::Known(0)).collect();
        for &at in if deep.is_empty() { &open } else { &deep } {
            let height = states[at].rsp;
            let fits = |label: &InsnIndex| states[*label].rsp == Height::Unseen || states[*label].rsp == height;
            let pointed = &self.pointed[&self.unit[at]];
            let targets: Vec<InsnIndex> = match height {
                Height::Known(_) => pointed.iter().copied().filter(fits).collect(),
                _ => pointed.clone(),
            };
            let kind = match height {
                Height::Known(0) if targets.is_empty() => JumpKind::Tail,
                Height::Known(0) => JumpKind::Either,
                _ => JumpKind::Inside,
            };
            self.jumps.insert(at, (kind, targets));
        }
        !open.is_empty()
    }

    /// Finds the labels of jumps whose targets disagree, given the final heights. Such a jump and
    /// all its labels agree on one place of the data stack. So does every other jump to one of
    /// these labels.
    pub(crate) fn find_mixed(&mut self, states: &States) {
        let jumps = self.tables.values().chain(self.pointed.values());
        let sets: Vec<Vec<InsnIndex>> =
            jumps.map(|labels| labels.iter().copied().filter(|at| !self.entry[*at]).collect()).collect();
        loop {
            let empty = |at: &&InsnIndex| states[**at].rsp == Height::Known(0) && !self.mixed.contains(at);
            let disagree = |labels: &&Vec<InsnIndex>| {
                let count = labels.iter().filter(empty).count();
                count != 0 && count != labels.len()
            };
            let more: Vec<InsnIndex> = sets.iter().filter(disagree).flatten().copied().collect();
            if more.is_empty() {
                return;
            }
            self.mixed.extend(more);
        }
    }
}

/// Returns the ways on from all instructions, without the special ones. Control does not fall into
/// the trap or into the cold part of another function.
fn ways(code: &Code<'_, '_>) -> PerInsn<Way> {
    let mut ways = code.per_insn(Way { target: NOWHERE, follows: false, kind: WayKind::Next });
    for section in &code.sections {
        for at in section.first.until(section.end) {
            let (dest, kind) = match code.insns[at].flow {
                Flow::Next | Flow::CallIndirect => (None, WayKind::Next),
                Flow::Call(dest) => (Some(dest), WayKind::Next),
                Flow::Branch(dest) => (Some(dest), WayKind::Branch),
                Flow::Jump(dest) => (Some(dest), WayKind::Jump),
                Flow::JumpIndirect => (None, WayKind::Special),
                Flow::Return | Flow::Stop => (None, WayKind::End),
            };
            let target = dest.and_then(|dest| insn_of(code, dest)).map_or(NOWHERE, InsnIndex::number);
            let follows = at.next() < section.trap && !code.ends_cold_part(at);
            ways[at] = Way { target, follows, kind };
        }
    }
    ways
}

/// Builds the graph. `inner`: taken labels that are known to be no functions.
pub(crate) fn build(
    code: &Code<'_, '_>,
    addresses: &Addresses,
    unwind: &Unwind,
    inner: &HashSet<InsnIndex>,
) -> FlowGraph {
    let mut label = code.no_insns();
    let mut entry = code.no_insns();
    let mut end = code.no_insns();
    let mut jumped = code.no_insns();
    let mut looped = code.no_insns();
    let mut ways = ways(code);
    let mut called = None;
    for (at, way) in ways.iter_enumerated() {
        if matches!(code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect) {
            called = Some(at);
        }
        if way.target == NOWHERE {
            continue;
        }
        let target = InsnIndex::from(way.target as usize);
        label.insert(target);
        if way.kind == WayKind::Next {
            entry.insert(target);
        } else {
            jumped.insert(target);
            let small = code.insns[at].end() <= u64::from(code.insns[target].offset) + SMALL_LOOP;
            if target <= at && small && called.is_none_or(|call| call < target) {
                looped.insert(target);
            }
        }
    }
    for target in addresses.taken.iter() {
        label.insert(target);
    }
    for (_, landing) in unwind.landings() {
        label.insert(landing.pad);
        jumped.insert(landing.pad);
    }
    for (index, symbol) in code.object.symbols.iter().enumerate() {
        let Place::Section(section) = symbol.place else { continue };
        if let Some(behind) = code.at(section, symbol.end()) {
            end.insert(behind);
        }
        let Some(target) = code.at(section, symbol.value) else { continue };
        label.insert(target);
        let function = symbol.is_function();
        // A local function that only jumps reach is a function, unless its name is that of a cold
        // part. A label that switches reach is none.
        let cold = jumped[target] && code.begins_cold_part(target);
        let inside = cold || addresses.taken[target] || code.is_padded_part(index, target);
        let called = addresses.pointed[target]
            && (addresses.is_operand(code, target) || !code.is_label_in_cold_part(section, symbol.value));
        if symbol.is_open() || (function && (called || !inside)) {
            entry.insert(target);
        }
    }
    // A taken label outside every function's extent is a function that lacks a symbol. But a switch
    // may name the padding behind its function, see `ends`.
    let mut presumed = Vec::new();
    for at in addresses.taken.iter().filter(|at| !inner.contains(at)) {
        let insn = &code.insns[at];
        let behind_switch = insn.is_nop() && end[at] && !addresses.pointed[at];
        if !entry[at] && !behind_switch && function_around(code, &entry, insn).is_none() {
            entry.insert(at);
            presumed.push(at);
        }
    }
    // Functions share the trap of their section, and nothing else.
    for section in &code.sections {
        entry.insert(section.trap);
    }
    let unit = units(code, &ways, addresses, unwind, &entry);
    // A taken label in a unit without an indirect jump is a function too: no jump could reach it,
    // so it is called.
    let jumping: HashSet<u32> =
        code.indexes().filter(|&at| code.insns[at].flow == Flow::JumpIndirect).map(|at| unit[at]).collect();
    let inside = |at: InsnIndex| !entry[at] && function_around(code, &entry, &code.insns[at]).is_some();
    let far = Far::find(code, addresses, &unit, inside);
    let receivers: HashSet<InsnIndex> = far.all().collect();
    for at in addresses.taken.iter().filter(|at| !inner.contains(at)) {
        if !entry[at] && !jumping.contains(&unit[at]) && !receivers.contains(&at) {
            entry.insert(at);
            presumed.push(at);
        }
    }
    let mut interior = HashMap::<u32, Vec<InsnIndex>>::new();
    let mut pointed = HashMap::<u32, Vec<InsnIndex>>::new();
    for at in addresses.taken.iter().filter(|&at| !entry[at] && !receivers.contains(&at)) {
        interior.entry(unit[at]).or_default().push(at);
        if addresses.pointed[at] {
            pointed.entry(unit[at]).or_default().push(at);
        }
    }
    for (call, _) in unwind.landings() {
        ways[call].kind = WayKind::Special;
    }
    if !receivers.is_empty() {
        let calls = code.indexes().filter(|&at| matches!(code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect));
        for at in calls.filter(|&at| !far.receivers(unit[at]).is_empty()) {
            ways[at].kind = WayKind::Special;
        }
    }
    FlowGraph {
        ways,
        label,
        looped,
        end,
        entry,
        presumed,
        unit,
        interior,
        pointed,
        jumps: HashMap::new(),
        tables: HashMap::new(),
        switches: HashMap::new(),
        landings: unwind.landings().collect(),
        mixed: HashSet::new(),
        far,
    }
}

/// Returns the first instruction of the function whose symbol's extent contains an instruction. A
/// cold part that is no entry belongs to its function.
fn function_around(code: &Code<'_, '_>, entry: &InsnSet, insn: &Insn) -> Option<InsnIndex> {
    let symbol = code.function_at(insn.section as usize, insn.offset.into())?;
    let extent = &code.object.symbols[symbol];
    let inside = extent.size == 0 || u64::from(insn.offset) < extent.end();
    let first = code.at(insn.section as usize, extent.value).filter(|_| inside)?;
    let whole = &code.object.symbols[code.wholes.of(symbol)];
    match whole.place {
        Place::Section(section) if !entry[first] => code.at(section, whole.value),
        _ => Some(first),
    }
}

fn units(
    code: &Code<'_, '_>,
    ways: &PerInsn<Way>,
    addresses: &Addresses,
    unwind: &Unwind,
    entry: &InsnSet,
) -> PerInsn<u32> {
    let mut parent = fall_through(ways, entry);
    for (at, way) in ways.iter_enumerated() {
        let target = InsnIndex::from(way.target as usize);
        if way.target != NOWHERE && matches!(way.kind, WayKind::Jump | WayKind::Branch) && !entry[target] {
            join(&mut parent, at, target);
        }
    }
    for table in &addresses.tables {
        for &target in table.targets.iter().filter(|target| !entry[**target]) {
            for &by in &table.names {
                join(&mut parent, by, target);
            }
        }
    }
    for (call, landing) in unwind.landings() {
        join(&mut parent, call, landing.pad);
    }
    // Code that only a taken label reaches (computed goto) belongs to the function whose symbol
    // contains it.
    for at in addresses.taken.iter().filter(|at| !entry[*at]) {
        if let Some(first) = function_around(code, entry, &code.insns[at]) {
            join(&mut parent, at, first);
        }
    }
    code.indexes().map(|at| root(&mut parent, at).number()).collect()
}

/// Joins instructions from which control falls into the next one, except into a function's entry.
fn fall_through(ways: &PerInsn<Way>, entry: &InsnSet) -> PerInsn<InsnIndex> {
    let (mut first, mut falls) = (InsnIndex::FIRST, false);
    let joined = ways.iter_enumerated().map(|(at, way)| {
        if !falls || entry[at] {
            first = at;
        }
        falls = way.follows && matches!(way.kind, WayKind::Next | WayKind::Branch);
        first
    });
    joined.collect()
}

/// Joins instructions by pairs. Returns one instruction of each set for all of it.
pub(crate) fn joined(code: &Code<'_, '_>, pairs: impl Iterator<Item = (InsnIndex, InsnIndex)>) -> PerInsn<u32> {
    let mut parent: PerInsn<InsnIndex> = code.indexes().collect();
    for (a, b) in pairs {
        join(&mut parent, a, b);
    }
    code.indexes().map(|at| root(&mut parent, at).number()).collect()
}

fn root(parent: &mut PerInsn<InsnIndex>, mut at: InsnIndex) -> InsnIndex {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

fn join(parent: &mut PerInsn<InsnIndex>, a: InsnIndex, b: InsnIndex) {
    let (a, b) = (root(parent, a), root(parent, b));
    parent[a.max(b)] = a.min(b);
}
