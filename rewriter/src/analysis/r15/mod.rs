//! Phase 5b: stock code that uses r15, which the data stack needs.
//!
//! If a unit leaves a preserved register alone, r15 is renamed to it. Otherwise the register lives
//! in memory, at one place of the TCB page for the whole domain. A unit saves and restores that
//! place where it saved and restored the register. All preserved registers are alike to the
//! callers, so r15 first changes places with the one that the unit's loops use least.

pub(crate) mod kept;
pub(crate) mod passed;
pub(crate) mod slot;

use crate::analysis::depth::States;
use crate::analysis::flow::{FlowGraph, PerUnit};
use crate::analysis::r15::kept::{Homes, PRESERVED, Passed, R15};
use crate::analysis::r15::slot::Slots;
use crate::analysis::regs::{self, AllEffects, Set, bit};
use crate::object::decode::{Code, Dest, Flow, Insn, PerInsn};
use crate::stats::Stats;
use foldhash::{HashMap, HashMapExt};
use iced_x86::{Instruction, OpKind, Register};
use sfi_debuginfo::map::Keeping;

/// Call-clobbered registers.
const SCRATCH: [Register; 8] = {
    use Register::{R8, R9, R10, R11, RCX, RDI, RDX, RSI};
    [R11, R10, R9, R8, RDI, RSI, RCX, RDX]
};

/// Decides for every unit that names r15. Other units are absent. If units pass r15 to each other,
/// all keep it at one place. `takes`: the preserved registers that users of r15 pass, see
/// [`passed::find`].
pub(crate) fn decide(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    (passed, takes): (&Passed, &HashMap<u32, Set>),
    budgeted: Set,
) -> Homes {
    let mut named: PerUnit<Set> = PerUnit::new(code, 0);
    // Units that call or leave by a jump, and units that code of this object calls directly.
    let mut leaves = PerUnit::new(code, false);
    let mut called = PerUnit::new(code, false);
    for (at, insn) in code.each() {
        let unit = graph.unit[at];
        named[unit] |= effects[at].uses | effects[at].writes;
        let leaving = match insn.flow {
            Flow::Call(_) | Flow::Jump(_) | Flow::Branch(_) => match graph.target(at) {
                Some(target) if graph.unit[target] == unit && !graph.entry[target] => false,
                Some(target) => {
                    called[graph.unit[target]] = true;
                    true
                }
                None => true,
            },
            Flow::CallIndirect | Flow::JumpIndirect => true,
            Flow::Next => regs::is_syscall(code, at, effects),
            Flow::Return | Flow::Stop => false,
        };
        if leaving {
            leaves[unit] = true;
        }
    }
    let users: Vec<(u32, Set)> =
        named.iter().filter(|(_, named)| **named & bit(Register::R15) != 0).map(|(unit, set)| (unit, *set)).collect();
    let mut decisions = Homes::new(code, None);
    let unset = match passed {
        Passed::No(unset) if !users.is_empty() => unset,
        _ => {
            for (unit, _) in users {
                decisions[unit] = Some(R15::Home);
            }
            return decisions;
        }
    };
    let taken = passed::others(code, graph, effects, states, takes);
    let candidates: Vec<Register> = PRESERVED.into_iter().filter(|r| (taken | budgeted) & bit(*r) == 0).collect();
    for (unit, named) in users {
        let preserved = candidates.iter().copied();
        // A leaf may take a call-clobbered register, unless a caller in this object could know that
        // the leaf does not change it (IPA-RA).
        let leaf = !leaves[unit] && !called[unit];
        let scratch = SCRATCH.into_iter().filter(|_| leaf);
        let far = graph.far.concerns(unit) || unset.contains(&unit);
        let free = preserved.chain(scratch).find(|r| named & bit(*r) == 0 && !far);
        decisions[unit] = Some(free.map_or(R15::Home, R15::Renamed));
    }
    let costs = exchange_costs(code, graph, effects, &decisions);
    for (unit, costs) in costs {
        if graph.far.concerns(unit) || unset.contains(&unit) {
            continue;
        }
        let mut cheaper: Vec<Register> = candidates.clone();
        cheaper.retain(|r| costs[number(*r)] < costs[number(Register::R15)]);
        cheaper.sort_by_key(|r| costs[number(*r)]);
        let fits = |r: &Register| takes.get(&unit).is_none_or(|taken| taken & bit(*r) == 0);
        if let Some(register) = cheaper.into_iter().find(fits) {
            decisions[unit] = Some(R15::Exchanged(register));
        }
    }
    decisions
}

