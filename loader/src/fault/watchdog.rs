//! Time limits and budgets: one thread per process that watches the calls of worlds with limits or
//! budgets. It starts with the first limit or interruption ([`crate::fault::watched`]).
//!
//! A call costs a few stores: the time-stamp counter and its number when it begins, zero when it
//! ends. The watchdog looks at the numbers twice within the shortest limit. So it sees each call
//! that may overstay before its limit is over, knows when the call began, and sleeps until exactly
//! then. The watchdog writes that number to [`Watch::ordered`] and, unless a
//! host function runs, sends [`TIME_SIGNAL`] to the thread, again and again until the number
//! changes. The thread obeys in `fault::signals` and in host functions: a domain is ended while it
//! runs, when it enters a gate, or when a host function returns to it. An order for a call that is
//! over has no effect, because no number is used twice.
//!
//! A call has one deadline, however many domains it leads through and however often they are
//! restarted. At its limit the running domain is ended. Its callers get an error, and then a little
//! time in which to return it ([`grace`]). After that time all domains of the call end at once,
//! without running again.
//!
//! Limits of a call count wall clock or the processor time of its thread, whose clock the watchdog
//! reads. Budgets of domains are charged when domains are entered and left
//! ([`crate::fault::meter`]). The watchdog only sees that a domain may be over a budget, and makes
//! the thread find out which ([`reason::SETTLE`]). That domain ends, and the others go on.

use crate::fault::clock::{self, clock, now, rate};
use crate::fault::helper::start_helper;
use crate::fault::lanes::Members;
use crate::fault::limits::{Budget, Limits, TIME_SIGNAL, nanos, reason};
use crate::fault::meter;
use crate::fault::purse::Purse;
use crate::fault::watch::Watch;
use crate::gate::records::{Context, DomainState, ThreadState};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two orders to the same call, while a host function runs and while a domain does.
const RETRY: [Duration; 2] = [Duration::from_millis(1), Duration::from_micros(100)];
/// Time for which the watchdog goes on looking as often as a call with its own limit needed it.
const MEMORY: Duration = Duration::from_millis(100);
/// Bounds of [`grace`].
const GRACE: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];
/// Number of looks within one limit on processor time, or one budget.
const LOOKS: u32 = 8;
/// Number of looks within one limit on the wall clock.
const WALL_LOOKS: u32 = 2;
/// Longest time between two looks if budgets are charged.
const BUDGET_PERIOD: Duration = Duration::from_millis(4);
/// Bounds of the time between two looks. The first is for limits on the wall clock alone.
const PERIOD: [Duration; 3] = [Duration::from_micros(50), Duration::from_millis(1), Duration::from_millis(250)];

impl Watch {
    /// Returns the reason for which the domain that a host function returns to must end, or 0. As
    /// [`Watch::overdue`], but also if the domain is over its budget.
    ///
    /// # Safety
    /// `context` is that of the world that this thread runs, `domain` one of its domains, and the
    /// time since it was left is charged.
    #[inline]
    pub(crate) unsafe fn due(&self, context: *mut Context, domain: *const DomainState) -> u32 {
        // SAFETY: see the function's contract.
        unsafe {
            let due = if self.is_spent(context) { meter::settle(context, domain) } else { 0 };
            if due != 0 { due } else { self.overdue() }
        }
    }

    /// Notes that a host function begins, or goes on, after `domain` ran.
    ///
    /// # Safety
    /// As for [`Watch::due`].
    #[inline]
    pub(crate) unsafe fn enter_host(&self, context: *mut Context, domain: *mut DomainState) {
        if self.metered {
            // SAFETY: see the function's contract.
            unsafe {
                meter::charge(context, domain);
                (*domain).account.crossings += 1;
            }
        }
        self.in_host.store(true, Ordering::Release);
    }

