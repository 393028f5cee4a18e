//! A world's part in the watchdog: its limits, and the way to set them.
//!
//! The watchdog's thread starts with the first limit, budget or interruption of the process. A
//! world that may get limits later ([`crate::Builder::timed`]) needs none until then. A limit is
//! never set without it: if the thread does not start, setting the limit is an error.

use crate::fault::clock;
use crate::fault::lanes::Members;
use crate::fault::limits::{Budget, Limits, nanos};
use crate::fault::watch::Watch;
use crate::fault::watchdog::{forget, interrupt, observe, record, start_once, wake};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A world's limit. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Watch>);

impl Watched {
    /// Registers limits and the domains' budgets. Starts the watchdog if there are any. `members`
    /// are the lanes, if the world is one of several.
    pub(crate) fn new(limits: Limits, budgets: &[Budget], members: Option<Arc<Members>>) -> std::io::Result<Self> {
        let budget = budgets.iter().flat_map(|b| [b.wall, b.cpu]).flatten().min();
        if budget.is_some() {
            clock::start()?;
        }
        clock::origin();
        let watch = record(limits, budgets, budget, true, members);
        watch.limit_calls();
        observe(&watch);
        let watched = Self(watch);
        if limits.is_set() || budget.is_some() {
            watched.start()?;
        }
        Ok(watched)
    }

    /// Makes a record without limits that the watchdog does not look at.
    pub(crate) fn alone() -> Self {
        Self(record(Limits::NONE, &[], None, false, None))
    }

    /// Starts the watchdog, if nothing needed it before.
    #[inline]
    pub(crate) fn start(&self) -> std::io::Result<()> {
        start_once()
    }

    /// Says whether calls may have limits.
    pub(crate) fn is_by_watchdog(&self) -> bool {
        self.0.by_watchdog
    }

    /// Returns the watch, which is valid as long as this value.
    pub(crate) fn watch(&self) -> *const Watch {
        Arc::as_ptr(&self.0)
    }

    /// Notes that an account changed. The next look finds out when a domain can be over a budget.
    pub(crate) fn look_again(&self) {
        self.0.nobody_before(0);
    }

    /// Says whether time is charged to domains.
    pub(crate) fn is_metered(&self) -> bool {
        self.0.metered
    }

    /// Wants an interruption, or gives up one that was wanted. The watchdog is woken if it must.
    pub(crate) fn want(&self, wanted: bool) {
        if wanted {
            interrupt(&self.0);
        } else {
            self.0.want_interruption(false);
        }
    }

    /// Returns the watch, which may outlive the world.
    pub(crate) fn shared(&self) -> Arc<Watch> {
        Arc::clone(&self.0)
    }

    /// Sets limits for the calls that begin from now on. The watchdog is woken only if it looks too
    /// seldom for them.
    ///
    /// # Errors
    /// There are limits, and the watchdog does not start. Nothing is set then.
    #[inline]
    pub(crate) fn limit_call(&self, limits: Limits) -> std::io::Result<()> {
        if limits.is_set() {
            self.start()?;
        }
        self.0.limit_call(limits);
        let wall = limits.wall.map_or(u64::MAX, |wall| nanos(Some(wall)));
        if wall < self.0.asked.load(Ordering::Relaxed) {
            self.0.asked.store(wall, Ordering::Relaxed);
        }
        if limits.cpu.is_some() || wall < self.0.pace.load(Ordering::Relaxed) {
            wake();
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        forget(&self.0);
    }
}
