//! Entry points that servers register, connections by name, and the remains of both when a server
//! goes.

mod common;
use common::{CALL_RAX, assemble, function};
use sfi_loader::{
    BindError, BuildError, CallError, DomainSpec, Entry, Import, LinkError, Manage, Pointer, Restart, Status, TypedFn,
    World,
};

const PAIR: &str = "(int, int) -> int";

/// Makes a server: `work` adds `by`, `die` faults, `spin` calls the host.
fn server(by: u32) -> DomainSpec {
    let text = function("work", &format!("lea {by}(%rdi,%rsi),%rax\nret")) + &function("die", "ud2");
    DomainSpec::new("server")
        .object("server.o", assemble(&text))
        .registers("work", Entry::function("work").signature(PAIR))
        .registers("die", Entry::function("die").signature("() -> int"))
}

/// Makes a client: `run(a, b)` calls the import, `connect(name)` connects by name,
/// `through(pointer, a, b)` calls a pointer, `error()` returns the error and clears it.
fn client() -> DomainSpec {
    let text = ".data\n.globl name\nname: .skip 300\n.text\n".to_owned()
        + &function("run", "call work\nret")
        + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nret")
        + &function("disconnect", "call __sfi_disconnect\nret")
        + &function("through", &format!("mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\n{CALL_RAX}ret"))
        + &function("error", "mov __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret");
    DomainSpec::new("client")
        .object("client.o", assemble(&text))
        .import("work", Import::entry("server.work").on_fault(-7))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .import("__sfi_disconnect", Import::host("__sfi_disconnect"))
        .spare_bindings(3)
}

struct Bench {
    world: World,
    run: TypedFn<fn(u64, u64) -> i64>,
    connect: TypedFn<fn() -> u64>,
    disconnect: TypedFn<fn(u64) -> i32>,
    through: TypedFn<fn(u64, u64, u64) -> i64>,
    error: TypedFn<fn() -> u32>,
    name: Pointer,
}

impl Bench {
    fn new(world: World) -> Self {
        let client = world.domain("client").unwrap();
        let (run, connect) = (client.export("run").unwrap(), client.export("connect").unwrap());
        let (disconnect, through) = (client.export("disconnect").unwrap(), client.export("through").unwrap());
        let (error, name) = (client.export("error").unwrap(), client.symbol("name").unwrap());
        Self { run, connect, disconnect, through, error, name, world }
    }

    fn run(&mut self, a: u64, b: u64) -> i64 {
        self.run.call(&mut self.world, (a, b)).unwrap()
    }

    fn ask(&mut self, name: &str) -> u64 {
        let bytes: Vec<u8> = name.bytes().chain([0]).collect();
        self.world.memory("client").unwrap().write(self.name.0, &bytes).unwrap();
        self.connect.call(&mut self.world, ()).unwrap()
    }

    fn through(&mut self, pointer: u64, a: u64, b: u64) -> i64 {
        self.through.call(&mut self.world, (pointer, a, b)).unwrap()
    }

    fn error(&mut self) -> u32 {
        self.error.call(&mut self.world, ()).unwrap()
    }
}

fn bench() -> Bench {
    Bench::new(World::builder().domain(client()).domain(server(100)).permit("client", "server.work").build().unwrap())
}

#[test]
fn a_client_connects_at_load_and_at_run_time() {
    let mut bench = bench();
    assert_eq!(bench.run(1, 2), 103);
    let pointer = bench.ask("server.work");
    assert_ne!(pointer, 0);
    assert_eq!((bench.through(pointer, 3, 4), bench.error()), (107, 0));
    // A second connection to the entry point gives the same gateway.
    assert_eq!(bench.ask("server.work"), pointer);
    assert_eq!(bench.disconnect.call(&mut bench.world, (pointer,)), Ok(0));
    assert_eq!((bench.through(pointer, 3, 4), bench.error()), (-1, Status::Unbound as u32));
    assert_eq!(bench.run(1, 2), 103, "other bindings stay");
    // A spare gateway that was given back leads nowhere, also if it is given back twice.
    assert_eq!(bench.disconnect.call(&mut bench.world, (pointer,)), Ok(0));
    assert_eq!((bench.through(pointer, 3, 4), bench.error()), (-1, Status::Unbound as u32));
}

