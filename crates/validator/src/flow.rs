//! The registers and flags of the original program whose values the new program has, at each point
//! and across calls of the object.
//!
//! At each point a register is *valid* (the new program holds its value), *as at the entry* of its
//! function, or lost. The new program may lose a register only if the original program writes it
//! before it reads it, on every path. A function's summary tells its callers which registers it
//! loses. So the proof also holds for a value that a compiler keeps across a call which does not
//! clobber it.

use crate::code::Index;
use crate::context::Context;
use crate::graph::Graph;
use crate::report::Verdict;
use crate::sets::{
    ALL, ALL_FLAGS, ARGUMENTS, COUNT, OF_ALL_BYTES, PRESERVED, R11, RAX, RBP, RESULTS, Set, names, numbers, rest,
    whole, wholes,
};
use crate::walk::{Block, Callee, Op, Way};
use foldhash::{HashMap, HashMapExt};
use std::collections::{BTreeMap, BTreeSet};

/// The state of registers at a point. Registers in neither `valid` nor `as_entry` are lost.
///
/// A lost register is *spent* if no way to the point loses anything but the target of a switch that
/// the original program has jumped to, or the address of its table. No function returns these on
/// purpose. `or_entry` are the spent registers that are as at the entry on some of the ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    valid: Set,
    as_entry: Set,
    spent: Set,
    or_entry: Set,
    /// Registers whose content the original program may have put there on purpose. Values that
    /// unknown functions leave do not count.
    meant: Set,
    /// Registers that were lost while they were in `meant`.
    harm: Set,
}

const TOP: State = State { valid: ALL, as_entry: 0, spent: 0, or_entry: 0, meant: 0, harm: 0 };

impl State {
    fn right(self) -> Set {
        self.valid | self.as_entry
    }

    fn meet(self, other: State) -> State {
        let right = self.right() & other.right();
        let valid = self.valid & other.valid;
        let as_entry = right & !valid;
        let spent = self.harmless() & other.harmless() & !right;
        let or_entry = spent & (self.as_entry | other.as_entry | self.or_entry | other.or_entry);
        State { valid, as_entry, spent, or_entry, meant: self.meant | other.meant, harm: self.harm | other.harm }
    }

    /// Returns the registers that are right or spent. A function may return with these.
    fn harmless(self) -> Set {
        self.right() | self.spent
    }

    /// Marks lost registers that hold the target of a switch in the original program, or the
    /// address of its table.
    fn spend(&mut self, set: Set) {
        let set = set & !self.right();
        self.spent |= set;
        self.or_entry &= !set;
    }

    fn gain(&mut self, set: Set) {
        if set & whole(RAX) != 0 {
            self.meant &= !COUNT;
            self.harm &= !COUNT;
        }
        self.valid |= set & ALL;
        self.as_entry &= !set;
        self.spent &= !set;
        self.or_entry &= !set;
        self.meant |= set;
        self.harm &= !set;
    }

    /// Marks registers in which an unknown function left any values.
    fn forget(&mut self, set: Set) {
        self.gain(set);
        self.meant &= !(set | COUNT);
    }

    /// Returns the state after a function that was called, by its writes and its state at the end,
    /// relative to its entry.
    fn behind(self, end: State, writes: Set) -> State {
        let preserved = wholes(&PRESERVED);
        let valid = end.valid & !preserved | end.as_entry & self.valid & !preserved | self.valid & preserved;
        let as_entry = end.as_entry & self.as_entry & !preserved | self.as_entry & preserved;
        // A register that some way through the callee leaves alone must be harmless before it too.
        let kept = end.or_entry | end.as_entry & self.spent;
        let spent = (end.spent & !end.or_entry | kept & self.harmless()) & !preserved | self.spent & preserved;
        let or_entry = spent & (self.as_entry | self.or_entry) & (kept | preserved);
        let meant = self.meant & !(writes | COUNT);
        let lost = self.right() & !(valid | as_entry) & self.meant;
        State { valid, as_entry, spent, or_entry, meant, harm: (self.harm | lost) & !(writes | COUNT) }
    }

