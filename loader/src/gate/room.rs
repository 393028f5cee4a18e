//! Rooms and doors: the words by which several lanes share a domain.
//!
//! A lane is a way for one thread of the host through a world that several enter. A domain has a
//! [`Room`] with a [`Door`] for each lane. A door that is open is an E-stack (Bryce & Muller
//! section 3.2) that belongs to the lane: the lane enters without asking. It notes that it is
//! inside, and then looks whether the door is still open. A lane that closes a door makes all
//! processors see that ([`barrier`]), and looks whether the lane is inside. So one of both sees the
//! other, and the way in needs no atomic instruction.
//!
//! `loader/tests/doors.rs` runs this file with other atomics, in every order that the memory model
//! allows.

pub(crate) use crate::gate::sync::{barrier, prepare, sleep, wake};

use crate::gate::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// One lane's way into one domain. Gates use it as well.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Door {
    /// The place on the lane's control stack at which its outermost call of the domain began, or 0
    /// if the lane is not inside. Only the lane's thread writes it.
    pub inside: AtomicU64,
    /// 0 while the lane may enter without asking.
    pub closed: AtomicU32,
}

/// A domain that several lanes enter.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Room {
    /// Changes when a lane leaves by a closed door. Lanes that wait sleep on it.
    pub turn: AtomicU32,
    /// Set from the end of a life of the domain to the beginning of the next one.
    ended: AtomicBool,
    /// The doors, by number of the lane.
    pub doors: Box<[Door]>,
}

/// The thread that runs a lane, for others that want it to look at its rooms.
#[derive(Debug, Default)]
pub(crate) struct Occupant {
    /// The kernel's id of the thread, 0 before the first call.
    pub thread: AtomicI32,
    /// Set while a host function runs.
    pub in_host: AtomicBool,
    /// The ends of domains that the lane has taken note of.
    pub noticed: AtomicU32,
}

impl Door {
    /// Says whether the lane is inside.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::SeqCst) != 0
    }

    /// Says whether the lane may enter without asking.
    pub(crate) fn is_open(&self) -> bool {
        self.closed.load(Ordering::SeqCst) == 0
    }

    /// Closes the door. Says whether it was open.
    pub(crate) fn close(&self) -> bool {
        self.closed.swap(1, Ordering::SeqCst) == 0
    }

    /// Enters on the lane's own thread, if the door is open.
    #[inline]
    pub(crate) fn go_in(&self, mark: u64) -> bool {
        self.inside.store(mark, Ordering::Release);
        // The lane that closes the door makes the processor order both accesses.
        compiler_fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.inside.store(0, Ordering::Release);
        false
    }
}

impl Room {
    /// Makes a room for a number of lanes, with closed doors.
    pub(crate) fn new(lanes: usize) -> Self {
        let door = |_| Door { inside: AtomicU64::new(0), closed: AtomicU32::new(1) };
        Self { turn: AtomicU32::new(0), ended: AtomicBool::new(false), doors: (0..lanes).map(door).collect() }
    }

    /// Says whether the domain's present life is over.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the domain's present life: nobody enters it any more. Says whether it lived, which one
    /// lane alone learns. Async-signal-safe.
    pub(crate) fn end(&self) -> bool {
        let lived = !self.ended.swap(true, Ordering::SeqCst);
        self.doors.iter().for_each(|door| _ = door.close());
        lived
    }

    /// Begins a life of the domain. All doors are closed.
    pub(crate) fn begin(&self) {
        self.ended.store(false, Ordering::SeqCst);
    }

    /// Opens a door. Says whether the domain lives: if it just ended the door stays closed.
    pub(crate) fn open(&self, door: &Door) -> bool {
        door.closed.store(0, Ordering::SeqCst);
        let lives = !self.is_ended();
        if !lives {
            door.close();
        }
        lives
    }

    /// Returns the lanes that are inside, or may enter without asking, without lane `but`. First
    /// closes the doors of the others, if `ask` says so.
    pub(crate) fn users(&self, but: usize, ask: bool) -> impl Iterator<Item = usize> + '_ {
        if ask {
            let others = self.doors.iter().enumerate().filter(|(lane, _)| *lane != but);
            if others.filter(|(_, door)| door.close()).count() > 0 {
                barrier();
            }
        }
        let uses = move |(lane, door): &(usize, &Door)| *lane != but && (door.is_open() || door.is_inside());
        self.doors.iter().enumerate().filter(uses).map(|(lane, _)| lane)
    }

    /// Takes one of so many E-stacks for a lane, and sets the mark of its call. Says whether one
    /// was free and the domain lives. Only one lane at a time may call this.
    pub(crate) fn claim(&self, lane: usize, estacks: usize, mark: u64) -> bool {
        let full = |ask| self.users(lane, ask).count() >= estacks;
        if full(false) && full(true) {
            return false;
        }
        let door = &self.doors[lane];
        door.inside.store(mark, Ordering::SeqCst);
        let lives = self.open(door);
        if !lives {
            // It ended in this moment.
            self.go_out(door);
        }
        lives
    }

    /// Leaves on the lane's own thread, and lets those know that wait. Async-signal-safe.
    #[inline]
    pub(crate) fn go_out(&self, door: &Door) {
        door.inside.store(0, Ordering::Release);
        // As in `Door::go_in`.
        compiler_fence(Ordering::SeqCst);
        if door.closed.load(Ordering::Acquire) != 0 {
            self.wake();
        }
    }

    /// Wakes all lanes that wait for the domain. Async-signal-safe.
    #[cold]
    pub(crate) fn wake(&self) {
        self.turn.fetch_add(1, Ordering::SeqCst);
        wake(&self.turn);
    }
}
