//! The calls that may wait for descriptors or for the end of a program.

use rustix::event::PollFlags;

/// Says whether a call may wait for descriptors or for the end of a program.
pub(super) fn may_wait(number: i64) -> bool {
    direction(number).is_some() || POLLS.contains(&number) || number == libc::SYS_wait4
}

/// The calls that wait for several descriptors.
pub(super) const POLLS: [i64; 4] = [libc::SYS_poll, libc::SYS_ppoll, libc::SYS_select, libc::SYS_pselect6];

/// Returns the event that a transfer waits for.
pub(super) fn direction(number: i64) -> Option<PollFlags> {
    match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_accept | libc::SYS_accept4 => {
            Some(PollFlags::IN)
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto => Some(PollFlags::OUT),
        _ => None,
    }
}