    /// Marks registers that the original program writes while the new one loses them. `meant`:
    /// those into which it puts something on purpose.
    fn leave(&mut self, set: Set, meant: Set) {
        self.meant = self.meant & !set | meant;
        self.harm &= !set;
        self.lose(set);
    }

    fn lose(&mut self, set: Set) {
        let count = if set & whole(RAX) != 0 { COUNT } else { 0 };
        self.harm |= (set | count) & self.meant;
        self.valid &= !set;
        self.as_entry &= !set;
        self.spent &= !set;
        self.or_entry &= !set;
    }
}

/// The summary of a function, for its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summary {
    /// Registers read before they are written.
    needs: Set,
    /// Registers that unknown callees may take before they are written.
    takes: Set,
    /// State at the function's end, relative to its entry.
    end: State,
    /// State where far jumps leave the function, or functions that it calls.
    far: State,
    /// Registers that the original function may write.
    writes: Set,
    /// Preserved registers in which it takes a value from its caller.
    taken: u32,
    /// Preserved registers that are not known to hold its caller's values at its end.
    unkept: u32,
}

const UNSEEN: Summary = Summary { needs: 0, takes: 0, end: TOP, far: TOP, writes: 0, taken: 0, unkept: 0 };

/// A register that is lost at an instruction that needs it, and the fault in words.
pub(crate) type Fault = (Index, (Verdict, String));

/// Follows validity through all functions.
pub(crate) fn check(context: &Context<'_, '_>, graph: &Graph, blocks: &BTreeMap<Index, Block>) -> Vec<Fault> {
    let entries: Vec<Index> = blocks.keys().copied().filter(|at| graph.entry[*at]).collect();
    let mut callers: HashMap<Index, BTreeSet<Index>> = HashMap::new();
    let mut summaries: HashMap<Index, Summary> = HashMap::new();
    let mut work: BTreeSet<Index> = entries.iter().copied().collect();
    while let Some(entry) = work.pop_first() {
        let mut function = Function {
            context,
            graph,
            blocks,
            summaries: &summaries,
            called: BTreeSet::new(),
            faults: None,
            sites: BTreeSet::new(),
            thrown: TOP,
        };
        let summary = function.run(entry);
        for callee in function.called {
            callers.entry(callee).or_default().insert(entry);
        }
        if summaries.insert(entry, summary) != Some(summary) {
            work.extend(callers.get(&entry).into_iter().flatten());
        }
    }
    let mut faults = BTreeMap::new();
    for entry in entries {
        let mut function = Function {
            context,
            graph,
            blocks,
            summaries: &summaries,
            called: BTreeSet::new(),
            faults: Some(BTreeMap::new()),
            sites: BTreeSet::new(),
            thrown: TOP,
        };
        let summary = function.run(entry);
        if graph.open[entry] {
            // Callers in other objects pass nothing there on purpose.
            let of = Summary { taken: 0, unkept: summary.unkept | summary.taken, ..summary };
            function.moved(entry, context.old.kept[entry].moved(), of, "the function");
        }
        faults.extend(function.faults.into_iter().flatten());
    }
    faults.into_iter().collect()
}

struct Function<'x, 'p, 'a> {
    context: &'x Context<'p, 'a>,
    graph: &'x Graph,
    blocks: &'x BTreeMap<Index, Block>,
    summaries: &'x HashMap<Index, Summary>,
    called: BTreeSet<Index>,
    /// Filled in the last round.
    faults: Option<BTreeMap<Index, (Verdict, String)>>,
    /// The places where registers were lost, for messages.
    sites: BTreeSet<(Set, Index)>,
    /// State where a far jump out of the last call arrives.
    thrown: State,
}

