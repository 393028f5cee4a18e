//! The faults of a domain in all lanes, for its owner. Each lane's fault counts, also those of one
//! life, because each may be a guess of a search.
//!
//! A lane's record of a fault is written while the lane is inside, and when the lane takes part in
//! the next life ([`Faults::fresh`]). So another lane may read it when the life is over and the
//! lane is outside.

use crate::gate::fault::{RawFault, Trace};
use crate::gate::records::DomainState;
use crate::gate::room::Room;
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

    /// Notes where a lane's record is, or null before it is freed.
    pub(super) fn record(&self, lane: usize, state: *mut DomainState) {
        self.lock()[lane].state.store(state, Ordering::Relaxed);
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
