//! The signals of the threads of a domain. While a thread is served, its part takes the place of
//! the domain's.

use super::{SI_USER, SIGNALS, Signals, UNBLOCKABLE, bit, information};
use crate::errno::Errno;
use sfi_loader::HostCall;
use std::time::Duration;

/// The part of [`Signals`] that belongs to one thread of a domain with several.
#[derive(Debug)]
pub(crate) struct ThreadSignals {
    mask: u64,
    /// Signals that were sent to this thread.
    pending: u64,
    /// While the thread is served: those that were sent to the domain.
    common: u64,
    suspended: Option<u64>,
    stack: [u64; 3],
    caught: u64,
}

impl ThreadSignals {
    /// Makes the signals of a thread with this mask.
    pub(crate) fn new(mask: u64) -> Self {
        let stack = [0, libc::SS_DISABLE as u64, 0];
        ThreadSignals { mask, pending: 0, common: 0, suspended: None, stack, caught: 0 }
    }

    /// Returns the mask.
    pub(crate) fn blocked(&self) -> u64 {
        self.mask
    }

    /// Begins a suspension with a mask: `sigsuspend`.
    pub(crate) fn suspend(&mut self, mask: u64) {
        self.suspended.get_or_insert(self.mask);
        self.mask = mask & !UNBLOCKABLE;
    }

    /// Makes signals pending, by their bits.
    pub(crate) fn add(&mut self, signals: u64) {
        self.pending |= signals;
    }
}

/// Returns the bit of a signal to a thread: 0 for signal 0, which only asks whether the thread
/// lives.
pub(crate) fn bit_of(signal: u64) -> Result<u64, Errno> {
    match u64::from(signal as u32) {
        0 => Ok(0),
        signal if signal <= SIGNALS => Ok(bit(signal)),
        _ => Err(Errno::INVAL),
    }
}

impl Signals {
    /// Exchanges the part of a thread, whose call is served now.
    fn exchange(&mut self, thread: &mut ThreadSignals) {
        std::mem::swap(&mut self.mask, &mut thread.mask);
        std::mem::swap(&mut self.suspended, &mut thread.suspended);
        std::mem::swap(&mut self.stack, &mut thread.stack);
        std::mem::swap(&mut self.caught, &mut thread.caught);
    }

    /// Begins to serve a thread.
    pub(crate) fn enter(&mut self, thread: &mut ThreadSignals) {
        self.exchange(thread);
        thread.common = self.pending;
        self.pending |= thread.pending;
    }

    /// Ends to serve a thread. Signals that are still pending stay whose they were, and new ones
    /// are the domain's.
    pub(crate) fn leave(&mut self, thread: &mut ThreadSignals) {
        self.exchange(thread);
        let own = thread.pending & !thread.common;
        thread.pending = self.pending & own;
        self.pending &= !own;
    }

    /// `rt_sigtimedwait` of a thread, without the wait: takes a pending signal of a set. `EINTR`
    /// says that another signal is due, and `EAGAIN` that the thread must wait.
    pub(crate) fn claim(
        &mut self,
        cx: &mut HostCall<'_>,
        thread: &mut ThreadSignals,
        (set, info): (u64, u64),
    ) -> Result<u64, Errno> {
        self.enter(thread);
        self.tick();
        let answer = match (self.take(set), self.first()) {
            (Some(signal), _) if info == 0 => Ok(signal),
            (Some(signal), _) => cx.write(info, &information(signal, SI_USER, 0)).map(|()| signal).map_err(Errno::from),
            (None, Some(_)) => Err(Errno::INTR),
            (None, None) => Err(Errno::AGAIN),
        };
        self.leave(thread);
        answer
    }

    /// Returns the time until a signal is due for a thread: none if one is, otherwise the timer's.
    pub(crate) fn until_due(&mut self, thread: &mut ThreadSignals) -> Duration {
        self.enter(thread);
        self.tick();
        let time = if self.first().is_some() { Duration::ZERO } else { self.until() };
        self.leave(thread);
        time
    }

    /// Returns the pending signals of the domain that no thread has taken, with the timer's.
    pub(crate) fn common(&mut self) -> u64 {
        if self.timer_end().is_some() {
            self.tick();
        }
        self.pending
    }
}
