//! Rooms and doors: the words by which several lanes share a domain.
//!
//! A lane is a way for one thread of the host through a world that several enter. A domain has a
//! [`Room`] with a [`Door`] for each lane. A door that is open is an E-stack (Bryce & Muller
//! section 3.2) that belongs to the lane: the lane enters without asking. It notes that it is
//! inside, and then looks whether the door is still open. A lane that closes a door makes all
//! processors see that ([`barrier`]), and looks whether the lane is inside. So one of both sees the
//! other, and the way in needs no atomic instruction.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

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

    /// Ends the domain's present life: nobody enters it any more. Async-signal-safe.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.doors.iter().for_each(|door| _ = door.close());
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

/// Command of `membarrier`: `MEMBARRIER_CMD_PRIVATE_EXPEDITED` (linux/membarrier.h).
const BARRIER: libc::c_int = 1 << 3;
/// Command of `membarrier`: `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`.
const REGISTER: libc::c_int = 1 << 4;

/// Makes the process ready for [`barrier`].
///
/// # Errors
/// The kernel is older than 4.14 or refuses the call.
pub(crate) fn prepare() -> std::io::Result<()> {
    // SAFETY: a system call without pointers.
    match unsafe { libc::syscall(libc::SYS_membarrier, REGISTER, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Orders the accesses of all running threads of the process: what each did before is seen here,
/// and what is done before this is seen by each. Needs [`prepare`].
pub(crate) fn barrier() {
    // SAFETY: a system call without pointers.
    if unsafe { libc::syscall(libc::SYS_membarrier, BARRIER, 0, 0) } != 0 {
        // It worked before, so a filter of system calls was installed since. Without it two lanes
        // could be on one stack.
        std::process::abort();
    }
}

/// Sleeps until [`wake`], a signal or the end of the time, unless the word has another value.
pub(crate) fn sleep(word: &AtomicU32, value: u32, time: Duration) {
    let time = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: valid pointers.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wait, value, &raw const time) };
}

/// Wakes all that [`sleep`] on a word. Async-signal-safe.
pub(crate) fn wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wake, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_door_lets_nobody_in() {
        let room = Room::new(2);
        let [first, second] = &room.doors[..] else { panic!() };
        assert!(!first.go_in(8) && !first.is_inside());
        assert!(room.open(first) && first.go_in(8) && first.is_inside() && !second.is_inside());
        room.end();
        assert!(room.is_ended() && first.is_inside() && !first.is_open());
        let turn = room.turn.load(Ordering::SeqCst);
        room.go_out(first);
        assert_eq!(room.turn.load(Ordering::SeqCst), turn + 1, "those that wait are woken");
        assert!(!room.open(first) && !first.is_open(), "no door of an ended domain stays open");
        room.begin();
        assert!(room.open(second) && second.go_in(16));
        room.go_out(second);
        assert_eq!(room.turn.load(Ordering::SeqCst), turn + 1, "by an open door one leaves quietly");
    }

    /// One thread enters as fast as it can, the other one closes the door and looks. Never are both
    /// sure.
    #[test]
    fn one_of_both_sees_the_other() {
        prepare().unwrap();
        let room = Room::new(1);
        let (door, owned, over) = (&room.doors[0], AtomicBool::new(false), AtomicBool::new(false));
        let entered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if door.go_in(1) {
                        assert!(!owned.load(Ordering::Relaxed), "inside, and somebody else as well");
                        entered.fetch_add(1, Ordering::Relaxed);
                        room.go_out(door);
                    }
                }
            });
            let mut rounds = 0;
            while rounds < 20_000 || entered.load(Ordering::Relaxed) < 1_000 {
                rounds += 1;
                door.close();
                barrier();
                if !door.is_inside() {
                    owned.store(true, Ordering::Relaxed);
                    std::hint::spin_loop();
                    owned.store(false, Ordering::SeqCst);
                }
                door.closed.store(0, Ordering::SeqCst);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