    /// Notes that a host function ends, or enters a domain.
    ///
    /// # Safety
    /// As for [`Watch::due`].
    #[inline]
    pub(crate) unsafe fn leave_host(&self, context: *mut Context) {
        if self.metered {
            // SAFETY: see the function's contract.
            unsafe { meter::resume(context) };
        }
        self.in_host.store(false, Ordering::Release);
    }
}

/// Begins a call with a limit.
///
/// # Safety
/// `context` belongs to a world with a watch that this thread holds mutably; `state` is this
/// thread's.
#[inline]
pub(crate) unsafe fn begin(context: *mut Context, state: *mut ThreadState) {
    // SAFETY: see the function's contract. The watch lives as long as the world.
    unsafe {
        let watch = &*(*context).watch.cast::<Watch>();
        if watch.by_watchdog && (*state).id == 0 {
            join(state);
        }
        if watch.metered && watch.processor {
            meter::begin(context);
        }
        watch.leave_host(context);
        watch.thread.store((*state).id, Ordering::Relaxed);
        watch.grace.store(false, Ordering::Relaxed);
        // Only the watchdog asks for it, and reading the counter is a large part of a short call.
        if watch.by_watchdog {
            watch.began.store(clock::now(), Ordering::Relaxed);
        }
        let number = watch.next();
        watch.call.store(number, Ordering::Relaxed);
        watch.running.store(number, Ordering::Release);
    }
}

/// Ends a call into `domain`. Later orders have no effect. Says whether the call was a long one.
///
/// # Safety
/// As for [`begin`].
#[inline]
pub(crate) unsafe fn end(context: *mut Context, domain: *mut DomainState) -> bool {
    // SAFETY: see the function's contract. The signal handler closes the gates only while the
    // number stands.
    unsafe {
        let watch = &*(*context).watch.cast::<Watch>();
        if watch.metered {
            meter::charge(context, domain);
            (*domain).account.crossings += 1;
            if watch.is_spent(context) || meter::is_unclear(context) {
                meter::settle(context, ptr::null());
            }
        }
        watch.running.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        open_gates(context);
        // A look at this call may set the flag too late. Then the next call counts as long.
        let long = watch.long.load(Ordering::Relaxed);
        if long {
            watch.long.store(false, Ordering::Relaxed);
        }
        long
    }
}

/// Begins a call that only handlers of the host end ([`crate::interrupt`]).
///
/// # Safety
/// As for [`begin`]. The watchdog does not look at the world's watch.
#[inline(always)]
pub(crate) unsafe fn begin_alone(context: *mut Context) {
    // SAFETY: see the function's contract. The watch lives as long as the world.
    let watch = unsafe { &*(*context).watch.cast::<Watch>() };
    watch.in_host.store(false, Ordering::Release);
    let number = watch.next();
    watch.call.store(number, Ordering::Relaxed);
    watch.running.store(number, Ordering::Release);
}

/// Ends a call that [`begin_alone`] began. Later orders have no effect.
///
/// # Safety
/// As for [`begin_alone`].
#[inline(always)]
pub(crate) unsafe fn end_alone(context: *mut Context) {
    // SAFETY: as in `end`.
    unsafe {
        let watch = &*(*context).watch.cast::<Watch>();
        watch.running.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        open_gates(context);
    }
}

