//! The words that a world with limits or budgets and the watchdog share.

use crate::fault::interrupted::Interruptions;
use crate::fault::lanes::Members;
use crate::fault::limits::{Limits, nanos, reason};
use crate::fault::purse::Spent;
use crate::gate::records::{Context, DomainState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The record that a world with a limit and the watchdog share.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Limits of every call.
    pub(super) limits: Limits,
    /// Limits of the call in progress in nanoseconds, wall clock and processor. 0 is none.
    pub(super) wall: AtomicU64,
    pub(super) cpu: AtomicU64,
    /// The time-stamp counter when the call in progress began, if the watchdog looks.
    pub(super) began: AtomicU64,
    /// The shortest limit on the wall clock that a call had since the last look, in nanoseconds. A
    /// look sets it to the largest number.
    pub(super) asked: AtomicU64,
    /// The shortest limit on the wall clock for which the watchdog looks often enough, in
    /// nanoseconds.
    pub(super) pace: AtomicU64,
    /// Set if the watchdog looks at the record. Otherwise only the host's handlers end calls.
    pub(super) by_watchdog: bool,
    /// Set if a domain had a budget when the world was built, so that time is charged.
    pub(super) metered: bool,
    /// Set if a budget counted processor time.
    pub(super) processor: bool,
    /// The smallest budget.
    pub(super) budget: Option<Duration>,
    /// The lanes, if the world is one of several.
    pub(super) members: Option<Arc<Members>>,
    /// While the charged ticks of all domains are below this, no domain is over a budget.
    pub(super) enough: AtomicU64,
    /// The context, which tells the domain that runs.
    pub(super) context: AtomicPtr<Context>,
    /// The number of the call in progress, or 0 if there is none. It changes after each domain of
    /// the call that was ended.
    pub(super) running: AtomicU64,
    /// The number with which the call in progress began.
    pub(super) call: AtomicU64,
    /// Set if a domain of the call in progress was ended at the call's limit, so that the others
    /// have little time left.
    pub(super) grace: AtomicBool,
    /// The last number that was used. Only the thread that runs the world touches it.
    pub(super) last: AtomicU64,
    /// The kernel's id of the thread that runs the call. Its processor clock follows from the id.
    pub(super) thread: AtomicI32,
    /// Set while a host function runs and not a domain, so that no signal is sent.
    pub(super) in_host: AtomicBool,
    /// Set if the call in progress was seen more than once.
    pub(super) long: AtomicBool,
    /// The number of the call that must end.
    pub(super) ordered: AtomicU64,
    /// The reason of that: a [`reason`].
    pub(super) why: AtomicU32,
    /// Set if this call and all later ones must end.
    pub(super) stopped: AtomicBool,
    /// Set if the domain is to be interrupted, and the record that this needs, or null.
    pub(super) wanted: AtomicBool,
    pub(super) interruptions: AtomicPtr<Interruptions>,
}

/// Returns the world's watch, if its calls are limited.
pub(crate) fn of(context: &Context) -> Option<&Watch> {
    // SAFETY: the builder made the pointer of a `Watch` that lives as long as the world, or left it
    // null.
    unsafe { context.watch.cast::<Watch>().as_ref() }
}

impl Watch {
    /// Returns a new number.
    pub(super) fn next(&self) -> u64 {
        let number = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(number, Ordering::Relaxed);
        number
    }

    /// Orders the call in progress to end with all of its domains. Says whether there is one.
    /// Async-signal-safe, on the thread that runs the world.
    pub(super) fn order(&self) -> bool {
        let running = self.running.load(Ordering::Relaxed);
        self.why.store(reason::CALL_WALL | reason::FINAL, Ordering::Relaxed);
        self.ordered.store(running, Ordering::Release);
        running != 0
    }

    /// Returns the reason for which the call in progress must end, a [`reason`], or 0 if it need
    /// not. Async-signal-safe.
    #[inline]
    pub(crate) fn overdue(&self) -> u32 {
        match self.ordered() {
            reason::SETTLE => 0,
            why => why,
        }
    }

    /// Returns the order to the call in progress: [`Watch::overdue`], or [`reason::SETTLE`].
    #[inline]
    pub(crate) fn ordered(&self) -> u32 {
        let running = self.running.load(Ordering::Relaxed);
        if running == 0 || self.ordered.load(Ordering::Acquire) != running {
            return 0;
        }
        self.why.load(Ordering::Relaxed)
    }

    /// Says whether a domain may be over its budget, because all of them together were charged
    /// enough.
    ///
    /// # Safety
    /// `context` is that of the world that this thread runs.
    #[inline]
    pub(super) unsafe fn is_spent(&self, context: *const Context) -> bool {
        // SAFETY: see the function's contract.
        self.metered && unsafe { self.ticks(context) } >= self.enough.load(Ordering::Relaxed)
    }

    /// Returns the ticks that were charged to all domains, in all lanes.
    ///
    /// # Safety
    /// As for [`Watch::is_spent`].
    #[inline]
    pub(super) unsafe fn ticks(&self, context: *const Context) -> u64 {
        // SAFETY: see the function's contract. This lane is in a call.
        unsafe {
            match &self.members {
                None => (*context).ticks,
                Some(members) => members.purse.ticks(),
            }
        }
    }

    /// Returns the time of a domain in its present life.
    ///
    /// # Safety
    /// As for [`Watch::is_spent`]; `state` is that of a domain of the world.
    pub(super) unsafe fn spent(&self, state: &DomainState) -> Spent {
        match &self.members {
            None => Spent::of(&state.account),
            // SAFETY: see the function's contract.
            Some(members) => unsafe { members.purse.spent(state.index) },
        }
    }

    /// Says whether a domain runs, and not a host function.
    pub(crate) fn is_in_domain(&self) -> bool {
        self.running.load(Ordering::Acquire) != 0 && !self.in_host.load(Ordering::Acquire)
    }

    /// Notes that no domain can be over a budget before all domains together were charged this many
    /// ticks.
    pub(crate) fn nobody_before(&self, ticks: u64) {
        self.enough.store(ticks, Ordering::Relaxed);
    }

    /// Says whether this call and all later ones must end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Says whether time is charged to domains.
    pub(crate) fn is_metered(&self) -> bool {
        self.metered
    }

    /// Sets the context, which tells the domain that runs. Called once, before the first call.
    pub(crate) fn attach(&self, context: *mut Context) {
        self.context.store(context, Ordering::Release);
    }

    /// Sets limits for the next call, instead of the world's.
    pub(crate) fn limit_call(&self, limits: Limits) {
        self.wall.store(nanos(limits.wall), Ordering::Relaxed);
        self.cpu.store(nanos(limits.cpu), Ordering::Relaxed);
    }

    /// Sets the world's limits again.
    pub(crate) fn limit_calls(&self) {
        self.limit_call(self.limits);
    }
}
