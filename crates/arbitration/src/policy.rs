//! What the host grants to a domain's system calls.

use crate::errno::Errno;
use crate::paths::Preopen;

/// How a call fails that is not granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// As if the kernel did not know it.
    #[default]
    NoSys,
    /// As if it were forbidden.
    NotPermitted,
}

impl Denial {
    pub(crate) fn errno(self) -> Errno {
        match self {
            Denial::NoSys => Errno::NOSYS,
            Denial::NotPermitted => Errno::PERM,
        }
    }
}

/// What is granted beyond memory, clocks, randomness and exit.
#[derive(Debug, Default)]
pub struct Policy {
    /// Directories whose contents paths may name.
    pub preopens: Vec<Preopen>,
    /// How other calls fail.
    pub denial: Denial,
}
