//! Phase 6: the height, which is the distance of the original stack pointer below its value at the
//! function's entry.
//!
//! The height decides only how the data stack is kept (see `transform`), never safety. It also
//! finds code that reads or replaces its return address, which in a domain is not on the data
//! stack. Code that reads the address gets it, and code that replaces it is refused.

use crate::analysis::depth::{Height, State, States};
use crate::analysis::flow::FlowGraph;
use crate::analysis::interned::Interned;
use crate::analysis::regs::{AllEffects, Effects, Set, bit};
use crate::object::decode::{Code, Flow, Insn, InsnIndex, PerInsn};
use crate::refusal::{Reason, Refusal};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

const UNSEEN: State = State { rsp: Height::Unseen, rbp: Height::Unseen };
/// The registers whose heights are known.
const POINTERS: Set = 1 << 4 | 1 << 5;
const ENTRY: State = State { rsp: Height::Known(0), rbp: Height::Computed };

/// Returns the states before each instruction. `last`: all indirect jumps are settled, so labels
/// that nothing reaches get a state too.
pub(crate) fn heights(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects, last: bool) -> States {
    let mut states = code.per_insn(UNSEEN);
    let mut work: Vec<InsnIndex> = graph.entry.iter().rev().collect();
    for &at in &work {
        states[at] = ENTRY;
    }
    let mut first_unreached = InsnIndex::FIRST;
    let far = graph.far.all().next().is_some();
    loop {
        while let Some(start) = work.pop() {
            let Some(at) = straight(code, graph, effects, &mut states, start) else { continue };
            let before = states[at];
            let after = transfer(code, effects, at, before);
            for &to in if far { graph.far.saved_for(at) } else { &[] } {
                let joined = states[to].join(before);
                if joined != states[to] {
                    states[to] = joined;
                    work.push(to);
                }
            }
            let presumed_end = is_presumed_noreturn(code, graph, at);
            let special = graph.is_special(at);
            let landing = if special { graph.landing(at) } else { None };
            graph.successors(code, at, |next| {
                let landing = landing.filter(|landing| landing.pad == next);
                let received = far && graph.far.receivers(graph.unit[at]).contains(&next) && next != at.next();
                if graph.entry[next] || received || (presumed_end && next == at.next() && landing.is_none()) {
                    return;
                }
                let arguments = landing.map_or(0, |landing| i64::from(landing.arguments));
                let after = State { rsp: after.rsp.add(-arguments), ..after };
                let known = &mut states[next];
                let joined = known.join(after);
                if joined != *known {
                    *known = joined;
                    work.push(next);
                }
            });
        }
        // Nothing reaches these labels: symbols of hand-written code, targets of computed jumps.
        let unreached = |&at: &InsnIndex| states[at] == UNSEEN && graph.label[at] && (last || !graph.has_interior(at));
        let Some(at) = first_unreached.until(code.insns.next_key()).find(unreached) else { break };
        first_unreached = at;
        // Padding has the state of the code after it.
        if let Some(state) = padding(code, graph, &states, at) {
            states[at] = state;
        } else {
            // The cold part of a landing pad that no call leads to begins in its function's frame.
            let inside = graph.has_interior(at) || code.begins_cold_part(at);
            states[at] = if inside { State { rsp: Height::Computed, rbp: Height::Computed } } else { ENTRY };
            work.push(at);
        }
    }
    Interned::new(&states)
}

/// Brings the state along the straight line from an instruction. Returns the line's last one,
/// unless the line ends where the state is known already.
fn straight(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &AllEffects,
    states: &mut PerInsn<State>,
    mut at: InsnIndex,
) -> Option<InsnIndex> {
    let mut state = states[at];
    while let Some(next) = graph.only_next(at).filter(|next| !graph.entry[*next])
        && !is_presumed_noreturn(code, graph, at)
        && graph.far.saved_for(at).is_empty()
    {
        let joined = states[next].join(transfer(code, effects, at, state));
        if joined == states[next] {
            return None;
        }
        states[next] = joined;
        (at, state) = (next, joined);
    }
    Some(at)
}

/// Returns the state after a label that is padding, if control reaches the code after it.
fn padding(code: &Code<'_, '_>, graph: &FlowGraph, states: &PerInsn<State>, at: InsnIndex) -> Option<State> {
    let next = graph.next(at).filter(|next| code.insns[at].is_nop() && !graph.entry[*next])?;
    Some(states[next]).filter(|state| *state != UNSEEN)
}

