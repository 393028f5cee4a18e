//! The host's resources for files that a domain may still use.

use crate::descriptors::Open;
use crate::errno::Errno;
use crate::policy::Quota;
use rustix::fs::OFlags;
use rustix::process::{Resource, getrlimit};

/// The rest of a domain's quota.
#[derive(Debug)]
pub(crate) struct Spending {
    written: u64,
    created: u64,
    /// Size of the largest file that this process may write. The kernel ends the process by a
    /// signal beyond it.
    largest: u64,
}

/// The start of a write in a regular file, and the file's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    start: u64,
    size: u64,
}

impl Extent {
    /// Returns the extent of a write to a file, at its position or at `at`.
    pub(crate) fn of(open: &Open, at: Option<u64>) -> Result<Extent, Errno> {
        let size = rustix::fs::fstat(&open.fd)?.st_size as u64;
        let start = match at {
            _ if rustix::fs::fcntl_getfl(&open.fd)?.contains(OFlags::APPEND) => size,
            Some(at) => at,
            None => rustix::fs::tell(&open.fd)?,
        };
        Ok(Extent { start, size })
    }

    fn end(self, count: u64) -> u64 {
        self.start.saturating_add(count)
    }

    /// Returns the number of bytes, with those of a hole before them.
    fn cost(self, count: u64) -> u64 {
        count.max(self.end(count).saturating_sub(self.size))
    }
}

impl Spending {
    pub(crate) fn new(quota: &Quota) -> Spending {
        let largest = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Spending { written: quota.written, created: quota.created, largest }
    }

    /// Pays for a file, a directory or a link before it is made.
    pub(crate) fn create(&mut self) -> Result<(), Errno> {
        self.created = self.created.checked_sub(1).ok_or(Errno::DQUOT)?;
        Ok(())
    }

    /// Checks that bytes may be written.
    pub(crate) fn allows(&self, count: u64) -> Result<(), Errno> {
        if count > self.written { Err(Errno::DQUOT) } else { Ok(()) }
    }

    /// Pays for bytes that were written.
    pub(crate) fn pay(&mut self, count: u64) {
        self.written = self.written.saturating_sub(count);
    }

    /// Checks that bytes may be written into a file.
    pub(crate) fn allows_in(&self, extent: Extent, count: u64) -> Result<(), Errno> {
        if count > 0 && extent.end(count) > self.largest {
            return Err(Errno(libc::EFBIG));
        }
        self.allows(extent.cost(count))
    }

    /// Pays for bytes that were written into a file.
    pub(crate) fn pay_in(&mut self, extent: Extent, count: u64) {
        if count > 0 {
            self.pay(extent.cost(count));
        }
    }

    /// Gives a file a length, and pays for its growth.
    pub(crate) fn resize(&mut self, fd: &std::os::fd::OwnedFd, length: u64) -> Result<u64, Errno> {
        if length > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        let growth = length.saturating_sub(rustix::fs::fstat(fd)?.st_size as u64);
        if growth > 0 && length > self.largest {
            return Err(Errno(libc::EFBIG));
        }
        self.allows(growth)?;
        rustix::fs::ftruncate(fd, length)?;
        self.pay(growth);
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_cost_what_they_add_to_the_size() {
        let at = |start, size| Extent { start, size };
        assert_eq!(at(0, 0).cost(10), 10);
        assert_eq!(at(0, 100).cost(10), 10);
        assert_eq!(at(95, 100).cost(10), 10);
        assert_eq!(at(100, 100).cost(10), 10);
        assert_eq!(at(1 << 40, 100).cost(1), (1 << 40) + 1 - 100);
        assert_eq!(at(u64::MAX, 0).cost(10), u64::MAX);
        let mut spending = Spending { written: 50, created: 1, largest: 80 };
        assert_eq!(spending.allows_in(at(40, 0), 10), Ok(()));
        assert_eq!(spending.allows_in(at(41, 0), 10), Err(Errno::DQUOT));
        assert_eq!(spending.allows_in(at(71, 71), 10), Err(Errno(libc::EFBIG)));
        spending.pay_in(at(40, 0), 5);
        assert_eq!(spending.written, 5);
        assert_eq!((spending.create(), spending.create()), (Ok(()), Err(Errno::DQUOT)));
    }
}
