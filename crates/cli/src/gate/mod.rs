//! The gate: what `sfi verify` does with objects, and the shapes its answer can take.
//!
//! Data flows one way: [`source`] finds objects in files, [`check`] has them verified and holds
//! them against a [`policy`], and [`human`], [`json`], [`sarif`] and [`attest`] write down what
//! came of it.

pub mod attest;
pub mod check;
pub mod digest;
pub mod findings;
pub mod human;
pub mod json;
pub mod policy;
pub mod policy_rule;
pub mod sarif;
pub mod source;

pub use policy_rule::PolicyRule;
use sfi_contract::Rule;
use sfi_loader::Advice;
use sfi_verifier::Usage;

/// What a finding is about: a rule of the contract, or one of the user's own policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The object is not safe.
    Contract(Rule),
    /// The object is not wanted.
    Policy(PolicyRule),
}

impl Code {
    /// All codes, in the order of the contract, then those of policies.
    pub fn all() -> impl Iterator<Item = Code> {
        let contract = Rule::ALL.iter().map(|rule| Code::Contract(*rule));
        contract.chain(PolicyRule::ALL.iter().map(|rule| Code::Policy(*rule)))
    }

    /// Stable code, for example `SFI-S01`.
    pub const fn id(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.id(),
            Code::Policy(rule) => rule.id(),
        }
    }

    /// One line that says what was found.
    pub const fn title(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.title(),
            Code::Policy(rule) => rule.title(),
        }
    }

    /// Why there is such a rule.
    pub const fn why(self) -> &'static str {
        match self {
            Code::Contract(rule) => rule.why(),
            Code::Policy(rule) => rule.why(),
        }
    }

    /// What to do about it.
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
    /// File and line of the source, where debug information names them: the object's author's word.
    pub source: Option<sfi_debuginfo::Frame>,
    /// The instruction in AT&T syntax.
    pub instruction: Option<String>,
    /// What is wrong here, beyond the title.
    pub detail: String,
}

/// What came of one object.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Path of the input file.
    pub path: String,
    /// Name of the archive's member, if the file is an archive.
    pub member: Option<String>,
    /// SHA-256 of the object's bytes, lower-case hexadecimal; `None` if they were not read or
    /// nobody asked.
    pub sha256: Option<String>,
    /// The verdict, or why there is none.
    pub result: Result<Verdict, String>,
}

impl Outcome {
    /// `libz.a(deflate.o)`, as linkers write it, or the path.
    pub fn name(&self) -> String {
        match &self.member {
            Some(member) => format!("{}({member})", self.path),
            None => self.path.clone(),
        }
    }

    /// The object could be read and nothing was found.
    pub fn is_safe(&self) -> bool {
        self.result.as_ref().is_ok_and(Verdict::is_safe)
    }
}

/// What is known about an object that could be read.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Everything that was found and kept.
    pub findings: Vec<Finding>,
    /// Number of findings beyond those kept.
    pub omitted: u64,
    /// Advice about a refused object as a whole.
    pub advice: Option<Advice>,
    /// What the text uses.
    pub usage: Usage,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of memory that are not text.
    pub data_bytes: u64,
    /// Instructions decoded.
    pub instructions: u64,
    /// Names that the object leaves undefined, and those that it defines for others. Filled in only
    /// if the policy asks.
    pub undefined: Vec<String>,
    /// See `undefined`.
    pub defined: Vec<String>,
}

impl Verdict {
    /// Nothing was found.
    pub fn is_safe(&self) -> bool {
        self.findings.is_empty() && self.omitted == 0
    }
}
