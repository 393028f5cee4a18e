//! Phase 5c: which switch tables an indirect jump may use.
//!
//! `lea table(%rip),%b ; movslq (%b,%i,4),%t ; add %b,%t ; jmp *%t`: the jump uses the tables whose `lea` may have written the
//! base register that is added. Where another write of that register may reach the addition, nothing is known.

use crate::analysis::flow::FlowGraph;
use crate::analysis::regs::{Effects, Set, bit};
use crate::object::address::Addresses;
use crate::object::decode::{Code, Flow, InsnIndex};
use iced_x86::{Mnemonic, OpKind, Register};
use std::collections::{HashMap, HashSet};

/// How far back a base register's definitions are searched, in instructions.
const REACH: usize = 20_000;

/// Targets of the indirect jumps whose tables are known.
pub fn targets(
    code: &Code<'_, '_>,
    graph: &FlowGraph,
    effects: &[Effects],
    addresses: &Addresses,
) -> HashMap<InsnIndex, Vec<InsnIndex>> {
    let mut tables = HashMap::<InsnIndex, Vec<InsnIndex>>::new();
    for (by, targets) in &addresses.tables {
        tables.entry(*by).or_default().extend(targets);
    }
    let jumps: Vec<InsnIndex> = (0..code.insns.len())
        .filter(|&at| code.insns[at].flow == Flow::JumpIndirect && graph.has_interior(at))
        .collect();
    let mut found = HashMap::new();
    if tables.is_empty() || jumps.is_empty() {
        return found;
    }
    let mut before = vec![Vec::new(); code.insns.len()];
    for at in 0..code.insns.len() {
        graph.successors(code, at, |next| before[next].push(at));
    }
    for at in jumps {
        let Some((add, operands)) = addition(code, effects, at) else { continue };
        for base in operands {
            let Some(definitions) = definitions(&before, effects, add, bit(base)) else { continue };
            let targets: Option<Vec<&Vec<InsnIndex>>> = definitions.iter().map(|by| tables.get(by)).collect();
            if let Some(targets) = targets.filter(|t| !t.is_empty()) {
                let mut all: Vec<InsnIndex> = targets.into_iter().flatten().copied().collect();
                all.sort_unstable();
                all.dedup();
                found.insert(at, all);
                break;
            }
        }
    }
    found
}

/// Indirect jumps to a sum in units where no instruction names a switch table: differences of labels that the assembler resolved, which
/// no relocation shows.
pub fn computed(code: &Code<'_, '_>, graph: &FlowGraph, effects: &[Effects], addresses: &Addresses) -> Vec<InsnIndex> {
    let with_tables: HashSet<u32> = addresses.tables.iter().map(|(by, _)| graph.unit[*by]).collect();
    (0..code.insns.len())
        .filter(|&at| code.insns[at].flow == Flow::JumpIndirect && !with_tables.contains(&graph.unit[at]))
        .filter(|&at| addition(code, effects, at).is_some())
        .collect()
}

/// The addition that made the jump's target, in the same straight line, and its operands.
fn addition(code: &Code<'_, '_>, effects: &[Effects], at: InsnIndex) -> Option<(InsnIndex, [Register; 2])> {
    let jump = &code.insns[at].ins;
    if jump.op0_kind() != OpKind::Register {
        return None;
    }
    let target = jump.op0_register();
    for index in (at.saturating_sub(32)..at).rev() {
        let insn = &code.insns[index];
        if insn.section != code.insns[at].section || insn.flow != Flow::Next {
            return None;
        }
        if effects[index].writes & bit(target) != 0 {
            let ins = &insn.ins;
            let is_sum = ins.mnemonic() == Mnemonic::Add && ins.op1_kind() == OpKind::Register;
            return is_sum.then(|| (index, [ins.op1_register(), ins.op0_register()]));
        }
    }
    None
}

/// Every instruction whose write of a register may reach `at`; `None` if some path has none.
fn definitions(
    before: &[Vec<InsnIndex>],
    effects: &[Effects],
    at: InsnIndex,
    register: Set,
) -> Option<HashSet<InsnIndex>> {
    let mut found = HashSet::new();
    let mut seen = HashSet::from([at]);
    let mut work = vec![at];
    while let Some(at) = work.pop() {
        if before[at].is_empty() || seen.len() > REACH {
            return None;
        }
        for &earlier in &before[at] {
            if effects[earlier].writes & register != 0 {
                found.insert(earlier);
            } else if seen.insert(earlier) {
                work.push(earlier);
            }
        }
    }
    Some(found)
}
