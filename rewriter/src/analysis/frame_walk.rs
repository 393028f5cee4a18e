//! Phase 6d: finds code that walks the chain of frame pointers.
//!
//! `__builtin_frame_address(0)` is a copy of rbp. It points at the caller's rbp, and natively the
//! return address lies 8 bytes above. This phase proves that no instruction of a unit that copies
//! rbp reads there. It follows such copies between registers and places of the frame, and the
//! values that are loaded from the chain. A copy that leaves the unit is an address of the stack,
//! and that is allowed.

use crate::analysis::depth::{Height, States};
use crate::analysis::flow::FlowGraph;
use crate::analysis::reach::frame_place;
use crate::analysis::regs::AllEffects;
use crate::object::decode::{Code, Flow, InsnIndex};
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use iced_x86::{Mnemonic, OpKind, Register};

/// The possible contents of registers. Bit `n`: a frame pointer. Bit `16 + n`: the place of a
/// return address.
type Walk = u32;

/// Refuses reads of return addresses through copies of the frame pointer.
pub(crate) fn check(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects, states: &States) -> Vec<Refusal> {
    let copies = |at: &InsnIndex| {
        let ins = code.ins(*at);
        ins.mnemonic() == Mnemonic::Mov
            && ins.op1_register() == Register::RBP
            && ins.op0_register() != Register::RSP
            && states[*at].rbp == Height::Known(8)
    };
    let units: HashSet<u32> = code.indexes().filter(copies).map(|at| graph.unit[at]).collect();
    if units.is_empty() {
        return Vec::new();
    }
    let members = graph.members(&units);
    let mut places = HashSet::new();
    let mut before = HashMap::<InsnIndex, Walk>::new();
    loop {
        let known = places.len();
        let mut changed = false;
        for &at in &members {
            let walk = before.get(&at).copied().unwrap_or(0);
            let after = transfer(code, graph, effects, states, at, walk, &mut places);
            graph.successors(code, at, |to| {
                let next = before.entry(to).or_default();
                changed |= *next | after != *next;
                *next |= after;
            });
        }
        if !changed && places.len() == known {
            break;
        }
    }
    let reads = |at: &InsnIndex| {
        let ins = code.ins(*at);
        let walk = before.get(at).copied().unwrap_or(0);
        let copied = ![Register::RSP, Register::RBP].contains(&ins.memory_base());
        let place = offset(walk, ins.memory_base()).map(|offset| offset + ins.memory_displacement64() as i64);
        copied && effects[*at].memory_read && ins.memory_index() == Register::None && place == Some(8)
    };
    let detail = "the operand is the return address, above a copy of the frame pointer";
    members.iter().copied().filter(reads).map(|at| code.refuse(at, Reason::ReturnAddress, detail)).collect()
}

/// Returns how far above a frame pointer a register may point.
fn offset(walk: Walk, register: Register) -> Option<i64> {
    let bit = |register: Register| 1u32 << (register as u32 - Register::RAX as u32);
    let found = |shift: u32| register.is_gpr64() && walk & (bit(register) << shift) != 0;
    if found(16) { Some(8) } else { found(0).then_some(0) }
}

fn transfer(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &States,
    at: InsnIndex,
    walk: Walk,
    places: &mut HashSet<(u32, Register, i64)>,
) -> Walk {
    let insn = &code.insns[at];
    let ins = code.form(insn);
    if matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect) {
        let kept = crate::analysis::regs::callee_saved() & 0xffff;
        return walk & (kept | kept << 16);
    }
    let place = frame_place(ins, &states[at]).map(|(base, place)| (graph.unit[at], base, place));
    let frame = |register| states[at].rbp == Height::Known(8) && register == Register::RBP;
    let from = |register| if frame(register) { Some(0) } else { offset(walk, register) };
    let displacement = ins.memory_displacement64() as i64;
    let alone = ins.memory_index() == Register::None;
    let value = match ins.mnemonic() {
        Mnemonic::Mov if ins.op0_kind() == OpKind::Memory => {
            if let (Some(place), Some(0)) = (place, from(ins.op1_register())) {
                places.insert(place);
            }
            None
        }
        Mnemonic::Mov if ins.op1_kind() == OpKind::Memory => match place {
            Some(place) => places.contains(&place).then_some(0),
            None => (alone && from(ins.memory_base()).is_some_and(|offset| offset + displacement == 0)).then_some(0),
        },
        Mnemonic::Mov => from(ins.op1_register()),
        Mnemonic::Lea if alone => from(ins.memory_base()).map(|offset| offset + displacement),
        Mnemonic::Add => from(ins.op0_register()).and_then(|offset| Some(offset + ins.try_immediate(1).ok()? as i64)),
        _ => None,
    };
    let written = effects[at].writes & 0xffff;
    let kept = walk & !(written | written << 16);
    let to = crate::analysis::regs::bit(ins.op0_register());
    match value {
        Some(0) => kept | to,
        Some(8) => kept | to << 16,
        _ => kept,
    }
}
