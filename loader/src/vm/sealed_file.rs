//! Sealed files for memory that instances share.

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::io::{Errno, pwrite};
use std::ffi::CStr;

/// The seals. Nobody can write, grow or shrink the file, or take a seal away, and its shared
/// mappings can never become writable.
const SEALS: SealFlags = SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

/// Makes a sealed memory file with these bytes that was never mapped writable. Returns `None` if
/// the system allows no executable ones (`vm.memfd_noexec`). Every instance then gets a copy of the
/// text.
pub(crate) fn seal(name: &CStr, bytes: &[u8], executable: bool) -> Result<Option<OwnedFd>, Errno> {
    // Since Linux 6.3 a flag says whether a memory file may be executed. Older kernels do not know
    // the flags.
    let kind = if executable { libc::MFD_EXEC } else { libc::MFD_NOEXEC_SEAL };
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let file = match create(name, base | kind) {
        Err(Errno::INVAL) => create(name, base),
        Err(Errno::ACCESS) if executable => return Ok(None),
        other => other,
    }?;
    let mut written = 0;
    while written < bytes.len() {
        match pwrite(&file, &bytes[written..], written as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    fcntl_add_seals(&file, SEALS)?;
    Ok(Some(file))
}

/// Says whether a file has all seals.
pub(crate) fn is_sealed(file: &OwnedFd) -> bool {
    fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}

fn create(name: &CStr, flags: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: a C string. The descriptor is new and has no other owner.
    unsafe {
        match libc::memfd_create(name.as_ptr(), flags) {
            -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};

    #[test]
    fn sealed_files_cannot_be_written_by_any_way() {
        let text = seal(c"text", &[0xc3; 5000], true).unwrap().expect("executable memory files are allowed here");
        for (file, exec) in
            [(&text, ProtFlags::EXEC), (&seal(c"data", &[1; 10], false).unwrap().unwrap(), ProtFlags::empty())]
        {
            assert!(is_sealed(file));
            assert_eq!(pwrite(file, b"x", 0), Err(Errno::PERM));
            assert_eq!(rustix::fs::ftruncate(file, 0), Err(Errno::PERM));
            assert_eq!(rustix::fs::ftruncate(file, 1 << 20), Err(Errno::PERM));
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            assert_eq!(fallocate(file, punch, 0, 4096), Err(Errno::PERM));
            // A new description of the file, as another process gets through /proc, cannot write
            // either.
            use rustix::fd::AsRawFd;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let again = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            assert_eq!(pwrite(&again, b"x", 0), Err(Errno::PERM));
            assert_eq!(fcntl_add_seals(file, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
            // SAFETY: fresh mappings without users.
            unsafe {
                let map = |prot| mmap(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED, file, 0);
                assert_eq!(map(ProtFlags::READ | ProtFlags::WRITE).unwrap_err(), Errno::PERM);
                let at = map(ProtFlags::READ | exec).unwrap();
                assert_eq!(mprotect(at, 4096, MprotectFlags::READ | MprotectFlags::WRITE), Err(Errno::ACCESS));
                rustix::mm::munmap(at, 4096).unwrap();
            }
        }
    }
}
