//! Signals of the host at any time: a profiler's timer during crossings. Each test runs in its own
//! process, because handlers belong to processes.

mod common;
use common::{assemble, function};
use sfi_loader::{
    CallError, DEFAULT_CONTROL_STACK, DomainSpec, FaultKind, Import, MAX_CONTROL_STACK, MIN_CONTROL_STACK, TypedFn,
    World,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static TICKS: AtomicU64 = AtomicU64::new(0);

/// Does more than a profiler: it changes every register that a handler may change.
extern "C" fn tick(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    TICKS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: all changed registers are declared.
    unsafe {
        std::arch::asm!(
            "pcmpeqd xmm0, xmm0", "movdqa xmm1, xmm0", "movdqa xmm7, xmm0", "movdqa xmm15, xmm0", "mov r10, -1", "mov r11, -1",
            out("xmm0") _, out("xmm1") _, out("xmm7") _, out("xmm15") _, out("r10") _, out("r11") _,
        );
    }
}

/// Sends `SIGPROF` to this thread every 150 µs, faster than an interval timer of the kernel's ticks
/// can.
fn profile(
    flags: libc::c_int,
    handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
) -> libc::timer_t {
    handle(libc::SIGPROF, handler as *const () as usize, flags | libc::SA_SIGINFO | libc::SA_RESTART);
    // SAFETY: valid pointers.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = std::mem::zeroed();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        let interval = libc::timespec { tv_sec: 0, tv_nsec: 150_000 };
        let time = libc::itimerspec { it_interval: interval, it_value: interval };
        assert_eq!(libc::timer_settime(timer, 0, &time, std::ptr::null_mut()), 0);
        timer
    }
}

fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os("SFI_TEST_CHILD").is_some() {
        return body();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("SFI_TEST_CHILD", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// Makes a million crossings between domains, to the host and from it, with faults and limits among
/// them.
fn crossings() {
    let app = function(
        "run",
        "mov %rdi,%rbx\nxor %ebp,%ebp\n1:\nlea 5(%rbx),%rdi\nmov $3,%esi\ncall add\nadd %rax,%rbp\ndec %rbx\njnz 1b\nmov %rbp,%rax\nret",
    ) + &function("ask", "mov $21,%edi\ncall double\nret")
        + &function("spin", "1:\njmp 1b\nret")
        + &function("die", "xor %eax,%eax\nmov (%rax),%rax\nret");
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&app))
        .import("add", Import::domain("codec", "add").signature("(int, int) -> int"))
        .import("double", Import::host("double").signature("(int) -> int"));
    let codec = DomainSpec::new("codec").object("codec.o", assemble(&function("add", "lea (%rdi,%rsi),%rax\nret")));
    let mut world = World::builder()
        .domain(app)
        .domain(codec)
        .host_fn("double", |cx| Ok(2 * cx.arg(0)))
        .time_limit(Duration::from_millis(400))
        .build()
        .unwrap();
    let app = world.domain("app").unwrap();
    let run: TypedFn<fn(u64) -> u64> = app.export("run").unwrap();
    let [ask, spin, die] = ["ask", "spin", "die"].map(|name| app.export::<fn() -> u64>(name).unwrap());
    for round in 0..100 {
        let n = 9_000;
        assert_eq!(run.call(&mut world, (n,)), Ok(n * (n + 1) / 2 + 8 * n));
        for _ in 0..1000 {
            assert_eq!(ask.call(&mut world, ()), Ok(42));
        }
        assert!(matches!(die.call(&mut world, ()), Err(CallError::Fault(_))));
        world.restart("app").unwrap();
        if round % 50 == 0 {
            let Err(CallError::Fault(fault)) = spin.call(&mut world, ()) else { panic!("not ended") };
            assert_eq!(fault.kind, FaultKind::TimeLimit);
            world.restart("app").unwrap();
        }
    }
    let ticks = TICKS.load(Ordering::Relaxed);
    assert!(ticks > 300, "only {ticks} signals");
}

#[test]
fn a_profiler_on_the_alternate_stack() {
    alone("a_profiler_on_the_alternate_stack", || {
        profile(libc::SA_ONSTACK, tick);
        crossings();
    });
}

/// The handler's frames lie on the control stack of the running domain.
#[test]
fn a_profiler_without_an_alternate_stack() {
    alone("a_profiler_without_an_alternate_stack", || {
        profile(0, tick);
        crossings();
    });
}

static NESTED: AtomicU64 = AtomicU64::new(0);

/// Takes more of its stack than a domain leaves, and is interrupted by another handler meanwhile.
extern "C" fn hungry(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let mut much = [0_u8; 24 << 10];
    much.iter_mut().step_by(512).for_each(|byte| *byte = 0xee);
    std::hint::black_box(&mut much);
    if TICKS.load(Ordering::Relaxed).is_multiple_of(4) {
        // SAFETY: the signal has a handler, which is async-signal-safe.
        unsafe { libc::raise(libc::SIGUSR2) };
    }
    std::hint::black_box(&mut much);
    tick(signal, info, context);
}

extern "C" fn nested(_: libc::c_int) {
    let mut some = [0_u8; 8 << 10];
    some.iter_mut().step_by(512).for_each(|byte| *byte = 0xee);
    std::hint::black_box(&mut some);
    NESTED.fetch_add(1, Ordering::Relaxed);
}

