//! Time limits and budgets: one thread per process that looks after the calls of worlds that have some.
//!
//! A call costs two stores: its number when it begins, zero when it ends. The watchdog looks at the numbers a few times within the
//! shortest limit; a number that stays for the limit belongs to a call that overstays. It then writes that number to
//! [`Watch::ordered`] and, unless a host function runs, sends [`SIGNAL`] to the thread, again and again until the number is another.
//! What the thread does about it is in `fault` and `host`: a domain is ended where it runs, where it enters a gate, or where
//! a host function returns to it. An order for a call that is over is void, because no number is used twice.
//!
//! Limits of a call count wall clock or the processor time of its thread, whose clock the watchdog reads. Budgets of domains are accounts: at
//! each look the time since the last one is charged to the domain that runs then. That costs the crossings nothing, and over many looks it
//! is what the domains used. An order because of a budget is for that domain alone: it ends where it runs or is returned to by a host
//! function, and others go on.

use crate::fault::limits::{Budget, Limits, reason};
use crate::gate::records::{Context, ThreadState};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The signal. By default it is ignored, pending ones are merged, and programs that use it expect it at any time.
pub const SIGNAL: libc::c_int = libc::SIGURG;
/// Time between two orders to the same call.
const RETRY: Duration = Duration::from_millis(1);
/// Looks within one limit.
const LOOKS: u32 = 8;
/// Longest time between two looks where budgets are charged.
const BUDGET_PERIOD: Duration = Duration::from_millis(4);
/// Bounds of the time between two looks.
const PERIOD: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(250)];

/// What a world with a limit and the watchdog share.
#[derive(Debug)]
pub struct Watch {
    /// Limits of every call.
    limits: Limits,
    /// Nanoseconds for the call in progress, wall clock and processor; 0: none.
    wall: AtomicU64,
    cpu: AtomicU64,
    /// Accounts of the domains, by index. No longer than the world's domains were when it was built.
    accounts: Vec<Account>,
    /// Where to see which domain runs.
    context: AtomicPtr<Context>,
    /// The number of the call in progress, 0 if there is none.
    running: AtomicU64,
    /// The last number that was used; only the thread that runs the world touches it.
    last: AtomicU64,
    /// The kernel's id of the thread that runs the call; its processor clock follows from it.
    thread: AtomicI32,
    /// A host function runs, not a domain: no signal is sent.
    in_host: AtomicBool,
    /// The call in progress was seen more than once.
    long: AtomicBool,
    /// The number of the call that must end.
    ordered: AtomicU64,
    /// Why: a [`reason`] and, for budgets, the index of the domain plus 1 in the upper half.
    why: AtomicU64,
}

/// The world's watch, if its calls are limited.
pub fn of(context: &Context) -> Option<&Watch> {
    // SAFETY: the builder made the pointer of a `Watch` that lives as long as the world, or left it null.
    unsafe { context.watch.cast::<Watch>().as_ref() }
}

/// A domain's budget and what is used of it, nanoseconds.
#[derive(Debug, Default)]
pub struct Account {
    budget: Budget,
    wall: AtomicU64,
    cpu: AtomicU64,
}

impl Account {
    /// The reason for which the domain must end, or 0.
    fn exhausted(&self) -> u32 {
        let over = |limit: Option<Duration>, used: &AtomicU64| {
            limit.is_some_and(|limit| u128::from(used.load(Ordering::Relaxed)) > limit.as_nanos())
        };
        if over(self.budget.cpu, &self.cpu) {
            reason::DOMAIN_CPU
        } else if over(self.budget.wall, &self.wall) {
            reason::DOMAIN_WALL
        } else {
            0
        }
    }
}

impl Watch {
    /// The number of a new call, or a new one for the rest of a call in which a domain was ended.
    fn next(&self) {
        let number = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(number, Ordering::Relaxed);
        self.running.store(number, Ordering::Release);
    }