/// Says whether the function's symbol ends after a call. Compilers place only calls there that do
/// not return.
pub(crate) fn is_presumed_noreturn(code: &Code<'_, '_>, graph: &FlowGraph, at: InsnIndex) -> bool {
    let insn = &code.insns[at];
    if !matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect) {
        return false;
    }
    let section = insn.section as usize;
    let Some(function) = code.function_at(section, insn.offset.into()) else { return false };
    let symbol = &code.object.symbols[function];
    let last = u64::from(insn.offset) < symbol.end() && symbol.end() <= insn.end();
    symbol.size != 0 && last && graph.next(at).is_some()
}

/// Returns the state after an instruction.
#[inline]
fn transfer(code: &Code<'_, '_>, effects: &AllEffects, at: InsnIndex, state: State) -> State {
    if effects[at].writes & POINTERS == 0 { state } else { moved(code, effects, at, state) }
}

/// Returns the state after an instruction that writes a stack pointer.
fn moved(code: &Code<'_, '_>, effects: &AllEffects, at: InsnIndex, state: State) -> State {
    let ins = code.ins(at);
    let State { rsp, rbp } = state;
    let wrote_rbp = effects[at].writes & bit(Register::RBP) != 0;
    let keep_rbp = |rbp: Height| if wrote_rbp { Height::Computed } else { rbp };
    let immediate = || ins.try_immediate(ins.op_count() - 1).ok().map(|v| v as i64);
    let simple_base = |base: Register| {
        ins.memory_base() == base && ins.memory_index() == Register::None && code.insns[at].disp_reloc.is_none()
    };
    let disp = ins.memory_displacement64() as i64;
    match ins.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq => State { rsp: rsp.add(8), rbp },
        Mnemonic::Popfq => State { rsp: rsp.add(-8), rbp },
        Mnemonic::Pop if ins.op0_register() != Register::RSP => State { rsp: rsp.add(-8), rbp: keep_rbp(rbp) },
        Mnemonic::Leave => State { rsp: rbp.add(-8), rbp: Height::Computed },
        Mnemonic::Call | Mnemonic::Syscall => state,
        Mnemonic::Mov if ins.op0_register() == Register::RBP && ins.op1_register() == Register::RSP => {
            State { rsp, rbp: rsp }
        }
        Mnemonic::Mov if ins.op0_register() == Register::RSP && ins.op1_register() == Register::RBP => {
            State { rsp: rbp, rbp }
        }
        Mnemonic::Lea if ins.op0_register() == Register::RBP && simple_base(Register::RSP) => {
            State { rsp, rbp: rsp.add(-disp) }
        }
        Mnemonic::Lea if ins.op0_register() == Register::RSP && simple_base(Register::RSP) => {
            State { rsp: rsp.add(-disp), rbp }
        }
        Mnemonic::Lea if ins.op0_register() == Register::RSP && simple_base(Register::RBP) => {
            State { rsp: rbp.add(-disp), rbp }
        }
        Mnemonic::Sub | Mnemonic::Add if ins.op0_register() == Register::RSP => match immediate() {
            Some(v) if ins.op1_kind() != OpKind::Register && ins.op1_kind() != OpKind::Memory => {
                State { rsp: rsp.add(if ins.mnemonic() == Mnemonic::Sub { v } else { v.wrapping_neg() }), rbp }
            }
            _ => State { rsp: Height::Computed, rbp },
        },
        _ => {
            let wrote_rsp = effects[at].writes & bit(Register::RSP) != 0
                && !matches!(code.insns[at].flow, Flow::Return | Flow::CallIndirect);
            State { rsp: if wrote_rsp { Height::Computed } else { rsp }, rbp: keep_rbp(rbp) }
        }
    }
}

/// Refuses function ends where the stack's height shows that labels have other heights than
/// presumed. This concerns units with labels that pointers name: [`FlowGraph::settle`] presumes
/// which jump leads to which label.
pub(crate) fn check_returns(code: &Code<'_, '_>, graph: &FlowGraph, states: &States) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (at, insn) in code.each().filter(|(at, _)| graph.pointed.contains_key(&graph.unit[*at])) {
        let presumed = insn.flow == Flow::JumpIndirect && !graph.tables.contains_key(&at);
        let leaves = match insn.flow {
            Flow::Return => true,
            Flow::Jump(_) | Flow::Branch(_) => graph.leads_out(at),
            _ => presumed,
        };
        let restored = presumed && states[at].rsp == Height::Computed && is_behind_restore(code, at);
        if leaves && (states[at].rsp == Height::Mixed || restored) {
            let detail = "the function has labels that pointers name, and the stack's height is not known here";
            refusals.push(code.refuse(at, Reason::IndirectJump, detail));
        }
    }
    refusals
}

