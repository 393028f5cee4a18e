//! Phase 4b: jumps into frames of callers: `__builtin_longjmp` and gotos out of nested functions.
//!
//! Both sides are compiler code. A function with a *receiver* stores its stack pointer and frame
//! pointer in memory, beside the address of a label that nothing in the function jumps to. A *far
//! jump* loads all three: `mov m,%rsp ; mov %r,%rbp ; jmp *%t`. Compilers take every register for
//! lost at a receiver, so a function with one saves all preserved registers.
//!
//! The data stack follows with the stack pointer. The receiver's pad cuts the control stack to the
//! depth that the receiver's function had at its entry. A switch between coroutines looks alike,
//! but it does more: it stores the stack pointer and jumps away in one function, or loads other
//! preserved registers.

use crate::object::address::Addresses;
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use foldhash::{HashMap, HashSet};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Longest way from the load of the stack pointer to the jump, in instructions.
const NEAR: usize = 16;

/// Receivers and far jumps of an object.
#[derive(Default)]
pub(crate) struct Far {
    /// Receivers by unit.
    receivers: HashMap<u32, Vec<InsnIndex>>,
    /// The instructions by which units with receivers store their stack pointer, with the unit.
    saves: HashMap<InsnIndex, u32>,
    jumps: HashSet<InsnIndex>,
    units: HashSet<u32>,
}

impl Far {
    /// Finds them. `label` says whether an instruction lies inside a function and begins none.
    pub(crate) fn find(
        code: &Code<'_, '_>,
        addresses: &Addresses,
        unit: &PerInsn<u32>,
        label: impl Fn(InsnIndex) -> bool,
    ) -> Far {
        let units = |insns: &[InsnIndex]| -> HashSet<u32> { insns.iter().map(|at| unit[*at]).collect() };
        let mut far = Far::default();
        let jumps: Vec<InsnIndex> = code.indexes().filter(|&at| code.insns[at].flow == Flow::JumpIndirect).collect();
        let labels: Vec<InsnIndex> = addresses.pointed.iter().filter(|&at| label(at)).collect();
        let (jumping, labelled) = (units(&jumps), units(&labels));
        if !labelled.is_subset(&jumping) {
            let data: HashSet<InsnIndex> =
                addresses.data.values().filter_map(|data| crate::object::address::insn_of(code, data.dest)).collect();
            let saves: Vec<InsnIndex> = code.indexes().filter(|&at| saves_stack(code, at)).collect();
            let saving = units(&saves);
            for at in labels.into_iter().filter(|at| !data.contains(at)) {
                if saving.contains(&unit[at]) && !jumping.contains(&unit[at]) {
                    far.receivers.entry(unit[at]).or_default().push(at);
                }
            }
            let received = saves.into_iter().filter(|&at| far.receivers.contains_key(&unit[at]));
            far.saves = received.map(|at| (at, unit[at])).collect();
        }
        let alone = jumps.into_iter().filter(|&at| !labelled.contains(&unit[at]));
        far.jumps = alone.filter(|&at| is_far_jump(code, at)).collect();
        far.units = far.jumps.iter().map(|&at| unit[at]).chain(far.receivers.keys().copied()).collect();
        far
    }

    /// Returns the receivers of a unit.
    pub(crate) fn receivers(&self, unit: u32) -> &[InsnIndex] {
        self.receivers.get(&unit).map_or(&[], Vec::as_slice)
    }

    /// Returns every receiver.
    pub(crate) fn all(&self) -> impl Iterator<Item = InsnIndex> {
        self.receivers.values().flatten().copied()
    }

    /// Returns the receivers that find the stack as it is at an instruction that stores its
    /// pointer.
    pub(crate) fn saved_for(&self, at: InsnIndex) -> &[InsnIndex] {
        self.saves.get(&at).map_or(&[], |unit| self.receivers(*unit))
    }

    /// Says whether an instruction is a far jump.
    pub(crate) fn is_jump(&self, at: InsnIndex) -> bool {
        self.jumps.contains(&at)
    }

    /// Says whether a unit has a receiver or a far jump. Its frame pointer then keeps its place.
    pub(crate) fn concerns(&self, unit: u32) -> bool {
        self.units.contains(&unit)
    }
}

/// Says whether an instruction is `mov %rsp,m`, or the second of `mov %rsp,%r ; mov %r,m`.
fn saves_stack(code: &Code<'_, '_>, at: InsnIndex) -> bool {
    let ins = code.ins(at);
    let before =
        || at.before().map(|before| &code.insns[before]).filter(|before| before.section == code.insns[at].section);
    let copied = |before: &crate::object::decode::Insn| {
        let copy = code.form(before);
        copy.mnemonic() == Mnemonic::Mov
            && copy.op0_register() == ins.op1_register()
            && copy.op1_register() == Register::RSP
    };
    ins.mnemonic() == Mnemonic::Mov
        && ins.op0_kind() == OpKind::Memory
        && (ins.op1_register() == Register::RSP || (ins.op1_register().is_gpr64() && before().is_some_and(copied)))
}

/// Says whether an indirect jump is a far one. The straight line to it loads the stack pointer
/// from memory, and the frame pointer from anywhere, in any order. It loads no other preserved
/// register from there.
fn is_far_jump(code: &Code<'_, '_>, at: InsnIndex) -> bool {
    let insn = &code.insns[at];
    let line = code.insns[..at].iter().rev().take(NEAR);
    let line = line.take_while(|i| i.flow == Flow::Next && i.section == insn.section).map(|i| code.form(i));
    let line: Vec<&Instruction> = line.collect();
    let moves_to = |ins: &Instruction, register: Register| {
        ins.mnemonic() == Mnemonic::Mov && ins.op0_kind() == OpKind::Register && ins.op0_register() == register
    };
    let loads = |ins: &Instruction| ins.op1_kind() == OpKind::Memory;
    let stack = line.iter().position(|ins| moves_to(ins, Register::RSP) && loads(ins));
    let frame = line.iter().position(|ins| moves_to(ins, Register::RBP));
    let (Some(stack), Some(frame)) = (stack, frame) else { return false };
    let place = line[stack].memory_base();
    let others = [Register::RBX, Register::R12, Register::R13, Register::R14, Register::R15];
    let more = |ins: &&Instruction| {
        others.iter().any(|other| moves_to(ins, *other)) && loads(ins) && ins.memory_base() == place
    };
    let between = &line[..stack.max(frame)];
    let moved = |ins: &&Instruction| {
        ins.is_stack_instruction() || (ins.op_count() > 0 && ins.op0_register() == Register::RSP && !loads(ins))
    };
    !between.iter().any(moved) && !line.iter().any(more)
}
