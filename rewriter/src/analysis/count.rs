//! Phase 7b: the places where %al may hold the number of vector registers that a variadic call
//! passes.
//!
//! Compilers write it just before the call, as a constant. After a call, or a 64-bit load, rax
//! holds another value. An indirect call may use rax for its target.

use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{AllEffects, bit};
use crate::analysis::rounds::Rounds;
use crate::object::address::Addresses;
use crate::object::decode::{Code, Flow, InsnIndex, InsnSet};
use iced_x86::{Mnemonic, OpKind, Register};

/// Returns the instructions before which %al may hold a count.
pub(crate) fn counts(
    code: &Code<'_, '_>,
    addresses: &Addresses,
    graph: &FlowGraph,
    rounds: &Rounds,
    effects: &AllEffects,
) -> InsnSet {
    let entries = graph.entry.iter().chain(addresses.taken.iter());
    let mut work: Vec<usize> = entries.filter_map(|at| rounds.beginning_at(at)).collect();
    // Whether %al may hold a count before each block that control reaches.
    let mut before: Vec<Option<bool>> = vec![None; rounds.blocks().len()];
    for block in &work {
        before[*block] = Some(true);
    }
    while let Some(block) = work.pop() {
        let last = rounds.insns(block).rev().find_map(|at| leaves(code, effects, at));
        let after = last.or(before[block]);
        for next in rounds.nexts(block) {
            // Control may come there first, or first with a count.
            if after > before[next] {
                before[next] = after;
                work.push(next);
            }
        }
    }
    let mut holds = code.no_insns();
    for block in rounds.blocks() {
        let reached = before[block].is_some();
        let mut now = before[block].unwrap_or(true);
        for at in rounds.insns(block) {
            if now {
                holds.insert(at);
            }
            if reached {
                now = leaves(code, effects, at).unwrap_or(now);
            }
        }
    }
    holds
}

/// Says whether %al may hold a count after an instruction. `None` if it keeps %al.
fn leaves(code: &Code<'_, '_>, effects: &AllEffects, at: InsnIndex) -> Option<bool> {
    match code.insns[at].flow {
        Flow::Call(_) | Flow::CallIndirect => Some(false),
        _ if effects[at].writes & bit(Register::RAX) == 0 => None,
        _ => {
            let ins = code.ins(at);
            let address = ins.mnemonic() == Mnemonic::Lea
                || (ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Memory);
            Some(!(address && ins.op0_register() == Register::RAX))
        }
    }
}
