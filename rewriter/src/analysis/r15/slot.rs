//! Phase 6b: r15 in the slot of the frame where the function saved it.
//!
//! A function that keeps r15 in memory has no use for its caller's r15. The caller's own copy lies
//! in the caller's frame, or in the TCB page, which the function then leaves alone. So saving and
//! restoring become nothing, and the slot is r15's place in between. That holds if every function
//! of the object saves r15 before it writes it, and none reads its caller's. Otherwise the object
//! has no slots.

use crate::analysis::depth::{Height, State, States};
use crate::analysis::flow::{FlowGraph, JumpKind};
use crate::analysis::r15::kept::{Homes, Passed, R15};
use crate::analysis::regs::{AllEffects, bit};
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

const R15_BIT: u32 = 1 << 15;

/// Units whose r15 lives in their frame.
#[derive(Default)]
pub(crate) struct Slots {
    /// The slot's distance below the stack pointer at the unit's entry.
    depths: HashMap<u32, i64>,
    /// Instructions that save and restore r15.
    moves: HashSet<InsnIndex>,
}

/// The known content of r15 at a point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nothing leads here.
    Unseen,
    /// The caller's value, not saved.
    Caller,
    /// The caller's value, saved.
    Saved,
    /// Saved. The register may hold the function's own value.
    Maybe,
    /// Saved. The register holds the function's own value.
    Own,
    /// Paths disagree.
    Mixed,
}

impl Known {
    fn join(self, other: Known) -> Known {
        use Known::{Maybe, Mixed, Own, Saved, Unseen};
        match (self, other) {
            (Unseen, x) | (x, Unseen) => x,
            (a, b) if a == b => a,
            (Saved | Maybe | Own, Saved | Maybe | Own) => Maybe,
            _ => Mixed,
        }
    }
}

/// The reason why a unit has no slot.
enum Unfit {
    /// It has a convention of its own about r15.
    Convention,
    /// The slot's place is not known at every use of r15.
    Place,
}

impl Slots {
    /// Finds the units that can have their r15 in a slot. `r15` holds the decision for each unit.
    /// Renaming is done.
    pub(crate) fn find(
        code: &Code<'_, '_>,
        graph: &FlowGraph,
        effects: &AllEffects,
        states: &States,
        r15: &Homes,
        passed: &Passed,
    ) -> Slots {
        let fixed = |unit: &u32| matches!(passed, Passed::No(unset) if unset.contains(unit));
        let mut units: HashMap<u32, Vec<InsnIndex>> = HashMap::new();
        for run in graph.runs() {
            let unit = graph.unit[run.start];
            let homed = matches!(r15[unit], Some(R15::Home | R15::Exchanged(_)));
            if homed && !fixed(&unit) {
                units.entry(unit).or_default().extend(run.start.until(run.end));
            }
        }
        let mut known = code.per_insn(Known::Unseen);
        let mut slots = Slots::default();
        for (unit, insns) in &units {
            match (Search { code, graph, effects, states, known: &mut known, depth: None, moves: HashSet::new() })
                .unit(insns)
            {
                Ok((depth, moves)) => {
                    slots.depths.insert(*unit, depth);
                    slots.moves.extend(moves);
                }
                Err(Unfit::Place) => {}
                Err(Unfit::Convention) => return Slots::default(),
            }
        }
        slots
    }

    /// Returns how far below the entry's stack pointer the slot of a unit lies, if it has one.
    pub(crate) fn depth(&self, unit: u32) -> Option<i64> {
        self.depths.get(&unit).copied()
    }

    /// Says whether an instruction saves or restores an r15 that lives in a slot.
    pub(crate) fn is_move(&self, at: InsnIndex) -> bool {
        self.moves.contains(&at)
    }
}

struct Search<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    states: &'x States,
    known: &'x mut PerInsn<Known>,
    depth: Option<i64>,
    moves: HashSet<InsnIndex>,
}

