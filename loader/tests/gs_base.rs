//! The GS base of a crossing. A server whose text does not use GS runs with the base of its client.
//! Every other text must run with its own, however bindings, objects and calls came to be: with
//! another base its stores would reach the window of another domain.

mod common;
mod registers;

use common::{CALL_RAX, assemble, budgeted, function, paying, spin};
use registers::variants;
use sfi_loader::{
    DomainSpec, Entry, Import, LaneFn, Library, LibraryError, Limits, LinkRoom, Machine, Manage, Mode, Restart, Trust,
    TypedFn, World,
};
use std::cell::RefCell;
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
            Mode::ALL.into_iter().for_each(|mode| test(machine, trust, mode));
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

/// A server without GS pays for its instructions until it has none left. Its client pays, or not.
#[test]
fn a_budget_of_instructions_leaves_the_right_base() {
    let count = "incq %gs:count(%eip)\n";
    let run = format!("{count}call spin\n{count}ret");
    let seen = "mov count(%rip),%rax\nret";
    let free = COUNT.to_owned() + &function("run_spin", &run) + &function("seen", seen);
    let paid = COUNT.to_owned() + &paying("run_spin", 6, &run) + &paying("seen", 4, seen);
    for ((machine, _), trust) in variants().into_iter().flat_map(|one| Trust::ALL.map(|trust| (one, trust))) {
        for client in [DomainSpec::new("client").object("c.o", assemble(&free)), budgeted("client", &paid, 100)] {
            let import = Import::domain("server", "spin").signature("(int) -> int").trust(trust).on_fault(-9);
            let world = World::builder().machine(machine).domain(client.import("spin", import));
            let world = world.domain(budgeted("server", &spin(), 503).restart(Restart::Always));
            let mut bench = Bench::new(world.build().unwrap());
            assert!(bench.is_left("spin"));
            for _ in 0..3 {
                assert_eq!([bench.run("spin", 100), bench.run("spin", 101)], [0, -9], "{trust}");
                assert!(bench.world.domain("server").unwrap().is_dead());
            }
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

/// Between the client and a quiet server stands a domain that counts, calls the server, and calls
/// back into the client, which calls the server again. The server returns or dies on both levels,
/// and the domain between them returns or dies after all that.
#[test]
fn bases_of_nested_calls_do_not_mix() {
    const NAMES: [&str; 4] = ["work", "note", "die", "divide"];
    let count = "incq %gs:count(%eip)\n";
    let seen = function("seen", "mov count(%rip),%rax\nret");
    let mut client = COUNT.to_owned() + &seen;
    let mut middle = COUNT.to_owned() + &seen;
    for name in NAMES {
        client += &function(&format!("run_{name}"), &format!("{count}call {name}\n{count}ret"));
        client += &function(&format!("run_by_{name}"), &format!("{count}call by_{name}\n{count}ret"));
        client += &function(&format!("run_end_{name}"), &format!("{count}call end_{name}\n{count}ret"));
        let calls = format!("{count}call {name}\n{count}call run_{name}\n{count}call {name}\n{count}");
        middle += &function(&format!("by_{name}"), &(calls.clone() + "ret"));
        middle += &function(&format!("end_{name}"), &(calls + "ud2"));
    }
    each(|machine, trust, mode| {
        let to =
            |domain: &str, name: &str| Import::domain(domain, name).signature("(int) -> int").trust(trust).on_fault(-9);
        let mut front = DomainSpec::new("client").mode(mode).object("c.o", assemble(&client));
        let mut between = DomainSpec::new("between").mode(mode).object("b.o", assemble(&middle));
        for name in NAMES {
            front = front.import(name, to("server", name));
            between = between
                .import(name, to("server", name))
                .import(format!("run_{name}"), to("client", &format!("run_{name}")));
            for kind in ["by", "end"] {
                let name = format!("{kind}_{name}");
                front = front.import(&name, to("between", &name));
            }
        }
        let builder = World::builder().machine(machine).domain(front).domain(between.restart(Restart::Always));
        let mut bench = Bench::new(builder.domain(server(&quiet(), mode)).build().unwrap());
        for name in NAMES {
            assert!(bench.is_left(name));
            bench.counted += 2;
            bench.run(&format!("by_{name}"), 1);
            let counted: TypedFn<fn() -> u64> = bench.world.domain("between").unwrap().export("seen").unwrap();
            assert_eq!(counted.call(&mut bench.world, ()), Ok(4), "{name}");
            bench.counted += 2;
            assert_eq!(bench.run(&format!("end_{name}"), 1), -9, "{name}");
            bench.world.restart("between").unwrap();
            let by = bench.run(name, 1);
            assert_eq!(by, if matches!(name, "die" | "divide") { -9 } else { 2 });
        }
    });
}

thread_local! {
    /// The world that the host enters while it serves a call of another one.
    static OTHER: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// While a host function runs, its world and another one call quiet servers, which return, die and
/// overstay. Both worlds go on with the bases of their own domains.
#[test]
fn worlds_in_each_other_keep_their_bases() {
    for trust in Trust::ALL {
        let build = |calls: &str| {
            let count = "incq %gs:count(%eip)\n";
            let text = COUNT.to_owned()
                + &function("seen", "mov count(%rip),%rax\nret")
                + &function("run_host", &format!("{count}call host\n{calls}{count}ret"))
                + &["work", "die", "spin"]
                    .map(|name| function(&format!("run_{name}"), &format!("{count}call {name}\n{count}ret")))
                    .concat();
            let client = DomainSpec::new("client").object("c.o", assemble(&text)).import("host", Import::host("host"));
            let to = |name| Import::domain("server", name).signature("(int) -> int").trust(trust).on_fault(-9);
            let client = ["work", "die", "spin"].into_iter().fold(client, |spec, name| spec.import(name, to(name)));
            let world = World::builder().timed().domain(client).domain(server(&quiet(), Mode::Write));
            world.host_fn("host", |cx| {
                let own: TypedFn<fn(u64) -> i64> = cx.export("client", "run_die").unwrap();
                assert_eq!(own.call(cx, (1,)), Ok(-9));
                let work: TypedFn<fn(u64) -> i64> = cx.export("server", "work").unwrap();
                assert_eq!(work.call(cx, (1,)), Ok(2));
                // Only the outer world finds the inner one.
                let other = OTHER.with_borrow_mut(Option::take);
                if let Some(mut other) = other {
                    assert_eq!((other.run("die", 1), other.run("work", 1)), (-9, 2));
                    let spin: TypedFn<fn(u64) -> i64> =
                        other.world.domain("client").unwrap().export("run_spin").unwrap();
                    let limit = Limits::wall(Duration::from_millis(3));
                    assert_eq!(spin.call_within(&mut other.world, limit, (1,)), Ok(-9));
                    other.counted += 4;
                    assert_eq!(other.run("host", 1), 2);
                    OTHER.set(Some(other));
                }
                Ok(1)
            })
        };
        let calls = "mov $1,%edi\ncall work\n";
        let [mut outer, inner] = [calls, calls].map(|calls| Bench::new(build(calls).build().unwrap()));
        OTHER.set(Some(inner));
        for _ in 0..3 {
            // The call of the host comes back into the client.
            outer.counted += 2;
            assert_eq!(outer.run("host", 1), 2, "{trust}");
            assert_eq!((outer.run("die", 1), outer.run("work", 4)), (-9, 5), "{trust}");
        }
    }
}

/// A world moves between threads, each of which has a base of its own.
#[test]
fn a_world_that_moves_brings_its_base() {
    for trust in Trust::ALL {
        let build = || {
            let world = World::builder().domain(client(trust, Mode::Write)).domain(server(&quiet(), Mode::Write));
            Bench::new(world.build().unwrap())
        };
        let (mut moved, mut stays) = (build(), build());
        for _ in 0..3 {
            assert_eq!((moved.run("work", 1), stays.run("die", 1)), (2, -9));
            moved = std::thread::spawn(move || {
                assert_eq!((moved.run("die", 1), moved.run("note", 1)), (-9, 2));
                moved
            })
            .join()
            .unwrap();
            assert_eq!((stays.run("work", 1), moved.run("die", 1)), (2, -9));
        }
    }
}

/// Copies of a client and of a quiet server: each client's calls come back to its own window.
#[test]
fn every_instance_has_its_own_base() {
    for trust in Trust::ALL {
        let world = World::builder().domain(client(trust, Mode::Write)).domain(server(&quiet(), Mode::Write));
        let mut bench = Bench::new(world.build().unwrap());
        let copies = [0; 2].map(|_| bench.world.instantiate("client").unwrap());
        let server = bench.world.instantiate("server").unwrap();
        for round in 1..4 {
            for copy in copies {
                for (name, result) in [("work", 3), ("die", -9), ("note", 3)] {
                    let name = format!("run_{name}");
                    let run: TypedFn<fn(u64) -> i64> = bench.world.instance(copy).unwrap().export(&name).unwrap();
                    assert_eq!(run.call(&mut bench.world, (2,)), Ok(result), "{name}");
                    let work: TypedFn<fn(u64) -> u64> = bench.world.instance(server).unwrap().export("work").unwrap();
                    assert_eq!(work.call(&mut bench.world, (2,)), Ok(3));
                }
                let seen: TypedFn<fn() -> u64> = bench.world.instance(copy).unwrap().export("seen").unwrap();
                assert_eq!(seen.call(&mut bench.world, ()), Ok(6 * round));
            }
            assert_eq!((bench.run("die", 1), bench.run("work", 1)), (-9, 2));
        }
    }
}

/// In lanes a server without GS is loaded again with it, and the other way round. A client with
/// several E-stacks has a window for each.
#[test]
fn lanes_have_the_bases_of_their_clients() {
    for (trust, estacks) in Trust::ALL.into_iter().flat_map(|trust| [(trust, 1), (trust, 2)]) {
        let spread = |spec: DomainSpec| if estacks > 1 { spec.threads_exposing(estacks) } else { spec };
        let world = World::builder().domain(spread(client(trust, Mode::Write)));
        let lanes = world.domain(spread(server(&quiet(), Mode::Write))).lanes(2).unwrap();
        let mut counted = 0;
        for round in 0..6 {
            let is_quiet = round % 2 == 0;
            let mut both = [lanes.enter().unwrap(), lanes.enter().unwrap()];
            for (turn, number) in [0, 1, 1, 0].into_iter().enumerate() {
                let lane = &mut both[number];
                let mut run = |name: &str, argument: u64| {
                    let run: LaneFn<fn(u64) -> i64> = LaneFn::new("client", format!("run_{name}"));
                    let result = run.call(lane, (argument,)).unwrap();
                    counted += 2;
                    assert_eq!(LaneFn::<fn() -> u64>::new("client", "seen").call(lane, ()), Ok(counted));
                    result
                };
                if is_quiet {
                    assert_eq!([run("work", 3), run("die", 3), run("note", 5), run("divide", 1)], [4, -9, 6, -9]);
                } else {
                    assert_eq!([run("work", 3), run("die", 3)], [1, 2].map(|n| n + 2 * turn as i64));
                }
            }
            drop(both);
            let next = server(&if is_quiet { loud() } else { quiet() }, Mode::Write);
            lanes.reload(spread(next), Duration::from_secs(30)).unwrap();
        }
    }
}
