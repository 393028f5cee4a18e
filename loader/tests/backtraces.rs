//! Faults name file and line, and the calls that led to them, across domains and the host.

mod common;
use common::{assemble, function};
use sfi_loader::{CallError, DomainSpec, Fault, FaultKind, Import, TypedFn, World};

/// Returns a function with a line table: `line N` becomes a `.loc` of that line of `file`.
fn lined(file: &str, name: &str, body: &str) -> String {
    let body = body.replace("line ", ".loc 1 ");
    format!(".file 1 \"{file}\"\n{}", function(name, &body))
}

/// Assembles the text with a compilation unit around it, so that the line table is found.
fn unit(file: &str, text: &str) -> Vec<u8> {
    assemble(&format!(
        ".text\n.Lstart:\n{text}\n.text\n.Lend:\n\
         .section .debug_info,\"\",@progbits\n\
         .long .Linfo_end-.Linfo\n.Linfo:\n.value 4\n.long 0\n.byte 8\n\
         .uleb128 1\n.asciz \"{file}\"\n.asciz \"/src\"\n.quad .Lstart\n.quad .Lend-.Lstart\n.long 0\n\
         .Linfo_end:\n\
         .section .debug_abbrev,\"\",@progbits\n\
         .uleb128 1\n.uleb128 0x11\n.byte 0\n\
         .uleb128 0x3\n.uleb128 0x8\n.uleb128 0x1b\n.uleb128 0x8\n.uleb128 0x11\n.uleb128 0x1\n\
         .uleb128 0x12\n.uleb128 0x7\n.uleb128 0x10\n.uleb128 0x17\n.byte 0\n.byte 0\n.byte 0\n"
    ))
}

/// Returns the frames as `domain:function@file:line`.
fn shape(fault: &Fault) -> Vec<String> {
    let frames = fault.backtrace().frames;
    let one = |f: &sfi_loader::Frame| match (&f.domain, &f.function) {
        (None, _) => "host".to_owned(),
        (Some(domain), function) => {
            let source = f.source.first().map_or(String::new(), |s| format!("@{s}"));
            format!("{domain}:{}{source}", function.as_deref().unwrap_or("?"))
        }
    };
    frames.iter().map(one).collect()
}

const CRASH: &str = "line 7\nmovl $1,%gs:(%edi)\nline 8\nret";

#[test]
fn a_fault_names_its_line_and_its_callers() {
    let text = lined("a.c", "crash", CRASH)
        + &lined("a.c", "middle", "line 20\nnop\nline 21\ncall crash\nline 22\nret")
        + &lined("a.c", "run", "line 30\ncall middle\nline 31\nret");
    let mut world = World::builder().domain(DomainSpec::new("app").object("a.o", unit("a.c", &text))).build().unwrap();
    let f: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
    let Err(CallError::Fault(fault)) = f.call(&mut world, (0,)) else { panic!() };
    assert_eq!(fault.to_string(), "domain `app`: null pointer access in `crash`+0x0 at /src/a.c:7");
    assert_eq!(shape(&fault), ["app:crash@/src/a.c:7", "app:middle@/src/a.c:21", "app:run@/src/a.c:30", "host"]);
    let text = fault.backtrace().to_string();
    assert_eq!(
        text,
        "   0: app: crash+0x0 at /src/a.c:7\n   1: app: middle+0x5 at /src/a.c:21\n   2: app: run+0x4 at /src/a.c:30\n   3: host\n"
    );
    // The fault can be named after the world is dropped, and shows no address.
    let base = format!("{:x}", world.domain("app").unwrap().secret_base() >> 32);
    assert!(!text.contains(&base));
    drop(world);
    assert_eq!(fault.backtrace().to_string(), text);
}

#[test]
fn without_debug_information_functions_are_named() {
    let text = function("crash", "movl $1,%gs:(%edi)\nret") + &function("run", "call crash\nret");
    let mut world = World::builder().domain(DomainSpec::new("app").object("a.o", assemble(&text))).build().unwrap();
    let f: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
    let Err(CallError::Fault(fault)) = f.call(&mut world, (0,)) else { panic!() };
    assert_eq!(fault.to_string(), "domain `app`: null pointer access in `crash`+0x0");
    assert_eq!(shape(&fault), ["app:crash", "app:run", "host"]);
    assert!(fault.source().is_empty());
}

#[test]
fn calls_between_domains_and_through_the_host_are_followed() {
    let inner = unit("inner.c", &lined("inner.c", "crash", CRASH));
    let app = unit(
        "app.c",
        &(lined("app.c", "run", "line 5\ncall step\nret") + &lined("app.c", "step", "line 9\ncall crash\nret")),
    );
    let start = lined("outer.c", "start", "line 3\nlea again(%rip),%rdi\nline 4\ncall back\nret");
    let outer = unit("outer.c", &(start + &lined("outer.c", "again", "line 9\ncall run\nret")));
    let mut world = World::builder()
        .domain(DomainSpec::new("inner").object("inner.o", inner))
        .domain(DomainSpec::new("app").object("app.o", app).import("crash", Import::domain("inner", "crash")))
        .domain(
            DomainSpec::new("outer")
                .object("outer.o", outer)
                .import("back", Import::host("back"))
                .import("run", Import::domain("app", "run")),
        )
        .host_fn("back", |cx| {
            let again: TypedFn<fn(u64) -> u64> = cx.function(cx.arg(0))?;
            Ok(again.call(cx, (0,))?)
        })
        .build()
        .unwrap();
    let f: TypedFn<fn() -> u64> = world.domain("outer").unwrap().export("start").unwrap();
    f.call(&mut world, ()).expect("only the innermost domain is dead");
    let fault = world.domain("inner").unwrap().last_fault().expect("a fault");
    assert_eq!(
        shape(&fault),
        [
            "inner:crash@/src/inner.c:7",
            "app:step@/src/app.c:9",
            "app:run@/src/app.c:5",
            "outer:again@/src/outer.c:9",
            "host",
            "outer:start@/src/outer.c:4",
            "host"
        ]
    );
}

