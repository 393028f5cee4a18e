//! Functions that cross: a domain passes its own to another domain or to the host, and the host
//! passes closures to a domain. The tests check their targets, their lifetime, and forged, stale
//! and failing pointers.

use sfi_contract::layout::DISPATCH_SIZE;
use sfi_loader::{
    BindError, BuildError, CallError, DomainSpec, FaultKind, HostError, Import, Manage, Mode, Owner, Pointer, Restart,
    Status, Trust, TypedFn, World,
};
use sfi_tests::sandbox;
use std::collections::HashMap;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/callbacks/");
const MODES: [Mode; 3] = [Mode::Write, Mode::Full, Mode::Match];
const UNARY: &str = "(fn(int) -> int, int) -> int";
const ON_FAULT: i64 = -7777;
const WINDOW: u64 = 1 << 32;

/// Returns a fixture, compiled and rewritten once.
fn object(name: &'static str, mode: Mode) -> Vec<u8> {
    type Made = HashMap<(&'static str, Mode), Vec<u8>>;
    static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((name, mode)).or_insert_with(|| compile(name, mode)).clone()
}

fn compile(name: &str, mode: Mode) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("out.o");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-g", "-fPIC", "-fcf-protection=none", "-fno-stack-protector"]);
    compiler.args(["-fno-optimize-sibling-calls", "-c"]).arg(format!("{FOLDER}{name}.c"));
    assert!(compiler.arg("-o").arg(&object).status().unwrap().success());
    sandbox::rewrite(&std::fs::read(&object).unwrap(), mode).unwrap()
}

/// Describes `app`, with the trust that it puts into `lib`.
fn app(mode: Mode, trust: Trust) -> DomainSpec {
    client("app", mode, trust)
}

fn client(name: &str, mode: Mode, trust: Trust) -> DomainSpec {
    let imports = [
        ("apply", UNARY),
        ("apply_float", "(fn(float) -> float, float) -> float"),
        ("keep", "(fn(int) -> int) -> int"),
        ("call_kept", "(int) -> int"),
        ("is_kept", "(fn(int) -> int) -> int"),
        ("relay", UNARY),
        ("mixed", "(int, fn(int) -> int, float, fn(int) -> int) -> int"),
        ("look", "(ptr) -> int"),
        ("seen", "(ptr) -> int"),
        ("back", "(ptr) -> ptr"),
        ("back_with", "(fn(int) -> int, ptr) -> ptr"),
        ("find", "(int) -> ptr"),
    ];
    let mut spec = DomainSpec::new(name).mode(mode).object("app.o", object("app", mode));
    for (name, signature) in imports {
        spec = spec.import(name, Import::domain("lib", name).signature(signature).trust(trust).on_fault(ON_FAULT));
    }
    for (name, signature) in [("host_apply", UNARY), ("host_look", "(ptr) -> int"), ("host_upset", UNARY)] {
        spec = spec.import(name, Import::host(name).signature(signature).on_fault(ON_FAULT));
    }
    spec
}

fn lib(mode: Mode, trust: Trust) -> DomainSpec {
    let third = Import::domain("third", "apply_third").signature(UNARY).trust(trust).on_fault(ON_FAULT);
    DomainSpec::new("lib").mode(mode).object("lib.o", object("lib", mode)).import("apply_third", third)
}

fn third(mode: Mode) -> DomainSpec {
    DomainSpec::new("third").mode(mode).object("third.o", object("third", mode))
}

fn builder(app: DomainSpec, lib: DomainSpec, mode: Mode) -> sfi_loader::Builder {
    World::builder()
        .domain(app)
        .domain(lib)
        .domain(third(mode))
        .host_fn("host_apply", |cx| {
            let Some(function) = cx.passed(0)? else { return Ok(1000) };
            let argument = cx.arg(1);
            Ok(function.call(cx, &[argument])? + 5)
        })
        .host_fn("host_look", |cx| Ok(u64::from(cx.arg(0) != 0)))
        .host_fn("host_upset", |cx| match cx.arg(1) {
            0 => panic!("upset"),
            1 => {
                for name in ["lib", "app"] {
                    let error = cx.reload(DomainSpec::new(name));
                    assert!(matches!(error, Err(BuildError::Bind(BindError::Active { .. }))));
                }
                Ok(1)
            }
            2 => cx.disconnect("app", "apply").map(|()| 2).map_err(|e| HostError::new(e.to_string())),
            _ => Err(HostError::new("upset")),
        })
}

