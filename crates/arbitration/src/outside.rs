//! Signals that other processes send to this one, and that a domain handles or ignores.

use crate::signals::harmless;
use sfi_loader::{end_by_signal, start_helper, take_signals, wait_for_signals};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the stack of the thread that passes them on.
const STACK: usize = 64 << 10;

/// Ends this process by the first of some signals, by their bits, if there is one whose default
/// action does that.
pub(crate) fn end_by(signals: u64) {
    let signals = signals & !harmless();
    if signals != 0 {
        end_by_signal(signals.trailing_zeros() as i32 + 1);
    }
}

/// The signals that were taken, by their bits. They stay taken.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    taken: AtomicU64,
    /// The signals that the parent of this fork had taken. Nothing passes them on here until
    /// [`Outside::take`] starts the thread.
    before: u64,
}

impl Outside {
    /// Returns the signals of a process that is forked from this one.
    pub(crate) fn part(&self) -> Self {
        Outside { taken: AtomicU64::new(0), before: self.taken.load(Ordering::Relaxed) | self.before }
    }

    /// Takes more signals. The first ones start the thread, which passes the bits of signals that
    /// come to the function that `tell` gives. If that fails, they keep their actions. One thread
    /// calls it at a time.
    pub(crate) fn take<T: Fn(u64) + Send + 'static>(&self, signals: u64, tell: impl FnOnce() -> T) {
        let (signals, taken) = (signals | self.before, self.taken.load(Ordering::Relaxed));
        if signals & !taken == 0 {
            return;
        }
        if taken == 0 {
            let tell = tell();
            let run = move || {
                while let Ok(signals) = wait_for_signals() {
                    tell(signals);
                }
            };
            let builder = std::thread::Builder::new().name("sfi-signals".into()).stack_size(STACK);
            // Until something is taken it has nothing to wait for.
            if take_signals(0).is_err() || start_helper(builder, run).is_err() {
                return;
            }
        }
        if take_signals(signals & !taken).is_ok() {
            self.taken.store(taken | signals, Ordering::Relaxed);
        }
    }
}
