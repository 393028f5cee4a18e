//! Trust levels: the values that each lets through, and those that none lets through. A server that
//! abuses its client's trust harms that client's values, never the host, the client's own clients,
//! or values that third parties left in registers.
#![allow(clippy::type_complexity)]

mod common;
mod registers;
use common::{assemble, function};
use registers::*;
use sfi_loader::{CallError, DomainSpec, FaultKind, Import, Mode, Trust, TypedFn, World};

/// Builds a client that plants secrets, calls and dumps, and a server that dumps, plants, or plants
/// and faults.
fn pair(trust: Trust, signature: &str, width: Width) -> World {
    let client = data()
        + &function("show", &(plant(width) + "call see\nret"))
        + &function("look", &(plant(width) + "call leave\n" + &dump(width) + "ret"))
        + &function("rue", &(plant(width) + "call fault\n" + &dump(width) + "ret"));
    // A trustworthy server preserves the registers that functions preserve.
    let server = data()
        + &function("see", &(dump(width) + "ret"))
        + &function("leave", &(save() + &plant(width) + &load("%gs:") + "mov $9,%eax\nret"))
        + &function("fault", &(plant(width) + "mov secret(%rip),%r15\nxor %ebx,%ebx\nxor %r14d,%r14d\nud2"))
        + ".bss\nkept: .skip 64\n";
    let import = |name: &str| Import::domain("server", name).signature(signature).trust(trust).on_fault(3);
    World::builder()
        .domain(
            DomainSpec::new("client")
                .object("client.o", assemble(&client))
                .import("see", import("see"))
                .import("leave", import("leave"))
                .import("fault", import("fault")),
        )
        .domain(DomainSpec::new("server").object("server.o", assemble(&server)))
        .build()
        .unwrap()
}

/// Returns code that stores the preserved registers and the control words.
fn save() -> String {
    let registers: String =
        PRESERVED.iter().enumerate().map(|(i, r)| format!("mov %{r},%gs:kept+{}(%eip)\n", 8 * i)).collect();
    registers + "stmxcsr %gs:kept+48(%eip)\nfnstcw %gs:kept+52(%eip)\n"
}

fn load(segment: &str) -> String {
    let registers: String =
        PRESERVED.iter().enumerate().map(|(i, r)| format!("mov {segment}kept+{}(%eip),%{r}\n", 8 * i)).collect();
    registers + "ldmxcsr kept+48(%rip)\nfldcw kept+52(%rip)\n"
}

fn run(world: &mut World, domain: &str, name: &str) -> Result<u64, CallError> {
    let f: TypedFn<fn() -> u64> = world.domain(domain).unwrap().export(name).unwrap();
    f.call(world, ())
}

#[test]
fn a_trusted_server_sees_what_its_client_left_and_no_other_level_shows_it() {
    for width in widths() {
        for trust in Trust::ALL {
            let mut world = pair(trust, "() -> int", width);
            run(&mut world, "client", "show").unwrap();
            let seen = take(&mut world, "server");
            if trust == Trust::MutualDistrust {
                check_gprs(&seen, &world, "server", &[]);
                seen.check_vectors(width, &[]);
            } else {
                // The addresses of the gate's own records never pass.
                assert!(["rax", "r10", "r11"].iter().all(|r| seen.gpr(r) == 0));
                assert!(["rbx", "rdi", "r9", "r14"].iter().all(|r| seen.gpr(r) == SECRET));
                assert_eq!(seen.word(VECTORS + 64 * 9 + 8), SECRET);
            }
            // An untrusted client cannot make its server trap.
            if trust != Trust::TrustedBoth {
                assert_eq!(seen.mxcsr(), 0x1f80);
                seen.check_x87(0x37f);
            }
        }
    }
}