impl Search<'_, '_, '_> {
    fn unit(mut self, insns: &[InsnIndex]) -> Result<(i64, HashSet<InsnIndex>), Unfit> {
        // A far jump may pass over code that changed the place in the TCB page, so the place is
        // saved.
        if insns.first().is_some_and(|&at| self.graph.far.concerns(self.graph.unit[at])) {
            return Err(Unfit::Place);
        }
        let entries: Vec<InsnIndex> = insns.iter().copied().filter(|&at| self.graph.entry[at]).collect();
        let mut work = entries.clone();
        for &at in &entries {
            self.known[at] = Known::Caller;
        }
        // Finds the save's place first, because it identifies the restores.
        let first = insns.iter().copied().find(|&at| self.names(at));
        self.depth = first.and_then(|first| self.saved_at(first));
        // The unit saves r15 in a way that is not understood here.
        let saves = |at: InsnIndex| {
            let ins = self.code.ins(at);
            let stored = ins.op_count() == 2 && ins.op0_kind() == OpKind::Memory && ins.op1_register() == Register::R15;
            stored || (ins.mnemonic() == Mnemonic::Push && ins.op0_register() == Register::R15)
        };
        if self.depth.is_none() && insns.iter().any(|&at| saves(at)) {
            return Err(Unfit::Place);
        }
        while let Some(at) = work.pop() {
            // A straight line is followed at once.
            let (mut line, mut before) = (Some(at), self.known[at]);
            while let Some(start) = line.take() {
                let at = self.graph.along(start, |at| self.names(at));
                self.known[at] = before;
                let after = self.transfer(at);
                let (graph, known) = (self.graph, &mut *self.known);
                graph.successors(self.code, at, |to| {
                    if graph.entry[to] || graph.unit[to] != graph.unit[at] {
                        return;
                    }
                    let joined = known[to].join(after);
                    if joined == known[to] {
                        return;
                    }
                    known[to] = joined;
                    if to == at.next() {
                        (line, before) = (Some(to), joined);
                    } else {
                        work.push(to);
                    }
                });
            }
        }
        let mut unfit = None;
        for &at in insns {
            match self.check(at) {
                Ok(true) => {
                    self.moves.insert(at);
                }
                Ok(false) => {}
                Err(Unfit::Convention) => return Err(Unfit::Convention),
                Err(Unfit::Place) => unfit = Some(Unfit::Place),
            }
        }
        match (unfit, self.depth) {
            (None, Some(depth)) if entries.len() == 1 => Ok((depth, self.moves)),
            _ => Err(Unfit::Place),
        }
    }

    fn names(&self, at: InsnIndex) -> bool {
        (self.effects[at].uses | self.effects[at].writes) & R15_BIT != 0
    }

    /// Returns the place where an instruction saves r15: `push %r15`, `mov %r15,d(%rsp)`.
    fn saved_at(&self, at: InsnIndex) -> Option<i64> {
        let ins = self.code.ins(at);
        let Height::Known(height) = self.states[at].rsp else { return None };
        match ins.mnemonic() {
            Mnemonic::Push if ins.op0_register() == Register::R15 => Some(height + 8),
            Mnemonic::Mov if ins.op0_kind() == OpKind::Memory && ins.op1_register() == Register::R15 => {
                self.on_stack(at).map(|distance| height - distance)
            }
            _ => None,
        }
    }

    /// Returns the place from which an instruction restores r15.
    fn restored_at(&self, at: InsnIndex) -> Option<i64> {
        let ins = self.code.ins(at);
        match ins.mnemonic() {
            Mnemonic::Pop if ins.op0_register() == Register::R15 => match self.states[at].rsp {
                Height::Known(height) => Some(height),
                _ => None,
            },
            Mnemonic::Mov if ins.op0_register() == Register::R15 && ins.op1_kind() == OpKind::Memory => {
                let Height::Known(height) = self.states[at].rsp else { return None };
                self.on_stack(at).map(|distance| height - distance)
            }
            _ => None,
        }
    }

    /// Returns the displacement of an operand `d(%rsp)`.
    fn on_stack(&self, at: InsnIndex) -> Option<i64> {
        let (insn, ins) = (&self.code.insns[at], self.code.ins(at));
        let plain = ins.memory_base() == Register::RSP
            && ins.memory_index() == Register::None
            && ins.segment_prefix() == Register::None
            && insn.disp_reloc.is_none();
        plain.then_some(ins.memory_displacement64() as i64)
    }

    fn transfer(&self, at: InsnIndex) -> Known {
        let before = self.known[at];
        if self.code.insns[at].is_nop() || !self.names(at) {
            return before;
        }
        match before {
            Known::Caller if self.depth.is_some() && self.saved_at(at) == self.depth => Known::Saved,
            Known::Saved | Known::Maybe | Known::Own => {
                if self.depth.is_some() && self.restored_at(at) == self.depth {
                    Known::Caller
                } else if self.effects[at].writes & R15_BIT != 0 {
                    Known::Own
                } else {
                    before
                }
            }
            other => other,
        }
    }

    /// Says whether an instruction is a save or restore, given the content of r15 everywhere.
    fn check(&self, at: InsnIndex) -> Result<bool, Unfit> {
        let (insn, known, effects) = (&self.code.insns[at], self.known[at], &self.effects[at]);
        let leaves = match insn.flow {
            Flow::Return => true,
            Flow::Jump(_) | Flow::Branch(_) => self.graph.leads_out(at),
            Flow::JumpIndirect => !matches!(self.graph.jump_kind(at), JumpKind::Inside | JumpKind::Far),
            _ => false,
        };
        if leaves && matches!(known, Known::Saved | Known::Maybe | Known::Own) {
            return Err(Unfit::Convention);
        }
        if insn.is_nop() || !self.names(at) {
            return Ok(false);
        }
        let is_save = self.depth.is_some() && self.saved_at(at) == self.depth;
        let is_restore = self.depth.is_some() && self.restored_at(at) == self.depth;
        match known {
            Known::Unseen | Known::Mixed => return Err(Unfit::Place),
            Known::Caller if is_save => return Ok(true),
            Known::Caller if self.saved_at(at).is_some() => return Err(Unfit::Place),
            Known::Caller => return Err(Unfit::Convention),
            Known::Saved | Known::Maybe | Known::Own if is_restore => return Ok(true),
            Known::Saved if effects.uses & R15_BIT != 0 && !reads_nothing(self.code.form(insn), Register::R15) => {
                return Err(Unfit::Convention);
            }
            _ => {}
        }
        let depth = self.depth.unwrap_or(i64::MAX);
        let moves_stack = effects.writes & bit(Register::RSP) != 0 && effects.writes & R15_BIT != 0;
        // A frame pointer finds the slot at any stack pointer.
        let placed = match self.states[at].rsp {
            Height::Known(height) => height >= depth,
            Height::Computed | Height::Mixed => matches!(self.states[at].rbp, Height::Known(_)),
            Height::Unseen => false,
        };
        if !moves_stack && placed { Ok(false) } else { Err(Unfit::Place) }
    }
}

