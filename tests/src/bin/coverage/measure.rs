//! One archive: every member rewritten, proved, verified, and a sample rewritten twice.

use anyhow::Context;
use object::read::archive::ArchiveFile;
use rayon::prelude::*;
use sfi_contract::Mode;
use sfi_rewriter::{Options, Reason};
use sfi_tests::sandbox;
use sfi_validator::Verdict;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

/// The first rewritten object of an archive, and every one at a multiple of this number, is
/// rewritten a second time.
const SAMPLE: usize = 16;

/// The results for an archive's members.
#[derive(Default)]
pub struct Archive {
    /// File name.
    pub name: String,
    /// Members that are relocatable objects for x86-64.
    pub objects: usize,
    /// All other members: objects for other machines and systems, intermediate code, lists.
    pub foreign: usize,
    pub rewritten: usize,
    /// The rewritten objects that the verifier accepts.
    pub verified: usize,
    /// The rewritten objects that the validator proves.
    pub proved: usize,
    /// The objects whose second rewriting gave the same bytes.
    pub repeated: usize,
    /// Refused objects by the reason of their first refusal.
    pub reasons: BTreeMap<Reason, usize>,
    /// Member and first refusal in words.
    pub refused: Vec<(String, String)>,
    /// Member and first place that is unproved.
    pub unproved: Vec<(String, String)>,
    /// Events that must not happen: panics, violations, differences.
    pub defects: Vec<String>,
    /// Wall clock of rewriting, proving and verifying.
    pub seconds: f64,
    pub text_in: u64,
    pub text_out: u64,
}

enum Outcome {
    Rewritten { text_in: u64, text_out: u64, repeated: bool, unproved: Option<String> },
    Refused(Reason, String),
    Defect(String),
}

/// Computes a digest that tells archives apart.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Measures an archive.
pub fn archive(path: &Path, bytes: &[u8], mode: Mode) -> anyhow::Result<Archive> {
    let context = || path.display().to_string();
    let file = ArchiveFile::parse(bytes).with_context(context)?;
    let mut members = Vec::new();
    for member in file.members() {
        let member = member.with_context(context)?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        members.push((name, member.data(bytes).with_context(context)?));
    }
    let all = members.len();
    members.retain(|(_, data)| is_object(data));
    let start = Instant::now();
    let outcomes: Vec<Outcome> =
        members.par_iter().enumerate().map(|(i, (_, data))| member(data, mode, i % SAMPLE == 0)).collect();
    let mut archive = Archive {
        name: path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
        objects: members.len(),
        foreign: all - members.len(),
        seconds: start.elapsed().as_secs_f64(),
        ..Archive::default()
    };
    for ((name, _), outcome) in members.into_iter().zip(outcomes) {
        match outcome {
            Outcome::Rewritten { text_in, text_out, repeated, unproved } => {
                archive.rewritten += 1;
                archive.verified += 1;
                archive.proved += usize::from(unproved.is_none());
                archive.unproved.extend(unproved.map(|place| (name, place)));
                archive.repeated += usize::from(repeated);
                archive.text_in += text_in;
                archive.text_out += text_out;
            }
            Outcome::Refused(reason, text) => {
                *archive.reasons.entry(reason).or_default() += 1;
                archive.refused.push((name, text));
            }
            Outcome::Defect(text) => {
                archive.rewritten += 1;
                archive.defects.push(format!("{}({name}): {text}", archive.name));
            }
        }
    }
    Ok(archive)
}

/// Says whether a member's header is that of a relocatable object for x86-64.
fn is_object(data: &[u8]) -> bool {
    const RELOCATABLE: [u8; 2] = [1, 0];
    const X86_64: [u8; 2] = [62, 0];
    data.starts_with(b"\x7fELF\x02\x01") && data.get(16..18) == Some(&RELOCATABLE) && data.get(18..20) == Some(&X86_64)
}

fn member(object: &[u8], mode: Mode, repeat: bool) -> Outcome {
    let once =
        || catch_unwind(AssertUnwindSafe(|| sfi_rewriter::rewrite(object, &Options { mode, ..Default::default() })));
    match once() {
        Err(_) => Outcome::Defect("the rewriter panicked".into()),
        Ok(Err(refusals)) => match refusals.first() {
            Some(first) => Outcome::Refused(first.reason, first.to_string()),
            None => Outcome::Defect("refused without a reason".into()),
        },
        Ok(Ok(output)) => {
            if let Err(error) = sandbox::verify(&output.bytes, mode) {
                return Outcome::Defect(format!("{error:#}"));
            }
            if repeat && !matches!(once(), Ok(Ok(again)) if again.bytes == output.bytes) {
                return Outcome::Defect("rewriting twice gives different objects".into());
            }
            let prove = || sfi_validator::validate(object, &output.bytes, &output.traces);
            let Ok(proof) = catch_unwind(AssertUnwindSafe(prove)) else {
                return Outcome::Defect("the validator panicked".into());
            };
            if let Some(wrong) = proof.findings.iter().find(|f| f.verdict == Verdict::Wrong) {
                return Outcome::Defect(wrong.to_string());
            }
            let unproved = proof.findings.first().map(sfi_validator::Finding::place);
            let stats = &output.stats;
            Outcome::Rewritten { text_in: stats.text_in, text_out: stats.text_out, repeated: repeat, unproved }
        }
    }
}
