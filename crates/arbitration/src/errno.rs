//! Error numbers that a domain gets.

use sfi_loader::MemoryError;

/// A Linux error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

impl Errno {
    pub(crate) const PERM: Errno = Errno(libc::EPERM);
    pub(crate) const NOENT: Errno = Errno(libc::ENOENT);
    pub(crate) const BADF: Errno = Errno(libc::EBADF);
    pub(crate) const NOMEM: Errno = Errno(libc::ENOMEM);
    pub(crate) const ACCES: Errno = Errno(libc::EACCES);
    pub(crate) const FAULT: Errno = Errno(libc::EFAULT);
    pub(crate) const INTR: Errno = Errno(libc::EINTR);
    pub(crate) const INVAL: Errno = Errno(libc::EINVAL);
    pub(crate) const MFILE: Errno = Errno(libc::EMFILE);
    pub(crate) const NOTTY: Errno = Errno(libc::ENOTTY);
    pub(crate) const NOTDIR: Errno = Errno(libc::ENOTDIR);
    pub(crate) const ROFS: Errno = Errno(libc::EROFS);
    pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);
    pub(crate) const SRCH: Errno = Errno(libc::ESRCH);
    pub(crate) const EXIST: Errno = Errno(libc::EEXIST);
    pub(crate) const DQUOT: Errno = Errno(libc::EDQUOT);
    pub(crate) const TIMEDOUT: Errno = Errno(libc::ETIMEDOUT);
    pub(crate) const RANGE: Errno = Errno(libc::ERANGE);
    pub(crate) const NAMETOOLONG: Errno = Errno(libc::ENAMETOOLONG);
    pub(crate) const NOSYS: Errno = Errno(libc::ENOSYS);
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
