//! Worlds that several threads enter at once: E-stacks, queues, deadlocks, the end of a domain that
//! others are in.

mod common;
mod lane_domains;
use common::{assemble, function, kind, maps};
use lane_domains::{Unary, alone, domain, lanes, text, two};
use sfi_loader::{
    Access, BindError, BuildError, Builder, Busy, CallError, DomainSpec, FaultKind, FaultThread, HostError, Import,
    LaneFn, Lanes, Manage, Mode, Restart, SpecError, Status, World,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Waits until a word of a domain's array `flags` is set.
fn wait_for(lanes: &Lanes, domain: &str, flag: u64) {
    let flags: LaneFn<fn() -> u64> = LaneFn::new(domain, "place");
    let mut lane = lanes.enter().unwrap();
    let at = flags.call(&mut lane, ()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while lane.memory(domain).unwrap().load(at + 4 * flag).unwrap() == 0 {
        assert!(Instant::now() < until, "nobody came");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A function that gives the address of `flags`, for [`wait_for`].
fn place() -> String {
    function("place", "lea flags(%rip),%rax\nret")
}

/// In every mode that has E-stacks, two callers are in one domain at once, each with a data stack,
/// a TCB page and a thread pointer of its own.
#[test]
fn callers_of_one_domain_overlap() {
    let _alone = alone();
    let write = domain("app", "").threads_exposing(2);
    let full = DomainSpec::new("app").object("text.o", assemble(&full_text())).mode(Mode::Full).threads(2);
    for spec in [write, full] {
        let lanes = lanes(2, [spec]);
        let meet = two("app", "meet");
        let keep: LaneFn<fn(u64, u64, u64) -> u64> = LaneFn::new("app", "keep");
        let pointer: LaneFn<fn() -> u64> = LaneFn::new("app", "pointer");
        let both = |first: &(dyn Fn(u64) -> u64 + Sync)| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| first(1));
                [first(0), other.join().unwrap()]
            })
        };
        assert_eq!(both(&|own| meet.call(&mut lanes.enter().unwrap(), (own, 1 - own)).unwrap()), [1, 1]);
        let kept = |own| keep.call(&mut lanes.enter().unwrap(), (0x1234_5678_9abc + own, 2 + own, 3 - own)).unwrap();
        assert_eq!(both(&kept), [1, 1]);
        let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
        let pointers = [&mut a, &mut b].map(|lane| pointer.call(lane, ()).unwrap());
        assert_ne!(pointers[0], pointers[1]);
    }
}

/// The functions that the test above uses, with confined loads.
fn full_text() -> String {
    let text = text();
    text.replace("mov (%rcx,%rdx,4),%eax", "mov %gs:(%ecx,%edx,4),%eax")
        .replace("mov (%rcx),%rax", "mov %gs:(%ecx),%rax")
}

/// With one E-stack a second caller waits for the first one to leave, or is refused, as the
/// specification says. The count of a million entries by two threads loses none.
#[test]
fn one_estack_is_for_one_caller() {
    let _alone = alone();
    let host = "call block\nret";
    let build = |busy: Busy| {
        let (inside, seen) = channel();
        let (go, wait) = channel::<()>();
        let (inside, wait) = (Mutex::new(inside), Mutex::new(wait));
        let spec = domain("app", &function("hold", host)).busy(busy).import("block", Import::host("block"));
        let lanes = World::builder()
            .domain(spec)
            .shared_fn("block", move |_| {
                inside.lock().unwrap().send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
                Ok(7)
            })
            .lanes(3)
            .unwrap();
        (lanes, seen, go)
    };
    let add = two("app", "add");
    let hold: LaneFn<fn() -> u64> = LaneFn::new("app", "hold");
    for (busy, least) in [(Busy::Refuse, 0), (Busy::Wait(Duration::from_millis(50)), 50)] {
        let (lanes, seen, go) = build(busy);
        let add = two("app", "add");
        let hold: LaneFn<fn() -> u64> = LaneFn::new("app", "hold");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| hold.call(&mut lanes.enter().unwrap(), ()));
            seen.recv().unwrap();
            let (begin, mut lane) = (Instant::now(), lanes.enter().unwrap());
            assert_eq!(add.call(&mut lane, (1, 2)), Err(CallError::Occupied { domain: "app".into() }));
            assert!(begin.elapsed() >= Duration::from_millis(least));
            go.send(()).unwrap();
            assert_eq!(first.join().unwrap(), Ok(7));
            assert_eq!(add.call(&mut lane, (1, 2)), Ok(3));
        });
    }
    // The waiting one goes on as soon as the first one leaves.
    let (lanes, seen, go) = build(Busy::default());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| hold.call(&mut lanes.enter().unwrap(), ()));
        seen.recv().unwrap();
        let second = scope.spawn(|| add.call(&mut lanes.enter().unwrap(), (1, 2)));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!second.is_finished());
        go.send(()).unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (Ok(7), Ok(3)));
    });
    let count: LaneFn<fn() -> u64> = LaneFn::new("app", "count");
    let rounds = 20_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut lane = lanes.enter().unwrap();
                (0..rounds).for_each(|_| _ = count.call(&mut lane, ()).unwrap());
            });
        }
    });
    assert_eq!(count.call(&mut lanes.enter().unwrap(), ()), Ok(2 * rounds + 1));
}

