//! `sfi.h` in the hands of a careless or confused host: NULLs, impossible sizes, handles at the
//! wrong time and on the wrong thread, functions that enter again, several threads on one world.
//! Each answer is a status.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call here is one that sfi.h answers with a status, which is what is tested"
)]

use sfi::*;
use std::ffi::{CStr, CString, c_char, c_void};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

const OK: i32 = 0;
const FAULT: i32 = 1;
const DEAD: i32 = 3;
const ARGUMENTS: i32 = 5;
const GONE: i32 = 6;
const NOT_FOUND: i32 = 8;
const BIND: i32 = 9;
const INVALID: i32 = 12;
const IN_USE: i32 = 13;

const PLUGIN: &str = "
extern long ask(long), with(long (*)(long), long);
static long kept;
static long increment(long x) { return x + 1; }
long add(long a, long b) { return a + b; }
long call_ask(long x) { return ask(x); }
long call_with(long x) { return with(increment, x); }
long call_forged(long x) { return with((long (*)(long))x, 1); }
long apply(long (*f)(long), long x) { return f(x); }
long sum(const int *values, long count) { long all = 0; while (count--) all += *values++; return all; }
long crash(void) { *(volatile char *)16 = 1; return 0; }
__attribute__((constructor)) static void start(void) { kept = ask(-1); }
";

