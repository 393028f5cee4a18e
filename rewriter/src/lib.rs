//! The rewriter: turns a compiled object into one that obeys the sandbox contract.
//!
//! Untrusted: a mistake here can break a plugin, but cannot let it escape, because the verifier
//! decides.
//!
//! Data flows one way, one module a phase: `object` (read, check, carve, decode, retpoline,
//! address) → `unwind` → `analysis` (flow, receive, regs, reach, jumps, height, own, frame_walk,
//! r15, slot, live, count, pads) → `transform` → `text` (share, layout) → `debug` → `output`
//! (sections, unwind_table, write).

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod analysis;
mod debug;
mod object;
mod output;
mod refusal;
mod stats;
mod text;
mod transform;
mod unwind;

pub use refusal::{Reason, Refusal};
pub use sfi_contract::Mode;
pub use sfi_debuginfo::map::Trace;
pub use stats::{Growth, Stats};

use crate::analysis::{count, flow, frame_walk, height, jumps, live, own, pads, r15};
use crate::analysis::{r15::slot, regs};
use crate::object::read::Object;
use crate::object::{address, carve, check, decode, read, retpoline};
use crate::output::{sections, write};
use crate::text::{emit, growth, layout, share};

/// Options of a rewrite.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The sandbox's mode.
    pub mode: Mode,
}

/// A rewritten object.
#[derive(Clone, Debug)]
pub struct Output {
    /// The ELF relocatable's bytes.
    pub bytes: Vec<u8>,
    /// Counts of the work that was done.
    pub stats: Stats,
    /// Messages for the user about parts that were left out.
    pub notes: Vec<String>,
    /// The instruction that each piece of new code serves, for the validator.
    pub traces: Vec<Trace>,
}

/// Rewrites one object. The same input and options give the same bytes.
///
/// Returns every obstacle, with its place and reason. The rewriter guesses nothing: it refuses code
/// that it does not recognise.
pub fn rewrite(object: &[u8], options: &Options) -> Result<Output, Vec<Refusal>> {
    let object = read::read(object).map_err(|refusal| vec![refusal])?;
    check::sections(&object)?;
    let mixed = |refusal: &Refusal| matches!(refusal.reason, Reason::DataInText | Reason::BranchTarget);
    match rewrite_object(&object, options) {
        // Data between instructions decodes to nonsense. Carving moves it out of the text.
        Err(refusals) if refusals.iter().any(mixed) => match carve::carve(&object) {
            Some(carved) => rewrite_object(&carved, options),
            None => Err(refusals),
        },
        result => result,
    }
}

/// Runs the phases after `read` and the check of the sections.
fn rewrite_object(object: &Object<'_>, options: &Options) -> Result<Output, Vec<Refusal>> {
    let mut code = decode::decode(object)?;
    retpoline::replace(&mut code);
    let addresses = address::find(&code)?;
    check::symbols(&code)?;
    let unwind = unwind::collect(&code)?;
    let mut graph = flow::build(&code, &addresses, &unwind);
    let mut effects = regs::effects(&code.insns);
    let sums = jumps::prove(&code, &mut graph, &effects, &addresses);
    while graph.settle(&code, &height::heights(&code, &graph, &effects, false)) {}
    let mut states = height::heights(&code, &graph, &effects, true);
    graph.find_mixed(&states);
    let mut refusals = height::check_return_addresses(&code, &effects, &states);
    refusals.extend(height::check_returns(&code, &graph, &states));
    refusals.extend(own::check(&code, &graph, &effects, &states));
    refusals.extend(frame_walk::check(&code, &graph, &effects, &states));
    for at in sums {
        refusals.push(code.refuse(
            at,
            Reason::CodeAddress,
            "the target is a sum, and not with the base of a switch table",
        ));
    }
    let passed = r15::passed::find(&code, &graph, &effects, &states, &addresses).unwrap_or_else(|more| {
        refusals.extend(more);
        r15::passed::Passed::No
    });
    let r15 = r15::decide(&code, &graph, &effects, &states, &passed);
    r15::rename(&mut code, &graph, &r15);
    if !r15.is_empty() {
        effects = regs::effects(&code.insns);
        states = height::heights(&code, &graph, &effects, true);
    }
    let slots = slot::Slots::find(&code, &graph, &effects, &states, &r15);
    for (call, landing) in unwind.landings() {
        if transform::canonical(&graph, &states, landing.pad) != 0 {
            let detail = "the stack is empty at the landing pad";
            refusals.push(code.refuse(call, Reason::ExceptionTables, detail));
        }
    }
    let live = live::liveness(&code, &graph, &effects);
    let counts = count::counts(&code, &addresses, &graph, &effects);
    let pads = pads::Pads::find(&code, &graph, &live, &counts);
    let facts = transform::Facts {
        code: &code,
        addresses: &addresses,
        graph: &graph,
        effects: &effects,
        states: &states,
        live: &live,
        counts: &counts,
        pads: &pads,
        r15: &r15,
        slots: &slots,
        unwind: &unwind,
        mode: options.mode,
    };
    let mut stats = r15::count(&code, &graph, &r15, &slots);
    let mut texts = Vec::with_capacity(code.sections.len());
    let mut next_label = 0;
    for (index, section) in code.sections.iter().enumerate() {
        let mut emitter = emit::Emitter::new(next_label);
        if let Err(more) = transform::Transform::section(&facts, index, &mut emitter, &mut stats) {
            refusals.extend(more);
        }
        // In mode match a store and its check stay together, so ends are not shared.
        if options.mode != Mode::Match {
            share::ends(&mut emitter, &graph.unit);
        }
        next_label = emitter.next_label();
        let text = layout::lay_out(&emitter);
        stats.text_in += object.sections[section.section].data.len() as u64;
        stats.text_out += text.bytes.len() as u64;
        growth::add(&mut stats.growth, &code, section, &text);
        texts.push(text);
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let mut notes = Vec::new();
    if check::has_intermediate_code(object) {
        notes.push("the intermediate code of link-time optimisation was dropped".to_owned());
    }
    let debug = debug::carry(&code, &texts).unwrap_or_else(|why| {
        notes.push(format!("debug information was dropped: {why}"));
        Vec::new()
    });
    let traces = debug::traces(&code, &texts, |at| r15::keeping(&graph, &r15, &slots, at));
    let exceptions = sections::Exceptions { unwind: &unwind, graph: &graph, r15: &r15, slots: &slots };
    let new = sections::assemble(&code, &addresses, &pads, texts, debug, &exceptions, options.mode)?;
    let bytes = write::write(&new)
        .map_err(|error| vec![Refusal { detail: error.to_string(), ..Refusal::of_object(Reason::NotRelocatable) }])?;
    Ok(Output { bytes, stats, notes, traces })
}
