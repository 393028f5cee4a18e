//! Shared regions: memory files that several domains and the host map.

use crate::vm::memory::MemoryError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared region.
pub struct Region {
    pub name: String,
    pub length: u64,
    /// Where it lies in every window.
    pub offset: u64,
    /// Keeps the memory; domains map it.
    pub file: OwnedFd,
    /// The host's own view.
    pub view: View,
}

/// The host's mapping of a shared region.
#[derive(Debug)]
pub struct View {
    at: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to the value; access goes through `&self` and `&mut self` copies only.
unsafe impl Send for View {}

/// Makes a region of `length` bytes (whole pages) of zeroes.
pub(crate) fn create(length: u64) -> Result<(OwnedFd, View), Errno> {
    let file = memfd_create("region", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, length)?;
    // SAFETY: a fresh mapping of a file that nobody else can truncate.
    let at = unsafe {
        mmap(
            std::ptr::null_mut(),
            length as usize,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file.as_fd(),
            0,
        )?
    };
    Ok((file, View { at: at.cast(), length: length as usize }))
}

impl View {
    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: regions have at least a page.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn check(&self, offset: usize, length: usize) -> Result<(), MemoryError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(MemoryError::OutOfBounds { offset: offset as u64, length }),
        }
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], with the offset in the region.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), MemoryError> {
        self.check(offset, out.len())?;
        // SAFETY: in bounds of the mapping; no domain of this world runs while the world is borrowed.
        unsafe { std::ptr::copy_nonoverlapping(self.at.add(offset), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], with the offset in the region.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check(offset, bytes.len())?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(offset), bytes.len()) };
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value.
        let result = unsafe { munmap(self.at.cast(), self.length) };
        debug_assert!(result.is_ok(), "munmap of a region");
    }
}
