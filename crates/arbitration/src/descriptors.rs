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

/// The flags of a descriptor that the domain can change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// The domain asked not to wait. The flag of the host's descriptor stays the host's.
    pub nonblocking: bool,
    /// The domain asked that programs which it starts do not get the descriptor. Only `fcntl` shows
    /// it.
    pub cloexec: bool,
}

impl Flags {
    /// Reads the flags of `open` and its like.
    pub(crate) fn of(flags: i32) -> Flags {
        Flags { nonblocking: flags & libc::O_NONBLOCK != 0, cloexec: flags & libc::O_CLOEXEC != 0 }
    }
}

/// An open descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// Shared with the host's table if the host granted the descriptor.
    pub fd: Arc<OwnedFd>,
    pub kind: Kind,
    pub flags: Flags,
    /// Nobody else has the other end, so waiting would never end.
    pub alone: bool,
    /// The directory's name in the domain, for paths relative to it. `None` for other files.
    pub directory: Option<String>,
    /// Says whether the domain may change the preopened directory that the file came from.
    pub writable: bool,
    /// Says whether the domain made the pipe or the socket itself.
    pub made: bool,
}

impl Open {
    /// Says whether a transfer may wait.
    pub(crate) fn waits(&self) -> bool {
        !self.flags.nonblocking && !self.alone
    }
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
            let (flags, fd) = (Flags::default(), Arc::clone(fd));
            Open { fd, kind, flags, alone: false, directory: None, writable: false, made: false }
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
        let flags = Flags { cloexec: false, ..open.flags };
        Ok(Open { fd, flags, ..open.clone() })
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
        let Flags { nonblocking, cloexec } = Flags::of(flags);
        open.flags = Flags { nonblocking: open.flags.nonblocking || nonblocking, cloexec };
        self.insert(open)
    }

    /// `dup`, and `fcntl` with a lowest number.
    pub(crate) fn duplicate(&mut self, number: u64, lowest: u64, cloexec: bool) -> Result<u64, Errno> {
        let lowest = usize::try_from(lowest as u32).ok().filter(|l| *l < self.limit).ok_or(Errno::INVAL)?;
        let mut copy = self.copy(number)?;
        copy.flags.cloexec = cloexec;
        self.insert_from(copy, lowest)
    }

    /// `dup2`, and `dup3` with its flags. Only `dup2` takes one number twice.
    pub(crate) fn duplicate_to(&mut self, number: u64, to: u64, flags: Option<u64>) -> Result<u64, Errno> {
        let target = to as u32 as usize;
        let asked = flags.unwrap_or_default() as i32;
        if asked & !libc::O_CLOEXEC != 0 {
            return Err(Errno::INVAL);
        }
        if number as u32 == to as u32 {
            self.get(number)?;
            return if flags.is_none() { Ok(target as u64) } else { Err(Errno::INVAL) };
        }
        if target >= self.limit {
            return Err(Errno::BADF);
        }
        let mut copy = self.copy(number)?;
        copy.flags.cloexec = asked != 0;
        self.put(target, copy);
        Ok(target as u64)
    }

    /// Returns a table with the same descriptors, for a program that the domain starts.
    pub(crate) fn fork(&self) -> Descriptors {
        Descriptors { table: self.table.clone(), limit: self.limit }
    }

    /// Lets a program that the domain starts have a descriptor as number `to`.
    pub(crate) fn pass_on(&mut self, number: u64, to: u64) -> Result<(), Errno> {
        if number as u32 != to as u32 {
            return self.duplicate_to(number, to, None).map(|_| ());
        }
        self.flags(number)?.cloexec = false;
        Ok(())
    }

    /// Lets transfers at pipes wait, because another process may have their other ends.
    pub(crate) fn share_pipes(&mut self) {
        self.table.iter_mut().flatten().for_each(|open| open.alone = false);
    }

    /// Returns the flags of a descriptor, to change them.
    fn flags(&mut self, number: u64) -> Result<&mut Flags, Errno> {
        self.get(number)?;
        let open = self.table[number as u32 as usize].as_mut();
        open.map(|open| &mut open.flags).ok_or(Errno::BADF)
    }

    /// `fcntl`: duplicates, and accepts the flags that have no effect here.
    pub(crate) fn control(&mut self, number: u64, command: u64, argument: u64) -> Result<u64, Errno> {
        self.get(number)?;
        match command as i32 {
            libc::F_DUPFD => self.duplicate(number, argument, false),
            libc::F_DUPFD_CLOEXEC => self.duplicate(number, argument, true),
            libc::F_GETFD => Ok(if self.entry(number)?.flags.cloexec { libc::FD_CLOEXEC as u64 } else { 0 }),
            libc::F_SETFD => {
                self.flags(number)?.cloexec = argument as i32 & libc::FD_CLOEXEC != 0;
                Ok(0)
            }
            // Of the flags that can change, only this one matters here. The host's descriptor keeps
            // its own flags.
            libc::F_SETFL => {
                self.flags(number)?.nonblocking = argument as i32 & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            libc::F_GETFL => {
                let open = self.entry(number)?;
                let mut flags = rustix::fs::fcntl_getfl(&open.fd)?;
                flags.set(OFlags::NONBLOCK, open.flags.nonblocking);
                Ok(flags.bits().into())
            }
            // Advisory locks always succeed, and lock out nobody, a fork neither. A lock of the
            // host's would let a domain lock out programs of the host.
            libc::F_SETLK | libc::F_SETLKW => Ok(0),
            // Nobody gets signals about a descriptor.
            libc::F_GETOWN => Ok(0),
            _ => Err(Errno::INVAL),
        }
    }
}