#[test]
fn a_client_sees_what_its_server_left_only_if_both_are_trusted() {
    for width in widths() {
        for trust in Trust::ALL {
            let mut world = pair(trust, "() -> int", width);
            run(&mut world, "client", "look").unwrap();
            let seen = take(&mut world, "client");
            let preserved = ["rbx", "rbp", "r12", "r13", "r14"].map(|r| (r, SECRET));
            if trust == Trust::TrustedBoth {
                assert!(["rcx", "rsi", "rdi", "r8", "r9", "r10", "r11"].iter().all(|r| seen.gpr(r) == 0));
                assert_eq!((seen.gpr("rax"), seen.gpr("rdx")), (9, SECRET));
                assert_eq!(seen.word(VECTORS + 64 * 9 + 8), SECRET);
            } else {
                check_gprs(&seen, &world, "client", &[&preserved[..], &[("rax", 9)]].concat());
                seen.check_vectors(width, &[]);
                seen.check_x87(0x0f7f);
            }
            assert!(preserved.iter().all(|(r, v)| seen.gpr(r) == *v), "preserved registers");
            assert_eq!(seen.mxcsr(), 0x7fbf);
        }
    }
}

/// After a fault the client gets its preserved registers back and sees nothing of the server, at
/// any level of trust.
#[test]
fn a_fault_restores_and_hides_at_every_level() {
    for width in widths() {
        for trust in Trust::ALL {
            let mut world = pair(trust, "() -> int", width);
            run(&mut world, "client", "rue").unwrap();
            let seen = take(&mut world, "client");
            let preserved = ["rbx", "rbp", "r12", "r13", "r14"].map(|r| (r, SECRET));
            check_gprs(&seen, &world, "client", &[&preserved[..], &[("rax", 3)]].concat());
            for register in 0..16 {
                assert!((0..4).all(|word| seen.word(VECTORS + 64 * register + 8 * word) == 0), "vector {register}");
            }
            assert!(world.domain("server").unwrap().is_dead() && !world.domain("client").unwrap().is_dead());
        }
    }
}

/// Builds three domains: front plants and calls middle with trust `outer`, which calls back with
/// trust `inner`. Middle's text names the registers in `names` and the stack.
fn chain(outer: Trust, inner: Trust, width: Width, names: &str) -> World {
    let front = data()
        + &function("show", &(plant(width) + "call pass_see\nret"))
        + &function("look", &(plant(width) + "call pass_leave\n" + &dump(width) + "ret"))
        + &function("rue", &(plant(width) + "call pass_back\n" + &dump(width) + "ret"))
        + &function("host", &(plant(width) + "call pass_host\n" + &dump(width) + "ret"));
    let middle = function("pass_see", "call see\nret")
        + &function("pass_leave", "call leave\nret")
        + &function("pass_back", "call back\nret")
        + &function("pass_host", "lea die(%rip),%rdi\ncall host\nret")
        + &function("die", "ud2")
        + &function("names", &format!("{names}\nret"));
    // The hostile domain changes everything and restores nothing.
    let back = data()
        + &function("see", &(dump(width) + "ret"))
        + &function("leave", &(plant(width) + "mov secret(%rip),%r15\nxor %ebx,%ebx\nxor %r13d,%r13d\nret"))
        + &function("back", &("call die\n".to_owned() + &plant(width) + "xor %ebx,%ebx\nxor %r12d,%r12d\nret"));
    let to =
        |domain: &str, name: &str, trust| Import::domain(domain, name).signature("() -> void").trust(trust).on_fault(3);
    World::builder()
        .domain(
            DomainSpec::new("front")
                .object("front.o", assemble(&front))
                .import("pass_see", to("middle", "pass_see", outer))
                .import("pass_leave", to("middle", "pass_leave", outer))
                .import("pass_back", to("middle", "pass_back", outer))
                .import("pass_host", to("middle", "pass_host", outer)),
        )
        .domain(
            DomainSpec::new("middle")
                .object("middle.o", assemble(&middle))
                .import("see", to("back", "see", inner))
                .import("leave", to("back", "leave", inner))
                .import("back", to("back", "back", inner))
                .import("host", Import::host("host").signature("(int) -> int")),
        )
        .domain(
            DomainSpec::new("back")
                .object("back.o", assemble(&back))
                .import("die", to("middle", "die", Trust::MutualDistrust)),
        )
        .host_fn("host", |cx| {
            let die = cx.function::<fn()>(cx.arg(0))?;
            assert!(matches!(die.call(cx, ()), Err(CallError::Fault(_))));
            Ok(0)
        })
        .build()
        .unwrap()
}

