//! Descriptors of a domain. It has small numbers of its own for descriptors that the host opened.

use crate::errno::Errno;
use rustix::fs::{FileType, OFlags, Stat};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The descriptors of a domain at its start, by number. `None` is closed.
#[derive(Debug, Default)]
pub struct Stdio {
    /// Usually standard input, output and error.
    pub fds: Vec<Option<OwnedFd>>,
}

impl Stdio {
    /// Duplicates the three standard descriptors of this process.
    ///
    /// # Errors
    /// One cannot be duplicated.
    pub fn inherit() -> std::io::Result<Stdio> {
        Ok(Stdio {
            fds: vec![
                Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?),
                Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?),
                Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?),
            ],
        })
    }
}

/// The kinds of files that differ in how they are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file. Transfers never wait.
    File,
    Directory,
    Pipe,
    Socket,
    /// A terminal or another device.
    Device,
}

impl Kind {
    pub(crate) fn of(stat: &Stat) -> Kind {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => Kind::Socket,
            _ => Kind::Device,
        }
    }

    /// Says whether reading and writing may wait.
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Kind::File | Kind::Directory)
    }
}

/// An open descriptor.
#[derive(Debug)]
pub(crate) struct Open {
    /// Shared with the host's table if the host granted the descriptor.
    pub fd: Arc<OwnedFd>,
    pub kind: Kind,
    /// Says whether the domain asked not to wait. The flag of the host's descriptor stays the
    /// host's.
    pub nonblocking: bool,
    /// The directory's name in the domain, for paths relative to it. `None` for other files.
    pub directory: Option<String>,
    /// Says whether the domain may change the preopened directory that the file came from.
    pub writable: bool,
}

/// The descriptor table of a domain.
#[derive(Debug)]
pub(crate) struct Descriptors {
    table: Vec<Option<Open>>,
    limit: usize,
}

impl Descriptors {
    /// Makes the table of a domain at its start, from the host's descriptors.
    pub(crate) fn new(stdio: &[Option<Arc<OwnedFd>>], limit: usize) -> Self {
        let granted = |fd: &Arc<OwnedFd>| {
            // A descriptor that fstat refuses counts as a device, so the arbiter never waits in a
            // transfer.
            let kind = rustix::fs::fstat(fd).map_or(Kind::Device, |stat| Kind::of(&stat));
            Open { fd: Arc::clone(fd), kind, nonblocking: false, directory: None, writable: false }
        };
        Descriptors { table: stdio.iter().map(|fd| fd.as_ref().map(granted)).collect(), limit }
    }

    /// Returns the number of descriptors that the domain may hold.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn entry(&self, number: u64) -> Result<&Open, Errno> {
        // The kernel takes an `unsigned int` and ignores the upper half of the register.
        self.table.get(number as u32 as usize).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    /// Returns the host's descriptor for a number of the domain.
    pub(crate) fn get(&self, number: u64) -> Result<&OwnedFd, Errno> {
        self.entry(number).map(|open| &*open.fd)
    }

    /// Adds a descriptor. Returns its number, the lowest free one.
    pub(crate) fn insert(&mut self, open: Open) -> Result<u64, Errno> {
        self.insert_from(open, 0)
    }

    /// Fails if the domain may not open another descriptor.
    pub(crate) fn has_room(&self) -> Result<(), Errno> {
        let open = self.table.iter().filter(|open| open.is_some()).count();
        if open < self.limit { Ok(()) } else { Err(Errno::MFILE) }
    }

    fn insert_from(&mut self, open: Open, lowest: usize) -> Result<u64, Errno> {
        let free = (lowest..self.limit).find(|i| self.table.get(*i).is_none_or(Option::is_none));
        let free = free.ok_or(Errno::MFILE)?;
        self.put(free, open);
        Ok(free as u64)
    }

    fn put(&mut self, number: usize, open: Open) {
        if number >= self.table.len() {
            self.table.resize_with(number + 1, || None);
        }
        self.table[number] = Some(open);
    }

    pub(crate) fn close(&mut self, number: u64) -> Result<u64, Errno> {
        self.get(number)?;
        self.table[number as u32 as usize] = None;
        Ok(0)
    }

    fn copy(&self, number: u64) -> Result<Open, Errno> {
        let open = self.entry(number)?;
        let fd = Arc::new(rustix::io::fcntl_dupfd_cloexec(&open.fd, 3)?);
        let Open { kind, nonblocking, writable, .. } = *open;
        Ok(Open { fd, kind, nonblocking, directory: open.directory.clone(), writable })
    }

    /// Opens the file of a descriptor once more, by its name. Unlike the kernel's, the new
    /// descriptor shares its position with the old one, and the file keeps its contents.
    pub(crate) fn reopen(&mut self, number: u64, flags: i32) -> Result<u64, Errno> {
        let mut open = self.copy(number).map_err(|_| Errno::NOENT)?;
        let has = rustix::fs::fcntl_getfl(&open.fd)? & OFlags::ACCMODE;
        let wanted = OFlags::from_bits_retain(flags as u32) & OFlags::ACCMODE;
        if has != wanted && has != OFlags::RDWR {
            return Err(Errno::ACCES);
        }
        if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
            return Err(Errno::EXIST);
        }
        if flags & libc::O_DIRECTORY != 0 && open.directory.is_none() {
            return Err(Errno::NOTDIR);
        }
        open.nonblocking |= flags & libc::O_NONBLOCK != 0;
        self.insert(open)
    }

    pub(crate) fn duplicate(&mut self, number: u64, lowest: u64) -> Result<u64, Errno> {
        let lowest = usize::try_from(lowest as u32).ok().filter(|l| *l < self.limit).ok_or(Errno::INVAL)?;
        let copy = self.copy(number)?;
        self.insert_from(copy, lowest)
    }

    /// `dup2` and `dup3`. `same` says whether both numbers may be equal.
    pub(crate) fn duplicate_to(&mut self, number: u64, to: u64, same: bool) -> Result<u64, Errno> {
        let target = to as u32 as usize;
        if number as u32 == to as u32 {
            self.get(number)?;
            return if same { Ok(target as u64) } else { Err(Errno::INVAL) };
        }
        if target >= self.limit {
            return Err(Errno::BADF);
        }
        let copy = self.copy(number)?;
        self.put(target, copy);
        Ok(target as u64)
    }

    /// `fcntl`: duplicates, and accepts the flags that have no effect here.
    pub(crate) fn control(&mut self, number: u64, command: u64, argument: u64) -> Result<u64, Errno> {
        match command as i32 {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => self.duplicate(number, argument),
            libc::F_GETFD | libc::F_SETFD => self.get(number).map(|_| 0),
            // Of the flags that can change, only this one matters here. The host's descriptor keeps
            // its own flags.
            libc::F_SETFL => {
                let nonblocking = argument as i32 & libc::O_NONBLOCK != 0;
                self.get(number)?;
                self.table[number as u32 as usize].iter_mut().for_each(|open| open.nonblocking = nonblocking);
                Ok(0)
            }
            libc::F_GETFL => {
                let open = self.entry(number)?;
                let mut flags = rustix::fs::fcntl_getfl(&open.fd)?;
                flags.set(OFlags::NONBLOCK, open.nonblocking);
                Ok(flags.bits().into())
            }
            // Advisory locks always succeed, because a domain knows no other user of its files.
            libc::F_SETLK | libc::F_SETLKW => self.get(number).map(|_| 0),
            _ => Err(Errno::INVAL),
        }
    }
}
