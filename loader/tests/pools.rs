//! Pools whose tenants, on several threads, leave everything behind that they can: memory, entry
//! points, connections, rules, lent functions, faults, panics, and other worlds.

mod common;
use common::{CALL_RAX, assemble, function};
use sfi_loader::{
    CallError, DomainSpec, Entry, HostCall, HostError, Import, Manage, Pointer, Pool, Template, TypedFn, World,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const START: u64 = 0x1122;
const THREADS: usize = 6;
const ROUNDS: usize = 150;

fn spec() -> DomainSpec {
    let text = ".data\n.globl state\nstate: .quad 0x1122\n.bss\n.globl kept\nkept: .skip 8\n.text\n".to_owned()
        + &function("get", "mov state(%rip),%rax\nret")
        + &function("set", "mov %rdi,%gs:state(%eip)\nmov %rdi,%gs:kept(%eip)\nmov kept(%rip),%rax\nret")
        + &function("kept_value", "mov kept(%rip),%rax\nret")
        + &function("die", "ud2")
        + &function("spin", "1:\njmp 1b\nret")
        + &function("ask", "call host\nret")
        + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nret")
        + &function("enter", "lea late(%rip),%rdi\nlea get(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret")
        + &function("through", &format!("mov %rdi,%rax\nmov %rsi,%rdi\n{CALL_RAX}ret"))
        + ".section .rodata\nname: .asciz \"app.get\"\nlate: .asciz \"late\"\ntype: .asciz \"() -> int\"\n";
    DomainSpec::new("app")
        .memory(1 << 20)
        .stack(128 << 10)
        .object("app.o", assemble(&text))
        .import("host", Import::host("host").signature("(int) -> int").on_fault(77))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .import("__sfi_register", Import::host("__sfi_register"))
        .registers("get", Entry::function("get").signature("() -> int"))
        .spare_bindings(2)
        .callbacks(2)
}

/// Panics for an odd argument.
fn host(call: &mut HostCall<'_>) -> Result<u64, HostError> {
    let argument = call.arg(0);
    assert!(argument.is_multiple_of(2), "odd");
    Ok(argument + 1)
}

fn call(world: &mut World, name: &str, arguments: (u64, u64)) -> Result<u64, CallError> {
    let function: TypedFn<fn(u64, u64) -> u64> = world.domain("app").unwrap().export(name).unwrap();
    function.call(world, arguments)
}

/// Leaves something behind. Returns a pointer to something that must lead nowhere afterwards.
fn misbehave(world: &mut World, way: usize, mark: u64) -> Option<u64> {
    call(world, "set", (mark, 0)).unwrap();
    match way {
        0 => assert!(call(world, "die", (0, 0)).is_err()),
        1 => assert!(call(world, "spin", (0, 0)).is_err()),
        2 => {
            let panicked = catch_unwind(AssertUnwindSafe(|| call(world, "ask", (1, 0))));
            assert!(panicked.is_err());
        }
        3 => {
            world.permit("app", "app.*");
            let Pointer(spare) = world.connect_spare("app", "app.get").unwrap().pointer();
            assert_eq!(call(world, "through", (spare, 0)), Ok(mark));
            return Some(spare);
        }
        4 => {
            let Pointer(lent) = world.lend("app", "host", "(int) -> int", |cx| Ok(cx.arg(0) * 3)).unwrap();
            assert_eq!(call(world, "through", (lent, 5)), Ok(15));
            return Some(lent);
        }
        5 => {
            assert_eq!(call(world, "enter", (0, 0)), Ok(0));
            assert_eq!(world.entries(), ["app.get", "app.late"]);
        }
        6 => world.unregister("app.get").unwrap(),
        7 => assert_eq!(call(world, "ask", (8, 0)), Ok(9)),
        _ => {}
    }
    None
}

/// Eight ways to leave something, six threads, three instances. No tenant finds anything.
#[test]
fn tenants_on_many_threads_find_nothing() {
    let builder = Template::builder(spec()).host_fn("host", host).time_limit(Duration::from_millis(20));
    let pool = Pool::new(&builder.build().unwrap(), 3).unwrap();
    let pointers = std::sync::Mutex::new(Vec::<u64>::new());
    let (reached, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, pointers, reached, refused) = (&pool, &pointers, &reached, &refused);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut world = pool.wait().unwrap();
                    assert_eq!(call(&mut world, "get", (0, 0)), Ok(START), "thread {thread}, round {round}");
                    assert_eq!(call(&mut world, "kept_value", (0, 0)), Ok(0));
                    assert_eq!(world.entries(), ["app.get"]);
                    assert!(world.domain("app").unwrap().last_fault().is_none());
                    assert_eq!(call(&mut world, "connect", (0, 0)), Ok(0), "no rule permits it");
                    // Gateways that earlier tenants of this window had lead nowhere.
                    let base = world.domain("app").unwrap().secret_base();
                    for pointer in pointers.lock().unwrap().clone() {
                        if pointer >> 32 == base >> 32 {
                            assert_eq!(call(&mut world, "through", (pointer, 4)), Ok(u64::MAX), "round {round}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    let way = (round * 5 + thread) % 9;
                    pointers.lock().unwrap().extend(misbehave(&mut world, way, 0x5000 + round as u64));
                    reached.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (reached, refused) = (reached.into_inner(), refused.into_inner());
    println!("{reached} tenants, {refused} calls through pointers of earlier ones");
    assert_eq!(reached, THREADS * ROUNDS);
    assert!(refused > 20, "{refused}: no window was used again");
}

/// A tenant's host exchanges worlds: with another template's, with a world of its own, with one of
/// the same pool. A pool gives out its own only.
#[test]
fn pools_take_no_other_world() {
    let template = |add: u64| {
        let host = move |call: &mut HostCall<'_>| Ok(call.arg(0) + add);
        Template::builder(spec()).host_fn("host", host).build().unwrap()
    };
    let (one, two) = (template(1), template(2));
    let pools = [&one, &two].map(|template| Pool::new(template, 2).unwrap());
    for round in 0..4 {
        let (mut a, mut b) = (pools[0].take().unwrap(), pools[1].take().unwrap());
        match round {
            0 => std::mem::swap(&mut *a, &mut *b),
            1 => *a = two.instance().unwrap(),
            2 => {
                *b = World::builder()
                    .domain(DomainSpec::new("app").object("a.o", assemble(&function("get", "ret"))))
                    .build()
                    .unwrap()
            }
            _ => {
                let mut other = pools[0].take().unwrap();
                std::mem::swap(&mut *a, &mut *other);
            }
        }
        drop((a, b));
        for (pool, add) in pools.iter().zip([1, 2]) {
            let (mut first, mut second) = (pool.take().unwrap(), pool.take().unwrap());
            for world in [&mut first, &mut second] {
                assert_eq!(call(world, "ask", (10, 0)), Ok(10 + add), "round {round}");
                assert_eq!(call(world, "get", (0, 0)), Ok(START));
            }
            assert!(pool.take().is_err(), "round {round}: a third one of two");
        }
    }
}