#[test]
fn what_no_rule_permits_is_refused_and_looks_as_if_it_did_not_exist() {
    let mut bench = bench();
    for name in ["server.die", "server.nothing", "server", "", "client.run", &"x".repeat(299)] {
        assert_eq!((bench.ask(name), bench.error()), (0, Status::Unbound as u32), "{name}");
    }
    let refused = BindError::Refused { client: "client".into(), entry: "server.die".into() };
    assert_eq!(bench.world.connect_spare("client", "server.die"), Err(refused));
    bench.world.permit("cli*", "server.d*");
    let die = bench.ask("server.die");
    assert_ne!(die, 0);
    assert_eq!((bench.through(die, 0, 0), bench.error()), (-1, Status::Fault as u32));
    // An import that is refused is an error of building the world.
    let error = World::builder().domain(client()).domain(server(1)).build().unwrap_err();
    assert!(matches!(error, BuildError::Bind(BindError::Refused { .. })), "{error}");
}

#[test]
fn the_host_has_the_last_word() {
    let builder = World::builder().domain(client()).domain(server(1)).permit("*", "server.die");
    let mut bench = Bench::new(builder.permission(|r| !r.permitted && r.client == "client").build().unwrap());
    assert_eq!(bench.run(1, 2), 4);
    assert_eq!(bench.ask("server.die"), 0);
    assert_ne!(bench.ask("server.work"), 0);
}

/// An entry point that the host took back stays away in every later life of its domain: after a
/// crash, a restart and a reload, and if the domain registers the name itself.
#[test]
fn what_the_host_took_back_stays_away() {
    let text = "name: .asciz \"work\"\ntype: .asciz \"(int, int) -> int\"\n";
    let text = format!(".section .rodata\n{text}.text\n")
        + &function("work", "lea 100(%rdi,%rsi),%rax\nret")
        + &function("die", "ud2")
        + &function("again", "lea name(%rip),%rdi\nlea work(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret");
    let server = || {
        DomainSpec::new("server")
            .object("server.o", assemble(&text))
            .import("__sfi_register", Import::host("__sfi_register"))
            .registers("work", Entry::function("work").signature(PAIR))
            .registers("die", Entry::function("die").signature("() -> int"))
            .restart(Restart::Always)
    };
    let world = World::builder().domain(client()).domain(server()).permit("client", "*").build().unwrap();
    let mut bench = Bench::new(world);
    assert_eq!(bench.run(1, 2), 103);
    bench.world.unregister("server.work").unwrap();
    for life in 0..4 {
        match life {
            0 => {}
            1 => {
                let die = bench.ask("server.die");
                assert_eq!(bench.through(die, 0, 0), -1);
                assert_eq!((bench.through(die, 0, 0), bench.error()), (-1, Status::Fault as u32));
            }
            2 => bench.world.restart("server").unwrap(),
            _ => bench.world.reload(server()).unwrap(),
        }
        assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Unbound as u32), "life {life}");
        assert_eq!(bench.ask("server.work"), 0);
        let again: TypedFn<fn() -> i32> = bench.world.domain("server").unwrap().export("again").unwrap();
        assert_eq!(again.call(&mut bench.world, ()), Ok(-1), "life {life}");
        assert_eq!(bench.run(1, 2), -7);
        assert!(bench.world.entries().iter().all(|entry| entry != "server.work"), "life {life}");
    }
    bench.world.register("server", "work", Entry::function("work").signature(PAIR)).unwrap();
    assert_eq!(bench.run(1, 2), 103);
    bench.world.restart("server").unwrap();
    assert_eq!(bench.run(1, 2), 103);
}

