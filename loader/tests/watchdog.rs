//! The watchdog's thread starts with the first limit or interruption that needs it. No limit is
//! ever set without it. One test, because the thread is one for the whole process.

mod common;
use common::{assemble, function, kind};
use libc::sock_filter;
use sfi_loader::{BuildError, Builder, CallError, DomainSpec, FaultKind, Import, Limits, TypedFn, World};
use std::thread::scope;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(20);

/// Says whether the watchdog runs in this process.
fn is_there() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).any(|name| name == "sfi-watchdog")
}

/// Lets this thread start no others, for as long as it lives.
fn forbid_threads() {
    let instruction = |code: u32, jt: u8, k: u32| sock_filter { code: code as u16, jt, jf: 0, k };
    let equal = |call: libc::c_long, jt| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, call as u32);
    let give = |what: u32| instruction(libc::BPF_RET | libc::BPF_K, 0, what);
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        equal(libc::SYS_clone, 2),
        equal(libc::SYS_clone3, 1),
        give(libc::SECCOMP_RET_ALLOW),
        give(libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: valid structures. The filter is for this thread only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program), 0, "no seccomp");
    }
}

/// Does something on a thread that cannot start others.
fn without_threads<R: Send>(what: impl FnOnce() -> R + Send) -> R {
    scope(|scope| {
        let body = || {
            forbid_threads();
            what()
        };
        scope.spawn(body).join().unwrap()
    })
}

fn spec() -> DomainSpec {
    let text = function("one", "mov $1,%eax\nret")
        + &function("spin", "1: jmp 1b")
        + &function("asks", "call host\nret")
        + &function("entry", "ret");
    DomainSpec::new("app").object("app.o", assemble(&text)).import("host", Import::host("host").signature("() -> int"))
}

fn builder(spec: DomainSpec) -> Builder {
    // The caller has a stopper, and may be interrupted.
    World::builder()
        .domain(spec)
        .host_fn("host", |cx| Ok(u64::from(cx.stopper().is_some()) + 2 * u64::from(cx.allow_interruptions("entry"))))
}

fn find(world: &World, name: &str) -> TypedFn<fn() -> u64> {
    world.domain("app").unwrap().export(name).unwrap()
}

#[test]
fn it_starts_with_the_first_need_or_that_is_an_error() {
    let mut world = builder(spec()).timed().build().unwrap();
    let [one, spin, asks] = ["one", "spin", "asks"].map(|name| find(&world, name));
    assert_eq!(one.call(&mut world, ()), Ok(1));
    assert_eq!(one.call_within(&mut world, Limits::NONE, ()), Ok(1));
    assert!(!is_there(), "nothing needs it");

    let budget = sfi_loader::Budget { wall: Some(LIMIT), cpu: None };
    let needs = [
        (builder(spec()).time_limit(LIMIT), "a limit"),
        (builder(spec()).cpu_limit(LIMIT), "a limit on processor time"),
        (builder(spec().budget(budget)), "a budget"),
        (builder(spec().threads_exposing(2)), "threads, whose end must reach all"),
    ];
    without_threads(|| {
        for limits in [Limits::wall(LIMIT), Limits::cpu(LIMIT)] {
            let Err(CallError::Watchdog(error)) = spin.call_within(&mut world, limits, ()) else { panic!("no error") };
            assert_eq!(error, std::io::ErrorKind::WouldBlock);
        }
        assert_eq!(one.call(&mut world, ()), Ok(1), "calls without a limit need none");
        assert_eq!(asks.call(&mut world, ()), Ok(0), "neither a stopper nor interruptions");
        for (builder, what) in needs {
            let built = builder.build();
            assert!(matches!(built, Err(BuildError::Watchdog(_))), "{what}: {built:?}");
        }
    });
    assert!(!is_there());

    assert_eq!(asks.call(&mut world, ()), Ok(3));
    // A thread gives itself its name.
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_there() {
        assert!(Instant::now() < patience, "it did not start");
        std::thread::yield_now();
    }
    assert_eq!(kind(spin.call_within(&mut world, Limits::wall(LIMIT), ())), FaultKind::TimeLimit);
    // It is there now, so a thread that starts none can set limits.
    let mut second = builder(spec()).timed().build().unwrap();
    let spin = find(&second, "spin");
    let ended = without_threads(|| spin.call_within(&mut second, Limits::cpu(LIMIT), ()));
    assert_eq!(kind(ended), FaultKind::CpuLimit);
}
