//! Crossings under stress: eight threads, a hundred domains, and random events of every kind, with
//! every result computed beforehand.
//!
//! Twelve worlds of eight domains move between the threads. A pool of four instances and a server
//! of two serve all. Domains call in a ring and in pairs, with buffers, in modes write and full, at
//! every trust level. They die in all ways, overstay, are restarted, loaded again, instantiated,
//! unbound and bound, while signals hit every thread.
//!
//! Worlds, not threads, own the random numbers, so a failure can be repeated under any schedule: it
//! prints `SFI_STRESS_SEED`. `SFI_STRESS_CALLS` sets the calls per thread and domain. The test is
//! alone in its process, because it counts mappings and memory.
#![allow(clippy::type_complexity)]

mod common;
mod stress_model;
use sfi_loader::{
    AddressClass, Bound, CallError, Entry, FaultKind, Limits, Manage, Passed, Pool, Server, Status, TypedFn, World,
    bytes, bytes_mut,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};
use stress_model::*;

const THREADS: u64 = 8;
const WORLDS: u64 = 12;
const DOMAINS: u64 = WORLDS * RING as u64 + POOLED as u64;

type Pass = TypedFn<fn(u64, u64, u64) -> u64>;

/// A world, and the state that it must reach.
struct Slot<'s> {
    world: World,
    model: Model,
    random: u64,
    left: u64,
    shared: &'s (Objects, Pool, Server),
    passes: [[Pass; 4]; RING],
    through: [TypedFn<fn(u64, u64, u64, u64) -> u64>; RING],
    float: [TypedFn<fn(f64, f64) -> f64>; RING],
    put: [TypedFn<fn(u64, u64) -> u64>; RING],
    get: [TypedFn<fn(u64) -> u64>; RING],
    errors: [TypedFn<fn() -> u32>; RING],
    gather: [TypedFn<fn(u64) -> u64>; RING],
    sum: [Bound; RING],
}

impl<'s> Slot<'s> {
    fn new(shared: &'s (Objects, Pool, Server), random: u64, left: u64) -> Self {
        let world = build(&shared.0);
        let of = |place: usize| world.domain(&name(place)).unwrap();
        let all: [usize; RING] = std::array::from_fn(|i| i);
        Self {
            passes: all.map(|i| ["chain", "ping", "pong", "ask"].map(|f| of(i).export(f).unwrap())),
            through: all.map(|i| of(i).export("through").unwrap()),
            float: all.map(|i| of(i).export("float").unwrap()),
            put: all.map(|i| of(i).export("put").unwrap()),
            get: all.map(|i| of(i).export("get").unwrap()),
            errors: all.map(|i| of(i).export("error").unwrap()),
            gather: all.map(|i| of(i).export("gather").unwrap()),
            sum: all.map(|i| of(i).bind(&SUM.parse().unwrap()).unwrap()),
            model: Model {
                state: [7; RING],
                version: [0; RING],
                dead: [false; RING],
                error: [Status::Ok; RING],
                bound: [true; RING],
                active: [0; RING],
                shared: [0; 16],
            },
            world,
            random,
            left,
            shared,
        }
    }

