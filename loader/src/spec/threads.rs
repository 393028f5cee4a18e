//! The threads of a domain.

use crate::spec::DomainSpec;

/// Most threads of a domain.
pub const MAX_THREADS: usize = 256;

impl DomainSpec {
    /// Sets the number of threads that the domain may have at a time, its first one included, at
    /// most [`MAX_THREADS`]. Default: 1. A domain with more is alone in its world and imports only
    /// host functions. Its memory is shared mappings, so that each thread maps it.
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