#[test]
fn deep_recursion_is_cut_and_wild_branches_name_the_branch() {
    let text = lined("a.c", "deep", "line 4\ncall deep\nret")
        + &lined(
            "a.c",
            "wild",
            "line 8\nxor %eax,%eax\nand $0xffff8,%eax\nline 9\ncall *%gs:__sfi_dispatch(%eax)\nret",
        )
        + &lined("a.c", "outside", "line 12\ncall wild\nret");
    let mut world = World::builder().domain(DomainSpec::new("app").object("a.o", unit("a.c", &text))).build().unwrap();
    let deep: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("deep").unwrap();
    let Err(CallError::Fault(fault)) = deep.call(&mut world, ()) else { panic!() };
    assert_eq!(fault.kind, FaultKind::ControlStackOverflow);
    let trace = fault.backtrace();
    assert!(trace.frames.len() < 64 && trace.more > 100_000, "{} {}", trace.frames.len(), trace.more);
    assert!(trace.frames.iter().all(|f| f.function.as_deref() == Some("deep") && f.source[0].line == Some(4)));
    assert!(trace.to_string().ends_with(" more\n"));
    world.restart("app").unwrap();
    let wild: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("outside").unwrap();
    let Err(CallError::Fault(fault)) = wild.call(&mut world, ()) else { panic!() };
    assert_eq!(fault.kind, FaultKind::WildBranch);
    assert_eq!(shape(&fault), ["app:wild@/src/a.c:9", "app:outside@/src/a.c:12", "host"]);
}

#[test]
fn hostile_debug_information_only_gives_wrong_answers() {
    let text = lined("a.c", "crash", CRASH) + &lined("a.c", "run", "line 30\ncall crash\nret");
    let object = unit("a.c", &text);
    let parsed = sfi_verifier::elf::parse(&object).unwrap();
    let ranges: Vec<(usize, usize)> = parsed
        .sections
        .iter()
        .filter(|s| s.name.starts_with(".debug_") && !s.data.is_empty())
        .map(|s| (s.offset as usize, s.data.len()))
        .collect();
    assert_eq!(ranges.len(), 3);
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    let mut wrong = 0;
    for _ in 0..200 {
        let mut mutated = object.clone();
        for _ in 0..1 + next() % 6 {
            let (start, size) = ranges[next() % ranges.len()];
            mutated[start + next() % size] = next() as u8;
        }
        let mut world = World::builder().domain(DomainSpec::new("app").object("a.o", mutated)).build().unwrap();
        let f: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export("run").unwrap();
        let Err(CallError::Fault(fault)) = f.call(&mut world, (0,)) else { panic!() };
        let text = format!("{fault}\n{}", fault.backtrace());
        assert!(text.starts_with("domain `app`: null pointer access in `crash`+0x0"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && text.len() < 8192, "{text:?}");
        wrong += usize::from(!text.contains("/src/a.c:7"));
    }
    assert!(wrong > 20, "{wrong}");
}

/// Shows recursion once, by one function and by several in turn, with the frames inside and outside
/// of it.
#[test]
fn recursion_is_written_once() {
    let step = |name: &str, next: &str| function(name, &format!("dec %edi\njz crash\ncall {next}\nret"));
    let text = step("alone", "alone")
        + &step("ping", "pong")
        + &step("pong", "ping")
        + &function("crash", "movl $1,%gs:(%edi)\nret")
        + &function("run", "call alone\nret")
        + &function("turns", "call ping\nret");
    let mut world = World::builder().domain(DomainSpec::new("app").object("a.o", assemble(&text))).build().unwrap();
    for (name, times, expected) in [
        ("run", 20, vec!["0: app: crash", "1: app: alone", "the same call 18 times more", "20: app: run", "21: host"]),
        ("run", 3, vec!["0: app: crash", "1: app: alone", "2: app: alone", "3: app: run", "4: host"]),
        (
            "turns",
            21,
            vec![
                "0: app: crash",
                "1: app: pong",
                "2: app: ping",
                "the same 2 calls 9 times more",
                "21: app: turns",
                "22: host",
            ],
        ),
        ("run", 1000, vec!["0: app: crash", "1: app: alone", "the same call 47 times more", "and 953 more"]),
    ] {
        let f: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export(name).unwrap();
        let Err(CallError::Fault(fault)) = f.call(&mut world, (times,)) else { panic!("no fault") };
        let text = fault.backtrace().to_string();
        let lines: Vec<&str> = text.lines().map(|line| line.split('+').next().unwrap().trim()).collect();
        assert_eq!(lines, expected, "{text}");
        world.restart("app").unwrap();
    }
}
