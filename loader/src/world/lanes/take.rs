//! The way into a domain that other lanes may be in.
//!
//! A lane whose door is open enters without asking. Otherwise it takes an E-stack here: one that
//! nobody has, or one of a lane that is not inside, whose door is closed first. If there is none it
//! waits, for a bounded time. A lane that waits for lanes that wait for it never gets one, so it is
//! told at once.

use crate::fault::lanes;
use crate::fault::thread;
use crate::fault::watch;
use crate::fault::watchdog;
use crate::gate::control_stack::ControlStack;
use crate::gate::fault::RawFault;
use crate::gate::frame::{Frame, Kept};
use crate::gate::ids::{DomainId, Id};
use crate::gate::records::{Caught, Context, DomainState, Status};
use crate::gate::room;
use crate::spec::Restart;
use crate::spec::busy::Busy;
use crate::world::held::Held;
use crate::world::inner::Inner;
use crate::world::lanes::deadlock::{self, Wanted};
use crate::world::lanes::{Group, Lane, Waits};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest sleep of a lane that waits. Not every way out of a domain wakes the lanes that wait.
const NAP: Duration = Duration::from_millis(1);

/// The outcome of one attempt.
enum Attempt {
    /// The lane is inside.
    Inside,
    /// The lane is inside, alone, and begins the domain's next life.
    Renew,
    /// The domain is dead and stays so.
    Dead,
    /// Others have all E-stacks, or the domain's last life is not over.
    Busy,
}

impl Group {
    /// Returns the lanes that are inside a domain, or may enter it without asking.
    fn users(&self, domain: DomainId, but: usize) -> impl Iterator<Item = usize> + '_ {
        self.members.rooms[domain.place()].users(but, false)
    }

    /// Tries to take an E-stack.
    fn attempt(&self, waits: &mut Waits, lane: usize, domain: DomainId, mark: u64) -> Attempt {
        let (home, room) = (&self.homes[domain], &self.members.rooms[domain.place()]);
        let door = &room.doors[lane];
        let (renewing, restarts) = &mut waits.renewing[domain.place()];
        if renewing.is_some() {
            return Attempt::Busy;
        }
        if room.is_ended() {
            let allowed = match home.restart {
                Restart::Never => false,
                Restart::Always => true,
                Restart::Limited(most) => *restarts < most,
            };
            if !allowed || home.broken.load(Ordering::SeqCst) {
                return Attempt::Dead;
            }
            // A signal handler closed the doors, and did not wait until all processors saw it.
            room::barrier();
            if self.users(domain, lane).next().is_some() {
                return Attempt::Busy;
            }
            *restarts += 1;
            *renewing = Some(lane);
            door.inside.store(mark, Ordering::SeqCst);
            return Attempt::Renew;
        }
        if room.claim(lane, home.estacks, mark) { Attempt::Inside } else { Attempt::Busy }
    }

    /// Says whether a lane that waits can never go on.
    fn is_stuck(&self, waits: &Waits, lane: usize) -> bool {
        let waiting: Vec<Option<usize>> = waits.waiting.iter().map(|domain| domain.map(DomainId::place)).collect();
        deadlock::is_stuck(&waiting, lane, |domain| Wanted {
            room: &self.members.rooms[domain],
            estacks: self.homes[DomainId::of(domain)].estacks,
            begins: waits.renewing[domain].0.is_some(),
        })
    }

    /// Gives a lane's restart of a domain back, which stays dead. `counted`: it counts as one of
    /// the domain's restarts.
    pub(super) fn not_renewed(&self, lane: usize, domain: DomainId, counted: bool) {
        let mut waits = self.waits();
        let (renewing, restarts) = &mut waits.renewing[domain.place()];
        *renewing = None;
        *restarts -= u32::from(counted);
        let room = &self.members.rooms[domain.place()];
        room.go_out(&room.doors[lane]);
    }

    /// Ends a lane's restart of a domain. Says whether the domain lives.
    pub(super) fn renewed(&self, lane: usize, domain: DomainId) -> bool {
        let mut waits = self.waits();
        waits.renewing[domain.place()].0 = None;
        let room = &self.members.rooms[domain.place()];
        let door = &room.doors[lane];
        let lives = room.open(door);
        if !lives {
            room.go_out(door);
        }
        drop(waits);
        room.wake();
        lives
    }

    /// Keeps all lanes but one out of a domain, for a restart that the host asks for. Says whether
    /// none of them is inside.
    pub(super) fn clear_out(&self, lane: usize, domain: DomainId, mark: u64) -> bool {
        let mut waits = self.waits();
        if waits.renewing[domain.place()].0.is_some() {
            return false;
        }
        let room = &self.members.rooms[domain.place()];
        room.doors.iter().for_each(|door| _ = door.close());
        room::barrier();
        if self.users(domain, lane).next().is_some() {
            return false;
        }
        room.end();
        waits.renewing[domain.place()].0 = Some(lane);
        room.doors[lane].inside.store(mark, Ordering::SeqCst);
        true
    }
}

