//! A single file that the host granted by its name: of any kind, a device or a FIFO for example.
//!
//! It is opened anew whenever the domain opens it, so that the host may replace it as programs
//! replace files. But another grant may let the domain change the directory around it: a link or a
//! device that lies there already could be renamed to the file's name. So links are followed once,
//! when the file is granted, and later a file of the same kind must lie there.

use crate::errno::Errno;
use crate::file_system;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstatfs, readlinkat, statat};
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Most symbolic links in a name, as in the kernel.
const LINKS: usize = 40;
/// Magic number of `/proc`, where links lead to what their texts do not name.
const PROC: u32 = 0x9fa0;

/// A granted file.
#[derive(Clone, Debug)]
pub(crate) struct GrantedFile {
    directory: Arc<OwnedFd>,
    name: OsString,
    /// `NOFOLLOW`, but for entries of `/proc`, which no domain can change.
    follow: OFlags,
    kind: Kind,
}

/// The part of a file that must stay: its type, and its number if it is a device.
type Kind = (FileType, u64);

fn kind(stat: &Stat) -> Kind {
    (file_system::kind(stat), stat.st_rdev)
}

impl GrantedFile {
    /// Follows the links of the host's name.
    ///
    /// # Errors
    /// There is no such file, or it is a directory.
    pub(crate) fn new(host: &Path) -> std::io::Result<GrantedFile> {
        let mut path = std::path::absolute(host)?;
        for _ in 0..LINKS {
            let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
                return Err(ErrorKind::IsADirectory.into());
            };
            let parent = std::fs::canonicalize(parent)?;
            let directory =
                rustix::fs::open(&parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let magic = fstatfs(&directory)?.f_type as u32 == PROC;
            let (at, follow) =
                if magic { (AtFlags::empty(), OFlags::empty()) } else { (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW) };
            let kind = kind(&statat(&directory, name, at)?);
            match kind.0 {
                FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
                FileType::Symlink => {
                    let text = readlinkat(&directory, name, Vec::new())?;
                    path = parent.join(OsStr::from_bytes(text.as_bytes()));
                }
                _ => {
                    let (directory, name) = (Arc::new(directory), name.to_owned());
                    return Ok(GrantedFile { directory, name, follow, kind });
                }
            }
        }
        Err(Error::from_raw_os_error(libc::ELOOP))
    }

    /// Opens what lies there now; of another kind than what was granted it may not be.
    pub(crate) fn open(&self, flags: OFlags) -> Result<(OwnedFd, Stat), Errno> {
        let fd =
            rustix::fs::openat(&*self.directory, &self.name, flags | self.follow | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if kind(&stat) == self.kind { Ok((fd, stat)) } else { Err(Errno::ACCES) }
    }

    /// Whether this device and inode lie there now.
    pub(crate) fn is(&self, identity: (u64, u64)) -> bool {
        let now = statat(&*self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        now.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity)
    }
}
