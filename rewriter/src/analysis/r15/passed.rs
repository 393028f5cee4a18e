//! Phase 6c: functions that take r15 from their callers, or leave it to them.
//!
//! By the psABI a function leaves r15 as it finds it and does not look at it. So each unit may keep
//! it in another place. Other conventions (`regcall`, hand-written assembly) pass values in r15.
//! This phase proves that a unit does not: on every path from an entry, r15 is written or saved
//! before it is read, and at no exit does r15 surely hold the unit's own value.
//!
//! Inside an object such a convention holds if every unit keeps r15 at the one place in the TCB
//! page. With other objects it cannot hold.

use crate::analysis::depth::{Height, States};
use crate::analysis::flow::{FlowGraph, JumpKind};
use crate::analysis::r15::kept::Passed;
use crate::analysis::r15::slot::reads_nothing;
use crate::analysis::reach::frame_place;
use crate::analysis::regs::{AllEffects, Set, bit};
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use crate::object::read::Place;
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The content of r15 at a point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// The caller's value.
    Caller,
    /// The caller's value, which is saved.
    Saved,
    /// The unit's own value.
    Own,
    /// The unit's own value, or the caller's, which is saved.
    Maybe,
    /// Loaded: the unit's own value, or the caller's, which is restored.
    Loaded,
    /// Loaded on one path, and saved on another.
    Doubt,
    /// Paths disagree.
    Mixed,
}

impl Holds {
    fn join(self, other: Holds) -> Holds {
        use Holds::{Doubt, Loaded, Maybe, Mixed, Own, Saved};
        match (self, other) {
            (a, b) if a == b => a,
            (Saved | Own | Maybe, Saved | Own | Maybe) => Maybe,
            (Own, Loaded) | (Loaded, Own) => Loaded,
            (Saved | Own | Maybe | Loaded | Doubt, Saved | Own | Maybe | Loaded | Doubt) => Doubt,
            _ => Mixed,
        }
    }
}

/// The way in which a unit passes a preserved register.
#[derive(Clone, Copy)]
enum Passing {
    /// By a convention of its own, at this instruction.
    Meant(InsnIndex),
    /// It saves the register, and then reads it where it may still hold the caller's value.
    /// Compilers leave such a read on a path that they know to be impossible. Nobody else knows
    /// that, so the read has to find the caller's value.
    Unset,
}

/// Finds units that pass values in r15.
///
/// # Errors
/// [`Reason::NoSafeForm`] if code of other objects may call such a unit.
pub(crate) fn find(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    addresses: &Addresses,
) -> Result<Passed, Vec<Refusal>> {
    let named = code
        .indexes()
        .filter(|&at| (effects[at].uses | effects[at].writes) & bit(Register::R15) != 0 && !code.insns[at].is_nop());
    let units = insns_by_unit(graph, named.map(|at| graph.unit[at]));
    let mut found = HashMap::<u32, InsnIndex>::new();
    let mut unset = HashSet::<u32>::new();
    let mut search = Search::new(code, graph, effects, states);
    for (unit, insns) in &units {
        match search.passes(insns, Register::R15) {
            Some(Passing::Meant(at)) => {
                found.insert(*unit, at);
            }
            Some(Passing::Unset) => {
                unset.insert(*unit);
            }
            None => {}
        }
    }
    let open: HashSet<InsnIndex> = code
        .object
        .symbols
        .iter()
        .filter(|symbol| symbol.is_open())
        .filter_map(|symbol| match symbol.place {
            Place::Section(section) => code.at(section, symbol.value),
            _ => None,
        })
        .collect();
    let known = |at: &InsnIndex| open.contains(at) || addresses.pointed[*at];
    let mut refusals: Vec<(InsnIndex, Refusal)> = found
        .iter()
        .filter(|(unit, _)| units[*unit].iter().any(known))
        .map(|(_, &at)| {
            let detail = "r15 carries a value into the function or out of it, and is the data stack's register";
            (at, code.refuse(at, Reason::NoSafeForm, detail))
        })
        .collect();
    refusals.sort_by_key(|(at, _)| *at);
    match (refusals.is_empty(), found.is_empty()) {
        (true, true) => Ok(Passed::No(with_callers(code, graph, unset))),
        (true, false) => Ok(Passed::Inside),
        _ => Err(refusals.into_iter().map(|(_, refusal)| refusal).collect()),
    }
}

