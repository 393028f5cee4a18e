//! Fibers of C code: `swapcontext` and its like out of the support code, in every mode, within a
//! call and across calls, at the limit of their number and after a fault.

use sfi_contract::Mode;
use sfi_loader::{CallError, DomainSpec, FaultKind, HostError, Import, TypedFn, World};
use sfi_tests::{run::must, sandbox};
use std::process::Command;

const SOURCE: &str = r#"
#include <ucontext.h>
#define STACK 16384
#define MANY 100
static ucontext_t main_, fiber, other;
static char stack[STACK], stack2[STACK];
static long given, log_;

/* A generator: yields 1, 4, 9, ... out of a recursion. */
static void yield(long value) { given = value; swapcontext(&fiber, &main_); }
static __attribute__((noinline)) long deeper(long depth, long value) {
    volatile long keep = depth * 3;
    if (depth == 0) { yield(value * value); return value; }
    long r = deeper(depth - 1, value);
    return keep == depth * 3 ? r : -1;
}
static void generator(void) { for (long i = 1; ; i++) if (deeper(i % 5, i) != i) yield(-1); }
long start(void) {
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack, fiber.uc_stack.ss_size = sizeof stack, fiber.uc_link = 0;
    makecontext(&fiber, generator, 0);
    return 0;
}
long next(void) { swapcontext(&main_, &fiber); return given; }
/* Many in one call, with values of the caller kept across the switch. */
long squares(long n) {
    long sum = 0, a = n * 3, b = n ^ 5, c = n + 7, d = n * n;
    start();
    for (long i = 0; i < n; i++) { sum += next(); a += i, b ^= i, c -= i, d += a; }
    return sum * 1000 + (a + b + c + d) % 1000;
}

/* Arguments in registers and on the stack; the end leads to uc_link. */
static void nine(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
    log_ = log_ * 10 + (a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 && i == 9);
}
static void last(int a) { log_ = log_ * 10 + a; }
long arguments(void) {
    volatile int done = 0;
    log_ = 0;
    getcontext(&main_);
    if (done++) return log_ * 10 + done;
    getcontext(&other);
    other.uc_stack.ss_sp = stack2, other.uc_stack.ss_size = sizeof stack2, other.uc_link = &main_;
    makecontext(&other, (void (*)(void))last, 1, 7);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack, fiber.uc_stack.ss_size = sizeof stack, fiber.uc_link = &other;
    makecontext(&fiber, (void (*)(void))nine, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    setcontext(&fiber);
    return -1;
}

/* A context goes on as often as one wants. */
long loop(long n) {
    static ucontext_t here;
    volatile long i = 0;
    getcontext(&here);
    if (i++ < n) setcontext(&here);
    return i;
}

/* Fibers that wait at the same time. Each runs to its end. */
static ucontext_t all[MANY], home;
static char stacks[MANY][STACK];
static long turns;
static void runner(int me) { for (int i = 0; i < 3; i++) { turns += me; swapcontext(&all[me], &home); } turns += 1000; }
long many(long n) {
    turns = 0;
    for (int i = 0; i < n; i++) {
        getcontext(&all[i]);
        all[i].uc_stack.ss_sp = stacks[i], all[i].uc_stack.ss_size = STACK, all[i].uc_link = &home;
        makecontext(&all[i], (void (*)(void))runner, 1, i);
    }
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < n; i++) swapcontext(&home, &all[i]);
    return turns;
}

/* A fiber calls out. */
long host_call(long);
static void calls(void) { given = host_call(5); swapcontext(&fiber, &main_); }
long out(void) { start(); makecontext(&fiber, calls, 0); return next(); }

/* Without uc_link the end of a fiber ends the call. */
static void ends(void) { given = 77; }
long end(void) { start(); makecontext(&fiber, ends, 0); return next() + 5; }

/* A context of swapcontext's goes on once. */
static void goes(void) { setcontext(&main_); }
long twice(void) {
    volatile int times = 0;
    start();
    makecontext(&fiber, goes, 0);
    swapcontext(&main_, &fiber);
    if (times++ == 0) setcontext(&main_);
    return times;
}
"#;