/// Two of three lanes fit a domain with two E-stacks. The third one waits.
#[test]
fn estacks_bound_the_callers() {
    let _alone = alone();
    let spec = domain("app", &place()).threads_exposing(2).busy(Busy::Wait(Duration::from_millis(40)));
    let limit = Duration::from_millis(400);
    let lanes = World::builder().domain(spec).domain(domain("other", "")).time_limit(limit).lanes(4).unwrap();
    let spin: Unary = LaneFn::new("app", "spin");
    let add = two("app", "add");
    std::thread::scope(|scope| {
        let runs = [0, 1].map(|flag| {
            let (spin, lanes) = (&spin, &lanes);
            scope.spawn(move || spin.call(&mut lanes.enter().unwrap(), (flag,)))
        });
        std::thread::sleep(Duration::from_millis(100));
        let mut lane = lanes.enter().unwrap();
        assert_eq!(add.call(&mut lane, (1, 2)), Err(CallError::Occupied { domain: "app".into() }));
        assert_eq!(two("other", "add").call(&mut lane, (1, 2)), Ok(3));
        let ends = runs.map(|run| run.join().unwrap());
        // The limit of one ends the domain for both. The other one finds it dead, unless its own
        // limit was over at the same time.
        let limit = |end: &_| matches!(end, Err(CallError::Fault(fault)) if fault.kind == FaultKind::TimeLimit);
        assert!(ends.iter().any(limit), "{ends:?}");
        for end in &ends {
            let Err(CallError::Fault(fault)) = end else { continue };
            let Some(FaultThread::Lane(lane)) = fault.thread else { panic!("{:?}", fault.thread) };
            let last = format!(": host, lane {lane}\n");
            assert!(lane < 4 && fault.backtrace().to_string().ends_with(&last), "{}", fault.backtrace());
        }
    });
}

/// Client and server for calls between domains: `relay(a, b)` of `front` calls `add` of `back`.
fn pair(back: DomainSpec) -> [DomainSpec; 2] {
    let relay = function("relay", "call far\nret") + &function("failed", "call far_fault\nret");
    let import = |name: &str| Import::domain("back", name).signature("(int, int) -> int");
    let front = domain("front", &relay).import("far", import("add")).import("far_fault", import("fault"));
    [front.threads_exposing(2), back]
}

#[test]
fn calls_between_domains_take_estacks() {
    let _alone = alone();
    let lanes = lanes(2, pair(domain("back", "").restart(Restart::Always)));
    let relay = two("front", "relay");
    let failed: LaneFn<fn() -> u64> = LaneFn::new("front", "failed");
    let error: LaneFn<fn() -> u64> = LaneFn::new("front", "error");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut lane = lanes.enter().unwrap();
                for i in 0..5_000 {
                    assert_eq!(relay.call(&mut lane, (i, 1)), Ok(i + 1));
                }
            });
        }
    });
    // A callee that faults gives its E-stack back, and begins again for the other lane.
    let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    for _ in 0..20 {
        assert_eq!(failed.call(&mut a, ()), Ok(u64::MAX));
        assert_eq!(error.call(&mut a, ()), Ok(Status::Fault as u64));
        assert_eq!(relay.call(&mut b, (2, 3)), Ok(5));
        assert_eq!(failed.call(&mut b, ()), Ok(u64::MAX));
        assert_eq!(relay.call(&mut a, (2, 3)), Ok(5));
    }
}