fn world(mode: Mode, trust: Trust) -> World {
    builder(app(mode, trust), lib(mode, trust), mode).build().unwrap()
}

fn call(world: &mut World, domain: &str, name: &str, arguments: (i64, i64)) -> i64 {
    try_call(world, domain, name, arguments).unwrap_or_else(|error| panic!("{domain}.{name}: {error}"))
}

fn try_call(world: &mut World, domain: &str, name: &str, arguments: (i64, i64)) -> Result<i64, CallError> {
    let function: TypedFn<fn(i64, i64) -> i64> = world.domain(domain).unwrap().export(name).unwrap();
    function.call(world, arguments)
}

fn run(world: &mut World, name: &str, argument: i64) -> i64 {
    call(world, "app", name, (argument, 0))
}

fn error(world: &mut World, domain: &str) -> u64 {
    call(world, domain, "take_error", (0, 0)) as u64
}

fn each(mut body: impl FnMut(World, Mode, Trust)) {
    for mode in MODES {
        for trust in Trust::ALL {
            body(world(mode, trust), mode, trust);
        }
    }
}

#[test]
fn a_function_that_crosses_is_the_callers_own() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run", 21), 42, "{mode:?} {trust}");
        assert_eq!(run(&mut world, "run_other", 21), 63);
        assert_eq!(run(&mut world, "run_null", 21), -1000);
        assert_eq!(run(&mut world, "run_factorial", 10), 3_628_800);
        assert_eq!(run(&mut world, "run_mixed", 0), 1 + 1000 + 210_000);
        let float: TypedFn<fn(f64) -> f64> = world.domain("app").unwrap().export("run_float").unwrap();
        assert_eq!(float.call(&mut world, (5.0,)), Ok(3.5));
        assert_eq!(run(&mut world, "run_host", 21), 47);
        assert_eq!(run(&mut world, "run_host_null", 21), 1000);
        assert_eq!(error(&mut world, "app"), 0);
    });
}

#[test]
fn a_function_is_passed_on() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run_relay", 21), 43, "{mode:?} {trust}");
        // app -> lib -> third -> lib -> app, each time deeper.
        assert_eq!(run(&mut world, "run_deeper", 5), 11);
        assert_eq!((error(&mut world, "app"), error(&mut world, "lib")), (0, 0));
    });
}

/// Each call that passes functions, and each call back to a domain from such a call, is a call by
/// the host within a call of the host.
#[test]
fn recursion_through_functions_ends_in_an_error() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run_factorial", 20), 2_432_902_008_176_640_000);
        run(&mut world, "run_factorial", 1000);
        assert_eq!(error(&mut world, "app"), Status::Refused as u64, "{mode:?} {trust}");
        assert_eq!(run(&mut world, "run", 21), 42);
    });
}

#[test]
fn pointers_of_one_function_are_equal() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run_equal", 0), 1, "{mode:?} {trust}");
    });
}

#[test]
fn a_function_ends_with_the_call_that_passed_it() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run_keep", 0), 0);
        assert_eq!(run(&mut world, "run_kept", 4), -1, "{mode:?} {trust}");
        assert_eq!((error(&mut world, "lib"), error(&mut world, "app")), (Status::Unbound as u64, 0));
        assert_eq!(run(&mut world, "called", 0), 0);
        // The gateway keeps the name of this function: functions that are passed later do not take
        // its place.
        for which in 0..60 {
            assert_eq!(call(&mut world, "app", "number", (which, 0)), 10 + which / 8 * 10 + which % 8);
            assert_eq!(run(&mut world, "run_kept", 4), -1);
        }
        // It stays closed while another function is lent.
        assert_eq!(run(&mut world, "run_kept_within", 4), 0);
        assert_eq!(run(&mut world, "called", 0), 0);
        // It works again when it is passed again.
        assert_eq!(run(&mut world, "run", 4), 8);
        assert_eq!(run(&mut world, "run_kept", 4), -1);
        assert_eq!(error(&mut world, "lib"), Status::Unbound as u64);
    });
}

