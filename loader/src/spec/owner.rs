//! Owners of domains, and their penalties for faults (Yarvin et al. section 2.2). A brute-force
//! search of the address space pays for every wrong guess with a delay of all domains of its owner,
//! in all worlds.

use crate::fault::report::{AddressClass, Fault, FaultKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of last faults that are kept one by one.
const REMEMBERED: usize = 256;
/// This many accesses to addresses outside the own window within [`SUSPICIOUS_TIME`] are
/// suspicious. Programs with mistakes stop at one.
const SUSPICIOUS: usize = 8;
/// See [`SUSPICIOUS`].
const SUSPICIOUS_TIME: Duration = Duration::from_secs(60);

/// The price of a fault: a delay before domains of the owner are restarted, loaded and
/// instantiated. The host waits for its end in a restart, a reload or an instantiation. A call into
/// a dead domain that would be restarted does not wait. It fails with
/// [`crate::CallError::NotReady`], and between domains with [`crate::Status::NotReady`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Penalty {
    /// No delay.
    #[default]
    None,
    /// An equal delay for every fault.
    Constant(Duration),
    /// A delay that doubles for every fault within `window` before it.
    Adaptive {
        /// The delay for the first fault.
        first: Duration,
        /// The longest delay.
        most: Duration,
        /// The time for which faults count.
        window: Duration,
    },
}

/// The party that answers for domains. Clones are one owner.
#[derive(Clone, Debug)]
pub struct Owner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    most_faults: Option<u64>,
    penalty: Penalty,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    history: VecDeque<Event>,
    faults: u64,
    outside: u64,
    ready: Instant,
    delayed: Duration,
}

/// A fault in an owner's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time when it was noted: when the host learnt of it, or at the latest before the domain
    /// lived again.
    pub when: Instant,
    /// The fault.
    pub fault: Fault,
}

/// The reason why a domain may not begin another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// Its owner's domains reached the limit of faults.
    Faults(u64),
    /// The penalties are not over.
    NotReady,
}

/// The faults of an owner's domains so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// All faults.
    pub faults: u64,
    /// Faults at addresses outside the domain's own window.
    pub outside: u64,
    /// The delays so far, including one that is not over yet.
    pub delayed: Duration,
    /// The last faults, the oldest first.
    pub history: Vec<Event>,
    /// True if the last faults look like a search for other domains.
    pub suspicious: bool,
}

impl Owner {
    /// Makes an owner without a limit of faults and without a penalty.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name.into(), None, Penalty::None)
    }

    fn with(name: String, most_faults: Option<u64>, penalty: Penalty) -> Self {
        let (history, ready) = (VecDeque::new(), Instant::now());
        let state = Mutex::new(State { history, faults: 0, outside: 0, ready, delayed: Duration::ZERO });
        Self(Arc::new(Shared { name, most_faults, penalty, state }))
    }

    /// Sets the number of faults after which no domain of the owner is restarted, loaded or
    /// instantiated any more. Begins with a clean record.
    #[must_use]
    pub fn most_faults(self, faults: u64) -> Self {
        Self::with(self.0.name.clone(), Some(faults), self.0.penalty)
    }

    /// Sets the price of every fault. Begins with a clean record.
    #[must_use]
    pub fn penalty(self, penalty: Penalty) -> Self {
        Self::with(self.0.name.clone(), self.0.most_faults, penalty)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the faults of its domains so far. A fault that only another domain has seen may
    /// appear later, when the domain is restarted or dropped.
    pub fn record(&self) -> Record {
        let state = self.lock();
        let recent = |e: &&Event| e.when.elapsed() <= SUSPICIOUS_TIME && is_outside(&e.fault);
        Record {
            faults: state.faults,
            outside: state.outside,
            delayed: state.delayed,
            history: state.history.iter().cloned().collect(),
            suspicious: state.history.iter().filter(recent).count() >= SUSPICIOUS,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a domain of the owner faulted at `now`.
    pub(crate) fn faulted(&self, fault: Fault, now: Instant) {
        let mut state = self.lock();
        let delay = match self.0.penalty {
            Penalty::None => Duration::ZERO,
            Penalty::Constant(delay) => delay,
            Penalty::Adaptive { first, most, window } => {
                let before = state.history.iter().filter(|e| now.saturating_duration_since(e.when) <= window).count();
                let factor = 1_u32.checked_shl(before as u32).unwrap_or(u32::MAX);
                first.checked_mul(factor).unwrap_or(most).min(most)
            }
        };
        // Delays add up, so that many domains do not search faster than one.
        state.ready = state.ready.max(now) + delay;
        state.delayed += delay;
        state.faults += 1;
        state.outside += u64::from(is_outside(&fault));
        if state.history.len() == REMEMBERED {
            state.history.pop_front();
        }
        state.history.push_back(Event { when: now, fault });
    }

    /// Returns the end of the penalties so far, or `None` if they are over. Domains that need no
    /// restart do not wait for it.
    pub fn ready_at(&self) -> Option<Instant> {
        Some(self.lock().ready).filter(|ready| *ready > Instant::now())
    }

    /// Decides whether a domain may begin another life. With `wait` it waits for the end of the
    /// penalties.
    pub(crate) fn admit(&self, wait: bool) -> Result<(), NotAdmitted> {
        loop {
            let faults = self.lock().faults;
            if self.0.most_faults.is_some_and(|most| faults >= most) {
                return Err(NotAdmitted::Faults(faults));
            }
            let Some(ready) = self.ready_at() else { return Ok(()) };
            if !wait {
                return Err(NotAdmitted::NotReady);
            }
            std::thread::sleep(ready.saturating_duration_since(Instant::now()));
        }
    }
}

fn is_outside(fault: &Fault) -> bool {
    fault.kind == FaultKind::Memory(AddressClass::Outside)
}
