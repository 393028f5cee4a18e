//! Calls that wait. They wait without the arbiter's lock.

use super::kinds::{POLLS, direction};
use super::{ANY, Member, Shared};
use crate::clock::{duration, put};
use crate::errno::Errno;
use crate::futex::Wait;
use crate::process::SELF;
use crate::words::word;
use crate::{Arbiter, Request, wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sfi_loader::HostCall;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time between two tries of a call that waits for descriptors.
const TRY: Duration = Duration::from_millis(20);
/// The shortest one, for calls that wait for several.
const FIRST_TRY: Duration = Duration::from_micros(200);

impl Shared {
    /// `futex`.
    pub(super) fn futex(&self, cx: &mut HostCall<'_>, me: &Member, args: &[u64; 6]) -> Result<u64, Errno> {
        let [address, operation, value, timeout, second, third] = *args;
        let real = operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
        let operation = operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        match operation {
            libc::FUTEX_WAKE => Ok(self.waits.wake(address, u64::from(value as u32), ANY)),
            libc::FUTEX_WAKE_BITSET if third as u32 == 0 => Err(Errno::INVAL),
            libc::FUTEX_WAKE_BITSET => Ok(self.waits.wake(address, u64::from(value as u32), third as u32)),
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
                let expected = (operation == libc::FUTEX_CMP_REQUEUE).then_some(third as u32);
                let counts = (u64::from(value as u32), u64::from(timeout as u32));
                self.waits.requeue(cx, (address, second), counts, expected)
            }
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
                let bits = if operation == libc::FUTEX_WAIT { ANY } else { third as u32 };
                if bits == 0 {
                    return Err(Errno::INVAL);
                }
                let time = match timeout {
                    // Nobody else could wake it.
                    0 if self.roster.is_alone() && me.number == SELF => return self.in_vain(cx, address, value as u32),
                    0 => None,
                    _ if operation == libc::FUTEX_WAIT => Some(duration(cx, timeout)?),
                    _ => {
                        let clock = if real { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
                        Some(self.clock.until(clock as u64, duration(cx, timeout)?)?)
                    }
                };
                let end = time.and_then(|time| Instant::now().checked_add(self.clock.span(time)));
                let word = Some((address, value as u32));
                let wait = Wait { thread: me.number, blocked: me.signals.blocked(), word, bits, end };
                self.waits.wait(cx, &wait).map(|()| 0)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// Answers a wait that no thread could end.
    fn in_vain(&self, cx: &HostCall<'_>, address: u64, value: u32) -> Result<u64, Errno> {
        Err(if cx.memory().load(address)? == value { Errno(libc::EDEADLK) } else { Errno::AGAIN })
    }

    /// `nanosleep`, and `clock_nanosleep` with a clock and flags. Writes the rest of the time to
    /// `left`.
    pub(super) fn sleep(
        &self,
        cx: &mut HostCall<'_>,
        me: &Member,
        clock: Option<(u64, u64)>,
        [time, left]: [u64; 2],
    ) -> Result<u64, Errno> {
        let time = duration(cx, time)?;
        let (time, left) = match clock {
            Some((which, flags)) if flags as i32 & libc::TIMER_ABSTIME != 0 => (self.clock.until(which, time)?, 0),
            Some((which, _)) => self.clock.until(which, Duration::ZERO).map(|_| (time, left))?,
            None => (time, left),
        };
        let start = Instant::now();
        let result = self.rest(cx, me, Some(self.clock.span(time)));
        if result.is_err() && left != 0 {
            put(cx, left, self.clock.whole(time.saturating_sub(start.elapsed())), 1)?;
        }
        result.map(|()| 0)
    }

    /// `rt_sigsuspend`: waits with another mask for a signal. The mask comes back when its handler
    /// returns.
    pub(super) fn suspend(&self, cx: &mut HostCall<'_>, me: &mut Member, [mask, size]: [u64; 2]) -> Result<u64, Errno> {
        if size != 8 {
            return Err(Errno::INVAL);
        }
        me.signals.suspend(word(cx, mask)?);
        let _ = self.pause(cx, me);
        Err(Errno::INTR)
    }

    /// `rt_sigtimedwait`: takes a signal of a set without calling its handler.
    pub(super) fn await_signal(&self, cx: &mut HostCall<'_>, me: &mut Member, args: &[u64; 6]) -> Result<u64, Errno> {
        let [set, info, time, size, ..] = *args;
        if size != 8 {
            return Err(Errno::INVAL);
        }
        let set = word(cx, set)?;
        let time =
            if time == 0 { self.quota.wait } else { self.clock.patience(duration(cx, time)?).min(self.quota.wait) };
        let end = Instant::now().checked_add(time);
        loop {
            me.signals.add(self.waits.take(me.number));
            let signals = &mut me.signals;
            let claim = self.arbiter().with(cx, |_, cx, state, _| state.signals.claim(cx, signals, (set, info)));
            if claim != Err(Errno::AGAIN) {
                return claim;
            }
            let blocked = me.signals.blocked() & !set;
            let alarm = Instant::now().checked_add(self.until_due(cx, me));
            let wait =
                Wait { thread: me.number, blocked, word: None, bits: 0, end: end.into_iter().chain(alarm).min() };
            match self.waits.wait(cx, &wait) {
                Err(Errno::TIMEDOUT) if end.is_some_and(|end| end <= Instant::now()) => return Err(Errno::AGAIN),
                Err(error) if self.waits.is_over() || cx.is_over() => return Err(error),
                _ => {}
            }
        }
    }

    /// `pause`: waits for a signal, or for the timer.
    pub(super) fn pause(&self, cx: &mut HostCall<'_>, me: &mut Member) -> Result<u64, Errno> {
        let time = self.until_due(cx, me).min(self.quota.sleep);
        if time.is_zero() {
            return Err(Errno::INTR);
        }
        self.rest(cx, me, Some(time)).and(Err(Errno::INTR))
    }

    /// Returns the time until a signal is due for a thread.
    fn until_due(&self, cx: &mut HostCall<'_>, me: &mut Member) -> Duration {
        me.signals.add(self.waits.take(me.number));
        let signals = &mut me.signals;
        self.arbiter().with(cx, |_, _, state, _| state.signals.until_due(signals))
    }

    /// Tries a call that may wait for descriptors until it is answered.
    pub(super) fn patiently(&self, cx: &mut HostCall<'_>, me: &Member, request: &Request) -> Result<u64, Errno> {
        let time = asked(cx, request)?.map_or(self.quota.wait, |time| self.clock.patience(time).min(self.quota.wait));
        let end = Instant::now().checked_add(time);
        let mut pause = FIRST_TRY;
        loop {
            let (answer, open) = self.arbiter().attempt(cx, request);
            let more = match (answer, POLLS.contains(&request.number)) {
                (Err(Errno::AGAIN), _) if request.number == libc::SYS_wait4 => true,
                (Err(Errno::AGAIN), false) => open.is_some(),
                (Ok(0), true) => true,
                _ => false,
            };
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if !more || left.is_zero() {
                return answer;
            }
            if self.waits.is_interrupted(me.number, me.signals.blocked()) || self.waits.is_over() || cx.is_over() {
                return Err(Errno::INTR);
            }
            match (open, direction(request.number)) {
                (Some(open), Some(events)) => ready(&open, events, TRY.min(left))?,
                _ => match self.rest(cx, me, Some(pause.min(left))) {
                    Ok(()) => pause = (pause * 2).min(TRY),
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

/// Returns the time that a call names. Transfers name none.
fn asked(cx: &HostCall<'_>, request: &Request) -> Result<Option<Duration>, Errno> {
    let [_, _, c, _, e, _] = request.args;
    match request.number {
        libc::SYS_poll => Ok(wait::milliseconds(c)),
        libc::SYS_ppoll => wait::time_at(cx, c, 1),
        libc::SYS_select => wait::time_at(cx, e, 1000),
        libc::SYS_pselect6 => wait::time_at(cx, e, 1),
        _ => Ok(None),
    }
}

/// Waits until a descriptor may be ready, for a short time.
fn ready(open: &OwnedFd, events: PollFlags, time: Duration) -> Result<(), Errno> {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(open, events)], Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Arbiter {
    /// Makes a granted call that does not wait. If it is a transfer that would wait, also returns
    /// the descriptor.
    fn attempt(&mut self, cx: &mut HostCall<'_>, request: &Request) -> (Result<u64, Errno>, Option<Arc<OwnedFd>>) {
        self.with(cx, |arbiter, cx, state, heap| {
            let answer = arbiter.answer(cx, state, heap, request);
            let entry = state.files.entry(request.args[0]).ok();
            let open = entry.filter(|open| open.waits() && open.kind.waits());
            (answer, open.map(|open| Arc::clone(&open.fd)))
        })
    }
}
