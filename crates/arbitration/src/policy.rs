//! What the host grants to a domain's system calls.

use crate::calls::Calls;
use crate::errno::Errno;
use crate::paths::Preopen;
use std::time::Duration;

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

/// How much a domain may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of its heap that `brk` and `mmap` give out at a time; the heap's size bounds it, too.
    pub memory: u64,
    /// Descriptors open at a time.
    pub descriptors: usize,
    /// Bytes that it may write in all.
    pub written: u64,
    /// Longest sleep of one call.
    pub sleep: Duration,
}

impl Default for Quota {
    fn default() -> Self {
        Quota { memory: u64::MAX, descriptors: 256, written: u64::MAX, sleep: Duration::from_secs(3600) }
    }
}

/// What is granted.
#[derive(Debug, Default)]
pub struct Policy {
    /// The calls; the default is all that can be answered.
    pub calls: Calls,
    /// Directories whose contents paths may name.
    pub preopens: Vec<Preopen>,
    /// How other calls fail.
    pub denial: Denial,
    /// How much may be used.
    pub quota: Quota,
}
