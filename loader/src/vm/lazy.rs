//! Zeroed memory of the host that takes pages as it is written.

use crate::vm::address::HostAddress;
use crate::vm::ledger;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A private mapping of zeroes.
#[derive(Debug)]
pub(crate) struct Lazy {
    /// Its first byte; null if it has none.
    at: HostAddress,
    bytes: usize,
    /// Set if the value owns the mapping.
    owned: bool,
}

impl Lazy {
    /// Returns no memory.
    pub(crate) fn none() -> Self {
        Self { at: HostAddress::NULL, bytes: 0, owned: false }
    }

    /// Maps a number of bytes.
    pub(crate) fn map(bytes: usize) -> Result<Self, Errno> {
        if bytes == 0 {
            return Ok(Self::none());
        }
        ledger::account(1)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapped = unsafe {
            let rw = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), bytes, rw, flags)
        };
        let at = HostAddress::new(mapped.inspect_err(|_| ledger::forget(1))? as u64);
        Ok(Self { at, bytes, owned: true })
    }

    /// Returns the same memory. The owner outlives the result.
    pub(crate) fn same(&self) -> Self {
        Self { owned: false, ..*self }
    }

    /// Returns the address of the first byte.
    pub(crate) fn at(&self) -> HostAddress {
        self.at
    }

    /// Zeroes all of it and gives its pages back.
    pub(crate) fn clear(&self) -> Result<(), Errno> {
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the whole of this value's own mapping, to which nobody holds a reference.
        unsafe { madvise(self.at.pointer(), self.bytes, Advice::LinuxDontNeed) }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the mapping belongs to this value alone, and its domain no longer runs. If
            // the kernel's limit on mappings keeps it from being cut out, it is lost.
            let _ = unsafe { munmap(self.at.pointer(), self.bytes) };
            ledger::forget(1);
        }
    }
}
