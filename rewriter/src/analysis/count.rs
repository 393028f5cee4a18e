//! Phase 7b: the places where %al may hold the number of vector registers that a variadic call
//! passes.
//!
//! Compilers write it just before the call, as a constant. After a call, or a 64-bit load, rax
//! holds another value. An indirect call may use rax for its target.

use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{AllEffects, bit};
use crate::object::address::Addresses;
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use iced_x86::{Mnemonic, OpKind, Register};

/// Says for each instruction whether %al may hold a count before it.
pub(crate) fn counts(
    code: &Code<'_, '_>,
    addresses: &Addresses,
    graph: &FlowGraph,
    effects: &AllEffects,
) -> PerInsn<bool> {
    let mut reached = code.per_insn(false);
    let mut holds = code.per_insn(false);
    let named = |at: &InsnIndex| graph.entry[*at] || addresses.taken[*at];
    let mut work: Vec<InsnIndex> = code.indexes().filter(named).collect();
    for &at in &work {
        (reached[at], holds[at]) = (true, true);
    }
    while let Some(at) = work.pop() {
        let after = match code.insns[at].flow {
            Flow::Call(_) | Flow::CallIndirect => false,
            _ if effects[at].writes & bit(Register::RAX) == 0 => holds[at],
            _ => {
                let ins = &code.insns[at].ins;
                let address = ins.mnemonic() == Mnemonic::Lea
                    || (ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Memory);
                !(address && ins.op0_register() == Register::RAX)
            }
        };
        graph.successors(code, at, |next| {
            if !reached[next] || (after && !holds[next]) {
                reached[next] = true;
                holds[next] |= after;
                work.push(next);
            }
        });
    }
    for at in code.indexes() {
        holds[at] |= !reached[at];
    }
    holds
}
