//! The tree of a domain: its root holds the granted directories and files under their guest names.
//!
//! Relative paths start at the domain's working directory. It is a name in this tree and no
//! directory of the host. [`crate::walk`] looks the names up.

use crate::errno::Errno;
use crate::file_system;
use crate::granted_file::GrantedFile;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A directory or a file of the host that is granted to a domain.
#[derive(Clone, Debug)]
pub struct Preopen {
    /// Absolute and normal, without a slash at its end. Empty for the root.
    pub(crate) guest: String,
    pub(crate) root: Root,
    pub(crate) writable: bool,
}

/// The host's side of a grant.
#[derive(Clone, Debug)]
pub(crate) enum Root {
    Directory {
        fd: Arc<OwnedFd>,
        /// Device and inode.
        identity: (u64, u64),
        /// Says whether paths may cross into file systems that are mounted beneath it.
        mounts: bool,
    },
    File(GrantedFile),
}

impl Preopen {
    /// Opens a directory of the host under the name `guest` in the domain. `/data` and `data` are
    /// one name, and `.` and `/` mean the root.
    ///
    /// # Errors
    /// The directory cannot be opened, or lies on a file system of the kernel's own, such as
    /// `/proc`.
    pub fn open(host: &Path, guest: impl AsRef<str>, writable: bool) -> std::io::Result<Preopen> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(host, flags, Mode::empty())?;
        if !file_system::ordinary(&fd).map_err(|Errno(code)| Error::from_raw_os_error(code))? {
            let text = "its file system is not one for ordinary files; grant single files by name";
            return Err(Error::new(ErrorKind::PermissionDenied, text));
        }
        let stat = rustix::fs::fstat(&fd)?;
        let root = Root::Directory { fd: Arc::new(fd), identity: (stat.st_dev, stat.st_ino), mounts: false };
        Ok(Preopen { guest: absolute("", guest.as_ref()), root, writable })
    }

    /// Grants one file of any kind, for example a device or a FIFO.
    ///
    /// The links in its name are followed now. It is opened anew whenever the domain opens it, and
    /// must then be a file of the original kind, or the original device.
    ///
    /// # Errors
    /// There is no such file, or it is a directory.
    pub fn file(host: &Path, guest: impl AsRef<str>, writable: bool) -> std::io::Result<Preopen> {
        Ok(Preopen { guest: absolute("", guest.as_ref()), root: Root::File(GrantedFile::new(host)?), writable })
    }

    /// Returns a word that tells the granted directory or file from others. A process that opens a
    /// grant by its name once more compares it, because the domain may have renamed directories on
    /// the way to it.
    pub fn identity(&self) -> OsString {
        match &self.root {
            Root::Directory { identity: (device, inode), .. } => format!("{device}:{inode}").into(),
            Root::File(file) => file.identity(),
        }
    }

    /// Lets paths cross into file systems that are mounted beneath the directory.
    #[must_use]
    pub fn mounts(mut self, cross: bool) -> Preopen {
        if let Root::Directory { mounts, .. } = &mut self.root {
            *mounts = cross;
        }
        self
    }
}

/// Devices that every program may expect, and whether it may write to them. They lead nowhere.
const DEVICES: [(&str, bool); 3] = [("/dev/null", true), ("/dev/zero", true), ("/dev/full", true)];
/// Devices that give random bytes. What is written to them would reach the kernel.
const RANDOM: [(&str, bool); 2] = [("/dev/urandom", false), ("/dev/random", false)];

/// Returns the grants of a domain, with those devices among them that no grant names. `random` says
/// whether the domain may have random bytes.
pub(crate) fn with_devices(mut preopens: Vec<Preopen>, random: bool) -> Arc<[Preopen]> {
    for (name, writable) in DEVICES.into_iter().chain(RANDOM.into_iter().filter(|_| random)) {
        if preopens.iter().all(|p| p.guest != name)
            && let Ok(preopen) = Preopen::file(Path::new(name), name, writable)
        {
            preopens.push(preopen);
        }
    }
    preopens.into()
}

