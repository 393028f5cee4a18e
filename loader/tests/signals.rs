//! Signals of the host at any time: a profiler's timer during crossings. Each in its own process, because handlers belong to processes.

mod common;
use common::{assemble, function};
use sfi_loader::{CallError, DomainSpec, FaultKind, Import, TypedFn, World};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static TICKS: AtomicU64 = AtomicU64::new(0);

/// What a profiler does, and more: it changes every register that it may.
extern "C" fn tick(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    TICKS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: all that is changed is declared.
    unsafe {
        std::arch::asm!(
            "pcmpeqd xmm0, xmm0", "movdqa xmm1, xmm0", "movdqa xmm7, xmm0", "movdqa xmm15, xmm0", "mov r10, -1", "mov r11, -1",
            out("xmm0") _, out("xmm1") _, out("xmm7") _, out("xmm15") _, out("r10") _, out("r11") _,
        );
    }
}

/// Sends `SIGPROF` to this thread every 150 µs, which no interval timer of the kernel's ticks could.
fn profile(flags: libc::c_int) {
    // SAFETY: valid pointers; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tick as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = std::mem::zeroed();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        let interval = libc::timespec { tv_sec: 0, tv_nsec: 150_000 };
        let time = libc::itimerspec { it_interval: interval, it_value: interval };
        assert_eq!(libc::timer_settime(timer, 0, &time, std::ptr::null_mut()), 0);
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

/// A million crossings between domains, to the host and from it, with faults and limits among them.
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
        profile(libc::SA_ONSTACK);
        crossings();
    });
}

/// Its frames lie on the control stack of whatever domain runs.
#[test]
fn a_profiler_without_an_alternate_stack() {
    alone("a_profiler_without_an_alternate_stack", || {
        profile(0);
        crossings();
    });
}
