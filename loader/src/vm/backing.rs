//! The memory of a domain with threads: files that the windows of all its threads map.
//!
//! A byte of the window has its offset in a file, so all windows map one byte at one offset. What a
//! domain may write and what it may only read lie in two files. The file of constants is sealed
//! once the first window is raised: no mapping that is made later can be writable.

use crate::vm::address::WindowOffset;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;
use sfi_contract::layout::WINDOW_SIZE;

/// The seals of the files' sizes.
const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// The seals of constants.
const CONSTANT: SealFlags = SIZE.union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// The two files.
#[derive(Debug)]
pub(crate) struct Backing {
    writable: OwnedFd,
    constant: OwnedFd,
}

impl Backing {
    /// Makes files of a window's size. They take memory for pages that were written.
    pub(crate) fn create() -> Result<Self, Errno> {
        let file = |name: &str| -> Result<OwnedFd, Errno> {
            let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&file, WINDOW_SIZE)?;
            fcntl_add_seals(&file, SIZE)?;
            Ok(file)
        };
        Ok(Self { writable: file("memory")?, constant: file("constants")? })
    }

    /// Returns the file of the memory that the domain may write.
    pub(crate) fn writable(&self) -> BorrowedFd<'_> {
        self.writable.as_fd()
    }

    /// Returns the file of the memory that the domain may only read.
    pub(crate) fn constant(&self) -> BorrowedFd<'_> {
        self.constant.as_fd()
    }

    /// Seals the constants.
    pub(crate) fn seal(&self) -> Result<(), Errno> {
        fcntl_add_seals(&self.constant, CONSTANT)?;
        if fcntl_get_seals(&self.constant)?.contains(CONSTANT) { Ok(()) } else { Err(Errno::PERM) }
    }

    /// Gives writable pages back to the kernel. The next access, through any window, finds zeroes.
    pub(crate) fn discard(&self, offset: WindowOffset, length: u64) -> Result<(), Errno> {
        fallocate(&self.writable, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset.bytes(), length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
    use sfi_contract::layout::PAGE_SIZE;

    #[test]
    fn constants_cannot_be_mapped_writable_once_they_are_sealed() {
        let backing = Backing::create().unwrap();
        let rw = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: fresh mappings without users.
        unsafe {
            let map = |prot, file| mmap(std::ptr::null_mut(), PAGE_SIZE as usize, prot, MapFlags::SHARED, file, 0);
            let first = map(rw, backing.constant()).unwrap();
            first.cast::<u8>().write(7);
            mprotect(first, PAGE_SIZE as usize, MprotectFlags::READ).unwrap();
            backing.seal().unwrap();
            assert_eq!(map(rw, backing.constant()).unwrap_err(), Errno::PERM);
            let second = map(ProtFlags::READ, backing.constant()).unwrap();
            assert_eq!(second.cast::<u8>().read(), 7);
            let wanted = MprotectFlags::READ | MprotectFlags::WRITE;
            assert_eq!(mprotect(second, PAGE_SIZE as usize, wanted), Err(Errno::ACCESS));
            assert_eq!(rustix::io::pwrite(backing.constant(), b"x", 0), Err(Errno::PERM));
            let memory = map(rw, backing.writable()).unwrap();
            // The kernel changes the byte, and the compiler does not know.
            memory.cast::<u8>().write_volatile(1);
            backing.discard(WindowOffset::ZERO, PAGE_SIZE).unwrap();
            assert_eq!(memory.cast::<u8>().read_volatile(), 0);
            for at in [first, second, memory] {
                munmap(at, PAGE_SIZE as usize).unwrap();
            }
        }
    }
}
