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
use crate::analysis::r15::kept::{PRESERVED, Passed};
use crate::analysis::r15::slot::reads_nothing;
use crate::analysis::reach::frame_place;
use crate::analysis::regs::{AllEffects, Set, bit, bits};
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use crate::object::read::Place;
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// All preserved registers. The place in this list is a register's lane.
const REGISTERS: [Register; 6] = {
    let [a, b, c, d, e] = PRESERVED;
    [a, b, c, d, e, Register::R15]
};

/// The contents of [`REGISTERS`] at a point, four bits for each. Paths that meet join by `|`. No
/// bit: nothing leads here.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Holds(u32);

impl Holds {
    /// The caller's value. With other bits: paths disagree.
    const CALLER: u32 = 1;
    /// The caller's value, which is saved.
    const SAVED: u32 = 2;
    /// The unit's own value.
    const OWN: u32 = 4;
    /// Loaded: the unit's own value, or the caller's, which is restored.
    const LOADED: u32 = Holds::OWN | 8;
    /// The unit's own value, or the caller's, which is saved.
    const MAYBE: u32 = Holds::SAVED | Holds::OWN;
    /// Loaded on one path, and saved on another.
    const DOUBT: u32 = Holds::SAVED | Holds::LOADED;

    fn of(self, lane: usize) -> u32 {
        self.0 >> (4 * lane) & 15
    }

