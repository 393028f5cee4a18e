//! Calls that overstay their world's time limit end in an error at the right time, and everything
//! else goes on.

mod common;
use common::{assemble, function};
use sfi_loader::{CallError, DomainSpec, FaultKind, HostError, Import, Limits, Owner, Restart, Status, TypedFn, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(30);
/// Delay that a busy machine may add. A call that is never ended exceeds it too.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns three functions: `spin` loops for ever, `count(n)` loops n times and returns n, `answer`
/// returns 42.
fn loops() -> String {
    function("spin", "1:\njmp 1b\nret")
        + &function("count", "mov %rdi,%rax\n1:\ndec %rdi\njnz 1b\nret")
        + &function("answer", "mov $42,%eax\nret")
}

fn looping(limit: Duration) -> World {
    let spec = DomainSpec::new("app").object("app.o", assemble(&loops()));
    World::builder().domain(spec).time_limit(limit).build().unwrap()
}

fn nullary(world: &World, domain: &str, name: &str) -> TypedFn<fn() -> u64> {
    world.domain(domain).unwrap().export(name).unwrap()
}

/// Checks that the call was ended in this domain and function.
fn ended(result: Result<u64, CallError>, domain: &str, name: &str) {
    let Err(CallError::Fault(fault)) = result else { panic!("not ended: {result:?}") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::TimeLimit, domain), "{fault}");
    assert_eq!(fault.function.as_deref(), Some(name), "{fault}");
}

