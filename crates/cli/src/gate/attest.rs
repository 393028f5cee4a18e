//! An unsigned statement about a verification, in the form of in-toto (Statement v1).
//!
//! It is no SLSA verification summary. Such a summary is about one resource, which its consumers
//! know by a URI, and about the build of it. This statement is about many objects and the abilities
//! of their code, and it knows neither URI nor build.
//!
//! Subjects are the input files and the members of archives, with their SHA-256. Equal inputs give
//! equal bytes, because the statement holds no time unless `SOURCE_DATE_EPOCH` gives one.

use super::Outcome;
use super::policy::Policy;
use super::source::Source;
use anyhow::Context;
use serde_json::{Value, json};
use sfi_contract::CONTRACT_VERSION;
use sfi_verifier::Options;
use std::collections::{BTreeMap, HashMap};

/// Type of the predicate. A new shape gets a new name.
pub const PREDICATE_TYPE: &str = "urn:sfi:predicate:verification:v2";

/// The circumstances of a verification.
pub struct Circumstances<'a> {
    /// The options of the verifier.
    pub options: &'a Options,
    /// The policy that was checked besides.
    pub policy: Option<&'a Policy>,
    /// Archives, each with the SHA-256 of the bytes that its members were read from.
    pub archives: &'a [(String, String)],
    /// Value of `SOURCE_DATE_EPOCH`, seconds.
    pub epoch: Option<u64>,
}

/// Returns the SHA-256 of each archive that was read as a whole.
pub fn archives(sources: &[Source]) -> Vec<(String, String)> {
    sources.iter().filter_map(|s| Some((s.path.clone(), super::digest::sha256(s.kept()?)))).collect()
}

/// Returns the statement.
///
/// # Errors
/// No input could be read, so there is nothing to attest.
pub fn statement(outcomes: &[Outcome], context: &Circumstances<'_>) -> anyhow::Result<Value> {
    let mut names = Names::default();
    let mut subjects: Vec<Value> =
        context.archives.iter().map(|(path, sha256)| subject(&names.unique(path), sha256)).collect();
    let mut objects = Vec::new();
    for outcome in outcomes {
        let name = names.unique(&outcome.name());
        if let Some(sha256) = &outcome.sha256 {
            subjects.push(subject(&name, sha256));
        }
        objects.push(object(&name, outcome));
    }
    anyhow::ensure!(!subjects.is_empty(), "no input could be read: there is nothing to attest");
    let passed = outcomes.iter().all(Outcome::is_safe);
    let mut predicate = json!({
        "verifier": { "name": "sfi", "version": env!("CARGO_PKG_VERSION") },
        "ruleSet": { "name": "sfi-contract", "version": CONTRACT_VERSION },
        "mode": context.options.mode.name(),
        "allowed": allowed(context),
        "policy": context.policy.map(|policy| json!({ "digest": { "sha256": policy.sha256 }, "accepted": policy.accepted() })),
        "result": result(passed),
        "objects": objects,
    });
    if let Some(epoch) = context.epoch {
        predicate["sourceDateEpoch"] = json!(epoch);
    }
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }))
}

/// Returns the instructions that a safe object may use: those that both the command line and the
/// policy allow.
fn allowed(context: &Circumstances<'_>) -> Value {
    let policy = |key: fn(&Policy) -> bool| context.policy.is_none_or(key);
    json!({
        "rdtsc": context.options.clock && policy(Policy::allows_clock),
        "cpuid": context.options.identity && policy(Policy::allows_identity),
    })
}

/// Returns `SOURCE_DATE_EPOCH`, if it is set.
///
/// # Errors
/// It is not a number of seconds.
pub fn epoch() -> anyhow::Result<Option<u64>> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = value.to_str().and_then(|text| text.parse().ok());
    seconds.map(Some).context("SOURCE_DATE_EPOCH is not a number of seconds")
}

fn subject(name: &str, sha256: &str) -> Value {
    json!({ "name": name, "digest": { "sha256": sha256 } })
}

const fn result(passed: bool) -> &'static str {
    if passed { "PASSED" } else { "FAILED" }
}

fn object(name: &str, outcome: &Outcome) -> Value {
    match &outcome.result {
        Err(why) => json!({ "name": name, "result": result(false), "error": why }),
        Ok(verdict) => {
            let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
            for finding in &verdict.findings {
                *rules.entry(finding.code.id()).or_default() += 1;
            }
            json!({
                "name": name,
                "result": result(verdict.is_safe()),
                "violations": rules,
                "omitted": verdict.omitted,
                "textBytes": verdict.text_bytes,
                "instructions": verdict.instructions,
            })
        }
    }
}

/// Makes names unique. Members of an archive may share a name, but subjects may not.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        loop {
            let count = self.0.entry(candidate.clone()).or_default();
            *count += 1;
            if *count == 1 {
                return candidate;
            }
            candidate = format!("{name}#{count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_apart() {
        let mut names = Names::default();
        let all: Vec<String> = ["a", "a", "a#2", "a"].iter().map(|n| names.unique(n)).collect();
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 4);
        assert_eq!(all[..2], ["a", "a#2"]);
    }
}