#[test]
fn the_number_of_functions_is_bounded() {
    for mode in MODES {
        let lib = lib(mode, Trust::MutualDistrust).callbacks(10);
        let mut world = builder(app(mode, Trust::MutualDistrust), lib, mode).build().unwrap();
        let value = |which: i64| 10 + which / 8 * 10 + which % 8;
        for round in 0..3 {
            for which in 0..20 {
                let (found, error) = (call(&mut world, "app", "number", (which, 0)), error(&mut world, "app"));
                let expected = if which < 10 { (value(which), 0) } else { (ON_FAULT, Status::Exhausted as u64) };
                assert_eq!((found, error), expected, "{mode:?}, round {round}, function {which}");
            }
        }
        // A restarted domain has no old pointers, and has all its gateways.
        world.restart("lib").unwrap();
        assert_eq!(call(&mut world, "app", "number", (19, 0)), value(19));
        let lib = world.domain("lib").unwrap().spec();
        world.reload(lib).unwrap();
        for which in 30..40 {
            assert_eq!(call(&mut world, "app", "number", (which, 0)), value(which));
        }
        assert_eq!(call(&mut world, "app", "number", (40, 0)), ON_FAULT);
        // A client that crashes and restarts gets its earlier gateways again, by the functions'
        // names.
        for _ in 0..20 {
            let app = world.domain("app").unwrap().spec();
            world.reload(app).unwrap();
            assert_eq!(call(&mut world, "app", "number", (35, 0)), value(35));
        }
    }
    let none = lib(Mode::Write, Trust::MutualDistrust).callbacks(0);
    let mut world = builder(app(Mode::Write, Trust::MutualDistrust), none, Mode::Write).build().unwrap();
    assert_eq!((run(&mut world, "run", 1), error(&mut world, "app")), (ON_FAULT, Status::Exhausted as u64));
    assert_eq!(run(&mut world, "run_null", 1), -1000);
    let many = lib(Mode::Write, Trust::MutualDistrust).callbacks(sfi_loader::MAX_SPARE + 1);
    assert!(builder(app(Mode::Write, Trust::MutualDistrust), many, Mode::Write).build().is_err());
}

/// One client cannot use up the gateways of the other.
#[test]
fn clients_share_what_there_is() {
    let (mode, trust) = (Mode::Write, Trust::MutualDistrust);
    let other = client("other", mode, trust);
    let mut world = builder(app(mode, trust), lib(mode, trust).callbacks(8), mode).domain(other).build().unwrap();
    let count = |world: &mut World, domain: &str| {
        (0..20).filter(|which| call(world, domain, "number", (*which, 0)) != ON_FAULT).count()
    };
    assert_eq!(count(&mut world, "app"), 4);
    assert_eq!(count(&mut world, "other"), 4);
}

/// The window offset of a domain's dispatch table, and its length in bytes.
fn table(world: &World, domain: &str) -> (u64, u64) {
    let segments = world.domain(domain).unwrap().segments();
    let table = segments.iter().find(|segment| segment.name == "dispatch table").unwrap();
    (table.offset, table.end() - table.offset)
}

#[test]
fn what_is_no_function_of_the_caller_is_refused() {
    each(|mut world, mode, trust| {
        let (code, own) = (run(&mut world, "code", 0) as u64, call(&mut world, "lib", "own_address", (0, 0)) as u64);
        let base = code & !(WINDOW - 1);
        let (block, table) = (code & !(DISPATCH_SIZE - 1), base | table(&world, "app").0);
        let text = world.domain("app").unwrap().symbol("calls").map_or(base | 0x40_0000, |p| p.0);
        let mut forged = vec![code + 1, code + 4, code - 7, code ^ WINDOW, code & (WINDOW - 1), code | 1 << 63];
        forged.extend([own, block, block + 0xf_fff8, block + DISPATCH_SIZE, block - 0x1000, base, text, 8, u64::MAX]);
        forged.extend((300..400).map(|slot| table + 8 * slot));
        for pointer in forged {
            for name in ["forge", "forge_host"] {
                let found = call(&mut world, "app", name, (pointer as i64, 3));
                assert_eq!(
                    (found, error(&mut world, "app")),
                    (ON_FAULT, Status::Function as u64),
                    "{mode:?} {trust} {name} {pointer:#x}"
                );
            }
        }
        assert_eq!(call(&mut world, "app", "forge", (code as i64, 3)), 6);
        // A lent pointer leads nowhere after it was taken back, also if it is passed on.
        run(&mut world, "run_keep", 0);
        let stale = call(&mut world, "lib", "address", (0, 0));
        assert_eq!(call(&mut world, "lib", "relay", (stale, 3)), ON_FAULT);
        assert_eq!(error(&mut world, "lib"), Status::Function as u64);
    });
}

