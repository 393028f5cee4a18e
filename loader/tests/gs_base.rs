//! The GS base of a crossing. A server whose text does not use GS runs with the base of its client.
//! Every other text must run with its own, however bindings, objects and calls came to be: with
//! another base its stores would reach the window of another domain.

mod common;
mod registers;

use common::{CALL_RAX, assemble, function};
use registers::variants;
use sfi_loader::{
    DomainSpec, Entry, Import, Library, LibraryError, Limits, LinkRoom, Machine, Manage, Mode, Restart, Trust, TypedFn,
    World,
};
use std::time::Duration;

const QUIET: &str = "lea 1(%rdi),%rax\nret";
const COUNT: &str = ".bss\n.globl count\n.type count,@object\n.balign 8\ncount: .zero 8\n.size count,8\n";

/// Text of functions that use no GS: they add one, and fail in two ways, or stay.
fn quiet() -> String {
    // A store relative to rip is the only one without GS.
    COUNT.to_owned()
        + &function("work", QUIET)
        + &function("note", "mov %rdi,count(%rip)\nlea 1(%rdi),%rax\nret")
        + &function("die", "ud2")
        + &function("divide", "xor %ecx,%ecx\ndiv %ecx\nret")
        + &function("spin", "1: jmp 1b")
}

/// Text of functions of the same names that count their calls in memory. It changes the registers
/// that the other text changes, so that it may take its place while calls are in progress.
fn loud() -> String {
    let all = ["work", "note", "die", "divide", "spin"];
    let count = "xor %ecx,%ecx\nxor %edx,%edx\nincq %gs:count(%eip)\nmov count(%rip),%rax\nret";
    COUNT.to_owned() + &all.map(|name| function(name, count)).concat()
}

fn server(text: &str, mode: Mode) -> DomainSpec {
    DomainSpec::new("server").mode(mode).object("s.o", assemble(text)).restart(Restart::Always)
}

/// Returns a client that counts before and after each of its calls, and whose `seen` tells the
/// count.
fn client(trust: Trust, mode: Mode) -> DomainSpec {
    let names = ["work", "note", "die", "divide", "spin"];
    let count = "incq %gs:count(%eip)\n";
    let call = |name| function(&format!("run_{name}"), &format!("{count}call {name}\n{count}ret"));
    let text = COUNT.to_owned() + &names.map(call).concat() + &function("seen", "mov count(%rip),%rax\nret");
    let spec = DomainSpec::new("client").mode(mode).object("c.o", assemble(&text));
    names.into_iter().fold(spec, |spec, name| {
        spec.import(name, Import::domain("server", name).signature("(int) -> int").trust(trust).on_fault(-9))
    })
}

struct Bench {
    world: World,
    counted: u64,
}

impl Bench {
    fn new(world: World) -> Self {
        Self { world, counted: 0 }
    }

    /// Calls the server through the client, which must have counted in its own memory.
    fn run(&mut self, name: &str, argument: u64) -> i64 {
        let run: TypedFn<fn(u64) -> i64> = self.world.domain("client").unwrap().export(&format!("run_{name}")).unwrap();
        let result = run.call(&mut self.world, (argument,)).unwrap();
        self.counted += 2;
        assert_eq!(self.seen(), self.counted, "{name}");
        result
    }

    fn seen(&mut self) -> u64 {
        let seen: TypedFn<fn() -> u64> = self.world.domain("client").unwrap().export("seen").unwrap();
        seen.call(&mut self.world, ()).unwrap()
    }

    /// Says whether calls of the import leave the GS base alone.
    fn is_left(&self, symbol: &str) -> bool {
        let all = self.world.bindings();
        let report = all.iter().find(|report| report.symbol.as_deref() == Some(symbol)).unwrap();
        report.work.as_ref().is_some_and(|work| work.contains("GS base left alone"))
    }
}

fn each(mut test: impl FnMut(Machine, Trust, Mode)) {
    for (machine, _) in variants() {
        for trust in Trust::ALL {
            [Mode::Write, Mode::Full].into_iter().for_each(|mode| test(machine, trust, mode));
        }
    }
}

