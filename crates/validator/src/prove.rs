//! The comparison of an object with its rewritten form, from the files to the findings.

use crate::code::Index;
use crate::context::Context;
use crate::graph::Graph;
use crate::landings::Unwinding;
use crate::object::{Pair, is_function};
use crate::report::{Finding, Proof, Verdict};
use crate::saves::Saves;
use crate::walk::Walk;
use sfi_debuginfo::map::Trace;
use sfi_elf::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Compares an object with its rewritten form.
pub fn validate(original: &[u8], new: &[u8], traces: &[Trace]) -> Proof {
    judge(original, new, traces)
}

/// Compares an object with its rewritten form. Drops the traces once they are read.
pub(crate) fn judge<Traces: AsRef<[Trace]>>(original: &[u8], new: &[u8], traces: Traces) -> Proof {
    let whole = |verdict, what| Proof {
        findings: vec![Finding {
            verdict,
            what,
            section: String::new(),
            offset: 0,
            function: None,
            original: Vec::new(),
            new: Vec::new(),
        }],
        ..Proof::default()
    };
    let pair = match Pair::read(original, new) {
        Ok(pair) => pair,
        Err(what) => return whole(Verdict::Wrong, what),
    };
    let mut context = match Context::read(&pair, traces.as_ref()) {
        Ok(context) => context,
        Err(what) => return whole(Verdict::Unproved, what),
    };
    drop(traces);
    if let Some(at) = context.names_the_budget() {
        let insn = &context.old.text.insns[at];
        let (ins, offset) = (sfi_contract::syntax::text(&insn.ins), insn.offset());
        return whole(Verdict::Wrong, format!("`{ins}` at {offset:#x} names r14, which holds the budget"));
    }
    let Some(unwinding) = Unwinding::read(&pair.old) else {
        return whole(Verdict::Unproved, "the unwind tables are not understood".to_owned());
    };
    let graph = Graph::find(&context, &unwinding);
    context.mark_receivers(graph.all_receivers());
    let saves = Saves::find(&context, &graph);
    let walk = Walk::run(&context, &graph, &saves);
    let mut proof = Proof { instructions: walk.compared, ..Proof::default() };
    let mut findings: BTreeMap<(usize, u64, Option<Index>), Finding> = BTreeMap::new();
    let faults = crate::flow::check(&context, &graph, &walk.blocks);
    let unwound = crate::exceptions::check(&context, &unwinding, &saves, &walk.returns);
    for (at, place, difference) in walk.differences.iter().chain(&unwound) {
        let finding = finding(&context, *at, Some(*place), difference.verdict, difference.what.clone());
        findings.insert((context.old.text.insns[*at].section as usize, finding.offset, Some(*at)), finding);
    }
    for (at, (verdict, what)) in faults.into_iter().chain(crate::parts::unreached(&context.old, &graph)) {
        let finding = finding(&context, at, None, verdict, what);
        findings.entry((context.old.text.insns[at].section as usize, finding.offset, Some(at))).or_insert(finding);
    }
    for (verdict, what, section, offset) in crate::tables::check(&context, &graph, &walk.searches) {
        let finding = Finding {
            verdict,
            what,
            section: pair.old.sections[section].name.to_owned(),
            offset,
            function: None,
            original: Vec::new(),
            new: Vec::new(),
        };
        findings.entry((section, offset, None)).or_insert(finding);
    }
    let functions: BTreeSet<Index> = (0..graph.entry.len()).filter(|&at| graph.entry[at]).collect();
    let broken: BTreeSet<Index> =
        findings.keys().filter_map(|(_, _, at)| functions.range(..=(*at)?).next_back().copied()).collect();
    proof.functions = functions.len() - broken.len();
    proof.findings = findings.into_values().collect();
    proof
}

/// Returns a finding with both listings.
fn finding(
    context: &Context<'_, '_>,
    at: Index,
    place: Option<(usize, u64)>,
    verdict: Verdict,
    what: String,
) -> Finding {
    let old = &context.old;
    let insn = &old.text.insns[at];
    let line = |insn: &crate::code::Insn| format!("{:6x}: {}", insn.offset(), sfi_contract::syntax::text(&insn.ins));
    let around = old.text.insns[at.saturating_sub(3)..(at + 2).min(old.text.insns.len())].iter();
    let original = around.filter(|i| i.section == insn.section).map(line).collect();
    let (section, offset) = place.unwrap_or((old.place[at].0 as usize, u64::from(old.place[at].1)));
    let mut new = Vec::new();
    let mut next = context.new.at(section, offset);
    while let Some(index) = next.filter(|_| new.len() < 6) {
        new.push(line(&context.new.insns[index]));
        next = context.new.next(index);
    }
    let function = old
        .pair
        .old
        .symbols
        .iter()
        .filter(|s| is_function(s) && s.value <= insn.offset())
        .filter(|s| s.place == Place::Section(insn.section as usize));
    Finding {
        verdict,
        what,
        section: old.pair.old.sections[insn.section as usize].name.to_owned(),
        offset: insn.offset(),
        function: function.max_by_key(|s| s.value).map(|s| s.name.to_owned()),
        original,
        new,
    }
}
