//! Phase 7c: the registers whose values may be read again, if none of them goes to another function
//! on purpose.
//!
//! This is the liveness of a *spent* value: the target of a switch, after its jump. Compilers make
//! it for the jump alone. So no function passes or returns it, although it may be in a register
//! that does so for other values. A write of a byte reads nothing of the rest.
//!
//! The callers in the object count, with the places where they read a register after a call. So
//! this phase is exact where [`crate::analysis::live`] is careful: a call may lead back with a
//! value only if some way through its callee leaves the register alone.

use crate::analysis::flow::{FlowGraph, JumpKind};
use crate::analysis::regs::{AllEffects, Effects, GPRS, Parts, arguments, bit, callee_saved, results, whole};
use crate::analysis::rounds::Rounds;
use crate::object::address::insn_of;
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{Mnemonic, Register};

/// The reads of registers, by functions and after them.
pub(crate) struct Spent {
    /// Registers that may be read before they are written and before the function ends.
    reads: PerInsn<Parts>,
    /// Registers that may keep their values to the end of the function.
    left: PerInsn<Parts>,
    /// Registers that callers may read after a unit has returned.
    behind: HashMap<u32, Parts>,
}

impl Spent {
    /// Finds the reads.
    pub(crate) fn find(code: &Code<'_, '_>, graph: &FlowGraph, rounds: &Rounds, effects: &AllEffects) -> Spent {
        let mut spent = Spent { reads: code.per_insn(0), left: code.per_insn(0), behind: HashMap::new() };
        rounds.run(|block, _| {
            let mut changed = false;
            for at in rounds.insns(block).rev() {
                let (reads, left) = spent.before(code, graph, &effects[at], at);
                changed = (reads, left) != (spent.reads[at], spent.left[at]);
                (spent.reads[at], spent.left[at]) = (reads, left);
            }
            changed
        });
        while spent.spread(code, graph) {}
        spent
    }

    /// Says whether nobody reads the value of a register before an instruction.
    pub(crate) fn is_dead(&self, graph: &FlowGraph, at: InsnIndex, register: Register) -> bool {
        let behind = self.behind.get(&graph.unit[at]).copied().unwrap_or(0);
        (self.reads[at] | (self.left[at] & behind)) & whole(bit(register)) == 0
    }

    /// Returns the reads and the registers left alone from an instruction on.
    fn before(&self, code: &Code<'_, '_>, graph: &FlowGraph, effects: &Effects, at: InsnIndex) -> (Parts, Parts) {
        let (reads, left) = self.after(code, graph, at);
        let insn = &code.insns[at];
        let preserved = whole(callee_saved());
        match insn.flow {
            Flow::Return => (effects.reads | preserved, whole(GPRS)),
            Flow::Call(dest) => {
                let (inside, kept) = insn_of(code, dest).map_or((0, 0), |to| (self.reads[to], self.left[to]));
                let kept = kept | preserved;
                (inside & !preserved | (reads & kept), left & kept)
            }
            Flow::CallIndirect => (effects.reads | (reads & preserved), left & preserved),
            Flow::Jump(dest) | Flow::Branch(dest) if insn_of(code, dest).is_none() => {
                (effects.reads | reads | preserved, left | preserved)
            }
            // The jump may stay inside, so only the registers of results are new.
            Flow::JumpIndirect if graph.jump_kind(at) != JumpKind::Inside => {
                (effects.reads | reads | preserved, left | whole(GPRS & !results()))
            }
            Flow::Stop => (0, 0),
            Flow::Next if code.form(insn).mnemonic() == Mnemonic::Syscall => {
                (reads | whole(arguments() | bit(Register::RAX)), left)
            }
            // Control falls off the section's end.
            Flow::Next if graph.next(at).is_none() => (whole(GPRS), whole(GPRS)),
            _ => (effects.reads | (reads & !effects.covers), left & !effects.covers),
        }
    }

    /// Returns the reads and the registers left alone after an instruction, without a callee's.
    fn after(&self, code: &Code<'_, '_>, graph: &FlowGraph, at: InsnIndex) -> (Parts, Parts) {
        let (mut reads, mut left) = (0, 0);
        graph.successors(code, at, |next| {
            if !is_foreign(code, graph, at, next) {
                reads |= self.reads[next];
                left |= self.left[next];
            }
        });
        (reads, left)
    }

    /// Tells all callees, and functions that are jumped to, the reads of their callers. Says
    /// whether one was new.
    fn spread(&mut self, code: &Code<'_, '_>, graph: &FlowGraph) -> bool {
        let mut changed = false;
        for (at, insn) in code.each() {
            let callers = self.behind.get(&graph.unit[at]).copied().unwrap_or(0);
            let (dest, behind) = match insn.flow {
                Flow::Call(dest) => {
                    let (reads, left) = self.after(code, graph, at);
                    (dest, reads | (left & callers))
                }
                // A tail call returns to this function's callers.
                Flow::Jump(dest) | Flow::Branch(dest) => (dest, callers),
                _ => continue,
            };
            if let Some(to) = insn_of(code, dest).filter(|_| behind != 0) {
                let known = self.behind.entry(graph.unit[to]).or_default();
                changed |= *known | behind != *known;
                *known |= behind;
            }
        }
        changed
    }
}

/// Says whether only a call that does not return, or the padding after it, is between an
/// instruction and the next function.
fn is_foreign(code: &Code<'_, '_>, graph: &FlowGraph, at: InsnIndex, next: InsnIndex) -> bool {
    let insn = &code.insns[at];
    let ends = insn.is_nop() || matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect);
    ends && graph.unit[at] != graph.unit[next] && (graph.entry[next] || code.insns[next].is_nop())
}
