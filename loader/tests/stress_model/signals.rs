//! Signals of the host at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const KINDS: [libc::c_int; 2] = [libc::SIGPROF, libc::SIGUSR1];

/// The number of signals that came.
pub static SEEN: AtomicU64 = AtomicU64::new(0);

/// Installs the handler.
pub fn handle() {
    for signal in KINDS {
        // The handler has the alternate stack, because some domains leave it no room on theirs.
        // SAFETY: a valid action, whose handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = tick as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
}

/// Does more than a profiler: it changes every register that a handler may change.
extern "C" fn tick(_: libc::c_int) {
    SEEN.fetch_add(1, Relaxed);
    // SAFETY: all changed registers are declared.
    unsafe {
        std::arch::asm!("pcmpeqd xmm0, xmm0", "movdqa xmm1, xmm0", "movdqa xmm15, xmm0", "mov r10, -1", "mov r11, -1",
            out("xmm0") _, out("xmm1") _, out("xmm15") _, out("r10") _, out("r11") _);
    }
}

/// A timer that sends this thread five thousand signals a second while it lives.
pub struct Timer(libc::timer_t);

impl Timer {
    pub fn new(which: u64) -> Self {
        // SAFETY: valid pointers; the handler is async-signal-safe.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = KINDS[which as usize];
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            let interval = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
            let time = libc::itimerspec { it_interval: interval, it_value: interval };
            assert_eq!(libc::timer_settime(timer, 0, &time, std::ptr::null_mut()), 0);
            Self(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not deleted before.
        assert_eq!(unsafe { libc::timer_delete(self.0) }, 0);
    }
}