/// Notes that a domain was ended for a [`reason`]. The order no longer holds for the other domains
/// of the call, unless it is for all of them. Async-signal-safe.
///
/// # Safety
/// As for [`begin`], or the signal handler of that thread.
pub(crate) unsafe fn again(context: *mut Context, due: u32) {
    if due & reason::FINAL != 0 {
        return;
    }
    // SAFETY: as in `end`.
    unsafe {
        let watch = &*(*context).watch.cast::<Watch>();
        if due == reason::CALL_WALL || due == reason::CALL_CPU {
            watch.grace.store(true, Ordering::Relaxed);
        }
        watch.running.store(watch.next(), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        open_gates(context);
    }
}

/// Returns the time that the other domains of a call have together after one was ended at the
/// call's limit.
fn grace(limit: Duration) -> Duration {
    (limit / 4).clamp(GRACE[0], GRACE[1])
}

/// Makes every gate that a domain enters stop, as if the control stack were used up.
/// Async-signal-safe.
///
/// # Safety
/// As for [`again`].
pub(crate) unsafe fn close_gates(context: *mut Context) {
    // SAFETY: see the function's contract. Only gates read `limit`.
    unsafe { ptr::write_volatile(&raw mut (*context).limit, u64::MAX) };
}

unsafe fn open_gates(context: *mut Context) {
    // SAFETY: as in `close_gates`.
    unsafe { ptr::write_volatile(&raw mut (*context).limit, (*context).floor) };
}

/// Prepares the thread for its first call with a limit.
#[cold]
pub(crate) fn join(state: *mut ThreadState) {
    // SAFETY: `state` is this thread's own, and the mask changes for the one signal only.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, TIME_SIGNAL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        (*state).id = libc::gettid();
    }
}

/// Prepares the end of the thread: waits while the watchdog may be sending it a signal. The
/// watchdog sends with the registry locked, and only to a thread that it sees in a call.
pub(crate) fn leave(state: *mut ThreadState) {
    // SAFETY: `state` is this thread's own.
    unsafe {
        if (*state).id != 0 {
            drop(registry());
            (*state).id = 0;
        }
    }
}

/// One watch, and the watchdog's view of it.
struct Observed {
    watch: Arc<Watch>,
    seen: u64,
    since: Instant,
    /// The processor clock of the thread when the call was first seen.
    cpu_since: Option<Duration>,
    /// The clocks when the call was first seen after one of its domains was ended at the limit. The
    /// [`grace`] of the others begins here, so they have it on a busy machine as well.
    last: Option<(Instant, Option<Duration>)>,
    /// The shortest limit of a call that had one of its own, and the time until which it counts.
    pace: Option<(Duration, Instant)>,
}

/// Reads the processor time of a thread of this process, or `None` if it is gone. The kernel
/// encodes a thread's clock as `(~tid << 3) | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`
/// (linux/posix-timers_types.h), as `pthread_getcpuclockid` does.
fn cpu_clock(thread: i32) -> Option<Duration> {
    clock((!thread << 3) | 6)
}

impl Observed {
    fn new(watch: &Arc<Watch>, now: Instant) -> Self {
        Self { watch: Arc::clone(watch), seen: 0, since: now, cpu_since: None, last: None, pace: None }
    }

    /// Returns the time between two looks, and tells the world's thread the limit that they suit.
    fn period(&mut self, now: Instant) -> Duration {
        let watch = &*self.watch;
        let set = |limit: &AtomicU64| Some(limit.load(Ordering::Relaxed)).filter(|l| *l > 0).map(Duration::from_nanos);
        let asked = watch.asked.swap(u64::MAX, Ordering::Relaxed);
        let recent = self.pace.filter(|(_, until)| now < *until);
        if asked != u64::MAX {
            let asked = Duration::from_nanos(asked);
            self.pace = Some((recent.map_or(asked, |(pace, _)| pace.min(asked)), now + MEMORY));
        } else {
            self.pace = recent;
        }
        let wall = set(&watch.wall).into_iter().chain(self.pace.map(|(pace, _)| pace)).min();
        watch.pace.store(nanos(Some(wall.unwrap_or(Duration::MAX))), Ordering::Relaxed);
        let wall = wall.map_or(PERIOD[2], |wall| (wall / WALL_LOOKS).max(PERIOD[0]));
        let others = set(&watch.cpu).into_iter().chain(watch.budget.map(|b| b.min(BUDGET_PERIOD * LOOKS))).min();
        let others = others.map_or(PERIOD[2], |limit| (limit / LOOKS).max(PERIOD[1]));
        wall.min(others).min(PERIOD[2])
    }

