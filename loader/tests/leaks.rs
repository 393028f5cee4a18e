//! Resources that the process holds after many failures. This test is alone in its process, because
//! other tests map worlds of their own.

mod common;
use common::{assemble, function};
use sfi_loader::{DomainSpec, Import, TypedFn, World};

#[test]
fn ten_thousand_faults_leak_nothing() {
    let bad = function("die", "mov 0,%rax\nret");
    let app = function("run", "call die\nret");
    let mut world = World::builder()
        .domain(DomainSpec::new("app").object("app.o", assemble(&app)).import("die", Import::domain("bad", "die")))
        .domain(DomainSpec::new("bad").memory(1 << 16).object("bad.o", assemble(&bad)))
        .build()
        .unwrap();
    let run: TypedFn<fn() -> i64> = world.domain("app").unwrap().export("run").unwrap();
    let die: TypedFn<fn() -> i64> = world.domain("bad").unwrap().export("die").unwrap();
    let round = |world: &mut World| {
        assert_eq!(run.call(world, ()), Ok(-1));
        world.restart("bad").unwrap();
        assert!(die.call(world, ()).is_err());
        world.restart("bad").unwrap();
    };
    for _ in 0..100 {
        round(&mut world);
    }
    let count = |pattern: &str| std::fs::read_dir(pattern).unwrap().count();
    let before = (common::maps().len(), count("/proc/self/fd"), resident());
    for _ in 0..5000 {
        round(&mut world);
    }
    assert!(common::maps().len() <= before.0 + 8, "mappings grow");
    assert!(count("/proc/self/fd") <= before.1 + 2, "file descriptors grow");
    assert!(resident() < before.2 + (16 << 20), "memory grows");
}

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