const MANIFEST: &str = "
[domains.plugin]
objects = [\"plugin.sfi.o\"]
memory = \"64 KiB\"
callbacks = 4
imports.ask = { host = \"ask\", signature = \"(int) -> int\", on_fault = -5 }
imports.with = { host = \"with\", signature = \"(fn(int) -> int, int) -> int\", on_fault = -6 }
";

/// Puts the rewritten plugin into a folder. Returns the folder and the object.
fn plugin() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("plugin.c"), folder.path().join("plugin.o"));
    std::fs::write(&source, PLUGIN).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-fno-stack-protector", "-fno-optimize-sibling-calls", "-c", "-o"]).arg(&object);
    assert!(gcc.arg(&source).status().expect("gcc").success());
    let options = sfi_rewriter::Options { mode: sfi_loader::Mode::Write, ..Default::default() };
    let bytes = match sfi_rewriter::rewrite(&std::fs::read(&object).unwrap(), &options) {
        Ok(rewritten) => rewritten.bytes,
        Err(reasons) => panic!("{}", reasons[0]),
    };
    std::fs::write(folder.path().join("plugin.sfi.o"), &bytes).unwrap();
    (folder, bytes)
}

/// Data that the host functions share.
#[derive(Default)]
struct Host {
    world: AtomicPtr<sfi_world>,
    outer: AtomicPtr<sfi_host_call>,
    prepared: AtomicPtr<sfi_prepared>,
    failures: AtomicUsize,
    started: AtomicUsize,
}

impl Host {
    fn expect(&self, holds: bool) {
        self.failures.fetch_add(usize::from(!holds), Ordering::Relaxed);
    }
}

fn value(number: i64) -> sfi_value {
    sfi_value { i: number }
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

unsafe fn call(world: *mut sfi_world, name: &str, signature: &str, arguments: &[sfi_value]) -> Result<i64, i32> {
    let (domain, name, signature) = (text("plugin"), text(name), text(signature));
    let (mut function, mut result) = (null_mut(), value(0));
    unsafe {
        let found =
            sfi_function_find(world, domain.as_ptr(), name.as_ptr(), signature.as_ptr(), &mut function, null_mut());
        if found != OK {
            return Err(found);
        }
        let status = sfi_call(world, function, arguments.as_ptr(), arguments.len(), null(), &mut result, null_mut());
        sfi_function_free(function);
        if status == OK { Ok(result.i) } else { Err(status) }
    }
}

/// Enters the world again, passes its own call to others, and asks for forbidden things.
unsafe extern "C-unwind" fn ask(user: *mut c_void, this: *mut sfi_host_call, result: *mut sfi_value) -> Status {
    let host = unsafe { &*user.cast::<Host>() };
    let argument = unsafe { sfi_host_argument(this, 0) } as i64;
    let world = host.world.load(Ordering::Relaxed);
    unsafe { (*result).i = 2 * argument };
    match argument {
        -1 => _ = host.started.fetch_add(1, Ordering::Relaxed),
        // From another thread, the call and the world are out of reach.
        1 => {
            let (this, world) = (this as usize, world as usize);
            let other = std::thread::spawn(move || unsafe {
                let (call, world) = (this as *mut sfi_host_call, world as *mut sfi_world);
                let mut byte = 0_u8;
                (
                    sfi_host_argument(call, 0),
                    sfi_host_caller(call).is_null(),
                    sfi_host_read(call, 0x10_0000, (&raw mut byte).cast(), 1, null_mut()),
                    self::call(world, "add", "(int, int) -> int", &[value(1), value(2)]),
                    sfi_world_close(world, null_mut()),
                )
            });
            host.expect(other.join().unwrap() == (0, true, IN_USE, Err(IN_USE), IN_USE));
        }
        // Within the world calls work and the rest is refused. The inner call finds the outer one
        // closed.
        2 => unsafe {
            let domain = text("plugin");
            host.outer.store(this, Ordering::Relaxed);
            host.expect(call(world, "add", "(int, int) -> int", &[value(1), value(2)]) == Ok(3));
            host.expect(call(world, "call_with", "(int) -> int", &[value(3)]) == Ok(104));
            host.expect(sfi_world_close(world, null_mut()) == IN_USE);
            host.expect(sfi_world_restart(world, domain.as_ptr(), null_mut()) == IN_USE);
            host.expect(sfi_world_reload(world, domain.as_ptr(), null_mut()) == IN_USE);
            let (mut pointer, name, signature) = (0, text("f"), text("(int) -> int"));
            let (domain, name, signature) = (domain.as_ptr(), name.as_ptr(), signature.as_ptr());
            let lent = sfi_world_lend(world, domain, name, signature, Some(ask), user, &mut pointer, null_mut());
            host.expect(lent == IN_USE && sfi_world_take_back(world, domain, name, null_mut()) == IN_USE);
            host.expect(sfi_host_argument(this, 0) == 2);
        },
        // The function calls itself through the domain and is not entered again.
        3 => unsafe { host.expect(call(world, "call_ask", "(int) -> int", &[value(9)]) == Ok(-5)) },
        // The prepared function of the call in progress.
        4 => unsafe {
            let (prepared, argument, e) = (host.prepared.load(Ordering::Relaxed), [value(9)], null_mut());
            let mut bits = value(77);
            host.expect(sfi_prepared_call(world, prepared, argument.as_ptr(), &mut bits, e) == IN_USE && bits.i == 77);
            host.expect(sfi_prepared_room(world, prepared, 64, &mut null_mut(), e) == IN_USE);
            host.expect(sfi_prepared_view(world, prepared, 0, 1, &mut null(), e) == IN_USE);
        },
        _ => {}
    }
    OK
}

/// Calls the function that it gets as an argument.
unsafe extern "C-unwind" fn with(user: *mut c_void, this: *mut sfi_host_call, result: *mut sfi_value) -> Status {
    let host = unsafe { &*user.cast::<Host>() };
    let outer = host.outer.load(Ordering::Relaxed);
    let signature = text("(int) -> int");
    unsafe {
        if !outer.is_null() {
            let mut byte = 0_u8;
            host.expect(sfi_host_argument(outer, 0) == 0 && sfi_host_caller(outer).is_null());
            host.expect(sfi_host_read(outer, 0x10_0000, (&raw mut byte).cast(), 1, null_mut()) == IN_USE);
        }
        let pointer = sfi_host_argument(this, 0);
        let arguments = [value(sfi_host_argument(this, 1) as i64)];
        let many = usize::MAX / 8;
        let wrong = sfi_host_callback(this, pointer, signature.as_ptr(), arguments.as_ptr(), many, result, null_mut());
        host.expect(wrong == ARGUMENTS);
        let status = sfi_host_callback(this, pointer, signature.as_ptr(), arguments.as_ptr(), 1, result, null_mut());
        (*result).i += 100;
        status
    }
}

/// Opens a world with the plugin. Returns it and the host's record, which lives as long as the
/// process.
fn open() -> (*mut sfi_world, &'static Host, Vec<u8>) {
    let (folder, object) = plugin();
    let host: &'static Host = Box::leak(Box::default());
    let user = std::ptr::from_ref(host).cast_mut().cast();
    let (manifest, directory) = (text(MANIFEST), text(folder.path().to_str().unwrap()));
    let (mut world, mut error) = (null_mut(), null_mut());
    unsafe {
        let config = sfi_config_new();
        assert_eq!(sfi_config_function(config, text("ask").as_ptr(), Some(ask), user, null_mut()), OK);
        assert_eq!(sfi_config_function(config, text("with").as_ptr(), Some(with), user, null_mut()), OK);
        let opened = sfi_world_open_text(manifest.as_ptr(), directory.as_ptr(), config, &mut world, &mut error);
        let message = sfi_error_message(error);
        assert_eq!(opened, OK, "{:?}", if message.is_null() { c"" } else { CStr::from_ptr(message) });
        sfi_config_free(config);
    }
    host.world.store(world, Ordering::Relaxed);
    assert_eq!(host.started.load(Ordering::Relaxed), 1, "the initialiser's call had its arguments");
    (world, host, object)
}

#[test]
fn every_null_is_an_error_or_nothing() {
    let (n, e): (*const c_char, *mut *mut sfi_error) = (null(), null_mut());
    let (world, _, _) = open();
    let (domain, name) = (text("plugin"), text("add"));
    let (d, a) = (domain.as_ptr(), name.as_ptr());
    unsafe {
        let limits = sfi_limits::default();
        let all = [
            sfi_config_function(null_mut(), a, Some(ask), null_mut(), e),
            sfi_config_function(null_mut(), n, None, null_mut(), e),
            sfi_config_serve(null_mut(), a, n, None, null_mut(), e),
            sfi_config_permit(null_mut(), a, a, e),
            sfi_config_permission(null_mut(), None, null_mut(), e),
            sfi_config_limits(null_mut(), limits, e),
            sfi_world_open(n, null(), null_mut(), e),
            sfi_world_open_text(n, n, null(), null_mut(), e),
            sfi_world_restart(null_mut(), d, e),
            sfi_world_restart(world, n, e),
            sfi_world_reload(null_mut(), d, e),
            sfi_world_reload(world, n, e),
            sfi_world_reload_object(null_mut(), d, null(), 1, e),
            sfi_world_reload_object(world, d, null(), 1, e),
            sfi_world_connect(null_mut(), d, a, a, e),
            sfi_world_connect(world, d, n, a, e),
            sfi_world_disconnect(null_mut(), d, a, e),
            sfi_world_disconnect(world, d, n, e),
            sfi_world_permit(null_mut(), d, a, e),
            sfi_world_permit(world, n, a, e),
            sfi_world_refill(null_mut(), d, e),
            sfi_world_refill(world, n, e),
            sfi_world_used(null_mut(), d, null_mut(), null_mut(), e),
            sfi_world_state(null_mut(), d, null_mut(), null_mut(), e),
            sfi_world_state(world, n, null_mut(), null_mut(), e),
            sfi_world_record(null_mut(), d, null_mut(), e),
            sfi_world_record(world, d, null_mut(), e),
            sfi_world_symbol(null_mut(), d, a, null_mut(), e),
            sfi_world_symbol(world, d, n, null_mut(), e),
            sfi_world_read(null_mut(), d, 0, null_mut(), 0, e),
            sfi_world_read(world, d, 0, null_mut(), 1, e),
            sfi_world_write(null_mut(), d, 0, null(), 0, e),
            sfi_world_write(world, d, 0, null(), 1, e),
            sfi_region_size(null_mut(), a, null_mut(), e),
            sfi_region_read(null_mut(), a, 0, null_mut(), 0, e),
            sfi_region_write(null_mut(), a, 0, null(), 0, e),
            sfi_region_in(null_mut(), d, a, null_mut(), e),
            sfi_region_in(world, d, a, null_mut(), e),
            sfi_region_show(null_mut(), d, a, 1, e),
            sfi_region_hide(null_mut(), d, a, e),
            sfi_function_find(world, d, a, n, null_mut(), e),
            sfi_call(world, null(), null(), 0, null(), null_mut(), e),
            sfi_bound_find(world, d, n, null_mut(), e),
            sfi_bound_call(world, null(), null(), 0, null(), null_mut(), e),
            sfi_world_lend(world, d, a, a, None, null_mut(), null_mut(), e),
            sfi_world_lend(world, d, a, a, Some(ask), null_mut(), null_mut(), e),
            sfi_world_lend(null_mut(), d, a, a, Some(ask), null_mut(), &mut 0, e),
            sfi_world_take_back(null_mut(), d, a, e),
            sfi_world_take_back(world, d, n, e),
            sfi_host_read(null_mut(), 0, null_mut(), 0, e),
            sfi_host_write(null_mut(), 0, null(), 0, e),
            sfi_host_read_string(null_mut(), 0, null_mut(), 0, e),
            sfi_host_callback(null_mut(), 0, a, null(), 0, null_mut(), e),
            sfi_error_code(null()),
            sfi_config_sharing(null_mut(), 0, e),
            sfi_world_window(null_mut(), d, null_mut(), null_mut(), e),
            sfi_world_window(world, n, null_mut(), null_mut(), e),
            sfi_world_malloc(null_mut(), d, 1, &mut 0, e),
            sfi_world_malloc(world, d, 1, null_mut(), e),
            sfi_world_free(null_mut(), d, 0, e),
            sfi_world_free(world, n, 0, e),
            sfi_world_instantiate(null_mut(), d, null_mut(), 0, e),
            sfi_world_instantiate(world, d, null_mut(), 0, e),
            sfi_instance_reset(null_mut(), d, e),
            sfi_instance_reset(world, n, e),
            sfi_instance_discard(null_mut(), d, e),
            sfi_instance_discard(world, n, e),
            sfi_template_open(n, null(), null_mut(), e),
            sfi_template_open_text(n, n, null(), null_mut(), e),
            sfi_template_instance(null(), null_mut(), e),
            sfi_template_instance(null(), &mut null_mut(), e),
            sfi_pool_new(null(), 1, &mut null_mut(), e),
            sfi_pool_take(null(), 0, &mut null_mut(), e),
            sfi_server_new(null(), 1, 1, &mut null_mut(), e),
            sfi_server_enter(null(), 0, &mut null_mut(), e),
            sfi_lanes_open(n, null(), 2, &mut null_mut(), e),
            sfi_lanes_open(a, null(), 2, null_mut(), e),
            sfi_lanes_open_text(n, a, null(), 2, &mut null_mut(), e),
            sfi_lanes_enter(null(), 0, &mut null_mut(), e),
            sfi_lanes_idle(null(), &mut 0, e),
            sfi_lanes_count(null(), &mut 0, e),
            sfi_lanes_reload(null(), a, 0, e),
            sfi_lanes_reload_object(null(), a, a.cast(), 1, 0, e),
            sfi_server_state(null(), null_mut(), null_mut(), e),
            sfi_function_at(world, d, 0, n, null_mut(), e),
            sfi_function_at(null_mut(), d, 0, a, &mut null_mut(), e),
            sfi_code_find(null_mut(), d, 0, &mut null_mut(), e),
            sfi_code_find(world, d, 0, null_mut(), e),
            sfi_code_call(world, null(), null_mut(), e),
            sfi_callback_register(null_mut(), d, a, a, Some(ask), null_mut(), &mut 0, e),
            sfi_callback_register(world, d, a, a, None, null_mut(), &mut 0, e),
            sfi_callback_register(world, d, a, a, Some(ask), null_mut(), null_mut(), e),
            sfi_callback_unregister(null_mut(), d, a, e),
            sfi_callback_unregister(world, n, a, e),
            sfi_host_registers(null_mut(), null_mut(), null_mut(), 0, e),
        ];
        let wrong: Vec<usize> = (0..all.len()).filter(|i| all[*i] != INVALID).collect();
        assert!(wrong.is_empty(), "{wrong:?} of {all:?}");
        assert!(sfi_error_message(null()).is_null() && sfi_error_backtrace(null()).is_null());
        assert!(sfi_host_caller(null_mut()).is_null() && sfi_host_argument(null_mut(), 0) == 0);
        assert_eq!((sfi_host_f64(null_mut(), 0), sfi_host_f32(null_mut(), 0)), (0.0, 0.0));
        sfi_config_free(null_mut());
        sfi_function_free(null_mut());
        sfi_bound_free(null_mut());
        sfi_code_free(null_mut());
        sfi_template_free(null_mut());
        sfi_pool_free(null_mut());
        sfi_server_free(null_mut());
        sfi_lanes_free(null_mut());
        assert!(sfi_world_domain(null(), 0).is_null() && sfi_world_domain(world, usize::MAX).is_null());
        assert_eq!((sfi_window_of(null(), null_mut()), sfi_window_of(usize::MAX as *const _, null_mut())), (0, 0));
        sfi_error_free(null_mut());
        assert_eq!(sfi_world_close(null_mut(), e), OK);
        assert_eq!(call(world, "add", "(int, int) -> int", &[value(2), value(3)]), Ok(5));
        assert_eq!(sfi_world_close(world, e), OK);
    }
}

/// Impossible numbers of arguments and bytes are refused before anything is read.
#[test]
fn sizes_that_no_memory_has() {
    let (world, _, object) = open();
    let (domain, e) = (text("plugin"), null_mut());
    let (d, signature) = (domain.as_ptr(), text("(int, int) -> int"));
    let (mut function, mut bound) = (null_mut(), null_mut());
    let arguments = [value(1), value(2)];
    let declaration = text("i64 sum(in i32 values[count], i64 count)");
    unsafe {
        assert_eq!(sfi_function_find(world, d, text("add").as_ptr(), signature.as_ptr(), &mut function, e), OK);
        assert_eq!(sfi_bound_find(world, d, declaration.as_ptr(), &mut bound, e), OK);
        let buffers: [sfi_argument; 2] = std::mem::zeroed();
        for count in [usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8, 1 << 40, 1 << 20, 3, 1, 0] {
            assert_eq!(
                sfi_call(world, function, arguments.as_ptr(), count, null(), null_mut(), e),
                ARGUMENTS,
                "{count}"
            );
            assert_eq!(sfi_bound_call(world, bound, buffers.as_ptr(), count, null(), null_mut(), e), ARGUMENTS);
        }
        for size in [usize::MAX, isize::MAX as usize + 1] {
            let (from, mut to) = (object.as_ptr().cast(), 0_u8);
            let to = (&raw mut to).cast();
            assert_eq!(sfi_world_reload_object(world, d, from, size, e), INVALID, "{size}");
            assert_eq!(sfi_world_read(world, d, 0, to, size, e), INVALID);
            assert_eq!(sfi_world_write(world, d, 0, from, size, e), INVALID);
        }
        for pointer in [0, 0xffff_ffff, u64::MAX, 1 << 32, 0xf_f000] {
            let mut to = [0_u8; 16];
            let read = sfi_world_read(world, d, pointer, to.as_mut_ptr().cast(), 16, e);
            let written = sfi_world_write(world, d, pointer, to.as_ptr().cast(), 16, e);
            assert!([OK, 11].contains(&read) && written == 11, "{pointer:#x}: {read} {written}");
        }
        let never = sfi_limits::default();
        assert_eq!(sfi_call(world, function, arguments.as_ptr(), 2, &never, null_mut(), e), OK);
        sfi_function_free(function);
        sfi_bound_free(bound);
        assert_eq!(sfi_world_close(world, e), OK);
    }
}

#[test]
fn a_call_belongs_to_its_own_function_and_thread() {
    let (world, host, _) = open();
    unsafe {
        for argument in [0, 1, 2, 3] {
            assert_eq!(call(world, "call_ask", "(int) -> int", &[value(argument)]), Ok(2 * argument));
            host.outer.store(null_mut(), Ordering::Relaxed);
        }
        assert_eq!(call(world, "call_with", "(int) -> int", &[value(7)]), Ok(108));
        assert_eq!(call(world, "call_forged", "(int) -> int", &[value(0x1234)]), Ok(-6));
        assert_eq!(host.failures.load(Ordering::Relaxed), 0);
        assert_eq!(sfi_world_close(world, null_mut()), OK);
    }
}

/// A prepared function has one call at a time, in its own world. After a call that fails it can be
/// used again.
#[test]
fn a_prepared_function_has_one_call() {
    let ((world, host, _), (other, _, _)) = (open(), open());
    let (domain, name, signature, e) = (text("plugin"), text("call_ask"), text("(int) -> int"), null_mut());
    let (mut prepared, mut result) = (null_mut(), value(0));
    unsafe {
        let made = sfi_prepare(world, domain.as_ptr(), name.as_ptr(), signature.as_ptr(), &mut prepared, e);
        assert_eq!(made, OK);
        host.prepared.store(prepared, Ordering::Relaxed);
        for argument in [4, 0, 4] {
            let status = sfi_prepared_call(world, prepared, [value(argument)].as_ptr(), &mut result, e);
            assert_eq!((status, result.i), (OK, 2 * argument));
            assert_eq!(sfi_prepared_call(world, prepared, null(), &mut result, e), INVALID);
            assert_eq!(sfi_prepared_call(other, prepared, [value(0)].as_ptr(), &mut result, e), GONE);
            assert_eq!(sfi_prepared_room(other, prepared, 8, &mut null_mut(), e), GONE);
        }
        // Calls of its world on another thread, at any time.
        let (place, foreign, busy) = (prepared as usize, other as usize, AtomicBool::new(true));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    let (other, prepared) = (foreign as *mut sfi_world, place as *mut sfi_prepared);
                    assert_eq!(sfi_prepared_room(other, prepared, 8, &mut null_mut(), null_mut()), GONE);
                }
            });
            for round in 10..2000 {
                let status = sfi_prepared_call(world, prepared, [value(round)].as_ptr(), &mut result, null_mut());
                host.expect((status, result.i) == (OK, 2 * round));
            }
            busy.store(false, Ordering::Relaxed);
        });
        assert_eq!(host.failures.load(Ordering::Relaxed), 0);
        sfi_prepared_free(prepared);
        assert_eq!((sfi_world_close(world, e), sfi_world_close(other, e)), (OK, OK));
    }
}