/// Calls every slot that a domain can name: each leads to a function of the domain's own, or to
/// nothing.
#[test]
fn every_slot_of_the_table_is_the_domains_own_or_refused() {
    for mode in MODES {
        let trust = Trust::MutualDistrust;
        // One of the functions never returns.
        let limit = Duration::from_millis(80);
        let mut world =
            builder(app(mode, trust), lib(mode, trust).callbacks(512), mode).time_limit(limit).build().unwrap();
        let base = run(&mut world, "code", 0) as u64 & !(WINDOW - 1);
        // A function of `app` calls the pointer that `lib` kept. Without this call the pointer is
        // NULL, which is a fault of `lib` itself.
        assert_eq!(run(&mut world, "run_keep", 0), 0);
        let table = base | table(&world, "app").0;
        let (mut refused, mut answered) = (0, 0);
        for slot in 0..512 {
            match try_call(&mut world, "app", "forge", ((table + 8 * slot) as i64, 3)) {
                Ok(ON_FAULT) => refused += 1,
                Ok(_) => answered += 1,
                Err(_) => {
                    answered += 1;
                    world.restart("app").unwrap();
                }
            }
            if world.domain("lib").unwrap().is_dead() {
                panic!("{mode:?}: slot {slot} ended the callee");
            }
        }
        assert!(refused > 300 && answered > 70, "{mode:?}: {refused} {answered}");
    }
}

#[test]
fn pointers_refuse_functions() {
    each(|mut world, mode, trust| {
        let code = run(&mut world, "code", 0);
        let (begin, size) = table(&world, "app");
        let (begin, size) = ((code as u64 & !(WINDOW - 1) | begin) as i64, size as i64);
        for name in ["look_at", "host_look_at"] {
            assert_eq!((run(&mut world, name, 0), run(&mut world, name, begin + 2 * size)), (0, 1));
            for pointer in [code, code + 3, begin, begin + size - 1] {
                assert_eq!(run(&mut world, name, pointer), ON_FAULT, "{mode:?} {trust} {name} {pointer:#x}");
                assert_eq!(error(&mut world, "app"), Status::Code as u64);
            }
            // Addresses outside the table, and none in the own window.
            for pointer in [begin - 1, begin + size, code ^ (1 << 40), begin & 0xffff_ffff] {
                assert_eq!(run(&mut world, name, pointer), 1, "{mode:?} {trust} {name} {pointer:#x}");
            }
        }
        assert_eq!((run(&mut world, "found", 0), error(&mut world, "app")), (0, 0));
        assert_eq!((run(&mut world, "found", 1), error(&mut world, "app")), (ON_FAULT, Status::Code as u64));
        assert_eq!(run(&mut world, "run", 21), 42, "the caller's registers are as they were");
    });
}

/// A pointer of one domain may lie where the other one has its dispatch table. It crosses as a bare
/// offset, so that it is never taken for a function of the domain that passes it back.
#[test]
fn pointers_come_back_wherever_they_lie() {
    each(|mut world, mode, trust| {
        let code = [run(&mut world, "code", 0), call(&mut world, "lib", "own_address", (0, 0))];
        let [app, lib] = code.map(|code| code as u64 & !(WINDOW - 1));
        let (own, (begin, size)) = (table(&world, "app"), table(&world, "lib"));
        let block = begin & !(DISPATCH_SIZE - 1);
        let inside = [block, begin.saturating_sub(16).max(block), begin, begin + 8, begin + size - 1, begin + size];
        let inside = inside.map(|offset| offset.min(block + DISPATCH_SIZE - 1));
        let outside = [block - 1, block + DISPATCH_SIZE, 0x8000_0000, WINDOW - 1, 8];
        for (offset, inside) in inside.map(|o| (o, true)).into_iter().chain(outside.map(|o| (o, false))) {
            if (own.0..own.0 + own.1).contains(&offset) {
                continue;
            }
            let pointer = (app | offset) as i64;
            let expected = if inside { offset } else { lib | offset };
            assert_eq!(run(&mut world, "seen_at", pointer), expected as i64, "{mode:?} {trust} {offset:#x}");
            for name in ["back_at", "back_with_at"] {
                let own_block = offset / DISPATCH_SIZE == own.0 / DISPATCH_SIZE;
                let expected = if own_block { offset as i64 } else { pointer };
                assert_eq!(run(&mut world, name, pointer), expected, "{mode:?} {trust} {name} {offset:#x}");
                assert_eq!((error(&mut world, "app"), error(&mut world, "lib")), (0, 0));
            }
        }
    });
}