#[test]
fn an_endless_loop_ends() {
    let mut world = looping(LIMIT);
    let (spin, answer) = (nullary(&world, "app", "spin"), nullary(&world, "app", "answer"));
    for _ in 0..3 {
        assert_eq!(answer.call(&mut world, ()), Ok(42));
        let start = Instant::now();
        ended(spin.call(&mut world, ()), "app", "spin");
        assert!((LIMIT..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
        assert_eq!(answer.call(&mut world, ()), Err(CallError::Dead { domain: "app".into() }));
        assert_eq!(world.domain("app").unwrap().last_fault().unwrap().kind, FaultKind::TimeLimit);
        world.restart("app").unwrap();
    }
}

/// The caller gets `on_fault` and its registers, and may go on.
#[test]
fn a_callee_ends_and_its_caller_goes_on() {
    let body = "mov $11,%ebx\nmov $12,%r14d\ncall spin\nadd %rbx,%rax\nadd %r14,%rax\nmov %gs:__sfi_error(%eip),%ecx\n\
                imul $1000,%rcx\nadd %rcx,%rax\n";
    let app = function("run", &format!("{body}ret")) + &function("run_on", &format!("{body}1:\njmp 1b\nret"));
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&app))
        .import("spin", Import::domain("codec", "spin").signature("() -> int").on_fault(5));
    let codec = DomainSpec::new("codec").object("codec.o", assemble(&loops()));
    let mut world = World::builder().domain(app).domain(codec).time_limit(LIMIT).build().unwrap();
    let (run, run_on) = (nullary(&world, "app", "run"), nullary(&world, "app", "run_on"));
    let expected = |code: u32| Ok(5 + 11 + 12 + 1000 * u64::from(code));
    assert_eq!(run.call(&mut world, ()), expected(Status::Fault as u32));
    assert_eq!(world.domain("codec").unwrap().last_fault().unwrap().kind, FaultKind::TimeLimit);
    assert!(!world.domain("app").unwrap().is_dead());
    assert_eq!(run.call(&mut world, ()), expected(Status::Dead as u32));
    world.restart("codec").unwrap();
    // A caller that does not stop is ended after its callee, and not before its time for a return
    // is over.
    let start = Instant::now();
    ended(run_on.call(&mut world, ()), "app", "run_on");
    assert!((LIMIT + Duration::from_millis(10)..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(world.domain("codec").unwrap().is_dead());
}

/// A call can go on for ever through its callees: one server restarted again and again, one
/// accomplice after the other, or a host function that calls back. It has one deadline, however
/// many domains are ended.
#[test]
fn a_call_has_one_deadline_whatever_is_restarted() {
    /// At this number one limit for each would outlast [`PATIENCE`].
    const MANY: usize = 1000;
    let spin = assemble(&loops());
    let each = |names: &[String]| names.iter().map(|name| format!("call {name}\n")).collect::<String>();
    let app = |calls: &str, names: &[String], domain: &dyn Fn(usize) -> String| {
        let object = assemble(&function("run", &format!("1:\n{calls}jmp 1b\nret")));
        let import = |i: usize| Import::domain(domain(i), "spin").signature("() -> int").on_fault(3);
        names
            .iter()
            .enumerate()
            .fold(DomainSpec::new("app").object("app.o", object), |app, (i, n)| app.import(n, import(i)))
    };
    let one = ["spin".to_owned()];
    let many: Vec<String> = (0..20).map(|i| format!("spin{i}")).collect();
    let codec = |name: &str| DomainSpec::new(name).memory(1 << 16).stack(1 << 16).object("codec.o", spin.clone());
    for restart in [Restart::Always, Restart::Limited(MANY as u32), Restart::Never] {
        let revived = World::builder()
            .domain(app(&each(&one), &one, &|_| "codec".into()))
            .domain(codec("codec").restart(restart));
        let mut accomplices = World::builder().domain(app(&each(&many), &many, &|i| format!("codec{i}")));
        for i in 0..many.len() {
            accomplices = accomplices.domain(codec(&format!("codec{i}")).restart(restart));
        }
        for builder in [revived, accomplices] {
            let mut world = builder.time_limit(LIMIT).build().unwrap();
            let start = Instant::now();
            ended(nullary(&world, "app", "run").call(&mut world, ()), "app", "run");
            assert!((LIMIT..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
            let restarts: u32 = world.domains().map(|name| world.domain(name).unwrap().restarts()).sum();
            assert!(restarts <= 2, "{restarts} restarts within the time that is left after the limit");
        }
    }
    // The processor's clock has one deadline as well.
    let mut world = World::builder()
        .domain(app(&each(&one), &one, &|_| "codec".into()))
        .domain(codec("codec").restart(Restart::Always))
        .cpu_limit(LIMIT)
        .build()
        .unwrap();
    let Err(CallError::Fault(fault)) = nullary(&world, "app", "run").call(&mut world, ()) else { panic!("not ended") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::CpuLimit, "app"));
    assert!(world.domain("codec").unwrap().restarts() <= 2);
}

/// A call's time is over while its gate waits for the restart of the callee, which takes longer.
/// The fault and its trace name the place in the caller. The limit counts processor time, so that
/// it is over in the restart on a busy machine as well.
#[test]
fn the_time_is_over_in_a_restart() {
    // Much text, which is verified at each restart.
    let object = assemble(&(loops() + &function("die", "ud2") + &function("large", ".fill 8000000,1,0x90\nret")));
    let calls = function("inner", "call die\nmov $7,%eax\nret") + &function("run", "call inner\nret");
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&calls))
        .import("die", Import::domain("codec", "die").signature("() -> int").on_fault(3));
    let codec = DomainSpec::new("codec").object("codec.o", object).restart(Restart::Always);
    let mut world = World::builder().domain(app).domain(codec).timed().build().unwrap();
    let run = nullary(&world, "app", "run");
    assert_eq!(run.call(&mut world, ()), Ok(7));
    let ended = run.call_within(&mut world, Limits::cpu(Duration::from_millis(5)), ());
    let Err(CallError::Fault(fault)) = ended else { panic!("not ended: {ended:?}") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::CpuLimit, "app"), "{fault}");
    assert_eq!(world.domain("codec").unwrap().restarts(), 1);
    assert_eq!(fault.function.as_deref(), Some("inner"), "{fault}");
    let text = fault.backtrace().to_string();
    assert!(text.contains("inner") && text.contains("run"), "{text}");
}

/// A function that the host entered may go on to a host function by a jump. The call's return
/// address is then the gate's, as if a gate had called the host itself.
#[test]
fn a_jump_leads_to_a_host_function_that_ends_the_domain() {
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&function("run", "jmp end")))
        .import("end", Import::host("end").signature("() -> int"));
    let builder = World::builder().domain(app).host_fn("end", |_| Err(HostError::end_caller(6)));
    let mut world = builder.build().unwrap();
    let run = nullary(&world, "app", "run");
    let ended = run.call(&mut world, ());
    let Err(CallError::Fault(fault)) = ended else { panic!("not ended: {ended:?}") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::Exit(6), "app"), "{fault}");
    let _ = fault.backtrace().to_string();
}

