//! Files by path and by descriptor: opening them, their attributes, and positions in them.

use crate::clock::Clock;
use crate::descriptors::{Descriptors, Flags, Kind, Open};
use crate::errno::Errno;
use crate::spending::Spending;
use crate::tree::Tree;
use crate::walk::{Found, Intent, Last};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Stat};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;

/// `AT_FDCWD` as an argument.
pub(crate) const CWD: u64 = libc::AT_FDCWD as u64;
/// Size of `struct stat` on x86-64 in bytes.
const STAT_SIZE: usize = 144;
const STATX_SIZE: usize = 256;
/// Flags of `open` that have their effect. Others are refused, O_PATH and O_TMPFILE among them.
const OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_CLOEXEC
    | libc::O_NOFOLLOW
    | libc::O_DIRECTORY
    | libc::O_NONBLOCK
    | libc::O_NOCTTY
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_LARGEFILE;
/// The kernel's own O_LARGEFILE, which libc defines as 0 on 64-bit systems.
const LARGE_FILE: i32 = 0o100_000;

/// Number of attempts to open or make a file that other processes make and remove.
const TRIES: u32 = 100;

/// The request for the size of a terminal's window (Linux, asm-generic/ioctls.h). C libraries
/// declare it with different types.
const WINDOW_SIZE: u64 = 0x5413;

/// Returns the look-up that `open` makes for its path.
fn opening(flags: i32) -> (Last, Intent) {
    let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
    let last = if flags & libc::O_NOFOLLOW != 0 || exclusive { Last::Keep } else { Last::Follow };
    let changes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    (last, if changes { Intent::Change } else { Intent::Read })
}

/// `open`, `openat` and `creat`.
pub(crate) fn open(
    cx: &HostCall<'_>,
    tree: &Tree,
    files: &mut Descriptors,
    path: (u64, u64),
    (flags, mode): (u64, u64),
    spending: &mut Spending,
) -> Result<u64, Errno> {
    let flags = flags as i32;
    if flags & !(OPEN_FLAGS | LARGE_FILE) != 0 {
        return Err(Errno::INVAL);
    }
    if let Some(number) = tree.descriptor(cx, path.1)? {
        return files.reopen(number, flags);
    }
    let (last, intent) = opening(flags);
    if flags & libc::O_CREAT != 0 && flags & libc::O_DIRECTORY != 0 {
        return Err(Errno::INVAL);
    }
    let path = &tree.find(cx, files, path, last, intent)?;
    let umask = tree.umask;
    files.has_room()?;
    let creates = flags & libc::O_CREAT != 0;
    let own = Flags::of(flags);
    let flags = OFlags::from_bits_retain((flags & OPEN_FLAGS) as u32);
    let mode = if creates { Mode::from_raw_mode(mode as u32 & 0o777 & !umask) } else { Mode::empty() };
    let (fd, kind) = open_or_make(path, flags, mode, spending)?;
    let directory = (kind == Kind::Directory).then(|| path.guest.clone());
    files.insert(Open {
        fd: fd.into(),
        kind,
        flags: own,
        alone: false,
        directory,
        writable: path.writable(),
        made: false,
    })
}

/// Opens a file. One that does not exist is paid for before it is made. Another process may make
/// or remove it meanwhile, so no file is made by an open that could find one.
fn open_or_make(path: &Found, flags: OFlags, mode: Mode, spending: &mut Spending) -> Result<(OwnedFd, Kind), Errno> {
    if !flags.contains(OFlags::CREATE) || !path.writable() {
        return path.open(flags, mode);
    }
    let exclusive = flags.contains(OFlags::EXCL);
    if exclusive && path.exists() {
        return Err(Errno::EXIST);
    }
    for _ in 0..TRIES {
        if !exclusive {
            match path.open(flags.difference(OFlags::CREATE), mode) {
                Err(Errno::NOENT) => {}
                Ok((_, Kind::Directory)) => return Err(Errno(libc::EISDIR)),
                result => return result,
            }
        }
        spending.create()?;
        match path.open(flags | OFlags::EXCL, mode) {
            Err(Errno::EXIST) => spending.uncreate()?,
            result => return result,
        }
        if exclusive {
            return Err(Errno::EXIST);
        }
    }
    Err(Errno::AGAIN)
}