fn handle(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: valid pointers; the handlers of this file are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// Builds a world for deep calls. `deep(n, spins)` calls itself n times and then takes its time.
/// `cross` makes calls instead, to a domain and the host.
fn deep(control: u64) -> World {
    let down = |name: &str, work: &str| {
        let again = format!("test %rdi,%rdi\njz 1f\ndec %rdi\ncall {name}\ninc %rax\nret\n1:\n");
        function(name, &(again + work))
    };
    let app = down("deep", "dec %rsi\njnz 1b\nxor %eax,%eax\nret")
        + &down("cross", "mov %rsi,%rbx\n2:\ncall null\ncall host\ndec %rbx\njnz 2b\nxor %eax,%eax\nret");
    let app = DomainSpec::new("app")
        .object("app.o", assemble(&app))
        .control_stack(control)
        .import("null", Import::domain("server", "null").signature("() -> int"))
        .import("host", Import::host("host").signature("() -> int"));
    let server = DomainSpec::new("server").object("s.o", assemble(&function("null", "xor %eax,%eax\nret")));
    World::builder().domain(app).domain(server).host_fn("host", |_| Ok(0)).build().unwrap()
}

type Deep = TypedFn<fn(u64, u64) -> u64>;

/// Returns `true` if the call came back. Only the end of the control stack may have ended it.
fn down(world: &mut World, function: &Deep, n: u64, work: u64) -> bool {
    match function.call(world, (n, work)) {
        Ok(value) => {
            assert_eq!(value, n);
            true
        }
        Err(CallError::Fault(fault)) => {
            assert_eq!(fault.kind, FaultKind::ControlStackOverflow, "{fault} at {n}");
            world.restart("app").unwrap();
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Finds the deepest call that comes back.
fn deepest(world: &mut World, function: &Deep) -> u64 {
    let (mut low, mut high) = (0, 1 << 20);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if down(world, function, middle, 1) { low = middle } else { high = middle }
    }
    low
}

/// Fills control stacks of this size to different points while signals come.
fn find_room(control: u64) {
    let mut world = deep(control);
    let [spin, cross] =
        ["deep", "cross"].map(|f| world.domain("app").unwrap().export::<fn(u64, u64) -> u64>(f).unwrap());
    let (end, gates) = (deepest(&mut world, &spin), deepest(&mut world, &cross));
    assert!(gates < end, "{gates} {end}");
    handle(libc::SIGUSR2, nested as *const () as usize, 0);
    let timer = profile(0, hungry);
    // Words from the end. The domain ends if the kernel finds no room for a signal frame, which
    // takes 1 to 12 KiB.
    let mut ended = 0;
    for left in [0, 1, 5, 20, 60, 110, 180, 300, 420, 470, 520, 700, 1000, 1300, 1600, 2000, 3000, 5000, 8000] {
        for _ in 0..4 {
            let before = TICKS.load(Ordering::Relaxed);
            let back = down(&mut world, &spin, end - left, 2_000_000);
            ended += u32::from(!back);
            assert!(back || left < 1600, "no room for a frame {left} words from the end");
            assert!(!back || TICKS.load(Ordering::Relaxed) > before, "no signal came");
            // Only handlers may use the room.
            assert!(!down(&mut world, &spin, end + 1, 1));
        }
    }
    assert!(ended > 4, "the kernel found room {ended}");
    for left in [0, 1, 2, 5, 50, 500, 2000] {
        let before = TICKS.load(Ordering::Relaxed);
        for _ in 0..4 {
            assert!(down(&mut world, &cross, gates - left, 50_000));
            assert!(!down(&mut world, &cross, gates + 1, 1));
        }
        assert!(TICKS.load(Ordering::Relaxed) > before + 10, "no signal came");
    }
    assert!(NESTED.load(Ordering::Relaxed) > 10);
    // SAFETY: `profile` made it.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    assert_eq!((end, gates), (deepest(&mut world, &spin), deepest(&mut world, &cross)));
}

/// A domain has nearly used up its control stack when signals come whose handlers need that stack.
#[test]
fn handlers_find_room_wherever_a_domain_is() {
    alone("handlers_find_room_wherever_a_domain_is", || {
        for control in [MIN_CONTROL_STACK, DEFAULT_CONTROL_STACK, MAX_CONTROL_STACK] {
            find_room(control);
        }
    });
}

static PASSED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static PAGE: AtomicU64 = AtomicU64::new(0);

/// Makes the page accessible and returns.
extern "C" fn mend(_: libc::c_int) {
    PASSED[0].fetch_add(1, Ordering::Relaxed);
    // SAFETY: the test's own mapping.
    unsafe { libc::mprotect(PAGE.load(Ordering::Relaxed) as *mut libc::c_void, 4096, libc::PROT_READ) };
}

extern "C" fn urgent(_: libc::c_int) {
    PASSED[1].fetch_add(1, Ordering::Relaxed);
}

/// The host's earlier handlers get the host's signals, while domains end for their own.
#[test]
fn earlier_handlers_are_called() {
    alone("earlier_handlers_are_called", || {
        handle(libc::SIGSEGV, mend as *const () as usize, 0);
        handle(libc::SIGURG, urgent as *const () as usize, 0);
        // SAFETY: a fresh mapping.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        PAGE.store(page as u64, Ordering::Relaxed);
        let mut world = deep(DEFAULT_CONTROL_STACK);
        let spin: Deep = world.domain("app").unwrap().export("deep").unwrap();
        let end = deepest(&mut world, &spin);
        handle(libc::SIGUSR2, nested as *const () as usize, 0);
        profile(0, hungry);
        for round in 1..=20 {
            // SAFETY: the page is the test's; the handler makes it readable.
            unsafe {
                libc::mprotect(page, 4096, libc::PROT_NONE);
                assert_eq!(page.cast::<u8>().read_volatile(), 0);
                libc::raise(libc::SIGURG);
            }
            assert!(down(&mut world, &spin, end - 2000, 1_000_000));
            assert!(!down(&mut world, &spin, end + 1, 1));
            assert_eq!([0, 1].map(|i| PASSED[i].load(Ordering::Relaxed)), [round; 2]);
        }
    });
}
