//! Kept parts of the control stack: the return addresses and saved registers of fibers that wait.
//!
//! A domain that switches between fibers has the words of the one that runs on the control stack,
//! and those of the others here, in host memory outside every window. Only the stubs
//! `KEEP` and `BRING` touch the places (`gate/stubs.rs`). No address of them reaches the domain.

use crate::vm::address::HostAddress;
use crate::vm::lazy::Lazy;
use rustix::io::Errno;

/// Binary logarithm of the bytes of a place.
pub(crate) const PART_SHIFT: u8 = 16;
/// Words that a place holds. Their number is in front of them.
pub(crate) const PART_WORDS: u64 = (1 << PART_SHIFT) / 8 - 1;

/// The places of a domain.
#[derive(Debug)]
pub(crate) struct KeptParts {
    memory: Lazy,
    count: u64,
}

impl KeptParts {
    /// Returns no place.
    pub(crate) fn none() -> Self {
        Self { memory: Lazy::none(), count: 0 }
    }

    /// Maps a number of empty places. Memory is used once they are filled.
    pub(crate) fn map(count: usize) -> Result<Self, Errno> {
        Ok(Self { memory: Lazy::map(count << PART_SHIFT)?, count: count as u64 })
    }

    /// Returns the same places. The owner outlives the result.
    pub(crate) fn same(&self) -> Self {
        Self { memory: self.memory.same(), count: self.count }
    }

    /// Returns the address of the first place, and their number.
    pub(crate) fn places(&self) -> (HostAddress, u64) {
        (self.memory.at(), self.count)
    }

    /// Empties all places.
    pub(crate) fn clear(&self) -> Result<(), Errno> {
        self.memory.clear()
    }

    /// Says whether one of the words that are kept passes a test.
    pub(crate) fn any(&self, test: impl Fn(u64) -> bool) -> bool {
        (0..self.count).any(|place| {
            let at: *const u64 = (self.memory.at() + (place << PART_SHIFT)).pointer();
            // SAFETY: this value's own mapping. Only the stubs write it, and they do not run now. A
            // place has a number and at most this many words.
            unsafe {
                let words = (*at).min(PART_WORDS);
                (1..=words as usize).any(|word| test(*at.add(word)))
            }
        })
    }
}