    /// Whether the call in progress must end, in this domain: the [`reason`], 0 if not. Async-signal-safe.
    #[inline]
    pub fn overdue(&self, domain: u32) -> u32 {
        let running = self.running.load(Ordering::Relaxed);
        if running == 0 || self.ordered.load(Ordering::Acquire) != running {
            return 0;
        }
        let why = self.why.load(Ordering::Relaxed);
        let culprit = (why >> 32) as u32;
        if culprit == 0 || culprit == domain.wrapping_add(1) { why as u32 } else { 0 }
    }

    /// What a domain used of its budget: wall clock and processor time.
    pub fn used(&self, domain: usize) -> (Duration, Duration) {
        let time = |used: &AtomicU64| Duration::from_nanos(used.load(Ordering::Relaxed));
        self.accounts.get(domain).map_or_else(Default::default, |a| (time(&a.wall), time(&a.cpu)))
    }

    /// Gives a domain its whole budget again.
    pub fn refill(&self, domain: usize) {
        if let Some(account) = self.accounts.get(domain) {
            account.wall.store(0, Ordering::Relaxed);
            account.cpu.store(0, Ordering::Relaxed);
        }
    }

    /// Where to see which domain runs. Set once, before the first call.
    pub fn attach(&self, context: *mut Context) {
        self.context.store(context, Ordering::Release);
    }

    /// Limits for the next call, instead of the world's.
    pub fn limit_call(&self, limits: Limits) {
        let nanos =
            |limit: Option<Duration>| limit.map_or(0, |l| u64::try_from(l.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.wall.store(nanos(limits.wall), Ordering::Relaxed);
        self.cpu.store(nanos(limits.cpu), Ordering::Relaxed);
    }

    /// The world's limits again.
    pub fn limit_calls(&self) {
        self.limit_call(self.limits);
    }

    /// Notes that a host function begins or ends.
    #[inline]
    pub fn set_in_host(&self, host: bool) {
        self.in_host.store(host, Ordering::Release);
    }
}

/// Begins a call with a limit.
///
/// # Safety
/// `context` belongs to a world with a watch that this thread holds mutably; `state` is this thread's.
pub unsafe fn begin(context: *mut Context, state: *mut ThreadState) {
    // SAFETY: see the function's contract; the watch lives as long as the world.
    unsafe {
        if (*state).id == 0 {
            join(state);
        }
        let watch = &*(*context).watch.cast::<Watch>();
        watch.set_in_host(false);
        watch.thread.store((*state).id, Ordering::Relaxed);
        watch.next();
    }
}

/// Ends it. Orders that come later are void. Whether it was a long one.
///
/// # Safety
/// As for [`begin`].
pub unsafe fn end(context: *mut Context) -> bool {
    // SAFETY: see the function's contract. The signal handler closes the gates only while the number stands.
    unsafe {
        let watch = &*(*context).watch.cast::<Watch>();
        watch.running.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        open_gates(context);
        // A look at this call may come too late for it; then the next one counts as long.
        let long = watch.long.load(Ordering::Relaxed);
        if long {
            watch.long.store(false, Ordering::Relaxed);
        }
        long
    }
}

/// A domain was ended: the rest of the call has the same time again. A call ends nevertheless, because dead domains are not
/// entered again during it. Async-signal-safe.
///
/// # Safety
/// As for [`begin`], or the signal handler of that thread.
pub unsafe fn again(context: *mut Context) {
    // SAFETY: as in `end`.
    unsafe {
        (*(*context).watch.cast::<Watch>()).next();
        compiler_fence(Ordering::SeqCst);
        open_gates(context);
    }
}

/// From now on every gate that a domain enters stops as if the control stack were used up. Async-signal-safe.
///
/// # Safety
/// As for [`again`].
pub unsafe fn close_gates(context: *mut Context) {
    // SAFETY: see the function's contract; `limit` is read by gates only.
    unsafe { ptr::write_volatile(&raw mut (*context).limit, u64::MAX) };
}

unsafe fn open_gates(context: *mut Context) {
    // SAFETY: as in `close_gates`.
    unsafe { ptr::write_volatile(&raw mut (*context).limit, (*context).floor) };
}

/// The thread's first call with a limit.
#[cold]
fn join(state: *mut ThreadState) {
    // SAFETY: `state` is this thread's own; the mask is changed for the one signal only.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, SIGNAL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        (*state).id = libc::gettid();
    }
}

/// The thread ends. Waits until the watchdog is not about to send a signal: it does so with the registry locked, and only to
/// a thread that it sees in a call then.
pub fn leave(state: *mut ThreadState) {
    // SAFETY: `state` is this thread's own.
    unsafe {
        if (*state).id != 0 {
            drop(registry());
            (*state).id = 0;
        }
    }
}

/// One watch, and what the watchdog saw of it.
struct Entry {
    watch: Arc<Watch>,
    seen: u64,
    since: Instant,
    /// The processor clock of the thread when the call was first seen.
    cpu_since: Duration,
    /// The last look, the thread that ran a call then, and its processor clock.
    last: (Instant, i32, Duration),
}

/// The processor time of a thread of this process. `None` if it is gone. The kernel's encoding of a thread's clock:
/// `(~tid << 3) | CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED` (linux/posix-timers_types.h), as `pthread_getcpuclockid` makes it.
fn cpu_clock(thread: i32) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; a clock that does not exist is an error.
    let result = unsafe { libc::clock_gettime((!thread << 3) | 6, &mut time) };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

impl Entry {
    fn period(&self) -> Duration {
        let watch = &*self.watch;
        let limits = [&watch.wall, &watch.cpu].map(|l| l.load(Ordering::Relaxed)).into_iter().filter(|l| *l > 0);
        let shortest = limits.min().map_or(PERIOD[1], Duration::from_nanos);
        let budgets = watch.accounts.iter().flat_map(|a| [a.budget.wall, a.budget.cpu]).flatten();
        // Charges are as fine as the looks.
        let shortest = budgets.min().map_or(shortest, |b| shortest.min(b).min(BUDGET_PERIOD * LOOKS));
        (shortest / LOOKS).clamp(PERIOD[0], PERIOD[1])
    }

