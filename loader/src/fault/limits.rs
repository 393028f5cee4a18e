//! Limits on the time of calls and domains.

use crate::gate::fault::RawFault;
use libc::c_int;
use std::time::Duration;

/// The signal that tells a call that its time is over. By default it is ignored, pending ones are
/// merged, and programs that use it expect it at any time.
pub(crate) const TIME_SIGNAL: c_int = libc::SIGURG;

/// [`RawFault::signal`] of a domain that asked to end. It is only a mark: the signal itself is
/// never handled here.
pub(crate) const EXIT: c_int = libc::SIGTERM;

/// Limits of one call of the host into its world, through any domains and host functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Wall clock.
    pub wall: Option<Duration>,
    /// Processor time of the thread, the kernel's work for it included.
    pub cpu: Option<Duration>,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { wall: None, cpu: None };

    /// Makes a limit on the wall clock.
    pub fn wall(limit: Duration) -> Self {
        Self { wall: Some(limit), cpu: None }
    }

    /// Makes a limit on processor time.
    pub fn cpu(limit: Duration) -> Self {
        Self { wall: None, cpu: Some(limit) }
    }

    /// Says whether a limit is set.
    pub fn is_set(&self) -> bool {
        self.wall.is_some() || self.cpu.is_some()
    }
}

/// The time that a domain may use in its life, over all calls, while it runs itself. The time of
/// domains and host functions that it calls does not count. It has the whole budget again when it
/// is restarted or loaded again, and after [`crate::World::refill`]. Each instance has a budget of
/// its own, as large as the domain's.
///
/// Time is charged when domains are entered and left. A domain that is over its budget is ended
/// within four milliseconds while it runs, at once when a host function returns to it, and
/// otherwise when the call ends.
///
/// In worlds that are built with a budget of some domain, a call between domains reads the
/// time-stamp counter twice (some 50 ns in a virtual machine). If a budget counts processor time, a
/// call of the host reads the thread's clock twice (two system calls, together some 1.3 us there).
/// In other worlds budgets that come later, by a reload, do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Wall clock.
    pub wall: Option<Duration>,
    /// Processor time.
    pub cpu: Option<Duration>,
}

impl Budget {
    /// No bound.
    pub const NONE: Self = Self { wall: None, cpu: None };

    /// Makes a bound on the wall clock.
    pub fn wall(most: Duration) -> Self {
        Self { wall: Some(most), ..Self::NONE }
    }

    /// Makes a bound on processor time.
    pub fn cpu(most: Duration) -> Self {
        Self { cpu: Some(most), ..Self::NONE }
    }

    /// Says whether a budget is set.
    pub fn is_set(&self) -> bool {
        *self != Self::NONE
    }
}

/// The reason why a call was ended: the code of its [`RawFault`].
pub(crate) mod reason {
    /// The call's limit on the wall clock.
    pub(crate) const CALL_WALL: u32 = 1;
    /// The call's limit on processor time.
    pub(crate) const CALL_CPU: u32 = 2;
    /// The domain's budget of wall clock.
    pub(crate) const DOMAIN_WALL: u32 = 3;
    /// The domain's budget of processor time.
    pub(crate) const DOMAIN_CPU: u32 = 4;
    /// A domain may be over a budget. The thread that runs the domains finds out which.
    pub(crate) const SETTLE: u32 = 5;
    /// Set beside a call's limit: the time that was left to its other domains is over too, and all
    /// of them end.
    pub(crate) const FINAL: u32 = 0x100;
    /// Set beside it: the domain did not run, but waited for one that did.
    pub(crate) const WAITING: u32 = 0x200;
    /// The bits of the reason itself.
    pub(crate) const KIND: u32 = 0xff;
}

/// Says whether the domain did not run when its call's time was over, but waited for another one.
pub(crate) fn waited(fault: &RawFault) -> bool {
    fault.signal == TIME_SIGNAL && fault.code as u32 & reason::WAITING != 0
}

/// Says whether the domain ended because it used up a budget of time.
pub(crate) fn is_budget(fault: &RawFault) -> bool {
    fault.signal == TIME_SIGNAL && [reason::DOMAIN_WALL, reason::DOMAIN_CPU].contains(&(fault.code as u32))
}

/// Returns a limit in nanoseconds, as records keep it. 0 is no limit.
pub(crate) fn nanos(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).max(1))
}
