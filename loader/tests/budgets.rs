//! Limits of single calls and budgets of domains: the time that they count, the domain that they
//! end, and their reports.

mod common;
use common::{assemble, function};
use sfi_loader::{Budget, CallError, DomainSpec, FaultKind, Import, Limits, Restart, Status, TypedFn, World};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(30);
/// Delay that a busy machine may add. A call that is never ended exceeds it too.
const PATIENCE: Duration = Duration::from_secs(20);

fn loops() -> String {
    function("spin", "1:\njmp 1b\nret")
        + &function("count", "mov %rdi,%rax\n1:\ndec %rdi\njnz 1b\nret")
        + &function("answer", "mov $42,%eax\nret")
        + &function("rest", "call host\nret")
}

fn spec(name: &str) -> DomainSpec {
    DomainSpec::new(name).object("loops.o", assemble(&loops())).import("host", Import::host("host"))
}

/// Returns the processor time of this thread.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sleeps and works for three limits each, as the host function `host`.
fn busy(_: &mut sfi_loader::HostCall<'_>) -> Result<u64, sfi_loader::HostError> {
    std::thread::sleep(3 * LIMIT);
    let start = used();
    while used() - start < 3 * LIMIT {
        std::hint::spin_loop();
    }
    Ok(7)
}

fn nullary(world: &World, domain: &str, name: &str) -> TypedFn<fn() -> u64> {
    world.domain(domain).unwrap().export(name).unwrap()
}

fn ended(result: Result<u64, CallError>, kind: FaultKind, domain: &str) {
    let Err(CallError::Fault(fault)) = result else { panic!("not ended: {result:?}") };
    assert_eq!((fault.kind, fault.domain.as_str()), (kind, domain), "{fault}");
}

