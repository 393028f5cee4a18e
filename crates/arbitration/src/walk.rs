//! Looking names up, one at a time.
//!
//! Only here the kernel gets names of a domain: single plain names, beneath a directory that is
//! open already, never a link, and never across a mount unless the grant says so. `..` and symbolic
//! links are resolved here, on a stack of open directories. So nobody who renames or swaps entries
//! meanwhile leads the walk out of what was granted, and each directory on the way is held against
//! the grants: one that was granted as read-only is read-only on every way to it.

use crate::descriptors::Kind;
use crate::errno::Errno;
use crate::file_system;
use crate::granted_file::GrantedFile;
use crate::tree::{Preopen, Root, Tree};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most directories that are open at a time during a walk.
const DEPTH: usize = 256;
/// Most symbolic links in a walk, as in the kernel.
const LINKS: usize = 40;

/// Whether a symbolic link at the path's end is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// Whether something is to be changed: then a read-only grant says so before anything else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Change,
}

/// A directory on the way.
#[derive(Clone, Debug)]
struct Place {
    fd: Arc<OwnedFd>,
    /// In its parent.
    entry: String,
    /// In the domain's tree; the root is empty.
    guest: String,
    device: u64,
    writable: bool,
    mounts: bool,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where it is opened. A directory that has no name here is opened as `.` of itself.
    parent: Place,
    name: String,
    /// A slash at the end.
    directory_only: bool,
    /// Whether it is a grant, whose entry stays.
    grant: bool,
    /// What lies there now, for looking at it: opened with `O_PATH`.
    target: Option<(OwnedFd, Stat)>,
    /// A file that was granted by name.
    file: Option<GrantedFile>,
    /// Whether the domain may change it.
    writable: bool,
    /// The whole name in the domain's tree, without links.
    pub guest: String,
}

/// Opens a single name in a directory.
fn open_one(place: &Place, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    resolve.set(ResolveFlags::NO_XDEV, !place.mounts);
    // A final link is opened itself by O_PATH, which NO_SYMLINKS forbids; without O_PATH it is
    // refused by O_NOFOLLOW.
    resolve.set(ResolveFlags::NO_SYMLINKS, !flags.contains(OFlags::PATH));
    // The kernel refuses a mode that would mean nothing.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    match rustix::fs::openat2(&*place.fd, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode, resolve) {
        // What the kernel says of another mount.
        Err(rustix::io::Errno::XDEV) => Err(Errno::ACCES),
        result => Ok(result?),
    }
}

/// Looks `rest` up beneath a grant.
pub(crate) fn walk(tree: &Tree, start: &Preopen, rest: &str, last: Last, intent: Intent) -> Result<Found, Errno> {
    // The entries `.` and `..` are not changed.
    let end = rest.rsplit('/').find(|part| !part.is_empty());
    if intent == Intent::Change && last == Last::Keep && end.is_some_and(|part| part == "." || part == "..") {
        return Err(Errno::INVAL);
    }
    let mut walk = Walk { tree, stack: Vec::new(), todo: Vec::new(), links: 0 };
    if let Some(found) = walk.enter(start, String::new(), rest.is_empty())? {
        return Ok(found);
    }
    walk.later(rest);
    match walk.run(last) {
        Err(_) if intent == Intent::Change && !walk.here().is_ok_and(|place| place.writable) => Err(Errno::ROFS),
        Ok(found) if intent == Intent::Change && !found.writable && !found.grant => Err(Errno::ROFS),
        result => result,
    }
}

struct Walk<'t> {
    tree: &'t Tree,
    /// The directories from the grant on; never empty after the first.
    stack: Vec<Place>,
    /// Names that are to be looked up, the next one last.
    todo: Vec<String>,
    links: usize,
}

