//! The faults of a domain in all lanes, for its owner. Each lane's fault counts, also those of one
//! life, because each may be a guess of a search.
//!
//! A lane's record of a fault is written while the lane is inside, and when the lane takes part in
//! the next life ([`Faults::fresh`]). So another lane may read it when the life is over and the
//! lane is outside.

use crate::gate::fault::{RawFault, Trace};
use crate::gate::ids::DomainId;
use crate::gate::records::DomainState;
use crate::gate::room::Room;
use crate::world::lanes::{Home, Lane};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// The records of a domain in all lanes.
pub(crate) struct Faults(Mutex<Vec<Known>>);

/// The record of one lane.
struct Known {
    /// Null before the lane is built and after it is dropped.
    state: AtomicPtr<DomainState>,
    /// Set if the owner knows of the fault.
    told: bool,
}

impl Faults {
    /// Makes the records of a number of lanes.
    pub(super) fn new(lanes: usize) -> Self {
        let known = |_| Known { state: AtomicPtr::new(ptr::null_mut()), told: false };
        Self(Mutex::new((0..lanes).map(known).collect()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a lane's record for the domain's next life.
    pub(super) fn fresh(&self, lane: usize, change: impl FnOnce()) {
        let mut all = self.lock();
        all[lane].told = false;
        change();
    }

    /// Passes faults that the owner does not know of to `tell`, with their lanes: that of `own`,
    /// whose call is over, and those of other lanes that are outside, if the domain's life is over.
    pub(crate) fn tell(&self, own: usize, room: &Room, mut tell: impl FnMut(usize, RawFault, Trace)) {
        // No lane that is outside changes its record before it has the lock.
        let mut all = self.lock();
        let ended = room.is_ended();
        for (lane, known) in all.iter_mut().enumerate() {
            let state = known.state.load(Ordering::Relaxed);
            let readable = lane == own || ended && !room.doors[lane].is_inside();
            if state.is_null() || known.told || !readable {
                continue;
            }
            // SAFETY: the lane takes its state out of this list, with the lock, before it frees it.
            // A lane that is outside left the domain after it wrote the fault, see above.
            let (fault, trace) = unsafe { ((*state).fault, (*state).trace) };
            if fault.signal != 0 {
                known.told = true;
                tell(lane, fault, trace);
            }
        }
    }
}

impl Lane {
    /// Notes where this lane's record of a domain is.
    pub(crate) fn join(&self, domain: DomainId, state: *mut DomainState) {
        self.record(self.home(domain), state);
    }

    /// Takes this lane's records out, before they are freed.
    pub(crate) fn part(&self) {
        self.group.homes.iter().for_each(|home| self.record(home, ptr::null_mut()));
    }

    fn record(&self, home: &Home, state: *mut DomainState) {
        home.faults.lock()[self.number].state.store(state, Ordering::Relaxed);
    }

    /// Returns the number of restarts of a domain, those of the host not counted.
    pub(crate) fn restarts(&self, domain: DomainId) -> u32 {
        self.group.restarts(domain)
    }
}
