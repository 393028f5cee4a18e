//! Phase 7c: the switches that jump by an array of dispatch slots.
//!
//! ```text
//! movslq (%b,%i,4),%t ; add %b,%t ; jmp *%t
//! ```
//!
//! loads an entry of a table, and then the slot that the sum means. If the slots of the table's
//! targets lie in a row, the index alone gives the slot, and one load is left:
//!
//! ```text
//! lea ARRAY(,%i,8),%t32 ; and $0xffff8,%t32 ; jmp *%gs:__sfi_dispatch(%t32)
//! ```
//!
//! So `%t` holds the slot from the load on. This phase finds the switches where nobody notices: the
//! three instructions are in one straight line, nothing else in it names `%t` or reads the flags of
//! the sum, and nobody reads `%t` after the jump. It is no argument of a call: a compiler computes
//! the target of a switch for the jump alone.
//!
//! A `lea TABLE(%rip),%b` before the load is *idle* if only load and sum read its register. It is
//! left out, too.

use crate::analysis::flow::{FlowGraph, JumpKind, Switch};
use crate::analysis::live::Liveness;
use crate::analysis::regs::{AllEffects, Effects, FLAGS, bit};
use crate::analysis::rounds::Rounds;
use crate::analysis::spent::Spent;
use crate::object::address::{Addresses, Table};
use crate::object::decode::{Code, Flow, InsnIndex};
use foldhash::{HashMap, HashSet};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use object::elf;

/// Most slots of one array, unless at least half of its slots differ.
const SPARSE: usize = 256;
/// Most slots of an object's arrays. A domain has 131,072 slots.
const MOST: usize = 8192;

/// The arrays of an object, one after the other in one section.
#[derive(Default)]
pub(crate) struct Arrays {
    /// The offset of the array that replaces the table of a load.
    loads: HashMap<InsnIndex, i64>,
    /// The sums that are left out, and the jumps.
    parts: HashSet<InsnIndex>,
    /// The instructions that make the address of a table that nobody reads any more.
    idle: HashSet<InsnIndex>,
    /// The targets of all slots.
    pub words: Vec<InsnIndex>,
}

impl Arrays {
    /// Finds the switches, and gives their tables arrays.
    pub(crate) fn find(
        code: &Code<'_, '_>,
        addresses: &Addresses,
        graph: &FlowGraph,
        rounds: &Rounds,
        effects: &AllEffects,
        live: &Liveness,
    ) -> Arrays {
        let mut arrays = Arrays::default();
        if graph.switches.is_empty() {
            return arrays;
        }
        let spent = Spent::find(code, graph, rounds, effects);
        let mut offsets = HashMap::<usize, i64>::default();
        let mut jumps: Vec<(&InsnIndex, &Switch)> = graph.switches.iter().collect();
        jumps.sort_unstable_by_key(|(at, _)| **at);
        for (&jump, switch) in jumps {
            let inside = graph.jump_kind(jump) == JumpKind::Inside;
            if !inside || !is_line(code, graph, effects, (live, &spent), (switch, jump)) {
                continue;
            }
            let table = &addresses.tables[switch.table];
            let offset = match offsets.get(&switch.table) {
                Some(offset) => *offset,
                None if !fits(table, arrays.words.len()) => continue,
                None => {
                    let offset = 8 * arrays.words.len() as i64;
                    arrays.words.extend(&table.targets);
                    offsets.insert(switch.table, offset);
                    offset
                }
            };
            arrays.loads.insert(switch.load, offset);
            arrays.parts.extend([switch.sum, jump]);
            arrays.idle.extend(idle_base(code, graph, effects, (live, &spent), (switch, jump)));
        }
        arrays
    }

    /// Says whether the object has no array.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the offset of the array whose slot replaces the entry that an instruction loads.
    pub(crate) fn load(&self, at: InsnIndex) -> Option<i64> {
        self.loads.get(&at).copied()
    }

    /// Says whether an instruction makes the address of a table that nobody reads.
    pub(crate) fn is_idle(&self, at: InsnIndex) -> bool {
        self.idle.contains(&at)
    }

    /// Says whether an instruction adds the base to an entry that a slot replaced, or jumps there.
    pub(crate) fn is_part(&self, at: InsnIndex) -> bool {
        self.parts.contains(&at)
    }
}

/// Says whether a table may have an array, after `used` slots of others.
fn fits(table: &Table, used: usize) -> bool {
    let length = table.targets.len();
    let distinct = || table.targets.iter().collect::<HashSet<_>>().len();
    table.dense && used + length <= MOST && (length <= SPARSE || length <= 2 * distinct())
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
    let section = &code.object.sections[code.insns[jump].section as usize];
    let form = last.op0_kind() == OpKind::Register
        && load.op0_register() == target
        && load.memory_index().is_gpr64()
        && base.is_gpr64()
        && base != target
        && sum.mnemonic() == Mnemonic::Add
        && (sum.op0_register(), sum.op1_register()) == (target, base)
        && ![load, sum, last].into_iter().any(names_r15)
        // A group that is left out would take the targets with it.
        && section.flags & elf::SHF_GROUP.0 == 0
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
