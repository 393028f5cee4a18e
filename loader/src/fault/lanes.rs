//! The end of a domain that several lanes are in: a fault in one of them ends it for all.
//!
//! The lane that ends the domain closes all doors ([`Room::end`]) and wakes a thread of this
//! library. That thread sends [`TIME_SIGNAL`] to every other thread that is inside, until all are
//! out. The handler lets a lane that runs the domain go on at the error path of its crossing. If
//! the domain waits for another one, it is marked, and the gate does not return to it. A thread in
//! a host function gets no signal, because the function's end looks at the mark.

use crate::fault::clock::moment;
use crate::fault::helper::start_helper;
use crate::fault::limits::{TIME_SIGNAL, is_budget};
use crate::fault::purse::Purse;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::records::{Context, DomainState, Status};
use crate::gate::room::{self, Door, Occupant, Room};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// First and longest time between two signals to a lane that is still inside.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(32)];
/// Longest sleep while no domain ends.
const IDLE: Duration = Duration::from_secs(3600);

/// The rooms of a world's domains, in their order, and the threads that run its lanes.
#[derive(Debug)]
pub(crate) struct Members {
    pub rooms: Box<[Room]>,
    pub occupants: Box<[Occupant]>,
    pub purse: Purse,
}

/// All worlds with lanes.
static ALL: Mutex<Vec<Weak<Members>>> = Mutex::new(Vec::new());
/// Changes when a domain ends.
static ALARM: AtomicU32 = AtomicU32::new(0);

fn all() -> MutexGuard<'static, Vec<Weak<Members>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the members of a new world, and looks after them until they are dropped.
///
/// # Errors
/// The thread does not start, or the kernel has no `membarrier`.
pub(crate) fn found(domains: usize, lanes: usize) -> std::io::Result<Arc<Members>> {
    static STARTED: OnceLock<()> = OnceLock::new();
    room::prepare()?;
    let members = Arc::new(Members {
        rooms: (0..domains).map(|_| Room::new(lanes)).collect(),
        occupants: (0..lanes).map(|_| Occupant::default()).collect(),
        purse: Purse::new(domains, lanes),
    });
    let mut all = all();
    if STARTED.get().is_none() {
        start_helper(std::thread::Builder::new().name("sfi-lanes".into()), run)?;
        STARTED.get_or_init(|| ());
    }
    all.retain(|members| members.strong_count() > 0);
    all.push(Arc::downgrade(&members));
    Ok(members)
}

/// Ends a domain in all lanes, if it has several. Says whether no other lane did that before.
/// Async-signal-safe.
///
/// # Safety
/// The state is that of a domain of a world that this thread runs.
pub(crate) unsafe fn end(domain: *const DomainState) -> bool {
    // SAFETY: see the function's contract. The room lives as long as the world.
    unsafe { (*domain).room.as_ref() }.is_none_or(|room| {
        let lived = room.end();
        ALARM.fetch_add(1, Ordering::SeqCst);
        room::wake(&ALARM);
        lived
    })
}

/// Ends a domain by a fault in this lane, and so in all lanes. A budget is one for all lanes, so
/// its end is no fault of a lane that comes too late. Returns the status of the call.
/// Async-signal-safe.
///
/// # Safety
/// As for [`end`]; the lane is inside, so the domain's next life has not begun.
pub(crate) unsafe fn end_by(domain: *mut DomainState, fault: RawFault, trace: Trace) -> Status {
    // SAFETY: see the function's contract. No other lane reads the record before this one is out.
    unsafe {
        (*domain).dead = Status::Dead;
        (*domain).sp = 0;
        if !end(domain) && is_budget(&fault) {
            return Status::Dead;
        }
        (*domain).fault = RawFault { when: moment(), ..fault };
        (*domain).trace = trace;
    }
    Status::Fault
}

/// Says whether a lane may end a domain that it does not run, and goes into it for that. A world
/// that is no lane always may. Returns the door to go out by, if the lane was outside.
/// Async-signal-safe.
///
/// # Safety
/// As for [`end`]; no code of the world is in the middle of changing its domains.
pub(crate) unsafe fn reach(domain: *const DomainState) -> Option<Option<*const Door>> {
    // SAFETY: see the function's contract. Door and room live as long as the world.
    let (door, room) = unsafe { ((*domain).door.as_ref(), (*domain).room.as_ref()) };
    if room.is_some_and(Room::is_ended) {
        return None;
    }
    match door {
        Some(door) if !door.is_inside() => door.go_in(1).then_some(Some(ptr::from_ref(door))),
        _ => Some(None),
    }
}

/// Says whether a domain ended in another lane while this one is inside. Async-signal-safe.
///
/// # Safety
/// As for [`end`].
#[inline]
pub(crate) unsafe fn is_over(domain: *const DomainState) -> bool {
    // SAFETY: as in `end`; the door is the room's.
    unsafe { (*domain).room.as_ref().is_some_and(Room::is_ended) && (*(*domain).door).is_inside() }
}

/// Marks the domains of a lane's call in progress that ended in another lane. The gates do not
/// return to them. Async-signal-safe.
///
/// # Safety
/// `context` is that of the world that this thread runs, and a domain's own text runs, or host code
/// that uses no state.
pub(crate) unsafe fn mark(context: &Context) {
    // SAFETY: see the function's contract. States live as long as the world.
    unsafe {
        for state in states(context) {
            if is_over(state) && (*state).dead == Status::Ok {
                (*state).dead = Status::Dead;
                (*state).sp = 0;
            }
        }
    }
}