/// A client makes up names and pointers.
/// An entry point that the host registers while the world exists is offered in every later life of
/// its domain, until the host takes it back. The specification does not replace it, and nor does
/// the domain. One that the domain registered itself ends with its life.
#[test]
fn what_the_host_registered_lasts() {
    let text = "own: .asciz \"own\"\nlater: .asciz \"late\"\ntype: .asciz \"(int, int) -> int\"\n";
    let claim = |name: &str| {
        let body = format!("lea {name}(%rip),%rdi\nlea work(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret");
        function(&format!("claim_{name}"), &body)
    };
    let text = format!(".section .rodata\n{text}.text\n")
        + &function("work", "lea 100(%rdi,%rsi),%rax\nret")
        + &function("die", "ud2")
        + &claim("own")
        + &claim("later");
    let server = |late: &str| {
        DomainSpec::new("server")
            .object("server.o", assemble(&(text.clone() + late)))
            .import("__sfi_register", Import::host("__sfi_register"))
            .registers("work", Entry::function("work").signature(PAIR))
            .registers("die", Entry::function("die").signature("() -> int"))
            .restart(Restart::Always)
    };
    let late = function("late", "lea 200(%rdi,%rsi),%rax\nret");
    let world = World::builder().domain(client()).domain(server(&late)).permit("client", "*").build().unwrap();
    let mut bench = Bench::new(world);
    // One new name, and one of the specification with another function.
    let entry = || Entry::function("late").signature(PAIR);
    bench.world.register("server", "late", entry()).unwrap();
    bench.world.unregister("server.work").unwrap();
    bench.world.register("server", "work", entry()).unwrap();
    // The host may repeat a registration, but no other takes its place.
    bench.world.register("server", "work", entry()).unwrap();
    for other in [Entry::function("work").signature(PAIR), Entry::function("late")] {
        let taken = bench.world.register("server", "work", other).unwrap_err();
        assert!(matches!(taken, BuildError::Bind(BindError::Taken(name)) if name == "server.work"));
    }
    for life in 0..6 {
        match life {
            0 => {}
            1 | 4 => {
                let die = bench.ask("server.die");
                assert_eq!(bench.through(die, 0, 0), -1);
                assert_eq!(bench.through(die, 0, 0), -1, "a second life");
            }
            2 => bench.world.restart("server").unwrap(),
            3 => {
                // Without the function the entry points lead nowhere, and nothing replaces them.
                bench.world.reload(server("")).unwrap();
                assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Unbound as u32));
                let found = bench.ask("server.late");
                assert_eq!((bench.through(found, 1, 2), bench.error()), (-1, Status::Unbound as u32));
                bench.world.reload(server(&late)).unwrap();
            }
            _ => bench.world.reload(server(&late)).unwrap(),
        }
        assert_eq!(bench.ask("server.own"), 0, "life {life}");
        let found = bench.ask("server.late");
        assert_eq!(bench.through(found, 1, 2), 203, "life {life}");
        assert_eq!(bench.run(1, 2), 203, "life {life}");
        for (function, done) in [("claim_own", 0), ("claim_later", -1)] {
            let claim: TypedFn<fn() -> i32> = bench.world.domain("server").unwrap().export(function).unwrap();
            assert_eq!(claim.call(&mut bench.world, ()), Ok(done), "{function} in life {life}");
        }
    }
    bench.world.unregister("server.late").unwrap();
    for _ in 0..2 {
        assert_eq!(bench.ask("server.late"), 0);
        bench.world.reload(server(&late)).unwrap();
    }
}

#[test]
fn forged_pointers_disconnect_nothing() {
    let mut bench = bench();
    let pointer = bench.ask("server.work");
    for forged in [0, 1, pointer + 4, pointer + 8 * 100, pointer - 8 * 3, u64::MAX, 0x100000] {
        assert_eq!(bench.disconnect.call(&mut bench.world, (forged,)), Ok(-1), "{forged:#x}");
        assert_eq!(bench.error(), Status::Unbound as u32);
    }
    assert_eq!(bench.through(pointer, 1, 1), 102);
    // An unterminated name, a name outside of all memory.
    bench.world.memory("client").unwrap().write(bench.name.0, &[b'a'; 300]).unwrap();
    assert_eq!(bench.connect.call(&mut bench.world, ()), Ok(0));
}

