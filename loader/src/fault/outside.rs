//! Signals that other processes send to this one. A host may take some of them in place of their
//! default actions, and pass them on to a domain.

use libc::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ, c_int};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The signals that can be taken: those with which people and programs ask a program for something,
/// and the one that tells of a child's end.
const OUTSIDE: [c_int; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCHLD];

/// The bits of the signals that can be taken.
pub const OUTSIDE_SIGNALS: u64 =
    bit(SIGHUP) | bit(SIGINT) | bit(SIGQUIT) | bit(SIGUSR1) | bit(SIGUSR2) | bit(SIGTERM) | bit(SIGCHLD);

/// The signals that came and that nobody was told of, by their bits.
static CAME: AtomicU64 = AtomicU64::new(0);
/// A pipe, the reading end first, with bytes in it when signals came.
static BELL: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

/// Returns the bit of a signal.
const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Notes a signal. It touches atomic numbers and calls the kernel without `errno`, so it may run
/// anywhere, also while a domain runs: the thread pointer is the host's there.
extern "C" fn on_signal(signal: c_int) {
    CAME.fetch_or(bit(signal), Ordering::Release);
    if let Some((_, bell)) = BELL.get() {
        // Full means that it rings already.
        let _ = rustix::io::write(bell, &[0]);
    }
}

/// Takes signals of this process from now on, by their bits (bit 0 is signal 1), in place of their
/// default actions. Only SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM and SIGCHLD can be
/// taken, and other bits have no effect. [`wait_for_signals`] tells which came.
///
/// # Errors
/// The process has too few descriptors left.
pub fn take_signals(signals: u64) -> io::Result<()> {
    if BELL.get().is_none() {
        let bell = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&bell.1, OFlags::NONBLOCK)?;
        let _ = BELL.set(bell);
    }
    for signal in OUTSIDE.into_iter().filter(|signal| signals & bit(*signal) != 0) {
        set(signal, on_signal as *const () as usize)?;
    }
    Ok(())
}

/// Sets the handler of a signal: one that is async-signal-safe, or the default.
fn set(signal: c_int, handler: usize) -> io::Result<()> {
    // SAFETY: the handler is async-signal-safe (see `on_signal` and `ignore`). It runs on the
    // alternative stack that each thread has before it enters a domain.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Does nothing. Unlike a signal that is ignored, this is not handed on to programs.
extern "C" fn ignore(_signal: c_int) {}

/// Prepares the signals of a process that runs a domain as a program. A file that would become
/// larger than the host allows is an error of the write (SIGXFSZ). If SIGCHLD was ignored it has
/// its default action, without which nobody learns how children end.
///
/// # Errors
/// The kernel refuses.
pub fn prepare_signals() -> io::Result<()> {
    set(SIGXFSZ, ignore as *const () as usize)?;
    // SAFETY: without an action the call only writes the present one, to this function's variable.
    let ignored = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(SIGCHLD, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    };
    if ignored { set(SIGCHLD, libc::SIG_DFL) } else { Ok(()) }
}

/// Ends this process by a signal that can be taken, as if nobody had taken it.
pub fn end_by_signal(signal: c_int) {
    if OUTSIDE.contains(&signal) && set(signal, libc::SIG_DFL).is_ok() {
        // SAFETY: the call takes a number only.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
}

/// Parts this process, which was forked, from the one that it was made of: signals that came to
/// that one do not count, and each bell is heard in its own process only. The signals stay taken.
/// Nothing waits for them here until [`wait_for_signals`] is called.
///
/// # Errors
/// The process has too few descriptors left.
pub(super) fn part() -> io::Result<()> {
    if let Some((reader, writer)) = BELL.get() {
        let bell = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&bell.1, OFlags::NONBLOCK)?;
        for (new, old) in [(&bell.0, reader), (&bell.1, writer)] {
            // SAFETY: the call takes numbers only. Both descriptors are this module's own, and one
            // of them leads elsewhere from now on.
            if unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    CAME.store(0, Ordering::Relaxed);
    Ok(())
}

/// Waits until signals that [`take_signals`] took come. Returns their bits.
///
/// # Errors
/// No signal was taken before.
pub fn wait_for_signals() -> io::Result<u64> {
    let (bell, _) = BELL.get().ok_or(io::ErrorKind::NotConnected)?;
    loop {
        match rustix::io::read(bell, &mut [0; 64]) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let came = CAME.swap(0, Ordering::Acquire);
        if came != 0 {
            return Ok(came);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_signals_are_told() {
        // A bit of another signal has no effect, so that its action stays.
        take_signals(bit(SIGUSR2) | bit(libc::SIGSEGV) | bit(libc::SIGKILL)).expect("taken");
        for _ in 0..3 {
            // SAFETY: the signal has a handler.
            assert_eq!(unsafe { libc::raise(SIGUSR2) }, 0);
            assert_eq!(wait_for_signals().expect("told"), bit(SIGUSR2));
        }
    }
}
