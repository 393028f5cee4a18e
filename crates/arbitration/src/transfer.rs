//! Bytes between descriptors and a domain's memory. Buffers are copied, so the kernel never gets a
//! domain's pointer.

use crate::descriptors::{Descriptors, Flags, Kind, Open};
use crate::errno::Errno;
use crate::patience::Patience;
use crate::spending::{Extent, Spending};
use crate::wait;
use crate::words::word;
use rustix::event::PollFlags;
use rustix::io::{ReadWriteFlags, preadv2, pwritev2};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sfi_loader::HostCall;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

/// Largest number of bytes in one call. The caller sees a short count and goes on.
pub(crate) const CHUNK: u64 = 1 << 20;
/// Largest number of parts of a vector (`IOV_MAX`).
const PARTS: u64 = 1024;

/// Copies a vector of (pointer, length) from the domain.
pub(crate) fn vector(cx: &HostCall<'_>, pointer: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
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
    // An empty part may have any pointer.
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

/// Largest number of bytes in one write to a descriptor that may wait. A pipe that is ready takes
/// this number without waiting (`PIPE_BUF`).
const PART: usize = 4096;

pub(crate) fn write(
    cx: &HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    parts: &[(u64, u64)],
    spending: &mut Spending,
    longest: Patience,
) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    let bytes = bytes_in(cx, parts)?;
    if open.kind.waits() {
        return spending.write(bytes.len() as u64, || push(open, &bytes, longest));
    }
    spending.write_in(|| Extent::of(open, None), bytes.len() as u64, || Ok(rustix::io::write(&open.fd, &bytes)? as u64))
}

/// Writes to a descriptor that may wait, part by part.
fn push(open: &Open, bytes: &[u8], longest: Patience) -> Result<u64, Errno> {
    let end = longest.begin();
    let mut done = 0;
    while done < bytes.len() {
        let part = &bytes[done..bytes.len().min(done + PART)];
        match wait::ready(open, PollFlags::OUT, &end).and_then(|events| push_part(open, part, events)) {
            Ok(count) => done += count,
            // Another process was faster.
            Err(Errno::AGAIN) if open.waits() && !end.is_over() => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done as u64)
}

/// Writes a part. A pipe without a reader and a closed socket are errors, and send the host no
/// signal.
fn push_part(open: &Open, part: &[u8], events: PollFlags) -> Result<usize, Errno> {
    match open.kind {
        Kind::Pipe if events.contains(PollFlags::ERR) => Err(Errno(libc::EPIPE)),
        Kind::Socket => Ok(send(&open.fd, part, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?),
        _ => now(|flags| pwritev2(&open.fd, &[IoSlice::new(part)], POSITION, flags)),
    }
}

/// The place of a transfer at the descriptor's position.
const POSITION: u64 = u64::MAX;

/// Transfers bytes without waiting, also if another process fills or empties a pipe after `poll`.
/// Terminals have no transfer that does not wait.
fn now(mut transfer: impl FnMut(ReadWriteFlags) -> rustix::io::Result<usize>) -> Result<usize, Errno> {
    match transfer(ReadWriteFlags::NOWAIT) {
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(transfer(ReadWriteFlags::empty())?),
        result => Ok(result?),
    }
}

pub(crate) fn pwrite(
    cx: &HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    parts: &[(u64, u64)],
    at: u64,
    spending: &mut Spending,
) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    if open.kind.waits() {
        return Err(Errno(libc::ESPIPE));
    }
    if at > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    let bytes = bytes_in(cx, parts)?;
    spending.write_in(
        || Extent::of(open, Some(at)),
        bytes.len() as u64,
        || Ok(rustix::io::pwrite(&open.fd, &bytes, at)? as u64),
    )
}

pub(crate) fn read(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    parts: &[(u64, u64)],
    longest: Patience,
) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    check_out(cx, parts)?;
    let mut bytes = vec![0; total(parts)];
    let end = longest.begin();
    let count = loop {
        if open.kind.waits() && !bytes.is_empty() {
            wait::ready(open, PollFlags::IN, &end)?;
        }
        match pull(open, &mut bytes) {
            // Another process was faster.
            Err(Errno::AGAIN) if open.kind.waits() && open.waits() && !end.is_over() => {}
            result => break result?,
        }
    };
    bytes_out(cx, parts, &bytes[..count])?;
    Ok(count as u64)
}

/// Reads bytes that are ready.
fn pull(open: &Open, bytes: &mut [u8]) -> Result<usize, Errno> {
    match open.kind {
        Kind::File | Kind::Directory => Ok(rustix::io::read(&open.fd, bytes)?),
        Kind::Socket => Ok(recv(&open.fd, bytes, RecvFlags::DONTWAIT)?.0),
        _ => now(|flags| preadv2(&open.fd, &mut [IoSliceMut::new(bytes)], POSITION, flags)),
    }
}

pub(crate) fn pread(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    fd: u64,
    parts: &[(u64, u64)],
    at: u64,
) -> Result<u64, Errno> {
    let open = files.entry(fd)?;
    check_out(cx, parts)?;
    if open.kind.waits() {
        return Err(Errno(libc::ESPIPE));
    }
    let mut bytes = vec![0; total(parts)];
    let count = rustix::io::pread(&open.fd, &mut bytes, at)?;
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

/// `pipe2`: makes a pipe for the domain alone. A domain with one thread never waits on it, because
/// nothing else would write or read.
pub(crate) fn pipe(
    cx: &mut HostCall<'_>,
    files: &mut Descriptors,
    (out, flags): (u64, u64),
    threads: bool,
) -> Result<u64, Errno> {
    use rustix::pipe::PipeFlags;
    if flags as i32 & !(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_DIRECT) != 0 {
        return Err(Errno::INVAL);
    }
    cx.memory().writable(out, 8)?;
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (flags, alone) = (Flags::of(flags as i32), !threads);
    let open = |fd: OwnedFd| Open {
        fd: fd.into(),
        kind: Kind::Pipe,
        flags,
        alone,
        directory: None,
        writable: false,
        made: true,
    };
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

/// `getrandom`: returns at most 256 bytes, the number that the kernel always gives at once.
pub(crate) fn random(cx: &mut HostCall<'_>, pointer: u64, length: u64) -> Result<u64, Errno> {
    let mut bytes = vec![0; length.min(256) as usize];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    cx.write(pointer, &bytes[..count])?;
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn open(fd: impl Into<OwnedFd>) -> Open {
        let (flags, directory) = (Flags::default(), None);
        Open { fd: fd.into().into(), kind: Kind::Pipe, flags, alone: false, directory, writable: false, made: false }
    }

    /// Another process fills or empties a pipe of the host after `poll` found it ready. A transfer
    /// that waits then waits beyond any limit.
    #[test]
    fn a_pipe_that_is_no_longer_ready_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let (full_reader, full) = std::io::pipe().expect("a pipe");
        fcntl_setfl(&full, OFlags::NONBLOCK).expect("set");
        while rustix::io::write(&full, &[0; PART]).is_ok() {}
        fcntl_setfl(&full, OFlags::empty()).expect("set");
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let written = push_part(&open(full), &[1], PollFlags::OUT);
            let read = pull(&open(reader), &mut [0]);
            send.send((written, read)).expect("sent");
        });
        let results = receive.recv_timeout(Duration::from_secs(20));
        assert_eq!(results, Ok((Err(Errno::AGAIN), Err(Errno::AGAIN))));
        drop((writer, full_reader));
    }
}