    /// Draws a number below `end`.
    fn draw(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    /// Makes one call, perhaps after another event.
    fn step(&mut self) {
        let place = self.draw(RING as u64) as usize;
        let other = self.draw(RING as u64) as usize;
        if self.model.dead[other] && self.draw(4) == 0 {
            self.restart(other);
        }
        match self.draw(100_000) {
            0..10 => self.reload(place),
            10..20 => self.restart(place),
            20..40 => self.unregister(place),
            40..240 => self.toggle(place),
            240..300 => self.connect(place, other),
            300..500 => {
                let way = 1 + self.draw(WAYS + 1);
                self.pass(place, if way > WAYS { MAKE_PANIC } else { way });
            }
            500..503 => self.pass(place, OVERSTAY),
            503..800 => self.pool(),
            20_000..26_000 => self.gather(place),
            26_000..28_000 => self.sum(place),
            28_000..28_150 => self.instantiate(place),
            28_150..28_600 => self.serve(),
            800..5_000 => self.region(place, other),
            5_000..10_000 => self.float(place),
            10_000..20_000 => self.error(place),
            _ => self.pass(place, 0),
        }
    }

    fn restart(&mut self, place: usize) {
        self.world.restart(&name(place)).unwrap();
        self.model.reborn(place);
        count(Event::Restart);
    }

    /// Restarts the domain that restarts by itself, if it is dead. Otherwise its restart would
    /// register and connect anew in the middle of a step.
    fn revive(&mut self) {
        assert_eq!(self.world.domain(&name(RING - 1)).unwrap().is_dead(), self.model.dead[RING - 1]);
        if self.model.dead[RING - 1] {
            self.restart(RING - 1);
        }
    }

    fn reload(&mut self, place: usize) {
        let version = self.draw(2) as usize;
        self.world.reload(spec(&self.shared.0, place, version)).unwrap();
        self.model.reborn(place);
        (self.model.version[place], self.model.bound[place]) = (version, true);
        count(Event::Reload);
    }

    /// Removes an entry point and registers it again. A bound client is bound again.
    fn unregister(&mut self, place: usize) {
        self.revive();
        let client = (place + RING - 1) % RING;
        let entry = format!("{}.chain", name(place));
        self.world.unregister(&entry).unwrap();
        let bound = std::mem::replace(&mut self.model.bound[client], false);
        self.pass(client, 0);
        self.world.register(&name(place), "chain", Entry::function("chain").signature(SIGNATURE)).unwrap();
        if !bound {
            self.world.connect(&name(client), "up", &entry).unwrap();
        }
        self.model.bound[client] = true;
        self.pass(client, 0);
        count(Event::Unbind);
    }

    fn toggle(&mut self, place: usize) {
        if self.model.bound[place] {
            self.world.disconnect(&name(place), "up").unwrap();
            count(Event::Unbind);
        } else {
            self.world.connect(&name(place), "up", &format!("{}.chain", name(place + 1))).unwrap();
        }
        self.model.bound[place] ^= true;
    }

    /// Makes a binding at run time, uses it, and loses it by unregistering or by loading the client
    /// again.
    fn connect(&mut self, client: usize, server: usize) {
        self.revive();
        if self.model.dead[client] {
            self.restart(client);
        }
        let entry = format!("{}.chain", name(server));
        let pointer = self.world.connect_spare(&name(client), &entry).unwrap().pointer().0;
        for led in [true, true, false] {
            if !led {
                self.world.unregister(&entry).unwrap();
            }
            let (n, x) = (self.draw(4), self.draw(1 << 40));
            let up = (server + RING - 1) % RING;
            let bound = self.model.bound[up];
            self.model.bound[up] &= led;
            self.model.active[client] += 1;
            let value = match self.model.cross(client, led, server, Path::Ring, n, x, 0) {
                Ok(FAIL) => u64::MAX,
                value => value.unwrap(),
            };
            self.model.active[client] -= 1;
            assert_eq!(self.through[client].call(&mut self.world, (pointer, n, x, 0)), Ok(value));
            self.model.bound[up] = bound;
        }
        self.world.register(&name(server), "chain", Entry::function("chain").signature(SIGNATURE)).unwrap();
        let up = (server + RING - 1) % RING;
        self.world.connect(&name(up), "up", &entry).unwrap();
        self.model.bound[up] = true;
        count(Event::Unbind);
    }

    /// Makes a call through some domains. At its end the event `way` happens.
    fn pass(&mut self, place: usize, way: u64) {
        let (n, x, kind) = (self.draw(11), self.draw(1 << 40), self.draw(4));
        let path = [Path::Ring, Path::Ping, Path::Pong, Path::Ring][kind as usize];
        let expected = if kind < 3 {
            self.model.call(place, path, n, x, way)
        } else if self.model.enter(place) {
            self.model.active[place] += 1;
            let result = match self.model.call(place, path, n, x, way) {
                Err(Stop::Panic) => Err(Stop::Panic),
                _ if self.model.dead[place] => Err(Stop::Below),
                Ok(value) => Ok((value ^ 7).wrapping_add(key(place, self.model.version[place]))),
                Err(stop) => unreachable!("{stop:?}"),
            };
            self.model.active[place] -= 1;
            result
        } else {
            Err(Stop::Dead)
        };
        let pass = &self.passes[place][kind as usize];
        let world = &mut self.world;
        // Processor time, because the callers of a domain that overstays go on, and must not be
        // ended for time that other threads use.
        let limits =
            if n == 0 { Limits::wall(Duration::from_millis(2)) } else { Limits::cpu(Duration::from_millis(2)) };
        let found = catch_unwind(AssertUnwindSafe(|| match way {
            OVERSTAY => pass.call_within(world, limits, (n, x, way)),
            _ => pass.call(world, (n, x, way)),
        }));
        let Ok(found) = found else {
            count(Event::Panic);
            assert_eq!((expected, way), (Err(Stop::Panic), MAKE_PANIC));
            return;
        };
        match (expected, found) {
            (Ok(value), Ok(found)) => assert_eq!(value, found),
            (Err(Stop::Dead), Err(CallError::Dead { domain })) => assert_eq!(domain, name(place)),
            (Err(Stop::Died | Stop::Below), Err(CallError::Fault(fault))) => {
                count(if way == OVERSTAY { Event::Timeout } else { Event::Fault });
                assert_eq!(fault.domain, name(place));
                let kind = match way {
                    1 => FaultKind::IllegalInstruction,
                    2 => FaultKind::Memory(AddressClass::Null),
                    3 => FaultKind::Division,
                    4 => FaultKind::ControlStackOverflow,
                    _ if n == 0 => FaultKind::TimeLimit,
                    _ => FaultKind::CpuLimit,
                };
                assert_eq!(fault.kind, kind, "{fault}");
            }
            (expected, found) => panic!("{expected:?} expected, {found:?} found: {place} {path:?} {n} {x} {way}"),
        }
    }

    fn pool(&mut self) {
        let mut instance = self.shared.1.wait().unwrap();
        let chain: Pass = instance.domain("worker").unwrap().export("work").unwrap();
        let mut state = 7_u64;
        for _ in 0..3 {
            let x = self.draw(1 << 40);
            state = state.wrapping_mul(31).wrapping_add(x ^ 0x55);
            assert_eq!(chain.call(&mut *instance, (x, 0, 0)), Ok(state));
        }
        if self.draw(8) == 0 {
            assert!(matches!(chain.call(&mut *instance, (0, 1, 0)), Err(CallError::Fault(_))));
            count(Event::Fault);
        }
    }

    /// Uses an instance of the server, in any state.
    fn serve(&mut self) {
        let Ok(mut lease) = self.shared.2.enter() else { return };
        let work: Pass = lease.domain("worker").unwrap().export("work").unwrap();
        let [x, y] = [0; 2].map(|_| self.draw(1 << 40));
        let state = work.call(&mut *lease, (x, 0, 0)).unwrap();
        assert_eq!(work.call(&mut *lease, (y, 0, 0)), Ok(state.wrapping_mul(31).wrapping_add(y ^ 0x55)));
        if self.draw(8) == 0 {
            assert!(matches!(work.call(&mut *lease, (0, 1, 0)), Err(CallError::Fault(_))));
            lease.restart("worker").unwrap();
            assert_eq!(work.call(&mut *lease, (x, 0, 0)), Ok((7 * 31_u64).wrapping_add(x ^ 0x55)));
            count(Event::Fault);
        }
        count(Event::Lease);
    }

    /// Makes another instance of a domain, dead or alive. It begins in the initial state.
    fn instantiate(&mut self, place: usize) {
        let instance = self.world.instantiate(&name(place)).unwrap();
        let chain: Pass = self.world.instance(instance).unwrap().export("chain").unwrap();
        let (mut state, key) = (7_u64, key(place, self.model.version[place]));
        for _ in 0..1 + self.draw(3) {
            let x = self.draw(1 << 40);
            state = state.wrapping_mul(31).wrapping_add(x ^ 0x55);
            assert_eq!(chain.call(&mut self.world, (0, x, 0)), Ok(state.wrapping_add(key)));
        }
        if self.draw(4) == 0 {
            let way = 1 + self.draw(WAYS);
            assert!(matches!(chain.call(&mut self.world, (0, 0, way)), Err(CallError::Fault(_))));
            assert!(matches!(chain.call(&mut self.world, (0, 0, 0)), Err(CallError::Dead { .. })));
            count(Event::Fault);
        }
        self.world.discard(instance).unwrap();
        assert!(chain.call(&mut self.world, (0, 0, 0)).is_err());
        count(Event::Instance);
    }

    fn values(&mut self) -> (Vec<u64>, u64) {
        let count = self.draw(VALUES + 1);
        ((0..count).map(|_| self.draw(u64::MAX)).collect(), self.draw(u64::MAX))
    }

    /// Passes a buffer from domain to domain and back.
    fn gather(&mut self, place: usize) {
        let (values, total) = self.values();
        // Otherwise the domain could restart at another place, without the values.
        self.revive();
        if self.model.dead[place] {
            return;
        }
        let of = self.world.domain(&name(place)).unwrap();
        let [at, sum] = ["values", "total"].map(|symbol| of.symbol(symbol).unwrap().0);
        let mut memory = self.world.memory(&name(place)).unwrap();
        memory.write(at, bytes(&values)).unwrap();
        memory.write(sum, bytes(&[total])).unwrap();
        let (server, count) = ((place + 1) % RING, values.len() as u64);
        self.model.active[place] += 1;
        let expected = self.model.sum(server, &values, total);
        self.model.active[place] -= 1;
        let (result, total, error) = match expected {
            Ok(new) => (count, new, self.model.error[place]),
            Err(error) => (FAIL, total, error),
        };
        self.model.error[place] = error;
        assert_eq!(self.gather[place].call(&mut self.world, (count,)), Ok(result));
        let now = self.world.memory(&name(place)).unwrap().read(sum, 8).unwrap();
        assert_eq!(now, total.to_le_bytes());
        stress_model::count(Event::Buffers);
    }

    /// Passes a buffer from the host to a domain and back.
    fn sum(&mut self, place: usize) {
        let (values, old) = self.values();
        let mut total = [old];
        let mut arguments =
            [Passed::In(bytes(&values)), Passed::Word(values.len() as u64), Passed::InOut(bytes_mut(&mut total))];
        let found = self.sum[place].call(&mut self.world, &mut arguments);
        match (self.model.sum(place, &values, old), found) {
            (Ok(new), Ok(result)) => assert_eq!((result, total[0]), (values.len() as u64, new)),
            (Err(Status::Dead), Err(CallError::Dead { .. })) | (Err(Status::Fault), Err(CallError::Fault(_))) => {
                assert_eq!(total[0], old);
            }
            (expected, found) => panic!("{expected:?} expected, {found:?} found"),
        }
        count(Event::Buffers);
    }

    fn region(&mut self, writer: usize, reader: usize) {
        let (at, value) = (self.draw(16), self.draw(u64::MAX));
        if self.model.enter(writer) {
            assert_eq!(self.put[writer].call(&mut self.world, (at, value)), Ok(0));
            self.model.shared[at as usize] = value;
        }
        if self.model.enter(reader) {
            assert_eq!(self.get[reader].call(&mut self.world, (at,)), Ok(self.model.shared[at as usize]));
        }
    }

    fn float(&mut self, place: usize) {
        let (x, y) = (self.draw(1 << 20) as f64, self.draw(1 << 20) as f64);
        let next = (place + 1) % RING;
        // In the model a domain that is not called does not restart.
        if [place, next].iter().all(|i| !self.model.dead[*i] || *i == RING - 1) {
            assert!(self.model.enter(place) && self.model.enter(next));
            assert_eq!(self.float[place].call(&mut self.world, (x, y)), Ok((x + y) * y));
        }
    }

    /// Checks the error that the last failed call left in the domain.
    fn error(&mut self, place: usize) {
        if self.model.enter(place) {
            let expected = std::mem::replace(&mut self.model.error[place], Status::Ok);
            assert_eq!(self.errors[place].call(&mut self.world, ()), Ok(expected as u32), "error of {place}");
        }
    }
}

/// Prints the numbers that led to a failure.
struct Blame(u64, u64, u64);

impl Drop for Blame {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SFI_STRESS_SEED={}: world {}, {} calls before its end", self.0, self.1, self.2);
        }
    }
}

