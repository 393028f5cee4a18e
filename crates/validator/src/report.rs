//! The findings of a validation.

use std::fmt;

/// The certainty of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The validator cannot decide.
    Unproved,
    /// The programs differ.
    Wrong,
}

/// A place where the new program is not proved to do the original one's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Certainty of the finding.
    pub verdict: Verdict,
    /// The difference in words.
    pub what: String,
    /// Section of the original object. Empty if the finding is about the whole object.
    pub section: String,
    /// Offset in the section.
    pub offset: u64,
    /// Function that contains the offset, if a symbol names it.
    pub function: Option<String>,
    /// The original instructions around the place.
    pub original: Vec<String>,
    /// The new instructions that should do their work.
    pub new: Vec<String>,
}

impl Finding {
    /// Returns the difference and its place, in one line.
    pub fn place(&self) -> String {
        let mut line = self.what.clone();
        if !self.section.is_empty() {
            line += &format!(" at {}+{:#x}", self.section, self.offset);
        }
        if let Some(function) = &self.function {
            line += &format!(" in `{function}`");
        }
        line
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Unproved => "unproved",
            Verdict::Wrong => "wrong",
        };
        write!(f, "{verdict}: {}", self.place())?;
        for (title, lines) in [("original", &self.original), ("new", &self.new)] {
            for line in lines {
                write!(f, "\n  {title:>8} | {line}")?;
            }
        }
        Ok(())
    }
}

/// The proof of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Functions whose new code is proved.
    pub functions: usize,
    /// Original instructions that were compared.
    pub instructions: usize,
    /// Findings, in the order of the original code.
    pub findings: Vec<Finding>,
}

impl Proof {
    /// Says whether everything is proved.
    pub fn holds(&self) -> bool {
        self.findings.is_empty()
    }
}
