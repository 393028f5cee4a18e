//! A single file of any kind that the host granted by its name, for example a device or a FIFO.
//!
//! The arbiter opens it anew whenever the domain opens it, so the host may replace it as programs
//! replace files. But another grant may let the domain change the directory around it, and then the
//! domain could rename a link or a device in that directory to the file's name. So links are
//! followed only once, at the grant, and later a file of the original kind must have the name.

use crate::errno::Errno;
use crate::file_system;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstatfs, readlinkat, statat};
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Length of the longest chain of symbolic links: the kernel's limit.
const LINKS: usize = 40;
/// Magic number of `/proc`. Links there do not lead to the places that their texts name.
const PROC: u32 = 0x9fa0;

/// A granted file.
#[derive(Clone, Debug)]
pub(crate) struct GrantedFile {
    directory: Arc<OwnedFd>,
    /// Device and inode of the directory. In `/proc`, where each process has inodes of its own,
    /// the directory's name.
    place: OsString,
    name: OsString,
    /// `NOFOLLOW`, except for entries of `/proc`, which no domain can change.
    follow: OFlags,
    kind: Kind,
}

/// The part of a file that must not change: its type, and its number if it is a device.
type Kind = (FileType, u64);

fn kind(stat: &Stat) -> Kind {
    (file_system::kind(stat), stat.st_rdev)
}

/// Returns device and inode of a directory.
fn place(directory: &OwnedFd) -> std::io::Result<OsString> {
    let stat = rustix::fs::fstat(directory)?;
    Ok(format!("{}:{}", stat.st_dev, stat.st_ino).into())
}

/// Returns the name of a directory of `/proc`. This process is `self` in it, as in any other.
fn own_name(directory: &Path) -> OsString {
    let own = format!("/proc/{}", std::process::id());
    match directory.strip_prefix(own) {
        Ok(rest) => Path::new("/proc/self").join(rest).into(),
        Err(_) => directory.into(),
    }
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
                    let place = if magic { own_name(&parent) } else { place(&directory)? };
                    let (directory, name) = (Arc::new(directory), name.to_owned());
                    return Ok(GrantedFile { directory, place, name, follow, kind });
                }
            }
        }
        Err(Error::from_raw_os_error(libc::ELOOP))
    }

    /// Returns a word for its directory, its name and its kind.
    pub(crate) fn identity(&self) -> OsString {
        let (kind, device) = self.kind;
        let mut word = OsString::from(format!("{:o}:{device}:", kind.as_raw_mode()));
        word.push(&self.place);
        word.push("/");
        word.push(&self.name);
        word
    }

    /// Opens the file that has the name now. It must have the kind that was granted.
    pub(crate) fn open(&self, flags: OFlags) -> Result<(OwnedFd, Stat), Errno> {
        let fd =
            rustix::fs::openat(&*self.directory, &self.name, flags | self.follow | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if kind(&stat) == self.kind { Ok((fd, stat)) } else { Err(Errno::ACCES) }
    }

    /// Says whether the file that has the name now is this device and inode.
    pub(crate) fn is(&self, identity: (u64, u64)) -> bool {
        let now = statat(&*self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        now.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity)
    }
}