#[test]
fn a_host_lends_its_functions() {
    let (world, host, _) = open();
    let user = std::ptr::from_ref(host).cast_mut().cast();
    let (domain, signature, e) = (text("plugin"), text("(int) -> int"), null_mut());
    let (d, s) = (domain.as_ptr(), signature.as_ptr());
    unsafe {
        let lend = |name: &str| {
            let mut pointer = 0;
            let status = sfi_world_lend(world, d, text(name).as_ptr(), s, Some(ask), user, &mut pointer, e);
            if status == OK { Ok(value(pointer as i64)) } else { Err(status) }
        };
        let back = |name: &str| sfi_world_take_back(world, d, text(name).as_ptr(), e);
        let apply = |f: sfi_value| call(world, "apply", "(fn(int) -> int, int) -> int", &[f, value(21)]);
        let first = lend("first").ok().unwrap();
        assert_eq!((apply(first), lend("first").err()), (Ok(42), Some(BIND)));
        assert_eq!((back("first"), back("first"), apply(first)), (OK, BIND, Ok(-1)));
        let names = ["first", "second", "third", "fourth", "fifth"];
        let lent: Vec<Result<sfi_value, i32>> = names.iter().map(|name| lend(name)).collect();
        assert_eq!(
            lent.iter().map(|l| l.as_ref().err().copied()).collect::<Vec<_>>(),
            [None, None, None, None, Some(BIND)]
        );
        assert!(lent.iter().flatten().all(|f| apply(*f) == Ok(42)));
        assert_eq!(sfi_world_restart(world, d, e), OK);
        assert_eq!(lend("fifth").map(apply).ok(), Some(Ok(42)));
        let bad = sfi_world_lend(world, d, text("x").as_ptr(), text("int").as_ptr(), Some(ask), user, &mut 0, e);
        let none = sfi_world_lend(world, text("none").as_ptr(), text("x").as_ptr(), s, Some(ask), user, &mut 0, e);
        assert_eq!((bad, none), (INVALID, NOT_FOUND));
        // Closing the world ends the remaining loans.
        assert_eq!(sfi_world_close(world, e), OK);
    }
}

