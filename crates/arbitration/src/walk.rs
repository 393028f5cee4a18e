//! Looking up names, one at a time.
//!
//! Only this module passes names of a domain to the kernel. They are single plain names beneath an
//! open directory. The kernel follows no link, and crosses a mount only if the grant allows it. The
//! walk itself resolves `..` and symbolic links, on a stack of open directories. So a program that
//! renames or swaps entries meanwhile cannot lead the walk out of the grants. A link to an absolute
//! name leads to that name in the domain's tree, never in the host's. The walk compares each
//! directory on the way with the grants: one that was granted as read-only is read-only on every
//! path to it. Directories above the grants exist for the domain alone, so that names can be passed
//! part by part from the root on.

use crate::descriptors::Kind;
use crate::errno::Errno;
use crate::file_system;
use crate::granted_file::GrantedFile;
use crate::tree::{Preopen, Root, Start, Tree};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Largest number of directories that are open at a time during a walk.
const DEPTH: usize = 256;
/// Largest number of symbolic links in a walk: the kernel's limit.
const LINKS: usize = 40;

/// The treatment of a symbolic link at the path's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// The purpose of a look-up. For a change, `EROFS` of a read-only grant precedes other errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Change,
}

/// A directory on the way.
#[derive(Clone, Debug)]
struct OpenDirectory {
    fd: Arc<OwnedFd>,
    /// Its name in its parent.
    entry: String,
    /// Its name in the domain's tree. Empty for the root.
    guest: String,
    device: u64,
    writable: bool,
    mounts: bool,
}

impl OpenDirectory {
    /// Returns the directory of a file without one. Nothing can be made in it.
    fn none(file: &OwnedFd, device: u64) -> Result<OpenDirectory, Errno> {
        let fd = Arc::new(rustix::io::fcntl_dupfd_cloexec(file, 3)?);
        Ok(OpenDirectory { fd, entry: String::new(), guest: String::new(), device, writable: false, mounts: false })
    }
}

/// The result of a look-up.
#[derive(Debug)]
pub(crate) struct Found {
    /// The directory that it is opened in. A directory without a parent in the walk is opened as
    /// `.` of itself.
    parent: OpenDirectory,
    name: String,
    /// Says whether the path ended with a slash.
    directory_only: bool,
    /// Says whether it is a grant, so that its entry must stay.
    grant: bool,
    /// The current file of that name, opened with `O_PATH` to examine it.
    target: Option<(OwnedFd, Stat)>,
    /// A file that was granted by name.
    file: Option<GrantedFile>,
    /// Says whether it is a directory above grants, which no directory of the host stands for.
    above: bool,
    /// Says whether the domain may change it.
    writable: bool,
    /// The whole name in the domain's tree, without links.
    pub guest: String,
}

/// Opens a single name in a directory.
fn open_one(place: &OpenDirectory, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    resolve.set(ResolveFlags::NO_XDEV, !place.mounts);
    // With O_PATH a final link is opened itself, which NO_SYMLINKS would forbid. Without O_PATH,
    // O_NOFOLLOW refuses the link.
    resolve.set(ResolveFlags::NO_SYMLINKS, !flags.contains(OFlags::PATH));
    // The kernel refuses a mode without O_CREAT.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    match rustix::fs::openat2(&*place.fd, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode, resolve) {
        // The kernel reports another mount in this way.
        Err(rustix::io::Errno::XDEV) => Err(Errno::ACCES),
        result => Ok(result?),
    }
}

/// Looks `rest` up beneath a grant.
pub(crate) fn walk(tree: &Tree, start: &Preopen, rest: &str, last: Last, intent: Intent) -> Result<Found, Errno> {
    // The entries `.` and `..` cannot be changed.
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
    /// The directories from the grant on. The grant's own is never removed.
    stack: Vec<OpenDirectory>,
    /// Names still to look up, with the next one last.
    todo: Vec<String>,
    links: usize,
}