impl Held<'_> {
    /// Goes into a domain for a call of the host. Returns the mark with which the host leaves it,
    /// or 0 if the lane was inside already. Worlds that are no lanes have nothing to do.
    ///
    /// # Safety
    /// `state` is that of one of the world's domains.
    #[inline]
    pub(crate) unsafe fn go_in(&mut self, state: *const DomainState) -> Result<u64, Status> {
        // SAFETY: see the function's contract. A door lives as long as its lane.
        unsafe {
            let Some(door) = (*state).door.as_ref() else { return Ok(0) };
            let context = self.gates.control.context();
            if (*context).depth == 0 {
                let thread = thread::state();
                if (*thread).id == 0 {
                    watchdog::join(thread);
                }
                (*(*context).occupant).thread.store((*thread).id, Ordering::Release);
            }
            let mut mark = 0;
            if door.inside.load(Ordering::Relaxed) == 0 {
                mark = here(&*context);
                if !door.go_in(mark) {
                    self.take((*state).index, mark)?;
                }
            }
            (*(*context).occupant).in_host.store(false, Ordering::Release);
            Ok(mark)
        }
    }

    /// Leaves a domain with the mark of [`Held::go_in`], and if the call failed also the domains
    /// that it led through.
    ///
    /// # Safety
    /// As for [`Held::go_in`]; the call is over.
    #[inline]
    pub(crate) unsafe fn go_out(&mut self, state: *const DomainState, mark: u64, failed: bool) {
        // SAFETY: see the function's contract.
        unsafe {
            let context = &*self.gates.control.context();
            if let Some(occupant) = context.occupant.as_ref() {
                occupant.in_host.store(context.depth > 0, Ordering::Release);
                if failed {
                    leave_below(context, mark);
                }
                leave(state, mark);
            }
        }
    }

    /// Goes into a domain until the result is dropped, also by a panic.
    ///
    /// # Safety
    /// As for [`Held::go_in`]; the world is held for as long as the result lives.
    pub(crate) unsafe fn visit(&mut self, state: *const DomainState) -> Result<Visit, Status> {
        // SAFETY: see the function's contract.
        let mark = unsafe { self.go_in(state)? };
        Ok(Visit { context: self.gates.control.context(), state, mark })
    }

    /// Says whether a domain lives, after it was restarted if that is possible.
    pub(crate) fn revive_lane(&mut self, index: DomainId) -> Result<(), Status> {
        let state = self.domains[index].state;
        // SAFETY: the state is the world's own, and no call of this host code is in progress.
        unsafe {
            let mark = self.go_in(state)?;
            self.go_out(state, mark, false);
            if (*state).dead == Status::Ok { Ok(()) } else { Err((*state).dead) }
        }
    }

    /// Takes an E-stack of a domain for the call whose mark is given, and sets the mark.
    #[cold]
    pub(crate) fn take(&mut self, domain: DomainId, mark: u64) -> Result<(), Status> {
        let Some(Lane { group, number }) = self.lane.clone() else { return Err(Status::Dead) };
        let (home, room) = (&group.homes[domain], &group.members.rooms[domain.place()]);
        // A lane that closed the door may have seen this one inside.
        room.wake();
        let until = match home.busy {
            Busy::Refuse => None,
            Busy::Wait(time) => Instant::now().checked_add(time),
        };
        loop {
            let turn = room.turn.load(Ordering::SeqCst);
            let mut waits = group.waits();
            waits.waiting[number] = None;
            match group.attempt(&mut waits, number, domain, mark) {
                Attempt::Inside => {
                    drop(waits);
                    self.freshen(domain);
                    // Its budget counts for this lane from now on.
                    self.time.watched.as_ref().inspect(|watched| watched.look_again());
                    return Ok(());
                }
                Attempt::Renew => {
                    drop(waits);
                    return self.begin_life(domain);
                }
                Attempt::Dead => return Err(Status::Dead),
                Attempt::Busy => {}
            }
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Status::Occupied);
            }
            waits.waiting[number] = Some(domain);
            let stuck = group.is_stuck(&waits, number);
            let over = stuck || self.is_over();
            if over {
                waits.waiting[number] = None;
                return Err(if stuck { Status::Deadlock } else { Status::Occupied });
            }
            drop(waits);
            room::sleep(&room.turn, turn, left.min(NAP));
        }
    }

    /// Begins the present life of a domain for this lane, if it is another one than the last time.
    pub(super) fn freshen(&mut self, index: DomainId) {
        let Some(lane) = self.lane.clone() else { return };
        let birth = lane.home(index).birth.load(Ordering::SeqCst);
        let domain = &mut self.domains[index];
        if domain.birth == birth {
            return;
        }
        domain.birth = birth;
        // SAFETY: the state lives as long as the world, and the lane does not run the domain.
        lane.home(index).faults.fresh(lane.number, || unsafe {
            (*domain.state).dead = Status::Ok;
            (*domain.state).fault = RawFault::default();
            (*domain.state).caught = Caught::default();
            (*domain.state).sp = domain.initial_sp;
        });
    }
}