impl Function<'_, '_, '_> {
    fn run(&mut self, entry: Index) -> Summary {
        let mut summary = UNSEEN;
        let mut states = HashMap::from_iter([(
            entry,
            State { valid: 0, as_entry: ALL, spent: 0, or_entry: 0, meant: ALL | COUNT, harm: 0 },
        )]);
        let mut work = vec![entry];
        while let Some(head) = work.pop() {
            let Some(block) = self.blocks.get(&head) else { continue };
            let mut state = states[&head];
            let mut edges = block.edges.iter().peekable();
            for count in 0..=block.ops.len() {
                while let Some(edge) = edges.next_if(|edge| edge.after <= count) {
                    if self.graph.entry[edge.to] {
                        let callee = Callee::Local { entry: edge.to, count: true };
                        self.tail(edge.from, callee, u32::MAX, state, &mut summary);
                        continue;
                    }
                    let mut after = state;
                    self.lost(edge.from, edge.lost);
                    after.lose(edge.lost);
                    match edge.way {
                        Way::Plain => {}
                        Way::Switch(target) => after.spend(target),
                        Way::Landing => after.gain(wholes(&RESULTS)),
                        Way::Receiver => {
                            after = self.thrown;
                            after.lose(edge.lost);
                            after.gain(whole(RBP));
                        }
                    }
                    let joined = states.get(&edge.to).map_or(after, |known| known.meet(after));
                    if states.insert(edge.to, joined) != Some(joined) {
                        work.push(edge.to);
                    }
                }
                if let Some(op) = block.ops.get(count) {
                    self.op(*op, &mut state, &mut summary);
                }
            }
        }
        summary
    }

    fn fault(&mut self, at: Index, what: impl FnOnce() -> String) {
        if let Some(faults) = &mut self.faults {
            faults.entry(at).or_insert_with(|| (Verdict::Wrong, what()));
        }
    }

    /// Reports a fault if caller and callee keep registers in different places.
    fn moved(&mut self, at: Index, moved: u32, callee: Summary, who: &str) {
        let list = |set: u32| names(numbers(set).map(whole).fold(0, |a, b| a | b));
        let (taken, unkept) = (moved & callee.taken, moved & callee.unkept);
        if taken != 0 {
            self.fault(at, || format!("{who} takes {} of its caller, which lives elsewhere", list(taken)));
        } else if let Some(faults) = self.faults.as_mut().filter(|_| unkept != 0) {
            let what = format!("{who} is not known to keep and not to take {}, which lives elsewhere", list(unkept));
            faults.entry(at).or_insert((Verdict::Unproved, what));
        }
    }

    fn lost(&mut self, at: Index, set: Set) {
        if set != 0 && self.faults.is_some() {
            self.sites.insert((set, at));
        }
    }

    /// Returns the places where registers were lost, in words.
    fn sites(&self, set: Set) -> String {
        let of = self.sites.iter().filter(|(lost, _)| lost & set != 0).take(4);
        let places: Vec<String> =
            of.map(|(_, at)| format!("{:#x}", self.context.old.text.insns[*at].offset())).collect();
        if places.is_empty() { "in a function called".to_owned() } else { format!("for {}", places.join(", ")) }
    }

    fn need(&mut self, at: Index, set: Set, state: State, summary: &mut Summary, why: &str) {
        let lost = set & !state.right() & ALL;
        if lost != 0 {
            let sites = self.sites(lost);
            self.fault(at, || format!("{why} {}, which the new code has overwritten {sites}", names(lost)));
        }
        summary.needs |= set & state.as_entry;
    }

    /// Reports a callee that may read r11 before it writes it. Compilers pass nothing there, so the
    /// value should not matter on such a path. Hand-written code may mean it.
    fn chance(&mut self, at: Index, needs: Set, state: State) {
        if let Some(faults) = self.faults.as_mut().filter(|_| needs & whole(R11) & !state.right() != 0) {
            let what = "the function called may read r11, which the new code has overwritten".to_owned();
            faults.entry(at).or_insert((Verdict::Unproved, what));
        }
    }

    /// Checks the registers that an unknown function may take. Values that the original program
    /// left there on purpose must be right.
    fn take(&mut self, at: Index, set: Set, state: State, summary: &mut Summary) {
        let lost = set & state.harm;
        if lost != 0 {
            let sites = self.sites(lost);
            self.fault(at, || format!("the call may take {}, which the new code has overwritten {sites}", names(lost)));
        }
        summary.takes |= set & state.as_entry;
    }

    fn op(&mut self, op: Op, state: &mut State, summary: &mut Summary) {
        match op {
            Op::Need(at, set) => self.need(at, set, *state, summary, "the original program reads"),
            Op::Take(set) => summary.taken |= set,
            Op::Gain(set) => {
                summary.writes |= set;
                state.gain(set);
                // A truth value in the low byte of r11. No compiler passes anything in r11, so
                // nobody knows the caller's value in the rest.
                if set & whole(R11) == 1 << R11 && state.as_entry & rest(R11) != 0 {
                    state.forget(rest(R11));
                }
            }
            Op::Lose(at, set) => {
                self.lost(at, set);
                state.lose(set);
            }
            Op::Wrote(set) => summary.writes |= set,
            Op::Copy { at, from, to } => {
                let lost = whole(from) & !state.right();
                self.need(at, whole(from) & !lost, *state, summary, "the original program reads");
                // A copy of a register that is lost as a whole is on purpose. The rest of one whose
                // low byte is right may be leftovers, and means as much as it did.
                let (mut gained, mut meant) = (0, 0);
                for shift in [0, 16] {
                    let (source, target) = (1 << (from + shift), 1 << (to + shift));
                    if lost & source == 0 {
                        gained |= target;
                    } else if (lost & (1 << from)) | (state.harm & source) != 0 {
                        meant |= target;
                    }
                }
                summary.writes |= whole(to);
                state.gain(gained);
                let gone = whole(to) & !gained;
                self.lost(at, gone);
                state.leave(gone, meant);
            }
            Op::Mix { at, needed, from, to } => {
                let lost = Self::leftover(from, *state) | Self::leftover(to, *state);
                self.need(at, needed & !lost, *state, summary, "the original program reads");
                let gone = if lost == 0 { 0 } else { rest(to) | OF_ALL_BYTES };
                let meant = if lost & state.harm == 0 { 0 } else { gone };
                summary.writes |= whole(to) | ALL_FLAGS;
                state.gain((whole(to) | ALL_FLAGS) & !gone);
                self.lost(at, gone);
                state.leave(gone, meant);
            }
            Op::Forget(set) => state.forget(set),
            Op::Untaken(set) => {
                state.meant &= !set;
                state.harm &= !set;
            }
            Op::Call(at, callee, own) => *state = self.call(at, callee, own, *state, summary),
            // Callers find the registers that are lost here at their receivers.
            Op::Far => summary.far = summary.far.meet(*state),
            Op::Return(at, unkept) => {
                self.keeps(at, *state, summary, unkept);
                self.need_results(at, *state);
                self.end(*state, summary);
            }
            Op::Tail(at, callee, unkept) => {
                self.keeps(at, *state, summary, unkept);
                self.tail(at, callee, unkept, *state, summary);
            }
            Op::Leave { at, count, lost, unkept } => {
                self.keeps(at, *state, summary, unkept);
                self.call(at, Callee::Unknown { count }, unkept, *state, summary);
                // Only a proven tail call changes the registers that a caller may keep. This jump
                // may stay inside.
                let mut after = *state;
                self.lost(at, lost);
                after.lose(lost);
                after.gain(wholes(&RESULTS));
                self.end(after, summary);
            }
        }
    }

    /// Returns the bits of a register above its low byte, if they are lost and the low byte is not.
    /// Compilers combine whole registers when they need only the low bytes.
    fn leftover(register: usize, state: State) -> Set {
        let right = state.right() & whole(register);
        if right == 1 << register { rest(register) } else { 0 }
    }

    /// Checks that preserved registers are right where control leaves the function.
    fn keeps(&mut self, at: Index, state: State, summary: &mut Summary, unkept: u32) {
        let lost = wholes(&PRESERVED) & !state.right();
        if lost != 0 {
            let sites = self.sites(lost);
            self.fault(at, || format!("the function ends with {} overwritten by the new code {sites}", names(lost)));
        }
        summary.unkept |= unkept;
    }

    fn need_results(&mut self, at: Index, state: State) {
        let lost = wholes(&RESULTS) & !state.harmless();
        if lost != 0 {
            self.fault(at, || format!("the function returns with {} overwritten by the new code", names(lost)));
        }
    }

    fn end(&mut self, state: State, summary: &mut Summary) {
        summary.end = summary.end.meet(state);
    }

    fn tail(&mut self, at: Index, callee: Callee, own: u32, state: State, summary: &mut Summary) {
        let after = self.call(at, callee, own, state, summary);
        self.end(after, summary);
    }

    /// Returns the state after a call. `own`: preserved registers that do not hold the values of
    /// the function's caller.
    fn call(&mut self, at: Index, callee: Callee, own: u32, state: State, summary: &mut Summary) -> State {
        let mut after = state;
        match callee {
            Callee::System { taken } => {
                self.need(at, wholes(&[RAX]) | wholes(taken), state, summary, "the system call takes");
                after.gain(wholes(&[RAX, 1, 11]));
                return after;
            }
            Callee::Unknown { count } => {
                self.counted(at, count, state, summary);
                self.take(at, wholes(&ARGUMENTS), state, summary);
                // Its changes are equal in both programs, or nobody reads them.
                after.forget(ALL & !wholes(&PRESERVED));
                summary.writes |= ALL & !wholes(&PRESERVED);
                self.thrown = after;
            }
            Callee::Local { entry, count } => {
                self.called.insert(entry);
                let of = self.summaries.get(&entry).copied().unwrap_or(UNSEEN);
                self.counted(at, count && of.takes & COUNT != 0, state, summary);
                self.chance(at, of.needs, state);
                let needs = of.needs & !wholes(&PRESERVED) & !(whole(R11) & !state.right());
                self.need(at, needs, state, summary, "the function called reads");
                self.take(at, of.takes, state, summary);
                // Both may keep r15 in one other place.
                let (mine, other) = (self.context.old.kept[at], self.context.old.kept[entry]);
                let moved = mine.moved() | other.moved();
                let agree = mine.how == other.how && mine.slot.is_none() && other.slot.is_none();
                if !agree {
                    let mine = Summary { taken: of.taken & own, ..of };
                    self.moved(at, moved, mine, "the function called");
                }
                // The callee may take values that the function's own caller left. That caller
                // answers for them.
                summary.taken |= of.taken & !own;
                // A definition that the linker takes in its place may write more, so nobody passes
                // anything on purpose in what this one leaves alone.
                let more = if self.graph.replaced[entry] { ALL & !wholes(&PRESERVED) } else { 0 };
                let writes = of.writes | more;
                after = state.behind(of.end, writes);
                after.meant |= wholes(&RESULTS);
                summary.writes |= writes;
                self.thrown = state.behind(of.far, writes);
            }
        }
        summary.far = summary.far.meet(self.thrown);
        after
    }

    fn counted(&mut self, at: Index, count: bool, state: State, summary: &mut Summary) {
        if !count {
            return;
        }
        if state.harm & COUNT != 0 {
            let sites = self.sites(1 << RAX);
            self.fault(at, || format!("the call may take a count in al, which the new code has overwritten {sites}"));
        }
        if state.as_entry & (1 << RAX) != 0 {
            summary.takes |= COUNT;
        }
    }
}

const _: () = assert!(COUNT & (ALL | ALL_FLAGS) == 0);