/// Returns a number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Says whether the world has, or may have, calls left until this goal. A world that failed has
/// none.
fn more(slot: &Mutex<Slot<'_>>, goal: u64) -> bool {
    slot.try_lock().map_or_else(|error| matches!(error, TryLockError::WouldBlock), |slot| slot.left > goal)
}

/// Makes this many calls in all. Everything that it makes is gone afterwards.
fn run(objects: Objects, seed: u64, calls: u64) -> Objects {
    let start = Instant::now();
    let shared = (objects, pool(), server());
    let slots: Vec<Mutex<Slot<'_>>> =
        (0..WORLDS).map(|i| Mutex::new(Slot::new(&shared, seed ^ (i << 56), calls / WORLDS))).collect();
    // Threads end and others begin, and a thread's resources must go with it.
    for generation in 1..=4 {
        let goal = calls / WORLDS * (4 - generation) / 4;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let slots = &slots;
                scope.spawn(move || {
                    let _timer = signals::Timer::new(thread % 2);
                    let mut at = thread as usize;
                    while slots.iter().any(|slot| more(slot, goal)) {
                        at = (at + 1 + thread as usize) % slots.len();
                        let Ok(mut slot) = slots[at].try_lock() else {
                            std::thread::yield_now();
                            continue;
                        };
                        if slot.left <= goal {
                            continue;
                        }
                        let burst = (1 + slot.draw(2000)).min(slot.left - goal);
                        for _ in 0..burst {
                            let _blame = Blame(seed, at as u64, slot.left);
                            slot.step();
                            slot.left -= 1;
                        }
                    }
                });
            }
        });
        println!("{} of {calls} calls, {:?} after {:?}", calls - goal * WORLDS, held(), start.elapsed());
    }
    assert!(slots.iter().all(|slot| slot.lock().unwrap().left == 0));
    assert!(shared.1.idle() <= POOLED);
    assert_eq!((shared.2.idle(), shared.2.waiting()), (SERVERS, 0));
    drop(slots);
    shared.0
}

