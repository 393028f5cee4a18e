//! The modes of a domain.

use std::fmt;
use std::str::FromStr;

/// The confinement that the rewritten code guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Stores and jumps are confined (the papers' default). Loads see the whole address space.
    /// Everything outside the domain lies at secret random places there.
    #[default]
    Write,
    /// Loads are confined too.
    Full,
    /// As [`Mode::Write`], with a check before each store and indirect branch that traps at the
    /// offending instruction (Wahbe et al. section 3.1, segment matching). See [`crate::matching`].
    Match,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Write, Mode::Full, Mode::Match];

    /// Returns the name used on the command line, in manifests and in notes.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Write => "write",
            Mode::Full => "full",
            Mode::Match => "match",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode `{0}`: expected `write`, `full` or `match`")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Mode::ALL.into_iter().find(|m| m.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        assert!("Write".parse::<Mode>().is_err());
    }
}