#[test]
fn a_function_that_faults_ends_its_own_domain() {
    for mode in MODES {
        let owners = [Owner::new("app"), Owner::new("lib")];
        let app = app(mode, Trust::MutualDistrust).owner(&owners[0]);
        let lib = lib(mode, Trust::MutualDistrust).owner(&owners[1]);
        let mut world = builder(app, lib, mode).build().unwrap();
        let Err(CallError::Fault(fault)) = try_call(&mut world, "app", "run_crash", (16, 0)) else {
            panic!("no fault")
        };
        assert_eq!(
            (fault.domain.as_str(), fault.function.as_deref().map(|f| f.starts_with("crash"))),
            ("app", Some(true))
        );
        let frames: Vec<Option<String>> = fault.backtrace().frames.iter().map(|f| f.domain.clone()).collect();
        let names: Vec<Option<&str>> = frames.iter().map(Option::as_deref).collect();
        assert!(names.windows(2).any(|w| w == [Some("app"), Some("lib")]), "{names:?}");
        assert_eq!((owners[0].record().faults, owners[1].record().faults), (1, 0));
        assert!(!world.domain("lib").unwrap().is_dead());
        assert_eq!(error(&mut world, "lib"), Status::Fault as u64);
        // The pointer that the callee kept leads nowhere, also after the caller was restarted.
        world.restart("app").unwrap();
        assert_eq!(run(&mut world, "run_keep", 0), 0);
        assert!(try_call(&mut world, "app", "run_crash", (16, 0)).is_err());
        assert_eq!(call(&mut world, "lib", "call_kept", (3, 0)), -1);
        world.restart("app").unwrap();
        assert_eq!(call(&mut world, "lib", "call_kept", (3, 0)), -1);
        assert_eq!(run(&mut world, "run", 21), 42);
    }
}

#[test]
fn a_function_that_overstays_ends_its_own_domain() {
    for mode in MODES {
        let app = app(mode, Trust::MutualDistrust).restart(Restart::Always);
        let lib = lib(mode, Trust::MutualDistrust);
        let mut world = builder(app, lib, mode).time_limit(Duration::from_millis(80)).build().unwrap();
        assert_eq!(run(&mut world, "run_keep", 0), 0);
        let Err(CallError::Fault(fault)) = try_call(&mut world, "app", "run_spin", (0, 0)) else { panic!("no fault") };
        assert_eq!((fault.domain.as_str(), fault.kind), ("app", FaultKind::TimeLimit));
        assert!(!world.domain("lib").unwrap().is_dead());
        error(&mut world, "lib");
        // The callee cannot restart the caller through its pointer.
        assert_eq!(
            (call(&mut world, "lib", "call_kept", (3, 0)), error(&mut world, "lib")),
            (-1, Status::Unbound as u64)
        );
        assert_eq!(run(&mut world, "run", 21), 42);
        assert_eq!(
            (call(&mut world, "lib", "call_kept", (3, 0)), error(&mut world, "lib")),
            (-1, Status::Unbound as u64)
        );
    }
}

#[test]
fn the_host_changes_things_during_a_function() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run_upset", 1), 1, "{mode:?} {trust}");
        assert_eq!((run(&mut world, "run_upset", 3), error(&mut world, "app")), (ON_FAULT, Status::Host as u64));
        // The function is disconnected meanwhile: this call returns, the next one does not begin.
        assert_eq!(run(&mut world, "run_upset", 2), 2);
        assert_eq!((run(&mut world, "run", 21), error(&mut world, "app")), (ON_FAULT, Status::Unbound as u64));
        assert_eq!(run(&mut world, "run_relay", 21), 43);
    });
}

#[test]
fn a_panic_during_a_function_takes_it_back() {
    each(|mut world, mode, trust| {
        run(&mut world, "run_keep", 0);
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_call(&mut world, "app", "run_upset", (0, 0))));
        assert!(caught.is_err(), "{mode:?} {trust}");
        for name in ["app", "lib"] {
            assert!(world.domain(name).unwrap().is_dead());
            world.restart(name).unwrap();
        }
        assert_eq!(run(&mut world, "run", 21), 42);
        assert_eq!(call(&mut world, "app", "number", (7, 0)), 17);
    });
}

