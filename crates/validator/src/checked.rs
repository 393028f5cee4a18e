//! A rewrite and its proof in one step, for tools.

use crate::report::{Finding, Verdict};
use sfi_rewriter::{Options, Output, Refusal};
use std::str::FromStr;

/// The part of a rewrite that must be proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// Nothing is compared.
    Skip,
    /// A difference is an error. Places that the validator cannot decide are reported.
    #[default]
    Differences,
    /// Places that the validator cannot decide are errors too.
    Strict,
}

impl FromStr for Validation {
    type Err = String;

    fn from_str(text: &str) -> Result<Validation, String> {
        match text {
            "no" => Ok(Validation::Skip),
            "differences" => Ok(Validation::Differences),
            "strict" => Ok(Validation::Strict),
            _ => Err(format!("`{text}` is none of: no, differences, strict")),
        }
    }
}

/// A rewritten object that passed validation.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The rewriter's output, without its traces if they were used.
    pub output: Output,
    /// Places that the validator could not decide.
    pub unproved: Vec<Finding>,
}

impl Checked {
    /// Returns one line about the unproved places, with a count and the first reason. `None` if
    /// there are none.
    pub fn note(&self) -> Option<String> {
        let first = self.unproved.first()?;
        let count = self.unproved.len();
        let places = if count == 1 { "1 place is" } else { &format!("{count} places are") };
        Some(format!("{places} unproved: {}", first.place()))
    }
}

/// The reason why there is no output.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The rewriter refuses the object.
    Refused(Vec<Refusal>),
    /// The rewritten code is not proved to do the original one's work.
    NotProved(Vec<Finding>),
}

/// Rewrites an object and proves the result.
///
/// # Errors
/// [`Failure::Refused`] if the rewriter refuses the object, [`Failure::NotProved`] if `validation`
/// does not let the result pass.
pub fn rewrite(original: &[u8], options: &Options, validation: Validation) -> Result<Checked, Failure> {
    let mut output = sfi_rewriter::rewrite(original, options).map_err(Failure::Refused)?;
    if validation == Validation::Skip {
        return Ok(Checked { output, unproved: Vec::new() });
    }
    let traces = std::mem::take(&mut output.traces);
    let findings = crate::prove::judge(original, &output.bytes, traces).findings;
    let fails = |finding: &Finding| validation == Validation::Strict || finding.verdict == Verdict::Wrong;
    match findings.iter().any(fails) {
        true => Err(Failure::NotProved(findings)),
        false => Ok(Checked { output, unproved: findings }),
    }
}
