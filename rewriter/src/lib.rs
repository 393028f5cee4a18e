//! The rewriter: turns a compiled object into one that obeys the sandbox contract.
//!
//! Untrusted: a mistake here can break a plugin, but cannot let it escape, because the verifier
//! decides.
//!
//! Data flows one way, one module a phase: `object` (read, check, carve, decode, retpoline,
//! got_base, address) → `unwind` → `analysis` (flow, receive, inner, regs, reach, jumps, height,
//! ends, own, received, frame_walk, r15, slot, rounds, live, count, spent, switches, trees, saves,
//! arrays, pads, likely) → `transform` → `text` (charge, layout) → `debug` → `output` (sections,
//! unwind_table, write).

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

use crate::analysis::arrays::Arrays;
use crate::analysis::live::Liveness;
use crate::analysis::pads::Pads;
use crate::analysis::r15::kept::Homes;
use crate::analysis::r15::slot::Slots;
use crate::analysis::trees::Trees;
use crate::analysis::{Found, r15};
use crate::object::address::Addresses;
use crate::object::decode::{CodeSection, PerInsn};
use crate::object::read::Object;
use crate::object::{address, carve, check, decode, got_base, read, retpoline};
use crate::output::{sections, write};
use crate::text::copies::Copies;
use crate::text::layout::Text;
use crate::text::originals::Originals;
use crate::text::{emit, growth, layout};
use crate::transform::{Facts, based};
use crate::unwind::Unwind;
use foldhash::HashSet;

/// Options of a rewrite.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The sandbox's mode.
    pub mode: Mode,
    /// The object pays for its instructions with a budget (docs/CONTRACT.md). Not in mode match.
    pub budget: bool,
    /// Functions save registers on the control stack (docs/CONTRACT.md, "Saved registers"), unless
    /// they need a frame for them. No program can find them there by a search of its stack.
    pub saves: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { mode: Mode::default(), budget: false, saves: true }
    }
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
    if options.budget && options.mode == Mode::Match {
        let detail = "a text in mode match cannot be budgeted, because its checks branch over traps".to_owned();
        return Err(vec![Refusal { detail, ..Refusal::of_object(Reason::NoSafeForm) }]);
    }
    let object = read::read(object).map_err(|refusal| vec![refusal])?;
    check::sections(&object)?;
    let mixed =
        |refusal: &Refusal| matches!(refusal.reason, Reason::DataInText | Reason::BranchTarget | Reason::CodeAddress);
    match rewrite_object(&object, options) {
        // Data between instructions decodes to nonsense, or is read. Carving moves it out of the
        // text.
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
    got_base::replace(&mut code);
    let addresses = address::find(&code)?;
    check::symbols(&code)?;
    let mut unwind = unwind::collect(&code)?;
    let (found, mut refusals) =
        analysis::run(&mut code, &addresses, &unwind, (options.mode, options.budget, options.saves));
    let (saves, states) = (&found.saves, &found.states);
    unwind.move_frames(&code, |call| saves.moves_frame(call, states), |call, row| saves.row(call, states, row));
    let facts = Facts::new(&code, &addresses, &unwind, &found, (options.mode, options.budget));
    refusals.extend(facts.check_landings());
    let mut stats = r15::count(&code, facts.graph, facts.r15, facts.slots);
    let mut emitters = emit_all(&facts, &mut stats, refusals)?;
    if options.mode == Mode::Full && !options.budget {
        base_loads(&mut emitters, facts.live)?;
    }
    // The text is laid out without the decoded instructions and most facts about them.
    let Found { graph, effects, states, stops, live, counts, pads, r15, slots, trees, arrays, saves, likely } = found;
    drop((effects, states, stops, live, counts, saves, likely));
    let units = graph.into_units();
    let code = Originals::new(code);
    let texts = lay_out_all(&code, emitters, &mut stats);
    let found = (&units, &pads, &r15, &slots, (&trees, &arrays));
    output((&code, &addresses, &unwind), found, texts, stats, options)
}

