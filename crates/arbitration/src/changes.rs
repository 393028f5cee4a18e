//! Calls that change names, sizes and attributes of files. They work only beneath preopened
//! directories that the domain may change.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::file_system;
use crate::spending::Spending;
use crate::tree::Tree;
use crate::walk::{Found, Intent, Last};
use crate::words::word;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;

pub(crate) fn unlink(path: &Found, flags: u64) -> Result<u64, Errno> {
    let flags = AtFlags::from_bits_retain(flags as u32);
    if flags.intersects(AtFlags::REMOVEDIR.complement()) {
        return Err(Errno::INVAL);
    }
    let (parent, name) = path.entry()?;
    rustix::fs::unlinkat(parent, name, flags)?;
    Ok(0)
}

pub(crate) fn mkdir(path: &Found, umask: u32, mode: u64, spending: &mut Spending) -> Result<u64, Errno> {
    // An existing entry is EEXIST even where the domain may make nothing, because programs create
    // paths from the root on.
    if path.exists() {
        return Err(Errno::EXIST);
    }
    let (parent, name) = path.entry()?;
    spending.create()?;
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode as u32 & 0o777 & !umask))?;
    Ok(0)
}

pub(crate) fn rename(from: &Found, to: &Found, flags: u64) -> Result<u64, Errno> {
    let flags = RenameFlags::from_bits_retain(flags as u32);
    if flags.intersects((RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).complement()) {
        return Err(Errno::INVAL);
    }
    let ((from_parent, from_name), (to_parent, to_name)) = (from.entry()?, to.entry()?);
    rustix::fs::renameat_with(from_parent, from_name, to_parent, to_name, flags)?;
    Ok(0)
}

/// `link`: makes a second name for a regular file that the domain may change, beneath one grant.
pub(crate) fn link(from: &Found, to: &Found, spending: &mut Spending) -> Result<u64, Errno> {
    let ((from_parent, from_name), (to_parent, to_name)) = (from.entry()?, to.entry()?);
    if file_system::kind(from.target()?.1) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    spending.create()?;
    rustix::fs::linkat(from_parent, from_name, to_parent, to_name, AtFlags::empty())?;
    Ok(0)
}

/// `symlink`: the link may name only places beneath its own directory. So links that a domain makes
/// lead no other program out of there.
pub(crate) fn symlink(text: &str, to: &Found, spending: &mut Spending) -> Result<u64, Errno> {
    let (parent, name) = to.entry()?;
    if text.is_empty() {
        return Err(Errno::NOENT);
    }
    if text.starts_with('/') || text.split('/').any(|part| part == "..") {
        return Err(Errno::PERM);
    }
    spending.create()?;
    rustix::fs::symlinkat(text, parent, name)?;
    Ok(0)
}

pub(crate) fn truncate(files: &Descriptors, fd: u64, length: u64, spending: &mut Spending) -> Result<u64, Errno> {
    spending.resize(files.get(fd)?, length)
}

pub(crate) fn truncate_path(path: &Found, length: u64, spending: &mut Spending) -> Result<u64, Errno> {
    spending.resize(&path.open(OFlags::WRONLY, Mode::empty())?.0, length)
}

/// Opens a file whose attributes the domain may change.
fn changeable(path: &Found) -> Result<OwnedFd, Errno> {
    if !path.writable() {
        return Err(Errno::ROFS);
    }
    Ok(path.open(OFlags::RDONLY, Mode::empty())?.0)
}

/// Returns permission bits, without set-user-id, set-group-id and the sticky bit.
fn permissions(mode: u64) -> Mode {
    Mode::from_raw_mode(mode as u32 & 0o777)
}

pub(crate) fn chmod(path: &Found, mode: u64) -> Result<u64, Errno> {
    rustix::fs::fchmod(changeable(path)?, permissions(mode))?;
    Ok(0)
}

pub(crate) fn fchmod(files: &Descriptors, fd: u64, mode: u64) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    if !open.writable {
        return Err(Errno::PERM);
    }
    rustix::fs::fchmod(&open.fd, permissions(mode))?;
    Ok(0)
}

/// `utimensat`: sets the times of a path, or of a descriptor if `path` is 0.
pub(crate) fn set_times(
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
        let found = tree.find(cx, files, (at, path), Last::Follow, Intent::Change)?;
        rustix::fs::futimens(changeable(&found)?, &times)?;
        return Ok(0);
    }
    let open = files.entry(at)?;
    if !open.writable {
        return Err(Errno::PERM);
    }
    rustix::fs::futimens(&open.fd, &times)?;
    Ok(0)
}
