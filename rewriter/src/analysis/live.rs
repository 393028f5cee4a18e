//! Phase 7: the registers and flags that are live before each instruction of the original code.
//!
//! gcc's IPA-RA lets a caller keep a value in a call-clobbered register across a call to a function
//! of its own object that does not clobber it. So such calls kill nothing here, and at a function's
//! end every register that its unit does not clobber itself is live.
//!
//! `transform` takes a dead register as scratch register. If there is none, it spills one to the
//! TCB page. Flags that live across inserted arithmetic are kept with `lahf`, `seto` and `sahf`.

use crate::analysis::flow::{FlowGraph, JumpKind};
use crate::analysis::regs::{Effects, FLAGS, GPRS, Set, arguments, bits, callee_saved, results};
use crate::object::address::insn_of;
use crate::object::decode::{Code, Dest, Flow, Insn, InsnIndex, PerInsn};
use foldhash::{HashMap, HashMapExt, HashSet};
use iced_x86::{Mnemonic, Register};

/// Live sets around each instruction.
pub(crate) struct Liveness {
    /// Live before each instruction.
    pub before: PerInsn<Set>,
    /// Live after each instruction.
    pub after: PerInsn<Set>,
}

/// Says whether a callee is known to the compiler that built this object.
fn is_local_call(code: &Code<'_, '_>, dest: Dest) -> bool {
    insn_of(code, dest).is_some()
}

/// Computes liveness.
pub(crate) fn liveness(code: &Code<'_, '_>, graph: &FlowGraph, effects: &PerInsn<Effects>) -> Liveness {
    let call_clobbered = GPRS & !callee_saved();
    // Registers that each unit writes itself or lets unknown callees write.
    let mut clobbered = HashMap::<u32, Set>::new();
    for (at, insn) in code.insns.iter_enumerated() {
        let unknown = match insn.flow {
            Flow::Call(dest) | Flow::Jump(dest) | Flow::Branch(dest) => !is_local_call(code, dest),
            Flow::CallIndirect => true,
            // Only a proven tail call counts. The compiler knows nothing more of its callee, but it
            // knows the labels of a jump that stays inside.
            Flow::JumpIndirect => graph.jump_kind(at) == JumpKind::Tail,
            _ => false,
        };
        let set = clobbered.entry(graph.unit[at]).or_default();
        *set |= effects[at].writes & GPRS;
        if unknown {
            *set |= call_clobbered;
        }
    }
    let named = |insn: &Insn, is: Mnemonic| insn.ins.mnemonic() == is && insn.ins.op0_register() == Register::RAX;
    let saving: HashSet<u32> = code
        .insns
        .iter()
        .zip(&graph.unit)
        .filter(|(insn, _)| named(insn, Mnemonic::Pop))
        .map(|(_, unit)| *unit)
        .collect();
    // In a unit with several entries it is not known which of them writes rax.
    let mut entries = HashMap::<u32, usize>::new();
    for (at, unit) in graph.unit.iter_enumerated() {
        *entries.entry(*unit).or_default() += usize::from(graph.entry[at]);
    }
    let results_in: HashSet<u32> = code
        .insns
        .iter_enumerated()
        .filter(|(at, insn)| effects[*at].writes & bits(&[Register::RAX]) != 0 && !named(insn, Mnemonic::Pop))
        .map(|(at, _)| graph.unit[at])
        .filter(|unit| !saving.contains(unit) && entries[unit] == 1)
        .collect();
    let returned = read_behind_calls(code, graph, effects);
    // Registers that the caller of each instruction's unit may rely on. They are live where the
    // function ends.
    let mut passed_at = code.per_insn(0);
    for (passed, unit) in passed_at.iter_mut().zip(&graph.unit) {
        *passed = callee_saved() | (GPRS & !clobbered[unit]);
    }
    let running: HashSet<InsnIndex> = code.insns.keys().filter(|&at| surely_runs(code, graph, effects, at)).collect();
    let mut before = code.per_insn(0);
    let mut after = code.per_insn(0);
    let mut changed = true;
    while changed {
        changed = false;
        for at in code.insns.keys().rev() {
            let insn = &code.insns[at];
            let passed = passed_at[at];
            let mut out = 0;
            graph.successors(code, at, |next| out |= before[next]);
            let (uses, kills) = match insn.flow {
                Flow::Return => {
                    out |= passed | results() | returned.get(&graph.unit[at]).copied().unwrap_or(0);
                    (effects[at].uses, 0)
                }
                Flow::Call(dest) if is_local_call(code, dest) => {
                    // Nobody keeps a value in rax across a callee that writes rax itself and does
                    // not save it.
                    let callee = insn_of(code, dest).map(|to| graph.unit[to]);
                    let rax =
                        if callee.is_some_and(|unit| results_in.contains(&unit)) { bits(&[Register::RAX]) } else { 0 };
                    // Hand-written functions take arguments in any register, and in flags, so all
                    // that the callee reads is live.
                    let taken = insn_of(code, dest).map_or(0, |to| before[to]);
                    (arguments() | callee_saved() | (taken & (GPRS | FLAGS)), FLAGS | rax)
                }
                Flow::Call(_) => (arguments() | callee_saved(), call_clobbered | FLAGS),
                Flow::CallIndirect => (effects[at].uses | arguments() | callee_saved(), call_clobbered | FLAGS),
                Flow::Jump(dest) | Flow::Branch(dest) => {
                    if graph.leads_out(code, dest) {
                        out |= passed | arguments() | results();
                    }
                    (effects[at].uses, effects[at].kills)
                }
                Flow::JumpIndirect => {
                    if graph.jump_kind(at) == JumpKind::Far {
                        out |= passed;
                    } else if graph.jump_kind(at) != JumpKind::Inside {
                        out |= passed | arguments();
                    }
                    (effects[at].uses, 0)
                }
                Flow::Stop => (0, 0),
                Flow::Next if insn.ins.mnemonic() == Mnemonic::Syscall => {
                    (arguments() | bits(&[Register::RAX]) | callee_saved(), 0)
                }
                // Control falls off the section's end into a trap, which needs no flags.
                Flow::Next if graph.next(at).is_none() => (effects[at].uses | GPRS, effects[at].kills & FLAGS),
                Flow::Next if running.contains(&at) => {
                    (effects[at].uses, effects[at].kills | effects[at].writes & FLAGS)
                }
                Flow::Next => (effects[at].uses, effects[at].kills),
            };
            let live = (out & !kills) | uses;
            after[at] = out;
            if live != before[at] {
                before[at] = live;
                changed = true;
            }
        }
    }
    Liveness { before, after }
}

