//! What a validation found.

use std::fmt;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The validator cannot decide.
    Unproved,
    /// The programs differ.
    Wrong,
}

/// One place where the new program is not proved to do what the original one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How sure.
    pub verdict: Verdict,
    /// What is the matter.
    pub what: String,
    /// Section of the original object; empty for the object as a whole.
    pub section: String,
    /// Offset in it.
    pub offset: u64,
    /// Function that contains the offset, if a symbol says so.
    pub function: Option<String>,
    /// The original instructions around.
    pub original: Vec<String>,
    /// The new instructions that should do the same.
    pub new: Vec<String>,
}

impl Finding {
    /// The difference and its place, in one line.
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

/// What was proved of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Functions whose new code does what the original does.
    pub functions: usize,
    /// Original instructions that were compared.
    pub instructions: usize,
    /// Findings, in the order of the original code.
    pub findings: Vec<Finding>,
}

impl Proof {
    /// Whether all is proved.
    pub fn holds(&self) -> bool {
        self.findings.is_empty()
    }
}
