//! Phase 6b: calls, and labels of padding, after which the new code stops.
//!
//! Compilers place code that other paths reach after a call of a function that never returns. Some
//! analyses leave out the way past such a call, because that code expects another stack, or other
//! registers, than the call leaves. If the function does return nevertheless, a trap follows.
//!
//! A function never returns by its name only if the object does not define it. The object's own
//! function of that name is one like any other. If another object's function of that name returns,
//! it returns to the trap.
//!
//! A switch's entry for values that never occur may lead to the function's end, where padding is.
//! If something is on the stack there, the padding does not lead into the next function.

use crate::analysis::depth::{Height, States};
use crate::analysis::flow::FlowGraph;
use crate::analysis::height;
use crate::object::decode::{Code, Dest, Flow, InsnIndex};
use crate::object::read::Place;
use foldhash::HashSet;
use sfi_contract::names;

/// Returns the calls and labels of padding after which the new code stops.
pub(crate) fn find(code: &Code<'_, '_>, graph: &FlowGraph, states: &States) -> HashSet<InsnIndex> {
    let mut reached = code.no_insns();
    for at in code.indexes().filter(|&at| graph.only_next(at).is_none()) {
        let lands = graph.is_special(at) && graph.landing(at).is_some();
        graph.successors(code, at, |to| {
            if to != at.next() || lands {
                reached.insert(to);
            }
        });
    }
    let stops = |&at: &InsnIndex| {
        let Some(behind) = behind(code, graph, at) else { return false };
        let entry = graph.entry[behind];
        let other_stack = match entry {
            true => states[at].rsp != Height::Known(0),
            false => height::is_presumed_noreturn(code, graph, at) && states[at] != states[behind],
        };
        code.ends_cold_part(at) || ((entry || reached[behind]) && (other_stack || never_returns(code, at)))
    };
    let calls = code.indexes().filter(|&at| matches!(code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect));
    let ends = |&at: &InsnIndex| {
        let above = matches!(states[at].rsp, Height::Known(height) if height != 0);
        graph.label[at] && above && behind(code, graph, at).is_some_and(|behind| graph.entry[behind])
    };
    let padding = code.indexes().filter(|&at| code.insns[at].is_nop());
    calls.filter(stops).chain(padding.filter(ends)).collect()
}

/// Returns the instruction that control reaches after an instruction and padding. `None` if that is
/// a trap.
fn behind(code: &Code<'_, '_>, graph: &FlowGraph, at: InsnIndex) -> Option<InsnIndex> {
    let mut next = at.next();
    while code.insns.get(next).is_some_and(|insn| insn.is_nop() && !graph.label[next]) {
        next = next.next();
    }
    let insn = code.insns.get(next)?;
    (insn.section == code.insns[at].section && insn.flow != Flow::Stop).then_some(next)
}

/// Says whether an instruction calls a function of another object that never returns.
fn never_returns(code: &Code<'_, '_>, at: InsnIndex) -> bool {
    let Flow::Call(Dest::Symbol(symbol)) = code.insns[at].flow else { return false };
    let symbol = &code.object.symbols[symbol.index()];
    symbol.place == Place::Undefined && std::str::from_utf8(symbol.name).is_ok_and(names::never_returns)
}
