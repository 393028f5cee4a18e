//! Waiting for a pipe, a terminal or a socket, never longer than the policy allows.

use crate::clock;
use crate::descriptors::{Descriptors, Open};
use crate::errno::Errno;
use crate::patience::{End, Patience, poll_until};
use crate::words::word;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use sfi_loader::HostCall;
use std::time::Duration;

/// The events that a domain may ask for.
const EVENTS: PollFlags = PollFlags::IN.union(PollFlags::PRI).union(PollFlags::OUT).union(PollFlags::RDNORM);

/// Waits until a descriptor that may wait is ready for `events`. Returns the events that it is
/// ready for. The descriptor must be open for these events, because a wait at the wrong end of a
/// pipe never ends.
pub(crate) fn ready(open: &Open, events: PollFlags, end: &End) -> Result<PollFlags, Errno> {
    let useless = if events.contains(PollFlags::OUT) { OFlags::RDONLY } else { OFlags::WRONLY };
    if rustix::fs::fcntl_getfl(&open.fd)? & OFlags::ACCMODE == useless {
        return Err(Errno::BADF);
    }
    let now = End::now();
    let mut fds = vec![PollFd::new(&open.fd, events)];
    if poll_until(&mut fds, if open.waits() { end } else { &now })? == 0 {
        Err(Errno::AGAIN)
    } else {
        Ok(fds[0].revents())
    }
}

/// Waits for any of some descriptors of a domain. Returns the events that each is ready for, which
/// are none for negative numbers. Without a `time` it waits as long as the policy allows.
fn wait_for(
    files: &Descriptors,
    asked: &[(i32, PollFlags)],
    time: Option<Duration>,
    longest: Patience,
) -> Result<Vec<PollFlags>, Errno> {
    let mut found = vec![PollFlags::empty(); asked.len()];
    let mut fds = Vec::new();
    let mut time = time.unwrap_or(Duration::MAX);
    for (i, &(fd, events)) in asked.iter().enumerate() {
        match u64::try_from(fd).map(|fd| files.get(fd)) {
            Err(_) => {}
            Ok(Ok(fd)) => fds.push((i, PollFd::new(fd, events & EVENTS))),
            Ok(Err(_)) => {
                found[i] = PollFlags::NVAL;
                time = Duration::ZERO;
            }
        }
    }
    let (places, mut fds): (Vec<usize>, Vec<PollFd<'_>>) = fds.into_iter().unzip();
    let end = longest.at_most(time).begin();
    poll_until(&mut fds, &end)?;
    for (place, fd) in places.into_iter().zip(&fds) {
        found[place] = fd.revents();
    }
    Ok(found)
}

/// Reads a time in milliseconds. A negative one means no limit.
pub(crate) fn milliseconds(time: u64) -> Option<Duration> {
    u64::try_from(time as i32).ok().map(Duration::from_millis)
}

/// Reads a time of seconds and a rest in units of `unit` nanoseconds. A null pointer means no
/// limit.
pub(crate) fn time_at(cx: &HostCall<'_>, pointer: u64, unit: u32) -> Result<Option<Duration>, Errno> {
    if pointer == 0 {
        return Ok(None);
    }
    if unit == 1 {
        return clock::duration(cx, pointer).map(Some);
    }
    let (seconds, rest) = (word(cx, pointer)?, word(cx, pointer.wrapping_add(8))?);
    if seconds > i64::MAX as u64 || rest > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    let rest = Duration::from_micros(rest);
    Ok(Some(Duration::from_secs(seconds).saturating_add(rest)))
}

/// `poll` and `ppoll`: waits for the descriptors of a list. `ppoll` ignores its signal mask.
pub(crate) fn poll_list(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    (list, count): (u64, u64),
    time: Option<Duration>,
    longest: Patience,
) -> Result<u64, Errno> {
    if count > files.limit() as u64 {
        return Err(Errno::INVAL);
    }
    let mut bytes = Vec::new();
    // A program that only waits passes no list.
    if count > 0 {
        cx.memory().writable(list, 8 * count as usize)?;
        bytes = cx.read(list, 8 * count as usize)?;
    }
    let entry = |entry: &[u8]| {
        let events = u16::from_le_bytes([entry[4], entry[5]]);
        (i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]), PollFlags::from_bits_retain(events))
    };
    let asked: Vec<(i32, PollFlags)> = bytes.chunks_exact(8).map(entry).collect();
    let found = wait_for(files, &asked, time, longest)?;
    for (entry, found) in bytes.chunks_exact_mut(8).zip(&found) {
        entry[6..8].copy_from_slice(&found.bits().to_le_bytes());
    }
    if count > 0 {
        cx.write(list, &bytes)?;
    }
    Ok(found.iter().filter(|found| !found.is_empty()).count() as u64)
}

/// `select` and `pselect6`: three sets of bits, for reading, writing and exceptional conditions.
pub(crate) fn select(
    cx: &mut HostCall<'_>,
    files: &Descriptors,
    [count, sets @ ..]: [u64; 4],
    time: Option<Duration>,
    longest: Patience,
) -> Result<u64, Errno> {
    /// Largest number of descriptors in a set (`FD_SETSIZE`).
    const MOST: u64 = 1024;
    const WAITS: [PollFlags; 3] = [PollFlags::IN, PollFlags::OUT, PollFlags::PRI];
    let over = PollFlags::HUP | PollFlags::ERR;
    let means = [PollFlags::IN | over, PollFlags::OUT | PollFlags::ERR, PollFlags::PRI];
    if count > MOST {
        return Err(Errno::INVAL);
    }
    // The kernel reads and writes whole words.
    let length = (count as usize).div_ceil(64) * 8;
    let mut bits = [const { Vec::new() }; 3];
    for (bits, set) in bits.iter_mut().zip(sets).filter(|(_, set)| *set != 0) {
        cx.memory().writable(set, length)?;
        *bits = cx.read(set, length)?;
    }
    let has = |bits: &[u8], fd: u64| bits.get(fd as usize / 8).is_some_and(|byte| byte >> (fd % 8) & 1 == 1);
    let mut asked = Vec::new();
    for fd in 0..count {
        let wanted = bits.iter().zip(WAITS).filter(|(bits, _)| has(bits, fd)).map(|(_, wait)| wait);
        let events = wanted.fold(PollFlags::empty(), PollFlags::union);
        if !events.is_empty() {
            files.get(fd)?;
            asked.push((fd as i32, events));
        }
    }
    let found = wait_for(files, &asked, time, longest)?;
    let mut ready = 0;
    for ((bits, set), means) in bits.iter_mut().zip(sets).zip(means).filter(|((_, set), _)| *set != 0) {
        let mut answer = vec![0; bits.len()];
        for (&(fd, _), found) in asked.iter().zip(&found) {
            if has(bits, fd as u64) && found.intersects(means) {
                answer[fd as usize / 8] |= 1 << (fd % 8);
                ready += 1;
            }
        }
        cx.write(set, &answer)?;
    }
    Ok(ready)
}