/// Two lanes call A -> B and B -> A. One of them gets the error, the other one goes on.
#[test]
fn a_deadlock_is_found() {
    let _alone = alone();
    let body = function("cross", "call meet_host\nmov $1,%edi\nmov $2,%esi\ncall far\nret");
    let spec = |name: &str, other: &str| {
        domain(name, &body)
            .import("meet_host", Import::host("meet_host").signature("() -> int"))
            .import("far", Import::domain(other, "add").signature("(int, int) -> int"))
            .busy(Busy::Wait(Duration::from_secs(60)))
    };
    let barrier = Barrier::new(2);
    let lanes = World::builder()
        .domain(spec("a", "b"))
        .domain(spec("b", "a"))
        .shared_fn("meet_host", move |_| {
            barrier.wait();
            Ok(0)
        })
        .lanes(2)
        .unwrap();
    let begin = Instant::now();
    for _ in 0..20 {
        let results = std::thread::scope(|scope| {
            let run = |name: &'static str| {
                let lanes = &lanes;
                scope.spawn(move || {
                    let mut lane = lanes.enter().unwrap();
                    let cross: LaneFn<fn() -> u64> = LaneFn::new(name, "cross");
                    let error: LaneFn<fn() -> u64> = LaneFn::new(name, "error");
                    let result = cross.call(&mut lane, ()).unwrap();
                    (result, (result == u64::MAX).then(|| error.call(&mut lane, ()).unwrap()))
                })
            };
            ["a", "b"].map(run).map(|thread| thread.join().unwrap())
        });
        let dead = (u64::MAX, Some(Status::Deadlock as u64));
        assert!(results == [dead, (3, None)] || results == [(3, None), dead], "{results:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "nobody waited for the end of the bound");
}

/// A fault in one lane ends the domain for lanes that run it, that wait in a host function, and
/// that wait for another domain. Each gets its error, and with restarts the domain lives again.
#[test]
fn a_fault_ends_the_domain_for_all() {
    let _alone = alone();
    let relay = place() + &function("hold", "call block\nret") + &function("relay", "call far\nret");
    let front = domain("front", &relay)
        .threads_exposing(4)
        .restart(Restart::Always)
        .import("block", Import::host("block"))
        .import("far", Import::domain("back", "hold").signature("() -> int"));
    let back = domain("back", &function("hold", "call block\nret")).import("block", Import::host("block"));
    let (go, wait) = channel::<()>();
    let (wait, inside) = (Mutex::new(wait), std::sync::Arc::new(AtomicU64::new(0)));
    let seen = std::sync::Arc::clone(&inside);
    let lanes = World::builder()
        .domain(front)
        .domain(back.threads_exposing(4))
        .shared_fn("block", move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            wait.lock().unwrap().recv().unwrap();
            Ok(9)
        })
        .lanes(4)
        .unwrap();
    let spin: Unary = LaneFn::new("front", "spin");
    let call =
        |function: &'static str| LaneFn::<fn() -> u64>::new("front", function).call(&mut lanes.enter().unwrap(), ());
    for round in 0..10u64 {
        inside.store(0, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let runs = scope.spawn(|| spin.call(&mut lanes.enter().unwrap(), (round,)));
            let [in_host, in_other] = ["hold", "relay"].map(|function| scope.spawn(move || call(function)));
            wait_for(&lanes, "front", round);
            while inside.load(Ordering::SeqCst) < 2 {
                std::thread::sleep(Duration::from_micros(100));
            }
            assert!(matches!(kind(call("fault")), FaultKind::Memory(_)));
            let dead = || Err(CallError::Dead { domain: "front".into() });
            assert_eq!(runs.join().unwrap(), dead());
            assert!(!in_host.is_finished() && !in_other.is_finished());
            (0..2).for_each(|_| go.send(()).unwrap());
            assert_eq!([in_host, in_other].map(|thread| thread.join().unwrap()), [dead(), dead()]);
        });
        assert_eq!(two("front", "add").call(&mut lanes.enter().unwrap(), (1, 2)), Ok(3), "it lives again");
        assert_eq!(two("back", "add").call(&mut lanes.enter().unwrap(), (1, 2)), Ok(3), "nobody ended it");
    }
}

/// Memory is as it was built after a restart, in every lane.
#[test]
fn a_restart_is_one_for_all_lanes() {
    let _alone = alone();
    for spec in [domain("app", ""), domain("app", "").threads_exposing(3)] {
        let lanes = lanes(3, [spec]);
        let count: LaneFn<fn() -> u64> = LaneFn::new("app", "count");
        let fault: LaneFn<fn() -> u64> = LaneFn::new("app", "fault");
        let mut all = [0; 3].map(|_| lanes.enter().unwrap());
        for round in 1..=3 {
            assert_eq!(all.each_mut().map(|lane| count.call(lane, ()).unwrap()), [1, 2, 3]);
            let [first, second, third] = &mut all;
            assert!(matches!(kind(fault.call(first, ())), FaultKind::Memory(_)));
            for lane in [&mut *second, &mut *first, &mut *third] {
                assert_eq!(count.call(lane, ()), Err(CallError::Dead { domain: "app".into() }));
            }
            if round == 2 { second } else { third }.restart("app").unwrap();
        }
        assert_eq!(all.each_mut().map(|lane| count.call(lane, ()).unwrap()), [1, 2, 3]);
    }
}

