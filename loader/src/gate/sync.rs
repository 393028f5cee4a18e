//! The atomics and the system calls of [`room`](crate::gate::room), whose model replaces this file.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, compiler_fence};

use std::time::Duration;

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
    use crate::gate::room::Room;

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
