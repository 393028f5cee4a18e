//! The origin of a register's value: the instructions whose writes reach a point, and the leaves of
//! a chain of moves.
//!
//! The predecessors are a superset: an indirect jump whose targets are not proven counts as a
//! predecessor of every label of its unit. So a claim about *all* definitions holds on every path.
//! Code that this analysis does not see reaches a function's entry, and [`Leaf::Outside`] tells so.
//! Moves between registers are followed, and so are stores to and loads from a place of the frame.

use crate::analysis::depth::{Height, State};
use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{Effects, bit};
use crate::object::decode::{Code, Flow, InsnIndex};
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};
use std::collections::{HashMap, HashSet};

/// Most instructions that are searched for definitions.
const REACH: usize = 100_000;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// `lea place(%rip)` or `mov $place`: the address of a place.
    Address(InsnIndex),
    /// A load from memory that is no place of the frame.
    Load(InsnIndex),
    /// A sum or difference.
    Sum(InsnIndex),
    /// The result of a call.
    Result(InsnIndex),
    /// Anything else that is computed.
    Other(InsnIndex),
    /// An argument, or a value whose origin is not known.
    Outside,
}

/// Definitions of registers, found by a search against the flow of control.
pub struct Reach<'x, 'o, 'a> {
    code: &'x Code<'o, 'a>,
    graph: &'x FlowGraph,
    effects: &'x [Effects],
    states: &'x [State],
    /// Predecessors of instruction `i`: `before[start[i]..start[i + 1]]`.
    start: Vec<u32>,
    before: Vec<u32>,
    /// Indirect jumps that may lead to any label of their unit, by unit.
    open: HashMap<u32, Vec<InsnIndex>>,
    /// Labels that the open jumps may reach.
    reached: HashSet<InsnIndex>,
    /// Stores to places of frames, by unit and place.
    stores: HashMap<(u32, Register, i64), Vec<InsnIndex>>,
}

impl<'x, 'o, 'a> Reach<'x, 'o, 'a> {
    /// Finds predecessors and stores to frames.
    pub fn new(code: &'x Code<'o, 'a>, graph: &'x FlowGraph, effects: &'x [Effects], states: &'x [State]) -> Self {
        let count = code.insns.len();
        let mut start = vec![0u32; count + 1];
        let each = |visit: &mut dyn FnMut(InsnIndex, InsnIndex)| {
            for at in 0..count {
                if code.insns[at].flow != Flow::JumpIndirect || graph.tables.contains_key(&at) {
                    // This function does not find values that another one left in a register. That
                    // holds even if padding or a call that does not return seems to fall into it.
                    let foreign = |next: InsnIndex| graph.entry[next] && graph.unit[next] != graph.unit[at];
                    graph.successors(code, at, |next| {
                        if !foreign(next) {
                            visit(at, next)
                        }
                    });
                }
            }
        };
        each(&mut |_, next| start[next + 1] += 1);
        for at in 0..count {
            start[at + 1] += start[at];
        }
        let mut fill = start.clone();
        let mut before = vec![0u32; start[count] as usize];
        each(&mut |at, next| {
            before[fill[next] as usize] = at as u32;
            fill[next] += 1;
        });
        let mut open = HashMap::<u32, Vec<InsnIndex>>::new();
        let mut stores = HashMap::<_, Vec<InsnIndex>>::new();
        for (at, insn) in code.insns.iter().enumerate() {
            let unit = graph.unit[at];
            if insn.flow == Flow::JumpIndirect && graph.has_interior(at) && !graph.tables.contains_key(&at) {
                open.entry(unit).or_default().push(at);
            }
            if effects[at].memory_write
                && let Some((base, place)) = frame_place(&insn.ins, &states[at])
            {
                stores.entry((unit, base, place)).or_default().push(at);
            }
        }
        let labels = open.keys().filter_map(|unit| graph.interior.get(unit));
        let reached = labels.flatten().copied().collect();
        Reach { code, graph, effects, states, start, before, open, reached, stores }
    }

    /// Returns the effects of an instruction on registers.
    pub fn effects(&self, at: InsnIndex) -> &Effects {
        &self.effects[at]
    }

    /// Calls `visit` for every instruction whose write of a register may reach `at`; says whether
    /// there are paths without one.
    fn definitions(&self, at: InsnIndex, register: Register, mut visit: impl FnMut(InsnIndex)) -> bool {
        let wanted = bit(register);
        let mut outside = false;
        let mut hub = false;
        let mut seen = HashSet::from([at]);
        let mut work = vec![at];
        while let Some(at) = work.pop() {
            let near = &self.before[self.start[at] as usize..self.start[at + 1] as usize];
            let jumps = self.reached.contains(&at) && !std::mem::replace(&mut hub, true);
            let far = self.open.get(&self.graph.unit[at]).filter(|_| jumps).map_or(&[][..], Vec::as_slice);
            // Nothing reaches the padding after a jump, and it is no label.
            let unknown = near.is_empty() && self.graph.label[at] && !self.reached.contains(&at);
            outside |= self.graph.entry[at] || unknown;
            if seen.len() > REACH {
                return true;
            }
            for earlier in near.iter().map(|&at| at as usize).chain(far.iter().copied()) {
                let call = matches!(self.code.insns[earlier].flow, Flow::Call(_) | Flow::CallIndirect);
                let result = call && wanted & crate::analysis::regs::results() != 0;
                if result || self.effects[earlier].writes & wanted != 0 {
                    if seen.insert(earlier) {
                        visit(earlier);
                    }
                } else if seen.insert(earlier) {
                    work.push(earlier);
                }
            }
        }
        outside
    }

