//! The user's policy: demands on objects beyond safety.

use super::{Code, Finding, Outcome, PolicyRule, Verdict};
use anyhow::Context;
use glob::Pattern;
use serde::Deserialize;
use serde_json::{Value, json};
use sfi_contract::{Mode, names};
use sfi_loader::manifest::file;
use sfi_verifier::Options;
use std::collections::HashSet;
use std::path::Path;

/// A policy file, read.
#[derive(Debug)]
pub struct Policy {
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: String,
    modes: Option<Vec<Mode>>,
    rdtsc: bool,
    cpuid: bool,
    imports: Option<Vec<Pattern>>,
    limits: Limits,
}

/// The content of the file. Unknown keys are errors, because a misspelt limit would be no limit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    modes: Option<Vec<String>>,
    #[serde(default)]
    instructions: Instructions,
    imports: Option<Imports>,
    #[serde(default)]
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Instructions {
    rdtsc: bool,
    cpuid: bool,
}

impl Default for Instructions {
    fn default() -> Self {
        Instructions { rdtsc: false, cpuid: true }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Imports {
    allow: Vec<String>,
}

/// Largest sizes of one object, in bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    text: Option<u64>,
    data: Option<u64>,
    object: Option<u64>,
}

/// Symbols that every domain has and that grant nothing. The gateway of system calls is not among
/// them.
const HARMLESS: [&str; 5] = [names::HEADER, names::DISPATCH, names::TCB, names::ERROR, "_GLOBAL_OFFSET_TABLE_"];

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, or holds unknown keys, modes or malformed patterns.
    pub fn read(path: &Path) -> anyhow::Result<Policy> {
        let text = file::read_text(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Policy::parse(&text).with_context(|| format!("in the policy `{}`", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Policy> {
        let file: File = toml::from_str(text)?;
        let modes = match file.modes {
            Some(names) => {
                anyhow::ensure!(!names.is_empty(), "`modes` is empty: nothing could be accepted");
                Some(names.iter().map(|name| name.parse()).collect::<Result<Vec<Mode>, _>>()?)
            }
            None => None,
        };
        let pattern = |text: &String| Pattern::new(text).with_context(|| format!("in the pattern `{text}`"));
        let imports = file.imports.map(|i| i.allow.iter().map(pattern).collect::<Result<Vec<_>, _>>()).transpose()?;
        Ok(Policy {
            sha256: super::digest::sha256(text.as_bytes()),
            modes,
            rdtsc: file.instructions.rdtsc,
            cpuid: file.instructions.cpuid,
            imports,
            limits: file.limits,
        })
    }

    /// Returns the mode for checks if the user names none.
    pub fn preferred_mode(&self) -> Option<Mode> {
        self.modes.as_ref().and_then(|modes| modes.first().copied())
    }

    /// Returns `instructions.rdtsc`.
    pub fn allows_clock(&self) -> bool {
        self.rdtsc
    }

    /// Returns `instructions.cpuid`.
    pub fn allows_identity(&self) -> bool {
        self.cpuid
    }

    /// Says whether the check needs the names of symbols.
    pub fn wants_symbols(&self) -> bool {
        self.imports.is_some()
    }

    /// Returns the accepted values, with the keys of the file. `null` is no bound.
    pub fn accepted(&self) -> Value {
        let names = |modes: &Vec<Mode>| modes.iter().map(|mode| mode.name()).collect::<Vec<_>>();
        let patterns = |all: &Vec<Pattern>| all.iter().map(|p| p.as_str().to_owned()).collect::<Vec<_>>();
        let Limits { text, data, object } = self.limits;
        json!({
            "modes": self.modes.as_ref().map(names),
            "instructions": { "rdtsc": self.rdtsc, "cpuid": self.cpuid },
            "imports": self.imports.as_ref().map(|all| json!({ "allow": patterns(all) })),
            "limits": { "text": text, "data": data, "object": object },
        })
    }

    /// Checks one object against all of the policy but its imports.
    pub fn check(&self, bytes: &[u8], options: &Options, verdict: &mut Verdict) {
        let mut found = Vec::new();
        if self.modes.as_ref().is_some_and(|modes| !modes.contains(&options.mode)) {
            found.push(about_object(PolicyRule::Mode, format!("checked in mode {}", options.mode)));
        }
        let forbidden = [
            (PolicyRule::Clock, verdict.usage.clock && !self.rdtsc, Options { clock: false, ..*options }),
            (PolicyRule::Identity, verdict.usage.identity && !self.cpuid, Options { identity: false, ..*options }),
        ];
        for (rule, is_used, stricter) in forbidden {
            if is_used {
                found.extend(places(rule, bytes, &stricter, verdict));
            }
        }
        let sizes = [
            (PolicyRule::TextSize, "bytes of text", verdict.text_bytes, self.limits.text),
            (PolicyRule::DataSize, "bytes of data", verdict.data_bytes, self.limits.data),
            (PolicyRule::ObjectSize, "bytes", bytes.len() as u64, self.limits.object),
        ];
        for (rule, what, size, limit) in sizes {
            if let Some(limit) = limit.filter(|limit| size > *limit) {
                found.push(about_object(rule, format!("{size} {what}, allowed are {limit}")));
            }
        }
        verdict.findings.extend(found);
    }

    /// Checks the names that all objects together leave undefined against the imports.
    pub fn check_imports(&self, outcomes: &mut [Outcome]) {
        let Some(patterns) = &self.imports else { return };
        let verdicts = || outcomes.iter().filter_map(|o| o.result.as_ref().ok());
        let defined: HashSet<String> = verdicts().flat_map(|v| v.defined.iter().cloned()).collect();
        for verdict in outcomes.iter_mut().filter_map(|o| o.result.as_mut().ok()) {
            let mut seen = HashSet::new();
            for name in std::mem::take(&mut verdict.undefined) {
                let granted = HARMLESS.contains(&name.as_str()) || patterns.iter().any(|p| p.matches(&name));
                if !granted && !defined.contains(&name) && seen.insert(name.clone()) {
                    verdict.findings.push(about_object(PolicyRule::Import, format!("`{name}`")));
                }
            }
        }
    }
}

fn about_object(rule: PolicyRule, detail: String) -> Finding {
    Finding {
        code: Code::Policy(rule),
        section: None,
        section_name: None,
        offset: 0,
        file_offset: None,
        function: None,
        source: None,
        instruction: None,
        detail,
        known: None,
    }
}

/// Returns the places of a forbidden instruction: the findings that the verifier adds with stricter
/// options.
fn places(rule: PolicyRule, bytes: &[u8], stricter: &Options, verdict: &Verdict) -> Vec<Finding> {
    let strict = super::findings::contract_findings(bytes, stricter);
    let known: HashSet<(Option<usize>, u64, &str)> =
        verdict.findings.iter().map(|f| (f.section, f.offset, f.detail.as_str())).collect();
    let more = strict.into_iter().filter(|f| !known.contains(&(f.section, f.offset, f.detail.as_str())));
    let found: Vec<Finding> = more.map(|f| Finding { code: Code::Policy(rule), ..f }).collect();
    if found.is_empty() {
        return vec![about_object(rule, "somewhere in the object".to_owned())];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_modes_and_patterns_are_errors() {
        for text in ["mode = [\"full\"]", "[limits]\ntxt = 1", "modes = []", "modes = [\"ful\"]", "[limits]\ntext = -1"]
        {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
        assert!(Policy::parse("[imports]\nallow = [\"a***\"]").is_err());
        assert!(Policy::parse("[imports]\nallow = []\nallowed = []").is_err());
        assert!(Policy::parse("[instructions]\nsyscall = true").is_err());
    }

    #[test]
    fn an_empty_policy_forbids_nothing_but_the_clock() {
        let policy = Policy::parse("").unwrap();
        assert!(!policy.rdtsc && policy.cpuid && !policy.wants_symbols());
        assert_eq!(policy.preferred_mode(), None);
    }

    #[test]
    fn the_first_mode_is_preferred() {
        let policy = Policy::parse("modes = [\"full\", \"write\"]").unwrap();
        assert_eq!(policy.preferred_mode(), Some(Mode::Full));
    }
}
