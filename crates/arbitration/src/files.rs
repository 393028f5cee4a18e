//! Files by path and by descriptor.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::paths::{copy_in, locate};
use crate::policy::Policy;
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Stat};
use sfi_loader::HostCall;

/// `AT_FDCWD` in the lower half of a register.
const CWD: u32 = libc::AT_FDCWD as u32;
/// Size of `struct stat` on x86-64.
const STAT_SIZE: usize = 144;
/// Flags of `open` that mean what they say; others are refused (O_PATH and O_TMPFILE among them).
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
    | libc::O_LARGEFILE;
/// The kernel's own O_LARGEFILE, which libc hides on 64-bit.
const LARGE_FILE: i32 = 0o100_000;

pub fn open(
    cx: &HostCall<'_>,
    policy: &Policy,
    files: &mut Descriptors,
    path: u64,
    flags: u64,
    mode: u64,
) -> Result<u64, Errno> {
    let path = copy_in(cx, path)?;
    let flags = flags as i32;
    if flags & !(OPEN_FLAGS | LARGE_FILE) != 0 {
        return Err(Errno::INVAL);
    }
    let creates = flags & libc::O_CREAT != 0;
    let flags = OFlags::from_bits_retain((flags & OPEN_FLAGS) as u32) | OFlags::NOCTTY;
    let mode = if creates { Mode::from_raw_mode(mode as u32 & 0o777) } else { Mode::empty() };
    files.insert(locate(policy, &path)?.open(flags, mode)?)
}

pub fn open_at(
    cx: &HostCall<'_>,
    policy: &Policy,
    files: &mut Descriptors,
    directory: u64,
    path: u64,
    (flags, mode): (u64, u64),
) -> Result<u64, Errno> {
    at_cwd(directory)?;
    open(cx, policy, files, path, flags, mode)
}

/// Calls relative to a directory's descriptor are not granted.
fn at_cwd(directory: u64) -> Result<(), Errno> {
    if directory as u32 == CWD { Ok(()) } else { Err(Errno::BADF) }
}

pub fn stat(cx: &mut HostCall<'_>, policy: &Policy, path: u64, out: u64, follow: bool) -> Result<u64, Errno> {
    let path = copy_in(cx, path)?;
    let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
    let fd = locate(policy, &path)?.open(flags, Mode::empty())?;
    put_stat(cx, out, &rustix::fs::fstat(&fd)?)
}

pub fn stat_at(
    cx: &mut HostCall<'_>,
    policy: &Policy,
    files: &Descriptors,
    directory: u64,
    path: u64,
    (out, flags): (u64, u64),
) -> Result<u64, Errno> {
    let flags = AtFlags::from_bits_retain(flags as u32);
    if flags.contains(AtFlags::EMPTY_PATH) && cx.memory().read_c_string(path, 1).is_ok_and(|p| p.is_empty()) {
        return fstat(cx, files, directory, out);
    }
    at_cwd(directory)?;
    stat(cx, policy, path, out, !flags.contains(AtFlags::SYMLINK_NOFOLLOW))
}

pub fn fstat(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, out: u64) -> Result<u64, Errno> {
    let stat = rustix::fs::fstat(files.get(fd)?)?;
    put_stat(cx, out, &stat)
}

/// Writes `struct stat` field by field (x86-64: asm/stat.h).
fn put_stat(cx: &mut HostCall<'_>, out: u64, stat: &Stat) -> Result<u64, Errno> {
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
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(nanoseconds.to_le_bytes());
    }
    bytes.resize(STAT_SIZE, 0);
    cx.write(out, &bytes)?;
    Ok(0)
}

pub fn seek(files: &Descriptors, fd: u64, offset: u64, whence: u64) -> Result<u64, Errno> {
    let from = match whence as i32 {
        libc::SEEK_SET => SeekFrom::Start(offset),
        libc::SEEK_CUR => SeekFrom::Current(offset as i64),
        libc::SEEK_END => SeekFrom::End(offset as i64),
        _ => return Err(Errno::INVAL),
    };
    rustix::fs::seek(files.get(fd)?, from).map_err(|error| match error {
        rustix::io::Errno::SPIPE => Errno::SPIPE,
        other => other.into(),
    })
}

pub fn truncate(files: &Descriptors, fd: u64, length: u64) -> Result<u64, Errno> {
    rustix::fs::ftruncate(files.get(fd)?, length)?;
    Ok(0)
}

pub fn sync(files: &Descriptors, fd: u64) -> Result<u64, Errno> {
    rustix::fs::fsync(files.get(fd)?)?;
    Ok(0)
}

pub fn access(cx: &HostCall<'_>, policy: &Policy, path: u64, mode: u64) -> Result<u64, Errno> {
    let path = copy_in(cx, path)?;
    let located = locate(policy, &path)?;
    located.open(OFlags::PATH, Mode::empty())?;
    if mode as i32 & libc::W_OK != 0 && !located.writable() {
        return Err(Errno::ACCES);
    }
    Ok(0)
}

pub fn access_at(cx: &HostCall<'_>, policy: &Policy, directory: u64, path: u64, mode: u64) -> Result<u64, Errno> {
    at_cwd(directory)?;
    access(cx, policy, path, mode)
}

pub fn unlink(cx: &HostCall<'_>, policy: &Policy, path: u64, directory: bool) -> Result<u64, Errno> {
    let path = copy_in(cx, path)?;
    let (parent, name) = locate(policy, &path)?.parent()?;
    let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    rustix::fs::unlinkat(&parent, name, flags)?;
    Ok(0)
}

pub fn mkdir(cx: &HostCall<'_>, policy: &Policy, path: u64, mode: u64) -> Result<u64, Errno> {
    let path = copy_in(cx, path)?;
    let (parent, name) = locate(policy, &path)?.parent()?;
    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode as u32 & 0o777))?;
    Ok(0)
}

pub fn rename(cx: &HostCall<'_>, policy: &Policy, from: u64, to: u64) -> Result<u64, Errno> {
    let (from, to) = (copy_in(cx, from)?, copy_in(cx, to)?);
    let (from_parent, from_name) = locate(policy, &from)?.parent()?;
    let (to_parent, to_name) = locate(policy, &to)?.parent()?;
    rustix::fs::renameat(&from_parent, from_name, &to_parent, to_name)?;
    Ok(0)
}

/// The domain's working directory has no name but this one.
pub fn getcwd(cx: &mut HostCall<'_>, pointer: u64, length: u64) -> Result<u64, Errno> {
    if length < 2 {
        return Err(Errno::RANGE);
    }
    cx.write(pointer, b"/\0")?;
    Ok(2)
}