#[test]
fn processor_time_is_not_the_wall_clock() {
    let sleepy = |_: &mut sfi_loader::HostCall<'_>| {
        std::thread::sleep(4 * LIMIT);
        Ok(7)
    };
    let mut world = World::builder().domain(spec("app")).host_fn("host", sleepy).cpu_limit(LIMIT).build().unwrap();
    let (spin, rest) = (nullary(&world, "app", "spin"), nullary(&world, "app", "rest"));
    assert_eq!(rest.call(&mut world, ()), Ok(7), "who sleeps uses no processor time");
    let start = Instant::now();
    ended(spin.call(&mut world, ()), FaultKind::CpuLimit, "app");
    assert!((LIMIT..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
    let error = world.domain("app").unwrap().last_fault().unwrap().to_string();
    assert!(error.contains("processor time"), "{error}");
    // A host function is not aborted, but its time counts, and its caller ends when it returns.
    let mut world = World::builder().domain(spec("app")).host_fn("host", busy).cpu_limit(LIMIT).build().unwrap();
    ended(nullary(&world, "app", "rest").call(&mut world, ()), FaultKind::CpuLimit, "app");
}

#[test]
fn a_call_has_limits_of_its_own() {
    let mut world = World::builder().domain(spec("app")).host_fn("host", busy).timed().build().unwrap();
    let (spin, answer) = (nullary(&world, "app", "spin"), nullary(&world, "app", "answer"));
    let count: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("count").unwrap();
    for (limits, kind) in [(Limits::wall(LIMIT), FaultKind::TimeLimit), (Limits::cpu(LIMIT), FaultKind::CpuLimit)] {
        assert_eq!(answer.call_within(&mut world, limits, ()), Ok(42));
        let start = Instant::now();
        ended(spin.call_within(&mut world, limits, ()), kind, "app");
        assert!((LIMIT..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
        world.restart("app").unwrap();
    }
    // The next call has no limit again.
    let (start, mut n) = (Instant::now(), 1_000_000);
    while start.elapsed() < 4 * LIMIT {
        assert_eq!(count.call(&mut world, (n,)), Ok(n));
        n *= 2;
    }
    // A limit of one call beside the world's own.
    let world = World::builder().domain(spec("app")).host_fn("host", busy).time_limit(LIMIT);
    let mut world = world.build().unwrap();
    let rest = nullary(&world, "app", "rest");
    assert_eq!(rest.call_within(&mut world, Limits::wall(PATIENCE), ()), Ok(7));
    ended(rest.call(&mut world, ()), FaultKind::TimeLimit, "app");
    let mut world = World::builder().domain(spec("app")).host_fn("host", busy).build().unwrap();
    let answer = nullary(&world, "app", "answer");
    assert_eq!(answer.call_within(&mut world, Limits::wall(LIMIT), ()), Err(CallError::Untimed));
}

fn pair(budget: Budget, restart: Restart) -> World {
    let text = function("run", "mov $11,%ebx\ncall spin\nadd %rbx,%rax\nret")
        + &function("delegate", "call count\nret")
        + &function("error", "mov __sfi_error(%rip),%eax\nret");
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&text))
        .import("spin", Import::domain("codec", "spin").signature("() -> int").on_fault(5))
        .import("count", Import::domain("codec", "count").signature("(int) -> int").on_fault(5))
        .budget(Budget { wall: Some(LIMIT), cpu: None });
    let codec = spec("codec").budget(budget).restart(restart);
    World::builder().domain(app).domain(codec).host_fn("host", busy).build().unwrap()
}

/// Only the domain that used up its budget is ended.
#[test]
fn a_domain_ends_when_its_budget_is_used_up() {
    for (budget, kind) in [(Budget::cpu(LIMIT), FaultKind::CpuBudget), (Budget::wall(LIMIT), FaultKind::TimeBudget)] {
        let mut world = pair(budget, Restart::Never);
        let run = nullary(&world, "app", "run");
        let start = Instant::now();
        assert_eq!(run.call(&mut world, ()), Ok(16), "the caller goes on");
        assert!((LIMIT / 2..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
        let fault = world.domain("codec").unwrap().last_fault().unwrap();
        assert_eq!((fault.kind, fault.function.as_deref()), (kind, Some("spin")));
        assert!(fault.to_string().contains("budget"), "{fault}");
        assert!(!world.domain("app").unwrap().is_dead());
        assert_eq!(nullary(&world, "app", "error").call(&mut world, ()), Ok(Status::Fault.into()));
        // The domain cannot be entered until it is restarted with a new budget.
        assert_eq!(run.call(&mut world, ()), Ok(16));
        assert_eq!(nullary(&world, "app", "error").call(&mut world, ()), Ok(Status::Dead.into()));
        world.restart("codec").unwrap();
        assert_eq!(world.used("codec").unwrap(), sfi_loader::Used::default());
        assert_eq!(nullary(&world, "codec", "answer").call(&mut world, ()), Ok(42));
    }
}

/// Calls much shorter than the watchdog's interval add up. A caller is not charged for its callee.
#[test]
fn short_calls_are_charged_and_callers_are_not() {
    let mut world = pair(Budget::wall(2 * LIMIT), Restart::Always);
    let delegate: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("delegate").unwrap();
    let start = Instant::now();
    while world.domain("codec").unwrap().last_fault().is_none() {
        delegate.call(&mut world, (300_000,)).unwrap();
        assert!(start.elapsed() < PATIENCE, "never charged: {:?}", world.used("codec"));
    }
    assert!(start.elapsed() > LIMIT / 2, "{:?}", start.elapsed());
    assert_eq!(world.domain("codec").unwrap().last_fault().unwrap().kind, FaultKind::TimeBudget);
    // With its budget refilled again and again the server goes on. The client, whose budget is
    // smaller, lives all the time.
    let start = Instant::now();
    assert_eq!(delegate.call(&mut world, (1,)), Ok(1), "restarted");
    while start.elapsed() < 5 * LIMIT {
        world.refill("codec").unwrap();
        assert_eq!(delegate.call(&mut world, (300_000,)), Ok(300_000));
    }
    assert!(!world.domain("app").unwrap().is_dead());
}

/// Time in host functions counts for the call's limit but for no domain's budget.
#[test]
fn host_functions_are_neither_charged_nor_aborted() {
    let mut world = pair(Budget::wall(LIMIT), Restart::Never);
    let rest = nullary(&world, "codec", "rest");
    for _ in 0..2 {
        assert_eq!(rest.call(&mut world, ()), Ok(7));
    }
    assert!(world.used("codec").unwrap().wall < LIMIT);
}

/// Processor time of `codec` between calls of its host function, measured by the host function.
#[derive(Default)]
struct Seen {
    domain: Duration,
    left: Option<Duration>,
}

/// Builds a world for slices. `codec`'s `sly(n)` works in n slices of many lengths and sleeps in
/// the host function between them. The host function gives the slice's length. `codec`'s `through`
/// works and calls `app` in turn for ever.
fn sly(budget: Budget) -> (World, std::sync::Arc<std::sync::Mutex<Seen>>) {
    let text =
        function("sly", "mov %rdi,%rbx\n1:\ncall host\nmov %rax,%rdi\n2:\ndec %rdi\njnz 2b\ndec %rbx\njnz 1b\nret")
            + &function("count", "mov %rdi,%rax\n1:\ndec %rdi\njnz 1b\nret")
            + &function(
                "through",
                "1:\nmov $200000,%edi\n2:\ndec %rdi\njnz 2b\nmov $2000000,%edi\ncall other\njmp 1b\nret",
            );
    let object = assemble(&text);
    let part = |name: &str, other: &str| {
        DomainSpec::new(name)
            .object("sly.o", object.clone())
            .import("host", Import::host("host"))
            .import("other", Import::domain(other, "count").signature("(int) -> int"))
    };
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Seen::default()));
    let (shared, mut turn) = (seen.clone(), 0u64);
    let host = move |_: &mut sfi_loader::HostCall<'_>| {
        let mut seen = shared.lock().unwrap();
        if let Some(left) = seen.left {
            seen.domain += used() - left;
        }
        turn += 1;
        std::thread::sleep(Duration::from_micros(200 * (turn % 7)));
        seen.left = Some(used());
        Ok(50_000 + turn * 7_919_000 % 3_000_000)
    };
    let codec = part("codec", "app").budget(budget);
    let world = World::builder().domain(codec).domain(part("app", "codec")).host_fn("host", host);
    (world.time_limit(PATIENCE).build().unwrap(), seen)
}