    /// The domain that runs now: its index. `None` in a host function, and where that cannot be said.
    fn domain(&self) -> Option<u32> {
        let context = self.watch.context.load(Ordering::Acquire);
        if context.is_null() || self.watch.in_host.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the world drops its watch before its records, and the watch is only looked at with the registry locked. The gates
        // write the word while this thread reads it: whole words, of which any is good enough.
        unsafe {
            let current = ptr::read_volatile(&raw const (*context).current);
            (!current.is_null()).then(|| (*current).index)
        }
    }

    /// Charges the time since the last look to the domain that runs. Returns it, and why it must end if it must.
    fn charge(&mut self, now: Instant, running: u64) -> Option<(u32, u32)> {
        let watch = &*self.watch;
        if watch.accounts.is_empty() {
            return None;
        }
        let thread = watch.thread.load(Ordering::Relaxed);
        let cpu = cpu_clock(thread).unwrap_or_default();
        let (last, last_thread, last_cpu) = std::mem::replace(&mut self.last, (now, thread, cpu));
        let domain = self.domain().filter(|_| running != 0)?;
        let account = watch.accounts.get(domain as usize)?;
        let wall = now.saturating_duration_since(last);
        let used = if thread == last_thread { cpu.saturating_sub(last_cpu).min(wall) } else { wall };
        account.wall.fetch_add(wall.as_nanos() as u64, Ordering::Relaxed);
        account.cpu.fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
        Some((domain, account.exhausted()))
    }

    /// Why the call in progress must end, and when to look again if it need not.
    fn call(&self, now: Instant) -> (u32, Duration) {
        let watch = &*self.watch;
        let limit = |l: &AtomicU64| Some(l.load(Ordering::Relaxed)).filter(|l| *l > 0).map(Duration::from_nanos);
        let mut wait = self.period();
        if let Some(limit) = limit(&watch.wall) {
            let elapsed = now.saturating_duration_since(self.since);
            if elapsed >= limit {
                return (reason::CALL_WALL, RETRY);
            }
            wait = wait.min(limit - elapsed);
        }
        if let Some(limit) = limit(&watch.cpu) {
            let now = cpu_clock(watch.thread.load(Ordering::Relaxed)).unwrap_or_default();
            let used = now.saturating_sub(self.cpu_since);
            if used >= limit {
                return (reason::CALL_CPU, RETRY);
            }
            wait = wait.min(limit - used).max(PERIOD[0]);
        }
        (0, wait)
    }