/// Returns the attributes of a path, or with `AT_EMPTY_PATH` those of the descriptor.
fn find(
    cx: &HostCall<'_>,
    tree: &Tree,
    files: &Descriptors,
    (at, path): (u64, u64),
    flags: AtFlags,
) -> Result<Stat, Errno> {
    let empty = cx.memory().read_c_string(path, 1).is_ok_and(|p| p.is_empty());
    if empty && flags.contains(AtFlags::EMPTY_PATH) && at as u32 as i32 != libc::AT_FDCWD {
        return Ok(rustix::fs::fstat(files.get(at)?)?);
    }
    if let Some(number) = tree.descriptor(cx, path)? {
        return Ok(rustix::fs::fstat(files.get(number)?)?);
    }
    let last = if flags.contains(AtFlags::SYMLINK_NOFOLLOW) { Last::Keep } else { Last::Follow };
    Ok(*tree.find(cx, files, (at, path), last, Intent::Read)?.target()?.1)
}

pub(crate) fn stat(
    cx: &mut HostCall<'_>,
    tree: &Tree,
    files: &Descriptors,
    path: (u64, u64),
    flags: u64,
    to: Out,
) -> Result<u64, Errno> {
    let stat = find(cx, tree, files, path, AtFlags::from_bits_retain(flags as u32))?;
    put_stat(cx, to, &stat)
}

pub(crate) fn fstat(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, to: Out) -> Result<u64, Errno> {
    let stat = rustix::fs::fstat(files.get(fd)?)?;
    put_stat(cx, to, &stat)
}

/// The address for attributes, and the clock that makes a file's times coarse. The kernel stores
/// them with all digits.
pub(crate) type Out = (u64, Clock);