/// The charge is the time that was used, independent of the watchdog's looks.
#[test]
fn charges_are_exact() {
    let (mut world, seen) = sly(Budget::cpu(PATIENCE));
    let sly: TypedFn<fn(u64) -> u64> = world.domain("codec").unwrap().export("sly").unwrap();
    let start = (used(), Instant::now());
    for _ in 0..4 {
        sly.call(&mut world, (40,)).unwrap();
        // The host's time between two calls belongs to no domain.
        seen.lock().unwrap().left = None;
    }
    let (all, wall) = (used() - start.0, start.1.elapsed());
    let (charged, domain) = (world.used("codec").unwrap(), seen.lock().unwrap().domain);
    assert!(domain > Duration::from_millis(20), "{domain:?}");
    // The host function does not see the last slice of each call.
    assert!(charged.cpu >= domain.mul_f64(0.99), "{charged:?} for {domain:?}");
    assert!(charged.cpu <= all.mul_f64(1.01), "{charged:?} of {all:?}");
    assert!(charged.wall >= charged.cpu && charged.wall < wall, "{charged:?} in {wall:?}");
    assert_eq!(world.used("app").unwrap(), sfi_loader::Used::default());
}

/// Each call counts once, for the domain that makes it, and calls of the host for the callee.
#[test]
fn crossings_are_counted() {
    let calls = "mov %edi,%ebx\n1:\ncall answer\ncall host\ncall host\ndec %ebx\njnz 1b\nret";
    let answer = Import::domain("codec", "answer").signature("() -> int");
    let app = DomainSpec::new("app").object("app.o", assemble(&function("run", calls))).import("answer", answer);
    let app = app.import("host", Import::host("host")).budget(Budget::wall(PATIENCE));
    // The host function enters a domain every time.
    let inner: std::sync::OnceLock<TypedFn<fn() -> u64>> = std::sync::OnceLock::new();
    let inner = std::sync::Arc::new(inner);
    let seen = std::sync::Arc::clone(&inner);
    let host = move |cx: &mut sfi_loader::HostCall<'_>| match seen.get() {
        Some(answer) => answer.call(cx, ()).map_err(|e| sfi_loader::HostError::new(e.to_string())),
        None => Ok(0),
    };
    let mut world = World::builder().domain(app).domain(spec("codec")).host_fn("host", host).build().unwrap();
    let run: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
    run.call(&mut world, (10,)).unwrap();
    let of = |world: &mut World, name: &str| world.used(name).unwrap().crossings;
    assert_eq!((of(&mut world, "app"), of(&mut world, "codec")), (1 + 30, 0));
    inner.set(nullary(&world, "codec", "answer")).unwrap();
    run.call(&mut world, (10,)).unwrap();
    assert_eq!((of(&mut world, "app"), of(&mut world, "codec")), (62, 20));
    world.refill("app").unwrap();
    assert_eq!((of(&mut world, "app"), of(&mut world, "codec")), (0, 20));
}

