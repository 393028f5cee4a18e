//! The threads of one domain, and the arbiter that they share.
//!
//! Each thread runs on a thread of the host, in a world of its own ([`sfi_loader::Thread`]). A call
//! is answered with the arbiter locked, unless it waits: such calls wait without the lock, and end
//! when the domain does. The first thread that ends the domain (by an exit, a fault, a signal) ends
//! all others.

mod death;
mod idle;
mod kinds;
mod member;
mod roster;
mod spawn;
mod waiting;

pub use death::Death;

use crate::alarm::Alarm;
use crate::errno::Errno;
use crate::futex::{Wait, Waits};
use crate::outside::Outside;
use crate::process::{Exit, SELF};
use crate::signals::{ThreadSignals, bit_of};
use crate::{Arbiter, Calls, Request, encode};
use member::Member;
use roster::Roster;
use sfi_contract::{names, requests};
use sfi_loader::{HostCall, HostError};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bits of a futex wait that any wake ends (`FUTEX_BITSET_MATCH_ANY`).
const ANY: u32 = u32::MAX;

/// The threads of one domain. The domain's gateway calls [`Crew::first`].
#[derive(Clone, Debug)]
pub struct Crew(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    arbiter: Mutex<Arbiter>,
    calls: Calls,
    clock: crate::Clock,
    /// The longest wait for a pipe, a terminal or a socket, and the longest sleep.
    quota: crate::Quota,
    program: bool,
    outside: Option<Outside>,
    waits: Waits,
    roster: Roster,
    alarm: Alarm,
}

/// The outcome of a call.
struct Served {
    answer: Result<u64, Errno>,
    /// The exit if the domain ends.
    exit: Option<Exit>,
    /// The signals that no thread has taken.
    common: u64,
    /// The end of the timer, if its signal is not ignored.
    timer: Option<Instant>,
    /// Signals of other processes that do not have their default action.
    chosen: u64,
}

impl Crew {
    /// Makes the crew of a domain without further threads.
    pub fn new(mut arbiter: Arbiter) -> Self {
        arbiter.threads = true;
        arbiter.patience = Duration::ZERO;
        Crew(Arc::new(Shared {
            calls: arbiter.calls.clone(),
            clock: arbiter.clock,
            quota: arbiter.quota,
            program: arbiter.program,
            outside: arbiter.outside.is_some().then(Outside::default),
            arbiter: Mutex::new(arbiter),
            waits: Waits::default(),
            roster: Roster::default(),
            alarm: Alarm::default(),
        }))
    }

    /// Returns the host function [`crate::GATEWAY`] of the first thread. The domain ends with it.
    pub fn first(&self) -> impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static {
        let first = First(Arc::clone(&self.0));
        let mut member = Member::new(SELF, 0, 0);
        move |cx| first.0.host_call(cx, &mut member)
    }

    /// Ends all further threads, after the first one returned to the host. Returns the reason for
    /// which the domain ended, unless the first thread alone knows it.
    pub fn end(&self) -> Option<Death> {
        self.0.stop(None);
        self.0.roster.wait_for_all();
        self.0.roster.take_death()
    }
}

/// The first thread's part of the domain. No thread outlives it, nor waits for another one.
struct First(Arc<Shared>);

impl Drop for First {
    fn drop(&mut self) {
        self.0.stop(None);
    }
}

impl Shared {
    fn arbiter(&self) -> MutexGuard<'_, Arbiter> {
        self.arbiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one call of a thread.
    fn host_call(self: &Arc<Self>, cx: &mut HostCall<'_>, me: &mut Member) -> Result<u64, HostError> {
        let mut request = Request::of(cx)?;
        if !me.enrolled {
            self.enrol(cx, me);
        }
        if request.number == requests::LEAVE {
            // The thread no longer uses its stack, and makes no other request.
            let [address, length, ..] = request.args;
            let _ = self.arbiter().with(cx, |_, cx, _, heap| heap.unmap(cx, address, length));
        }
        if request.number == libc::SYS_exit || request.number == requests::LEAVE {
            return self.leave(cx, me, &request);
        }
        let spawn = request.number == requests::SPAWN;
        if spawn {
            request.number = libc::SYS_clone;
        }
        let granted = self.calls.contains(request.number);
        let given = match granted {
            true if spawn => Some(self.spawn(cx, me, &request.args)),
            true => self.outside(cx, me, &request),
            false => None,
        };
        match self.conclude(cx, me, &request, given) {
            (_, Some(exit)) => self.exit(me, exit),
            (answer, None) => Ok(encode(answer)),
        }
    }