/// Returns, faults, restarts and replacements by texts with and without GS, in turn.
#[test]
fn every_text_that_uses_gs_has_its_own_base() {
    each(|machine, trust, mode| {
        let builder = World::builder().machine(machine).domain(client(trust, mode)).domain(server(&quiet(), mode));
        let mut bench = Bench::new(builder.build().unwrap());
        for _ in 0..2 {
            assert!(bench.is_left("work"), "{:?}", bench.world.bindings());
            assert_eq!((bench.run("work", 4), bench.run("note", 5)), (5, 6));
            // A dead server is restarted by the next call.
            for name in ["die", "divide", "die"] {
                assert_eq!((bench.run(name, 1), bench.run("note", 7)), (-9, 8), "{name}");
            }
            bench.world.reload(server(&loud(), mode)).unwrap();
            assert!(!bench.is_left("work"));
            assert_eq!((bench.run("work", 4), bench.run("die", 4), bench.run("note", 4)), (1, 2, 3));
            bench.world.restart("server").unwrap();
            assert_eq!(bench.run("work", 4), 1);
            // The host's own entry finds the base of the domain that ran last.
            let work: TypedFn<fn() -> u64> = bench.world.domain("server").unwrap().export("work").unwrap();
            assert_eq!((work.call(&mut bench.world, ()), bench.run("work", 4)), (Ok(2), 3));
            bench.world.reload(server(&quiet(), mode)).unwrap();
            let work: TypedFn<fn(u64) -> u64> = bench.world.domain("server").unwrap().export("work").unwrap();
            assert_eq!((work.call(&mut bench.world, (8,)), bench.run("work", 4)), (Ok(9), 5));
        }
        // A client that is replaced keeps its own base as well.
        bench.world.reload(client(trust, mode)).unwrap();
        bench.counted = 0;
        assert_eq!(bench.run("work", 4), 5);
    });
}

/// A server without GS overstays: its client or the host goes on with the right base.
#[test]
fn a_call_that_overstays_leaves_the_right_base() {
    for trust in Trust::ALL {
        let world = World::builder().domain(client(trust, Mode::Write)).domain(server(&quiet(), Mode::Write));
        let mut bench = Bench::new(world.timed().build().unwrap());
        let spin: TypedFn<fn(u64) -> i64> = bench.world.domain("client").unwrap().export("run_spin").unwrap();
        for _ in 0..3 {
            let limit = Limits::wall(Duration::from_millis(5));
            let ended = spin.call_within(&mut bench.world, limit, (1,));
            // The server dies, and its client goes on.
            assert_eq!(ended, Ok(-9));
            bench.counted += 2;
            assert!(bench.world.domain("server").unwrap().is_dead());
            assert_eq!((bench.run("work", 1), bench.run("die", 1), bench.run("note", 1)), (2, -9, 2));
        }
    }
}

