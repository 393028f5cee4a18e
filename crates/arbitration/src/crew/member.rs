//! One thread of a domain, as its calls see it.

use crate::signals::ThreadSignals;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) number: u64,
    pub(super) signals: ThreadSignals,
    /// The word that is cleared when the thread ends, or 0.
    pub(super) clear: u64,
    /// Says whether the thread made a call before.
    pub(super) enrolled: bool,
    /// The mask that other threads know.
    pub(super) told: u64,
    /// The head of the list of robust mutexes. The domain's libc walks it itself.
    pub(super) robust: u64,
}

impl Member {
    /// Makes the record of a thread that made no call yet. It blocks the signals of `mask`.
    pub(super) fn new(number: u64, mask: u64, clear: u64) -> Self {
        Member { number, signals: ThreadSignals::new(mask), clear, enrolled: false, told: mask, robust: 0 }
    }
}
