//! Domains that are loaded again while threads come and go.

mod common;
mod lane_domains;
mod no_memory;
use common::{assemble, function, kind, maps};
use lane_domains::{alone, domain, text, two};
use sfi_loader::{
    BindError, BuildError, CallError, DomainSpec, FaultKind, Import, LaneFn, Lanes, Manage, Owner, Penalty, Restart,
    SpecError, World,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

/// A server whose `version` gives a number.
fn back(version: u64, estacks: usize) -> DomainSpec {
    // Other code before it, so that the function has another place.
    let more = function("more", &"nop\n".repeat(version as usize * 40))
        + &function("version", &format!("mov ${version},%eax\nret"));
    let spec = domain("back", &more).restart(Restart::Always);
    if estacks > 1 { spec.threads_exposing(estacks) } else { spec }
}

fn front() -> DomainSpec {
    let import = |name: &str| Import::domain("back", name).signature("(int, int) -> int").on_fault(-5);
    domain("front", &(function("ask", "call version\nret") + &function("die", "call bad\nret")))
        .threads_exposing(3)
        .import("version", import("version"))
        .import("bad", import("fault"))
}

fn build(estacks: usize) -> Lanes {
    World::builder().domain(front()).domain(back(1, estacks)).lanes(3).unwrap()
}

fn call(lanes: &Lanes, domain: &str, name: &str) -> Result<u64, CallError> {
    LaneFn::<fn() -> u64>::new(domain, name).call(&mut lanes.enter().unwrap(), ())
}

/// Sets a word when it is dropped, also by a panic.
struct Over<'o>(&'o AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::SeqCst);
    }
}

/// Threads call a domain and its client all the time, also into faults, while the domain is loaded
/// again and again. Each call gets the version of its time, and after a reload no thread sees the
/// old one.
#[test]
fn callers_see_the_new_domain() {
    let _alone = alone();
    for estacks in [1, 3] {
        let lanes = build(estacks);
        let [least, most, over] = [1, 1, 0].map(AtomicU64::new);
        let counts = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (lanes, least, most, over, counts) = (&lanes, &least, &most, &over, &counts);
                scope.spawn(move || {
                    let ask: LaneFn<fn() -> u64> = LaneFn::new("front", "ask");
                    let version: LaneFn<fn() -> u64> = LaneFn::new("back", "version");
                    for i in 0u64.. {
                        if over.load(Ordering::SeqCst) != 0 {
                            break;
                        }
                        let mut lane = lanes.enter().unwrap();
                        if thread == 0 && i.is_multiple_of(64) {
                            let died = LaneFn::<fn() -> u64>::new("front", "die").call(&mut lane, ());
                            assert_eq!(died, Ok(-5i64 as u64));
                        }
                        let from = least.load(Ordering::SeqCst);
                        let found = if i.is_multiple_of(2) { &ask } else { &version }.call(&mut lane, ());
                        let to = most.load(Ordering::SeqCst);
                        match found {
                            Ok(found) if (from..=to).contains(&found) => counts[0].fetch_add(1, Ordering::Relaxed),
                            // Another lane's fault ended it.
                            Ok(found) if found == -5i64 as u64 => counts[1].fetch_add(1, Ordering::Relaxed),
                            Err(CallError::Dead { .. }) => counts[1].fetch_add(1, Ordering::Relaxed),
                            other => panic!("{other:?}, expected {from} to {to}"),
                        };
                    }
                });
            }
            let _end = Over(&over);
            for version in 2..30 {
                most.store(version, Ordering::SeqCst);
                lanes.reload(back(version, estacks), LONG).unwrap();
                least.store(version, Ordering::SeqCst);
                let before = counts[0].load(Ordering::Relaxed);
                let until = Instant::now() + LONG;
                while counts[0].load(Ordering::Relaxed) == before && Instant::now() < until {
                    std::thread::yield_now();
                }
            }
        });
        assert!(counts[0].load(Ordering::Relaxed) >= 28, "{counts:?}");
        let all = [0; 3].map(|_| lanes.enter().unwrap());
        // The new windows, and none of the old ones.
        let live = all[0].domain("front").unwrap().placement().live;
        assert_eq!(live, 3 + estacks as u64);
        for mut lane in all {
            assert_eq!(LaneFn::<fn() -> u64>::new("front", "ask").call(&mut lane, ()), Ok(29));
        }
    }
    assert_eq!(maps().iter().filter(|line| line.contains("memfd:")).count(), 0);
}

