//! Errors of mapping memory.

use rustix::io::Errno;

/// The operating system refused memory, or the place that was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The operating system refused memory.
    #[error("cannot map memory for {what}")]
    Memory {
        /// The purpose of the memory.
        what: String,
        /// The system's error.
        #[source]
        error: Errno,
    },
    /// The kernel allows no more mappings. All existing domains keep working.
    #[error(
        "SFI-M01: no more mappings for {what}: vm.max_map_count is {limit}, this process has {mappings}, with {domains} domains; \
         drop domains, place them densely, or raise the limit (sysctl vm.max_map_count)"
    )]
    Mappings {
        /// The purpose of the mappings.
        what: String,
        /// `vm.max_map_count`.
        limit: u64,
        /// Mappings of the process.
        mappings: u64,
        /// Domains of the process.
        domains: u64,
    },
    /// [`crate::La57::Always`] on a machine without five-level paging.
    #[error(
        "SFI-M02: windows were to be placed in 56 bits of address, and this processor or its kernel has no five-level paging (la57); \
         leave `la57` out, or let it be \"if-available\""
    )]
    FiveLevels,
}

impl MapError {
    /// Makes the error for a refusal of memory for `what`. Tells whether the number of mappings is
    /// the cause.
    pub(crate) fn new(what: &str, error: Errno) -> Self {
        if error == Errno::NOMEM {
            let p = crate::vm::ledger::pressure();
            if p.exhausted {
                let (limit, mappings, domains) = (p.limit, p.mappings, p.domains);
                return MapError::Mappings { what: what.to_owned(), limit, mappings, domains };
            }
        }
        MapError::Memory { what: what.to_owned(), error }
    }

    /// Returns a function that makes the error of a refusal.
    pub(crate) fn of(what: &str) -> impl FnOnce(Errno) -> Self {
        let what = what.to_owned();
        move |error| Self::new(&what, error)
    }
}
