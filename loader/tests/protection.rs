//! Protection domains: supervisors, procedure numbers, capabilities, and servers that several
//! threads enter.
#![allow(clippy::type_complexity)]

mod common;
use common::{assemble, function};
use sfi_loader::{
    BuildError, Capability, DomainSpec, Entry, Exhausted, Import, Manage, Server, Service, Status, Supervisor, TypedFn,
    World,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Makes a client. `run(a, b, c)` passes its arguments on to the import. `with(number, a)` shows
/// the capability at `bits` after the number.
fn client() -> DomainSpec {
    let text = ".data\n.globl bits\nbits: .skip 64\n.text\n".to_owned()
        + &function("run", "call op\nret")
        + &function("with", "mov %rsi,%rdx\nlea bits(%rip),%rsi\ncall op\nret")
        + &function("error", "mov __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret");
    DomainSpec::new("client").object("client.o", assemble(&text))
}

struct Bench {
    world: World,
    run: TypedFn<fn(u64, u64, u64) -> i64>,
    with: TypedFn<fn(u64, u64) -> i64>,
}

impl Bench {
    fn new(world: World) -> Self {
        let client = world.domain("client").unwrap();
        Self { run: client.export("run").unwrap(), with: client.export("with").unwrap(), world }
    }

    fn run(&mut self, a: u64, b: u64, c: u64) -> (i64, u32) {
        let result = self.run.call(&mut self.world, (a, b, c)).unwrap();
        (result, self.error())
    }

    fn with(&mut self, number: u64, a: u64) -> (i64, u32) {
        let result = self.with.call(&mut self.world, (number, a)).unwrap();
        (result, self.error())
    }

    fn error(&mut self) -> u32 {
        let error: TypedFn<fn() -> u32> = self.world.domain("client").unwrap().export("error").unwrap();
        error.call(&mut self.world, ()).unwrap()
    }

    fn give(&mut self, bits: &[u8]) {
        let at = self.world.domain("client").unwrap().symbol("bits").unwrap();
        self.world.memory("client").unwrap().write(at.0, bits).unwrap();
    }
}

/// A host function serves an entry point with procedure numbers, and keeps state of its own.
#[test]
fn a_supervisor_dispatches_by_number() {
    let mut total = 0;
    let service = Service::procedures()
        .procedure(move |cx| {
            total += cx.arg(0);
            Ok(total)
        })
        .procedure(|cx| Ok(cx.arg(0) * cx.arg(1)))
        .procedure(|_| Err("no".into()).map_err(|text: String| sfi_loader::HostError::new(text)))
        .signature("(int, int, int) -> int");
    let supervisor =
        Supervisor::new("kernel").entry("ops", service).entry("one", Service::function(|cx| Ok(cx.arg(0) + 1)));
    let builder = World::builder().supervisor(supervisor).permit("client", "kernel.*");
    let mut bench = Bench::new(builder.domain(client().import("op", Import::entry("kernel.ops"))).build().unwrap());
    assert_eq!(bench.run(0, 5, 0), (5, 0));
    assert_eq!(bench.run(0, 6, 0), (11, 0));
    assert_eq!(bench.run(1, 6, 7), (42, 0));
    for wrong in [2, 3, 1 << 32, u64::MAX] {
        assert_eq!(bench.run(wrong, 1, 1), (-1, Status::Host as u32), "{wrong:#x}");
    }
    bench.world.connect("client", "op", "kernel.one").unwrap();
    assert_eq!(bench.run(41, 0, 0), (42, 0));
    bench.world.unregister("kernel.one").unwrap();
    assert_eq!(bench.run(41, 0, 0), (-1, Status::Unbound as u32));
    let bad =
        World::builder().supervisor(Supervisor::new("k").entry("e", Service::procedures().signature("int"))).build();
    assert!(matches!(bad, Err(BuildError::Signature { .. })));
}

#[test]
fn a_capability_opens_a_supervisor() {
    let capability = Capability::generate().unwrap();
    let service = Service::procedures().procedure(|cx| Ok(cx.arg(0) + 1)).procedure(|cx| Ok(cx.arg(0) + 2));
    let service = service.capability(capability.clone()).signature("(int, int, int) -> int");
    let builder =
        World::builder().supervisor(Supervisor::new("kernel").entry("ops", service)).permit("*", "kernel.ops");
    let mut bench = Bench::new(builder.domain(client().import("op", Import::entry("kernel.ops"))).build().unwrap());
    assert_eq!(bench.with(0, 10), (-1, Status::Host as u32), "zeroes are no capability");
    bench.give(capability.secret_bytes());
    assert_eq!(bench.with(0, 10), (11, 0));
    assert_eq!(bench.with(1, 10), (12, 0));
    for byte in [0, 31, 63] {
        let mut bits = *capability.secret_bytes();
        bits[byte] ^= 0x40;
        bench.give(&bits);
        assert_eq!(bench.with(0, 10), (-1, Status::Host as u32), "byte {byte}");
    }
    assert_eq!(capability.refused(), 4);
    // Only the lower half of an address counts, as the offset in the client's window.
    let hosts = std::ptr::from_ref(&capability) as u64 & !u64::from(u32::MAX);
    let bits = bench.world.domain("client").unwrap().symbol("bits").unwrap().0;
    bench.give(capability.secret_bytes());
    assert_eq!(bench.run(0, hosts | bits & u64::from(u32::MAX), 10), (11, 0));
    for pointer in [0, 8, u64::MAX, u64::MAX - 70, hosts, hosts | 8] {
        assert_eq!(bench.run(0, pointer, 10), (-1, Status::Host as u32), "{pointer:#x}");
    }
    assert_eq!(capability.refused(), 4, "nothing was compared");
}

/// A sandboxed server has the header of the host before its procedures.
#[test]
fn a_domain_behind_a_header() {
    let capability = Capability::generate().unwrap();
    let spec = |capability: &Capability, by: u32| {
        let text = function("add", &format!("lea {by}(%rdi),%rax\nret"))
            + &function("twice", "lea (%rdi,%rdi),%rax\nret")
            + &function("die", "ud2");
        DomainSpec::new("server")
            .object("server.o", assemble(&text))
            .restart(sfi_loader::Restart::Always)
            .registers("ops", Entry::procedures(["add", "twice", "die"]).signature("(int, int, int) -> int"))
            .registers("secret", Entry::function("add").capability(capability.clone()))
            .registers(
                "both",
                Entry::procedures(["add", "twice"]).capability(capability.clone()).signature("(int, int, int) -> int"),
            )
    };
    let server = spec(&capability, 3);
    let builder = World::builder().domain(client().import("op", Import::entry("server.ops"))).domain(server.clone());
    let mut bench = Bench::new(builder.permit("*", "*").build().unwrap());
    assert_eq!(bench.run(0, 10, 0), (13, 0));
    assert_eq!(bench.run(1, 10, 0), (20, 0));
    assert_eq!(bench.run(3, 10, 0), (-1, Status::Host as u32));
    assert_eq!(bench.run(2, 10, 0), (-1, Status::Fault as u32), "the server faults, the client lives");
    assert_eq!(bench.run(0, 10, 0), (13, 0), "and the server is restarted");
    bench.world.connect("client", "op", "server.both").unwrap();
    assert_eq!(bench.with(0, 10), (-1, Status::Host as u32));
    bench.give(capability.secret_bytes());
    assert_eq!(bench.with(0, 10), (13, 0));
    assert_eq!(bench.with(1, 10), (20, 0));
    let at = bench.world.domain("client").unwrap().symbol("bits").unwrap();
    bench.world.connect("client", "op", "server.secret").unwrap();
    assert_eq!(bench.run(at.0, 10, 0), (13, 0));
    bench.give(&[0; 64]);
    assert_eq!(bench.run(at.0, 10, 0), (-1, Status::Host as u32));
    // A server that is loaded again has its earlier headers. The host has to build others.
    bench.world.reload(server).unwrap();
    bench.give(capability.secret_bytes());
    assert_eq!(bench.run(at.0, 10, 0), (13, 0));
    let other = bench.world.reload(spec(&Capability::generate().unwrap(), 4)).unwrap_err().to_string();
    assert!(other.contains("cannot change"), "{other}");
}

fn instance() -> World {
    let text = ".data\nn: .quad 0\n.text\n".to_owned()
        + &function("bump", "addq $1,%gs:n(%eip)\ncall pause\nmov n(%rip),%rax\nret")
        + &function("die", "ud2");
    World::builder()
        .domain(
            DomainSpec::new("server")
                .memory(0)
                .restart(sfi_loader::Restart::Always)
                .object("s.o", assemble(&text))
                .import("pause", Import::host("pause").signature("() -> int")),
        )
        .host_fn("pause", |_| {
            std::thread::sleep(Duration::from_micros(200));
            Ok(0)
        })
        .build()
        .unwrap()
}

#[test]
fn a_server_has_so_many_instances_and_a_queue() {
    let server = Server::new((0..3).map(|_| instance()).collect());
    let (inside, most, calls) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (server, inside, most, calls) = (&server, &inside, &most, &calls);
            scope.spawn(move || {
                for round in 0..50 {
                    let mut world = server.enter().unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let bump: TypedFn<fn() -> u64> = world.domain("server").unwrap().export("bump").unwrap();
                    let before = bump.call(&mut *world, ()).unwrap();
                    assert_eq!(bump.call(&mut *world, ()), Ok(before + 1), "nobody else was in");
                    if (round + thread) % 9 == 0 {
                        let die: TypedFn<fn()> = world.domain("server").unwrap().export("die").unwrap();
                        assert!(die.call(&mut *world, ()).is_err());
                    }
                    calls.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((most.into_inner(), calls.into_inner()), (3, 400));
    assert_eq!((server.idle(), server.waiting(), server.instances()), (3, 0, 3));
}

#[test]
fn a_server_that_is_used_up_says_so() {
    let server = Server::new(vec![instance()]).most_waiting(1);
    let first = server.try_enter().unwrap();
    assert_eq!(server.try_enter().unwrap_err(), Exhausted { instances: 1, waiting: 0 });
    assert_eq!(server.enter_within(Duration::from_millis(5)).unwrap_err(), Exhausted { instances: 1, waiting: 0 });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.enter().map(drop));
        while server.waiting() == 0 {
            std::thread::yield_now();
        }
        let full = server.enter().unwrap_err();
        assert_eq!(full, Exhausted { instances: 1, waiting: 1 });
        assert_eq!(full.to_string(), "all 1 instances of the server are in use, and 1 callers wait");
        assert!(server.try_enter().is_err(), "nobody overtakes the queue");
        drop(first);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert!(server.try_enter().is_ok());
    assert!(Server::new(Vec::new()).enter().is_err(), "no instance ever comes");
}