/// Makes the new code of every code section, unless something was or is refused.
fn emit_all(
    facts: &Facts<'_, '_, '_>,
    stats: &mut Stats,
    mut refusals: Vec<Refusal>,
) -> Result<Vec<emit::Emitter>, Vec<Refusal>> {
    let mut emitters = Vec::with_capacity(facts.code.sections.len());
    let mut next_label = 0;
    let mut copies = Copies::new(facts.code.forms.len());
    for (index, section) in facts.code.sections.iter().enumerate() {
        let mut emitter = emit::Emitter::new(next_label, facts.code.insns[section.first..section.end].len());
        if let Err(more) = transform::Transform::section(facts, index, &mut emitter, (stats, &mut copies)) {
            refusals.extend(more);
        }
        next_label = emitter.next_label();
        emitters.push(emitter);
    }
    if facts.budget && refusals.is_empty() {
        refusals.extend(charge_all(facts, &mut emitters, next_label));
    }
    if refusals.is_empty() { Ok(emitters) } else { Err(refusals) }
}

/// Changes loads of loops in every section.
fn base_loads(emitters: &mut [emit::Emitter], live: &Liveness) -> Result<(), Vec<Refusal>> {
    let refuse = |emit::NoEncoding(detail)| vec![Refusal { detail, ..Refusal::of_object(Reason::NoSafeForm) }];
    emitters.iter_mut().try_for_each(|emitter| based::loads(emitter, live)).map_err(refuse)
}

/// Lays out the code of every section. Its parts are dropped as soon as it has a place.
fn lay_out_all(code: &Originals<'_, '_>, emitters: Vec<emit::Emitter>, stats: &mut Stats) -> Vec<Text> {
    let place = |(section, emitter): (&CodeSection, emit::Emitter)| {
        let text = layout::lay_out(&emitter);
        stats.text_in += code.object.sections[section.section].data.len() as u64;
        stats.text_out += text.bytes.len() as u64;
        growth::add(&mut stats.growth, code, section, &text);
        text
    };
    code.sections.iter().zip(emitters).map(place).collect()
}

/// Puts the charges of a budgeted text into the code. Returns the places where that is not
/// possible.
fn charge_all(facts: &Facts<'_, '_, '_>, emitters: &mut [emit::Emitter], mut next_label: u32) -> Vec<Refusal> {
    let landings: HashSet<_> = facts.unwind.landings().map(|(_, landing)| landing.pad).collect();
    let entered = |at| facts.graph.entry[at] || facts.addresses.taken[at] || landings.contains(&at);
    let flags = |at| facts.live.before[at] & analysis::regs::FLAGS != 0;
    // Labels of several sections differ.
    for emitter in emitters.iter_mut() {
        emitter.set_next_label(next_label);
        next_label += emitter.items.len() as u32 + 1;
    }
    let received: Vec<Refusal> = facts
        .code
        .indexes()
        .filter(|&at| facts.pads.is_receiver(at))
        .map(|at| facts.code.refuse(at, Reason::NoSafeForm, "a jump into a caller's frame has no charge of a budget"))
        .collect();
    if !received.is_empty() {
        return received;
    }
    let detail = "flags are needed where a charge of the budget must stand";
    let saved = |at| facts.saves.saved(at, facts.states);
    let needs = text::charge::place(emitters, entered, flags, saved);
    needs.into_iter().map(|text::charge::NeedsFlags(at)| facts.code.refuse(at, Reason::NoSafeForm, detail)).collect()
}

/// Assembles the new object.
fn output(
    (code, addresses, unwind): (&Originals<'_, '_>, &Addresses, &Unwind),
    (units, pads, r15, slots, (trees, arrays)): (&PerInsn<u32>, &Pads, &Homes, &Slots, (&Trees, &Arrays)),
    texts: Vec<Text>,
    stats: Stats,
    options: &Options,
) -> Result<Output, Vec<Refusal>> {
    let mut notes = Vec::new();
    if check::has_intermediate_code(code.object) {
        notes.push("the intermediate code of link-time optimisation was dropped".to_owned());
    }
    let debug = debug::carry(code, &texts).unwrap_or_else(|why| {
        notes.push(format!("debug information was dropped: {why}"));
        Vec::new()
    });
    let mut last = None;
    let traces = debug::traces(code, &texts, |at| match last {
        // Neighbours are mostly of one unit.
        Some((unit, keeping)) if unit == units[at] => keeping,
        _ => last.insert((units[at], r15::keeping(r15, slots, units[at]))).1,
    });
    let exceptions = sections::Exceptions { unwind, units, r15, slots };
    let mode = (options.mode, options.budget);
    let new = sections::assemble(code, addresses, (pads, trees, arrays), texts, debug, &exceptions, mode)?;
    let bytes = write::write(&new)
        .map_err(|error| vec![Refusal { detail: error.to_string(), ..Refusal::of_object(Reason::NotRelocatable) }])?;
    Ok(Output { bytes, stats, notes, traces })
}