#[test]
fn callers_and_callees_are_loaded_again() {
    each(|mut world, mode, trust| {
        assert_eq!(run(&mut world, "run_keep", 0), 0);
        let app = world.domain("app").unwrap().spec();
        world.reload(app).unwrap();
        assert_eq!(
            (call(&mut world, "lib", "call_kept", (3, 0)), error(&mut world, "lib")),
            (-1, Status::Unbound as u64)
        );
        // The next life has the pointer of the same function again, valid while it is lent.
        assert_eq!(run(&mut world, "run", 21), 42, "{mode:?} {trust}");
        assert_eq!(run(&mut world, "run_equal", 0), 1);
        let lib = world.domain("lib").unwrap().spec();
        world.reload(lib).unwrap();
        assert_eq!(run(&mut world, "run", 21), 42);
        assert_eq!(run(&mut world, "run_relay", 21), 43);
    });
}

#[test]
fn the_host_lends_functions_of_its_own() {
    each(|mut world, mode, trust| {
        let apply: TypedFn<fn(Pointer, i64) -> i64> = world.domain("lib").unwrap().export("apply").unwrap();
        let keep: TypedFn<fn(Pointer) -> i64> = world.domain("lib").unwrap().export("keep").unwrap();
        let lend = |world: &mut World, name: &str, by: u64| {
            let body = |world: &mut World, f: Pointer| {
                assert_eq!(keep.call(world, (f,)), Ok(0));
                apply.call(world, (f, 21)).unwrap()
            };
            world.lending("lib", name, "(int) -> int", move |cx| Ok(by * cx.arg(0)), body)
        };
        assert_eq!(lend(&mut world, "twice", 2).unwrap(), 42, "{mode:?} {trust}");
        assert_eq!(
            (call(&mut world, "lib", "call_kept", (3, 0)), error(&mut world, "lib")),
            (-1, Status::Unbound as u64)
        );
        let kept = call(&mut world, "lib", "address", (0, 0));
        assert_eq!(lend(&mut world, "thrice", 3).unwrap(), 63);
        assert_eq!(
            (call(&mut world, "lib", "call_at", (kept, 3)), error(&mut world, "lib")),
            (-1, Status::Unbound as u64)
        );
        // A function can be lent any number of times under one name.
        for by in 0..200 {
            assert_eq!(lend(&mut world, "twice", by).unwrap(), 21 * by as i64);
        }
        // A loan lasts until it is taken back. A domain may pass the pointer on as its own.
        let f = world.lend("lib", "plain", "(int) -> int", |cx| Ok(cx.arg(0) + 9)).unwrap();
        assert_eq!(call(&mut world, "lib", "relay", (f.0 as i64, 1)), 11);
        assert!(matches!(
            world.lend("lib", "plain", "(int) -> int", |_| Ok(0)),
            Err(BuildError::Bind(BindError::Lent { .. }))
        ));
        world.take_back("lib", "plain").unwrap();
        assert!(world.take_back("lib", "plain").is_err());
        assert_eq!(call(&mut world, "lib", "call_at", (f.0 as i64, 1)), -1);
        // A restarted domain has no loans.
        let f = world.lend("lib", "plain", "(int) -> int", |cx| Ok(cx.arg(0) + 9)).unwrap();
        world.restart("lib").unwrap();
        assert_eq!(call(&mut world, "lib", "call_at", (f.0 as i64, 1)), -1);
        assert!(matches!(world.take_back("lib", "plain"), Err(BindError::Lent { .. })));
        assert!(matches!(world.lend("lib", "x", "(int)", |_| Ok(0)), Err(BuildError::Signature { .. })));
        assert!(matches!(
            world.lend("app", "x", "(int) -> int", |_| Ok(0)),
            Err(BuildError::Bind(BindError::NoCallback { .. }))
        ));
        // The closure may fail and call back.
        let failing = world.lending(
            "lib",
            "fail",
            "(int) -> int",
            |_| Err(HostError::new("no")),
            |world, f| apply.call(world, (f, 1)).unwrap(),
        );
        assert_eq!((failing.unwrap(), error(&mut world, "lib")), (-1, Status::Host as u64));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.lending("lib", "panic", "(int) -> int", |_| panic!("mine"), |world, f| apply.call(world, (f, 1)))
        }));
        assert!(caught.is_err());
        world.restart("lib").unwrap();
        assert_eq!(lend(&mut world, "panic", 2).unwrap(), 42);
    });
}

