//! The clocks of faults and budgets.

use crate::gate::fault::RawFault;
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Reads the processor's time-stamp counter.
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// One moment on both clocks, the origin of their ratio. The counter was read first.
static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();

/// Time after the origin from which on the ratio is precise enough.
const SETTLING: Duration = Duration::from_millis(2);

/// Notes the origin of the ratio. It is precise some time later.
pub(crate) fn origin() -> (Instant, u64) {
    *ORIGIN.get_or_init(|| {
        let ticks = now();
        (Instant::now(), ticks)
    })
}

/// Notes the origin of the ratio, before the first call of a world with budgets. Waits once in a
/// process until the ratio is precise.
///
/// # Errors
/// The kernel does not tell a thread's processor time, so a budget could not be kept.
pub(crate) fn start() -> io::Result<()> {
    if clock(libc::CLOCK_THREAD_CPUTIME_ID).is_none() {
        return Err(io::Error::last_os_error());
    }
    let (origin, _) = origin();
    std::thread::sleep(SETTLING.saturating_sub(origin.elapsed()));
    Ok(())
}

/// Returns the nanoseconds of one tick of the counter, or less: a thread may be interrupted between
/// its looks at the two clocks, and no time limit may end early for that. Async-signal-safe after
/// [`start`].
pub(crate) fn rate() -> f64 {
    let Some((instant, ticks)) = ORIGIN.get() else { return 1.0 };
    let elapsed = instant.elapsed();
    elapsed.as_nanos() as f64 / now().wrapping_sub(*ticks).max(1) as f64
}

/// Returns the processor time of this thread in nanoseconds. Async-signal-safe.
pub(crate) fn processor() -> u64 {
    own(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the present time in nanoseconds of the monotonic clock. Async-signal-safe.
pub(crate) fn moment() -> u64 {
    own(libc::CLOCK_MONOTONIC)
}

/// Returns the time of a fault, or the present time if none was noted.
pub(crate) fn when(fault: &RawFault) -> Instant {
    let now = Instant::now();
    let ago = if fault.when == 0 { 0 } else { moment().saturating_sub(fault.when) };
    now.checked_sub(Duration::from_nanos(ago)).unwrap_or(now)
}

/// Reads, in nanoseconds, a clock that every kernel has for every thread. Async-signal-safe.
///
/// Without an answer the process ends, because a wrong number would break budgets: with a processor
/// time that stands still no budget would ever be used up. This happens only if a filter of system
/// calls is installed after the first world with budgets, see [`start`].
fn own(id: libc::clockid_t) -> u64 {
    match clock(id) {
        Some(time) => time.as_nanos() as u64,
        None => std::process::abort(),
    }
}

/// Reads a clock of the kernel. Async-signal-safe.
pub(crate) fn clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer. A clock that does not exist is an error.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
