//! The host's grants to a domain's system calls.

use crate::calls::Calls;
use crate::errno::Errno;
use crate::programs::{Beneath, Startable};
use crate::tree::{Preopen, Tree};
use crate::walk::{Intent, Last};
use std::time::Duration;

/// The error of a call that is not granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// `ENOSYS`, as if the kernel did not know the call.
    #[default]
    NoSys,
    /// `EPERM`, as if the call were forbidden.
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

/// Bounds on a domain's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of its heap that `brk` and `mmap` give out at a time. The heap's size bounds them,
    /// too.
    pub memory: u64,
    /// Number of descriptors that are open at a time.
    pub descriptors: usize,
    /// Bytes that it may write in all, to files, pipes and terminals. Growth of a file by other
    /// calls counts as well.
    pub written: u64,
    /// Number of files, directories and links that it may make in all.
    pub created: u64,
    /// The longest sleep of one call.
    pub sleep: Duration,
    /// The longest wait of one call for a pipe, a terminal or a socket. Then the call fails with
    /// `EAGAIN`.
    pub wait: Duration,
    /// Number of started programs that it did not wait for.
    pub children: usize,
}

impl Quota {
    /// Cuts sleeps and waits to the time limit of a call.
    #[must_use]
    pub fn within(self, limit: Option<Duration>) -> Quota {
        let cut = |time: Duration| limit.map_or(time, |limit| limit.min(time));
        Quota { sleep: cut(self.sleep), wait: cut(self.wait), ..self }
    }
}

impl Default for Quota {
    fn default() -> Self {
        Quota {
            memory: u64::MAX,
            descriptors: 256,
            written: u64::MAX,
            created: 1 << 20,
            sleep: Duration::from_secs(3600),
            wait: Duration::MAX,
            children: 16,
        }
    }
}

/// Resolution of a domain's clocks if the policy sets no other.
pub const CLOCK_RESOLUTION: Duration = Duration::from_micros(1);

/// The grants of one domain.
#[derive(Debug)]
pub struct Policy {
    /// The calls. The default is all that can be answered.
    pub calls: Calls,
    /// Directories whose contents paths may name, and single files.
    pub preopens: Vec<Preopen>,
    /// The domain's name for its first working directory: absolute, empty for the root.
    /// [`Policy::start_in`] sets it to one that exists.
    pub working: String,
    /// The error of all other calls.
    pub denial: Denial,
    /// Bounds on the domain's resources.
    pub quota: Quota,
    /// Resolution of the clocks and of files' times.
    pub clock: Duration,
    /// The programs that it may start. A program of the host must not lie beneath a directory that
    /// the domain may change.
    pub programs: Vec<Startable>,
    /// The programs beneath its directories that it may start.
    pub beneath: Option<Beneath>,
    /// Says whether it may have sockets at 127.0.0.1 and ::1. They reach every service there.
    pub loopback: bool,
}

impl Policy {
    /// Lets the domain start in a directory, which is named as in the domain. By default it starts
    /// at the root of its tree.
    ///
    /// # Errors
    /// There is no such directory beneath the grants.
    pub fn start_in(mut self, guest: &str) -> std::io::Result<Policy> {
        let tree = Tree::new(self.preopens.clone().into());
        let found = tree.look_up("", guest, Last::Follow, Intent::Read).and_then(|found| found.directory());
        self.working = found.map_err(|Errno(code)| std::io::Error::from_raw_os_error(code))?;
        Ok(self)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            calls: Calls::default(),
            preopens: Vec::new(),
            working: String::new(),
            denial: Denial::default(),
            quota: Quota::default(),
            clock: CLOCK_RESOLUTION,
            programs: Vec::new(),
            beneath: None,
            loopback: false,
        }
    }
}
