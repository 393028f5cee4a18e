//! Per-thread state: the world that the thread runs, its GS base, its alternate signal stack.

use crate::fault::signal_room;
use crate::fault::watchdog;
use crate::gate::records::ThreadState;
use std::cell::UnsafeCell;
use std::ptr;

/// Size of the guard below the stack.
const SIGNAL_GUARD: usize = 4096;

thread_local! {
    static STATE: UnsafeCell<ThreadState> =
        const { UnsafeCell::new(ThreadState { gs: 0, current: ptr::null_mut(), ready: false, id: 0 }) };
    static SIGNALS: SignalStack = SignalStack::install();
}

/// Returns this thread's state. Async-signal-safe once the thread has entered a domain, because the
/// thread local is constant-initialised and has no destructor.
#[inline(always)]
pub(crate) fn state() -> *mut ThreadState {
    STATE.with(UnsafeCell::get)
}

/// Prepares the thread for faults in domains.
#[cold]
pub(crate) fn prepare(state: *mut ThreadState) {
    SIGNALS.with(|_| ());
    // SAFETY: `state` is this thread's own record and nobody holds a reference to it.
    unsafe { (*state).ready = true };
}

/// An alternate signal stack that lives as long as its thread.
struct SignalStack {
    mapping: *mut libc::c_void,
    size: usize,
    previous: libc::stack_t,
}

impl SignalStack {
    /// Maps and installs the stack.
    fn install() -> Self {
        let size = signal_room::alternate() as usize;
        // SAFETY: a fresh anonymous mapping with a guard page. The memory given to sigaltstack
        // stays mapped until `drop`.
        unsafe {
            let mapping = libc::mmap(
                ptr::null_mut(),
                size + SIGNAL_GUARD,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            assert!(mapping != libc::MAP_FAILED, "no memory for a signal stack");
            libc::mprotect(mapping, SIGNAL_GUARD, libc::PROT_NONE);
            let stack = libc::stack_t { ss_sp: mapping.byte_add(SIGNAL_GUARD), ss_flags: 0, ss_size: size };
            let mut previous: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&stack, &mut previous), 0, "the signal stack was not accepted");
            Self { mapping, size, previous }
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        watchdog::leave(state());
        // SAFETY: the previous stack is put back only if this one is still installed. Then nothing
        // refers to the mapping.
        unsafe {
            (*state()).ready = false;
            let mut now: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(ptr::null(), &mut now);
            if now.ss_sp == self.mapping.byte_add(SIGNAL_GUARD) {
                libc::sigaltstack(&self.previous, ptr::null_mut());
            }
            libc::munmap(self.mapping, self.size + SIGNAL_GUARD);
        }
    }
}