/// Returns the registers of a list in which functions that this object calls take values from their
/// callers, or leave values to them. No caller may keep another register's value in these.
pub(crate) fn others(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    registers: &[Register],
) -> Set {
    let called = code.insns.iter().filter_map(|insn| match insn.flow {
        Flow::Call(dest) | Flow::Jump(dest) | Flow::Branch(dest) => {
            insn_of(code, dest).filter(|to| graph.entry[*to] && !code.is_trap(*to))
        }
        _ => None,
    });
    let units = insns_by_unit(graph, called.map(|to| graph.unit[to]));
    let mut search = Search::new(code, graph, effects, states);
    let mut passed = 0;
    for insns in units.values() {
        let named = insns.iter().fold(0, |set, at| set | effects[*at].uses | effects[*at].writes);
        for register in registers.iter().filter(|register| named & bit(**register) != 0) {
            if passed & bit(*register) == 0 && search.passes(insns, *register).is_some() {
                passed |= bit(*register);
            }
        }
    }
    passed
}

/// Returns the instructions of some units, by unit.
pub(crate) fn insns_by_unit(graph: &FlowGraph, units: impl Iterator<Item = u32>) -> HashMap<u32, Vec<InsnIndex>> {
    let mut found: HashMap<u32, Vec<InsnIndex>> = units.map(|unit| (unit, Vec::new())).collect();
    if found.is_empty() {
        return found;
    }
    for run in graph.runs() {
        if let Some(unit) = found.get_mut(&graph.unit[run.start]) {
            unit.extend(run.start.until(run.end));
        }
    }
    found
}

/// Adds all units that lead to a unit of a set by direct calls and jumps.
fn with_callers(code: &Code<'_, '_>, graph: &FlowGraph, mut units: HashSet<u32>) -> HashSet<u32> {
    let mut before = 0;
    while before != units.len() {
        before = units.len();
        for (at, insn) in code.each() {
            if let Flow::Call(dest) | Flow::Jump(dest) | Flow::Branch(dest) = insn.flow
                && insn_of(code, dest).is_some_and(|to| units.contains(&graph.unit[to]))
            {
                units.insert(graph.unit[at]);
            }
        }
    }
    units
}

/// A search for units that pass a preserved register.
pub(crate) struct Search<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    states: &'x States,
    /// The register's content before the instructions of the last unit that control reaches.
    holds: PerInsn<Option<Holds>>,
}

impl<'x, 'o, 'a> Search<'x, 'o, 'a> {
    pub(crate) fn new(
        code: &'x Code<'o, 'a>,
        graph: &'x FlowGraph,
        effects: &'x AllEffects,
        states: &'x States,
    ) -> Self {
        Search { code, graph, effects, states, holds: code.per_insn(None) }
    }

    /// Says whether a unit of these instructions reads a register where it may still hold the
    /// caller's value.
    pub(crate) fn takes(&mut self, insns: &[InsnIndex], register: Register) -> bool {
        self.passes(insns, register).is_some()
    }

