//! Threads of the host that wait for further threads of the domain.
//!
//! A thread of the host that has run a thread of the domain waits for the next one, for which it
//! keeps the world of the last one ([`Berth`]). Both take much longer to make than to use again.

use super::member::Member;
use sfi_loader::{Berth, BuildError, HostCall, Thread, ThreadStart};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// A thread of the host that waits, with the world of the domain's thread that it ran last.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) berth: Berth,
    pub(super) seat: Seat,
}

/// A thread of the host, and the record of the domain's thread that it runs. The host's thread ends
/// when nobody has the way to it any more.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) member: Arc<Mutex<Member>>,
    pub(super) host: Sender<Job>,
}

/// A thread of the domain on its way to a thread of the host.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) thread: Thread,
    pub(super) seat: Seat,
}

impl Idle {
    /// Makes a thread in the world of the last one.
    pub(super) fn take(self, cx: &HostCall<'_>, start: &ThreadStart, member: Member) -> Result<Job, BuildError> {
        let Idle { berth, seat } = self;
        let thread = cx.thread_in(berth, start)?;
        *seat.member.lock().unwrap_or_else(PoisonError::into_inner) = member;
        Ok(Job { number: start.number, thread, seat })
    }
}