/// Returns the cost of keeping each register in memory, for each unit that must keep one there.
fn exchange_costs(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    decisions: &Homes,
) -> HashMap<u32, [u64; 16]> {
    let mut costs = HashMap::<u32, [u64; 16]>::new();
    if !decisions.iter().any(|(_, kept)| *kept == Some(R15::Home)) {
        return costs;
    }
    let depth = loop_depths(code);
    let kept = regs::bits(&PRESERVED) | bit(Register::R15);
    for run in graph.runs().filter(|run| decisions[graph.unit[run.start]] == Some(R15::Home)) {
        let costs = costs.entry(graph.unit[run.start]).or_default();
        for at in run.start.until(run.end) {
            let named = effects[at].uses | effects[at].writes;
            if named & kept != 0 {
                add_costs(costs, &code.insns[at], code.ins(at), named, 1 << (3 * depth[at].min(6)));
            }
        }
    }
    costs
}

/// Adds the costs of keeping each register in memory at an instruction. `named`: all registers that
/// it reads or writes.
fn add_costs(costs: &mut [u64; 16], insn: &Insn, ins: &Instruction, named: Set, weight: u64) {
    let (mut explicit, mut high) = (0, false);
    for (register, times) in mentions(ins) {
        explicit |= bit(register);
        high |= register == Register::BH;
        if let Some(cost) = costs.get_mut(number(register)) {
            *cost += weight * times;
        }
    }
    // Operands that the encoding fixes stay, and so do frame pointers.
    let fixed = named & !explicit;
    let frame = explicit & bit(Register::RBP) != 0 && explicit & bit(Register::RSP) != 0;
    for register in PRESERVED {
        let stays =
            fixed & bit(register) != 0 && !matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect | Flow::Return);
        if stays || (register == Register::RBP && frame) || (register == Register::RBX && high) {
            costs[number(register)] = u64::MAX / 2;
        }
    }
}

fn number(register: Register) -> usize {
    register.full_register() as usize - Register::RAX as usize
}

/// Returns the general registers that an instruction names, with the cost of each: an address needs
/// one more load.
fn mentions(ins: &Instruction) -> impl Iterator<Item = (Register, u64)> {
    let operands = (0..ins.op_count())
        .filter(|&op| ins.op_kind(op) == OpKind::Register && ins.op_register(op).is_gpr())
        .map(|op| (ins.op_register(op), 1));
    let address = [ins.memory_base(), ins.memory_index()].into_iter().filter(|r| r.is_gpr()).map(|r| (r, 2));
    operands.chain(address)
}

/// Returns the number of loops that surround each instruction. A loop is the code that a backward
/// branch spans.
fn loop_depths(code: &Code<'_, '_>) -> PerInsn<u32> {
    let mut change = code.per_insn(0i32);
    for (at, insn) in code.each() {
        if let Flow::Jump(Dest::Insn(target)) | Flow::Branch(Dest::Insn(target)) = insn.flow
            && target <= at
        {
            change[target] += 1;
            if let Some(behind) = change.get_mut(at.next()) {
                *behind -= 1;
            }
        }
    }
    let mut depth = 0;
    change
        .iter()
        .map(|change| {
            depth += change;
            depth.max(0) as u32
        })
        .collect()
}

/// Returns the place of r15 in a unit: its register, and the slot of the frame that is its home.
pub(crate) fn keeping(decisions: &Homes, slots: &Slots, unit: u32) -> (Keeping, Option<i64>) {
    let keeping = match decisions[unit] {
        Some(R15::Renamed(to)) => Keeping::Renamed(number(to) as u8),
        Some(R15::Exchanged(with)) => Keeping::Exchanged(number(with) as u8),
        Some(R15::Home) | None => Keeping::Home,
    };
    (keeping, decisions[unit].and_then(|_| slots.depth(unit)))
}

