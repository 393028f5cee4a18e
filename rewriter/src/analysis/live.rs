//! Phase 7: the registers and flags that are live before each instruction of the original code.
//!
//! gcc's IPA-RA lets a caller keep a value in a call-clobbered register across a call to a function
//! of its own object that does not clobber it. So such calls kill nothing here, and at a function's
//! end every register that its unit does not clobber itself is live.
//!
//! `transform` takes a dead register as scratch register. If there is none, it spills one to the
//! TCB page. Flags that live across inserted arithmetic are kept with `lahf`, `seto` and `sahf`.

use crate::analysis::flow::{FlowGraph, JumpKind, PerUnit};
use crate::analysis::regs::{AllEffects, FLAGS, GPRS, Set, arguments, bits, callee_saved, results};
use crate::analysis::rounds::Rounds;
use crate::object::decode::{Code, Flow, InsnIndex, PerInsn};
use foldhash::HashSet;
use iced_x86::{Instruction, Mnemonic, Register};

/// Live sets around each instruction.
pub(crate) struct Liveness {
    /// Live before each instruction.
    pub before: PerInsn<Set>,
    /// Live after each instruction.
    pub after: PerInsn<Set>,
}

/// Computes liveness.
pub(crate) fn liveness(code: &Code<'_, '_>, graph: &FlowGraph, rounds: &Rounds, effects: &AllEffects) -> Liveness {
    let call_clobbered = GPRS & !callee_saved();
    // Registers that each unit writes itself or lets unknown callees write.
    let mut clobbered: PerUnit<Set> = PerUnit::new(code, 0);
    let saves = |ins: &Instruction| ins.mnemonic() == Mnemonic::Pop && ins.op0_register() == Register::RAX;
    let mut saving = PerUnit::new(code, false);
    let mut writing = PerUnit::new(code, false);
    // In a unit with several entries it is not known which of them writes rax.
    let mut entries = PerUnit::new(code, 0u32);
    for (at, insn) in code.each() {
        let unit = graph.unit[at];
        let unknown = match insn.flow {
            Flow::Call(_) | Flow::Jump(_) | Flow::Branch(_) => graph.target(at).is_none(),
            Flow::CallIndirect => true,
            // Only a proven tail call counts. The compiler knows nothing more of its callee, but it
            // knows the labels of a jump that stays inside.
            Flow::JumpIndirect => graph.jump_kind(at) == JumpKind::Tail,
            _ => false,
        };
        clobbered[unit] |= effects[at].writes & GPRS;
        if unknown {
            clobbered[unit] |= call_clobbered;
        }
        if saves(code.form(insn)) {
            saving[unit] = true;
        } else if effects[at].writes & bits(&[Register::RAX]) != 0 {
            writing[unit] = true;
        }
        entries[unit] += u32::from(graph.entry[at]);
    }
    let gives_result = |unit: u32| writing[unit] && !saving[unit] && entries[unit] == 1;
    let returned = read_behind_calls(code, graph, rounds, effects);
    // Registers that the caller of a unit may rely on. They are live where the function ends.
    let passed_by = |unit: u32| callee_saved() | (GPRS & !clobbered[unit]);
    let running: HashSet<InsnIndex> = code.indexes().filter(|&at| surely_runs(code, graph, effects, at)).collect();
    let mut before = code.per_insn(0);
    let mut after = code.per_insn(0);
    rounds.run(|at, _| {
        let insn = &code.insns[at];
        let passed = || passed_by(graph.unit[at]);
        let mut out = 0;
        graph.successors(code, at, |next| out |= before[next]);
        let (uses, kills) = match insn.flow {
            Flow::Return => {
                out |= passed() | results() | returned[graph.unit[at]];
                (effects[at].uses, 0)
            }
            // A callee of this object is known to the compiler.
            Flow::Call(_) => match graph.target(at) {
                Some(to) => {
                    // Nobody keeps a value in rax across a callee that writes rax itself and
                    // does not save it.
                    let rax = if gives_result(graph.unit[to]) { bits(&[Register::RAX]) } else { 0 };
                    // Hand-written functions take arguments in any register, and in flags, so
                    // all that the callee reads is live.
                    (arguments() | callee_saved() | (before[to] & (GPRS | FLAGS)), FLAGS | rax)
                }
                None => (arguments() | callee_saved(), call_clobbered | FLAGS),
            },
            Flow::CallIndirect => (effects[at].uses | arguments() | callee_saved(), call_clobbered | FLAGS),
            Flow::Jump(_) | Flow::Branch(_) => {
                if graph.leads_out(at) {
                    out |= passed() | arguments() | results();
                }
                (effects[at].uses, effects[at].kills)
            }
            Flow::JumpIndirect => {
                if graph.jump_kind(at) == JumpKind::Far {
                    out |= passed();
                } else if graph.jump_kind(at) != JumpKind::Inside {
                    out |= passed() | arguments();
                }
                (effects[at].uses, 0)
            }
            Flow::Stop => (0, 0),
            Flow::Next if code.form(insn).mnemonic() == Mnemonic::Syscall => {
                (arguments() | bits(&[Register::RAX]) | callee_saved(), 0)
            }
            // Control falls off the section's end into a trap, which needs no flags.
            Flow::Next if graph.next(at).is_none() => (effects[at].uses | GPRS, effects[at].kills & FLAGS),
            Flow::Next if running.contains(&at) => (effects[at].uses, effects[at].kills | effects[at].writes & FLAGS),
            Flow::Next => (effects[at].uses, effects[at].kills),
        };
        let live = (out & !kills) | uses;
        after[at] = out;
        std::mem::replace(&mut before[at], live) != live
    });
    Liveness { before, after }
}

