//! Phase 7: the registers and flags that are live before each instruction of the original code.
//!
//! gcc's IPA-RA lets a caller keep a value in a call-clobbered register across a call to a function
//! of its own object that does not clobber it. So such calls kill nothing here, and at a function's
//! end every register that its unit does not clobber itself is live.
//!
//! `transform` takes a dead register as scratch register. If there is none, it spills one to the
//! TCB page. Flags that live across inserted arithmetic are kept with `lahf`, `seto` and `sahf`.

use crate::analysis::flow::{FlowGraph, JumpKind, PerUnit};
use crate::analysis::regs::{AllEffects, FLAGS, GPRS, Set, arguments, bit, callee_saved, is_syscall, results};
use crate::analysis::rounds::Rounds;
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use iced_x86::{Instruction, Mnemonic, Register};

/// Live sets around each instruction.
pub(crate) struct Liveness {
    /// Live before each instruction.
    pub before: PerInsn<Set>,
    /// Live after each instruction.
    pub after: PerInsn<Set>,
}

/// The change of the live set by an instruction, from after it to before it.
#[derive(Clone, Copy, Default)]
struct Step {
    uses: Set,
    kills: Set,
}

/// The changes of the live set by all instructions of a block.
#[derive(Clone, Copy)]
struct Sum {
    uses: Set,
    kills: Set,
    /// Registers and flags that no instruction but the last one kills.
    passes: Set,
}

impl Sum {
    /// Adds up the steps of a block, of which the last comes first.
    fn of(mut steps: impl Iterator<Item = Step>) -> Sum {
        let Step { uses, kills } = steps.next().unwrap_or_default();
        steps.fold(Sum { uses, kills, passes: Set::MAX }, |sum, step| Sum {
            uses: (sum.uses & !step.kills) | step.uses,
            kills: sum.kills | step.kills,
            passes: sum.passes & !step.kills,
        })
    }

    /// Adds what is live after the block in any case.
    fn with(self, adds: Set) -> Sum {
        Sum { uses: self.uses | (adds & !self.kills), ..self }
    }

    /// Returns the set before the block: `out` is the one after it, and `callee` what the callee of
    /// its last instruction needs.
    fn before(self, out: Set, callee: Set) -> Set {
        (out & !self.kills) | self.uses | (callee & self.passes)
    }
}

/// Computes liveness.
pub(crate) fn liveness(code: &Code<'_, '_>, graph: &FlowGraph, rounds: &Rounds, effects: &AllEffects) -> Liveness {
    // The lists of what instructions use and kill become those of what is live. They stay, so they
    // are made before the lists that are dropped here: gaps in the heap would stay, too.
    let (mut uses, mut kills) = (code.per_insn(0), code.per_insn(0));
    let returned = returned(code, graph, rounds, effects);
    let ends = Ends { code, graph, effects, units: Units::new(code, graph, effects), returned };
    let mut adds = Vec::with_capacity(rounds.blocks().len());
    let mut sums = Vec::with_capacity(rounds.blocks().len());
    for block in rounds.blocks() {
        let steps = rounds.insns(block).rev().map(|at| {
            let step = ends.step(at);
            (uses[at], kills[at]) = (step.uses, step.kills);
            step
        });
        let more = ends.adds(rounds.last(block));
        sums.push(Sum::of(steps).with(more));
        adds.push(more);
    }
    let mut firsts: Vec<Set> = vec![0; sums.len()];
    // Hand-written functions take arguments in any register, and in flags, so all that the callee
    // reads is live.
    let callee = |firsts: &[Set], block| rounds.callee(block).map_or(0, |to| firsts[to] & (GPRS | FLAGS));
    let out = |firsts: &[Set], block| rounds.nexts(block).fold(0, |out, next| out | firsts[next]);
    rounds.run(|block, _| {
        let live = sums[block].before(out(&firsts, block), callee(&firsts, block));
        std::mem::replace(&mut firsts[block], live) != live
    });
    for block in rounds.blocks() {
        let (mut live, mut callee) = (out(&firsts, block) | adds[block], callee(&firsts, block));
        for at in rounds.insns(block).rev() {
            let before = (live & !kills[at]) | uses[at] | std::mem::take(&mut callee);
            (uses[at], kills[at]) = (before, live);
            live = before;
        }
    }
    Liveness { before: uses, after: kills }
}

/// The ways in which units use registers.
struct Units {
    /// Registers that each unit writes itself or lets unknown callees write.
    clobbered: PerUnit<Set>,
    /// Units that restore rax from the stack.
    saving: PerUnit<bool>,
    /// Units that write it otherwise.
    writing: PerUnit<bool>,
    entries: PerUnit<u32>,
}