impl Walk<'_> {
    fn here(&self) -> Result<&OpenDirectory, Errno> {
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
                self.push(OpenDirectory { fd, entry, guest, device, writable, mounts })?;
                Ok(None)
            }
            Root::File(_) if !last => Err(Errno::NOTDIR),
            Root::File(file) => {
                let (fd, stat) = file.open(OFlags::PATH)?;
                let parent = OpenDirectory::none(&fd, stat.st_dev)?;
                let (writable, file) = (grant.writable, Some(file.clone()));
                let found = Found { file, writable, guest, grant: true, ..Found::at(parent, entry, Some((fd, stat))) };
                Ok(Some(found))
            }
        }
    }

    fn push(&mut self, place: OpenDirectory) -> Result<(), Errno> {
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

    /// Looks up one name. The walk ends at an entry that is no directory.
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
                if !text.starts_with('/') {
                    self.later(text);
                    return Ok(None);
                }
                // As under a changed root, this is a name of the domain's own tree. It may lie
                // above the grants, and the rest of the path beneath one.
                let whole = self.todo.drain(..).rev().fold(text.to_owned(), |path, part| path + "/" + &part);
                match self.tree.locate("", &whole)? {
                    Start::Above(name) => Found::above(name).map(Some),
                    Start::Grant(grant, rest) => {
                        self.stack.clear();
                        let found = self.enter(grant, String::new(), rest.is_empty())?;
                        self.later(&rest);
                        Ok(found)
                    }
                }
            }
            FileType::Directory => {
                let writable = here.writable && !self.tree.is_read_only((stat.st_dev, stat.st_ino));
                let (device, mounts) = (stat.st_dev, here.mounts);
                self.push(OpenDirectory { fd: Arc::new(fd), entry: name, guest, device, writable, mounts })?;
                Ok(None)
            }
            _ if !ends => Err(Errno::NOTDIR),
            _ => {
                // A file that was granted as read-only stays so, even if the domain may change the
                // directory around it.
                let grant = here.writable && self.tree.is_read_only((stat.st_dev, stat.st_ino));
                let found = Found::at(here.clone(), name, Some((fd, stat)));
                Ok(Some(Found { grant, writable: found.writable && !grant, ..found }))
            }
        }
    }
}

impl Found {
    fn at(parent: OpenDirectory, name: String, target: Option<(OwnedFd, Stat)>) -> Found {
        let guest = format!("{}/{name}", parent.guest);
        let (writable, file) = (parent.writable, None);
        Found { parent, name, directory_only: false, grant: false, target, file, above: false, writable, guest }
    }

    /// Returns a directory above grants. The domain can pass it, and neither list nor change it.
    pub(crate) fn above(guest: String) -> Result<Found, Errno> {
        // No name leads on from the open file that takes its place.
        let fd = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut stat = rustix::fs::fstat(&fd)?;
        let mut number = DefaultHasher::new();
        guest.hash(&mut number);
        (stat.st_mode, stat.st_nlink) = (libc::S_IFDIR | 0o111, 2);
        (stat.st_dev, stat.st_ino, stat.st_rdev, stat.st_size, stat.st_blocks) = (0, number.finish(), 0, 0, 0);
        (stat.st_atime, stat.st_mtime, stat.st_ctime) = (0, 0, 0);
        (stat.st_atime_nsec, stat.st_mtime_nsec, stat.st_ctime_nsec) = (0, 0, 0);
        let parent = OpenDirectory::none(&fd, 0)?;
        let found = Found::at(parent, String::new(), Some((fd, stat)));
        Ok(Found { above: true, grant: true, guest, ..found })
    }

    /// Says whether it is a directory above grants.
    pub(crate) fn is_above(&self) -> bool {
        self.above
    }

    /// Says whether the file exists.
    pub(crate) fn exists(&self) -> bool {
        self.target.is_some()
    }

    /// Says whether the domain may change it.
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// Returns the file, open for examination, and its attributes.
    pub(crate) fn target(&self) -> Result<(&OwnedFd, &Stat), Errno> {
        let (fd, stat) = self.target.as_ref().ok_or(Errno::NOENT)?;
        if self.directory_only && file_system::kind(stat) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok((fd, stat))
    }

    /// Returns the directory that holds the entry, and the entry's name, for changes of the entry.
    pub(crate) fn entry(&self) -> Result<(&OwnedFd, &str), Errno> {
        // A grant's entry cannot be moved or removed, as with a mount.
        if self.grant {
            return Err(Errno(libc::EBUSY));
        }
        if self.parent.writable { Ok((&self.parent.fd, &self.name)) } else { Err(Errno::ROFS) }
    }

    /// Opens or makes a regular file or a directory, or opens a file that was granted by name.
    /// Never waits.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> Result<(OwnedFd, Kind), Errno> {
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND);
        if writes && !self.writable {
            return Err(Errno::ROFS);
        }
        if self.above {
            return Err(Errno::ACCES);
        }
        // An open never waits for the other end of a FIFO, and takes no controlling terminal.
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

    /// Opens the entry and checks the result, because it may have been swapped since the look-up.
    fn open_quietly(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let open = |more| open_one(&self.parent, &self.name, flags | more, mode);
        // Reading does not change the access time under a read-only grant. The kernel allows
        // O_NOATIME only to a file's owner.
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
        // The check precedes the open, because some devices react to being opened.
        file.open(OFlags::PATH)?;
        let (fd, stat) = file.open(quiet.difference(OFlags::CREATE | OFlags::EXCL))?;
        let kind = Kind::of(&stat);
        if flags.contains(OFlags::TRUNC) && kind == Kind::File {
            rustix::fs::ftruncate(&fd, 0)?;
        }
        Ok((fd, kind))
    }

    /// Returns the directory's name in the domain's tree.
    pub(crate) fn directory(self) -> Result<String, Errno> {
        if file_system::kind(self.target()?.1) == FileType::Directory { Ok(self.guest) } else { Err(Errno::NOTDIR) }
    }

    /// Returns the text of a link.
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