/// Does as [`mark`] if a domain of any world ended since the last time.
///
/// # Safety
/// As for [`mark`]; `occupant` is the lane's.
#[inline]
pub(crate) unsafe fn notice(context: &Context, occupant: &Occupant) {
    let alarm = ALARM.load(Ordering::SeqCst);
    if occupant.noticed.load(Ordering::Relaxed) != alarm {
        occupant.noticed.store(alarm, Ordering::Relaxed);
        // SAFETY: see the function's contract.
        unsafe { mark(context) };
    }
}

/// Leaves the domains whose calls begin below an address of the control stack, because these calls
/// are over. Async-signal-safe.
///
/// # Safety
/// `context` is that of the world that this thread runs.
pub(crate) unsafe fn sweep(context: &Context, below: u64) {
    if context.take.is_null() {
        return;
    }
    // SAFETY: as in `mark`; doors and rooms live as long as the states.
    unsafe {
        for state in states(context) {
            if let (Some(door), Some(room)) = ((*state).door.as_ref(), (*state).room.as_ref())
                && (1..below).contains(&door.inside.load(Ordering::Relaxed))
            {
                room.go_out(door);
            }
        }
    }
}

/// Returns the states of a world's domains.
fn states(context: &Context) -> impl Iterator<Item = *mut DomainState> {
    let some = |state: *mut DomainState| (!state.is_null()).then_some(state);
    // SAFETY: the list is that of `Inner::link`, whose states live as long as the world.
    std::iter::successors(some(context.domains), move |state| some(unsafe { (**state).next }))
}

impl Members {
    /// Sends a signal to each thread that is inside a domain that ended. Says whether there is one.
    fn look(&self) -> bool {
        let mut found = false;
        for room in self.rooms.iter().filter(|room| room.is_ended()) {
            for (door, occupant) in room.doors.iter().zip(&self.occupants) {
                if !door.is_inside() {
                    continue;
                }
                found = true;
                let thread = occupant.thread.load(Ordering::SeqCst);
                if thread != 0 && !occupant.in_host.load(Ordering::SeqCst) {
                    // SAFETY: a system call without pointers. If the thread is gone, another one of
                    // this process may get a signal that means nothing to it.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, TIME_SIGNAL) };
                }
            }
        }
        found
    }
}

/// Runs the thread that looks after lanes. It sleeps while no domain ends.
fn run() {
    // SAFETY: changes only this thread's mask. The host's signals are not for it.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
    let (mut pause, mut last) = (PAUSES[0], 0);
    loop {
        let alarm = ALARM.load(Ordering::SeqCst);
        if alarm != last {
            (pause, last) = (PAUSES[0], alarm);
        }
        let found = all().iter().filter_map(Weak::upgrade).fold(false, |found, members| members.look() | found);
        room::sleep(&ALARM, alarm, if found { pause } else { IDLE });
        pause = (pause * 2).min(PAUSES[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::limits::reason;
    use crate::gate::ids::{DomainId, Id};

    /// Ends one life of a domain in two lanes, in each by a fault. Returns the statuses of the
    /// calls, and whether each lane has a fault.
    fn both(faults: [(i32, u32); 2]) -> ([Status; 2], [bool; 2]) {
        let members = found(1, 2).unwrap();
        let mut states = [0, 1].map(|_| DomainState::nobody(DomainId::of(0)));
        let statuses = std::array::from_fn(|lane| {
            let (state, (signal, code)) = (&mut states[lane], faults[lane]);
            (state.room, state.door) = (&members.rooms[0], &members.rooms[0].doors[lane]);
            let fault = RawFault { signal, code: code as i32, ..RawFault::default() };
            // SAFETY: no world has the record, and its room lives.
            unsafe { end_by(state, fault, Trace::EMPTY) }
        });
        assert!(states.iter().all(|state| state.dead == Status::Dead));
        (statuses, states.map(|state| state.fault.signal != 0))
    }

    /// Both lanes found the budget used up before one of them ended the domain.
    #[test]
    fn a_budget_is_one_fault_of_all_lanes() {
        let one = ([Status::Fault, Status::Dead], [true, false]);
        for code in [reason::DOMAIN_CPU, reason::DOMAIN_WALL] {
            assert_eq!(both([(TIME_SIGNAL, code); 2]), one);
            assert_eq!(both([(libc::SIGSEGV, 1), (TIME_SIGNAL, code)]), one);
        }
    }

    /// Other faults are each lane's own, because each may be a guess.
    #[test]
    fn faults_of_code_and_limits_of_calls_count_in_each_lane() {
        for second in [(libc::SIGSEGV, 1), (TIME_SIGNAL, reason::CALL_WALL), (TIME_SIGNAL, reason::CALL_CPU)] {
            for first in [(TIME_SIGNAL, reason::DOMAIN_CPU), (libc::SIGSEGV, 1)] {
                assert_eq!(both([first, second]), ([Status::Fault; 2], [true; 2]));
            }
        }
    }

    /// A domain that is in no lane has all of its faults.
    #[test]
    fn without_lanes_each_end_is_a_fault() {
        let mut state = DomainState::nobody(DomainId::of(0));
        let code = reason::DOMAIN_CPU as i32;
        let fault = RawFault { signal: TIME_SIGNAL, code, ..RawFault::default() };
        for _ in 0..2 {
            // SAFETY: no world has the record.
            assert_eq!(unsafe { end_by(&raw mut state, fault, Trace::EMPTY) }, Status::Fault);
        }
        assert!(state.fault.when != 0);
    }
}