/// Counts the units by the ways in which they keep r15.
pub(crate) fn count(code: &Code<'_, '_>, graph: &FlowGraph, decisions: &Homes, slots: &Slots) -> Stats {
    // Padding and the trap of a section are no functions.
    let mut used = PerUnit::new(code, false);
    for run in graph.runs() {
        let used = &mut used[graph.unit[run.start]];
        *used = *used || run.start.until(run.end).any(|at| !code.insns[at].is_nop() && !code.is_trap(at));
    }
    let mut stats = Stats::default();
    for (unit, _) in used.iter().filter(|(_, used)| **used) {
        stats.units += 1;
        *match decisions[unit] {
            None => &mut stats.untouched,
            _ if slots.depth(unit).is_some() => &mut stats.slots,
            Some(R15::Renamed(register)) if SCRATCH.contains(&register) => &mut stats.leaves,
            Some(R15::Renamed(_)) => &mut stats.renamed,
            Some(R15::Exchanged(_)) => &mut stats.exchanged,
            Some(R15::Home) => &mut stats.homed,
        } += 1;
    }
    stats
}

/// Renames r15 in units that leave a register free, and exchanges it where that is cheaper. The
/// effects follow.
pub(crate) fn rename(code: &mut Code<'_, '_>, graph: &FlowGraph, decisions: &Homes, effects: &mut AllEffects) {
    if !decisions.iter().any(|(_, kept)| matches!(kept, Some(R15::Renamed(_) | R15::Exchanged(_)))) {
        return;
    }
    let named: Vec<Set> =
        code.forms.iter().map(|form| mentions(form).fold(0, |set, (register, _)| set | bit(register))).collect();
    for run in graph.runs() {
        let decision = decisions[graph.unit[run.start]];
        let changed = bit(Register::R15)
            | match decision {
                Some(R15::Renamed(_)) => 0,
                Some(R15::Exchanged(with)) => bit(with),
                _ => continue,
            };
        for at in run.start.until(run.end) {
            if named[usize::from(code.insns[at].form)] & changed == 0 {
                continue;
            }
            let mut ins = *code.ins(at);
            match decision {
                Some(R15::Renamed(to)) => replace(&mut ins, Register::R15, to),
                Some(R15::Exchanged(with)) => substitute(&mut ins, |register| match register.full_register() {
                    Register::R15 => like(register, with),
                    other if other == with => like(register, Register::R15),
                    _ => register,
                }),
                _ => {}
            }
            code.replace(at, &ins);
            effects.replace(code, at);
        }
    }
}

/// Replaces a general register, at every width, in an instruction's explicit operands.
pub(crate) fn replace(ins: &mut Instruction, from: Register, to: Register) {
    substitute(ins, |register| if register.full_register() == from { like(register, to) } else { register });
}

/// Replaces the general registers of an instruction's explicit operands.
fn substitute(ins: &mut Instruction, new: impl Fn(Register) -> Register) {
    for op in 0..ins.op_count() {
        if ins.op_kind(op) == OpKind::Register && ins.op_register(op).is_gpr() {
            ins.set_op_register(op, new(ins.op_register(op)));
        }
    }
    if ins.memory_base().is_gpr() {
        ins.set_memory_base(new(ins.memory_base()));
    }
    if ins.memory_index().is_gpr() {
        ins.set_memory_index(new(ins.memory_index()));
    }
}

/// Returns the register `to` at the width of `shape`.
pub(crate) fn like(shape: Register, to: Register) -> Register {
    let number = to.full_register() as u32 - Register::RAX as u32;
    match shape.size() {
        8 => Register::RAX + number,
        4 => Register::EAX + number,
        2 => Register::AX + number,
        _ => match number {
            0..4 => Register::AL + number,
            _ => Register::SPL + (number - 4),
        },
    }
}