/// Joins a path to a directory's name, and removes `.` and `..` without looking at files.
pub(crate) fn absolute(directory: &str, path: &str) -> String {
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

/// Joins a path to a directory's name. Removes only the `..` at the beginning. [`crate::walk`]
/// resolves the others, because their meaning after a symbolic link depends on the link.
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

/// The place in the tree from which a path is looked up.
#[derive(Debug)]
pub(crate) enum Start<'t> {
    /// A grant, and the rest of the path.
    Grant(&'t Preopen, String),
    /// A directory above grants, by its name in the domain. Nothing of the path is left.
    Above(String),
}

/// A domain's view of files: its tree and its working directory.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    preopens: Arc<[Preopen]>,
    /// In the form of a preopen's guest name.
    pub working: String,
    pub umask: u32,
}

impl Tree {
    /// Makes a tree with these grants.
    pub(crate) fn new(preopens: Arc<[Preopen]>) -> Tree {
        Tree { preopens, working: String::new(), umask: 0o022 }
    }

    /// Returns the tree for a domain that starts in a directory of it.
    #[must_use]
    pub(crate) fn starting_in(self, working: String) -> Tree {
        Tree { working, ..self }
    }

    /// Finds the grant with the longest name that a path lies beneath, or the directory above
    /// grants that it means.
    pub(crate) fn locate(&self, base: &str, path: &str) -> Result<Start<'_>, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let name = join(base, path);
        let (above, rest) = self.settle(&name);
        if rest.is_empty() {
            return Ok(Start::Above(above));
        }
        let name = format!("{above}/{}", rest.trim_start_matches('/'));
        // Before the preopened directory's name, too, slashes may be doubled and `.` has no
        // meaning.
        let beneath = |preopen: &Preopen| -> Option<String> {
            let mut rest = name.as_str();
            for part in preopen.guest.split('/').filter(|p| !p.is_empty()) {
                rest = skip(rest).strip_prefix(part)?;
                if !rest.is_empty() && !rest.starts_with('/') {
                    return None;
                }
            }
            Some(rest.to_owned())
        };
        let found = self.preopens.iter().filter_map(|p| Some((p, beneath(p)?)));
        let (grant, rest) = found.max_by_key(|(p, _)| p.guest.len()).ok_or(Errno::NOENT)?;
        Ok(Start::Grant(grant, rest))
    }

    /// Resolves the part of a name that lies above the grants, where no file can be a link. Returns
    /// the directory that it leads to, and the rest of the name.
    fn settle<'n>(&self, name: &'n str) -> (String, &'n str) {
        let (mut at, mut rest) = (String::new(), name);
        if !self.is_above(&at) {
            return (at, rest);
        }
        loop {
            rest = skip(rest);
            let (part, after) = rest.split_once('/').unwrap_or((rest, ""));
            let next = format!("{at}/{part}");
            match part {
                ".." => at.truncate(at.rfind('/').unwrap_or(0)),
                _ if !part.is_empty() && self.is_above(&next) => at = next,
                _ => return (at, rest),
            }
            rest = after;
        }
    }

    /// Says whether a name is the root or a directory above a grant. The name must lie beneath no
    /// grant.
    fn is_above(&self, guest: &str) -> bool {
        let beneath = |p: &Preopen| p.guest.strip_prefix(guest).is_some_and(|rest| rest.starts_with('/'));
        self.granted(guest).is_none() && (guest.is_empty() || self.preopens.iter().any(beneath))
    }

    /// Returns all grants.
    pub(crate) fn preopens(&self) -> &[Preopen] {
        &self.preopens
    }

    /// Returns the grant with exactly this name.
    pub(crate) fn granted(&self, guest: &str) -> Option<&Preopen> {
        self.preopens.iter().find(|p| p.guest == guest)
    }

    /// Says whether a directory or a file was granted as read-only, whatever path led to it.
    pub(crate) fn is_read_only(&self, identity: (u64, u64)) -> bool {
        self.preopens.iter().any(|p| !p.writable && p.is(identity))
    }

    /// Says whether the name or the directory is a grant itself, so that its entry must stay.
    pub(crate) fn is_granted(&self, guest: &str, directory: (u64, u64)) -> bool {
        self.preopens.iter().any(|p| p.guest == guest || p.is(directory))
    }
}

impl Preopen {
    pub(crate) fn is(&self, known: (u64, u64)) -> bool {
        match &self.root {
            Root::Directory { identity, .. } => *identity == known,
            Root::File(file) => file.is(known),
        }
    }
}