    /// Says whether a domain may be over its budget. While a host function runs the answer is no,
    /// because its end checks the budgets.
    fn spent(&self) -> bool {
        let context = self.watch.context.load(Ordering::Acquire);
        if context.is_null() || !self.watch.metered || self.watch.in_host.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: the world drops its watch before its records, and the watch is only read with the
        // registry locked. The gates write the words while this thread reads them. A wrong sum
        // makes the other thread check in vain, or later. Of several lanes this one is in a call.
        let (ticks, running) = unsafe {
            if let Some(members) = &self.watch.members {
                (members.purse.ticks(), running(&members.purse, now()))
            } else {
                (ptr::read_volatile(&raw const (*context).ticks), uncharged(context, now()))
            }
        };
        ticks.saturating_add(running) >= self.watch.enough.load(Ordering::Relaxed)
    }

    /// Returns the reason for which the call in progress must end, or 0 and the time until the next
    /// look.
    fn call(&mut self, now: Instant) -> (u32, Duration) {
        if self.watch.is_stopped() {
            return (reason::CALL_WALL | reason::FINAL, RETRY[0]);
        }
        let mut wait = self.period(now);
        let watch = &*self.watch;
        // A thread that is gone uses no more time.
        let clock = || cpu_clock(watch.thread.load(Ordering::Relaxed));
        if watch.grace.load(Ordering::Relaxed) {
            self.last.get_or_insert_with(|| (now, clock()));
        }
        let last = self.last;
        let limit = |l: &AtomicU64| {
            let limit = Some(l.load(Ordering::Relaxed)).filter(|l| *l > 0).map(Duration::from_nanos)?;
            Some(if last.is_some() { grace(limit) } else { limit })
        };
        let all = if last.is_some() { reason::FINAL } else { 0 };
        if let Some(limit) = limit(&watch.wall) {
            let elapsed = now.saturating_duration_since(last.map_or(self.since, |(since, _)| since));
            if elapsed >= limit {
                return (reason::CALL_WALL | all, RETRY[0]);
            }
            wait = wait.min(limit - elapsed);
        }
        if let Some((limit, now)) = limit(&watch.cpu).and_then(|limit| Some((limit, clock()?))) {
            let since = *self.cpu_since.get_or_insert(now);
            let used = now.saturating_sub(last.and_then(|(_, since)| since).unwrap_or(since));
            if used >= limit {
                return (reason::CALL_CPU | all, RETRY[0]);
            }
            wait = wait.min(limit - used).max(PERIOD[1]);
        }
        (0, wait)
    }

    /// Looks at the call in progress. Returns the time until the next look.
    fn look(&mut self, now: Instant) -> Duration {
        let running = self.watch.running.load(Ordering::Acquire);
        let call = self.watch.call.load(Ordering::Relaxed);
        if running != 0 && call != self.seen {
            self.seen = call;
            // The counter of another processor may be a little ahead.
            let ticks = (clock::now().wrapping_sub(self.watch.began.load(Ordering::Relaxed)) as i64).max(0);
            let ago = Duration::from_nanos((ticks as f64 * rate()) as u64);
            // `now` may be old, because threads are interrupted. No call ends early for that.
            let later = Instant::now();
            self.since = later.checked_sub(ago).unwrap_or(later);
            self.last = None;
            self.cpu_since = match self.watch.cpu.load(Ordering::Relaxed) {
                0 => None,
                _ => cpu_clock(self.watch.thread.load(Ordering::Relaxed)),
            };
        } else if running != 0 {
            self.watch.long.store(true, Ordering::Relaxed);
        }
        if running == 0 {
            return if self.watch.is_stopped() { RETRY[0] } else { self.period(now) };
        }
        let (mut why, mut wait) = self.call(now);
        if why == 0 && self.spent() {
            (why, wait) = (reason::SETTLE, RETRY[0]);
        }
        let watch = &*self.watch;
        if why != 0 {
            watch.why.store(why, Ordering::Relaxed);
            watch.ordered.store(running, Ordering::Release);
        } else if watch.is_interruption_wanted() {
            wait = wait.min(RETRY[0]);
        } else {
            return wait;
        }
        let thread = watch.thread.load(Ordering::Relaxed);
        if !watch.in_host.load(Ordering::Acquire) && watch.running.load(Ordering::Acquire) == running {
            // SAFETY: a system call without pointers. The thread lives, because it was in a call
            // after the registry was locked.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, TIME_SIGNAL) };
            // A signal that finds the thread in a gate ends and interrupts nothing.
            wait = wait.min(RETRY[1]);
        }
        wait
    }
}

