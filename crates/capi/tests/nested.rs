//! Two worlds on one thread: host functions of each call into the other, while calls of both are in
//! progress. Faults and limits end the calls of their own world.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call here is one that sfi.h answers with a status, which is what is tested"
)]

use sfi::*;
use std::ffi::{CString, c_void};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const OK: i32 = 0;
const FAULT: i32 = 1;
const TIME: i32 = 2;

const PLUGIN: &str = "
extern long ask0(long), ask1(long), ask2(long), ask3(long), ask4(long), ask5(long);
static volatile long turns;
long add(long a, long b) { return a + b; }
long call_ask(long x)
{
    static long (*const all[])(long) = {ask0, ask1, ask2, ask3, ask4, ask5};
    long kept = x * 1000;
    return all[x / 10](x) + kept;
}
long crash(void) { *(volatile char *)16 = 1; return 0; }
long spin(void) { for (;;) turns++; }
";

const MANIFEST: &str = "
[domains.plugin]
objects = [\"plugin.sfi.o\"]
restart = \"always\"
";

/// Deepest nesting. A host function is not entered while it runs, so each level has its own.
const DEEPEST: i64 = 5;

/// A world, the other one, and the failures of its host function.
#[derive(Default)]
struct Side {
    own: AtomicPtr<sfi_world>,
    other: AtomicPtr<sfi_world>,
    failures: AtomicUsize,
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn call(world: *mut sfi_world, name: &str, arguments: &[i64], wall: Option<Duration>) -> Result<i64, i32> {
    let signature = format!("({}) -> int", vec!["int"; arguments.len()].join(", "));
    let arguments: Vec<sfi_value> = arguments.iter().map(|i| sfi_value { i: *i }).collect();
    let (domain, name, signature) = (text("plugin"), text(name), text(&signature));
    let limits: sfi_limits = unsafe { std::mem::transmute([wall.map_or(0, |wall| wall.as_nanos() as u64), 0]) };
    let (mut function, mut result) = (null_mut(), sfi_value { i: 0 });
    let limits = if wall.is_some() { &raw const limits } else { null() };
    unsafe {
        let found =
            sfi_function_find(world, domain.as_ptr(), name.as_ptr(), signature.as_ptr(), &mut function, null_mut());
        assert_eq!(found, OK);
        let status = sfi_call(world, function, arguments.as_ptr(), arguments.len(), limits, &mut result, null_mut());
        sfi_function_free(function);
        if status == OK { Ok(result.i) } else { Err(status) }
    }
}

/// Calls into the other world. The number says how deep, and the function at the end.
unsafe extern "C-unwind" fn ask(user: *mut c_void, this: *mut sfi_host_call, result: *mut sfi_value) -> Status {
    let side = unsafe { &*user.cast::<Side>() };
    let (own, other) = (side.own.load(Ordering::Relaxed), side.other.load(Ordering::Relaxed));
    let expect = |holds: bool| _ = side.failures.fetch_add(usize::from(!holds), Ordering::Relaxed);
    let argument = unsafe { sfi_host_argument(this, 0) } as i64;
    let (depth, way) = (argument / 10, argument % 10);
    let below = if depth > 0 {
        call(other, "call_ask", &[argument - 10], None)
    } else {
        match way {
            0 => call(own, "add", &[40, 2], None),
            1 => call(other, "add", &[40, 2], None),
            2 => call(own, "crash", &[], None),
            3 => call(other, "crash", &[], None),
            4 => call(own, "spin", &[], None),
            _ => call(other, "spin", &[], Some(Duration::from_millis(30))),
        }
    };
    // The call in progress is still this function's own, unless its caller died meanwhile.
    expect(unsafe { sfi_host_argument(this, 0) } == argument as u64);
    unsafe { (*result).i = below.unwrap_or_else(i64::from) };
    OK
}

fn open(directory: &str, side: &'static Side) -> *mut sfi_world {
    let import =
        |depth| format!("imports.ask{depth} = {{ host = 'ask{depth}', signature = '(int) -> int', on_fault = -5 }}\n");
    let imports: String = (0..=DEEPEST).map(import).collect();
    let (manifest, directory, mut world) = (text(&(MANIFEST.to_owned() + &imports)), text(directory), null_mut());
    unsafe {
        let config = sfi_config_new();
        let user = std::ptr::from_ref(side).cast_mut().cast();
        for name in (0..=DEEPEST).map(|depth| text(&format!("ask{depth}"))) {
            assert_eq!(sfi_config_function(config, name.as_ptr(), Some(ask), user, null_mut()), OK);
        }
        assert_eq!(sfi_config_limits(config, std::mem::zeroed(), null_mut()), OK);
        assert_eq!(sfi_world_open_text(manifest.as_ptr(), directory.as_ptr(), config, &mut world, null_mut()), OK);
        sfi_config_free(config);
    }
    side.own.store(world, Ordering::Relaxed);
    world
}

#[test]
fn worlds_call_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("plugin.c"), PLUGIN).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-fno-stack-protector", "-fno-optimize-sibling-calls", "-c", "-o"]);
    assert!(gcc.arg(at("plugin.o")).arg(at("plugin.c")).status().expect("gcc").success());
    let options = sfi_rewriter::Options { mode: sfi_loader::Mode::Write, ..Default::default() };
    let rewritten = sfi_rewriter::rewrite(&std::fs::read(at("plugin.o")).unwrap(), &options);
    std::fs::write(at("plugin.sfi.o"), rewritten.unwrap_or_else(|reasons| panic!("{}", reasons[0])).bytes).unwrap();

    let sides: [&'static Side; 2] = [Box::leak(Box::default()), Box::leak(Box::default())];
    let worlds = sides.map(|side| open(folder.path().to_str().unwrap(), side));
    sides[0].other.store(worlds[1], Ordering::Relaxed);
    sides[1].other.store(worlds[0], Ordering::Relaxed);
    let check = |what: &str| {
        assert!(sides.iter().all(|side| side.failures.load(Ordering::Relaxed) == 0), "{what}");
        for world in worlds {
            assert_eq!(call(world, "add", &[1, 2], None), Ok(3), "{what}");
        }
    };
    for depth in 0..=DEEPEST {
        // Each level adds a thousand times its number.
        let kept = |way: i64| (0..=depth).map(|d| (d * 10 + way) * 1000).sum::<i64>();
        for way in [0, 1] {
            assert_eq!(call(worlds[0], "call_ask", &[depth * 10 + way], None), Ok(42 + kept(way)), "{depth}, {way}");
            check("returns");
        }
        // A crash of a domain that has calls in progress below ends these calls too, and nothing of
        // the other world's. Way 3 at depth 0 crashes an idle domain.
        for way in [2, 3] {
            let found = call(worlds[0], "call_ask", &[depth * 10 + way], None);
            let victim = (depth + way) % 2;
            match (victim, depth, way) {
                (0, ..) => assert_eq!(found, Err(FAULT), "{depth}, {way}"),
                (_, 0, _) => assert_eq!(found, Ok(i64::from(FAULT) + kept(way)), "{depth}, {way}"),
                _ => assert!(found.is_ok(), "{depth}, {way}: {found:?}"),
            }
            check("a crash");
        }
        // The limit of the outermost call holds for its own world's domains. A domain of the other
        // world has its own limit.
        for (way, limit) in [(4, 40), (5, 20_000)] {
            let (start, limit) = (Instant::now(), Some(Duration::from_millis(limit)));
            let found = call(worlds[0], "call_ask", &[(depth & !1) * 10 + way], limit);
            assert_eq!(found.is_err_and(|status| status == TIME), way == 4, "{depth}, {way}: {found:?}");
            assert!(start.elapsed() < Duration::from_secs(20), "{depth}, {way}: {:?}", start.elapsed());
            check("a limit");
        }
    }
    for world in worlds {
        assert_eq!(unsafe { sfi_world_close(world, null_mut()) }, OK);
    }
}
