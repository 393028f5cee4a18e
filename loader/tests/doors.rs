//! Models of the doors between lanes. The code is `gate/room.rs` itself. Its atomics are those of
//! loom, which runs each model in all orders that the memory model of C11 allows.
//!
//! `membarrier` makes each other thread execute a full fence, at some place between two of its
//! instructions. The fence is before the access that follows a `compiler_fence`, or after the
//! access that precedes it. In both cases the result is one that a fence at that place would have
//! had. So the models have a fence there.

/// Stands in for the loader's module of this name.
#[path = "."]
mod gate {
    #[path = "../src/gate/room.rs"]
    #[allow(dead_code, unused_imports, reason = "a model uses a part")]
    pub mod room;

    /// Stands in for the loader's module of this name.
    #[path = "doors_model/sync.rs"]
    #[allow(dead_code, reason = "a model uses a part")]
    pub mod sync;
}

#[path = "../src/world/lanes/deadlock.rs"]
mod deadlock;

use deadlock::{Wanted, is_stuck};
use gate::room::Room;
use gate::sync::{BROKEN, Breach, Ordering, barrier, sleep, wake};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Preemptions in one run. loom's authors found two or three to be enough for almost all mistakes.
const PREEMPTIONS: usize = 3;
const LONG: Duration = Duration::from_secs(1);

/// A world with one domain, and what only one of its lanes may use at a time.
struct World {
    room: Room,
    /// The lock of the lanes that ask.
    waits: Mutex<()>,
    stack: UnsafeCell<u32>,
}

impl World {
    /// Makes a world with some lanes. The first one's door is open.
    fn new(lanes: usize) -> Arc<Self> {
        let world = Self { room: Room::new(lanes), waits: Mutex::new(()), stack: UnsafeCell::new(0) };
        assert!(world.room.open(&world.room.doors[0]));
        Arc::new(world)
    }

    /// Uses the E-stack. loom fails if another lane does that at the same time, or did it and this
    /// lane need not see it.
    fn work(&self) {
        // SAFETY: loom checks that there is no other access.
        self.stack.with_mut(|stack| unsafe { *stack += 1 });
    }

    /// Uses the E-stack inside, and leaves.
    fn work_and_leave(&self, lane: usize) {
        self.work();
        self.room.go_out(&self.room.doors[lane]);
    }

    /// A call by an open door, as `Held::go_in` makes it. Says whether the door was open.
    fn call_quickly(&self, lane: usize) -> bool {
        let inside = self.room.doors[lane].go_in(8);
        if inside {
            self.work_and_leave(lane);
        }
        inside
    }

    /// A call of the domain as `Held::go_in` and `Held::take` make it. `attempts` bounds it.
    fn call(&self, lane: usize, attempts: usize) {
        if self.call_quickly(lane) {
            return;
        }
        self.room.wake();
        for _ in 0..attempts {
            let waits = self.waits.lock().unwrap();
            let inside = self.room.claim(lane, 1, 8);
            drop(waits);
            if inside {
                return self.work_and_leave(lane);
            }
        }
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    check_with(PREEMPTIONS, model);
}

fn check_with(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        BROKEN.with(|broken| broken.set(None));
        model();
    });
}

/// Runs a model with a mistake, which loom must find.
fn finds(breach: Breach, model: impl Fn() + Send + Sync + 'static) {
    let found = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS);
        builder.check(move || {
            BROKEN.with(|broken| broken.set(Some(breach)));
            model();
        });
    }));
    assert!(found.is_err(), "the model does not notice {breach:?}");
}

/// One lane goes in by its open door, the other one closes that door and takes the E-stack.
fn taken_away() {
    let world = World::new(2);
    let other = Arc::clone(&world);
    let thread = thread::spawn(move || other.call(0, 1));
    world.call(1, 1);
    thread.join().unwrap();
}

#[test]
fn an_estack_has_one_lane() {
    check(taken_away);
}

#[test]
fn without_the_barrier_it_has_two() {
    finds(Breach::NoBarrier, taken_away);
}