/// Says whether a read of a register has no effect on the result: `sbb %r15,%r15`, `or $-1,%r15`.
/// So do `sete %r15b` and `mov %al,%r15b`, because the rest of the register does not matter to
/// compilers.
pub(crate) fn reads_nothing(ins: &Instruction, register: Register) -> bool {
    let is = |other: Register| other.full_register() == register;
    if ins.op0_kind() != OpKind::Register || !is(ins.op0_register()) || is(ins.memory_base()) || is(ins.memory_index())
    {
        return false;
    }
    let constant = match ins.mnemonic() {
        Mnemonic::Sbb => ins.op0_register() == ins.op1_register(),
        Mnemonic::Or => ins.try_immediate(1).is_ok_and(|v| v as i32 == -1),
        Mnemonic::And => ins.try_immediate(1).is_ok_and(|v| v == 0),
        // The register is unchanged if the source is zero, and nobody relies on it then.
        Mnemonic::Bsf | Mnemonic::Bsr => ins.op1_kind() == OpKind::Memory || !is(ins.op1_register()),
        _ => false,
    };
    let low = ins.op0_register().size() <= 2;
    constant || (low && (ins.op_count() == 1 || ins.mnemonic() == Mnemonic::Mov))
}

/// Returns the operand that takes r15's place, as a base and a displacement in the original
/// program.
pub(crate) fn operand(state: &State, depth: i64) -> Option<(Register, i64)> {
    match (state.rsp, state.rbp) {
        (Height::Known(height), _) => Some((Register::RSP, height - depth)),
        (_, Height::Known(height)) => Some((Register::RBP, height - depth)),
        _ => None,
    }
}
