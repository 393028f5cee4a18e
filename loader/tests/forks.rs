//! Worlds and hosts that cannot be forked. Programs that are forked are in the tests of the
//! command: this process has the threads of the test's harness.

mod common;
use common::{assemble, function};
use sfi_loader::{Access, DomainSpec, Import, TypedFn, World};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

/// Returns the reason why a world with this domain, and perhaps a region, is not forked.
fn refusal(spec: DomainSpec, region: bool) -> String {
    let said = Arc::new(Mutex::new(String::new()));
    let tell = Arc::clone(&said);
    let mut builder = World::builder().host_fn("host", move |cx| {
        let error = cx.fork().expect_err("not forked");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        *tell.lock().unwrap() = error.to_string();
        Ok(0)
    });
    if region {
        builder = builder.region("region", 4096);
    }
    let mut world = builder.domain(spec).build().unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()).unwrap(), 0);
    said.lock().unwrap().clone()
}

fn app() -> DomainSpec {
    DomainSpec::new("app")
        .object("app.o", assemble(&function("run", "jmp host")))
        .import("host", Import::host("host").signature("() -> int"))
}

#[test]
fn memory_that_others_change_is_not_forked() {
    let shared = "the world shares memory with others";
    assert_eq!(refusal(app().shared("shared", "region", Access::ReadWrite), true), shared);
    assert_eq!(refusal(app().memory(1 << 20).threads_exposing(2), false), shared);
}

#[test]
fn hosts_with_threads_are_not_forked() {
    // A thread that this test surely has besides its own.
    let (end, waits) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || waits.recv());
    assert_eq!(refusal(app(), false), "the host has threads of its own");
    drop(end);
    assert!(thread.join().unwrap().is_err());
}
