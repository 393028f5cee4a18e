//! Paths of a domain: they resolve beneath preopened directories only.
//!
//! A domain's paths are names in a tree of its own, whose root holds the preopened directories under their guest names. Relative paths
//! start at the domain's working directory, which is a name in that tree and nothing of the host's.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Longest path that a domain may pass, in bytes.
pub const PATH_LIMIT: usize = 4096;

/// A directory of the host that a domain sees.
#[derive(Debug)]
pub struct Preopen {
    /// Absolute, normal, without a slash at its end: the root is empty.
    guest: String,
    directory: OwnedFd,
    writable: bool,
}

impl Preopen {
    /// Opens a directory of the host; the domain calls it `guest`: `/data` and `data` are the same, `.` and `/` are the root.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(host: &Path, guest: impl AsRef<str>, writable: bool) -> std::io::Result<Preopen> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(host, flags, Mode::empty())?;
        Ok(Preopen { guest: absolute("", guest.as_ref()), directory, writable })
    }
}

/// Joins a path to a directory's name and takes `.` and `..` away by their letters.
pub fn absolute(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let base = if path.starts_with('/') { "" } else { directory };
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| ["/", *part]).collect()
}

/// Joins a path to a directory's name. Only the `..` in front are taken away by their letters; the kernel resolves the others, so that they mean
/// what they mean behind symbolic links.
fn join(directory: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let (mut directory, mut path) = (directory, path);
    while let Some((first, rest)) = path.split_once('/').or((path == "..").then_some(("..", "."))) {
        match first {
            "" | "." => {}
            ".." => directory = directory.rsplit_once('/').map_or("", |(parent, _)| parent),
            _ => break,
        }
        path = rest;
    }
    format!("{directory}/{path}")
}

/// Copies a path out of a domain.
pub fn copy_in(cx: &HostCall<'_>, pointer: u64) -> Result<String, Errno> {
    let bytes = cx.memory().read_c_string(pointer, PATH_LIMIT).map_err(|error| match error {
        sfi_loader::MemoryError::Unterminated { .. } => Errno::NAMETOOLONG,
        _ => Errno::FAULT,
    })?;
    String::from_utf8(bytes).map_err(|_| Errno::NOENT)
}

/// A domain's view of files: its tree and where it is.
#[derive(Debug)]
pub struct Tree {
    preopens: Arc<[Preopen]>,
    /// Like a preopen's guest name.
    pub working: String,
    pub umask: u32,
}

/// A path of a domain, relative to the preopened directory that it lies beneath.
#[derive(Debug)]
pub struct Located<'p> {
    directory: &'p OwnedFd,
    writable: bool,
    /// Never absolute; may hold `..`, which the kernel keeps beneath the directory.
    rest: String,
    /// The whole name in the domain's tree.
    pub name: String,
}

impl Tree {
    pub fn new(preopens: Arc<[Preopen]>) -> Tree {
        Tree { preopens, working: String::new(), umask: 0o022 }
    }

    /// Reads a path at `pointer`, relative to the descriptor `at` of the domain.
    pub fn at(&self, cx: &HostCall<'_>, files: &Descriptors, at: u64, pointer: u64) -> Result<Located<'_>, Errno> {
        let path = copy_in(cx, pointer)?;
        let base = match at as u32 as i32 {
            _ if path.starts_with('/') => "",
            libc::AT_FDCWD => &self.working,
            _ => files.entry(at)?.directory.as_deref().ok_or(Errno::NOTDIR)?,
        };
        self.locate(base, &path)
    }

    /// Finds the preopened directory that a path lies beneath: the one with the longest name.
    pub fn locate(&self, base: &str, path: &str) -> Result<Located<'_>, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let name = join(base, path);
        // Slashes may be doubled, and `.` mean nothing, in front of the preopened directory's name, too.
        let beneath = |preopen: &Preopen| -> Option<String> {
            let mut rest = name.as_str();
            for part in preopen.guest.split('/').filter(|p| !p.is_empty()) {
                rest = skip(rest).strip_prefix(part)?;
                if !rest.is_empty() && !rest.starts_with('/') {
                    return None;
                }
            }
            Some(skip(rest).to_owned())
        };
        let found = self.preopens.iter().filter_map(|p| Some((p, beneath(p)?)));
        let (preopen, rest) = found.max_by_key(|(p, _)| p.guest.len()).ok_or(Errno::NOENT)?;
        let rest = if rest.is_empty() { ".".to_owned() } else { rest };
        Ok(Located { directory: &preopen.directory, writable: preopen.writable, rest, name })
    }
}

