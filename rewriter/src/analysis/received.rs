//! Phase 6e: functions that receive far jumps ([`crate::analysis::receive`]) restore the preserved
//! registers before they return.
//!
//! The new code of a function that the jump skips may hold something else in such a register. It
//! matters where a register is reserved (`-ffixed-r14`), because the receiver's function does not
//! save it then. r15 has its home. Only code that changes r15 in the original program changes that.

use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{AllEffects, Set, bits};
use crate::object::decode::{Code, Flow};
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt};
use iced_x86::Register;

/// Refuses functions that do not restore them. `budget`: a register that no code changes.
pub(crate) fn check(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects, budget: Set) -> Vec<Refusal> {
    let mut units: HashMap<u32, (Set, bool)> = HashMap::new();
    units.extend(graph.far.all().map(|at| (graph.unit[at], (budget, false))));
    if units.is_empty() {
        return Vec::new();
    }
    for (at, insn) in code.each() {
        let Some((changed, leaves)) = units.get_mut(&graph.unit[at]) else { continue };
        *changed |= effects[at].writes;
        *leaves |= match insn.flow {
            Flow::Return => true,
            Flow::Jump(_) => graph.leads_out(at),
            _ => false,
        };
    }
    let restored = bits(&[Register::RBX, Register::R12, Register::R13, Register::R14]);
    let open = |unit: u32| units.get(&unit).is_some_and(|(changed, leaves)| *leaves && restored & !changed != 0);
    let detail = "the function receives a jump from a callee, and does not restore all preserved registers";
    let mut found: Vec<_> = graph.far.all().filter(|at| open(graph.unit[*at])).collect();
    found.sort_unstable();
    found.into_iter().map(|at| code.refuse(at, Reason::StackPointerUse, detail)).collect()
}
