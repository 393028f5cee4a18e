//! The threads of a domain.

use crate::spec::DomainSpec;
use crate::spec::busy::Busy;

/// Most threads of a domain.
pub const MAX_THREADS: usize = 256;

/// Most lanes of a world.
pub const MAX_LANES: usize = 64;

impl DomainSpec {
    /// Sets what callers get while others have all E-stacks of the domain. Default: they wait for
    /// [`crate::DEFAULT_WAIT`].
    #[must_use]
    pub fn busy(mut self, busy: Busy) -> Self {
        self.busy = busy;
        self
    }

    /// Sets the number of threads that the domain may have at a time, its first one included, at
    /// most [`MAX_THREADS`]. Default: 1. A domain with more is alone in its world and imports only
    /// host functions. Its memory is shared mappings, so that each thread maps it. In a world with
    /// lanes ([`crate::Lanes`]) it is the number of E-stacks instead: of callers that may be in the
    /// domain at a time.
    ///
    /// Only in mode full: a thread that counts is a precise clock. In the other modes loads are not
    /// confined, and a domain with such a clock finds the memory of the process (see
    /// [`DomainSpec::clock`]).
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = count;
        self
    }

    /// Sets the number of threads as [`DomainSpec::threads`] does, but in every mode. In modes
    /// write and match all memory of the process counts as readable for a domain with threads.
    #[must_use]
    pub fn threads_exposing(mut self, count: usize) -> Self {
        self.exposing |= count > 1;
        self.threads(count)
    }

    /// Says whether the domain may have more than one thread.
    pub(crate) fn has_threads(&self) -> bool {
        self.threads > 1
    }
}