#[test]
fn a_flood_of_connections_is_bounded() {
    let mut many = server(1);
    for i in 0..10 {
        many = many.registers(format!("e{i}"), Entry::function("work").signature(PAIR));
    }
    let mut bench = Bench::new(World::builder().domain(client()).domain(many).permit("*", "*").build().unwrap());
    let pointers: Vec<u64> = (0..10).map(|i| bench.ask(&format!("server.e{i}"))).collect();
    assert!(pointers[..3].iter().all(|p| *p != 0) && pointers[3..].iter().all(|p| *p == 0), "{pointers:?}");
    assert_eq!(bench.world.connect_spare("client", "server.e9"), Err(BindError::NoSpare { domain: "client".into() }));
    for round in 0..100 {
        assert_eq!(bench.disconnect.call(&mut bench.world, (pointers[round % 3],)), Ok(0));
        assert_eq!(bench.ask(&format!("server.e{}", 3 + round % 7)), pointers[round % 3], "{round}");
        assert_eq!(bench.through(pointers[round % 3], 1, 2), 4);
    }
}

#[test]
fn unregistering_leaves_no_dangling_slot() {
    let mut bench = bench();
    let pointer = bench.ask("server.work");
    bench.world.unregister("server.work").unwrap();
    assert_eq!((bench.through(pointer, 1, 2), bench.error()), (-1, Status::Unbound as u32));
    assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Unbound as u32));
    assert_eq!(bench.world.unregister("server.work"), Err(BindError::Entry("server.work".into())));
    // After the entry is registered again, an import by name is connected again. The pointer was
    // given up and is not.
    bench.world.register("server", "work", Entry::function("work").signature(PAIR)).unwrap();
    assert_eq!(bench.run(1, 2), 103);
    assert_eq!(bench.through(pointer, 1, 2), -1);
    let taken = bench.world.register("server", "work", Entry::function("work")).unwrap_err();
    assert!(matches!(taken, BuildError::Bind(BindError::Taken(_))));
    let none = bench.world.register("server", "other", Entry::function("nothing")).unwrap_err();
    assert!(matches!(none, BuildError::Bind(BindError::Function { .. })), "{none}");
    bench.world.disconnect("client", "work").unwrap();
    assert_eq!(bench.run(1, 2), -7);
    bench.world.connect("client", "work", "server.work").unwrap();
    assert_eq!(bench.run(1, 2), 103);
    assert!(bench.world.connect("client", "nothing", "server.work").is_err());
    bench.world.permit("*", "*");
    let other = bench.world.connect("client", "work", "server.die");
    assert!(other.is_ok(), "the import itself has no signature: {other:?}");
    let strict = client().import("strict", Import::entry("server.die").signature(PAIR));
    let error = World::builder().domain(strict).domain(server(1)).permit("*", "*").build().unwrap_err();
    assert!(matches!(error, BuildError::Bind(BindError::Signature { .. })), "{error}");
}

#[test]
fn a_reloaded_server_is_bound_again_by_name() {
    let mut bench = bench();
    let pointer = bench.ask("server.work");
    let work: TypedFn<fn(u64, u64) -> u64> = bench.world.domain("server").unwrap().export("work").unwrap();
    for by in [200, 300, 400] {
        let before = bench.world.domain("server").unwrap().secret_base();
        bench.world.reload(server(by)).unwrap();
        assert_ne!(bench.world.domain("server").unwrap().secret_base(), before, "not a fresh place");
        assert_eq!(bench.run(1, 2), i64::from(by) + 3);
        assert_eq!(bench.through(pointer, 1, 2), i64::from(by) + 3);
        assert_eq!(work.call(&mut bench.world, (1, 2)), Ok(u64::from(by) + 3));
    }
    // A server without the function is an error for its callers, and the client lives.
    let other = DomainSpec::new("server").object("o.o", assemble(&function("other", "ret")));
    bench.world.reload(other).unwrap();
    assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Unbound as u32));
    assert_eq!((bench.through(pointer, 1, 2), bench.error()), (-1, Status::Unbound as u32));
    assert_eq!(work.call(&mut bench.world, (1, 2)), Err(CallError::Gone { domain: "server".into() }));
    assert!(bench.world.entries().is_empty());
    // A reload that is refused leaves the old server as it is.
    let refused = DomainSpec::new("server").object("o.o", assemble(&function("work", "mov %rax,(%rdi)\nret")));
    assert!(matches!(bench.world.reload(refused), Err(BuildError::Link(LinkError::Refused { .. }))));
    assert!(bench.world.domain("server").unwrap().export::<fn()>("other").is_ok());
    bench.world.reload(server(500)).unwrap();
    assert_eq!(bench.run(1, 2), 503);
}