/// `body` may exchange the world for another one, or drop it.
#[test]
fn a_world_is_dropped_while_it_lends() {
    let (mode, trust) = (Mode::Write, Trust::MutualDistrust);
    let mut first = world(mode, trust);
    first
        .lending(
            "lib",
            "f",
            "(int) -> int",
            |cx| Ok(cx.arg(0)),
            |at, _| drop(std::mem::replace(at, world(mode, trust))),
        )
        .unwrap();
    assert_eq!(run(&mut first, "run", 21), 42);
}

/// Entry points, with and without a header, and interfaces.
#[test]
fn functions_cross_by_every_kind_of_import() {
    use sfi_loader::Entry;
    for mode in MODES {
        let apply = |header: bool| {
            let entry = if header { Entry::procedures(["call_kept", "apply"]) } else { Entry::function("apply") };
            entry.signature(if header { "(int, fn(int) -> int, int) -> int" } else { UNARY })
        };
        let lib = || {
            DomainSpec::new("lib")
                .mode(mode)
                .object("lib.o", object("lib", mode))
                .import("apply_third", Import::host("host_look"))
        };
        let app = || {
            let spec = DomainSpec::new("app").mode(mode).object("app.o", object("app", mode));
            [
                "apply_float",
                "keep",
                "call_kept",
                "is_kept",
                "relay",
                "mixed",
                "look",
                "seen",
                "back",
                "back_with",
                "find",
                "host_apply",
                "host_look",
                "host_upset",
            ]
            .into_iter()
            .fold(spec, |spec, name| spec.import(name, Import::host("host_look")))
        };
        let hosts = World::builder().host_fn("host_look", |_| Ok(0)).permit("*", "*");
        let import = Import::entry("lib.apply").on_fault(ON_FAULT);
        let mut world =
            hosts.domain(lib().registers("apply", apply(false))).domain(app().import("apply", import)).build().unwrap();
        assert_eq!((run(&mut world, "run", 21), run(&mut world, "run_factorial", 5)), (42, 120), "{mode:?}");
        world.unregister("lib.apply").unwrap();
        assert_eq!((run(&mut world, "run", 21), error(&mut world, "app")), (ON_FAULT, Status::Unbound as u64));

        let declaration = "i64 apply(fn(i64) -> i64 function, i64 x)".parse().unwrap();
        let import = Import::domain("lib", "apply").interface(declaration).on_fault(ON_FAULT);
        let hosts = World::builder().host_fn("host_look", |_| Ok(0));
        let mut world = hosts.domain(lib()).domain(app().import("apply", import)).build().unwrap();
        assert_eq!((run(&mut world, "run", 21), run(&mut world, "run_factorial", 5)), (42, 120), "{mode:?}");
        assert_eq!(
            (call(&mut world, "app", "forge", (12, 1)), error(&mut world, "app")),
            (ON_FAULT, Status::Function as u64)
        );

        let declaration =
            "i64 apply(fn(i64) -> i64 function, i64 x)".parse::<sfi_loader::interface::Declaration>().unwrap();
        let signature = declaration.signature();
        let hosts = World::builder().host_fn("host_look", |_| Ok(0)).serve("apply", declaration, |cx, received| {
            let [sfi_loader::Received::Word(f), sfi_loader::Received::Word(x)] = received else { panic!() };
            let (f, x) = (cx.function::<fn(u64) -> u64>(*f)?, *x);
            Ok(f.call(cx, (x,))?)
        });
        let mut world =
            hosts.domain(app().import("apply", Import::host("apply").signature(signature))).build().unwrap();
        assert_eq!(run(&mut world, "run", 21), 42);
    }
}

/// The loader's own host functions have names that no import can name.
#[test]
fn the_loaders_own_functions_cannot_be_granted() {
    for name in ["(revive)", "(lent)", "(interface) app.apply", "(header) lib.apply"] {
        let spec = DomainSpec::new("lib")
            .object("lib.o", object("lib", Mode::Write))
            .import("apply_third", Import::host(name));
        let error = World::builder().domain(spec).build().unwrap_err();
        assert!(
            matches!(error, BuildError::Spec(sfi_loader::SpecError::UnknownHostFunction { .. })),
            "{name}: {error}"
        );
    }
}
