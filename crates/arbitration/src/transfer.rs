//! Bytes between descriptors and a domain's memory. Buffers are copied; the kernel never sees a domain's pointer.

use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::word;
use sfi_loader::HostCall;

/// Most bytes moved by one call; a caller sees a short count and goes on.
const CHUNK: u64 = 1 << 20;
/// Most parts of a vector (`IOV_MAX`).
const PARTS: u64 = 1024;

/// Copies a vector of (pointer, length) in.
pub fn vector(cx: &HostCall<'_>, pointer: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
    if count > PARTS {
        return Err(Errno::INVAL);
    }
    (0..count)
        .map(|i| Ok((word(cx, pointer.wrapping_add(16 * i))?, word(cx, pointer.wrapping_add(16 * i + 8))?)))
        .collect()
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

pub fn write(cx: &HostCall<'_>, files: &Descriptors, fd: u64, parts: &[(u64, u64)]) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    Ok(rustix::io::write(fd, &bytes_in(cx, parts)?)? as u64)
}

pub fn pwrite(cx: &HostCall<'_>, files: &Descriptors, fd: u64, part: (u64, u64), at: u64) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    Ok(rustix::io::pwrite(fd, &bytes_in(cx, &[part])?, at)? as u64)
}

pub fn read(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, parts: &[(u64, u64)]) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    check_out(cx, parts)?;
    let mut bytes = vec![0; total(parts)];
    let count = rustix::io::read(fd, &mut bytes)?;
    bytes_out(cx, parts, &bytes[..count])?;
    Ok(count as u64)
}

pub fn pread(cx: &mut HostCall<'_>, files: &Descriptors, fd: u64, part: (u64, u64), at: u64) -> Result<u64, Errno> {
    let fd = files.get(fd)?;
    check_out(cx, &[part])?;
    let mut bytes = vec![0; total(&[part])];
    let count = rustix::io::pread(fd, &mut bytes, at)?;
    bytes_out(cx, &[part], &bytes[..count])?;
    Ok(count as u64)
}

/// Refuses buffers outside the domain before any byte is taken from a descriptor.
fn check_out(cx: &HostCall<'_>, parts: &[(u64, u64)]) -> Result<(), Errno> {
    for &(pointer, length) in parts.iter().filter(|(_, length)| *length != 0) {
        cx.read(pointer, 1)?;
        cx.read(pointer.wrapping_add(length.min(CHUNK) - 1), 1)?;
    }
    Ok(())
}

/// `getrandom`: at most 256 bytes at a time, as the kernel guarantees.
pub fn random(cx: &mut HostCall<'_>, pointer: u64, length: u64) -> Result<u64, Errno> {
    let mut bytes = vec![0; length.min(256) as usize];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    cx.write(pointer, &bytes[..count])?;
    Ok(count as u64)
}