/// A domain that works and then faults is charged for its work, and its caller is not.
#[test]
fn a_fault_is_no_way_out_of_a_charge() {
    let text = function("run", "call work\nret")
        + &function("work", "mov $60000000,%edi\n1:\ndec %rdi\njnz 1b\nud2")
        + &function("answer", "mov $42,%eax\nret");
    let object = assemble(&text);
    let caller = assemble(&function("run", "call work\ncall answer\nret"));
    let import = |name: &str| Import::domain("codec", name).signature("() -> int").on_fault(5);
    let app = DomainSpec::new("app").object("app.o", caller).import("work", import("work"));
    let app = app.import("answer", import("answer")).budget(Budget::wall(PATIENCE));
    let codec = DomainSpec::new("codec").object("codec.o", object).budget(Budget::wall(PATIENCE));
    let mut world = World::builder().domain(app).domain(codec).build().unwrap();
    let start = Instant::now();
    assert_eq!(nullary(&world, "app", "run").call(&mut world, ()), Ok(5), "the codec is dead");
    let wall = start.elapsed();
    let [app, codec] = ["app", "codec"].map(|name| world.used(name).unwrap().wall);
    assert!(codec > wall.mul_f64(0.5) && app < codec / 4, "app {app:?}, codec {codec:?} of {wall:?}");
}

/// A domain is ended even if it is in a host function, or waits for another domain, at each of the
/// watchdog's looks.
#[test]
fn nobody_hides_from_a_budget() {
    for (budget, kind) in [(Budget::cpu(LIMIT), FaultKind::CpuBudget), (Budget::wall(LIMIT), FaultKind::TimeBudget)] {
        let (mut world, seen) = sly(budget);
        let sly_: TypedFn<fn(u64) -> u64> = world.domain("codec").unwrap().export("sly").unwrap();
        ended(sly_.call(&mut world, (u64::MAX,)), kind, "codec");
        // The domain got at most one slice more than the budget, and reached the budget only if it
        // limits processor time.
        let domain = seen.lock().unwrap().domain;
        assert!(domain <= LIMIT + Duration::from_millis(10), "{domain:?}");
        assert!(kind == FaultKind::TimeBudget || domain + Duration::from_millis(10) >= LIMIT, "{domain:?}");
        // Now the domain is a client that spends most of its time in its server.
        let (mut world, _) = sly(budget);
        let through: TypedFn<fn() -> u64> = world.domain("codec").unwrap().export("through").unwrap();
        ended(through.call(&mut world, ()), kind, "codec");
        let charged = world.used("codec").unwrap();
        let charged = if kind == FaultKind::CpuBudget { charged.cpu } else { charged.wall };
        assert!((LIMIT..2 * LIMIT).contains(&charged), "{charged:?}");
        assert!(!world.domain("app").unwrap().is_dead(), "the server goes on");
    }
}