/// Says whether another register gives the stack pointer in the straight line before a jump, as at
/// a function's end.
fn is_behind_restore(code: &Code<'_, '_>, at: InsnIndex) -> bool {
    let line = code.insns[..at].iter().rev().take_while(|insn| insn.flow == Flow::Next);
    line.map(|insn| code.form(insn)).any(|ins| {
        matches!(ins.mnemonic(), Mnemonic::Lea | Mnemonic::Mov)
            && ins.op0_register() == Register::RSP
            && ins.memory_base() != Register::RSP
    })
}

/// Refuses code that replaces a return address or takes it off the stack, as far as heights are
/// known.
pub(crate) fn check_return_addresses(code: &Code<'_, '_>, effects: &AllEffects, states: &States) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (at, insn) in code.each() {
        let ins = code.form(insn);
        if insn.is_nop() {
            continue;
        }
        let mut found = None;
        match ins.mnemonic() {
            Mnemonic::Pop | Mnemonic::Popfq => {
                if let Height::Known(h) = states[at].rsp
                    && overlaps_return_address(-h, 8)
                {
                    found = Some("pops the return address");
                }
            }
            Mnemonic::Ret => {
                if let Height::Known(h) = states[at].rsp
                    && h != 0
                {
                    found = Some("returns to an address that it pushed");
                }
            }
            _ => {}
        }
        // pop computes its memory operand's address after moving rsp.
        let touched = touches_return_address(code, insn, &states[at]) && ins.mnemonic() != Mnemonic::Pop;
        if touched && !reads_return_address(code, at, &effects[at], &states[at]) {
            found = Some("the operand is the return address");
        }
        if let Some(detail) = found {
            refusals.push(code.refuse(at, Reason::ReturnAddress, detail));
        }
    }
    refusals
}

/// Says whether a place of the frame is part of the return address. It counts from the stack
/// pointer at the entry.
fn overlaps_return_address(from: i64, size: i64) -> bool {
    from < 8 && from + size > 0
}

/// Says whether an instruction's memory operand is the return address or a part of it. Fences do
/// not count, because they change nothing at any address.
fn touches_return_address(code: &Code<'_, '_>, insn: &Insn, state: &State) -> bool {
    let ins = code.form(insn);
    let base = match ins.memory_base() {
        Register::RSP => state.rsp,
        Register::RBP => state.rbp,
        _ => return false,
    };
    let operand = (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory);
    if !operand || ins.mnemonic() == Mnemonic::Lea || ins.memory_index() != Register::None || insn.disp_reloc.is_some()
    {
        return false;
    }
    let size = ins.memory_size().size() as i64;
    let place = |height: i64| (ins.memory_displacement64() as i64).wrapping_sub(height);
    matches!(base, Height::Known(height) if overlaps_return_address(place(height), size)) && !is_fence(insn, ins)
}

/// Says whether an instruction reads the return address or a part of it, and changes none of it.
#[inline]
pub(crate) fn reads_return_address(code: &Code<'_, '_>, at: InsnIndex, effects: &Effects, state: &State) -> bool {
    if !effects.memory_read {
        return false;
    }
    let (insn, mnemonic) = (&code.insns[at], code.ins(at).mnemonic());
    let reads = (!effects.memory_write || mnemonic == Mnemonic::Push) && mnemonic != Mnemonic::Pop;
    reads && insn.flow == Flow::Next && !insn.is_nop() && touches_return_address(code, insn, state)
}

/// Says whether an instruction is a fence like `lock or $0,(%rsp)`, which changes nothing at any
/// address.
fn is_fence(insn: &Insn, ins: &Instruction) -> bool {
    ins.has_lock_prefix()
        && matches!(ins.mnemonic(), Mnemonic::Or | Mnemonic::Add)
        && insn.imm_reloc.is_none()
        && ins.try_immediate(1).is_ok_and(|value| value == 0)
}
