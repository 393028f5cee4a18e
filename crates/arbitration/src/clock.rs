//! Clocks. They tell the time and nothing else of the host.

use crate::errno::Errno;
use crate::word;
use rustix::time::{ClockId, clock_gettime};
use sfi_loader::HostCall;
use std::time::Duration;

/// Longest sleep of one call.
const SLEEP: Duration = Duration::from_secs(3600);

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

pub fn sleep(cx: &HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    let (seconds, nanoseconds) = (word(cx, pointer)?, word(cx, pointer.wrapping_add(8))?);
    if nanoseconds >= 1_000_000_000 || seconds > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    std::thread::sleep(Duration::new(seconds, nanoseconds as u32).min(SLEEP));
    Ok(0)
}
