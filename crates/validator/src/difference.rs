//! A difference between two programs, as an error.

use crate::machine::Unknown;
use crate::report::Verdict;

/// A difference that the walk found.
#[derive(Clone)]
pub(crate) struct Difference {
    pub verdict: Verdict,
    pub what: String,
}

impl From<Unknown> for Difference {
    fn from(unknown: Unknown) -> Difference {
        Difference { verdict: Verdict::Unproved, what: unknown.0 }
    }
}

/// Returns an error: the programs differ.
pub(crate) fn wrong<T>(what: impl Into<String>) -> Result<T, Difference> {
    Err(Difference { verdict: Verdict::Wrong, what: what.into() })
}

/// Returns an error: the validator cannot decide.
pub(crate) fn unproved<T>(what: impl Into<String>) -> Result<T, Difference> {
    Err(Difference { verdict: Verdict::Unproved, what: what.into() })
}