/// A server to which nothing is bound keeps no pages of its data stack.
#[test]
fn an_unbound_server_gives_its_stack_back() {
    let text = function("work", "movq $7,%gs:-8(%r15d)\nmovq $8,%gs:-0x40008(%r15d)\nlea (%rdi,%rsi),%rax\nret");
    let server = DomainSpec::new("server")
        .object("server.o", assemble(&text))
        .registers("work", Entry::function("work").signature(PAIR));
    let mut bench = Bench::new(World::builder().domain(client()).domain(server).permit("*", "*").build().unwrap());
    let segment = bench.world.domain("server").unwrap().segments().iter().find(|s| s.name == "data stack").unwrap();
    let (at, length) = (segment.offset, segment.length as usize);
    let used =
        |bench: &mut Bench| bench.world.memory("server").unwrap().read(at, length).unwrap().iter().any(|b| *b != 0);
    assert_eq!(bench.run(1, 2), 3);
    let pointer = bench.ask("server.work");
    bench.world.disconnect("client", "work").unwrap();
    assert!(used(&mut bench), "another binding is left");
    assert_eq!(bench.disconnect.call(&mut bench.world, (pointer,)), Ok(0));
    assert!(!used(&mut bench));
    bench.world.connect("client", "work", "server.work").unwrap();
    assert_eq!(bench.run(1, 2), 3);
}

/// A client is loaded again with other, and more, imports than before.
#[test]
fn a_reloaded_client_has_its_own_bindings() {
    let mut bench = bench();
    for spare in [0, 3, 40, 7] {
        bench.world.reload(client().spare_bindings(spare)).unwrap();
        bench.name = bench.world.domain("client").unwrap().symbol("name").unwrap();
        assert_eq!(bench.run(1, 2), 103);
        let pointer = bench.ask("server.work");
        assert_eq!(pointer != 0, spare > 0);
        if spare > 0 {
            assert_eq!(bench.through(pointer, 1, 2), 103);
        }
    }
}

/// The server undoes, while it runs, the binding through which it was called, and reloads itself
/// and its caller.
#[test]
fn unbinding_and_reloading_in_the_middle_of_a_call() {
    let server = || {
        DomainSpec::new("server")
            .object("server.o", assemble(&function("work", "call host\nmov $9,%eax\nret")))
            .import("host", Import::host("host"))
            .registers("work", Entry::function("work").signature(PAIR))
    };
    let other = |by: u32| {
        let text = function("f", &format!("mov ${by},%eax\nret"));
        DomainSpec::new("other").object("o.o", assemble(&text)).registers("f", Entry::function("f"))
    };
    let builder = World::builder().domain(client()).domain(server()).domain(other(1)).permit("*", "*");
    let world = builder
        .host_fn("host", move |cx| {
            cx.disconnect("client", "work").unwrap();
            // The record is in use until this call returns.
            let busy = cx.connect("client", "work", "server.work");
            assert_eq!(busy, Err(BindError::Active { domain: "client".into() }));
            for name in ["client", "server"] {
                let spec = if name == "client" { client() } else { server() };
                let error = cx.reload(spec).unwrap_err();
                assert!(matches!(error, BuildError::Bind(BindError::Active { .. })), "{name}: {error}");
            }
            cx.reload(other(2)).unwrap();
            // This server uses more registers than the frames of the active calls saved.
            let vectors = DomainSpec::new("other").object("o.o", assemble(&function("f", "fld1\nfstp %st(0)\nret")));
            let error = cx.reload(vectors).unwrap_err();
            assert!(matches!(error, BuildError::Bind(BindError::Busy { .. })), "{error}");
            Ok(0)
        })
        .build()
        .unwrap();
    let mut bench = Bench::new(world);
    assert_eq!(bench.run(1, 2), 9, "the call itself returns");
    assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Unbound as u32));
    let f: TypedFn<fn() -> u32> = bench.world.domain("other").unwrap().export("f").unwrap();
    assert_eq!(f.call(&mut bench.world, ()), Ok(2));
    bench.world.connect("client", "work", "server.work").unwrap();
    assert_eq!(bench.run(1, 2), 9);
}