    /// Notes a thread at its first call.
    fn enrol(&self, cx: &mut HostCall<'_>, me: &mut Member) {
        me.enrolled = true;
        if me.number == SELF {
            self.roster.enrol_first(|| (cx.stopper(), cx.threads()));
        }
        // Domains without the support code have no handlers.
        if cx.allow_interruptions(names::HANDLERS)
            && let Some(stopper) = cx.stopper()
        {
            self.waits.enrol(me.number, me.told, stopper);
        }
    }

    /// Serves a call, or the end of one whose answer is given. A signal that came meanwhile
    /// interrupts the thread as soon as the call returned.
    fn conclude(
        self: &Arc<Self>,
        cx: &mut HostCall<'_>,
        me: &mut Member,
        request: &Request,
        given: Option<Result<u64, Errno>>,
    ) -> (Result<u64, Errno>, Option<Exit>) {
        let mut arbiter = self.arbiter();
        me.signals.add(self.waits.take(me.number));
        let Served { answer, exit, common, timer, chosen } = arbiter.serve(cx, &mut me.signals, request, given);
        self.alarm.set(timer, || {
            let shared = Arc::downgrade(self);
            move || _ = shared.upgrade().inspect(|shared| shared.timer_ended())
        });
        if let Some(outside) = &self.outside {
            outside.take(chosen, || {
                let shared = Arc::downgrade(self);
                move |signals| Shared::came(shared.upgrade().as_deref(), signals)
            });
        }
        let blocked = me.signals.blocked();
        if me.told != blocked || common != 0 || self.waits.is_sent() || cx.is_interruption_wanted() {
            me.told = blocked;
            self.waits.settle(me.number, blocked, common, |wanted| cx.want_interruption(wanted));
        }
        (answer, exit)
    }

    /// Lets a thread know that the timer ended. With the arbiter locked, so that a call ends before
    /// this, or sees that the time is over.
    fn timer_ended(&self) {
        let _arbiter = self.arbiter();
        self.waits.send_to_any(libc::SIGALRM as u64);
    }

    /// Passes on signals of other processes, by their bits. A signal that has its default action
    /// again, or whose domain is gone, ends the process.
    fn came(shared: Option<&Shared>, signals: u64) {
        for signal in (1..=u64::from(u64::BITS)).filter(|signal| signals >> (signal - 1) & 1 != 0) {
            let mut arbiter = shared.map(Shared::arbiter);
            let state = arbiter.as_mut().and_then(|arbiter| arbiter.tenants.last());
            match (shared, state) {
                (Some(shared), Some(state)) if !state.signals.is_default(signal) => {
                    let _ = state.signals.send(&[SELF], signal);
                    shared.waits.send_to_any(signal);
                }
                _ => sfi_loader::end_by_signal(signal as i32),
            }
        }
    }

    /// Answers the calls that are about threads, and those that may wait, without the arbiter's
    /// lock. Returns `None` for all others.
    fn outside(&self, cx: &mut HostCall<'_>, me: &mut Member, request: &Request) -> Option<Result<u64, Errno>> {
        let [a, b, c, ..] = request.args;
        Some(match request.number {
            libc::SYS_gettid => Ok(me.number),
            libc::SYS_set_tid_address => {
                me.clear = a;
                Ok(me.number)
            }
            libc::SYS_set_robust_list => {
                me.robust = a;
                Ok(0)
            }
            libc::SYS_get_robust_list if a == 0 || a == me.number => cx
                .write(b, &me.robust.to_le_bytes())
                .and_then(|()| cx.write(c, &24_u64.to_le_bytes()))
                .map_err(Errno::from)
                .map(|()| 0),
            libc::SYS_get_robust_list => Err(Errno::SRCH),
            // The answer from which a libc concludes that there can be threads.
            libc::SYS_arch_prctl if me.number == SELF => {
                match crate::start::set_thread_pointer(cx.thread_pointer(), a, b) {
                    Ok(_) => Ok(0),
                    refused => refused,
                }
            }
            libc::SYS_sched_yield => {
                std::thread::yield_now();
                Ok(0)
            }
            libc::SYS_sched_getaffinity => processors(cx, b, c),
            libc::SYS_tkill => self.signal(me, a, b),
            libc::SYS_tgkill if a as u32 == SELF as u32 => self.signal(me, b, c),
            libc::SYS_tgkill => Err(Errno::SRCH),
            libc::SYS_futex => self.futex(cx, me, &request.args),
            libc::SYS_nanosleep => self.sleep(cx, me, None, [a, b]),
            libc::SYS_clock_nanosleep => self.sleep(cx, me, Some((a, b)), [c, request.args[3]]),
            libc::SYS_pause => self.pause(cx, me),
            libc::SYS_rt_sigsuspend => self.suspend(cx, me, [a, b]),
            libc::SYS_rt_sigtimedwait => self.await_signal(cx, me, &request.args),
            number if kinds::may_wait(number) => self.patiently(cx, me, request),
            _ => return None,
        })
    }

