//! New processes of the host that share nothing of this one.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The first descriptor after the standard ones.
const FIRST: libc::c_uint = 3;

/// Lets a command start without any of this process' descriptors but the three standard ones, which
/// the command names, and `passed`, in a process group of its own. The kernel kills it when the
/// thread that starts it ends.
pub fn apart<'c>(command: &'c mut Command, passed: &[RawFd]) -> &'c mut Command {
    let (parent, passed) = (std::process::id(), passed.to_vec());
    let prepare = move || {
        close_others(&passed)?;
        end_with(parent)
    };
    command.process_group(0);
    // SAFETY: the closure neither allocates nor locks: an error from a number holds no memory.
    unsafe { command.pre_exec(prepare) }
}

/// Replaces this process by a command's program, without any of this process' descriptors but the
/// three standard ones, which the command names, and `passed`. Returns only if that fails.
pub fn replace(command: &mut Command, passed: &[RawFd]) -> io::Error {
    let passed = passed.to_vec();
    // SAFETY: the closure neither allocates nor locks: an error from a number holds no memory.
    unsafe { command.pre_exec(move || close_others(&passed)) };
    command.exec()
}

/// Lets the kernel kill this process when the thread of `parent` ends that started it.
/// Async-signal-safe.
pub(crate) fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: this call takes numbers only. It changes a new process, in which nothing else runs.
    let killed = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    if killed != 0 {
        return Err(io::Error::last_os_error());
    }
    // A parent that died before that call kills nobody.
    // SAFETY: as above.
    match u32::try_from(unsafe { libc::getppid() }) {
        Ok(now) if now == parent => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Lets all descriptors but the three standard ones and `passed` close when the process runs
/// another program.
fn close_others(passed: &[RawFd]) -> io::Result<()> {
    let all = libc::c_uint::MAX;
    // SAFETY: this call takes numbers only, and is async-signal-safe. It closes nothing now.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, all, libc::CLOSE_RANGE_CLOEXEC) } == 0;
    // SAFETY: as above.
    let kept = |number: &RawFd| unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } == 0;
    if closed && passed.iter().all(kept) { Ok(()) } else { Err(io::Error::last_os_error()) }
}