impl Walk<'_> {
    fn here(&self) -> Result<&Place, Errno> {
        self.stack.last().ok_or(Errno::NOENT)
    }

    fn later(&mut self, path: &str) {
        self.todo.extend(path.split('/').rev().map(str::to_owned));
    }

    /// Steps into a grant. A file ends the walk.
    fn enter(&mut self, grant: &Preopen, entry: String, last: bool) -> Result<Option<Found>, Errno> {
        let guest = grant.guest.clone();
        match &grant.root {
            Root::Directory { fd, identity, mounts } => {
                let (fd, device, writable, mounts) = (Arc::clone(fd), identity.0, grant.writable, *mounts);
                self.push(Place { fd, entry, guest, device, writable, mounts })?;
                Ok(None)
            }
            Root::File(_) if !last => Err(Errno::NOTDIR),
            Root::File(file) => {
                let (fd, stat) = file.open(OFlags::PATH)?;
                let parent = Place {
                    fd: Arc::new(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?),
                    entry: String::new(),
                    guest: String::new(),
                    device: stat.st_dev,
                    writable: false,
                    mounts: false,
                };
                let (writable, file) = (grant.writable, Some(file.clone()));
                let found = Found { file, writable, guest, grant: true, ..Found::at(parent, entry, Some((fd, stat))) };
                Ok(Some(found))
            }
        }
    }

    fn push(&mut self, place: Place) -> Result<(), Errno> {
        if self.stack.len() >= DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        self.stack.push(place);
        Ok(())
    }

    fn run(&mut self, last: Last) -> Result<Found, Errno> {
        let mut directory_only = false;
        while let Some(name) = self.todo.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." if self.stack.len() == 1 => return Err(Errno::ACCES),
                ".." => {
                    self.stack.pop();
                    continue;
                }
                _ => {}
            }
            let ends = self.todo.iter().all(|part| part.is_empty() || part == ".");
            directory_only = ends && !self.todo.is_empty();
            let follow = last == Last::Follow || directory_only;
            if let Some(found) = self.step(name, ends, follow)? {
                return Ok(Found { directory_only, ..found });
            }
        }
        let place = self.stack.pop().ok_or(Errno::NOENT)?;
        let stat = rustix::fs::fstat(&*place.fd)?;
        let target = Some((rustix::io::fcntl_dupfd_cloexec(&*place.fd, 3)?, stat));
        let grant = self.tree.is_granted(&place.guest, (stat.st_dev, stat.st_ino));
        let (guest, entry, writable) = (place.guest.clone(), place.entry.clone(), place.writable);
        let found = match self.stack.pop() {
            Some(parent) if !grant => Found::at(parent, entry, target),
            _ => Found::at(place, ".".into(), target),
        };
        Ok(Found { guest, grant, writable, directory_only, ..found })
    }

    /// Takes one name. The walk ends at whatever is no directory to go on from.
    fn step(&mut self, name: String, ends: bool, follow: bool) -> Result<Option<Found>, Errno> {
        let here = self.here()?;
        let guest = format!("{}/{name}", here.guest);
        if let Some(grant) = self.tree.granted(&guest) {
            return self.enter(grant, name, ends);
        }
        let fd = match open_one(here, &name, OFlags::PATH, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) if ends => return Ok(Some(Found::at(here.clone(), name, None))),
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_dev != here.device && !file_system::ordinary(&fd)? {
            return Err(Errno::ACCES);
        }
        match file_system::kind(&stat) {
            FileType::Symlink if follow || !ends => {
                self.links += 1;
                let text = rustix::fs::readlinkat(&fd, "", Vec::new())?;
                let text = text.to_str().map_err(|_| Errno::NOENT)?;
                if self.links > LINKS {
                    return Err(Errno(libc::ELOOP));
                }
                if text.starts_with('/') {
                    return Err(Errno::ACCES);
                }
                self.later(text);
                Ok(None)
            }
            FileType::Directory => {
                let writable = here.writable && !self.tree.is_read_only((stat.st_dev, stat.st_ino));
                let (device, mounts) = (stat.st_dev, here.mounts);
                self.push(Place { fd: Arc::new(fd), entry: name, guest, device, writable, mounts })?;
                Ok(None)
            }
            _ if !ends => Err(Errno::NOTDIR),
            _ => {
                // A file that was granted as read-only stays as it is, also where the domain may
                // change the directory around it.
                let grant = here.writable && self.tree.is_read_only((stat.st_dev, stat.st_ino));
                let found = Found::at(here.clone(), name, Some((fd, stat)));
                Ok(Some(Found { grant, writable: found.writable && !grant, ..found }))
            }
        }
    }
}

