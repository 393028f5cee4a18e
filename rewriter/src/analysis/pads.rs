//! Phase 7g: units whose indirect jumps leave no register free, or whose flags are live across one.
//!
//! Every label that the indirect jumps of such a unit may reach gets a landing pad. A jump saves a
//! register (and the flags) to the TCB page and uses the register for its unsafe region. The pad
//! restores them and goes on to the label. The pad's address takes the place of the label's.
//!
//! Switches that jump by an array of slots need no pads, and their slots lead to the labels. So a
//! label that only they reach has none.
//!
//! Receivers ([`crate::analysis::receive`]) have pads too, which cut the control stack.

use crate::analysis::arrays::Arrays;
use crate::analysis::flow::{FlowGraph, JumpKind};
use crate::analysis::live::Liveness;
use crate::analysis::regs::{FLAGS, GPRS, VECTOR_COUNT, bit};
use crate::analysis::trees::Trees;
use crate::object::decode::{Code, Flow, InsnIndex, InsnSet};
use foldhash::{HashMap, HashSet};
use iced_x86::{Instruction, OpKind, Register};

/// The register that padded jumps use.
pub(crate) const PAD_REGISTER: Register = Register::R11;

/// The units and labels that have landing pads.
#[derive(Default)]
pub(crate) struct Pads {
    /// For each unit with pads, whether the flags are saved too.
    units: HashMap<u32, bool>,
    labels: HashSet<InsnIndex>,
    /// Labels that far jumps reach.
    receivers: HashSet<InsnIndex>,
}

impl Pads {
    /// Finds the units that need pads.
    pub(crate) fn find(
        code: &Code<'_, '_>,
        graph: &FlowGraph,
        live: &Liveness,
        counts: &InsnSet,
        (arrays, trees): (&Arrays, &Trees),
    ) -> Pads {
        let mut pads = Pads { receivers: graph.far.all().collect(), ..Pads::default() };
        let mut jumps = Vec::new();
        for (at, insn) in code.each() {
            let leaves = || matches!(graph.jump_kind(at), JumpKind::Tail | JumpKind::Far);
            if insn.flow != Flow::JumpIndirect || leaves() || arrays.is_part(at) || trees.jump(at).is_some() {
                continue;
            }
            jumps.push(at);
            let flags = live.after[at] & FLAGS != 0;
            if flags || jump_register(code.form(insn), live, counts, at).is_none() {
                *pads.units.entry(graph.unit[at]).or_default() |= flags;
            }
        }
        for at in jumps.into_iter().filter(|at| pads.units.contains_key(&graph.unit[*at])) {
            pads.labels.extend(graph.jump_targets(at));
        }
        pads
    }

    /// Returns whether the pads of an instruction's unit restore the flags, `None` if it has no
    /// pads.
    pub(crate) fn unit(&self, graph: &FlowGraph, at: InsnIndex) -> Option<bool> {
        self.units.get(&graph.unit[at]).copied()
    }

    /// Says whether the object has no pad.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.receivers.is_empty()
    }

    /// Says whether the label has a pad.
    pub(crate) fn has(&self, label: InsnIndex) -> bool {
        self.labels.contains(&label) || self.is_receiver(label)
    }

    /// Says whether the label's pad receives far jumps.
    pub(crate) fn is_receiver(&self, label: InsnIndex) -> bool {
        self.receivers.contains(&label)
    }
}

/// Returns a register that an indirect jump may use for its target: its own operand, or a dead one.
pub(crate) fn jump_register(ins: &Instruction, live: &Liveness, counts: &InsnSet, at: InsnIndex) -> Option<Register> {
    let after = live.after[at];
    let own = ins.op0_kind() == OpKind::Register && ![Register::RSP, Register::R15].contains(&ins.op0_register());
    if own && bit(ins.op0_register()) & after == 0 {
        return Some(ins.op0_register());
    }
    let mut dead = GPRS & !after & !bit(Register::RSP) & !bit(Register::R15);
    // If the address names r15 and r15 is homed, r15 is loaded first. The rest of the address must
    // outlive that.
    let address = bit(ins.memory_base()) | bit(ins.memory_index());
    if address & bit(Register::R15) != 0 {
        dead &= !address;
    }
    if after & VECTOR_COUNT != 0 && counts[at] {
        dead &= !bit(Register::RAX);
    }
    use Register::*;
    [RAX, RCX, RDX, RSI, RDI, R11, R10, R9, R8, RBX, RBP, R12, R13, R14].into_iter().find(|r| dead & bit(*r) != 0)
}