/// A server registers its own functions, and only under its own name.
#[test]
fn a_server_registers_at_run_time() {
    let text = ".data\nname: .asciz \"late\"\ntype: .asciz \"(int, int) -> int\"\nbad: .asciz \"(int\"\n.text\n"
        .to_owned()
        + &function("late", "lea 5(%rdi,%rsi),%rax\nret")
        + &function("start", "lea name(%rip),%rdi\nlea late(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret")
        + &function("data", "lea name(%rip),%rdi\nmov %rdi,%rsi\nlea bad(%rip),%rdx\ncall __sfi_register\nret")
        + &function("stop", "lea name(%rip),%rdi\ncall __sfi_unregister\nret");
    let server = || {
        DomainSpec::new("server")
            .object("server.o", assemble(&text))
            .import("__sfi_register", Import::host("__sfi_register"))
            .import("__sfi_unregister", Import::host("__sfi_unregister"))
    };
    let client = client().import("late", Import::entry("server.late"));
    let builder = World::builder().domain(client).domain(server()).permit("client", "server.late");
    let mut bench = Bench::new(builder.build().unwrap());
    let domain = bench.world.domain("server").unwrap();
    let [start, data, stop] = ["start", "data", "stop"].map(|n| domain.export::<fn() -> i32>(n).unwrap());
    assert_eq!(bench.ask("server.late"), 0);
    for _ in 0..2 {
        assert_eq!(data.call(&mut bench.world, ()), Ok(-1), "neither a function nor a signature");
        assert_eq!(start.call(&mut bench.world, ()), Ok(0));
        assert_eq!(start.call(&mut bench.world, ()), Ok(-1), "the name is taken");
        assert_eq!(bench.world.entries(), ["server.late"]);
        let pointer = bench.ask("server.late");
        assert_eq!(bench.through(pointer, 1, 2), 8);
        assert_eq!(stop.call(&mut bench.world, ()), Ok(0));
        assert_eq!(stop.call(&mut bench.world, ()), Ok(-1));
        assert_eq!((bench.through(pointer, 1, 2), bench.error()), (-1, Status::Unbound as u32));
    }
    // A registration by pointer does not outlive the text that it pointed to.
    assert_eq!(start.call(&mut bench.world, ()), Ok(0));
    let pointer = bench.ask("server.late");
    bench.world.reload(server()).unwrap();
    assert!(bench.world.entries().is_empty());
    assert_eq!((bench.through(pointer, 1, 2), bench.error()), (-1, Status::Unbound as u32));
}

/// A crashed server is loaded again when it is called the next time, by a domain or by the host.
#[test]
fn a_crashed_server_is_restarted_at_a_fresh_place() {
    let build = |restart| {
        let text = ".data\ncounter: .quad 0\n".to_owned()
            + &function("work", "addq $1,%gs:counter(%eip)\nmov counter(%rip),%rax\nadd %rdi,%rax\nadd %rsi,%rax\nret")
            + &function("die", "ud2");
        let server = DomainSpec::new("server")
            .object("server.o", assemble(&text))
            .registers("work", Entry::function("work").signature(PAIR))
            .registers("die", Entry::function("die").signature("() -> int"))
            .restart(restart);
        Bench::new(World::builder().domain(client()).domain(server).permit("*", "*").build().unwrap())
    };
    let mut bench = build(Restart::Limited(3));
    let die = bench.ask("server.die");
    let work: TypedFn<fn(u64, u64) -> u64> = bench.world.domain("server").unwrap().export("work").unwrap();
    let mut place = bench.world.domain("server").unwrap().secret_base();
    for round in 0..3 {
        assert_eq!(bench.run(10, 20), 31, "arguments and fresh data");
        assert_eq!(work.call(&mut bench.world, (10, 20)), Ok(32));
        assert_eq!((bench.through(die, 0, 0), bench.error()), (-1, Status::Fault as u32));
        assert!(bench.world.domain("server").unwrap().is_dead());
        if round == 1 {
            assert_eq!(work.call(&mut bench.world, (10, 20)), Ok(31), "the host's call restarts it too");
            bench.world.restart("server").unwrap();
        } else {
            assert_eq!(bench.run(10, 20), 31);
            assert_eq!(bench.through(die, 0, 0), -1);
            bench.world.restart("server").unwrap();
        }
        assert_ne!(std::mem::replace(&mut place, bench.world.domain("server").unwrap().secret_base()), place);
        assert_eq!(bench.world.domain("server").unwrap().restarts(), round + 1);
        assert_eq!(bench.error(), if round == 1 { 0 } else { Status::Fault as u32 });
    }
    assert_eq!(bench.through(die, 0, 0), -1);
    bench.error();
    assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Dead as u32), "three restarts are used up");
    assert_eq!(work.call(&mut bench.world, (1, 2)), Err(CallError::Dead { domain: "server".into() }));
    let mut bench = build(Restart::Never);
    let die = bench.ask("server.die");
    assert_eq!(bench.through(die, 0, 0), -1);
    bench.error();
    assert_eq!((bench.run(1, 2), bench.error()), (-7, Status::Dead as u32));
}

