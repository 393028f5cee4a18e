//! Paths of a domain: they resolve beneath preopened directories only.

use crate::errno::Errno;
use crate::policy::Policy;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Longest path that a domain may pass, in bytes.
const PATH_LIMIT: usize = 4096;

/// A directory of the host that a domain sees.
#[derive(Debug)]
pub struct Preopen {
    guest: String,
    directory: OwnedFd,
    writable: bool,
}

impl Preopen {
    /// Opens a directory of the host; the domain calls it `guest`: an absolute path, or `.` for relative paths.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(host: &Path, guest: impl Into<String>, writable: bool) -> std::io::Result<Preopen> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(host, flags, Mode::empty())?;
        Ok(Preopen { guest: guest.into(), directory, writable })
    }
}

/// A path of a domain, relative to the preopened directory that it lies beneath.
#[derive(Debug)]
pub struct Located<'p> {
    directory: &'p OwnedFd,
    writable: bool,
    /// Never absolute; may hold `..`, which the kernel keeps beneath the directory.
    rest: String,
}

/// Copies a path out of a domain.
pub fn copy_in(cx: &HostCall<'_>, pointer: u64) -> Result<String, Errno> {
    let bytes = cx.memory().read_c_string(pointer, PATH_LIMIT).map_err(|_| Errno::NAMETOOLONG)?;
    String::from_utf8(bytes).map_err(|_| Errno::NOENT)
}

/// Finds the preopened directory that a path lies beneath: the one with the longest name.
pub fn locate<'p>(policy: &'p Policy, path: &str) -> Result<Located<'p>, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    let beneath = |preopen: &'p Preopen| {
        let rest = if preopen.guest == "." {
            (!path.starts_with('/')).then_some(path)?
        } else {
            let rest = path.strip_prefix(preopen.guest.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))?
        };
        let rest = if rest.is_empty() { "." } else { rest };
        Some(Located { directory: &preopen.directory, writable: preopen.writable, rest: rest.to_owned() })
    };
    policy
        .preopens
        .iter()
        .filter_map(|p| Some((p.guest.len(), beneath(p)?)))
        .max_by_key(|(length, _)| *length)
        .map(|(_, located)| located)
        .ok_or(Errno::NOENT)
}

impl Located<'_> {
    /// Opens the path; `flags` may not leave the directory whatever they say.
    pub fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND);
        if writes && !self.writable {
            return Err(Errno::ACCES);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(self.directory, &*self.rest, flags | OFlags::CLOEXEC, mode, resolve)?)
    }

    /// Opens the directory that holds the last component, to change its entry. The component is a plain name.
    pub fn parent(&self) -> Result<(OwnedFd, String), Errno> {
        if !self.writable {
            return Err(Errno::ACCES);
        }
        let trimmed = self.rest.trim_end_matches('/');
        let (parent, name) = trimmed.rsplit_once('/').unwrap_or((".", trimmed));
        if name.is_empty() || name == "." || name == ".." {
            return Err(Errno::INVAL);
        }
        let parent = if parent.is_empty() { "." } else { parent };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let directory = rustix::fs::openat2(self.directory, parent, flags, Mode::empty(), resolve)?;
        Ok((directory, name.to_owned()))
    }

    /// Whether the domain may change what lies here.
    pub fn writable(&self) -> bool {
        self.writable
    }
}
