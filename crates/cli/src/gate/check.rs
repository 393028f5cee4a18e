//! Verifies objects in parallel, one at a time on each worker.

use super::findings::findings;
use super::policy::Policy;
use super::source::{ObjectPlace, Source};
use super::{Outcome, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use sfi_loader::advice;
use sfi_verifier::elf::{Object, Place as SymbolPlace, resolve};
use sfi_verifier::{MAX_VIOLATIONS, Options, Report, Verifier};
use std::sync::Mutex;

/// The checks of each object.
pub struct Job<'a> {
    /// The options of the verifier.
    pub options: Options,
    /// The policy to check besides.
    pub policy: Option<&'a Policy>,
    /// Compute the SHA-256 of the objects.
    pub hash: bool,
}

/// Number of findings of one run that are kept. Each refused object keeps its first. The others are
/// counted. As JSON a finding takes about five kilobytes of memory.
const MOST_FINDINGS: usize = 50_000;
/// Number of objects that are checked before their findings are cut.
const BATCH: usize = 64;

/// Number of findings that may still be kept.
struct Room(usize);

impl Room {
    /// Cuts an object's findings to this number.
    fn take(&mut self, outcome: &mut Outcome) {
        let Ok(verdict) = &mut outcome.result else { return };
        let kept = verdict.findings.len().min(self.0.clamp(1, MAX_VIOLATIONS));
        verdict.omitted += (verdict.findings.len() - kept) as u64;
        verdict.findings.truncate(kept);
        verdict.findings.shrink_to_fit();
        self.0 = self.0.saturating_sub(kept);
    }
}

/// Checks all objects of all sources. The outcomes have their order. Shows progress on a terminal
/// if there is an archive.
pub fn check(sources: &[Source], job: &Job<'_>) -> Vec<Outcome> {
    let all: Vec<(&Source, &ObjectPlace)> =
        sources.iter().flat_map(|s| s.objects.iter().map(move |p| (s, p))).collect();
    let bar = if sources.iter().any(|s| s.is_archive) { progress(&all) } else { ProgressBar::hidden() };
    // One verifier for each worker. Its memo makes it faster the more code it has seen.
    let idle = Mutex::new(Vec::new());
    let one = |&(source, place): &(&Source, &ObjectPlace)| {
        let mut verifier =
            idle.lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_else(|| Verifier::new(&job.options));
        let outcome = check_object(&mut verifier, source, place, job);
        if let Ok(mut idle) = idle.lock() {
            idle.push(verifier);
        }
        bar.inc(place.size);
        outcome
    };
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut room = Room(MOST_FINDINGS);
    for batch in all.chunks(BATCH) {
        let mut part: Vec<Outcome> = batch.par_iter().with_max_len(1).map(one).collect();
        part.iter_mut().for_each(|outcome| room.take(outcome));
        outcomes.extend(part);
    }
    bar.finish_and_clear();
    refuse_nothing(sources, &mut outcomes);
    if let Some(policy) = job.policy {
        policy.check_imports(&mut outcomes);
        let mut room = Room(MOST_FINDINGS);
        outcomes.iter_mut().for_each(|outcome| room.take(outcome));
    }
    outcomes
}

/// Turns a verdict on nothing into an error: on an archive without members, and on objects that
/// together have no byte of text or data.
fn refuse_nothing(sources: &[Source], outcomes: &mut Vec<Outcome>) {
    // The objects state their sizes themselves, so a sum of them could overflow.
    let has_bytes = |v: &Verdict| v.text_bytes > 0 || v.data_bytes > 0;
    let checked = outcomes.iter().filter_map(|o| o.result.as_ref().ok()).any(has_bytes);
    for outcome in outcomes.iter_mut().filter(|o| !checked && o.is_safe()) {
        outcome.result = Err("no text and no data: nothing was checked".to_owned());
    }
    let empty = sources.iter().filter(|s| s.objects.is_empty()).map(|s| Outcome {
        path: s.path.clone(),
        member: None,
        sha256: None,
        result: Err("an archive without members: nothing was checked".to_owned()),
    });
    outcomes.extend(empty);
}

/// Returns a bar on the standard error output. indicatif draws none if that is no terminal.
fn progress(all: &[(&Source, &ObjectPlace)]) -> ProgressBar {
    let bar = ProgressBar::new(all.iter().map(|(_, place)| place.size).sum());
    let template = "verifying [{bar:40}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

fn check_object(verifier: &mut Verifier, source: &Source, place: &ObjectPlace, job: &Job<'_>) -> Outcome {
    let mut outcome =
        Outcome { path: source.path.clone(), member: place.member.clone(), sha256: None, result: Err(String::new()) };
    let bytes = match source.read(place) {
        Ok(bytes) => bytes,
        Err(error) => {
            outcome.result = Err(format!("{error:#}"));
            return outcome;
        }
    };
    if job.hash {
        outcome.sha256 = Some(super::digest::sha256(&bytes));
    }
    outcome.result = match verifier.verify(&bytes) {
        Ok(report) => Ok(verdict(&bytes, &report, job)),
        Err(error) => Err(error.to_string()),
    };
    if let Ok(verdict) = &mut outcome.result {
        verdict.findings.iter_mut().for_each(|f| f.file_offset = f.file_offset.map(|o| o + place.offset));
    }
    outcome
}

fn verdict(bytes: &[u8], report: &Report<'_>, job: &Job<'_>) -> Verdict {
    let mut verdict = Verdict {
        findings: findings(report),
        omitted: report.omitted,
        advice: if report.is_safe() { None } else { advice(bytes, &report.object, &job.options) },
        usage: report.usage,
        text_bytes: report.text_bytes,
        data_bytes: data_bytes(&report.object),
        instructions: report.instructions,
        ..Verdict::default()
    };
    let Some(policy) = job.policy else { return verdict };
    policy.check(bytes, &job.options, &mut verdict);
    if policy.wants_symbols() {
        // The loader resolves symbols with the same function, and refuses to grant a name that an
        // object claims.
        let live = resolve::live_sections([&report.object]).concat();
        for symbol in &report.object.symbols {
            if symbol.is_wanted() {
                verdict.undefined.push(symbol.name.to_owned());
            } else if resolve::strength(symbol, &live).is_some() {
                verdict.defined.push(symbol.name.to_owned());
            }
        }
    }
    verdict
}

/// Returns the bytes of memory that are not text, with zeroed ones and common blocks.
fn data_bytes(object: &Object<'_>) -> u64 {
    let sections = object.sections.iter().filter(|s| s.is_allocated() && !s.is_executable()).map(|s| s.size);
    let common = object.symbols.iter().filter(|s| s.place == SymbolPlace::Common).map(|s| s.size);
    sections.chain(common).fold(0, u64::saturating_add)
}