    /// Returns the origins of the value that a register has before `at`.
    pub fn leaves(&self, at: InsnIndex, register: Register) -> HashSet<Leaf> {
        let mut leaves = HashSet::new();
        let mut seen = HashSet::from([(at, register)]);
        let mut work = vec![(at, register)];
        while let Some((at, register)) = work.pop() {
            let mut next = Vec::new();
            let outside = self.definitions(at, register, |by| self.step(by, register, &mut leaves, &mut next));
            if outside {
                leaves.insert(Leaf::Outside);
            }
            work.extend(next.into_iter().filter(|value| seen.insert(*value)));
        }
        leaves
    }

    /// Handles one definition of a register: adds a leaf, or values to follow.
    fn step(
        &self,
        by: InsnIndex,
        register: Register,
        leaves: &mut HashSet<Leaf>,
        next: &mut Vec<(InsnIndex, Register)>,
    ) {
        let insn = &self.code.insns[by];
        let ins = &insn.ins;
        let from = |op| (ins.op_kind(op) == OpKind::Register).then(|| ins.op_register(op).full_register());
        let plain = ins.op_count() >= 1 && from(0) == Some(register.full_register());
        match ins.mnemonic() {
            _ if matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect) => _ = leaves.insert(Leaf::Result(by)),
            _ if !plain => _ = leaves.insert(Leaf::Other(by)),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsxd if ins.op1_kind() == OpKind::Memory => {
                let stores = frame_place(ins, &self.states[by])
                    .and_then(|(base, place)| self.stores.get(&(self.graph.unit[by], base, place)));
                match stores {
                    Some(stores) => self.stored(stores, leaves, next),
                    None => _ = leaves.insert(Leaf::Load(by)),
                }
            }
            Mnemonic::Mov if ins.op1_kind() == OpKind::Register => next.extend(from(1).map(|source| (by, source))),
            Mnemonic::Mov => _ = leaves.insert(Leaf::Address(by)),
            Mnemonic::Lea if ins.memory_base() == Register::RIP => _ = leaves.insert(Leaf::Address(by)),
            Mnemonic::Lea
                if ins.memory_index() == Register::None
                    && insn.disp_reloc.is_none()
                    && ins.memory_displacement64() == 0 =>
            {
                next.push((by, ins.memory_base().full_register()));
            }
            Mnemonic::Lea | Mnemonic::Add | Mnemonic::Sub => _ = leaves.insert(Leaf::Sum(by)),
            Mnemonic::Pop => _ = leaves.insert(Leaf::Load(by)),
            _ if is_conditional_move(ins) => {
                next.push((by, register));
                match from(1) {
                    Some(source) => next.push((by, source)),
                    None => _ = leaves.insert(Leaf::Load(by)),
                }
            }
            _ => _ = leaves.insert(Leaf::Other(by)),
        }
    }

    /// Handles the stores to a place of the frame.
    fn stored(&self, stores: &[InsnIndex], leaves: &mut HashSet<Leaf>, next: &mut Vec<(InsnIndex, Register)>) {
        for &store in stores {
            let ins = &self.code.insns[store].ins;
            if ins.mnemonic() == Mnemonic::Mov && ins.op1_kind() == OpKind::Register {
                next.push((store, ins.op1_register().full_register()));
            } else {
                leaves.insert(Leaf::Other(store));
            }
        }
    }
}

/// Returns the place of the frame that an instruction's memory operand is: its distance from the
/// function's entry without a register. If the height is not known, it is base register and
/// displacement.
pub fn frame_place(ins: &Instruction, state: &State) -> Option<(Register, i64)> {
    let operand = (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory);
    if !operand || ins.memory_index() != Register::None || ins.segment_prefix() != Register::None {
        return None;
    }
    let height = match ins.memory_base() {
        Register::RSP => state.rsp,
        Register::RBP => state.rbp,
        _ => return None,
    };
    let displacement = ins.memory_displacement64() as i64;
    Some(match height {
        Height::Known(height) => (Register::None, displacement - height),
        _ => (ins.memory_base(), displacement),
    })
}

fn is_conditional_move(ins: &Instruction) -> bool {
    ins.condition_code() != ConditionCode::None && ins.op_count() == 2
}
