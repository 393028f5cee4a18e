//! Error numbers as a domain sees them.

use sfi_loader::MemoryError;

/// A Linux error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const PERM: Errno = Errno(libc::EPERM);
    pub const NOENT: Errno = Errno(libc::ENOENT);
    pub const BADF: Errno = Errno(libc::EBADF);
    pub const NOMEM: Errno = Errno(libc::ENOMEM);
    pub const ACCES: Errno = Errno(libc::EACCES);
    pub const FAULT: Errno = Errno(libc::EFAULT);
    pub const INVAL: Errno = Errno(libc::EINVAL);
    pub const MFILE: Errno = Errno(libc::EMFILE);
    pub const NOTTY: Errno = Errno(libc::ENOTTY);
    pub const NOTDIR: Errno = Errno(libc::ENOTDIR);
    pub const ROFS: Errno = Errno(libc::EROFS);
    pub const AGAIN: Errno = Errno(libc::EAGAIN);
    pub const SRCH: Errno = Errno(libc::ESRCH);
    pub const EXIST: Errno = Errno(libc::EEXIST);
    pub const DQUOT: Errno = Errno(libc::EDQUOT);
    pub const TIMEDOUT: Errno = Errno(libc::ETIMEDOUT);
    pub const RANGE: Errno = Errno(libc::ERANGE);
    pub const NAMETOOLONG: Errno = Errno(libc::ENAMETOOLONG);
    pub const NOSYS: Errno = Errno(libc::ENOSYS);
}

impl From<MemoryError> for Errno {
    fn from(_: MemoryError) -> Self {
        Errno::FAULT
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Self {
        Errno(error.raw_os_error())
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}
