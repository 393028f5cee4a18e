//! Signals of other processes for a program with one thread. The thread that takes them puts them
//! here. The program sees them when a call ends, and they end its waits.

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// The signals that came and that the program has not seen.
#[derive(Debug)]
pub(crate) struct Inbox {
    came: AtomicU64,
    /// The signals that the domain handles or ignores.
    chosen: AtomicU64,
    /// Readable when signals came since it was read.
    bell: OwnedFd,
}

impl Inbox {
    /// Makes an empty inbox.
    ///
    /// # Errors
    /// The process has too few descriptors left.
    pub(crate) fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { came: AtomicU64::new(0), chosen: AtomicU64::new(0), bell })
    }

    /// Notes the signals that the domain handles or ignores, by their bits.
    pub(crate) fn choose(&self, chosen: u64) {
        self.chosen.store(chosen, Ordering::Release);
    }

    /// Adds signals, by their bits. Returns those that have their default action, and are not
    /// added.
    pub(crate) fn put(&self, signals: u64) -> u64 {
        let chosen = self.chosen.load(Ordering::Acquire);
        self.came.fetch_or(signals & chosen, Ordering::Release);
        // It is full only if it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        signals & !chosen
    }

    /// Takes all signals.
    pub(crate) fn empty(&self) -> u64 {
        if self.came.load(Ordering::Relaxed) == 0 { 0 } else { self.came.swap(0, Ordering::Acquire) }
    }

    /// Says whether one of some signals came.
    pub(crate) fn has(&self, of: u64) -> bool {
        self.came.load(Ordering::Acquire) & of != 0
    }

    /// Returns the descriptor that is readable when signals came.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Makes the bell silent until the next signals.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_with_their_default_action_are_not_added() {
        let inbox = Inbox::new().expect("a descriptor");
        inbox.choose(0b1);
        assert_eq!((inbox.put(0b11), inbox.empty()), (0b10, 0b1));
        inbox.choose(0);
        assert_eq!((inbox.put(0b11), inbox.empty()), (0b11, 0));
    }
}
