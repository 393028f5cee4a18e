//! Kept parts of the control stack: the return addresses of fibers that wait.
//!
//! A domain that switches between fibers has the return addresses of the one that runs on the
//! control stack, and those of the others here, in host memory outside every window. Only the stubs
//! `KEEP` and `BRING` touch the places (`gate/stubs.rs`). No address of them reaches the domain.

use crate::vm::address::HostAddress;
use crate::vm::ledger;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Binary logarithm of the bytes of a place.
pub(crate) const PART_SHIFT: u8 = 16;
/// Return addresses that a place holds. Their number is in front of them.
pub(crate) const PART_WORDS: u64 = (1 << PART_SHIFT) / 8 - 1;

/// The places of a domain.
#[derive(Debug)]
pub(crate) struct KeptParts {
    /// Address of the first place; null if there is none.
    at: HostAddress,
    count: u64,
    /// Set if the value owns the mapping.
    owned: bool,
}

impl KeptParts {
    /// Returns no place.
    pub(crate) fn none() -> Self {
        Self { at: HostAddress::NULL, count: 0, owned: false }
    }

    /// Maps a number of empty places. Memory is used once they are filled.
    pub(crate) fn map(count: usize) -> Result<Self, Errno> {
        if count == 0 {
            return Ok(Self::none());
        }
        let count = count as u64;
        ledger::account(1)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped = unsafe {
            let rw = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), Self::bytes(count), rw, flags)
        };
        let at = HostAddress::new(mapped.inspect_err(|_| ledger::forget(1))? as u64);
        Ok(Self { at, count, owned: true })
    }

    /// Returns the same places. The owner outlives the result.
    pub(crate) fn same(&self) -> Self {
        Self { owned: false, ..*self }
    }

    /// Returns the address of the first place, and their number.
    pub(crate) fn places(&self) -> (HostAddress, u64) {
        (self.at, self.count)
    }

    /// Empties all places.
    pub(crate) fn clear(&self) -> Result<(), Errno> {
        if self.count == 0 {
            return Ok(());
        }
        // SAFETY: the whole of this value's own mapping, to which nobody holds a reference.
        unsafe { madvise(self.at.pointer(), Self::bytes(self.count), Advice::LinuxDontNeed) }
    }

    /// Says whether one of the return addresses that are kept passes a test.
    pub(crate) fn any(&self, test: impl Fn(u64) -> bool) -> bool {
        (0..self.count).any(|place| {
            let at: *const u64 = (self.at + (place << PART_SHIFT)).pointer();
            // SAFETY: this value's own mapping. Only the stubs write it, and they do not run now. A
            // place has a number and at most this many words.
            unsafe {
                let words = (*at).min(PART_WORDS);
                (1..=words as usize).any(|word| test(*at.add(word)))
            }
        })
    }

    fn bytes(count: u64) -> usize {
        (count << PART_SHIFT) as usize
    }
}

impl Drop for KeptParts {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the mapping belongs to this value alone, and its domain no longer runs. If
            // the kernel's limit on mappings keeps it from being cut out, it is lost.
            let _ = unsafe { munmap(self.at.pointer(), Self::bytes(self.count)) };
            ledger::forget(1);
        }
    }
}