    /// Sends a signal to a thread of the domain.
    fn signal(&self, me: &mut Member, thread: u64, signal: u64) -> Result<u64, Errno> {
        let (thread, bits) = (u64::from(thread as u32), bit_of(signal)?);
        if thread == me.number {
            me.signals.add(bits);
        } else if self.roster.has(thread) {
            self.waits.send(thread, bits);
        } else {
            return Err(Errno::SRCH);
        }
        Ok(0)
    }

    /// Waits until a signal, the end of the call, or for a time.
    fn rest(&self, cx: &HostCall<'_>, me: &Member, time: Option<Duration>) -> Result<(), Errno> {
        let end = time.and_then(|time| Instant::now().checked_add(time));
        let blocked = me.signals.blocked();
        let wait = Wait { thread: me.number, blocked, word: None, bits: 0, end };
        match self.waits.wait(cx, &wait) {
            Err(Errno::TIMEDOUT) => Ok(()),
            other => other,
        }
    }

    /// Ends the calling thread. The domain of the first thread lives until the others have ended.
    fn leave(&self, cx: &mut HostCall<'_>, me: &mut Member, request: &Request) -> Result<u64, HostError> {
        if me.number == SELF {
            self.clear(cx, me);
            while !self.roster.is_alone() && !self.waits.is_over() && !cx.is_over() {
                self.roster.wait_for_change();
            }
            return self.exit(me, Exit(request.args[0] as i32));
        }
        self.roster.remove(me.number);
        self.waits.leave(me.number);
        self.clear(cx, me);
        Err(HostError::end_caller(0))
    }

    /// Clears the word that tells of a thread's end. Those who wait for it may use the thread's
    /// memory again, so nothing here does after it. musl's list of threads has its lock there,
    /// which another thread takes as soon as it is free: it must not be freed twice.
    fn clear(&self, cx: &mut HostCall<'_>, me: &Member) {
        if me.clear != 0 && cx.memory().store(me.clear, 0).is_ok() {
            self.waits.wake(me.clear, 1, ANY);
        }
    }

    /// Ends the domain.
    fn exit(&self, me: &Member, exit: Exit) -> Result<u64, HostError> {
        self.stop(Some(Death::Exit(exit)));
        if me.number == SELF && self.program {
            resume_unwind(Box::new(exit));
        }
        Err(HostError::end_caller(exit.0))
    }

    /// Ends all threads' calls. The first reason is kept.
    fn stop(&self, death: Option<Death>) {
        self.roster.stop(death);
        self.waits.end();
        self.roster.announce();
    }
}

/// `sched_getaffinity`: reports a processor for each thread that can run at a time.
fn processors(cx: &mut HostCall<'_>, size: u64, out: u64) -> Result<u64, Errno> {
    if size < 8 {
        return Err(Errno::INVAL);
    }
    let host = std::thread::available_parallelism().map_or(1, usize::from);
    let count = host.min(cx.threads()).clamp(1, 64) as u32;
    cx.write(out, &(u64::MAX >> (64 - count)).to_le_bytes())?;
    Ok(8)
}

impl Arbiter {
    /// Answers a call of a thread, or concludes one whose answer is given.
    fn serve(
        &mut self,
        cx: &mut HostCall<'_>,
        signals: &mut ThreadSignals,
        request: &Request,
        given: Option<Result<u64, Errno>>,
    ) -> Served {
        self.with(cx, |arbiter, cx, state, heap| {
            state.signals.enter(signals);
            let answer = arbiter.respond(cx, state, heap, request, given);
            state.signals.leave(signals);
            let chosen = arbiter.chosen(state);
            let (common, timer) = (state.signals.common(), state.signals.timer_end());
            Served { answer, exit: state.exit.take(), common, timer, chosen }
        })
    }
}