/// Says whether a repeated string instruction runs at least once, because its count is a number
/// that is not zero. Then its flags are those of a comparison.
fn surely_runs(code: &Code<'_, '_>, graph: &FlowGraph, effects: &AllEffects, at: InsnIndex) -> bool {
    let repeated = code.ins(at);
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
            let ins = code.ins(before);
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
fn read_behind_calls(code: &Code<'_, '_>, graph: &FlowGraph, rounds: &Rounds, effects: &AllEffects) -> PerUnit<Set> {
    let mut returned: PerUnit<Set> = PerUnit::new(code, 0);
    let mut before: PerInsn<Set> = code.per_insn(0);
    // The instructions that read what their unit returns.
    let mut reading = Vec::new();
    for (at, insn) in code.each() {
        let leaves = |to: InsnIndex| graph.unit[to] != graph.unit[at];
        let reads = match insn.flow {
            Flow::Return => true,
            Flow::Jump(_) | Flow::Branch(_) => graph.target(at).is_some_and(leaves),
            _ => false,
        };
        if reads {
            reading.push((graph.unit[at], at));
        }
    }
    reading.sort_unstable();
    let readers = |unit: u32| {
        let first = reading.partition_point(|(of, _)| *of < unit);
        reading[first..].iter().take_while(move |(of, _)| *of == unit).map(|(_, at)| *at)
    };
    rounds.run(|at, again| {
        let mut out = 0;
        graph.successors(code, at, |next| out |= before[next]);
        let callers = returned[graph.unit[at]];
        let mut add = |to: InsnIndex, set: Set| {
            let unit = graph.unit[to];
            let more = returned[unit] | set;
            if std::mem::replace(&mut returned[unit], more) != more {
                again.extend(readers(unit));
            }
        };
        let (uses, kills) = match code.insns[at].flow {
            Flow::Call(_) => match graph.target(at) {
                Some(to) => {
                    add(to, out);
                    (before[to], 0)
                }
                None => (0, GPRS & !callee_saved() | FLAGS),
            },
            Flow::CallIndirect => (effects[at].uses, GPRS & !callee_saved() | FLAGS),
            Flow::Return => {
                out = callers;
                (0, 0)
            }
            Flow::Jump(_) | Flow::Branch(_) => {
                // A tail call returns to this function's callers.
                if let Some(to) = graph.target(at).filter(|to| graph.unit[*to] != graph.unit[at]) {
                    add(to, callers);
                }
                (effects[at].uses, effects[at].kills)
            }
            _ => (effects[at].uses, effects[at].kills),
        };
        let read = (out & !kills) | uses;
        std::mem::replace(&mut before[at], read) != read
    });
    returned
}
