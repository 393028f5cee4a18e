//! The list of a domain's threads.

use super::death::Death;
use super::idle::Idle;
use crate::errno::Errno;
use crate::futex::{LOOK, Waits};
use crate::process::SELF;
use sfi_loader::Stopper;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a new thread waits for the host's threads of threads that have left.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most threads of the host that wait for further threads of the domain. Each keeps a window
/// and a control stack.
const MOST_IDLE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Roster {
    list: Mutex<List>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct List {
    /// Threads that have not left, with the ends of their calls.
    members: BTreeMap<u64, Option<Stopper>>,
    /// The most members.
    most: usize,
    /// The last number that was given out.
    last: u64,
    /// Further threads that the host still runs, or that are being made.
    running: usize,
    /// Threads of the host that have not ended, those that wait included.
    hosts: usize,
    /// Threads of the host that wait for a further thread, the last one at the end.
    idle: Vec<Idle>,
    /// Set if the domain ends.
    ending: bool,
    death: Option<Death>,
}

impl Roster {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'l>(&self, list: MutexGuard<'l, List>) -> MutexGuard<'l, List> {
        self.changed.wait_timeout(list, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Adds the first thread at its first call.
    pub(super) fn enrol_first(&self, facts: impl FnOnce() -> (Option<Stopper>, usize)) {
        let mut list = self.lock();
        if list.last == 0 {
            let (stopper, most) = facts();
            list.members.insert(SELF, stopper);
            (list.most, list.last) = (most, SELF);
        }
    }

    /// Takes the number of a new thread, and a thread of the host that waits for one. Waits a
    /// little while threads that left are still there for the host.
    pub(super) fn reserve(&self, waits: &Waits) -> Result<(u64, Option<Idle>), Errno> {
        let end = Instant::now() + PATIENCE;
        let mut list = self.lock();
        while list.members.len() < list.most
            && list.running + 1 >= list.most
            && Instant::now() < end
            && !waits.is_over()
        {
            list = self.wait(list);
        }
        if list.ending || list.members.len() >= list.most || list.running + 1 >= list.most {
            return Err(Errno::AGAIN);
        }
        list.running += 1;
        list.last += 1;
        Ok((list.last, list.idle.pop()))
    }

    /// Adds a thread that is about to run.
    pub(super) fn enrol(&self, number: u64, stopper: Option<Stopper>) -> Result<(), Errno> {
        let mut list = self.lock();
        if list.ending {
            return Err(Errno::AGAIN);
        }
        list.members.insert(number, stopper);
        Ok(())
    }

    /// Removes a thread that ends. Says whether it was there.
    pub(super) fn remove(&self, number: u64) -> bool {
        let was = self.lock().members.remove(&number).is_some();
        self.announce();
        was
    }

    /// Gives back the place of a thread that the host no longer runs. The host's thread waits for
    /// the next one, if it can and few others do.
    pub(super) fn release(&self, number: u64, idle: Option<Idle>) {
        let mut list = self.lock();
        list.members.remove(&number);
        list.running -= 1;
        let keep = !list.ending && list.idle.len() < MOST_IDLE;
        let (kept, given_up) = if keep { (idle, None) } else { (None, idle) };
        list.idle.extend(kept);
        drop(list);
        drop(given_up);
        self.announce();
    }

    /// Notes that a thread of the host is about to begin.
    pub(super) fn host_begins(&self) {
        self.lock().hosts += 1;
    }

    /// Notes that a thread of the host ends.
    pub(super) fn host_ended(&self) {
        self.lock().hosts -= 1;
        self.announce();
    }

    /// Says whether a thread has not left.
    pub(super) fn has(&self, number: u64) -> bool {
        self.lock().members.contains_key(&number)
    }

    /// Says whether only the first thread is there.
    pub(super) fn is_alone(&self) -> bool {
        self.lock().members.keys().all(|number| *number == SELF)
    }

    /// Wakes those that wait for a change.
    pub(super) fn announce(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change, for a short time.
    pub(super) fn wait_for_change(&self) {
        drop(self.wait(self.lock()));
    }

    /// Ends the calls of all threads, and keeps the reason if the domain was not ending yet. No
    /// thread of the host waits any more.
    pub(super) fn stop(&self, death: Option<Death>) {
        let mut list = self.lock();
        // Threads that are being stopped have errors, too.
        if !list.ending {
            list.ending = true;
            list.death = death;
        }
        list.members.values().flatten().for_each(Stopper::stop);
        let idle = std::mem::take(&mut list.idle);
        drop(list);
        drop(idle);
    }

    /// Waits until all threads of the host have ended.
    pub(super) fn wait_for_all(&self) {
        let mut list = self.lock();
        while list.running > 0 || list.hosts > 0 {
            list = self.wait(list);
        }
    }

    /// Takes the reason for which the domain ended.
    pub(super) fn take_death(&self) -> Option<Death> {
        self.lock().death.take()
    }
}