/// Domains that wait when a call's time is over are ended with it, at any depth. No owner pays for
/// that. The limit counts processor time, so that another process that takes the processor between
/// two steps changes nothing: `c` runs when the time is over, and again when the time for the
/// return is over.
#[test]
fn domains_that_wait_end_without_running_and_without_a_penalty() {
    let owners = ["a", "b", "c"].map(Owner::new);
    let link = |name: &str, next: &str, owner: &Owner| {
        let text = function(&format!("to_{next}"), "1:\ncall next\njmp 1b\nret");
        DomainSpec::new(name)
            .object("link.o", assemble(&text))
            .owner(owner)
            .import("next", Import::domain(next, if next == "c" { "spin" } else { "to_c" }).signature("() -> int"))
    };
    let mut world = World::builder()
        .domain(link("a", "b", &owners[0]))
        .domain(link("b", "c", &owners[1]))
        .domain(DomainSpec::new("c").object("c.o", assemble(&loops())).owner(&owners[2]).restart(Restart::Always))
        .cpu_limit(8 * LIMIT)
        .build()
        .unwrap();
    let Err(CallError::Fault(fault)) = nullary(&world, "a", "to_b").call(&mut world, ()) else { panic!("not ended") };
    assert_eq!((fault.kind, fault.domain.as_str()), (FaultKind::CpuLimit, "a"), "{fault}");
    for name in ["a", "b", "c"] {
        assert!(world.domain(name).unwrap().is_dead(), "{name}");
        assert_eq!(world.domain(name).unwrap().last_fault().unwrap().kind, FaultKind::CpuLimit);
    }
    drop(world);
    assert_eq!(owners.map(|owner| owner.record().faults), [0, 0, 2], "the one that ran, twice");
}

/// Most of the time is spent in gates.
#[test]
fn domains_that_call_each_other_for_ever_end() {
    let app = function("run", "1:\ncall answer\njmp 1b\nret");
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&app))
        .import("answer", Import::domain("codec", "answer").signature("() -> int"));
    let codec = DomainSpec::new("codec").object("codec.o", assemble(&loops()));
    let mut world = World::builder().domain(app).domain(codec).time_limit(LIMIT).build().unwrap();
    let run = nullary(&world, "app", "run");
    for _ in 0..3 {
        ended(run.call(&mut world, ()), "app", "run");
        for name in ["app", "codec"] {
            world.restart(name).unwrap();
        }
    }
}

#[test]
fn endless_mutual_recursion_is_a_stack_overflow() {
    let a = function("ping", "call pong\nret");
    let b = function("pong", "call ping\nret");
    let mut world = World::builder()
        .domain(DomainSpec::new("a").object("a.o", assemble(&a)).import("pong", Import::domain("b", "pong")))
        .domain(DomainSpec::new("b").object("b.o", assemble(&b)).import("ping", Import::domain("a", "ping")))
        .time_limit(Duration::from_secs(20))
        .build()
        .unwrap();
    let ping = nullary(&world, "a", "ping");
    let result = ping.call(&mut world, ());
    let found = ["a", "b"].map(|name| world.domain(name).unwrap().last_fault().map(|f| f.kind));
    assert!(found.contains(&Some(FaultKind::ControlStackOverflow)), "{result:?} {found:?}");
    assert!(!found.contains(&Some(FaultKind::TimeLimit)), "{found:?}");
}

/// Builds a world whose domain calls the host function `host` with 3: once, or for ever.
fn with_host(limit: Duration, mut host: impl FnMut() + Send + 'static) -> World {
    let text = function("once", "mov $3,%edi\ncall host\nret")
        + &function("always", "1:\nmov $3,%edi\ncall host\njmp 1b\nret")
        + &loops();
    let spec = DomainSpec::new("app").object("app.o", assemble(&text)).import("host", Import::host("host"));
    let function = move |cx: &mut sfi_loader::HostCall<'_>| {
        host();
        Ok(cx.arg(0))
    };
    World::builder().domain(spec).host_fn("host", function).time_limit(limit).build().unwrap()
}