impl Found {
    fn at(parent: Place, name: String, target: Option<(OwnedFd, Stat)>) -> Found {
        let guest = format!("{}/{name}", parent.guest);
        let (writable, file) = (parent.writable, None);
        Found { parent, name, directory_only: false, grant: false, target, file, writable, guest }
    }

    /// Whether something lies there.
    pub(crate) fn exists(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the domain may change what lies here.
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// What lies there, for looking at it.
    pub(crate) fn target(&self) -> Result<(&OwnedFd, &Stat), Errno> {
        let (fd, stat) = self.target.as_ref().ok_or(Errno::NOENT)?;
        if self.directory_only && file_system::kind(stat) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok((fd, stat))
    }

    /// The directory that holds the entry, and the entry's name, to change it.
    pub(crate) fn entry(&self) -> Result<(&OwnedFd, &str), Errno> {
        // What was granted stays where it is, as a mount does.
        if self.grant {
            return Err(Errno(libc::EBUSY));
        }
        if self.parent.writable { Ok((&self.parent.fd, &self.name)) } else { Err(Errno::ROFS) }
    }

    /// Opens what lies there, or makes it: a regular file or a directory, or the file that was
    /// granted by name. Never waits.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> Result<(OwnedFd, Kind), Errno> {
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND);
        if writes && !self.writable {
            return Err(Errno::ROFS);
        }
        // Nobody waits for the other end of a FIFO, and no terminal becomes this process's.
        let quiet = flags.difference(OFlags::TRUNC) | OFlags::NONBLOCK | OFlags::NOCTTY;
        if let Some(file) = &self.file {
            return self.open_file(file, quiet, flags);
        }
        if let Some((_, stat)) = &self.target {
            file_system::plain(stat)?;
        }
        let quiet = if self.directory_only { quiet | OFlags::DIRECTORY } else { quiet };
        let fd = self.open_quietly(quiet, mode)?;
        if flags.contains(OFlags::TRUNC) {
            if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
                rustix::fs::ftruncate(&fd, 0)?;
            } else {
                rustix::fs::ftruncate(self.open_quietly(OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?, 0)?;
            }
        }
        let kind = Kind::of(&rustix::fs::fstat(&fd)?);
        Ok((fd, kind))
    }

    /// Opens it and looks at what was opened: it may be another than the one that was found.
    fn open_quietly(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let open = |more| open_one(&self.parent, &self.name, flags | more, mode);
        // Reading leaves no trace under a read-only grant. The kernel allows that to a file's owner
        // only.
        let fd = match if self.writable { Err(Errno::PERM) } else { open(OFlags::NOATIME) } {
            Err(Errno::PERM) => open(OFlags::empty())?,
            result => result?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        file_system::plain(&stat)?;
        let known = stat.st_dev == self.parent.device || file_system::ordinary(&fd)?;
        if known { Ok(fd) } else { Err(Errno::ACCES) }
    }

    /// Opens a file that was granted by name.
    fn open_file(&self, file: &GrantedFile, quiet: OFlags, flags: OFlags) -> Result<(OwnedFd, Kind), Errno> {
        if flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return Err(Errno::EXIST);
        }
        if flags.contains(OFlags::DIRECTORY) || self.directory_only {
            return Err(Errno::NOTDIR);
        }
        // Looked at before: some devices notice that they are opened.
        file.open(OFlags::PATH)?;
        let (fd, stat) = file.open(quiet.difference(OFlags::CREATE | OFlags::EXCL))?;
        let kind = Kind::of(&stat);
        if flags.contains(OFlags::TRUNC) && kind == Kind::File {
            rustix::fs::ftruncate(&fd, 0)?;
        }
        Ok((fd, kind))
    }

    /// The directory's name in the domain's tree.
    pub(crate) fn directory(self) -> Result<String, Errno> {
        if file_system::kind(self.target()?.1) == FileType::Directory { Ok(self.guest) } else { Err(Errno::NOTDIR) }
    }

    /// The text of a link.
    pub(crate) fn link_text(&self) -> Result<Vec<u8>, Errno> {
        let (fd, stat) = self.target()?;
        if file_system::kind(stat) != FileType::Symlink {
            return Err(Errno::INVAL);
        }
        Ok(rustix::fs::readlinkat(fd, "", Vec::new())?.into_bytes())
    }
}

#[cfg(test)]
mod tests;