/// Threads without synchronisation: each operation succeeds, or the world is in use.
#[test]
fn a_world_on_several_threads() {
    let (world, _, object) = open();
    let (place, stop) = (world as usize, AtomicBool::new(false));
    let done: Vec<AtomicUsize> = (0..8).map(|_| AtomicUsize::new(0)).collect();
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (object, stop, done, refused) = (&object, &stop, &done, &refused);
            scope.spawn(move || {
                let (world, domain, e) = (place as *mut sfi_world, text("plugin"), null_mut());
                let (d, name, s) = (domain.as_ptr(), text(&format!("f{thread}")), text("(int) -> int"));
                for round in 0.. {
                    let which = (round * 5 + thread) % 8;
                    let mut pointer = 0;
                    let answer = unsafe {
                        match which {
                            0 | 1 => match call(world, "add", "(int, int) -> int", &[value(40), value(2)]) {
                                Ok(sum) => i32::from(sum != 42),
                                Err(DEAD) => OK,
                                Err(status) => status,
                            },
                            2 => call(world, "crash", "() -> int", &[]).map_or_else(|s| s, |_| -1),
                            3 => sfi_world_restart(world, d, e),
                            4 => sfi_world_reload_object(world, d, object.as_ptr().cast(), object.len(), e),
                            5 => {
                                sfi_world_lend(world, d, name.as_ptr(), s.as_ptr(), None, null_mut(), &mut pointer, e)
                                    - INVALID
                            }
                            6 => sfi_world_state(world, d, &mut 0, null_mut(), e),
                            _ => call(world, "call_ask", "(int) -> int", &[value(4)])
                                .map_or_else(|s| s, |x| i32::from(x != 8)),
                        }
                    };
                    match answer {
                        OK => _ = done[which].fetch_add(1, Ordering::Relaxed),
                        IN_USE => _ = refused.fetch_add(1, Ordering::Relaxed),
                        FAULT | DEAD if which == 2 || which == 7 => _ = done[which].fetch_add(1, Ordering::Relaxed),
                        other => panic!("operation {which}: {other}"),
                    }
                    if done.iter().all(|n| n.load(Ordering::Relaxed) >= 20) || round > 200_000 {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
    });
    assert!(done.iter().all(|n| n.load(Ordering::Relaxed) >= 20), "{done:?}, {refused:?} refused");
    assert_eq!(unsafe { sfi_world_close(world, null_mut()) }, OK);
}
