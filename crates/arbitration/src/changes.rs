//! What changes names, sizes and attributes of files: only beneath preopened directories that may be changed.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::paths::{Located, Tree};
use crate::word;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;

pub fn unlink(path: &Located<'_>, flags: u64) -> Result<u64, Errno> {
    let flags = AtFlags::from_bits_retain(flags as u32);
    if flags.intersects(AtFlags::REMOVEDIR.complement()) {
        return Err(Errno::INVAL);
    }
    let (parent, name) = path.parent()?;
    rustix::fs::unlinkat(&parent, name, flags)?;
    Ok(0)
}

pub fn mkdir(path: &Located<'_>, umask: u32, mode: u64) -> Result<u64, Errno> {
    // What is there already says so, also where nothing may be made: programs create paths from their roots.
    if path.open(OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).is_ok() {
        return Err(Errno::EXIST);
    }
    let (parent, name) = path.parent()?;
    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode as u32 & 0o777 & !umask))?;
    Ok(0)
}

pub fn rename(from: &Located<'_>, to: &Located<'_>, flags: u64) -> Result<u64, Errno> {
    let flags = RenameFlags::from_bits_retain(flags as u32);
    if flags.intersects((RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).complement()) {
        return Err(Errno::INVAL);
    }
    let (from_parent, from_name) = from.parent()?;
    let (to_parent, to_name) = to.parent()?;
    rustix::fs::renameat_with(&from_parent, from_name, &to_parent, to_name, flags)?;
    Ok(0)
}

pub fn truncate(files: &Descriptors, fd: u64, length: u64) -> Result<u64, Errno> {
    rustix::fs::ftruncate(files.get(fd)?, length)?;
    Ok(0)
}

pub fn truncate_path(path: &Located<'_>, length: u64) -> Result<u64, Errno> {
    let fd = path.open(OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?;
    rustix::fs::ftruncate(&fd, length)?;
    Ok(0)
}

/// A file whose attributes may change: links are not followed out of anything, `openat2` follows them beneath the directory.
fn changeable(located: &Located<'_>) -> Result<OwnedFd, Errno> {
    if !located.writable() {
        return Err(Errno::ROFS);
    }
    located.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())
}

/// Permission bits, without set-user-id and its like.
fn permissions(mode: u64) -> Mode {
    Mode::from_raw_mode(mode as u32 & 0o777)
}

pub fn chmod(path: &Located<'_>, mode: u64) -> Result<u64, Errno> {
    rustix::fs::fchmod(changeable(path)?, permissions(mode))?;
    Ok(0)
}

pub fn fchmod(files: &Descriptors, fd: u64, mode: u64) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    if !open.writable {
        return Err(Errno::PERM);
    }
    rustix::fs::fchmod(&open.fd, permissions(mode))?;
    Ok(0)
}

/// `utimensat`, of a path or (path 0) of a descriptor.
pub fn set_times(
    cx: &HostCall<'_>,
    tree: &Tree,
    files: &Descriptors,
    (at, path): (u64, u64),
    times: u64,
) -> Result<u64, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW };
    let mut both = [now; 2];
    if times != 0 {
        for (i, time) in both.iter_mut().enumerate() {
            let at = times.wrapping_add(16 * i as u64);
            *time = Timespec { tv_sec: word(cx, at)? as i64, tv_nsec: word(cx, at.wrapping_add(8))? as i64 };
        }
    }
    let times = Timestamps { last_access: both[0], last_modification: both[1] };
    if path != 0 {
        rustix::fs::futimens(changeable(&tree.at(cx, files, at, path)?)?, &times)?;
        return Ok(0);
    }
    let open = files.entry(at)?;
    if !open.writable {
        return Err(Errno::PERM);
    }
    rustix::fs::futimens(&open.fd, &times)?;
    Ok(0)
}
