//! Descriptors of a domain: small numbers of its own, each for a descriptor that the host opened.

use crate::errno::Errno;
use std::os::fd::OwnedFd;

/// Most descriptors that a domain may hold.
const LIMIT: usize = 256;

/// What descriptors 0 to 2 are.
#[derive(Debug)]
pub struct Stdio {
    /// Standard input, output, error; `None` is closed.
    pub fds: [Option<OwnedFd>; 3],
}

impl Stdio {
    /// Duplicates of the process's own.
    ///
    /// # Errors
    /// One cannot be duplicated.
    pub fn inherit() -> std::io::Result<Stdio> {
        Ok(Stdio {
            fds: [
                Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?),
                Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?),
                Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?),
            ],
        })
    }
}

/// A domain's descriptor table.
#[derive(Debug)]
pub struct Descriptors {
    table: Vec<Option<OwnedFd>>,
}

impl Descriptors {
    pub fn new(stdio: Stdio) -> Self {
        Descriptors { table: stdio.fds.into_iter().collect() }
    }

    /// The host's descriptor behind a domain's number.
    pub fn get(&self, number: u64) -> Result<&OwnedFd, Errno> {
        let number = usize::try_from(number & 0xffff_ffff).map_err(|_| Errno::BADF)?;
        self.table.get(number).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    /// Takes a descriptor in; gives its number.
    pub fn insert(&mut self, fd: OwnedFd) -> Result<u64, Errno> {
        let free = self.table.iter().position(Option::is_none).unwrap_or(self.table.len());
        if free >= LIMIT {
            return Err(Errno::MFILE);
        }
        if free == self.table.len() {
            self.table.push(None);
        }
        self.table[free] = Some(fd);
        Ok(free as u64)
    }

    pub fn close(&mut self, number: u64) -> Result<u64, Errno> {
        self.get(number)?;
        self.table[number as usize] = None;
        Ok(0)
    }

    pub fn duplicate(&mut self, number: u64) -> Result<u64, Errno> {
        let copy = rustix::io::fcntl_dupfd_cloexec(self.get(number)?, 3)?;
        self.insert(copy)
    }

    /// `fcntl`: duplication and the flags that do nothing here.
    pub fn control(&mut self, number: u64, command: u64, _argument: u64) -> Result<u64, Errno> {
        match command as i32 {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => self.duplicate(number),
            libc::F_GETFD | libc::F_SETFD | libc::F_SETFL => self.get(number).map(|_| 0),
            libc::F_GETFL => Ok(rustix::fs::fcntl_getfl(self.get(number)?)?.bits().into()),
            // Advisory locks: the domain is alone with its files as far as it can tell.
            libc::F_SETLK | libc::F_SETLKW => self.get(number).map(|_| 0),
            _ => Err(Errno::INVAL),
        }
    }
}