/// The registers that middle names: none, or a part of each group.
const NAMES: [&str; 4] =
    ["", "mov %rbx,%rax", "movaps %xmm3,%xmm0", "mov %r12,%rax\nvpxor %ymm2,%ymm2,%ymm2\nstmxcsr %gs:(%eax)\nfldz"];

/// A domain cannot pass on trust for registers that it does not name, because their values belong
/// to others.
#[test]
fn trust_never_covers_third_parties_on_the_way_in() {
    for width in widths() {
        for inner in Trust::ALL {
            for names in NAMES {
                let mut world = chain(Trust::MutualDistrust, inner, width, names);
                run(&mut world, "front", "show").unwrap();
                let seen = take(&mut world, "back");
                check_gprs(&seen, &world, "back", &[]);
                seen.check_vectors(width, &[]);
                seen.check_x87(0x37f);
                assert_eq!(seen.mxcsr(), 0x1f80, "{inner}, {names}");
            }
        }
    }
}

#[test]
fn trust_never_covers_third_parties_on_the_way_out() {
    for width in widths() {
        for inner in Trust::ALL {
            for names in NAMES {
                let mut world = chain(Trust::MutualDistrust, inner, width, names);
                run(&mut world, "front", "look").unwrap();
                check_front(&mut world, width, 0, &format!("{inner}, {names}"));
            }
        }
    }
}

/// Checks that front finds its own values and nothing else.
fn check_front(world: &mut World, width: Width, result: u64, what: &str) {
    let seen = take(world, "front");
    for r in ["rbx", "rbp", "r12", "r13", "r14"] {
        assert_eq!(seen.gpr(r), SECRET, "{what}: {r}");
    }
    let preserved = ["rbx", "rbp", "r12", "r13", "r14"].map(|r| (r, SECRET));
    check_gprs(&seen, world, "front", &[&preserved[..], &[("rax", result)]].concat());
    seen.check_vectors(width, &[]);
    seen.check_x87(0x0f7f);
    assert_eq!(seen.mxcsr(), 0x7fbf, "{what}");
}

/// Middle dies while a domain that it called runs, or a host function. The frames below it did not
/// save the registers that middle does not name.
#[test]
fn a_domain_that_dies_in_the_middle_costs_its_client_no_register() {
    for width in widths() {
        for inner in Trust::ALL {
            for names in NAMES {
                for way in ["rue", "host"] {
                    let mut world = chain(Trust::MutualDistrust, inner, width, names);
                    run(&mut world, "front", way).unwrap();
                    assert!(world.domain("middle").unwrap().is_dead());
                    assert!(!world.domain("front").unwrap().is_dead() && !world.domain("back").unwrap().is_dead());
                    check_front(&mut world, width, 3, &format!("{way}, {inner}, {names}"));
                }
            }
        }
    }
}

/// A server that does not deserve trust can change its client's preserved registers. At the level
/// of distrust it cannot.
#[test]
fn a_hostile_server_harms_those_who_trust_it_only() {
    for trust in Trust::ALL {
        let client = function(
            "run",
            "mov $7,%ebx\nmov %r15,%r12\ncall work\nmov %rbx,%rax\ncmp %r12,%r15\nje 1f\nadd $100,%rax\n1: ret",
        );
        let server = function("work", "mov $1,%ebx\nmov $2,%r15d\nret");
        let mut world = World::builder()
            .domain(
                DomainSpec::new("client")
                    .object("client.o", assemble(&client))
                    .import("work", Import::domain("server", "work").signature("() -> void").trust(trust)),
            )
            .domain(DomainSpec::new("server").object("server.o", assemble(&server)))
            .build()
            .unwrap();
        // r15 is the data stack, which the gate switches at every level.
        let expected = if trust == Trust::MutualDistrust { 7 } else { 1 };
        assert_eq!(run(&mut world, "client", "run"), Ok(expected), "{trust}");
    }
}