/// Returns the ticks since the last charge.
///
/// # Safety
/// The context lives.
unsafe fn uncharged(context: *const Context, now: u64) -> u64 {
    // SAFETY: see the function's contract.
    let since = unsafe { ptr::read_volatile(&raw const (*context).since) };
    (now.wrapping_sub(since) as i64).max(0) as u64
}

/// Returns the ticks since the last charges of all lanes whose domains run.
///
/// # Safety
/// As for [`Purse::ticks`].
unsafe fn running(purse: &Purse, now: u64) -> u64 {
    // SAFETY: see the function's contract; a watch lives as long as its context.
    let of = |context: *mut Context| unsafe {
        let watch = (*context).watch.cast::<Watch>().as_ref();
        if watch.is_some_and(Watch::is_in_domain) { uncharged(context, now) } else { 0 }
    };
    purse.contexts().map(of).fold(0, u64::saturating_add)
}

static REGISTRY: Mutex<Vec<Observed>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();
/// Says whether the watchdog runs.
static STARTED: AtomicBool = AtomicBool::new(false);

fn registry() -> MutexGuard<'static, Vec<Observed>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the watchdog look at a world, as soon as it runs.
pub(super) fn observe(watch: &Arc<Watch>) {
    registry().push(Observed::new(watch, Instant::now()));
    CHANGED.notify_one();
}

/// Looks at a world no more.
pub(super) fn forget(watch: &Arc<Watch>) {
    registry().retain(|e| !Arc::ptr_eq(&e.watch, watch));
}

/// Starts the watchdog, unless it runs already.
#[inline]
pub(super) fn start_once() -> std::io::Result<()> {
    if STARTED.load(Ordering::Acquire) { Ok(()) } else { start_first() }
}

#[cold]
fn start_first() -> std::io::Result<()> {
    let _all = registry();
    if !STARTED.load(Ordering::Relaxed) {
        start_helper(std::thread::Builder::new().name("sfi-watchdog".into()), run)?;
        STARTED.store(true, Ordering::Release);
    }
    Ok(())
}

/// Forks this process by a function that says whether it returned in the new one. That has a
/// watchdog if this one has. `context` is that of the world that this thread runs: its call goes on
/// in the new process, and has its limits there too. Only processor time begins anew.
///
/// # Errors
/// The new process cannot go on.
///
/// # Safety
/// The context lives, and `state` is this thread's.
pub(super) unsafe fn fork<R>(
    context: *mut Context,
    state: *mut ThreadState,
    fork: impl FnOnce() -> (R, bool),
) -> std::io::Result<R> {
    // A lock that the watchdog held would stay locked in the new process.
    let mut all = registry();
    let (result, is_new) = fork();
    if is_new {
        all.iter_mut().for_each(|observed| observed.cpu_since = None);
        // SAFETY: see the function's contract. The watch lives as long as the context.
        unsafe {
            if (*state).id != 0 {
                join(state);
            }
            if let Some(watch) = (*context).watch.cast::<Watch>().as_ref() {
                watch.thread.store((*state).id, Ordering::Relaxed);
            }
        }
        drop(all);
        if STARTED.swap(false, Ordering::Relaxed) {
            start_first()?;
        }
    }
    Ok(result)
}

/// Makes the watchdog look at once. It either waits, or sees the changes before it does.
#[cold]
pub(super) fn wake() {
    drop(registry());
    CHANGED.notify_one();
}