/// A restart that the host asks for is refused while another lane is inside.
#[test]
fn no_restart_under_callers() {
    let _alone = alone();
    let (inside, seen) = channel();
    let (go, wait) = channel::<()>();
    let (inside, wait) = (Mutex::new(inside), Mutex::new(wait));
    let spec = domain("app", &function("hold", "call block\nret")).import("block", Import::host("block"));
    let lanes = World::builder()
        .domain(spec.threads_exposing(2))
        .shared_fn("block", move |cx| {
            inside.lock().unwrap().send(()).unwrap();
            wait.lock().unwrap().recv().unwrap();
            assert!(matches!(cx.connect("app", "block", "app.x"), Err(BindError::Lanes)));
            assert!(matches!(cx.reload(DomainSpec::new("app")), Err(BuildError::Bind(BindError::Lanes))));
            assert!(matches!(cx.make_visible("app", "r", Access::Read), Err(BindError::Lanes)));
            Err(HostError::new("no"))
        })
        .lanes(2)
        .unwrap();
    std::thread::scope(|scope| {
        let hold: LaneFn<fn() -> u64> = LaneFn::new("app", "hold");
        let lanes = &lanes;
        let first = scope.spawn(move || hold.call(&mut lanes.enter().unwrap(), ()));
        seen.recv().unwrap();
        let mut lane = lanes.enter().unwrap();
        let refused = lane.restart("app");
        assert!(matches!(refused, Err(BuildError::Bind(BindError::Active { .. }))), "{refused:?}");
        assert_eq!(two("app", "add").call(&mut lane, (1, 2)), Ok(3));
        go.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(u64::MAX));
        lane.restart("app").unwrap();
    });
}

/// A panic of a host function leaves the domains that it interrupted dead, in all lanes.
#[test]
fn a_panic_gives_all_estacks_back() {
    let _alone = alone();
    let front = domain("front", &function("relay", "call far\nret"))
        .restart(Restart::Always)
        .import("far", Import::domain("back", "hold").signature("() -> int"));
    let back = domain("back", &function("hold", "call block\nret")).import("block", Import::host("block"));
    let back = back.restart(Restart::Always);
    let lanes = World::builder().domain(front).domain(back).shared_fn("block", |_| panic!("block")).lanes(2).unwrap();
    let (mut a, mut b) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    let relay: LaneFn<fn() -> u64> = LaneFn::new("front", "relay");
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..3 {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| relay.call(&mut a, ())));
        assert!(panicked.is_err());
        for name in ["front", "back"] {
            assert_eq!(two(name, "add").call(&mut b, (1, 2)), Ok(3));
        }
    }
    drop(std::panic::take_hook());
}

#[test]
fn what_lanes_cannot_have_is_refused() {
    let refused = |builder: Builder, count: usize| {
        let result = builder.lanes(count);
        assert!(
            matches!(result, Err(BuildError::Spec(SpecError::Lanes { .. } | SpecError::Threads { .. }))),
            "{result:?}"
        );
    };
    let with = |spec: DomainSpec| World::builder().domain(spec);
    let app = || DomainSpec::new("app");
    refused(with(app()), 0);
    refused(with(app()), 65);
    refused(with(app()).host_fn("f", |_| Ok(0)), 2);
    refused(with(app()).permission(|_| true), 2);
    refused(with(app().spare_bindings(1)), 2);
    refused(with(app().link_room(sfi_loader::LinkRoom::default())), 2);
    refused(with(app().mode(Mode::Match).threads_exposing(2)), 2);
    refused(with(app().threads(2)), 2);
    refused(with(app().import("c", Import::host("__sfi_connect"))), 2);
    let passes = Import::domain("other", "f").signature("(fn(int) -> int) -> int");
    refused(with(app().import("f", passes)).domain(DomainSpec::new("other")), 2);
    // A region in which another lane could count.
    let shares = |name: &str, access| DomainSpec::new(name).shared("r", "r", access);
    let region = |a, b| World::builder().region("r", 4096).domain(shares("a", a)).domain(shares("b", b));
    refused(region(Access::Read, Access::ReadWrite), 2);
    refused(region(Access::ReadWrite, Access::Read), 2);
    assert!(region(Access::Read, Access::Read).lanes(2).is_ok());
}

/// Nothing stays mapped, whatever happened in the lanes.
#[test]
fn nothing_leaks() {
    let _alone = alone();
    let round = || {
        let [front, back] = pair(domain("back", "").restart(Restart::Always));
        let lanes = World::builder().region("r", 4096).domain(front).domain(back).lanes(3).unwrap();
        let failed: LaneFn<fn() -> u64> = LaneFn::new("front", "failed");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..5).for_each(|_| _ = failed.call(&mut lanes.enter().unwrap(), ()).unwrap()));
            }
        });
        // Three windows of `front`, and the one of `back`.
        assert_eq!(lanes.enter().unwrap().domain("front").unwrap().placement().live, 4);
    };
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    round();
    let before = files();
    (0..5).for_each(|_| round());
    assert_eq!((files(), maps().iter().filter(|line| line.contains("memfd:")).count()), (before, 0));
}
