//! Text that is read. A slot holds an address, so a read through the address of code would find
//! other bytes. Hand-written code keeps tables between its functions, and they may decode.
//!
//! A read counts if one of these holds:
//!
//! - The register has no other origin than addresses of code, on every path.
//! - The place is no function, no direct branch leads there, and its section has no indirect jump
//!   to lead there. Then it is data, even if another function reads it, or another path has another
//!   address.

use crate::analysis::depth::States;
use crate::analysis::flow::FlowGraph;
use crate::analysis::reach::{Leaf, Reach};
use crate::analysis::regs::AllEffects;
use crate::object::address::{Addresses, insn_of};
use crate::object::decode::{Code, Flow, InsnIndex, InsnSet};
use crate::object::read::Place;
use crate::object::through::{Follower, Program, Ways};
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{OpKind, Register};

/// Refuses instructions that name code which is read.
pub(crate) fn check(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    addresses: &Addresses,
) -> Vec<Refusal> {
    let mut follower = Follower::new();
    let mut candidates = HashMap::new();
    for &by in addresses.operands.keys() {
        let reads = follower.reads_through(code, by, code.ins(by).op0_register());
        if !reads.is_empty() {
            candidates.insert(by, reads);
        }
    }
    if candidates.is_empty() {
        return Vec::new();
    }
    let reach = Reach::new(code, graph, effects, states);
    let search = Search { code, reach: &reach, addresses };
    let mut found = HashSet::new();
    let reads: HashSet<InsnIndex> = candidates.values().flatten().copied().collect();
    for at in reads {
        let ins = code.ins(at);
        for register in [ins.memory_base(), ins.memory_index()].into_iter().filter(|r| r.is_gpr()) {
            found.extend(search.code_only(at, register, &mut HashSet::new()).unwrap_or_default());
        }
    }
    let plain = reached(code);
    let jumps: HashSet<u32> =
        code.insns.iter().filter(|insn| insn.flow == Flow::JumpIndirect).map(|insn| insn.section).collect();
    found.extend(candidates.keys().filter(|by| {
        let target = insn_of(code, addresses.operands[by]);
        target.is_some_and(|target| !plain[target] && !jumps.contains(&code.insns[target].section))
    }));
    let mut found: Vec<InsnIndex> = found.into_iter().collect();
    found.sort_unstable();
    found.into_iter().map(|at| code.refuse(at, Reason::DataInText, "bytes at this address are read")).collect()
}

struct Search<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    reach: &'x Reach<'x, 'o, 'a>,
    addresses: &'x Addresses,
}

impl Search<'_, '_, '_> {
    /// Returns the instructions that name the code whose address a register holds, or a sum with
    /// it. `None` if it may hold anything else.
    fn code_only(
        &self,
        at: InsnIndex,
        register: Register,
        seen: &mut HashSet<(InsnIndex, Register)>,
    ) -> Option<HashSet<InsnIndex>> {
        let mut found = HashSet::new();
        if !seen.insert((at, register.full_register())) {
            return Some(found);
        }
        for leaf in self.reach.leaves(at, register.full_register()) {
            match leaf {
                Leaf::Address(by) if self.addresses.operands.contains_key(&by) => _ = found.insert(by),
                Leaf::Sum(by) => found.extend(self.summand(by, seen)?),
                _ => return None,
            }
        }
        Some(found)
    }

    /// Returns the code that one summand names.
    fn summand(&self, by: InsnIndex, seen: &mut HashSet<(InsnIndex, Register)>) -> Option<HashSet<InsnIndex>> {
        let ins = self.code.ins(by);
        let operands = (0..ins.op_count()).filter(|op| ins.op_kind(*op) == OpKind::Register);
        let registers = operands.map(|op| ins.op_register(op)).chain([ins.memory_base(), ins.memory_index()]);
        // The result of `lea` is no summand.
        let skip = usize::from(ins.op_count() > 1 && ins.op1_kind() == OpKind::Memory);
        registers.skip(skip).filter(|r| r.is_gpr()).find_map(|r| self.code_only(by, r, seen))
    }
}

/// Returns the first instructions of functions, and those to which direct branches and
/// fall-through lead from them.
fn reached(code: &Code<'_, '_>) -> InsnSet {
    let mut reached = code.no_insns();
    let functions = code.object.symbols.iter().filter(|s| s.is_function() || s.is_open());
    let mut work: Vec<InsnIndex> = functions
        .filter_map(|symbol| match symbol.place {
            Place::Section(section) => code.at(section, symbol.value),
            _ => None,
        })
        .collect();
    while let Some(at) = work.pop() {
        if reached.insert(at) {
            let Some(Ways { target, next, .. }) = code.ways(at) else { continue };
            work.extend(target.into_iter().chain(next));
        }
    }
    reached
}