/// Makes the record of a world. `budget` is the smallest one.
pub(super) fn record(
    limits: Limits,
    budgets: &[Budget],
    budget: Option<Duration>,
    by_watchdog: bool,
    members: Option<Arc<Members>>,
) -> Arc<Watch> {
    Arc::new(Watch {
        members,
        limits,
        wall: AtomicU64::new(0),
        cpu: AtomicU64::new(0),
        began: AtomicU64::new(0),
        asked: AtomicU64::new(u64::MAX),
        pace: AtomicU64::new(u64::MAX),
        by_watchdog,
        metered: budget.is_some(),
        processor: budgets.iter().any(|b| b.cpu.is_some()),
        budget,
        enough: AtomicU64::new(0),
        context: AtomicPtr::new(ptr::null_mut()),
        running: AtomicU64::new(0),
        call: AtomicU64::new(0),
        grace: AtomicBool::new(false),
        last: AtomicU64::new(0),
        thread: AtomicI32::new(0),
        in_host: AtomicBool::new(false),
        long: AtomicBool::new(false),
        ordered: AtomicU64::new(0),
        why: AtomicU32::new(0),
        stopped: AtomicBool::new(false),
        wanted: AtomicBool::new(false),
        interruptions: AtomicPtr::new(ptr::null_mut()),
    })
}

/// Ends the call in progress of a world that the watchdog looks at, and all later ones.
pub(crate) fn stop(watch: &Watch) {
    // With the registry locked, so that the watchdog sees the mark before it sleeps.
    let all = registry();
    watch.stopped.store(true, Ordering::Release);
    drop(all);
    CHANGED.notify_one();
}

/// Interrupts the domain of a world that the watchdog looks at, as soon as it runs.
pub(crate) fn interrupt(watch: &Watch) {
    let all = registry();
    watch.want_interruption(true);
    drop(all);
    CHANGED.notify_one();
}

/// Runs the watchdog. It sleeps while no world has a limit.
fn run() {
    // SAFETY: changes only this thread's mask. The host's signals are not for it.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, ptr::null_mut());
        // The kernel must not put its wake-ups off. If it refuses, they are 50 µs late.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
    let mut all = registry();
    loop {
        let now = Instant::now();
        let wait = all.iter_mut().map(|e| e.look(now)).min();
        all = match wait {
            None => CHANGED.wait(all).unwrap_or_else(PoisonError::into_inner),
            Some(wait) => CHANGED.wait_timeout(all, wait).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watchdog that looks late takes no time from the callers of the domain that it ends.
    #[test]
    fn callers_have_their_time_after_a_late_look() {
        let limit = Duration::from_millis(30);
        let watch = record(Limits::wall(limit), &[], None, true, None);
        watch.limit_calls();
        let now = Instant::now();
        let mut entry = Observed { seen: 1, ..Observed::new(&watch, now) };
        let late = now + 10 * limit;
        assert_eq!(entry.call(late).0, reason::CALL_WALL);
        watch.grace.store(true, Ordering::Relaxed);
        assert_eq!(entry.call(late).0, 0);
        let end = late + grace(limit);
        assert_eq!(entry.call(end - Duration::from_nanos(1)).0, 0);
        assert_eq!(entry.call(end).0, reason::CALL_WALL | reason::FINAL);
    }

    /// A watchdog that is interrupted before it looks ends no call early.
    #[test]
    fn a_call_has_its_time_after_an_interrupted_look() {
        clock::origin();
        let watch = record(Limits::wall(Duration::from_secs(60)), &[], None, true, None);
        watch.limit_calls();
        let old = Instant::now();
        let mut entry = Observed::new(&watch, old);
        std::thread::sleep(Duration::from_millis(20));
        let before = Instant::now();
        watch.began.store(clock::now(), Ordering::Relaxed);
        watch.call.store(1, Ordering::Relaxed);
        watch.running.store(1, Ordering::Release);
        entry.look(old);
        assert!(entry.since >= before, "{:?} early", before - entry.since);
    }
}
