//! Time limits: one thread per process that looks after the calls of worlds with a limit.
//!
//! A call costs two stores: its number when it begins, zero when it ends. The watchdog looks at the numbers a few times within the
//! shortest limit; a number that stays for the limit belongs to a call that overstays. It then writes that number to
//! [`Watch::ordered`] and, unless a host function runs, sends [`SIGNAL`] to the thread, again and again until the number is another.
//! What the thread does about it is in `fault` and `host`: a domain is ended where it runs, where it enters a gate, or where
//! a host function returns to it. An order for a call that is over is void, because no number is used twice.

use crate::context::{CONTROL_RESERVE, Context, ThreadState};
use crate::window::ControlStack;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The signal. By default it is ignored, pending ones are merged, and programs that use it expect it at any time.
pub const SIGNAL: libc::c_int = libc::SIGURG;
/// Time between two orders to the same call.
const RETRY: Duration = Duration::from_millis(1);
/// Looks within one limit.
const LOOKS: u32 = 8;
/// Bounds of the time between two looks.
const PERIOD: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(250)];

/// What a world with a limit and the watchdog share.
#[derive(Debug)]
pub struct Watch {
    limit: Duration,
    /// The number of the call in progress, 0 if there is none.
    running: AtomicU64,
    /// The last number that was used; only the thread that runs the world touches it.
    last: AtomicU64,
    /// The kernel's id of the thread that runs the call.
    thread: AtomicI32,
    /// A host function runs, not a domain: no signal is sent.
    in_host: AtomicBool,
    /// The number of the call that must end.
    ordered: AtomicU64,
}

impl Watch {
    /// The number of a new call, or a new one for the rest of a call in which a domain was ended.
    fn next(&self) {
        let number = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(number, Ordering::Relaxed);
        self.running.store(number, Ordering::Release);
    }

    /// Whether the call in progress must end. Async-signal-safe.
    #[inline]
    pub fn overdue(&self) -> bool {
        let running = self.running.load(Ordering::Relaxed);
        running != 0 && self.ordered.load(Ordering::Acquire) == running
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
        let watch = &*(*context).watch;
        watch.set_in_host(false);
        watch.thread.store((*state).id, Ordering::Relaxed);
        watch.next();
    }
}

/// Ends it. Orders that come later are void.
///
/// # Safety
/// As for [`begin`].
pub unsafe fn end(context: *mut Context) {
    // SAFETY: see the function's contract. The signal handler closes the gates only while the number stands.
    unsafe {
        (*(*context).watch).running.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        open_gates(context);
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
        (*(*context).watch).next();
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
    unsafe { ptr::write_volatile(&raw mut (*context).limit, gate_limit(context)) };
}

/// Lowest rsp at which a gate may be entered.
pub fn gate_limit(context: *const Context) -> u64 {
    ControlStack::guard(context).1 + CONTROL_RESERVE
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
}

impl Entry {
    fn period(&self) -> Duration {
        (self.watch.limit / LOOKS).clamp(PERIOD[0], PERIOD[1])
    }

    /// Looks at the call in progress. Returns when to look again.
    fn look(&mut self, now: Instant) -> Duration {
        let watch = &*self.watch;
        let running = watch.running.load(Ordering::Acquire);
        if running != self.seen {
            self.seen = running;
            self.since = now;
        }
        if running == 0 {
            return self.period();
        }
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < watch.limit {
            return self.period().min(watch.limit - elapsed);
        }
        watch.ordered.store(running, Ordering::Release);
        let thread = watch.thread.load(Ordering::Relaxed);
        if !watch.in_host.load(Ordering::Acquire) && watch.running.load(Ordering::Acquire) == running {
            // SAFETY: a system call without pointers. The thread lives: it was in a call after the registry was locked.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        }
        RETRY
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
    /// Registers a limit; starts the watchdog when it is the first.
    pub fn new(limit: Duration) -> std::io::Result<Self> {
        static STARTED: OnceLock<()> = OnceLock::new();
        let watch = Arc::new(Watch {
            limit,
            running: AtomicU64::new(0),
            last: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            in_host: AtomicBool::new(false),
            ordered: AtomicU64::new(0),
        });
        let mut all = registry();
        if STARTED.get().is_none() {
            crate::fault::install_time();
            std::thread::Builder::new().name("sfi-watchdog".into()).spawn(run)?;
            STARTED.get_or_init(|| ());
        }
        all.push(Entry { watch: watch.clone(), seen: 0, since: Instant::now() });
        CHANGED.notify_one();
        Ok(Self(watch))
    }

    /// The watch, valid as long as this value.
    pub fn watch(&self) -> *const Watch {
        Arc::as_ptr(&self.0)
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