    /// Looks at the call in progress. Returns when to look again.
    fn look(&mut self, now: Instant) -> Duration {
        let running = self.watch.running.load(Ordering::Acquire);
        if running != self.seen {
            self.seen = running;
            self.since = now;
            if self.watch.cpu.load(Ordering::Relaxed) > 0 {
                self.cpu_since = cpu_clock(self.watch.thread.load(Ordering::Relaxed)).unwrap_or_default();
            }
        } else if running != 0 {
            self.watch.long.store(true, Ordering::Relaxed);
        }
        let charged = self.charge(now, running);
        if running == 0 {
            return self.period();
        }
        let (mut why, mut wait) = self.call(now);
        let mut culprit = 0;
        if let Some((domain, over)) = charged.filter(|(_, over)| why == 0 && *over != 0) {
            (why, culprit, wait) = (over, domain + 1, RETRY);
        }
        if why == 0 {
            return wait;
        }
        let watch = &*self.watch;
        watch.why.store(u64::from(culprit) << 32 | u64::from(why), Ordering::Relaxed);
        watch.ordered.store(running, Ordering::Release);
        let thread = watch.thread.load(Ordering::Relaxed);
        if !watch.in_host.load(Ordering::Acquire) && watch.running.load(Ordering::Acquire) == running {
            // SAFETY: a system call without pointers. The thread lives: it was in a call after the registry was locked.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        }
        wait
    }
}

static REGISTRY: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

fn registry() -> MutexGuard<'static, Vec<Entry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A world's limit. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watched(Arc<Watch>);

impl Watched {
    /// Registers limits and the domains' budgets; starts the watchdog when they are the first.
    pub fn new(limits: Limits, budgets: Vec<Budget>) -> std::io::Result<Self> {
        static STARTED: OnceLock<()> = OnceLock::new();
        let budgets = if budgets.iter().any(Budget::is_set) { budgets } else { Vec::new() };
        let watch = Arc::new(Watch {
            limits,
            wall: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            accounts: budgets.into_iter().map(|budget| Account { budget, ..Account::default() }).collect(),
            context: AtomicPtr::new(ptr::null_mut()),
            running: AtomicU64::new(0),
            last: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            in_host: AtomicBool::new(false),
            long: AtomicBool::new(false),
            ordered: AtomicU64::new(0),
            why: AtomicU64::new(0),
        });
        watch.limit_calls();
        let mut all = registry();
        if STARTED.get().is_none() {
            std::thread::Builder::new().name("sfi-watchdog".into()).spawn(run)?;
            STARTED.get_or_init(|| ());
        }
        let now = Instant::now();
        let last = (now, 0, Duration::ZERO);
        all.push(Entry { watch: watch.clone(), seen: 0, since: now, cpu_since: Duration::ZERO, last });
        CHANGED.notify_one();
        Ok(Self(watch))
    }

    /// The watch, valid as long as this value.
    pub fn watch(&self) -> *const Watch {
        Arc::as_ptr(&self.0)
    }

    /// See [`Watch::refill`].
    pub fn refill(&self, domain: usize) {
        self.0.refill(domain);
    }

    /// See [`Watch::used`].
    pub fn used(&self, domain: usize) -> (Duration, Duration) {
        self.0.used(domain)
    }

    /// Limits for the calls that begin from now on; `None`: those of the world. The watchdog learns of them at once.
    pub fn limit_call(&self, limits: Option<Limits>) {
        match limits {
            Some(limits) => {
                self.0.limit_call(limits);
                CHANGED.notify_one();
            }
            None => self.0.limit_calls(),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        registry().retain(|e| !Arc::ptr_eq(&e.watch, &self.0));
    }
}

/// The watchdog. It sleeps while no world has a limit.
fn run() {
    // SAFETY: only this thread's mask: the host's signals are not for it.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, ptr::null_mut());
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