/// A lane goes in twice, and the door closes in between.
#[test]
fn a_door_that_closed_stays_closed() {
    check(|| {
        let world = World::new(2);
        let other = Arc::clone(&world);
        let thread = thread::spawn(move || {
            other.call(0, 1);
            other.call(0, 1);
        });
        world.call(1, 1);
        thread.join().unwrap();
    });
}

/// Two lanes ask for the E-stack of a third one, which uses it.
#[test]
fn three_lanes_take_turns() {
    check_with(2, || {
        let world = World::new(3);
        let threads = [0, 1].map(|lane| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.call(lane, 1))
        });
        world.call(2, 1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A lane that waits for another one to leave is woken: the sleep has no end here.
fn waits_for_the_other() {
    let world = World::new(2);
    let other = Arc::clone(&world);
    let thread = thread::spawn(move || {
        if !other.call_quickly(0) {
            // As at the beginning of `Held::take`.
            other.room.wake();
        }
    });
    loop {
        let turn = world.room.turn.load(Ordering::SeqCst);
        if world.room.claim(1, 1, 8) {
            break;
        }
        sleep(&world.room.turn, turn, LONG);
    }
    world.work_and_leave(1);
    thread.join().unwrap();
}

#[test]
fn no_wake_is_lost() {
    check(waits_for_the_other);
}

#[test]
fn a_lost_wake_is_found() {
    finds(Breach::NoWake, waits_for_the_other);
}

/// A domain ends in one lane while another one takes an E-stack. No door of an ended domain stays
/// open.
#[test]
fn the_end_closes_all_doors() {
    check(|| {
        let world = World::new(2);
        let other = Arc::clone(&world);
        let thread = thread::spawn(move || _ = other.room.end());
        let claimed = world.room.claim(1, 2, 8);
        thread.join().unwrap();
        assert!(world.room.is_ended());
        assert!(world.room.doors.iter().all(|door| !door.is_open()), "a door of an ended domain is open");
        assert_eq!(world.room.doors[1].is_inside(), claimed);
    });
}

/// Two lanes end a domain at once. One of them alone is told that it lived, so one budget that both
/// used up is one fault.
#[test]
fn a_life_ends_once() {
    check(|| {
        let world = World::new(2);
        let other = Arc::clone(&world);
        let thread = thread::spawn(move || other.room.end());
        let ends = [world.room.end(), thread.join().unwrap()];
        assert!(ends[0] != ends[1], "{ends:?}");
        world.room.begin();
        assert!(world.room.end(), "the next life ends once as well");
    });
}

/// A domain ended, and its memory is written anew once nobody is inside, while a lane enters.
fn written_anew() {
    let world = World::new(2);
    let other = Arc::clone(&world);
    let thread = thread::spawn(move || other.call_quickly(0));
    world.room.end();
    // As in `Group::attempt`.
    barrier();
    if world.room.users(1, false).next().is_none() {
        world.work();
        world.room.begin();
    }
    thread.join().unwrap();
}

#[test]
fn a_life_begins_when_all_are_out() {
    check(written_anew);
}

#[test]
fn without_the_barrier_a_life_begins_too_early() {
    finds(Breach::NoBarrier, written_anew);
}

/// The thread that looks after lanes sees a lane that entered before the end, or the lane sees the
/// end.
#[test]
fn the_end_is_seen_inside() {
    check(|| {
        let world = World::new(1);
        let other = Arc::clone(&world);
        let thread = thread::spawn(move || other.room.doors[0].go_in(8));
        world.room.end();
        barrier();
        let seen = world.room.doors[0].is_inside();
        let entered = thread.join().unwrap();
        assert!(seen || !entered, "a lane is inside an ended domain, and nobody knows");
        wake(&world.room.turn);
    });
}

/// Two domains with one E-stack each, and the lanes' waits.
struct Two {
    rooms: [Room; 2],
    waiting: Mutex<[Option<usize>; 2]>,
    /// The lanes that sleep, with `waiting` locked.
    asleep: Mutex<[bool; 2]>,
}

/// The outcome of a lane's second call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossed {
    Entered,
    Deadlock,
}

impl Two {
    /// Lane `lane` is in the domain of its number, calls the other one as `Held::take` does, and
    /// leaves all.
    fn cross(&self, lane: usize) -> Crossed {
        let wanted = 1 - lane;
        let room = &self.rooms[wanted];
        let crossed = loop {
            let turn = room.turn.load(Ordering::SeqCst);
            let mut waiting = self.waiting.lock().unwrap();
            waiting[lane] = None;
            self.asleep.lock().unwrap()[lane] = false;
            if room.claim(lane, 1, 8) {
                break Crossed::Entered;
            }
            let notes = BROKEN.with(|broken| broken.get() != Some(Breach::SilentWait));
            if notes {
                waiting[lane] = Some(wanted);
            }
            let known = |domain: usize| Wanted { room: &self.rooms[domain], estacks: 1, begins: false };
            if is_stuck(waiting.as_slice(), lane, known) {
                waiting[lane] = None;
                break Crossed::Deadlock;
            }
            let mut asleep = self.asleep.lock().unwrap();
            asleep[lane] = true;
            // Neither has left its domain, so nobody ever wakes them.
            let both = *asleep == [true; 2];
            drop(asleep);
            drop(waiting);
            assert!(!both, "both lanes wait for each other");
            // A thread that sleeps when its model fails cannot be taken down.
            if notes { sleep(&room.turn, turn, LONG) } else { thread::yield_now() }
        };
        if crossed == Crossed::Entered {
            room.go_out(&room.doors[lane]);
        }
        let own = &self.rooms[lane];
        own.go_out(&own.doors[lane]);
        crossed
    }
}

/// Lane 0 is in domain 0 and calls domain 1, and lane 1 the other way round. At most one of them is
/// told of a deadlock, and the other one goes on.
fn crosses() {
    let two = Arc::new(Two {
        rooms: [Room::new(2), Room::new(2)],
        waiting: Mutex::new([None; 2]),
        asleep: Mutex::new([false; 2]),
    });
    for lane in 0..2 {
        assert!(two.rooms[lane].claim(lane, 1, 8));
    }
    let other = Arc::clone(&two);
    let thread = thread::spawn(move || other.cross(0));
    let ends = [two.cross(1), thread.join().unwrap()];
    assert!(ends.contains(&Crossed::Entered), "{ends:?}");
}

#[test]
fn a_deadlock_is_told_to_one_lane() {
    check(crosses);
}

#[test]
fn a_wait_that_nobody_notes_is_found() {
    finds(Breach::SilentWait, crosses);
}

/// The search by hand: what a lane waits for decides, and the whole circle is needed.
#[test]
fn only_a_circle_is_a_deadlock() {
    check(|| {
        let rooms = [Room::new(3), Room::new(3), Room::new(3)];
        for (lane, room) in rooms.iter().enumerate() {
            assert!(room.claim(lane, 1, 8));
        }
        let stuck = |waiting: [Option<usize>; 3], estacks: usize, begins: bool| {
            is_stuck(&waiting, 0, |domain| Wanted { room: &rooms[domain], estacks, begins })
        };
        let circle = [Some(1), Some(2), Some(0)];
        assert!(stuck(circle, 1, false) && stuck(circle, 1, true));
        assert!(!stuck(circle, 2, false), "an E-stack is free");
        assert!(stuck(circle, 2, true), "all must leave first");
        assert!(!stuck([Some(1), Some(2), None], 1, false), "the last one goes on");
        // Lane 0 waits for two lanes that wait for each other.
        assert!(stuck([Some(1), Some(2), Some(1)], 1, false));
        let second = || {
            is_stuck(&circle, 0, |domain| Wanted {
                room: &rooms[domain],
                estacks: if domain == 1 { 2 } else { 1 },
                begins: false,
            })
        };
        assert!(!second(), "the second domain has a free E-stack");
        rooms[1].end();
        assert!(second(), "a domain that ended has no free E-stack");
    });
}