impl Inner {
    /// Says whether the call in progress will not go on: it overstays its time, or the domain that
    /// would go on is dead.
    fn is_over(&self) -> bool {
        // SAFETY: the context and the states live as long as the world.
        unsafe {
            let context = &*self.gates.control.context();
            if context.depth == 0 {
                return false;
            }
            let late = watch::of(context).is_some_and(|watch| watch.is_stopped() || watch.overdue() != 0);
            late || lanes::is_over(context.current)
        }
    }
}

/// A stay in a domain over several steps, see [`Held::visit`]. The domains that a failed call led
/// through are left at the call's end.
pub(crate) struct Visit {
    context: *const Context,
    state: *const DomainState,
    mark: u64,
}

impl Drop for Visit {
    fn drop(&mut self) {
        // SAFETY: the world is held, so its records live, and no call of this host code is in
        // progress.
        unsafe {
            if let Some(occupant) = (*self.context).occupant.as_ref() {
                occupant.in_host.store((*self.context).depth > 0, Ordering::Release);
                leave(self.state, self.mark);
            }
        }
    }
}

/// Leaves a domain with a mark. The mark 0 leaves none.
///
/// # Safety
/// `state` is that of a domain of a lane that this thread holds.
#[inline]
unsafe fn leave(state: *const DomainState, mark: u64) {
    // SAFETY: see the function's contract. Door and room live as long as the lane.
    unsafe {
        if let (Some(door), Some(room)) = ((*state).door.as_ref(), (*state).room.as_ref())
            && mark != 0
        {
            room.go_out(door);
        }
    }
}

/// Leaves the domains whose calls began below the present place. After a panic of a host function
/// nobody else does.
///
/// # Safety
/// `context` is that of a lane that this thread holds, and the calls below are over.
#[cold]
unsafe fn leave_below(context: &Context, mark: u64) {
    // SAFETY: see the function's contract.
    unsafe { lanes::sweep(context, if mark == 0 { here(context) } else { mark }) };
}

/// Returns the mark of a call that the host makes now: the place on the control stack where its
/// entry begins.
pub(super) fn here(context: &Context) -> u64 {
    if context.depth == 0 { ControlStack::top_of(context) } else { context.control_sp }
}

/// Returns the mark of a call between domains whose gate waits for the host: the place of its
/// return address. See `sfi_lane_gate` in gate/lanes.s.
///
/// # Safety
/// `context` is that of a world whose gate called the host function that takes E-stacks.
pub(crate) unsafe fn mark_of_gate(context: &Context) -> u64 {
    context.control_sp + (size_of::<Frame>() + size_of::<Kept>()) as u64
}
