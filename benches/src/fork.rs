//! Processes to compare with, and namespaces, priorities and processors of threads. This and
//! `far` are the only `unsafe` code of the crate.
#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Starts a child of this process that exits at once, and waits for it.
pub fn child_that_exits() -> Result<()> {
    // SAFETY: the child calls only `_exit`, which is async-signal-safe. `status` outlives the call.
    unsafe {
        let child = libc::fork();
        match child {
            -1 => Err(Error::last_os_error()),
            0 => libc::_exit(0),
            child => {
                let mut status = 0;
                match libc::waitpid(child, &raw mut status, 0) {
                    -1 => Err(Error::last_os_error()),
                    _ => Ok(()),
                }
            }
        }
    }
}

fn check(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

/// Moves the calling thread to a new network namespace.
pub fn new_network() -> Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Returns the number of the calling thread.
pub fn thread() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::gettid() }
}

/// Returns the processors that the calling thread may use.
pub fn processors() -> Result<Vec<usize>> {
    // SAFETY: all zeroes are an empty set, and the set lives during the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|processor| libc::CPU_ISSET(*processor, &set)).collect())
    }
}

/// Binds the calling thread to a processor.
pub fn pin(processor: usize) -> Result<()> {
    // SAFETY: all zeroes are an empty set, and the set lives during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)).map(drop)
    }
}

/// Lets the calling thread run on all processors.
pub fn unpin() -> Result<()> {
    // SAFETY: all ones are the full set, and the set lives during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|processor| libc::CPU_SET(processor, &mut set));
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)).map(drop)
    }
}

/// Gives the calling thread a priority over all ordinary threads, or takes it back. Threads and
/// processes that it starts are ordinary: one that computes would keep this one from running.
pub fn real_time(on: bool) -> Result<()> {
    let (policy, priority): (i32, i32) =
        if on { (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 10) } else { (libc::SCHED_OTHER, 0) };
    // The kernel's record is the priority alone. musl's function only fails.
    // SAFETY: the priority lives during the call.
    check(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) } as i32).map(drop)
}

/// A child process, which ends when the value is dropped.
#[derive(Debug)]
pub struct Child(libc::pid_t);

impl Child {
    /// Starts a child that runs `body` for ever, or until this thread ends. The body neither
    /// allocates nor locks, because another thread may have held a lock when the process was
    /// copied.
    pub fn start(body: impl FnOnce()) -> Result<Self> {
        // SAFETY: the child runs the body, which does only what a copy of one thread may do (see
        // above), and `_exit`.
        match check(unsafe { libc::fork() })? {
            0 => {
                // SAFETY: no memory is passed.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                body();
                // SAFETY: it does not return.
                unsafe { libc::_exit(0) }
            }
            child => Ok(Self(child)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is this process's own and was not waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Words that this process shares with its children.
#[derive(Debug)]
pub struct Shared(NonNull<Words>);

/// The words themselves.
#[derive(Debug)]
pub struct Words {
    /// Number of the last request.
    pub request: AtomicU32,
    /// Number of the last answer.
    pub answer: AtomicU32,
    /// The value of both.
    pub value: AtomicU64,
}

// SAFETY: the mapping belongs to the value, and all words are atomic.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps zeroed words.
    pub fn new() -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Words>(), protection, flags, -1, 0) };
        let at = (at != libc::MAP_FAILED).then(|| NonNull::new(at.cast())).flatten();
        at.map(Self).ok_or_else(Error::last_os_error)
    }

    /// Returns the words.
    pub fn words(&self) -> &Words {
        // SAFETY: the mapping lives as long as the value, and zeroes are valid atomics.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Words>()) };
    }
}

/// Waits on a shared word while it has a value.
pub fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the word lives during the call.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, none) };
    }
}

/// Wakes those who wait on a shared word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word lives during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