    fn with(self, lane: usize, content: u32) -> Holds {
        Holds(self.0 & !(15 << (4 * lane)) | content << (4 * lane))
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

/// Finds units that pass values in r15. Returns the other preserved registers that each unit which
/// names r15 takes from its callers or leaves to them, and refuses units that pass r15 if code of
/// other objects may call them.
pub(crate) fn find(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    addresses: &Addresses,
) -> (Passed, HashMap<u32, Set>, Vec<Refusal>) {
    let named = code
        .indexes()
        .filter(|&at| (effects[at].uses | effects[at].writes) & bit(Register::R15) != 0 && !code.insns[at].is_nop());
    let units = insns_by_unit(graph, named.map(|at| graph.unit[at]));
    let mut found = HashMap::<u32, InsnIndex>::new();
    let mut unset = HashSet::<u32>::new();
    let mut takes = HashMap::<u32, Set>::new();
    let mut search = Search::new(code, graph, effects, states);
    for (unit, insns) in &units {
        let takes = takes.entry(*unit).or_default();
        for (register, passing) in search.passes(insns, bits(&REGISTERS)) {
            match passing {
                _ if register != Register::R15 => *takes |= bit(register),
                Passing::Meant(at) => _ = found.insert(*unit, at),
                Passing::Unset => _ = unset.insert(*unit),
            }
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
    let passed = match (refusals.is_empty(), found.is_empty()) {
        (true, true) => Passed::No(with_callers(code, graph, unset)),
        (true, false) => Passed::Inside,
        _ => Passed::No(HashSet::new()),
    };
    (passed, takes, refusals.into_iter().map(|(_, refusal)| refusal).collect())
}

/// Returns the preserved registers in which functions that this object calls take values from their
/// callers, or leave values to them. No caller may keep another register's value in these. `known`:
/// such registers of units that were searched before.
pub(crate) fn others(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    known: &HashMap<u32, Set>,
) -> Set {
    let called = code.insns.iter().filter_map(|insn| match insn.flow {
        Flow::Call(dest) | Flow::Jump(dest) | Flow::Branch(dest) => {
            insn_of(code, dest).filter(|to| graph.entry[*to] && !code.is_trap(*to))
        }
        _ => None,
    });
    let units = insns_by_unit(graph, called.map(|to| graph.unit[to]));
    let mut search = Search::new(code, graph, effects, states);
    units.iter().fold(0, |passed, (unit, insns)| {
        let takes = || search.takes(insns, bits(&PRESERVED) & !passed);
        passed | known.get(unit).copied().unwrap_or_else(takes)
    })
}

/// Returns the instructions of some units, by unit.
fn insns_by_unit(graph: &FlowGraph, units: impl Iterator<Item = u32>) -> HashMap<u32, Vec<InsnIndex>> {
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

/// A search for units that pass preserved registers.
struct Search<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    states: &'x States,
    /// The contents before the instructions that control reaches.
    holds: PerInsn<Holds>,
}

/// A register that a unit names, and the ways in which the unit saves it.
struct Kept {
    register: Register,
    lane: usize,
    mask: Set,
    /// The first store to the frame, if only saves of others precede it. Variables of the unit are
    /// stored later.
    save: Option<InsnIndex>,
    /// The unit pushes the register.
    pushed: bool,
    /// The unit loads the register from the place where it was saved.
    restored: bool,
}

impl<'x, 'o, 'a> Search<'x, 'o, 'a> {
    fn new(code: &'x Code<'o, 'a>, graph: &'x FlowGraph, effects: &'x AllEffects, states: &'x States) -> Self {
        Search { code, graph, effects, states, holds: code.per_insn(Holds::default()) }
    }

    /// Returns the registers of a set that a unit of these instructions reads where they may still
    /// hold the caller's value. May be asked once for each unit.
    fn takes(&mut self, insns: &[InsnIndex], wanted: Set) -> Set {
        self.passes(insns, wanted).into_iter().fold(0, |set, (register, _)| set | bit(register))
    }

    /// Returns how a unit takes preserved registers from its callers, or leaves them to them: the
    /// first instruction that does so on purpose, if there is one.
    fn passes(&mut self, insns: &[InsnIndex], wanted: Set) -> Vec<(Register, Passing)> {
        let Search { code, graph, .. } = *self;
        let (mut named, mut exits, mut work) = (Vec::new(), Vec::new(), Vec::new());
        for &at in insns {
            let names = self.names(at);
            if names & wanted != 0 {
                named.push((at, names));
            }
            let leaves = match code.insns[at].flow {
                Flow::Return => true,
                Flow::Jump(_) | Flow::Branch(_) => graph.tail_calls(code, at),
                Flow::JumpIndirect => graph.jump_kind(at) == JumpKind::Tail,
                _ => false,
            };
            if leaves {
                exits.push(at);
            }
            if graph.entry[at] && !code.is_trap(at) {
                work.push(at);
            }
        }
        let all = named.iter().fold(0, |set, (_, names)| set | names) & wanted;
        let registers = REGISTERS.iter().enumerate().filter(|(_, register)| all & bit(**register) != 0);
        let kept: Vec<Kept> = registers.map(|(lane, register)| self.kept(&named, lane, *register)).collect();
        let callers = kept.iter().fold(Holds::default(), |holds, kept| holds.with(kept.lane, Holds::CALLER));
        for at in &work {
            self.holds[*at] = callers;
        }
        while let Some(at) = work.pop() {
            let unit = graph.unit[at];
            // A straight line is followed at once.
            let (mut line, mut before) = (Some(at), self.holds[at]);
            while let Some(start) = line.take() {
                let at = graph.along(start, |at| self.names(at) & all != 0);
                self.holds[at] = before;
                let after = self.after(&kept, at, before);
                let holds = &mut self.holds;
                graph.successors(code, at, |to| {
                    if graph.entry[to] || graph.unit[to] != unit {
                        return;
                    }
                    let joined = Holds(holds[to].0 | after.0);
                    if std::mem::replace(&mut holds[to], joined) == joined {
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
        kept.iter().filter_map(|kept| Some((kept.register, self.passing(kept, &named, &exits)?))).collect()
    }

    /// Returns how a unit passes a register, given the contents everywhere.
    fn passing(&self, kept: &Kept, named: &[(InsnIndex, Set)], exits: &[InsnIndex]) -> Option<Passing> {
        let (register, holds) = (kept.register, |at: InsnIndex| self.holds[at].of(kept.lane));
        let reads = |at: InsnIndex| {
            let insn = &self.code.insns[at];
            self.effects[at].uses & kept.mask != 0 && !insn.is_nop() && !reads_nothing(self.code.form(insn), register)
        };
        let named = || named.iter().filter(|(_, names)| names & kept.mask != 0).map(|(at, _)| *at);
        let takes = |at: &InsnIndex| {
            holds(*at) == Holds::CALLER
                && match moves(self.code.ins(*at), register) {
                    Some(Move::Push) => false,
                    // This stores a variable, because nothing restores the register.
                    Some(Move::Save) => !kept.restored,
                    _ => reads(*at),
                }
        };
        let leaves = exits.iter().copied().find(|&at| holds(at) == Holds::OWN);
        let meant = named().find(takes).into_iter().chain(leaves).min();
        // Functions save a register by a push. A push where it may hold another value passes an
        // argument. Other reads after a load on one path only are none on the path without it.
        let pushes = |at: InsnIndex| moves(self.code.ins(at), register) == Some(Move::Push);
        let unset = |at: InsnIndex| match holds(at) {
            Holds::SAVED => !pushes(at) && reads(at),
            Holds::MAYBE => reads(at),
            Holds::DOUBT => pushes(at),
            _ => false,
        };
        meant.map(Passing::Meant).or_else(|| named().any(unset).then_some(Passing::Unset))
    }

    /// Returns how a unit saves a register, given the instructions that name preserved registers.
    /// With each are all registers that it names.
    fn kept(&self, named: &[(InsnIndex, Set)], lane: usize, register: Register) -> Kept {
        let mask = bit(register);
        let named = || named.iter().filter(|(_, names)| names & mask != 0).map(|(at, _)| *at);
        let moves = |at: InsnIndex| moves(self.code.ins(at), register);
        let save = named()
            .take_while(|&at| self.effects[at].writes & mask == 0 && moves(at) != Some(Move::Push))
            .find(|&at| moves(at) == Some(Move::Save));
        let pushed = named().any(|at| moves(at) == Some(Move::Push));
        let mut kept = Kept { register, lane, mask, save, pushed, restored: false };
        kept.restored = named().any(|at| moves(at) == Some(Move::Restore) && self.restores(&kept, at));
        kept
    }

    /// Returns all registers that an instruction reads or writes.
    fn names(&self, at: InsnIndex) -> Set {
        self.effects[at].uses | self.effects[at].writes
    }

    /// Says whether a load from the frame reads the place where the register was saved.
    fn restores(&self, kept: &Kept, at: InsnIndex) -> bool {
        let place = |at: InsnIndex| frame_place(self.code.ins(at), &self.states[at]);
        // Another register may give the stack pointer back before the restore. Then the operand
        // tells the place.
        let operand = |at: InsnIndex| (self.code.ins(at).memory_base(), self.code.ins(at).memory_displacement64());
        let back = |save: InsnIndex| self.states[at].rsp == Height::Computed && operand(save) == operand(at);
        kept.save.is_some_and(|save| place(save).is_some_and(|saved| place(at) == Some(saved) || back(save)))
    }

    /// Returns the contents after an instruction.
    fn after(&self, kept: &[Kept], at: InsnIndex, before: Holds) -> Holds {
        let (names, ins) = (self.names(at), self.code.ins(at));
        kept.iter().filter(|kept| names & kept.mask != 0).fold(before, |holds, kept| {
            let loads = || {
                ins.mnemonic() == Mnemonic::Mov
                    && ins.op0_register() == kept.register
                    && ins.op1_kind() == OpKind::Memory
            };
            let content = match moves(ins, kept.register) {
                Some(Move::Push | Move::Save) if holds.of(kept.lane) == Holds::CALLER => Holds::SAVED,
                Some(Move::Pop) => Holds::CALLER,
                Some(Move::Restore) if self.restores(kept, at) => Holds::CALLER,
                // The register may be restored from a place that another register tells.
                _ if kept.pushed && loads() => Holds::LOADED,
                _ if self.effects[at].writes & kept.mask != 0 => Holds::OWN,
                _ => return holds,
            };
            holds.with(kept.lane, content)
        })
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
