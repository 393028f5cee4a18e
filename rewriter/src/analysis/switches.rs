//! Phase 7c: the switches that are one straight line.
//!
//! ```text
//! lea TABLE(%rip),%b ; movslq (%b,%i,4),%t ; add %b,%t ; jmp *%t
//! ```
//!
//! loads an entry of a table, and then the slot that the sum means. Such a switch may find its
//! target in another way: by an array of slots (see [`crate::analysis::arrays`]), or by comparisons
//! (see [`crate::analysis::trees`]). This phase finds the switches where nobody notices: the last
//! three instructions are in one straight line, nothing else in it names `%t` or reads the flags of
//! the sum, and nobody reads `%t` after the jump. It is no argument of a call: a compiler computes
//! the target of a switch for the jump alone.
//!
//! The `lea` before the load is *idle* if only load and sum read its register. Then the new code
//! may leave it out.

use crate::analysis::flow::{FlowGraph, JumpKind, Switch};
use crate::analysis::live::Liveness;
use crate::analysis::regs::{AllEffects, Effects, FLAGS, bit};
use crate::analysis::rounds::Rounds;
use crate::analysis::spent::Spent;
use crate::object::decode::{Code, Flow, InsnIndex};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Such a switch.
pub(crate) struct Line {
    /// Its load, sum and table.
    pub switch: Switch,
    pub jump: InsnIndex,
    /// The instruction that makes the address of its table, if nobody else reads it.
    pub idle: Option<InsnIndex>,
}

/// Finds these switches, in the order of their jumps.
pub(crate) fn find(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    rounds: &Rounds,
    effects: &AllEffects,
    live: &Liveness,
) -> Vec<Line> {
    if graph.switches.is_empty() {
        return Vec::new();
    }
    let spent = Spent::find(code, graph, rounds, effects);
    let mut jumps: Vec<(&InsnIndex, &Switch)> = graph.switches.iter().collect();
    jumps.sort_unstable_by_key(|(at, _)| **at);
    let line = |(&jump, &switch): (&InsnIndex, &Switch)| {
        let inside = graph.jump_kind(jump) == JumpKind::Inside;
        let idle = || idle_base(code, graph, effects, (live, &spent), (&switch, jump));
        let line = inside && is_line(code, graph, effects, (live, &spent), (&switch, jump));
        line.then(|| Line { switch, jump, idle: idle() })
    };
    jumps.into_iter().filter_map(line).collect()
}

/// Says whether load, sum and jump are a straight line in which nobody else uses the target.
fn is_line(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    (live, spent): (&Liveness, &Spent),
    (switch, jump): (&Switch, InsnIndex),
) -> bool {
    let [load, sum, last] = [switch.load, switch.sum, jump].map(|at| code.ins(at));
    let target = last.op0_register();
    let base = load.memory_base();
    let names_r15 = |ins: &Instruction| {
        let operands = [ins.op0_register(), ins.memory_index()];
        operands.iter().any(|register| register.full_register() == Register::R15)
    };
    let form = last.op0_kind() == OpKind::Register
        && load.op0_register() == target
        && load.memory_index().is_gpr64()
        && base.is_gpr64()
        && base != target
        && sum.mnemonic() == Mnemonic::Add
        && (sum.op0_register(), sum.op1_register()) == (target, base)
        && ![load, sum, last].into_iter().any(names_r15)
        && live.after[jump] & FLAGS == 0
        && graph.jump_targets(jump).iter().all(|label| spent.is_dead(graph, *label, target));
    let line = || switch.load.next().until(jump.next());
    let straight = || line().all(|at| !graph.label[at] && (at == jump || code.insns[at].flow == Flow::Next));
    let others = || {
        line().filter(|at| *at != switch.sum && *at != jump && !code.insns[*at].is_nop()).all(|at| {
            let Effects { uses, writes, .. } = effects[at];
            let flags = at > switch.sum && uses & FLAGS != 0;
            let moved = at < switch.sum && writes & bit(base) != 0;
            (uses | writes) & bit(target) == 0 && !flags && !moved
        })
    };
    switch.load < switch.sum && switch.sum < jump && form && straight() && others()
}

/// Returns the instruction that makes the address of a switch's table, if only load and sum read
/// it. No function passes or returns this address, as little as the target.
fn idle_base(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    (live, spent): (&Liveness, &Spent),
    (switch, jump): (&Switch, InsnIndex),
) -> Option<InsnIndex> {
    let load = code.ins(switch.load);
    let base = load.memory_base();
    let untouched = |at: InsnIndex| (effects[at].uses | effects[at].writes) & bit(base) == 0;
    let mut behind = switch.load.next().until(jump).filter(|at| *at != switch.sum);
    if base == load.memory_index() || base == Register::R15 || !behind.all(untouched) {
        return None;
    }
    if !graph.jump_targets(jump).iter().all(|label| spent.is_dead(graph, *label, base)) {
        return None;
    }
    let mut here = switch.load;
    while !graph.label[here] {
        here = here.before().filter(|&before| graph.next(before) == Some(here))?;
        let (insn, ins) = (&code.insns[here], code.ins(here));
        let makes = ins.mnemonic() == Mnemonic::Lea && ins.op0_register() == base;
        if makes && ins.is_ip_rel_memory_operand() {
            return Some(here);
        }
        let passes = match insn.flow {
            Flow::Next => true,
            Flow::Branch(_) => graph.target(here).is_some_and(|to| live.before[to] & bit(base) == 0),
            _ => false,
        };
        if !passes || !untouched(here) {
            return None;
        }
    }
    None
}