/// A server is not loaded again while calls that it made are outstanding. These calls fault when
/// they return.
#[test]
fn a_domain_with_outstanding_calls_is_not_restarted() {
    let a = function("outer", "call middle\nmov $1,%eax\nret") + &function("inner", "ud2");
    let b = function(
        "middle",
        "call inner\nmov __sfi_error(%rip),%ebx\ncall inner\nshl $8,%ebx\nor __sfi_error(%rip),%ebx\nmov %ebx,%gs:seen(%eip)\nret",
    ) + ".data\n.globl seen\nseen: .long 0\n";
    let mut world = World::builder()
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&a))
                .import("middle", Import::domain("b", "middle"))
                .restart(Restart::Always),
        )
        .domain(DomainSpec::new("b").object("b.o", assemble(&b)).import("inner", Import::domain("a", "inner")))
        .build()
        .unwrap();
    let outer: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("outer").unwrap();
    for _ in 0..3 {
        assert!(matches!(outer.call(&mut world, ()), Err(CallError::Fault(_))));
        let seen = world.domain("b").unwrap().symbol("seen").unwrap();
        let expected = ((Status::Fault as u32) << 8 | Status::Dead as u32).to_le_bytes();
        assert_eq!(world.memory("b").unwrap().read(seen.0, 4).unwrap(), expected);
    }
}

/// A server without any code for floats hands them on and returns them, also through bindings that
/// were not known when it was loaded.
#[test]
fn floats_cross_bindings_of_run_time() {
    let echo = function("echo", "ret") + &function("number", "lea 1(%rdi),%rax\nret");
    let server = DomainSpec::new("server").object("s.o", assemble(&echo));
    let text =
        function("add", "sub $16,%r15\nmovsd %xmm0,%gs:(%r15d)\ncall echo\naddsd (%r15),%xmm0\nadd $16,%r15\nret")
            + ".section .rodata\n.globl name\nname: .asciz \"server.echo\"\n.text\n"
            + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nret");
    let client = DomainSpec::new("client")
        .object("c.o", assemble(&text))
        .import("echo", Import::entry("server.echo").signature("(float) -> float"))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .spare_bindings(1);
    let mut world = World::builder().domain(client).domain(server).permit("*", "*").build().unwrap();
    let instance = world.instantiate("server").unwrap();
    let add: TypedFn<fn(f64) -> f64> = world.domain("client").unwrap().export("add").unwrap();
    let connect: TypedFn<fn() -> u64> = world.domain("client").unwrap().export("connect").unwrap();
    let echo: TypedFn<fn(f64) -> f64> = world.domain("server").unwrap().export("echo").unwrap();
    let number: TypedFn<fn(u64) -> u64> = world.domain("server").unwrap().export("number").unwrap();
    assert_eq!((echo.call(&mut world, (3.0,)), number.call(&mut world, (3,))), (Ok(3.0), Ok(4)));
    let signature = "(float) -> float";
    world.register("server", "echo", Entry::function("echo").signature(signature)).unwrap();
    // The import by name was waiting for this registration.
    assert_eq!(add.call(&mut world, (2.5,)), Ok(5.0));
    assert_eq!((echo.call(&mut world, (4.0,)), number.call(&mut world, (4,))), (Ok(4.0), Ok(5)));
    let other: TypedFn<fn(f64) -> f64> = world.instance(instance).unwrap().export("echo").unwrap();
    assert_eq!(other.call(&mut world, (1.5,)), Ok(1.5));
    world.discard(instance).unwrap();
    world.reload(DomainSpec::new("server").object("s.o", assemble(&function("echo", "ret")))).unwrap();
    world.register("server", "echo", Entry::function("echo").signature(signature)).unwrap();
    assert_eq!(add.call(&mut world, (7.0,)), Ok(14.0));
    assert_ne!(connect.call(&mut world, ()), Ok(0));
}