impl Units {
    fn new(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects) -> Units {
        let mut units = Units {
            clobbered: PerUnit::new(code, 0),
            saving: PerUnit::new(code, false),
            writing: PerUnit::new(code, false),
            entries: PerUnit::new(code, 0),
        };
        let saves = |ins: &Instruction| ins.mnemonic() == Mnemonic::Pop && ins.op0_register() == Register::RAX;
        for (at, insn) in code.each() {
            let unit = graph.unit[at];
            let unknown = match insn.flow {
                Flow::Call(_) | Flow::Jump(_) | Flow::Branch(_) => graph.target(at).is_none(),
                Flow::CallIndirect => true,
                // Only a proven tail call counts. The compiler knows nothing more of its callee,
                // but it knows the labels of a jump that stays inside.
                Flow::JumpIndirect => graph.jump_kind(at) == JumpKind::Tail,
                _ => false,
            };
            let writes = effects[at].writes;
            units.clobbered[unit] |= writes & GPRS;
            if unknown {
                units.clobbered[unit] |= call_clobbered();
            }
            if writes & bit(Register::RAX) != 0 {
                let restores = saves(code.form(insn));
                units.saving[unit] |= restores;
                units.writing[unit] |= !restores;
            }
            units.entries[unit] += u32::from(graph.entry[at]);
        }
        units
    }

    /// Says whether a unit surely gives rax a value of its own. In a unit with several entries it
    /// is not known which of them does.
    fn gives_result(&self, unit: u32) -> bool {
        self.writing[unit] && !self.saving[unit] && self.entries[unit] == 1
    }

    /// Returns the registers that the caller of a unit may rely on. They are live where the
    /// function ends.
    fn passed_by(&self, unit: u32) -> Set {
        callee_saved() | (GPRS & !self.clobbered[unit])
    }
}

/// Returns the registers that an unknown callee may change.
fn call_clobbered() -> Set {
    GPRS & !callee_saved()
}

/// The facts on which the steps of instructions depend.
struct Ends<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x AllEffects,
    units: Units,
    /// Registers and flags that callers read after a unit returns.
    returned: PerUnit<Set>,
}

impl Ends<'_, '_, '_> {
    /// Returns what is live after an instruction in any case, because the function ends there.
    fn adds(&self, at: InsnIndex) -> Set {
        let (insn, graph) = (&self.code.insns[at], self.graph);
        let passed = || self.units.passed_by(graph.unit[at]);
        match insn.flow {
            Flow::Return => passed() | results() | self.returned[graph.unit[at]],
            Flow::Jump(_) | Flow::Branch(_) if graph.leads_out(at) => passed() | arguments() | results(),
            Flow::JumpIndirect => match graph.jump_kind(at) {
                JumpKind::Far => passed(),
                JumpKind::Tail | JumpKind::Either => passed() | arguments(),
                JumpKind::Inside => 0,
            },
            _ => 0,
        }
    }

    /// Returns what an instruction does to the live set, without a callee's needs.
    fn step(&self, at: InsnIndex) -> Step {
        let (insn, effects, graph) = (&self.code.insns[at], &self.effects[at], self.graph);
        let (uses, kills) = match insn.flow {
            Flow::Return | Flow::JumpIndirect => (effects.uses, 0),
            // A callee of this object is known to the compiler.
            Flow::Call(_) => match graph.target(at) {
                // Nobody keeps a value in rax across a callee that writes rax itself and does not
                // save it.
                Some(to) => {
                    let rax = if self.units.gives_result(graph.unit[to]) { bit(Register::RAX) } else { 0 };
                    (arguments() | callee_saved(), FLAGS | rax)
                }
                None => (arguments() | callee_saved(), call_clobbered() | FLAGS),
            },
            Flow::CallIndirect => (effects.uses | arguments() | callee_saved(), call_clobbered() | FLAGS),
            Flow::Jump(_) | Flow::Branch(_) => (effects.uses, effects.kills),
            Flow::Stop => (0, 0),
            Flow::Next if is_syscall(self.code, at, self.effects) => {
                (arguments() | bit(Register::RAX) | callee_saved(), 0)
            }
            // Control falls off the section's end into a trap, which needs no flags.
            Flow::Next if graph.next(at).is_none() => (effects.uses | GPRS, effects.kills & FLAGS),
            Flow::Next
                if effects.writes & FLAGS & !effects.kills != 0 && surely_runs(self.code, graph, self.effects, at) =>
            {
                (effects.uses, effects.kills | effects.writes & FLAGS)
            }
            Flow::Next => (effects.uses, effects.kills),
        };
        Step { uses, kills }
    }
}