/// Text without the prefix that leads out of itself: to another domain by an import, to itself by
/// one, to a stub of the control stack, and to an IFUNC.
#[test]
fn text_that_leads_out_of_itself_has_its_own_base() {
    each(|machine, trust, mode| {
        let third = COUNT.to_owned() + &function("count_up", "incq %gs:count(%eip)\nmov count(%rip),%rax\nret");
        let through = function("work", "call count_up\nret");
        let resolver = ".text\n.globl note\n.type note,@gnu_indirect_function\nnote: lea work(%rip),%rax\nret\n";
        let chosen = function("work", QUIET) + resolver;
        let inner = function("work", "call note\nadd $10,%rax\nret") + &function("add", QUIET);
        let inner = inner + &resolver.replace("work", "add");
        let cut = function("work", "xor %edi,%edi\nmov $8,%esi\njmp __sfi_cut");
        let none = ["die", "divide", "spin"].map(|name| function(name, "ud2")).concat();
        let plain = function("note", QUIET);
        let import = Import::domain("third", "count_up").signature("() -> int").trust(trust);
        let with = |text: &str| server(&(text.to_owned() + &none), mode);
        let third = DomainSpec::new("third").mode(mode).object("t.o", assemble(&third));
        let build = |server: DomainSpec| {
            let builder = World::builder().machine(machine).domain(client(trust, mode)).domain(third.clone());
            Bench::new(builder.domain(server).build().unwrap())
        };
        let mut bench = build(with(&(through + &plain)).import("count_up", import.clone()));
        assert!(!bench.is_left("work") && !bench.is_left("note"));
        assert_eq!([bench.run("work", 0), bench.run("note", 0), bench.run("work", 0)], [1, 1, 2]);
        // The import alone does no harm.
        let mut bench = build(with(&(function("work", QUIET) + &plain)).import("count_up", import));
        assert!(bench.is_left("work") && bench.is_left("note"));
        assert_eq!((bench.run("work", 2), bench.run("note", 3)), (3, 4));
        // The IFUNC's stub is entered, and jumps through GS. The function that it chose has none.
        let mut bench = build(with(&chosen));
        assert!(bench.is_left("work") && !bench.is_left("note"));
        assert_eq!((bench.run("work", 2), bench.run("note", 3)), (3, 4));
        let mut bench = build(with(&inner));
        assert!(!bench.is_left("work"));
        assert_eq!(bench.run("work", 2), 13);
        let mut bench = build(with(&(cut + &plain)));
        assert!(!bench.is_left("work"));
        assert_eq!((bench.run("note", 4), bench.run("work", 2), bench.run("note", 4)), (5, -9, 5));
    });
}

/// The server is replaced while a host function runs, between two calls of one client. Both ways of
/// every call agree.
#[test]
fn a_server_is_replaced_in_the_middle_of_a_call() {
    for (trust, to_loud) in Trust::ALL.into_iter().flat_map(|trust| [(trust, true), (trust, false)]) {
        let texts = if to_loud { [quiet(), loud()] } else { [loud(), quiet()] };
        let calls = "call work\nmov %rax,%gs:first(%eip)\nincq %gs:count(%eip)\ncall host\nincq %gs:count(%eip)\nmov $3,%edi\ncall work\nincq %gs:count(%eip)\nadd first(%rip),%rax\nret";
        let text = COUNT.to_owned()
            + ".balign 8\nfirst: .zero 8\n"
            + &function("run_twice", calls)
            + &function("seen", "mov count(%rip),%rax\nret");
        let client = DomainSpec::new("client")
            .object("c.o", assemble(&text))
            .import("work", Import::domain("server", "work").signature("(int) -> int").trust(trust))
            .import("host", Import::host("host"));
        let next = texts[1].clone();
        let world = World::builder()
            .domain(client)
            .domain(server(&texts[0], Mode::Write))
            .host_fn("host", move |cx| {
                cx.reload(server(&next, Mode::Write)).unwrap();
                let work: TypedFn<fn(u64) -> u64> = cx.export("server", "work").unwrap();
                Ok(work.call(cx, (1,)).unwrap())
            })
            .build()
            .unwrap();
        let mut bench = Bench::new(world);
        bench.counted = 1;
        // Quiet: 3 + 1, and the counter's second call. Loud first: 1, and 3 + 1.
        assert_eq!(bench.run("twice", 3), if to_loud { 4 + 2 } else { 1 + 4 }, "{trust}");
    }
}

/// Libraries come to a domain without GS, from the host and by the domain's wish.
#[test]
fn a_library_has_the_base_of_its_domain() {
    let text = COUNT.to_owned()
        + &function("work", QUIET)
        + &["note", "die", "divide", "spin"].map(|name| function(name, QUIET)).concat();
    let library =
        COUNT.replace("count", "tally") + &function("tell", "incq %gs:tally(%eip)\nmov tally(%rip),%rax\nret");
    let library = Library::new("lib").object("l.o", assemble(&library));
    for trust in Trust::ALL {
        let roomy = server(&text, Mode::Write).link_room(LinkRoom::default());
        let world = World::builder().domain(client(trust, Mode::Write)).domain(roomy);
        let mut bench = Bench::new(world.build().unwrap());
        assert!(!bench.is_left("work"), "libraries may come in calls");
        assert_eq!(bench.run("work", 1), 2);
        let linked = bench.world.link("server", &library).unwrap();
        let tell: TypedFn<fn() -> u64> = linked.export(&mut bench.world, "tell").unwrap();
        assert_eq!((tell.call(&mut bench.world, ()), bench.run("work", 1)), (Ok(1), 2));
        assert_eq!((tell.call(&mut bench.world, ()), bench.run("note", 1)), (Ok(2), 2));
    }
    // Without room none comes.
    let mut world = World::builder().domain(server(&text, Mode::Write)).build().unwrap();
    let refused = world.link("server", &library).unwrap_err();
    assert!(matches!(refused, LibraryError::NoRoom { .. }), "{refused}");
}