/// Base of the window in which the next function naps, or 0.
static NAPPING: AtomicU64 = AtomicU64::new(0);
static NAPS: AtomicU64 = AtomicU64::new(0);

/// A handler of the host that sleeps if it interrupted code of the window.
extern "C" fn nap(_: libc::c_int, _: *mut libc::siginfo_t, machine: *mut libc::c_void) {
    // SAFETY: the kernel passes the interrupted state.
    let rip = unsafe { (*machine.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64;
    let base = NAPPING.load(Ordering::Relaxed);
    if base != 0 && rip & !0xffff_ffff == base {
        NAPS.fetch_add(1, Ordering::Relaxed);
        let time = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        // SAFETY: a valid pointer; the function may be called in handlers.
        unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
    }
}

/// Two domains work equally. Waits in the turns of one of them lower its own charge only.
#[test]
fn a_wait_lowers_no_other_charge() {
    let turn = "mov $1000000,%edi\n2:\ndec %rdi\njnz 2b\n";
    let app = function("run", &format!("mov %rdi,%rbx\n1:\n{turn}call work\ndec %rbx\njnz 1b\nret"));
    let spec =
        |name: &str, text: &str| DomainSpec::new(name).object("turns.o", assemble(text)).budget(Budget::cpu(PATIENCE));
    let app = spec("app", &app).import("work", Import::domain("codec", "work").signature("() -> int"));
    let codec = spec("codec", &function("work", &format!("{turn}ret")));
    let mut world = World::builder().domain(app).domain(codec).build().unwrap();
    let run: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
    run.call(&mut world, (1,)).unwrap();
    for name in ["app", "codec"] {
        world.refill(name).unwrap();
    }
    // SAFETY: a handler that calls safe functions only. No other test uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
    // SAFETY: a system call without conditions.
    let (process, thread) = (std::process::id() as i32, unsafe { libc::gettid() });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: a system call without pointers. The thread lives until the scope's end.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR2) };
                let naps = NAPS.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
                if NAPS.load(Ordering::Relaxed) > naps {
                    std::thread::sleep(Duration::from_millis(12));
                }
            }
        });
        NAPPING.store(world.domain("codec").unwrap().secret_base(), Ordering::Relaxed);
        let start = Instant::now();
        while NAPS.load(Ordering::Relaxed) < 60 && start.elapsed() < PATIENCE {
            run.call(&mut world, (20,)).unwrap();
        }
        NAPPING.store(0, Ordering::Relaxed);
        done.store(true, Ordering::Relaxed);
    });
    assert!(NAPS.load(Ordering::Relaxed) >= 60);
    let [app, codec] = ["app", "codec"].map(|name| world.used(name).unwrap());
    assert!(codec.wall - codec.cpu > Duration::from_millis(400), "codec waited: {codec:?}");
    let both = app.cpu + codec.cpu;
    assert!(app.cpu > both.mul_f64(0.25) && codec.cpu > both.mul_f64(0.25), "app {app:?}, codec {codec:?}");
}

/// Each instance has a budget of its own, as large as its domain's.
#[test]
fn instances_have_budgets() {
    let mut world = pair(Budget::cpu(LIMIT), Restart::Never);
    for _ in 0..2 {
        let instance = world.instantiate("codec").unwrap();
        let spin: TypedFn<fn() -> u64> = world.instance(instance).unwrap().export("spin").unwrap();
        let Err(CallError::Fault(fault)) = spin.call(&mut world, ()) else { panic!("not ended") };
        assert_eq!(fault.kind, FaultKind::CpuBudget);
        world.discard(instance).unwrap();
    }
    assert_eq!(world.used("codec").unwrap(), sfi_loader::Used::default());
}