fn world(level: &str, mode: Mode, fibers: usize) -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, object) = (directory.path().join("f.c"), directory.path().join("f.o"));
    std::fs::write(&file, SOURCE).expect("the source");
    let mut gcc = Command::new("gcc");
    gcc.args([level, "-fPIE", "-w", "-ffreestanding", "-fno-stack-protector", "-c"]);
    must(gcc.arg(&file).arg("-o").arg(&object), directory.path()).expect("it compiles");
    let bytes = sandbox::rewrite(&std::fs::read(&object).expect("the object"), mode).expect("it is rewritten");
    let domain = DomainSpec::new("a")
        .mode(mode)
        .fibers(fibers)
        .object("f.o", bytes)
        .archive("contexts.a", sfi_support::contexts_archive(mode))
        .import("host_call", Import::host("host_call").signature("(int) -> int"));
    let builder = World::builder().domain(domain).host_fn("host_call", |cx| match cx.arg(0) {
        5 => Ok(50),
        _ => Err(HostError::new("another argument")),
    });
    builder.build().expect("a world")
}

fn call(world: &mut World, name: &str, argument: i64) -> Result<i64, CallError> {
    let f: TypedFn<fn(i64) -> i64> = world.domain("a").expect("a").export(name).expect(name);
    f.call(world, (argument,))
}

#[test]
fn fibers_switch_in_every_mode() {
    for (level, mode) in
        [("-O0", Mode::Write), ("-O2", Mode::Write), ("-O2", Mode::Full), ("-O1", Mode::Match), ("-O3", Mode::Full)]
    {
        let what = format!("{level} {mode}");
        let mut world = world(level, mode, 64);
        // A generator goes on from call to call of the host.
        assert_eq!(call(&mut world, "start", 0), Ok(0));
        for i in 1..40 {
            assert_eq!(call(&mut world, "next", 0), Ok(i * i), "{what}");
        }
        let n = 30;
        let (mut a, mut b, mut c, mut d) = (n * 3, n ^ 5, n + 7, n * n);
        for i in 0..n {
            (a, b, c) = (a + i, b ^ i, c - i);
            d += a;
        }
        let sum: i64 = (1..=n).map(|i| i * i).sum();
        assert_eq!(call(&mut world, "squares", n), Ok(sum * 1000 + (a + b + c + d) % 1000), "{what}");
        assert_eq!(call(&mut world, "arguments", 0), Ok(172), "{what}");
        assert_eq!(call(&mut world, "loop", 1000), Ok(1001), "{what}");
        assert_eq!(call(&mut world, "many", 50), Ok(3 * 49 * 50 / 2 + 50 * 1000), "{what}");
        assert_eq!(call(&mut world, "out", 0), Ok(50), "{what}");
        assert_eq!(call(&mut world, "end", 0), Ok(0), "{what}");
        assert_eq!(call(&mut world, "start", 0), Ok(0), "{what}");
        assert_eq!(call(&mut world, "next", 0), Ok(1), "{what}");
        // After a fault there is no fiber.
        assert!(call(&mut world, "twice", 0).is_err(), "{what}");
        world.restart("a").expect("it restarts");
        assert!(call(&mut world, "next", 0).is_err(), "{what}: no context was made in this life");
        world.restart("a").expect("it restarts");
        assert_eq!(call(&mut world, "squares", 3), Ok(14_000 + 64), "{what}");
    }
}

#[test]
fn no_more_fibers_wait_than_the_specification_allows() {
    // One place is the caller's.
    let mut world = world("-O2", Mode::Write, 21);
    assert_eq!(call(&mut world, "many", 20), Ok(3 * 19 * 20 / 2 + 20_000));
    match call(&mut world, "many", 21) {
        Err(CallError::Fault(fault)) => assert_eq!(fault.kind, FaultKind::Fiber),
        other => panic!("{other:?}"),
    }
    world.restart("a").expect("it restarts");
    assert_eq!(call(&mut world, "many", 20), Ok(3 * 19 * 20 / 2 + 20_000));
}