    /// Returns how a unit takes a preserved register from its callers, or leaves it to them: the
    /// first instruction that does so on purpose, if there is one.
    fn passes(&mut self, insns: &[InsnIndex], register: Register) -> Option<Passing> {
        let Search { code, graph, effects, states, ref mut holds } = *self;
        let mask = bit(register);
        let names = |at: InsnIndex| (effects[at].uses | effects[at].writes) & mask != 0;
        let moves = |at: InsnIndex| if names(at) { moves(code.ins(at), register) } else { None };
        let place = |at: InsnIndex| frame_place(code.ins(at), &states[at]);
        let turns = |at: InsnIndex| names(at) || code.insns[at].flow != Flow::Next;
        // All other instructions pass the register on as it is.
        let points: Vec<InsnIndex> = insns.iter().copied().filter(|&at| turns(at)).collect();
        let named: Vec<InsnIndex> = points.iter().copied().filter(|&at| names(at)).collect();
        // The first store to the frame, if only saves of others precede it. Variables of the unit
        // are stored later.
        let save = named
            .iter()
            .copied()
            .take_while(|&at| effects[at].writes & mask == 0 && moves(at) != Some(Move::Push))
            .find(|&at| moves(at) == Some(Move::Save));
        let saved = save.and_then(place);
        // Another register may give the stack pointer back before the restore. Then the operand
        // tells the place.
        let operand = |at: InsnIndex| (code.ins(at).memory_base(), code.ins(at).memory_displacement64());
        let back =
            |at: InsnIndex| states[at].rsp == Height::Computed && save.is_some_and(|save| operand(save) == operand(at));
        let pushed = named.iter().any(|&at| moves(at) == Some(Move::Push));
        let loads = |at: InsnIndex| {
            let ins = code.ins(at);
            ins.mnemonic() == Mnemonic::Mov && ins.op0_register() == register && ins.op1_kind() == OpKind::Memory
        };
        let is =
            |at: InsnIndex, what: Move| moves(at) == Some(what) && saved.is_some() && (place(at) == saved || back(at));
        let restored = named.iter().any(|&at| is(at, Move::Restore));
        let mut work: Vec<InsnIndex> =
            insns.iter().copied().filter(|&at| graph.entry[at] && !code.is_trap(at)).collect();
        for at in insns {
            holds[*at] = None;
        }
        for at in &work {
            holds[*at] = Some(Holds::Caller);
        }
        while let Some(at) = work.pop() {
            let Some(before) = holds[at] else { continue };
            let passed = |at: InsnIndex, before: Holds| match moves(at) {
                None if !names(at) => before,
                Some(Move::Push | Move::Save) if before == Holds::Caller => Holds::Saved,
                Some(Move::Pop) => Holds::Caller,
                Some(Move::Restore) if is(at, Move::Restore) => Holds::Caller,
                // The register may be restored from a place that another register tells.
                _ if pushed && loads(at) => Holds::Loaded,
                _ if effects[at].writes & mask != 0 => Holds::Own,
                _ => before,
            };
            let unit = graph.unit[at];
            // A straight line is followed at once.
            let (mut line, mut before) = (Some(at), before);
            while let Some(mut at) = line.take() {
                while !names(at) && graph.only_next(at).is_some_and(|next| !graph.label[next]) {
                    at = at.next();
                }
                holds[at] = Some(before);
                let after = passed(at, before);
                graph.successors(code, at, |to| {
                    if graph.entry[to] || graph.unit[to] != unit {
                        return;
                    }
                    let joined = holds[to].map_or(after, |other| other.join(after));
                    if holds[to].replace(joined) == Some(joined) {
                        return;
                    }
                    if to == at.next() {
                        (line, before) = (Some(to), joined);
                    } else {
                        work.push(to);
                    }
                });
            }
        }
        let reads = |at: InsnIndex| {
            let insn = &code.insns[at];
            effects[at].uses & mask != 0 && !insn.is_nop() && !reads_nothing(code.form(insn), register)
        };
        let meant = |at: &InsnIndex| {
            let insn = &code.insns[*at];
            let Some(holds) = holds[*at] else { return false };
            let leaves = || match insn.flow {
                Flow::Return => true,
                Flow::Jump(_) | Flow::Branch(_) => graph.tail_calls(code, *at),
                Flow::JumpIndirect => graph.jump_kind(*at) == JumpKind::Tail,
                _ => false,
            };
            match holds {
                Holds::Caller => match moves(*at) {
                    Some(Move::Push) => false,
                    // This stores a variable, because nothing restores the register.
                    Some(Move::Save) => !restored,
                    _ => reads(*at),
                },
                Holds::Own => leaves(),
                _ => false,
            }
        };
        // Functions save a register by a push. A push where it may hold another value passes an
        // argument. Other reads after a load on one path only are none on the path without it.
        let unset = |at: &InsnIndex| match holds[*at] {
            Some(Holds::Saved) => moves(*at) != Some(Move::Push) && reads(*at),
            Some(Holds::Maybe) => reads(*at),
            Some(Holds::Doubt) => moves(*at) == Some(Move::Push),
            _ => false,
        };
        let on_purpose = points.iter().copied().find(meant).map(Passing::Meant);
        on_purpose.or_else(|| named.iter().any(unset).then_some(Passing::Unset))
    }
}

/// An instruction by which functions save and restore a register.
#[derive(PartialEq, Eq)]
enum Move {
    Push,
    Pop,
    /// `mov %r12,d(%rsp)`
    Save,
    /// `mov d(%rsp),%r12`
    Restore,
}

fn moves(ins: &Instruction, register: Register) -> Option<Move> {
    let frame = matches!(ins.memory_base(), Register::RSP | Register::RBP);
    match ins.mnemonic() {
        Mnemonic::Push if ins.op0_register() == register => Some(Move::Push),
        Mnemonic::Leave if register == Register::RBP => Some(Move::Pop),
        Mnemonic::Pop if ins.op0_register() == register => Some(Move::Pop),
        Mnemonic::Mov if frame && ins.op0_kind() == OpKind::Memory && ins.op1_register() == register => {
            Some(Move::Save)
        }
        Mnemonic::Mov if frame && ins.op1_kind() == OpKind::Memory && ins.op0_register() == register => {
            Some(Move::Restore)
        }
        _ => None,
    }
}