/// Leaves slashes and single dots in front out.
fn skip(mut path: &str) -> &str {
    loop {
        path = path.trim_start_matches('/');
        match path.strip_prefix('.') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => path = rest,
            _ => return path,
        }
    }
}

impl Located<'_> {
    /// Opens the path; `flags` may not leave the directory whatever they say.
    pub fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND);
        if writes && !self.writable {
            return Err(Errno::ROFS);
        }
        beneath(self.directory, &self.rest, flags, mode)
    }

    /// Opens the directory that holds the last component, to change its entry. The component is a plain name.
    pub fn parent(&self) -> Result<(OwnedFd, String), Errno> {
        if !self.writable {
            return Err(Errno::ROFS);
        }
        let trimmed = self.rest.trim_end_matches('/');
        let (parent, name) = trimmed.rsplit_once('/').unwrap_or((".", trimmed));
        if name.is_empty() || name == "." || name == ".." {
            return Err(Errno::INVAL);
        }
        let parent = if parent.is_empty() { "." } else { parent };
        let directory = beneath(self.directory, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok((directory, name.to_owned()))
    }

    /// Whether the domain may change what lies here.
    pub fn writable(&self) -> bool {
        self.writable
    }
}

/// The only place that gives the kernel a path of a domain.
fn beneath(directory: &OwnedFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, mode, resolve) {
        // What the kernel says of a path that leaves the directory.
        Err(rustix::io::Errno::XDEV) => Err(Errno::ACCES),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined() {
        assert_eq!(absolute("", "."), "");
        assert_eq!(absolute("/a/b", "../c/./d//"), "/a/c/d");
        assert_eq!(absolute("/a", "../../../x"), "/x");
        assert_eq!(absolute("/a", "/x/y"), "/x/y");
        assert_eq!(join("/a/b", "../c/../d"), "/a/c/../d");
        assert_eq!(join("/a/b", ".."), "/a/.");
        assert_eq!(join("/a", "../../.."), "/.");
        assert_eq!(join("/a", "./x"), "/a/x");
        assert_eq!(join("/a", "x/../.."), "/a/x/../..");
    }

    #[test]
    fn the_longest_name_wins() {
        let here = Path::new(".");
        let open = |guest, writable| Preopen::open(here, guest, writable).expect("opens");
        let tree = Tree::new(vec![open("/data", false), open("data/deep", true), open("/other", true)].into());
        let rest = |path: &str| tree.locate("", path).map(|l| (l.rest, l.writable));
        assert_eq!(rest("data/x"), Ok(("x".into(), false)));
        assert_eq!(rest("//data/.//deep/./x/../y"), Ok(("x/../y".into(), true)));
        assert_eq!(rest("/data/deeper"), Ok(("deeper".into(), false)));
        assert_eq!(rest("/data"), Ok((".".into(), false)));
        assert_eq!(rest("../../other/"), Ok((".".into(), true)));
        assert_eq!(rest("/etc/passwd"), Err(Errno::NOENT));
        assert_eq!(rest("/datax"), Err(Errno::NOENT));
        assert_eq!(rest(""), Err(Errno::NOENT));
        // The kernel refuses these: they stay relative to the directory.
        assert_eq!(rest("/data/../../etc"), Ok(("../../etc".into(), false)));
    }
}
