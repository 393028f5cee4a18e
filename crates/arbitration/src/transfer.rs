//! Bytes between descriptors and a domain's memory. Buffers are copied; the kernel never sees a domain's pointer.

use crate::descriptors::{Descriptors, Open};
use crate::errno::Errno;
use crate::word;
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;

/// Most bytes moved by one call; a caller sees a short count and goes on.
const CHUNK: u64 = 1 << 20;
/// Most parts of a vector (`IOV_MAX`).
const PARTS: u64 = 1024;

/// Copies a vector of (pointer, length) in.
pub fn vector(cx: &HostCall<'_>, pointer: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
    if count > PARTS {
        return Err(Errno::INVAL);
    }
    let parts: Vec<(u64, u64)> = (0..count)
        .map(|i| Ok((word(cx, pointer.wrapping_add(16 * i))?, word(cx, pointer.wrapping_add(16 * i + 8))?)))
        .collect::<Result<_, Errno>>()?;
    let total = parts.iter().try_fold(0u64, |sum, (_, length)| sum.checked_add(*length));
    if total.is_none_or(|total| total > i64::MAX as u64) { Err(Errno::INVAL) } else { Ok(parts) }
}

fn bytes_in(cx: &HostCall<'_>, parts: &[(u64, u64)]) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    // An empty part may point anywhere.
    for &(pointer, length) in parts.iter().filter(|(_, length)| *length != 0) {
        let room = CHUNK - bytes.len() as u64;
        bytes.extend(cx.read(pointer, length.min(room) as usize)?);
    }
    Ok(bytes)
}

fn bytes_out(cx: &mut HostCall<'_>, parts: &[(u64, u64)], mut bytes: &[u8]) -> Result<(), Errno> {
    for &(pointer, length) in parts {
        let (now, later) = bytes.split_at(bytes.len().min(length as usize));
        if !now.is_empty() {
            cx.write(pointer, now)?;
        }
        bytes = later;
    }
    Ok(())
}

fn total(parts: &[(u64, u64)]) -> usize {
    parts.iter().map(|(_, length)| *length).fold(0, u64::saturating_add).min(CHUNK) as usize
}

/// Takes from what a domain may still write.
fn charge(left: &mut u64, bytes: &[u8]) -> Result<(), Errno> {
    *left = left.checked_sub(bytes.len() as u64).ok_or(Errno::DQUOT)?;
    Ok(())
}

pub fn write(
    cx: &HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    parts: &[(u64, u64)],
    left: &mut u64,
) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    let bytes = bytes_in(cx, parts)?;
    charge(left, &bytes)?;
    Ok(rustix::io::write(fd, &bytes)? as u64)
}

pub fn pwrite(
    cx: &HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    parts: &[(u64, u64)],
    at: u64,
    left: &mut u64,
) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    let bytes = bytes_in(cx, parts)?;
    charge(left, &bytes)?;
    Ok(rustix::io::pwrite(fd, &bytes, at)? as u64)
}

pub fn read(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, parts: &[(u64, u64)]) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    check_out(cx, parts)?;
    let mut bytes = vec![0; total(parts)];
    let count = rustix::io::read(fd, &mut bytes)?;
    bytes_out(cx, parts, &bytes[..count])?;
    Ok(count as u64)
}

pub fn pread(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, parts: &[(u64, u64)], at: u64) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    check_out(cx, parts)?;
    let mut bytes = vec![0; total(parts)];
    let count = rustix::io::pread(fd, &mut bytes, at)?;
    bytes_out(cx, parts, &bytes[..count])?;
    Ok(count as u64)
}

/// Refuses buffers outside the domain before any byte is taken from a descriptor.
fn check_out(cx: &HostCall<'_>, parts: &[(u64, u64)]) -> Result<(), Errno> {
    let mut room = CHUNK;
    for &(pointer, length) in parts.iter().filter(|(_, length)| *length != 0) {
        let length = length.min(room);
        cx.memory().writable(pointer, length as usize)?;
        room -= length;
    }
    Ok(())
}

/// `pipe2`: a pipe of the domain's own. It has one thread, so nothing ever blocks on it.
pub fn pipe(cx: &mut HostCall<'_>, files: &mut Descriptors, out: u64) -> Result<u64, Errno> {
    use rustix::pipe::PipeFlags;
    cx.memory().writable(out, 8)?;
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let open = |fd: OwnedFd| Open { fd: fd.into(), directory: None, writable: false };
    let read = files.insert(open(read))?;
    let write = match files.insert(open(write)) {
        Ok(write) => write,
        Err(error) => {
            files.close(read)?;
            return Err(error);
        }
    };
    let bytes = [(read as u32).to_le_bytes(), (write as u32).to_le_bytes()].concat();
    cx.write(out, &bytes)?;
    Ok(0)
}

/// `poll` says that everything is ready, as it is for files; reading and writing wait where they must.
pub fn poll(cx: &mut HostCall<'_>, files: &Descriptors, list: u64, count: u64) -> Result<u64, Errno> {
    if count > files.limit() as u64 {
        return Err(Errno::INVAL);
    }
    let mut bytes = cx.read(list, 8 * count as usize)?;
    let mut ready = 0;
    for entry in bytes.chunks_exact_mut(8) {
        let fd = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let asked = i16::from_le_bytes([entry[4], entry[5]]) & (libc::POLLIN | libc::POLLOUT);
        let found = match u64::try_from(fd) {
            Err(_) => 0,
            Ok(fd) if files.get(fd).is_ok() => asked,
            Ok(_) => libc::POLLNVAL,
        };
        entry[6..8].copy_from_slice(&found.to_le_bytes());
        ready += u64::from(found != 0);
    }
    cx.write(list, &bytes)?;
    Ok(ready)
}

/// `getrandom`: at most 256 bytes at a time, as the kernel guarantees.
pub fn random(cx: &mut HostCall<'_>, pointer: u64, length: u64) -> Result<u64, Errno> {
    let mut bytes = vec![0; length.min(256) as usize];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    cx.write(pointer, &bytes[..count])?;
    Ok(count as u64)
}