/// In the middle of a call such a binding is refused, because the frames of active calls left
/// values in the vector registers that belong to others.
#[test]
fn the_first_float_does_not_come_in_the_middle_of_a_call() {
    let text = ".section .rodata\n.globl name\nname: .asciz \"server.echo\"\n.text\n".to_owned()
        + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nret")
        + &function("through", &format!("mov %rdi,%rax\n{CALL_RAX}ret"));
    let client = DomainSpec::new("client")
        .object("c.o", assemble(&text))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .spare_bindings(1);
    let server = DomainSpec::new("server").object("s.o", assemble(&function("echo", "ret")));
    let mut world = World::builder().domain(client).domain(server).permit("*", "*").build().unwrap();
    let connect: TypedFn<fn() -> u64> = world.domain("client").unwrap().export("connect").unwrap();
    world.register("server", "echo", Entry::function("echo").signature("(float) -> float")).unwrap();
    assert_eq!(connect.call(&mut world, ()), Ok(0));
    let pointer = world.connect_spare("client", "server.echo").unwrap().pointer();
    let through: TypedFn<fn(u64, f64) -> f64> = world.domain("client").unwrap().export("through").unwrap();
    assert_eq!(through.call(&mut world, (pointer.0, 0.5)), Ok(0.5));
    // Once the server hands floats on, it may be bound and unbound in the middle of calls.
    world.unregister("server.echo").unwrap();
    world.register("server", "echo", Entry::function("echo").signature("(float) -> float")).unwrap();
    assert_ne!(connect.call(&mut world, ()), Ok(0));
}

/// A domain whose image instances run cannot be replaced by another one. After a crash it restarts
/// at another place, and the instances go on.
#[test]
fn domains_with_instances() {
    let mut bench = Bench::new(
        World::builder()
            .domain(client())
            .domain(server(100).restart(Restart::Always))
            .permit("client", "server.*")
            .build()
            .unwrap(),
    );
    let instance = bench.world.instantiate("server").unwrap();
    let clients = bench.world.instantiate("client").unwrap();
    for name in ["server", "client"] {
        let spec = if name == "server" { server(200) } else { client() };
        let error = bench.world.reload(spec).unwrap_err();
        assert!(matches!(&error, BuildError::Bind(BindError::Instances { domain }) if domain == name), "{error}");
        assert!(error.to_string().starts_with("SFI-M03: "), "{error}");
    }
    assert_eq!(bench.run(1, 2), 103);
    let die: TypedFn<fn() -> i64> = bench.world.domain("server").unwrap().export("die").unwrap();
    let mut bases = vec![bench.world.domain("server").unwrap().secret_base()];
    for round in 1..4 {
        assert!(matches!(die.call(&mut bench.world, ()), Err(CallError::Fault(_))));
        assert_eq!(bench.run(1, round), 101 + round as i64);
        assert_eq!(bench.world.domain("server").unwrap().restarts(), round as u32);
        bases.push(bench.world.domain("server").unwrap().secret_base());
        let work: TypedFn<fn(u64, u64) -> i64> = bench.world.instance(instance).unwrap().export("work").unwrap();
        let run: TypedFn<fn(u64, u64) -> i64> = bench.world.instance(clients).unwrap().export("run").unwrap();
        assert_eq!((work.call(&mut bench.world, (5, 6)), run.call(&mut bench.world, (7, 8))), (Ok(111), Ok(115)));
    }
    assert!(bases.windows(2).all(|pair| pair[0] != pair[1]), "restarted in place");
    bench.world.discard(instance).unwrap();
    bench.world.reload(server(200)).unwrap();
    assert_eq!(bench.run(1, 2), 203);
}