/// The domain itself runs only for nanoseconds between calls of a quick or a slow host function.
#[test]
fn a_loop_of_host_calls_ends_between_them() {
    for pause in [Duration::ZERO, Duration::from_millis(3)] {
        let inside = Arc::new(AtomicU64::new(0));
        let counter = inside.clone();
        let mut world = with_host(LIMIT, move || {
            counter.fetch_add(1, Ordering::Relaxed);
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let (always, once) = (nullary(&world, "app", "always"), nullary(&world, "app", "once"));
        for _ in 0..3 {
            ended(always.call(&mut world, ()), "app", "always");
            assert!(inside.load(Ordering::Relaxed).is_multiple_of(2), "a host function was aborted");
            world.restart("app").unwrap();
            assert_eq!(once.call_within(&mut world, Limits::wall(PATIENCE), ()), Ok(3));
        }
    }
}

#[test]
fn a_long_host_function_is_not_aborted_but_its_caller_ends() {
    let done = Arc::new(AtomicBool::new(false));
    let end = done.clone();
    let mut world = with_host(LIMIT, move || {
        // Neither a sleep nor work on the processor.
        let start = Instant::now();
        std::thread::sleep(2 * LIMIT);
        while start.elapsed() < 6 * LIMIT {
            std::hint::spin_loop();
        }
        end.store(true, Ordering::Relaxed);
    });
    let once = nullary(&world, "app", "once");
    let start = Instant::now();
    ended(once.call(&mut world, ()), "app", "once");
    assert!(done.load(Ordering::Relaxed) && start.elapsed() >= 6 * LIMIT);
}

/// A host function calls back. The inner call is ended. The host function sees that and goes on,
/// and so does its caller.
#[test]
fn a_call_back_ends_for_the_host_function() {
    let app = function("run", "call work\nadd $1,%rax\nret");
    let work = function("work", "lea spin(%rip),%rdi\ncall back\nret") + &loops();
    let mut world = World::builder()
        .domain(
            DomainSpec::new("app")
                .object("app.o", assemble(&app))
                .import("work", Import::domain("codec", "work").on_fault(7)),
        )
        .domain(DomainSpec::new("codec").object("codec.o", assemble(&work)).import("back", Import::host("back")))
        .host_fn("back", |cx| {
            let spin = cx.function::<fn() -> u64>(cx.arg(0))?;
            ended(spin.call(cx, ()), "codec", "spin");
            Ok(1)
        })
        .time_limit(LIMIT)
        .build()
        .unwrap();
    assert_eq!(nullary(&world, "app", "run").call(&mut world, ()), Ok(8));
    assert!(world.domain("codec").unwrap().is_dead() && !world.domain("app").unwrap().is_dead());
}

/// Many calls end about when the limit passes, so the order to end them often arrives late. Each
/// call gives its result or is ended, never early, and an order for one call does not end the next.
#[test]
fn calls_at_the_edge_of_the_limit() {
    let limit = Duration::from_millis(3);
    let mut world = looping(limit);
    let count: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("count").unwrap();
    let answer = nullary(&world, "app", "answer");
    let (mut n, mut results, mut ends) = (2_000_000_u64, 0, 0);
    for _ in 0..200 {
        let start = Instant::now();
        match count.call(&mut world, (n,)) {
            Ok(value) => {
                assert_eq!(value, n);
                results += 1;
                n += n / 32;
            }
            result => {
                ended(result, "app", "count");
                assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
                ends += 1;
                world.restart("app").unwrap();
                n -= n / 32;
            }
        }
        assert_eq!(answer.call(&mut world, ()), Ok(42));
    }
    assert!(results > 0 && ends > 0, "{results} results, {ends} ends");
}

/// Worlds on other threads, with and without a limit, go on while one world is ended again and
/// again.
#[test]
fn other_threads_are_not_disturbed() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for limit in [None, Some(PATIENCE)] {
            let stop = &stop;
            scope.spawn(move || {
                let spec = DomainSpec::new("app").object("app.o", assemble(&loops()));
                let mut world = World::builder().domain(spec).time_limit(limit).build().unwrap();
                let count: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("count").unwrap();
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(count.call(&mut world, (100_000,)), Ok(100_000));
                }
            });
        }
        let mut world = looping(LIMIT);
        for _ in 0..6 {
            // Each round has a new thread: the world moves, and threads that made calls end.
            world = std::thread::scope(|inner| {
                let body = move || {
                    let spin = nullary(&world, "app", "spin");
                    ended(spin.call(&mut world, ()), "app", "spin");
                    world.restart("app").unwrap();
                    world
                };
                inner.spawn(body).join().unwrap()
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_worlds() {
    let object = assemble(&loops());
    let mut worlds: Vec<World> = (0..40)
        .map(|i| {
            let spec = DomainSpec::new("app").memory(1 << 16).stack(1 << 16).object("app.o", object.clone());
            World::builder().domain(spec).time_limit(Duration::from_millis(10 + i % 7)).build().unwrap()
        })
        .collect();
    for _ in 0..2 {
        for (i, world) in worlds.iter_mut().enumerate() {
            if i % 4 == 0 {
                ended(nullary(world, "app", "spin").call(world, ()), "app", "spin");
                world.restart("app").unwrap();
            }
            assert_eq!(nullary(world, "app", "answer").call(world, ()), Ok(42));
        }
        worlds.truncate(20);
    }
}

/// A world is entered by another one's host function. Each has its own limit.
#[test]
fn worlds_within_worlds() {
    let mut inner = looping(LIMIT);
    let mut outer = with_host(Duration::from_secs(20), move || {
        ended(nullary(&inner, "app", "spin").call(&mut inner, ()), "app", "spin");
        inner.restart("app").unwrap();
    });
    assert_eq!(nullary(&outer, "app", "once").call(&mut outer, ()), Ok(3));
    // The inner world has no limit and exceeds the outer one's.
    let spec = DomainSpec::new("app").object("app.o", assemble(&loops()));
    let mut inner = World::builder().domain(spec).build().unwrap();
    let mut outer = with_host(LIMIT, move || {
        let start = Instant::now();
        while start.elapsed() < 3 * LIMIT {
            assert_eq!(nullary(&inner, "app", "answer").call(&mut inner, ()), Ok(42));
        }
    });
    ended(nullary(&outer, "app", "once").call(&mut outer, ()), "app", "once");
}

/// Calls that end in time have no later effects: idle times, sleeps and handlers of other signals
/// are as without a limit.
#[test]
fn a_call_in_time_leaves_nothing_behind() {
    let mut world = looping(LIMIT);
    let answer = nullary(&world, "app", "answer");
    for _ in 0..3 {
        for _ in 0..1000 {
            assert_eq!(answer.call(&mut world, ()), Ok(42));
        }
        // nanosleep is not restarted after a handler ran: a signal would show here.
        let time = libc::timespec { tv_sec: 0, tv_nsec: 2 * LIMIT.as_nanos() as i64 };
        // SAFETY: a valid time. The null pointer drops the rest of an interrupted sleep.
        assert_eq!(unsafe { libc::nanosleep(&time, std::ptr::null_mut()) }, 0);
    }
}

#[test]
fn without_a_limit_calls_take_their_time() {
    let spec = DomainSpec::new("app").object("app.o", assemble(&loops()));
    let mut world = World::builder().domain(spec).build().unwrap();
    let _other = looping(Duration::from_millis(5));
    let count: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("count").unwrap();
    let mut n = 1_000_000;
    loop {
        let start = Instant::now();
        assert_eq!(count.call(&mut world, (n,)), Ok(n));
        if start.elapsed() > Duration::from_millis(60) {
            break;
        }
        n *= 2;
    }
}

/// Initialisers are calls too.
#[test]
fn an_initialiser_ends() {
    let text = format!("{}.section .init_array,\"aw\"\n.quad spin\n", loops());
    let spec = DomainSpec::new("app").object("app.o", assemble(&text));
    let error = World::builder().domain(spec).time_limit(LIMIT).build().unwrap_err();
    let text = sfi_loader::chain(&error);
    assert!(text.contains("time limit"), "{text}");
}