/// Writes `struct stat` field by field (x86-64: asm/stat.h).
fn put_stat(cx: &mut HostCall<'_>, (out, clock): Out, stat: &Stat) -> Result<u64, Errno> {
    let mut bytes = Vec::with_capacity(STAT_SIZE);
    bytes.extend(stat.st_dev.to_le_bytes());
    bytes.extend(stat.st_ino.to_le_bytes());
    bytes.extend(stat.st_nlink.to_le_bytes());
    bytes.extend(stat.st_mode.to_le_bytes());
    bytes.extend(stat.st_uid.to_le_bytes());
    bytes.extend(stat.st_gid.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(stat.st_rdev.to_le_bytes());
    bytes.extend(stat.st_size.to_le_bytes());
    bytes.extend(stat.st_blksize.to_le_bytes());
    bytes.extend(stat.st_blocks.to_le_bytes());
    for (seconds, nanoseconds) in
        [(stat.st_atime, stat.st_atime_nsec), (stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec)]
    {
        let (seconds, nanoseconds) = clock.coarse(seconds, nanoseconds as i64);
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(nanoseconds.to_le_bytes());
    }
    bytes.resize(STAT_SIZE, 0);
    cx.write(out, &bytes)?;
    Ok(0)
}

/// `statx`: writes the basic fields, from the attributes of `stat`.
pub(crate) fn statx(
    cx: &mut HostCall<'_>,
    tree: &Tree,
    files: &Descriptors,
    path: (u64, u64),
    flags: u64,
    (out, clock): Out,
) -> Result<u64, Errno> {
    /// `STATX_BASIC_STATS`
    const BASIC: u32 = 0x7ff;
    let stat = find(cx, tree, files, path, AtFlags::from_bits_retain(flags as u32))?;
    let mut bytes = Vec::with_capacity(STATX_SIZE);
    bytes.extend(BASIC.to_le_bytes());
    bytes.extend((stat.st_blksize as u32).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend((stat.st_nlink as u32).to_le_bytes());
    bytes.extend(stat.st_uid.to_le_bytes());
    bytes.extend(stat.st_gid.to_le_bytes());
    bytes.extend((stat.st_mode as u16).to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(stat.st_ino.to_le_bytes());
    bytes.extend(stat.st_size.to_le_bytes());
    bytes.extend(stat.st_blocks.to_le_bytes());
    bytes.extend([0; 8]);
    // Access, birth (unknown), change, modification.
    let times = [(stat.st_atime, stat.st_atime_nsec), (0, 0), (stat.st_ctime, stat.st_ctime_nsec)];
    for (seconds, nanoseconds) in times.into_iter().chain([(stat.st_mtime, stat.st_mtime_nsec)]) {
        let (seconds, nanoseconds) = clock.coarse(seconds, nanoseconds as i64);
        bytes.extend(seconds.to_le_bytes());
        bytes.extend((nanoseconds as u32).to_le_bytes());
        bytes.extend([0; 4]);
    }
    for device in [stat.st_rdev, stat.st_dev] {
        bytes.extend(rustix::fs::major(device).to_le_bytes());
        bytes.extend(rustix::fs::minor(device).to_le_bytes());
    }
    bytes.resize(STATX_SIZE, 0);
    cx.write(out, &bytes)?;
    Ok(0)
}

pub(crate) fn seek(files: &Descriptors, fd: u64, offset: u64, whence: u64) -> Result<u64, Errno> {
    let from = match whence as i32 {
        libc::SEEK_SET if offset > i64::MAX as u64 => return Err(Errno::INVAL),
        libc::SEEK_SET => SeekFrom::Start(offset),
        libc::SEEK_CUR => SeekFrom::Current(offset as i64),
        libc::SEEK_END => SeekFrom::End(offset as i64),
        _ => return Err(Errno::INVAL),
    };
    Ok(rustix::fs::seek(files.get(fd)?, from)?)
}

pub(crate) fn sync(files: &Descriptors, fd: u64) -> Result<u64, Errno> {
    rustix::fs::fsync(files.get(fd)?)?;
    Ok(0)
}

/// `access`: existing files may be read and searched. Files may be written only beneath directories
/// that the domain may change.
pub(crate) fn access(path: &Found, mode: u64) -> Result<u64, Errno> {
    let bits = path.target()?.1.st_mode;
    if mode as i32 & libc::W_OK != 0 && !path.writable() {
        return Err(Errno::ROFS);
    }
    if mode as i32 & libc::X_OK != 0 && bits & 0o111 == 0 || mode as i32 & libc::R_OK != 0 && path.is_above() {
        return Err(Errno::ACCES);
    }
    Ok(0)
}

/// `readlink`: returns the text of a link. The text may name any place, because only the look-up
/// decides about access.
pub(crate) fn read_link(path: &Found, cx: &mut HostCall<'_>, out: u64, length: u64) -> Result<u64, Errno> {
    let text = path.link_text()?;
    let text = &text[..text.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
    cx.write(out, text)?;
    Ok(text.len() as u64)
}

/// `ioctl`: answers the size of a terminal's window, with which `isatty` recognises terminals.
pub(crate) fn ioctl(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, request: u64, out: u64) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    if request != WINDOW_SIZE {
        return Err(Errno::NOTTY);
    }
    let size = rustix::termios::tcgetwinsize(fd)?;
    let bytes: Vec<u8> = [size.ws_row, size.ws_col, 0, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    cx.write(out, &bytes)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Quota;
    use crate::tree::Preopen;
    use std::fs;

    /// Another process removes or makes the file after it was looked up.
    #[test]
    fn a_file_is_paid_for_exactly_if_it_is_made() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().join("file");
        let tree = Tree::new(vec![Preopen::open(directory.path(), "/d", true).expect("open")].into());
        let mut spending = Spending::new(&Quota { created: 1, ..Quota::default() });
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let look = || tree.look_up("", "/d/file", Last::Follow, Intent::Change).expect("found");
        let mut open = |path: &Found, flags| open_or_make(path, flags, Mode::RUSR, &mut spending).map(drop);
        let absent = look();
        fs::write(&at, "text").expect("made");
        let present = look();
        // It exists, and costs nothing.
        assert_eq!(open(&absent, flags), Ok(()));
        assert_eq!(open(&absent, flags | OFlags::EXCL), Err(Errno::EXIST));
        assert_eq!(open(&present, flags | OFlags::EXCL), Err(Errno::EXIST));
        assert_eq!(fs::read_to_string(&at).expect("read"), "text");
        fs::remove_file(&at).expect("removed");
        assert_eq!(open(&present, flags), Ok(()));
        fs::remove_file(&at).expect("removed");
        assert_eq!((open(&present, flags), open(&absent, flags)), (Err(Errno::DQUOT), Err(Errno::DQUOT)));
        assert!(!at.exists());
        fs::create_dir(&at).expect("made");
        assert_eq!(open(&present, OFlags::RDONLY | OFlags::CREATE), Err(Errno(libc::EISDIR)));
    }
}