/// A thread that has a lane keeps a reload out. The old domain goes on.
#[test]
fn no_reload_under_callers() {
    let _alone = alone();
    let lanes = build(1);
    let lane = lanes.enter().unwrap();
    let refused = lanes.reload(back(2, 1), SOON);
    assert!(matches!(refused, Err(BuildError::Bind(BindError::Active { .. }))), "{refused:?}");
    drop(lane);
    assert_eq!((lanes.idle(), call(&lanes, "back", "version")), (3, Ok(1)));
    // A world's own reload would change one lane only.
    let mut lane = lanes.enter().unwrap();
    let refused = sfi_loader::Manage::reload(&mut *lane, back(2, 1));
    assert!(matches!(refused, Err(BuildError::Bind(BindError::Lanes))), "{refused:?}");
    drop(lane);
    lanes.reload(back(2, 1), SOON).unwrap();
    assert_eq!(call(&lanes, "front", "ask"), Ok(2));
}

/// A specification that does not fit, or an object that is not accepted, leaves the old domain as
/// it is, with its data.
#[test]
fn a_refused_reload_changes_nothing() {
    let _alone = alone();
    let lanes = build(3);
    assert_eq!(call(&lanes, "back", "count"), Ok(1));
    let refused = |spec: DomainSpec| lanes.reload(spec, SOON).unwrap_err();
    let unfit = |error| matches!(error, BuildError::Spec(SpecError::Lanes { .. }));
    assert!(unfit(refused(back(2, 2))), "another number of E-stacks");
    assert!(unfit(refused(back(2, 3).restart(Restart::Never))));
    assert!(unfit(refused(back(2, 3).spare_bindings(1))));
    assert!(matches!(refused(back(2, 3).import("x", Import::host("nobody"))), BuildError::Spec(_)));
    let hostile = assemble(&(text() + &function("version", "mov %rax,(%rdi)\nret")));
    let hostile = DomainSpec::new("back").object("bad.o", hostile).threads_exposing(3).restart(Restart::Always);
    assert!(matches!(refused(hostile), BuildError::Link(_)));
    assert!(matches!(refused(DomainSpec::new("nobody")), BuildError::Bind(_)));
    assert_eq!(call(&lanes, "back", "count"), Ok(2));
    assert_eq!(call(&lanes, "front", "ask"), Ok(1));
}

/// Initialisers that fail leave the domain dead in all lanes. The next reload makes it live. A
/// function that is gone is an error of the call.
#[test]
fn a_reload_that_fails_late_leaves_the_domain_dead() {
    let _alone = alone();
    let lanes = build(1);
    let object = assemble(&(text() + ".section .init_array,\"aw\"\n.quad fault\n"));
    let failing = DomainSpec::new("back").object("back.o", object).restart(Restart::Always);
    let failed = lanes.reload(failing, SOON);
    assert!(matches!(failed, Err(BuildError::Initialiser { .. })), "{failed:?}");
    for _ in 0..2 {
        assert_eq!(call(&lanes, "back", "add"), Err(CallError::Dead { domain: "back".into() }));
    }
    assert_eq!(call(&lanes, "front", "add").map(drop), Ok(()));
    let version: LaneFn<fn() -> u64> = LaneFn::new("back", "version");
    lanes.reload(back(3, 1), SOON).unwrap();
    assert_eq!(version.call(&mut lanes.enter().unwrap(), ()), Ok(3));
    assert_eq!(kind(call(&lanes, "back", "fault")), FaultKind::Memory(sfi_loader::AddressClass::Null));
    assert_eq!(call(&lanes, "front", "ask"), Ok(3), "it is restarted in its new form");
    lanes.reload(domain("back", "").restart(Restart::Always), SOON).unwrap();
    let gone = Err(CallError::Gone { domain: "back".into() });
    let mut all = [0; 3].map(|_| lanes.enter().unwrap());
    for lane in &mut all {
        assert_eq!(version.call(lane, ()), gone);
        assert_eq!(two("back", "add").call(lane, (1, 2)), Ok(3));
        assert_eq!(LaneFn::<fn() -> u64>::new("back", "version").call(lane, ()), gone);
    }
}

/// A reload waits for the owner's penalties, and begins a life whose faults count again.
#[test]
fn a_reload_pays() {
    let _alone = alone();
    let delay = Duration::from_millis(60);
    let owner = Owner::new("alice").penalty(Penalty::Constant(delay));
    let lanes = World::builder().domain(front()).domain(back(1, 3).owner(&owner)).lanes(3).unwrap();
    for version in 2..4 {
        assert_eq!(call(&lanes, "front", "die"), Ok(-5i64 as u64));
        let begin = Instant::now();
        lanes.reload(back(version, 3).owner(&owner), LONG).unwrap();
        assert!(begin.elapsed() >= delay / 2, "{:?}", begin.elapsed());
        assert_eq!(owner.record().faults, version - 1);
        assert_eq!(call(&lanes, "front", "ask"), Ok(version));
    }
}