/// Removes slashes and single dots at the beginning.
fn skip(mut path: &str) -> &str {
    loop {
        path = path.trim_start_matches('/');
        match path.strip_prefix('.') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => path = rest,
            _ => return path,
        }
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
        let preopens = vec![open("/data", false), open("data/deep", true), open("/other", true)];
        let located = |tree: &Tree, path: &str| match tree.locate("", path)? {
            Start::Grant(p, rest) => Ok((rest, p.writable)),
            Start::Above(name) => Ok((format!("above:{name}"), false)),
        };
        let tree = Tree::new(with_devices(preopens, false));
        let rest = |path: &str| located(&tree, path);
        assert_eq!(rest("data/x"), Ok(("/x".into(), false)));
        assert_eq!(rest("//data/.//deep/./x/../y"), Ok(("/./x/../y".into(), true)));
        assert_eq!(rest("/data/deeper"), Ok(("/deeper".into(), false)));
        assert_eq!(rest("/data"), Ok(("".into(), false)));
        assert_eq!(rest("../../other/"), Ok(("/".into(), true)));
        assert_eq!(rest("/etc/passwd"), Err(Errno::NOENT));
        assert_eq!(rest("/datax"), Err(Errno::NOENT));
        assert_eq!(rest(""), Err(Errno::NOENT));
        for (path, name) in [("/", ""), ("//./..", ""), ("dev", "/dev"), ("/dev/../dev/.", "/dev"), ("dev/..", "")] {
            assert_eq!(rest(path), Ok((format!("above:{name}"), false)), "{path}");
        }
        assert_eq!(rest("/dev/../data/x/../y/"), Ok(("/x/../y/".into(), false)));
        assert_eq!(rest("/de"), Err(Errno::NOENT));
        assert_eq!(rest("/none/.."), Err(Errno::NOENT));
        // A directory above one grant and beneath another one is a directory of the host.
        let tree = Tree::new(with_devices(vec![open("/", false), open("/a", false), open("/a/b/c", true)], false));
        assert_eq!(located(&tree, "/dev"), Ok(("/dev".into(), false)));
        assert_eq!(located(&tree, "/a/b"), Ok(("/b".into(), false)));
        assert_eq!(located(&tree, "/.."), Ok(("/..".into(), false)));
        // The walk refuses this later, and resolves it only relative to the directory.
        assert_eq!(rest("/data/../../etc"), Ok(("/../../etc".into(), false)));
        assert_eq!(rest("/dev/null"), Ok(("".into(), true)));
        assert_eq!(rest("/dev/urandom"), Err(Errno::NOENT));
        let tree = Tree::new(with_devices(vec![open("/dev/random", false)], true));
        let rest = |path: &str| located(&tree, path);
        assert_eq!(rest("/dev/urandom"), Ok(("".into(), false)));
        assert_eq!(rest("/dev/random/x"), Ok(("/x".into(), false)), "a grant goes first");
    }

    #[test]
    fn grants_are_told_from_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        ["one", "two"].iter().for_each(|name| std::fs::create_dir(at(name)).expect("made"));
        for name in ["one/file", "one/other", "two/file"] {
            std::fs::write(at(name), "").expect("written");
        }
        std::os::unix::fs::symlink(at("one"), at("link")).expect("a link");
        let directory = |name: &str| Preopen::open(&at(name), "/x", true).expect("a grant").identity();
        let file = |name: &str| Preopen::file(&at(name), "/x", true).expect("a grant").identity();
        assert_eq!((directory("one"), file("one/file")), (directory("link"), file("link/file")));
        assert_ne!(directory("one"), directory("two"));
        assert_ne!(file("one/file"), file("one/other"));
        assert_ne!(file("one/file"), file("two/file"));
        let device = |name: &str| Preopen::file(Path::new(name), "/x", true).expect("a grant").identity();
        assert_eq!(device("/proc/self/status"), device(&format!("/proc/{}/status", std::process::id())));
        assert_ne!(device("/proc/self/status"), device("/proc/1/status"));
        // The host may replace a file as programs do, by one of its kind.
        let before = file("one/file");
        std::fs::rename(at("one/other"), at("one/file")).expect("renamed");
        assert_eq!(file("one/file"), before);
    }

    #[test]
    fn the_kernels_directories_are_not_granted() {
        for path in ["/proc", "/proc/self", "/sys"] {
            let error = Preopen::open(Path::new(path), "/x", false).expect_err(path);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}");
        }
    }
}
