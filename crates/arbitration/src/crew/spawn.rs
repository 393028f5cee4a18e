//! The start of further threads.

use super::Shared;
use super::death::Death;
use super::idle::{Idle, Job, Seat};
use super::member::Member;
use crate::clock;
use crate::errno::Errno;
use sfi_loader::{HostCall, ThreadStart};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the host's stack of a thread. The domain's own stack lies in the domain.
const HOST_STACK: usize = 512 << 10;
/// The flags without which a `clone` makes a process.
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;

impl Shared {
    /// Starts a thread.
    pub(super) fn spawn(self: &Arc<Self>, cx: &mut HostCall<'_>, me: &Member, args: &[u64; 6]) -> Result<u64, Errno> {
        let [both, stack, clear, argument, parent, pointer] = *args;
        let (flags, function) = (both >> 32, both & 0xffff_ffff);
        if flags & THREAD != THREAD {
            return Err(Errno::NOSYS);
        }
        let (number, idle) = self.roster.reserve(&self.waits)?;
        let clear = if flags & libc::CLONE_CHILD_CLEARTID as u64 != 0 { clear } else { 0 };
        let function = heap_base(cx) | function;
        let start = ThreadStart { function, argument, stack: stack & !15, pointer, number };
        let member = Member::new(number, me.signals.blocked(), clear);
        let made = match idle {
            Some(idle) => idle.take(cx, &start, member).map_err(|_| Errno::AGAIN),
            None => self.make(cx, &start, member),
        };
        let started = made.and_then(|job| {
            if flags & libc::CLONE_PARENT_SETTID as u64 != 0 {
                cx.write(parent, &(number as u32).to_le_bytes())?;
            }
            self.roster.enrol(number, job.thread.stopper())?;
            let host = job.seat.host.clone();
            host.send(job).map_err(|_| Errno::AGAIN)
        });
        if started.is_err() {
            self.roster.release(number, None);
        }
        started.map(|()| number)
    }

    /// Makes a thread in a world of its own, and a thread of the host.
    fn make(self: &Arc<Self>, cx: &HostCall<'_>, start: &ThreadStart, member: Member) -> Result<Job, Errno> {
        let (shared, member) = (Arc::clone(self), Arc::new(Mutex::new(member)));
        let own = Arc::clone(&member);
        // Only this thread locks it, except between two threads of the domain.
        let call =
            move |cx: &mut HostCall<'_>| shared.host_call(cx, &mut own.lock().unwrap_or_else(PoisonError::into_inner));
        let thread = cx.thread(start, call).map_err(|_| Errno::AGAIN)?;
        let (shared, (host, jobs)) = (Arc::clone(self), channel());
        let body = move || {
            jobs.iter().for_each(|job| shared.run(job));
            shared.roster.host_ended();
        };
        let builder = std::thread::Builder::new().name("sfi-thread".into()).stack_size(HOST_STACK);
        self.roster.host_begins();
        if builder.spawn(body).is_err() {
            self.roster.host_ended();
            return Err(Errno::AGAIN);
        }
        Ok(Job { number: start.number, thread, seat: Seat { member, host } })
    }

    /// Runs a thread on this thread of the host.
    fn run(&self, Job { number, thread, seat }: Job) {
        clock::begin_thread();
        let ran = catch_unwind(AssertUnwindSafe(|| thread.run_and_leave()));
        // A thread that left is no longer on the roster, and its result means nothing.
        let died = self.roster.remove(number);
        let (death, berth) = match ran {
            Ok((result, berth)) => (result.err().map(Death::Failed), berth),
            Err(payload) => (Some(Death::Panicked(payload)), None),
        };
        if let Some(death) = death.filter(|_| died) {
            self.stop(Some(death));
        }
        self.roster.release(number, berth.map(|berth| Idle { berth, seat }));
    }
}

/// Returns the bits of the domain's addresses above the window offset.
fn heap_base(cx: &HostCall<'_>) -> u64 {
    cx.heap().start & !(sfi_contract::layout::WINDOW_SIZE - 1)
}