/// An x87 exception that a client left pending does not reach a third domain. A domain that only
/// waits for exceptions does not trap on it.
#[test]
fn waiting_for_x87_finds_nobody_elses_exception() {
    let pend = "fninit\nfld1\nfldz\nfdivrp\nfldcw unmask(%rip)\n";
    let front = function("run", &format!("{pend}call pass\nfninit\nret"))
        + &function("trap", &format!("{pend}fwait\nret"))
        + ".section .rodata\nunmask: .word 0x33b\n.text\n";
    let back = function("wait", "fwait\nmov $5,%eax\nret");
    let to =
        |domain: &str, name: &str, trust| Import::domain(domain, name).signature("() -> int").trust(trust).on_fault(-1);
    for outer in Trust::ALL {
        for inner in Trust::ALL {
            let mut world = World::builder()
                .domain(
                    DomainSpec::new("front")
                        .object("front.o", assemble(&front))
                        .import("pass", to("middle", "pass", outer)),
                )
                .domain(
                    DomainSpec::new("middle")
                        .object("middle.o", assemble(&function("pass", "call wait\nret")))
                        .import("wait", to("back", "wait", inner)),
                )
                .domain(DomainSpec::new("back").object("back.o", assemble(&back)))
                .build()
                .unwrap();
            assert_eq!(run(&mut world, "front", "run"), Ok(5), "{outer}, {inner}");
            assert!(!world.domain("back").unwrap().is_dead(), "{outer}, {inner}");
            // A domain's own exception does trap.
            let Err(CallError::Fault(fault)) = run(&mut world, "front", "trap") else { panic!("no trap") };
            assert_eq!(fault.kind, FaultKind::FloatingPoint);
        }
    }
}

/// Nine arguments need words on the stack. An image that names `__sfi_client_stack` reads them on
/// the client's stack if it may read there and its client trusts it.
#[test]
fn stack_arguments_are_read_on_the_clients_stack() {
    let signature = format!("({}) -> int", ["int"; 9].join(", "));
    let client = function(
        "run",
        "lea -32(%r15),%r15\nmovq $7,%gs:(%r15d)\nmovq $8,%gs:8(%r15d)\nmovq $9,%gs:16(%r15d)\ncall pick\nlea 32(%r15),%r15\nret",
    ) + &function(
        "wild",
        "mov %r15,%r12\nmov %rdi,%r15\ncall pick\nmov __sfi_error(%rip),%ecx\nmov %r12,%r15\nmov %rcx,%rax\nret",
    );
    let sum = |prefix: &str, base: &str| {
        format!(
            "mov {prefix}({base}),%rax\nimul $10,%rax\nadd {prefix}8({base}),%rax\nimul $10,%rax\nadd {prefix}16({base}),%rax\n"
        )
    };
    let copied = function("pick", &(sum("", "%r15") + "ret"));
    let in_place = function("pick", &("mov __sfi_client_stack(%rip),%r11\n".to_owned() + &sum("", "%r11") + "ret"));
    let confined = function("pick", &(sum("%gs:", "%r15d") + "mov __sfi_client_stack(%rip),%r11\nret"));
    for trust in Trust::ALL {
        for (server, mode, in_its_place) in
            [(&copied, Mode::Write, false), (&in_place, Mode::Write, true), (&confined, Mode::Full, true)]
        {
            let import = Import::domain("server", "pick").signature(&signature).trust(trust);
            let mut world = World::builder()
                .domain(DomainSpec::new("client").object("client.o", assemble(&client)).import("pick", import))
                .domain(DomainSpec::new("server").mode(mode).object("server.o", assemble(server)))
                .build()
                .unwrap();
            let report = world.bindings()[0].to_string();
            let read = in_its_place && mode != Mode::Full && trust != Trust::MutualDistrust;
            assert_eq!(report.contains("3 stack words read on the client's stack"), read, "{report}");
            assert_eq!(report.contains("3 stack words copied"), !read, "{report}");
            if in_its_place && trust == Trust::MutualDistrust && mode != Mode::Full {
                continue; // nobody gave it an address
            }
            assert_eq!(run(&mut world, "client", "run"), Ok(789), "{report}");
            // For any stack pointer of the client, the server reads nowhere else.
            let wild: TypedFn<fn(u64) -> u64> = world.domain("client").unwrap().export("wild").unwrap();
            let base = world.domain("client").unwrap().secret_base();
            for at in [0, 1 << 20, base + 0x30_0000, u64::MAX, base + 0xffff_fff8] {
                assert_eq!(wild.call(&mut world, (at,)), Ok(sfi_loader::Status::Arguments.into()), "{report}");
            }
            assert_eq!(run(&mut world, "client", "run"), Ok(789), "{report}");
        }
    }
}

