//! Memory for regions that outlives a world, and that several worlds and the kernel use.

use crate::vm::region::View;
use crate::vm::window::pages;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::sync::Arc;

/// Memory for a shared region, made before the worlds that use it. Several worlds can have it as a
/// region, each with its own access, and the host can map it as often as it likes. A ring of
/// messages is an example: the kernel fills it, and handlers in worlds of their own read it. Clones
/// are one memory.
#[derive(Clone, Debug)]
pub struct RegionFile {
    file: Arc<OwnedFd>,
    length: u64,
}

impl RegionFile {
    /// Makes zeroed memory of `bytes`, rounded up to pages. Its size never changes.
    ///
    /// # Errors
    /// The operating system's. 0 bytes are an invalid argument.
    pub fn create(bytes: u64) -> io::Result<Self> {
        let length = Some(bytes).filter(|bytes| *bytes > 0).map(pages).ok_or(rustix::io::Errno::INVAL)?;
        let file = memfd_create("region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, length)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { file: Arc::new(file), length })
    }

    /// Returns the size in bytes, whole pages.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Maps the memory for the host.
    ///
    /// # Errors
    /// The operating system's.
    pub fn view(&self) -> io::Result<View> {
        Ok(View::map(&self.file, self.length as usize)?)
    }

    /// Returns the file and a view for a world's region.
    pub(crate) fn open(&self) -> Result<(OwnedFd, View), rustix::io::Errno> {
        let file = self
            .file
            .try_clone()
            .map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::MFILE))?;
        let view = View::map(&file, self.length as usize)?;
        Ok((file, view))
    }
}
