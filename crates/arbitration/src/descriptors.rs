//! Descriptors of a domain: small numbers of its own, each for a descriptor that the host opened.

use crate::errno::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What a domain's descriptors are when it starts, by number; `None` is closed.
#[derive(Debug, Default)]
pub struct Stdio {
    /// Usually standard input, output and error.
    pub fds: Vec<Option<OwnedFd>>,
}

impl Stdio {
    /// Duplicates of the process's own three.
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

/// An open descriptor.
#[derive(Debug)]
pub struct Open {
    /// Shared with the host's own table where the host gave it.
    pub fd: Arc<OwnedFd>,
    /// The directory's name in the domain, to resolve paths relative to it. `None`: not a directory.
    pub directory: Option<String>,
    /// Whether the preopened directory that it came from may be changed.
    pub writable: bool,
}

/// A domain's descriptor table.
#[derive(Debug)]
pub struct Descriptors {
    table: Vec<Option<Open>>,
    limit: usize,
}

impl Descriptors {
    /// A table as a domain finds it at its start, with the host's descriptors.
    pub fn new(stdio: &[Option<Arc<OwnedFd>>], limit: usize) -> Self {
        let granted = |fd: &Arc<OwnedFd>| Open { fd: Arc::clone(fd), directory: None, writable: false };
        Descriptors { table: stdio.iter().map(|fd| fd.as_ref().map(granted)).collect(), limit }
    }

    /// How many a domain may hold.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn entry(&self, number: u64) -> Result<&Open, Errno> {
        // The kernel takes an `unsigned int`: the upper half of the register is nothing.
        self.table.get(number as u32 as usize).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    /// The host's descriptor behind a domain's number.
    pub fn get(&self, number: u64) -> Result<&OwnedFd, Errno> {
        self.entry(number).map(|open| &*open.fd)
    }

    /// Takes a descriptor in; gives the lowest free number.
    pub fn insert(&mut self, open: Open) -> Result<u64, Errno> {
        self.insert_from(open, 0)
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

    pub fn close(&mut self, number: u64) -> Result<u64, Errno> {
        self.get(number)?;
        self.table[number as u32 as usize] = None;
        Ok(0)
    }

    fn copy(&self, number: u64) -> Result<Open, Errno> {
        let open = self.entry(number)?;
        let fd = Arc::new(rustix::io::fcntl_dupfd_cloexec(&open.fd, 3)?);
        Ok(Open { fd, directory: open.directory.clone(), writable: open.writable })
    }

    pub fn duplicate(&mut self, number: u64, lowest: u64) -> Result<u64, Errno> {
        let lowest = usize::try_from(lowest as u32).ok().filter(|l| *l < self.limit).ok_or(Errno::INVAL)?;
        let copy = self.copy(number)?;
        self.insert_from(copy, lowest)
    }

    /// `dup2` and `dup3`; `same` is whether both numbers may be equal.
    pub fn duplicate_to(&mut self, number: u64, to: u64, same: bool) -> Result<u64, Errno> {
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

    /// `fcntl`: duplication and the flags that do nothing here.
    pub fn control(&mut self, number: u64, command: u64, argument: u64) -> Result<u64, Errno> {
        match command as i32 {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => self.duplicate(number, argument),
            libc::F_GETFD | libc::F_SETFD | libc::F_SETFL => self.get(number).map(|_| 0),
            libc::F_GETFL => Ok(rustix::fs::fcntl_getfl(self.get(number)?)?.bits().into()),
            // Advisory locks: the domain is alone with its files as far as it can tell.
            libc::F_SETLK | libc::F_SETLKW => self.get(number).map(|_| 0),
            _ => Err(Errno::INVAL),
        }
    }
}