/// The reports of bindings show the decisions.
#[test]
fn bindings_are_explained() {
    let world = pair(Trust::TrustedServer, "() -> int", Width::Ymm);
    let text: Vec<String> = world.bindings().iter().map(ToString::to_string).collect();
    assert!(text[0].starts_with("client `see` -> server `see`, trusted-server, () -> int\n"), "{}", text[0]);
    assert!(
        text[0].contains("saved for failures; cleared in: x87; cleared out: integer registers, zmm0-15, x87"),
        "{}",
        text[0]
    );
    let world = chain(Trust::MutualDistrust, Trust::TrustedBoth, Width::Ymm, "");
    let text: Vec<String> = world.bindings().iter().map(ToString::to_string).collect();
    assert!(text[0].contains("mutual-distrust") && text[0].contains("preserved registers left alone"), "{}", text[0]);
    assert!(text[4].contains("trusted-both") && text[4].contains("saved, cleared, restored"), "{}", text[4]);
    assert!(text.iter().any(|t| t.starts_with("middle `host` -> (host) `host`, (int) -> int\n")), "{text:?}");
}

/// A domain that names no vector register hands floats on, and no values that others left there.
#[test]
fn floats_pass_through_a_domain_that_does_not_name_them() {
    for width in widths() {
        for inner in Trust::ALL {
            for declared in [true, false] {
                let front = data()
                    + &function("run", &(plant(width) + "movsd seven(%rip),%xmm0\ncall pass\n" + &dump(width) + "ret"))
                    + ".section .rodata\nseven: .double 7.0\n";
                let middle = function("pass", "call half\nret");
                let half = dump(width) + &plant(width) + "mov $0x400c000000000000,%rax\nmovq %rax,%xmm0\nret";
                let mut import = Import::domain("back", "half").trust(inner);
                if declared {
                    import = import.signature("(float) -> float");
                }
                let mut world = World::builder()
                    .domain(
                        DomainSpec::new("front")
                            .object("front.o", assemble(&front))
                            .import("pass", Import::domain("middle", "pass").signature("(float) -> float")),
                    )
                    .domain(DomainSpec::new("middle").object("middle.o", assemble(&middle)).import("half", import))
                    .domain(DomainSpec::new("back").object("back.o", assemble(&(data() + &function("half", &half)))))
                    .build()
                    .unwrap();
                run(&mut world, "front", "run").unwrap();
                take(&mut world, "back").check_vectors(width, &[(0, 7f64.to_bits())]);
                take(&mut world, "front").check_vectors(width, &[(0, 3.5f64.to_bits())]);
            }
        }
    }
}
