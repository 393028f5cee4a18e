//! The gate: the work of `sfi verify`, and the forms of its verdict.
//!
//! Data flows one way. [`source`] finds objects in files. [`check`] has them verified and compares
//! them with a [`policy`]. [`human`], [`json`], [`sarif`] and [`attest`] write the verdict.

pub mod attest;
pub mod check;
pub mod digest;
pub mod findings;
pub mod human;
pub mod json;
pub mod known;
pub mod policy;
pub mod policy_rule;
pub mod sarif;
pub mod source;

pub use policy_rule::PolicyRule;
use sfi_contract::Rule;
use sfi_loader::Advice;
use sfi_verifier::Usage;

/// The rule that a finding is about: one of the contract, or one of the user's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The object breaks a rule of the contract, so it is not safe.
    Contract(Rule),
    /// The object breaks a rule of the policy.
    Policy(PolicyRule),
}

impl Code {
    /// Returns all codes: those of the contract in its order, then those of policies.
    pub fn all() -> impl Iterator<Item = Code> {
        let contract = Rule::ALL.iter().map(|rule| Code::Contract(*rule));
        contract.chain(PolicyRule::ALL.iter().map(|rule| Code::Policy(*rule)))
    }

    /// Returns the stable code, for example `SFI-S01`.
    pub const fn id(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.id(),
            Code::Policy(rule) => rule.id(),
        }
    }

    /// Returns one line about the violation.
    pub const fn title(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.title(),
            Code::Policy(rule) => rule.title(),
        }
    }

    /// Returns the reason for the rule.
    pub const fn why(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.why(),
            Code::Policy(rule) => rule.why(),
        }
    }

    /// Returns advice.
    pub const fn help(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.help(),
            Code::Policy(rule) => rule.help(),
        }
    }
}

/// One broken rule at one place of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub code: Code,
    /// Index of the section; `None` if the finding is about the object.
    pub section: Option<usize>,
    /// Name of that section.
    pub section_name: Option<String>,
    /// Offset in the section, bytes.
    pub offset: u64,
    /// Offset in the input file, bytes, where the place has one.
    pub file_offset: Option<u64>,
    /// Symbol at or before the place, with the distance: `inflate+0x12`.
    pub function: Option<String>,
    /// File and line of the source, from debug information that the object's author wrote.
    pub source: Option<sfi_debuginfo::Frame>,
    /// The instruction in AT&T syntax.
    pub instruction: Option<String>,
    /// The details of this violation, beyond the title.
    pub detail: String,
    /// The reason why it is known already.
    pub known: Option<String>,
}

impl Finding {
    /// Returns the function's name, without the distance.
    pub fn function_name(&self) -> Option<&str> {
        self.function.as_deref().map(|function| function.rsplit_once("+0x").map_or(function, |(name, _)| name))
    }
}

/// The result for one object.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Path of the input file.
    pub path: String,
    /// Name of the archive's member, if the file is an archive.
    pub member: Option<String>,
    /// SHA-256 of the object's bytes in lower-case hexadecimal. `None` if they were not read or no
    /// statement needs it.
    pub sha256: Option<String>,
    /// The verdict, or the reason why there is none.
    pub result: Result<Verdict, String>,
}

impl Outcome {
    /// Returns `libz.a(deflate.o)`, as linkers write it, or the path.
    pub fn name(&self) -> String {
        match &self.member {
            Some(member) => format!("{}({member})", self.path),
            None => self.path.clone(),
        }
    }

    /// Says whether the object could be read and has no finding that is new.
    pub fn is_as_known(&self) -> bool {
        self.result
            .as_ref()
            .is_ok_and(|verdict| verdict.omitted == 0 && verdict.findings.iter().all(|f| f.known.is_some()))
    }

    /// Says whether the object could be read and breaks no rule.
    pub fn is_safe(&self) -> bool {
        self.result.as_ref().is_ok_and(Verdict::is_safe)
    }
}

/// The facts about an object that could be read.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Findings, up to a limit.
    pub findings: Vec<Finding>,
    /// Number of findings beyond that limit.
    pub omitted: u64,
    /// Advice about a refused object as a whole.
    pub advice: Option<Advice>,
    /// Registers and instructions that the text uses.
    pub usage: Usage,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of memory that are not text.
    pub data_bytes: u64,
    /// Number of decoded instructions.
    pub instructions: u64,
    /// Names that the object leaves undefined. Collected only if the policy has a list of imports.
    pub undefined: Vec<String>,
    /// Names that the object defines for others. Collected with `undefined`.
    pub defined: Vec<String>,
}

impl Verdict {
    /// Says whether there are no findings.
    pub fn is_safe(&self) -> bool {
        self.findings.is_empty() && self.omitted == 0
    }
}
