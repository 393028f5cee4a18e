//! Clocks. They tell the time and nothing else of the host.

use crate::errno::Errno;
use crate::word;
use rustix::time::{ClockId, clock_gettime};
use sfi_loader::HostCall;
use std::time::Duration;

fn clock(number: u64) -> Result<ClockId, Errno> {
    Ok(match number as i32 {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => ClockId::Realtime,
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_BOOTTIME => {
            ClockId::Monotonic
        }
        libc::CLOCK_PROCESS_CPUTIME_ID => ClockId::ProcessCPUTime,
        libc::CLOCK_THREAD_CPUTIME_ID => ClockId::ThreadCPUTime,
        _ => return Err(Errno::INVAL),
    })
}

fn put(cx: &mut HostCall<'_>, pointer: u64, seconds: i64, rest: i64) -> Result<u64, Errno> {
    let mut bytes = seconds.to_le_bytes().to_vec();
    bytes.extend(rest.to_le_bytes());
    cx.write(pointer, &bytes)?;
    Ok(0)
}

pub fn get(cx: &mut HostCall<'_>, which: u64, pointer: u64) -> Result<u64, Errno> {
    let now = clock_gettime(clock(which)?);
    put(cx, pointer, now.tv_sec, now.tv_nsec)
}

pub fn resolution(cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    if pointer == 0 { Ok(0) } else { put(cx, pointer, 0, 1) }
}

pub fn time_of_day(cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    let now = clock_gettime(ClockId::Realtime);
    if pointer == 0 { Ok(0) } else { put(cx, pointer, now.tv_sec, now.tv_nsec / 1000) }
}

pub fn seconds(cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    if pointer != 0 {
        cx.write(pointer, &now.to_le_bytes())?;
    }
    Ok(now as u64)
}

/// A time of the domain, relative.
fn duration(cx: &HostCall<'_>, pointer: u64) -> Result<Duration, Errno> {
    let (seconds, nanoseconds) = (word(cx, pointer)?, word(cx, pointer.wrapping_add(8))?);
    if nanoseconds >= 1_000_000_000 || seconds > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    Ok(Duration::new(seconds, nanoseconds as u32))
}

pub fn sleep(cx: &HostCall<'_>, pointer: u64, longest: Duration) -> Result<u64, Errno> {
    std::thread::sleep(duration(cx, pointer)?.min(longest));
    Ok(0)
}

/// `clock_nanosleep`, also until a time.
pub fn sleep_on(cx: &HostCall<'_>, which: u64, flags: u64, pointer: u64, longest: Duration) -> Result<u64, Errno> {
    let mut time = duration(cx, pointer)?;
    if flags as i32 & libc::TIMER_ABSTIME != 0 {
        let now = clock_gettime(clock(which)?);
        time = time.saturating_sub(Duration::new(now.tv_sec as u64, now.tv_nsec as u32));
    }
    std::thread::sleep(time.min(longest));
    Ok(0)
}

/// Processor time of this thread, which runs the domain.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// `times`: all of it is the program's own.
pub fn times(cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    /// What `sysconf(_SC_CLK_TCK)` says.
    const TICKS: u128 = 100;
    let ticks = |time: Duration| (time.as_millis() * TICKS / 1000) as u64;
    if pointer != 0 {
        let words = [ticks(used()), 0, 0, 0];
        cx.write(pointer, &words.map(u64::to_le_bytes).concat())?;
    }
    let now = clock_gettime(ClockId::Monotonic);
    Ok(ticks(Duration::new(now.tv_sec as u64, now.tv_nsec as u32)))
}

/// `getrusage`: the time; all else is 0.
pub fn usage(cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    let used = used();
    let mut bytes = [0; 144];
    bytes[..8].copy_from_slice(&used.as_secs().to_le_bytes());
    bytes[8..16].copy_from_slice(&u64::from(used.subsec_micros()).to_le_bytes());
    cx.write(pointer, &bytes)?;
    Ok(0)
}