/// Each system call of a reload fails for want of memory, one after the other. Either the old
/// domain goes on in all lanes, or the domain is dead in all of them until it is loaded again.
#[test]
fn memory_runs_out_in_a_reload() {
    let _alone = alone();
    let [mut old, mut dead] = [0, 0];
    let run = || {
        no_memory::prepare();
        for estacks in [1, 3] {
            let lanes = build(estacks);
            // The results in all lanes, of a call by way of the client and of one by the host.
            let ask = || {
                let mut all = [0; 3].map(|_| lanes.enter().unwrap());
                all.each_mut().map(|lane| {
                    [("front", "ask"), ("back", "version")]
                        .map(|(domain, name)| LaneFn::<fn() -> u64>::new(domain, name).call(lane, ()))
                })
            };
            let all = |version: u64| [0; 3].map(|_| [Ok(version), Ok(version)]);
            let gone = || [Ok(-5i64 as u64), Err(CallError::Dead { domain: "back".into() })];
            let mut version = 1;
            // The files and their mappings, and the windows.
            let held = || {
                let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
                let mapped = maps().iter().filter(|line| line.contains("memfd:")).count();
                (files, mapped, lanes.enter().unwrap().domain("front").unwrap().placement().live)
            };
            let before = held();
            for number in 0.. {
                let (result, failed) = no_memory::failing(number, || lanes.reload(back(version + 1, estacks), LONG));
                let found = ask();
                if result.is_ok() {
                    version += 1;
                    assert_eq!(found, all(version));
                    if !failed {
                        break;
                    }
                } else if found == all(version) {
                    assert!(failed, "{result:?}");
                    old += 1;
                } else {
                    assert_eq!(found, [0; 3].map(|_| gone()), "{number}: {result:?}");
                    dead += 1;
                    version += 1;
                    lanes.reload(back(version, estacks), LONG).unwrap();
                    assert_eq!(ask(), all(version));
                }
            }
            assert_eq!(held(), before);
        }
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    assert!(old > 20 && dead >= 4, "{old} reloads left the old domain, {dead} a dead one");
}

/// The same for a world of one thread, also for restarts.
#[test]
fn memory_runs_out_in_a_world_of_one_thread() {
    let _alone = alone();
    let [mut old, mut dead] = [0, 0];
    let run = || {
        no_memory::prepare();
        let back = |version| back(version, 1).restart(Restart::Never);
        let mut world = World::builder().domain(front().threads(1)).domain(back(1)).build().unwrap();
        let [ask, version] = [("front", "ask"), ("back", "version")]
            .map(|(domain, name)| world.domain(domain).unwrap().export::<fn() -> u64>(name).unwrap());
        let mut now = 1;
        for restarts in [false, true] {
            for number in 0.. {
                let next = if restarts { now } else { now + 1 };
                let (result, failed) = no_memory::failing(number, || match restarts {
                    true => world.restart("back"),
                    false => world.reload(back(next)),
                });
                let is_dead = world.domain("back").unwrap().is_dead();
                let found = [ask.call(&mut world, ()), version.call(&mut world, ())];
                if result.is_ok() {
                    now = next;
                    assert_eq!(found, [Ok(now), Ok(now)]);
                    if !failed {
                        break;
                    }
                } else if !is_dead {
                    assert!(failed, "{result:?}");
                    assert_eq!(found, [Ok(now), Ok(now)], "{number}: {result:?}");
                    old += 1;
                } else {
                    assert_eq!(
                        found,
                        [Ok(-5i64 as u64), Err(CallError::Dead { domain: "back".into() })],
                        "{number}: {result:?}"
                    );
                    dead += 1;
                    now += 1;
                    let refused = world.restart("back");
                    assert!(
                        restarts || matches!(refused, Err(BuildError::Bind(BindError::Torn { .. }))),
                        "{refused:?}"
                    );
                    world.reload(back(now)).unwrap();
                    assert_eq!([ask.call(&mut world, ()), version.call(&mut world, ())], [Ok(now), Ok(now)]);
                }
            }
        }
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    assert!(old >= 8 && dead >= 2, "{old} times the old domain went on, {dead} times it was dead");
}