/// Says whether a repeated string instruction runs at least once, because its count is a number
/// that is not zero. Then its flags are those of a comparison.
fn surely_runs(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects, at: InsnIndex) -> bool {
    let repeated = code.ins(at);
    let count = bit(Register::RCX);
    if !repeated.is_string_instruction() || !(repeated.has_rep_prefix() || repeated.has_repne_prefix()) {
        return false;
    }
    let mut here = at;
    while let Some(before) = here.before().filter(|&before| graph.next(before) == Some(here)) {
        if graph.label[here] || code.insns[before].flow != Flow::Next {
            return false;
        }
        if effects[before].writes & count != 0 {
            let ins = code.ins(before);
            let whole = ins.mnemonic() == Mnemonic::Mov && ins.op0_register().size() >= 4;
            return whole
                && code.insns[before].imm_reloc.is_none()
                && ins.try_immediate(1).is_ok_and(|n| n as u32 != 0);
        }
        here = before;
    }
    false
}

/// The way in which a block ends, as far as it concerns other units.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Other,
    Return,
    /// It ends with a call of a unit.
    Call(u32),
    /// It ends with a jump to another unit, which returns to this one's callers.
    Tail(u32),
}

impl End {
    fn of(code: &Code<'_, '_>, graph: &FlowGraph, last: InsnIndex) -> End {
        let to = graph.target(last).map(|to| graph.unit[to]);
        match (code.insns[last].flow, to) {
            (Flow::Return, _) => End::Return,
            (Flow::Call(_), Some(to)) => End::Call(to),
            (Flow::Jump(_) | Flow::Branch(_), Some(to)) if to != graph.unit[last] => End::Tail(to),
            _ => End::Other,
        }
    }
}

/// Returns the registers and flags that callers in this object read after a unit returns, before
/// they write them. Hand-written functions return values there.
fn returned(code: &Code<'_, '_>, graph: &FlowGraph, rounds: &Rounds, effects: &AllEffects) -> PerUnit<Set> {
    let mut returned: PerUnit<Set> = PerUnit::new(code, 0);
    let ends: Vec<End> = rounds.blocks().map(|block| End::of(code, graph, rounds.last(block))).collect();
    if !ends.iter().any(|end| matches!(end, End::Call(_) | End::Tail(_))) {
        return returned;
    }
    let step = |at: InsnIndex| {
        let (uses, kills) = match code.insns[at].flow {
            Flow::Call(_) if graph.target(at).is_none() => (0, call_clobbered() | FLAGS),
            Flow::CallIndirect => (effects[at].uses, call_clobbered() | FLAGS),
            Flow::Call(_) | Flow::Return => (0, 0),
            _ => (effects[at].uses, effects[at].kills),
        };
        Step { uses, kills }
    };
    let sums: Vec<Sum> = rounds.blocks().map(|block| Sum::of(rounds.insns(block).rev().map(step))).collect();
    let unit = |block: usize| graph.unit[rounds.last(block)];
    // The blocks that read what their unit returns.
    let reading = rounds.blocks().filter(|block| matches!(ends[*block], End::Return | End::Tail(_)));
    let mut reading: Vec<(u32, usize)> = reading.map(|block| (unit(block), block)).collect();
    reading.sort_unstable();
    let readers = |unit: u32| {
        let first = reading.partition_point(|(of, _)| *of < unit);
        reading[first..].iter().take_while(move |(of, _)| *of == unit).map(|(_, block)| *block)
    };
    let mut firsts: Vec<Set> = vec![0; sums.len()];
    rounds.run(|block, again| {
        let mut out = rounds.nexts(block).fold(0, |out, next| out | firsts[next]);
        let told = match ends[block] {
            End::Other => None,
            End::Return => {
                out = returned[unit(block)];
                None
            }
            End::Call(to) => Some((to, out)),
            End::Tail(to) => Some((to, returned[unit(block)])),
        };
        if let Some((to, set)) = told {
            let more = returned[to] | set;
            if std::mem::replace(&mut returned[to], more) != more {
                again.extend(readers(to));
            }
        }
        let read = sums[block].before(out, rounds.callee(block).map_or(0, |to| firsts[to]));
        std::mem::replace(&mut firsts[block], read) != read
    });
    returned
}