/// Returns mappings, files, and resident bytes of this process.
fn held() -> (usize, usize, usize) {
    // musl gives memory back at once.
    // SAFETY: no other thread of this process allocates now.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident = text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096;
    (common::maps().len(), std::fs::read_dir("/proc/self/fd").unwrap().count(), resident)
}

#[test]
fn eight_threads_and_a_hundred_domains() {
    let seed = setting("SFI_STRESS_SEED", 0x5eed);
    let calls = setting("SFI_STRESS_CALLS", 4_000) * THREADS * DOMAINS;
    signals::handle();
    let objects: Objects = std::array::from_fn(|place| [0, 1].map(|version| object(place, version)));
    let objects = run(objects, seed + 1, calls.min(100_000));
    let before = held();
    let start = Instant::now();
    run(objects, seed, calls);
    let time = start.elapsed();
    let after = held();
    let counts: Vec<String> =
        EVENTS.iter().map(|event| format!("{event:?} {}", COUNTS[*event as usize].load(Relaxed))).collect();
    let signals = signals::SEEN.load(Relaxed);
    println!("{DOMAINS} domains, {THREADS} threads, {calls} calls, {signals} signals, {}, {time:?}", counts.join(", "));
    println!("mappings, files, bytes: {before:?} before, {after:?} after");
    assert!(signals > 100 && COUNTS.iter().all(|count| count.load(Relaxed) > 0), "something did not happen");
    // Mappings may differ by stacks of ended threads that libc keeps and by arenas of the
    // allocator: two lines for each of ten threads at most, not the five and more of each of the
    // many domains. Memory may differ by free lists of those arenas. A single page lost per restart
    // would be several times as much at full size.
    assert!(after.0 <= before.0 + 40, "mappings grow: {} to {}", before.0, after.0);
    assert!(after.1 <= before.1, "files grow: {} to {}", before.1, after.1);
    assert!(after.2 <= before.2 + (16 << 20), "memory grows: {} to {}", before.2, after.2);
}
