//! A process that outlives the one that runs domains, and ends what that one leaves.
//!
//! The supervisor takes no action of a signal. It passes signals of other processes on, and stops
//! and ends as the other process does. It has none of the descriptors, so a pipe closes when its
//! last user closes it. No domain knows its number: the process that runs domains is the first one
//! that they see.

use crate::fault::fork::Quiet;
use crate::fault::outside::prepare_signals;
use crate::vm::child::end_with;
use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH, c_int, pid_t};
use std::io;

/// Signals by which a terminal stops processes.
const STOPS: [c_int; 3] = [SIGTSTP, SIGTTIN, SIGTTOU];
/// Signals that the kernel sends to all processes in front of a terminal, so also to the other one.
const TERMINAL: [c_int; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGWINCH];

/// Returns in a new process, which goes on with this one's work. This process waits for its end,
/// calls `end`, and ends as the other did. The kernel kills the other process if this one ends
/// first.
///
/// # Errors
/// The kernel makes no process.
///
/// # Panics
/// This process has more than one thread: the new one would lack the others.
pub fn supervise(end: impl FnOnce()) -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    assert_eq!(threads, 1, "a supervisor has no other threads");
    prepare_signals()?;
    let own = std::process::id();
    let quiet = Quiet::begin();
    // SAFETY: there is no other thread, so the new process has all of this one's and may do what
    // this one may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => end_with(own),
        child => {
            // Signals stay blocked here.
            std::mem::forget(quiet);
            release();
            let status = watch(child);
            end();
            end_as(status)
        }
    }
}

/// Closes all descriptors. This process never returns to their owners.
fn release() {
    // SAFETY: the calls take numbers and a constant string. Nobody uses a descriptor of this
    // process afterwards.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for number in 0..3 {
            libc::dup2(nothing, number);
        }
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// Returns a set of all signals, or of one.
fn set(signal: Option<c_int>) -> libc::sigset_t {
    // SAFETY: the set is this function's own.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        match signal {
            None => libc::sigfillset(&mut set),
            Some(signal) => libc::sigaddset(&mut set, signal),
        };
        set
    }
}

/// Sends this process a signal, and takes its action now.
fn take(signal: c_int) {
    let set = set(Some(signal));
    // SAFETY: the calls take numbers and this function's own set. A signal that waits already does
    // not wait twice.
    unsafe {
        libc::kill(libc::getpid(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Waits for the end of a child, and returns its status. Children that come to this process when
/// theirs ends are waited for, too.
fn watch(child: pid_t) -> c_int {
    let all = set(None);
    // The stop that somebody else asked this process for. A stop of the child alone stops nothing
    // here: other processes may let it go on, and would find nobody who watches.
    let (mut asked, mut stopped) = (None, false);
    loop {
        // SAFETY: zeros are a value of this type.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both are this function's own.
        let signal = unsafe { libc::sigwaitinfo(&all, &mut info) };
        let of_kernel = info.si_code == libc::SI_KERNEL;
        match signal {
            SIGCHLD => {
                if let Some(status) = reap(child, &mut stopped) {
                    return status;
                }
            }
            ..=0 => {}
            _ => {
                match signal {
                    SIGCONT => asked = None,
                    _ if STOPS.contains(&signal) => asked = Some(signal),
                    _ => {}
                }
                if !(of_kernel && (TERMINAL.contains(&signal) || STOPS.contains(&signal))) {
                    // SAFETY: the call takes numbers only. The child was not waited for.
                    unsafe { libc::kill(child, signal) };
                }
            }
        }
        if let Some(signal) = asked.filter(|_| stopped) {
            (asked, stopped) = (None, false);
            take(signal);
        }
    }
}

/// Waits for all children that ended. Returns the status of `child` if it is among them. Notes
/// whether it is stopped.
fn reap(child: pid_t, stopped: &mut bool) -> Option<c_int> {
    loop {
        let mut status = 0;
        // SAFETY: the status is this function's own.
        let ended = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED) };
        match ended {
            ..=0 => return None,
            _ if ended != child => {}
            _ if libc::WIFSTOPPED(status) => *stopped = true,
            _ if libc::WIFCONTINUED(status) => *stopped = false,
            _ => return Some(status),
        }
    }
}

/// Ends this process as another one ended.
fn end_as(status: c_int) -> ! {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        // SAFETY: the calls take numbers only. The other process left its core, if any.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::signal(signal, libc::SIG_DFL);
        }
        take(signal);
        // The first process of a machine takes no such signal.
        // SAFETY: this process owns nothing that a destructor would give back.
        unsafe { libc::_exit(128 + signal) }
    }
    // SAFETY: as above.
    unsafe { libc::_exit(libc::WEXITSTATUS(status)) }
}
