//! Clocks. They tell the time in steps of the policy's resolution, and tell nothing else about the
//! host.

use crate::errno::Errno;
use crate::patience::Patience;
use crate::words::word;
use rustix::time::{ClockId, clock_gettime};
use sfi_loader::HostCall;
use std::cell::Cell;
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;

thread_local! {
    /// The processor time that this thread of the host had used when it began to run its present
    /// thread of a domain.
    static BEGAN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Begins a thread of a domain on this thread of the host: it has used no processor time.
pub(crate) fn begin_thread() {
    BEGAN.set(raw(ClockId::ThreadCPUTime));
}

fn raw(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The clocks of a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Nanoseconds of one step, at least 1.
    step: u64,
    /// The longest sleep of one call.
    longest: Duration,
}

impl Clock {
    pub(crate) fn new(resolution: Duration, longest: Duration) -> Clock {
        let step = u64::try_from(resolution.as_nanos()).unwrap_or(u64::MAX).max(1);
        Clock { step, longest }
    }

    /// Rounds a time down to a step.
    pub(crate) fn coarse(&self, seconds: i64, nanoseconds: i64) -> (i64, i64) {
        let (second, step) = (i128::from(SECOND), i128::from(self.step));
        let time = i128::from(seconds) * second + i128::from(nanoseconds);
        let time = time - time.rem_euclid(step);
        (time.div_euclid(second) as i64, time.rem_euclid(second) as i64)
    }

    fn now(&self, id: ClockId) -> Duration {
        let mut now = raw(id);
        if id == ClockId::ThreadCPUTime {
            now = now.saturating_sub(BEGAN.get());
        }
        let (seconds, nanoseconds) = self.coarse(now.as_secs() as i64, now.subsec_nanos().into());
        Duration::new(seconds as u64, nanoseconds as u32)
    }

    /// Returns the processor time of this thread, which runs the domain.
    fn used(&self) -> Duration {
        self.now(ClockId::ThreadCPUTime)
    }

    pub(crate) fn get(&self, cx: &mut HostCall<'_>, which: u64, pointer: u64) -> Result<u64, Errno> {
        put(cx, pointer, self.now(clock(which)?), 1)
    }

    pub(crate) fn resolution(&self, cx: &mut HostCall<'_>, which: u64, pointer: u64) -> Result<u64, Errno> {
        clock(which)?;
        if pointer == 0 { Ok(0) } else { put(cx, pointer, Duration::from_nanos(self.step), 1) }
    }

    pub(crate) fn time_of_day(&self, cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
        if pointer == 0 { Ok(0) } else { put(cx, pointer, self.now(ClockId::Realtime), 1000) }
    }

    pub(crate) fn seconds(&self, cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
        let now = self.now(ClockId::Realtime).as_secs();
        if pointer != 0 {
            cx.write(pointer, &now.to_le_bytes())?;
        }
        Ok(now)
    }

    /// As [`Clock::aligned`], but never longer than `longest`.
    pub(crate) fn span(&self, time: Duration) -> Duration {
        self.aligned(time).min(self.longest)
    }

    /// As [`Clock::aligned`], but no time stays none, with which a call only looks.
    pub(crate) fn patience(&self, time: Duration) -> Duration {
        if time.is_zero() { time } else { self.aligned(time) }
    }

    /// Returns the time from now to the end of `time` and then to the clock's next step, so that
    /// waking up tells no more than the clock does.
    pub(crate) fn aligned(&self, time: Duration) -> Duration {
        let start = clock_gettime(ClockId::Monotonic);
        let start = Duration::new(start.tv_sec as u64, start.tv_nsec as u32);
        let end = start.saturating_add(time).as_nanos().next_multiple_of(u128::from(self.step));
        let end = u64::try_from(end).map_or(Duration::MAX, Duration::from_nanos);
        end.saturating_sub(start)
    }

    /// Rounds the time to a step up to steps. It tells no more than the clock does.
    pub(crate) fn whole(&self, time: Duration) -> Duration {
        let whole = time.as_nanos().next_multiple_of(u128::from(self.step));
        u64::try_from(whole).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Returns the time from now until a time of a clock.
    pub(crate) fn until(&self, which: u64, time: Duration) -> Result<Duration, Errno> {
        Ok(time.saturating_sub(self.now(clock(which)?)))
    }

    /// Sleeps for a [`Clock::span`].
    fn rest(&self, time: Duration) {
        std::thread::sleep(self.span(time));
    }

    /// Sleeps for a time, or until the timer or a signal of `until`. Writes the rest of the time to
    /// `left`.
    fn nap(&self, cx: &mut HostCall<'_>, time: Duration, left: u64, until: Patience) -> Result<u64, Errno> {
        let (start, timer) = (Instant::now(), until.time());
        let rest = match until.at_most(self.span(time.min(timer))).rest() {
            Ok(()) if timer >= time => return Ok(0),
            Ok(()) => time.saturating_sub(self.whole(timer)),
            Err(_) => self.whole(time.saturating_sub(start.elapsed())),
        };
        if left != 0 {
            put(cx, left, rest, 1)?;
        }
        Err(Errno::INTR)
    }

    /// Waits for a time in the domain's memory.
    pub(crate) fn wait(&self, cx: &HostCall<'_>, pointer: u64) -> Result<(), Errno> {
        self.rest(duration(cx, pointer)?);
        Ok(())
    }

    /// `nanosleep`.
    pub(crate) fn sleep(&self, cx: &mut HostCall<'_>, pointer: u64, left: u64, until: Patience) -> Result<u64, Errno> {
        let time = duration(cx, pointer)?;
        self.nap(cx, time, left, until)
    }

    /// `clock_nanosleep`: sleeps for a time, or until a time.
    pub(crate) fn sleep_on(
        &self,
        cx: &mut HostCall<'_>,
        [which, flags, pointer, left]: [u64; 4],
        until: Patience,
    ) -> Result<u64, Errno> {
        let (id, time) = (clock(which)?, duration(cx, pointer)?);
        if flags as i32 & libc::TIMER_ABSTIME != 0 {
            return self.nap(cx, time.saturating_sub(self.now(id)), 0, until);
        }
        self.nap(cx, time, left, until)
    }

    /// `times`: reports all processor time as the program's own.
    pub(crate) fn times(&self, cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
        /// Value of `sysconf(_SC_CLK_TCK)`.
        const TICKS: u128 = 100;
        let ticks = |time: Duration| (time.as_millis() * TICKS / 1000) as u64;
        if pointer != 0 {
            let words = [ticks(self.used()), 0, 0, 0];
            cx.write(pointer, &words.map(u64::to_le_bytes).concat())?;
        }
        Ok(ticks(self.now(ClockId::Monotonic)))
    }

    /// `getrusage`: reports the processor time. All other fields are 0.
    pub(crate) fn usage(&self, cx: &mut HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
        let used = self.used();
        let mut bytes = [0; 144];
        bytes[..8].copy_from_slice(&used.as_secs().to_le_bytes());
        bytes[8..16].copy_from_slice(&u64::from(used.subsec_micros()).to_le_bytes());
        cx.write(pointer, &bytes)?;
        Ok(0)
    }
}

/// Returns the clock with a number. The process clock is that of the thread which runs the domain,
/// because the times of other threads belong to the host.
fn clock(number: u64) -> Result<ClockId, Errno> {
    Ok(match number as i32 {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => ClockId::Realtime,
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_BOOTTIME => {
            ClockId::Monotonic
        }
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => ClockId::ThreadCPUTime,
        _ => return Err(Errno::INVAL),
    })
}

/// Writes seconds, and the rest in units of `unit` nanoseconds.
pub(crate) fn put(cx: &mut HostCall<'_>, pointer: u64, time: Duration, unit: u32) -> Result<u64, Errno> {
    let rest = u64::from(time.subsec_nanos() / unit);
    cx.write(pointer, &[time.as_secs().to_le_bytes(), rest.to_le_bytes()].concat())?;
    Ok(0)
}

/// Reads a duration from the domain's memory.
pub(crate) fn duration(cx: &HostCall<'_>, pointer: u64) -> Result<Duration, Errno> {
    let (seconds, nanoseconds) = (word(cx, pointer)?, word(cx, pointer.wrapping_add(8))?);
    if nanoseconds >= SECOND || seconds > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    Ok(Duration::new(seconds, nanoseconds as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_steps() {
        let step = |resolution| Clock::new(resolution, Duration::ZERO);
        let micro = step(Duration::from_micros(1));
        assert_eq!(micro.coarse(5, 123_456_789), (5, 123_456_000));
        assert_eq!(micro.coarse(-1, 999_999_999), (-1, 999_999_000));
        assert_eq!(step(Duration::from_millis(1)).coarse(5, 999_999), (5, 0));
        assert_eq!(step(Duration::from_secs(3600)).coarse(7201, 5), (7200, 0));
        assert_eq!(step(Duration::ZERO).coarse(5, 123_456_789), (5, 123_456_789));
        assert_eq!(step(Duration::MAX).coarse(1 << 40, 0).1, step(Duration::MAX).coarse(1 << 40, 1).1);
    }

    #[test]
    fn a_sleep_ends_with_a_step() {
        let step = Duration::from_millis(20);
        let clock = Clock::new(step, Duration::from_secs(1));
        let before = clock.now(ClockId::Monotonic);
        clock.rest(Duration::from_nanos(1));
        assert!(clock.now(ClockId::Monotonic) >= before + step);
        // The longest sleep bounds the wait for the next step, too.
        let start = std::time::Instant::now();
        Clock::new(Duration::MAX, Duration::from_millis(1)).rest(Duration::MAX);
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
