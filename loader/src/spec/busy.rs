//! The lot of callers that find others in a domain.

use std::time::Duration;

/// Longest wait for an E-stack unless [`crate::DomainSpec::busy`] is set.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// The lot of a caller that finds as many others in a domain as the domain has E-stacks, in a world
/// with lanes ([`crate::Lanes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Busy {
    /// It gets [`crate::Status::Occupied`] at once.
    Refuse,
    /// It waits at most so long, then it gets that status.
    Wait(Duration),
}

impl Default for Busy {
    fn default() -> Self {
        Self::Wait(DEFAULT_WAIT)
    }
}
