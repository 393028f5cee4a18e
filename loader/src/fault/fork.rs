//! Forks of this process while a host function of a world runs. The new process has a copy of the
//! world, in which the call goes on as it does here.
//!
//! Only the calling thread is in the new process. The work of the loader's other threads begins
//! anew there: the watchdog's, and that of the thread that tells the signals of other processes.
//! Both processes have the same secrets of placement, as they have the same memory. So a look of
//! the new one for memory outside its window ends all of them.

use crate::fault::{helper, outside, thread, watchdog};
use crate::gate::records::Context;
use crate::vm::child::end_with;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// The first of the processes that this one was forked from, or 0.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// A return of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// In this process: the number of the new one.
    Parent(u32),
    /// In the new process: the number of this one.
    Child(u32),
}

/// Blocks all signals until it is dropped.
pub(crate) struct Quiet(libc::sigset_t);

impl Quiet {
    pub(crate) fn begin() -> Self {
        // SAFETY: both sets are this function's own.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self(before)
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: the set is this value's own.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Forks this process. The kernel kills the new one when this thread ends. A new process that
/// cannot go on ends at once, with code 127.
///
/// # Errors
/// The process has threads of the host's, or the kernel makes no process.
///
/// # Safety
/// `context` is that of the world that this thread runs.
pub(crate) unsafe fn fork(context: *mut Context) -> io::Result<Fork> {
    if !helper::are_all()? {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the host has threads of its own"));
    }
    let parent = std::process::id();
    // A signal that comes to the new process waits until it is told there.
    let _quiet = Quiet::begin();
    // SAFETY: see the function's contract. The new process may call what it likes: the locks of
    // glibc are free there, and no other thread held one of Rust's.
    let forked = unsafe {
        watchdog::fork(context, thread::state(), || {
            let pid = libc::fork();
            if pid == 0 {
                helper::forget_all();
            }
            (u32::try_from(pid).map_err(|_| io::Error::last_os_error()), pid == 0)
        })
    };
    let forked = forked.and_then(|pid| if let Ok(0) = pid { begin(parent).map(|()| pid) } else { Ok(pid) });
    match forked {
        Ok(Ok(0)) => Ok(Fork::Child(parent)),
        Ok(pid) => pid.map(Fork::Parent),
        // SAFETY: the call ends this process, which is the new one, and runs no destructor.
        Err(_) => unsafe { libc::_exit(127) },
    }
}

/// Begins the new process.
fn begin(parent: u32) -> io::Result<()> {
    end_with(parent)?;
    let _ = FIRST.compare_exchange(0, parent as i32, Ordering::Relaxed, Ordering::Relaxed);
    outside::part()
}

/// Ends this process and all that it was forked from, if it was forked: its parent has the same
/// secrets, and could go on with the next look. The first process ends now, before the parent can
/// end this one, and the others with it. Async-signal-safe.
pub(crate) fn end_family() {
    let first = FIRST.load(Ordering::Relaxed);
    if first != 0 {
        // SAFETY: the call is async-signal-safe and takes numbers only. The number is that of the
        // first process: when it ends the kernel kills this one.
        unsafe { libc::kill(first, libc::SIGKILL) };
    }
}
