//! Phase 7b: the places where %al may hold the number of vector registers that a variadic call
//! passes.
//!
//! Compilers write it just before the call, as a constant. After a call, or a 64-bit load, rax
//! holds another value. An indirect call may use rax for its target.

use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{AllEffects, bit};
use crate::object::address::Addresses;
use crate::object::decode::{Code, Flow, InsnIndex, InsnSet};
use iced_x86::{Mnemonic, OpKind, Register};

/// Returns the instructions before which %al may hold a count.
pub(crate) fn counts(code: &Code<'_, '_>, addresses: &Addresses, graph: &FlowGraph, effects: &AllEffects) -> InsnSet {
    let mut reached = code.no_insns();
    let mut holds = code.no_insns();
    let mut work: Vec<InsnIndex> = graph.entry.iter().chain(addresses.taken.iter()).collect();
    for &at in &work {
        reached.insert(at);
        holds.insert(at);
    }
    while let Some(at) = work.pop() {
        let after = match code.insns[at].flow {
            Flow::Call(_) | Flow::CallIndirect => false,
            _ if effects[at].writes & bit(Register::RAX) == 0 => holds[at],
            _ => {
                let ins = code.ins(at);
                let address = ins.mnemonic() == Mnemonic::Lea
                    || (ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Memory);
                !(address && ins.op0_register() == Register::RAX)
            }
        };
        graph.successors(code, at, |next| {
            if !reached[next] || (after && !holds[next]) {
                reached.insert(next);
                if after {
                    holds.insert(next);
                }
                work.push(next);
            }
        });
    }
    for at in code.indexes() {
        if !reached[at] {
            holds.insert(at);
        }
    }
    holds
}
