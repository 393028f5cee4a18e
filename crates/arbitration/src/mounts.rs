//! Places of files in their file systems. A directory that is mounted at several places has one.
//!
//! A domain may write to a file by one mount, and the host may name it by another one. The names
//! have no directory in common then, but their places in the file system have.

use crate::errno::Errno;
use crate::tree::{Preopen, Root};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A place in a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The file system's device, as the kernel prints it.
    device: Vec<u8>,
    /// The name from the file system's root on.
    name: PathBuf,
}

impl Place {
    /// Says whether another place is this one or lies beneath it.
    fn holds(&self, other: &Place) -> bool {
        self.device == other.device && other.name.starts_with(&self.name)
    }
}

/// A directory that is mounted.
#[derive(Debug)]
struct Mount {
    id: u64,
    /// The directory.
    place: Place,
    /// The name under which this process sees it.
    point: PathBuf,
}

impl Mount {
    /// Reads a line of `mountinfo` (proc(5)).
    fn parse(line: &[u8]) -> Option<Mount> {
        let mut words = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let (device, name, point) = (words.nth(1)?.to_vec(), plain(words.next()?), plain(words.next()?));
        Some(Mount { id, place: Place { device, name }, point })
    }
}

/// Returns a name without the kernel's escapes: a backslash and three octal digits.
fn plain(word: &[u8]) -> PathBuf {
    let mut name = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        name.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(name).into()
}

/// Returns this process' name of an open file, and the mount that it was opened by.
fn opened(fd: &OwnedFd) -> Result<(PathBuf, u64), Errno> {
    let number = fd.as_raw_fd();
    let name = rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new())?;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    Ok((OsString::from_vec(name.into_bytes()).into(), id.ok_or(Errno::NOENT)?))
}

/// The mounts that this process sees.
struct Mounts(Vec<Mount>);

impl Mounts {
    fn read() -> Result<Mounts, Errno> {
        let text = std::fs::read("/proc/self/mountinfo")?;
        Ok(Mounts(text.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect()))
    }

    /// Returns the place of an open file. `None`: its mount begins outside of this process' root.
    fn place(&self, fd: &OwnedFd) -> Result<Option<Place>, Errno> {
        let (name, id) = opened(fd)?;
        let find = || {
            let mount = self.0.iter().find(|mount| mount.id == id)?;
            let below = name.strip_prefix(&mount.point).ok()?;
            Some(Place { device: mount.place.device.clone(), name: mount.place.name.join(below) })
        };
        Ok(find())
    }

    /// Returns the places that a domain may write to by a grant of a directory.
    fn written(&self, directory: &OwnedFd, cross: bool) -> Result<Vec<Place>, Errno> {
        let mut places: Vec<Place> = self.place(directory)?.into_iter().collect();
        if cross {
            let (name, _) = opened(directory)?;
            let beneath = self.0.iter().filter(|mount| mount.point.starts_with(&name));
            places.extend(beneath.map(|mount| mount.place.clone()));
        }
        Ok(places)
    }
}

/// Says whether a directory that a domain may write to holds a file, by whatever mount.
pub(crate) fn hold(preopens: &[Preopen], file: &Path) -> Result<bool, Errno> {
    let mounts = Mounts::read()?;
    let file = rustix::fs::open(file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let Some(place) = mounts.place(&file)? else { return Ok(false) };
    for preopen in preopens.iter().filter(|preopen| preopen.writable) {
        if let Root::Directory { fd, mounts: cross, .. } = &preopen.root
            && mounts.written(fd, *cross)?.iter().any(|written| written.holds(&place))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = b"36 35 98:0 /mnt\\0401 /a\\134b\\011 rw,noatime master:1 - ext3 /dev/root rw";
        let mount = Mount::parse(line).expect("a mount");
        let place = |name: &str| Place { device: b"98:0".to_vec(), name: name.into() };
        assert_eq!((mount.id, mount.point), (36, PathBuf::from("/a\\b\t")));
        assert_eq!(mount.place, place("/mnt 1"));
        assert!(mount.place.holds(&place("/mnt 1/x")) && !mount.place.holds(&place("/mnt 12")));
        assert!(!mount.place.holds(&Place { device: b"98:1".to_vec(), name: "/mnt 1".into() }));
        assert!(Mount::parse(b"").is_none() && Mount::parse(b"x 1 2:3 / /").is_none());
        assert_eq!(plain(b"\\04\\9\\"), PathBuf::from("\\04\\9\\"));
    }

    #[test]
    fn a_directory_holds_what_lies_beneath() {
        let top = tempfile::tempdir().expect("a directory");
        let (inner, other) = (top.path().join("inner"), top.path().join("innermost"));
        std::fs::create_dir(&inner).expect("made");
        for file in [inner.join("file"), other.clone()] {
            std::fs::write(file, "").expect("written");
        }
        let grant = |writable| [Preopen::open(&inner, "/x", writable).expect("a grant")];
        assert_eq!(hold(&grant(true), &inner.join("file")), Ok(true));
        assert_eq!(hold(&grant(true), &other), Ok(false));
        assert_eq!(hold(&grant(false), &inner.join("file")), Ok(false));
        assert_eq!(hold(&grant(true), &inner.join("none")), Err(Errno::NOENT));
    }
}