/// Says whether a repeated string instruction runs at least once, because its count is a number
/// that is not zero. Then its flags are those of a comparison.
fn surely_runs(code: &Code<'_, '_>, graph: &FlowGraph, effects: &PerInsn<Effects>, at: InsnIndex) -> bool {
    let repeated = &code.insns[at].ins;
    let count = bits(&[Register::RCX]);
    if !repeated.is_string_instruction() || !(repeated.has_rep_prefix() || repeated.has_repne_prefix()) {
        return false;
    }
    let mut here = at;
    while let Some(before) = here.before().filter(|&before| graph.next(before) == Some(here)) {
        if graph.label[here] || code.insns[before].flow != Flow::Next {
            return false;
        }
        if effects[before].writes & count != 0 {
            let ins = &code.insns[before].ins;
            let whole = ins.mnemonic() == Mnemonic::Mov && ins.op0_register().size() >= 4;
            return whole
                && code.insns[before].imm_reloc.is_none()
                && ins.try_immediate(1).is_ok_and(|n| n as u32 != 0);
        }
        here = before;
    }
    false
}

/// Returns the registers and flags that callers in this object read after a unit returns, before
/// they write them. Hand-written functions return values there.
fn read_behind_calls(code: &Code<'_, '_>, graph: &FlowGraph, effects: &PerInsn<Effects>) -> HashMap<u32, Set> {
    let mut returned = HashMap::<u32, Set>::new();
    let mut before: PerInsn<Set> = code.per_insn(0);
    let mut changed = true;
    while changed {
        changed = false;
        for at in code.insns.keys().rev() {
            let mut out = 0;
            graph.successors(code, at, |next| out |= before[next]);
            let (uses, kills) = match code.insns[at].flow {
                Flow::Call(dest) => match insn_of(code, dest) {
                    Some(to) => {
                        changed |= add(&mut returned, graph.unit[to], out);
                        (before[to], 0)
                    }
                    None => (0, GPRS & !callee_saved() | FLAGS),
                },
                Flow::CallIndirect => (effects[at].uses, GPRS & !callee_saved() | FLAGS),
                Flow::Return => {
                    out = returned.get(&graph.unit[at]).copied().unwrap_or(0);
                    (0, 0)
                }
                Flow::Jump(dest) | Flow::Branch(dest) => {
                    // A tail call returns to this function's callers.
                    let callers = returned.get(&graph.unit[at]).copied().unwrap_or(0);
                    if let Some(to) = insn_of(code, dest).filter(|to| graph.unit[*to] != graph.unit[at]) {
                        changed |= add(&mut returned, graph.unit[to], callers);
                    }
                    (effects[at].uses, effects[at].kills)
                }
                _ => (effects[at].uses, effects[at].kills),
            };
            let read = (out & !kills) | uses;
            if read != before[at] {
                before[at] = read;
                changed = true;
            }
        }
    }
    returned
}

/// Adds to the registers that a unit returns. Says whether they are more than before.
fn add(returned: &mut HashMap<u32, Set>, unit: u32, set: Set) -> bool {
    let known = returned.entry(unit).or_default();
    let more = *known | set;
    std::mem::replace(known, more) != more
}