/// Bindings that are made at run time, pointers that are passed, and calls back into a client.
#[test]
fn bindings_of_run_time_set_the_base_where_it_is_needed() {
    for trust in Trust::ALL {
        let spec =
            |text: &str| server(text, Mode::Write).registers("work", Entry::function("work").signature("(int) -> int"));
        let text = COUNT.to_owned()
            + ".data\nname: .asciz \"server.work\"\n.balign 8\npointer: .zero 8\n"
            + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nmov %rax,%gs:pointer(%eip)\nret")
            + &function(
                "run_work",
                &format!("incq %gs:count(%eip)\nmov pointer(%rip),%rax\n{CALL_RAX}incq %gs:count(%eip)\nret"),
            )
            + &function("add", QUIET)
            + &function("tally", "incq %gs:count(%eip)\nlea 1(%rdi),%rax\nret")
            + &function("run_add", "incq %gs:count(%eip)\nlea add(%rip),%rdi\ncall apply\nincq %gs:count(%eip)\nret")
            + &function("run_tally", "lea tally(%rip),%rdi\ncall apply\nincq %gs:count(%eip)\nret")
            + &function("seen", "mov count(%rip),%rax\nret");
        let apply = COUNT.to_owned()
            + &function("apply", &format!("mov %rdi,%rax\nmov $4,%edi\n{CALL_RAX}incq %gs:count(%eip)\nret"));
        let pass = Import::domain("applier", "apply").signature("(fn(int) -> int) -> int").trust(trust);
        let client = DomainSpec::new("client")
            .object("c.o", assemble(&text))
            .import("__sfi_connect", Import::host("__sfi_connect"))
            .import("apply", pass)
            .spare_bindings(2);
        let world = World::builder()
            .domain(client)
            .domain(DomainSpec::new("applier").object("a.o", assemble(&apply)))
            .domain(spec(&quiet()))
            .permit("*", "*");
        let mut bench = Bench::new(world.build().unwrap());
        let connect: TypedFn<fn() -> u64> = bench.world.domain("client").unwrap().export("connect").unwrap();
        assert_ne!(connect.call(&mut bench.world, ()), Ok(0));
        assert_eq!(bench.run("work", 4), 5);
        assert_eq!((bench.run("add", 0), bench.run("tally", 0)), (5, 5));
        bench.world.reload(spec(&loud())).unwrap();
        assert_eq!((bench.run("work", 4), bench.run("add", 0), bench.run("work", 4)), (1, 5, 2));
        bench.world.reload(spec(&quiet())).unwrap();
        assert_eq!((bench.run("work", 4), bench.run("tally", 0)), (5, 5));
    }
}

/// A handler of faults is text of the domain: a stub would jump through the base of somebody else.
#[test]
fn a_handler_of_faults_is_no_stub() {
    let resolver = ".text\n.globl on\n.type on,@gnu_indirect_function\non: lea other(%rip),%rax\nret\n";
    let text = resolver.to_owned() + &function("other", "ret") + &function("run", "call allow\nret");
    let world = |entry: &'static str| {
        let spec = DomainSpec::new("a").object("a.o", assemble(&text)).import("allow", Import::host("allow"));
        let builder = World::builder().domain(spec);
        builder.host_fn("allow", move |cx| Ok(cx.catch_faults(1 << 11, entry).into())).build().unwrap()
    };
    for (entry, allowed) in [("on", 0), ("other", 1)] {
        let mut world = world(entry);
        let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
        assert_eq!(run.call(&mut world, ()), Ok(allowed), "{entry}");
    }
}
