//! The stubs that keep parts of the control stack, used in every bad way. A part comes back as the
//! domain itself left it, and in no other domain, life or place.

mod common;
use common::{assemble, function, kind};
use sfi_loader::{CallError, DomainSpec, FaultKind, HostError, Import, TypedFn, World};
use std::time::Duration;

/// `save(n, place)` calls itself n times and keeps the part. `again(place)` brings one back and
/// goes on at `landing`, which returns 5000 to the innermost frame. Each frame adds one.
fn attacker() -> Vec<u8> {
    let mut text = function(
        "save",
        "test %rdi,%rdi\nje 1f\ndec %rdi\ncall save\nadd $1,%rax\nret\n\
         1: mov %rsi,%rdi\ncall __sfi_keep\nmov $1000,%eax\nret",
    );
    text += &function("landing", "mov $5000,%eax\nret");
    text += &function("again", "lea landing(%rip),%rsi\njmp __sfi_bring");
    text += &function("bring", "jmp __sfi_bring");
    // Without a frame of its own there is nothing to keep.
    text += &function("jump_to_keep", "jmp __sfi_keep");
    text += &function(
        "after_keep",
        "xor %edi,%edi\ncall __sfi_keep\nmov %rcx,%rax\nor %rdi,%rax\nor %rsi,%rax\nor %r10,%rax\nor %r11,%rax\nret",
    );
    text += &function("after_bring", "xor %edi,%edi\nlea behind(%rip),%rsi\njmp __sfi_bring");
    text += &function("behind", "mov %rcx,%rax\nor %rdi,%rax\nor %rsi,%rax\nor %r11,%rax\nandn_r10\nret")
        .replace("andn_r10", "and $-0xffff9,%r10\nor %r10,%rax");
    text += &function("spin", "1: xor %edi,%edi\ncall __sfi_keep\nxor %edi,%edi\nlea spin(%rip),%rsi\njmp __sfi_bring");
    // deep(n, place): n frames, then the host calls again(place).
    text += &function(
        "deep",
        "test %rdi,%rdi\nje 1f\ndec %rdi\ncall deep\nret\n1: mov %rsi,%rdi\nlea again(%rip),%rsi\ncall host_call\nret",
    );
    // In a call back: keeps its part in place 1, and goes on from there.
    text += &function("inner", "call 1f\nadd $7,%rax\nret\n1: mov $1,%edi\ncall __sfi_keep\nmov $1,%edi\njmp again");
    text += &function("outer", "xor %edi,%edi\nlea inner(%rip),%rsi\ncall host_call\nadd $100,%rax\nret");
    assemble(&text)
}

fn spec(name: &str, fibers: usize) -> DomainSpec {
    let import = Import::host("host_call");
    DomainSpec::new(name).object("bad.o", attacker()).import("host_call", import).fibers(fibers)
}

/// The host function calls the function that is its second argument with its first one.
fn world(specs: impl IntoIterator<Item = DomainSpec>) -> World {
    let builder = World::builder().time_limit(Duration::from_secs(20)).host_fn("host_call", |cx| {
        let (argument, pointer) = (cx.arg(0), cx.arg(1));
        let inner: TypedFn<fn(u64) -> u64> = cx.function(pointer).map_err(|e| HostError::new(e.to_string()))?;
        Ok(inner.call(cx, (argument,)).unwrap_or(900))
    });
    specs.into_iter().fold(builder, sfi_loader::Builder::domain).build().unwrap()
}

fn call(world: &mut World, domain: &str, name: &str, a: u64, b: u64) -> Result<u64, CallError> {
    let f: TypedFn<fn(u64, u64) -> u64> = world.domain(domain).unwrap().export(name).unwrap();
    let result = f.call(world, (a, b));
    if result.is_err() {
        world.restart(domain).unwrap();
    }
    result
}

#[test]
fn a_part_comes_back_as_often_as_it_is_brought() {
    let mut world = world([spec("a", 2)]);
    assert_eq!(call(&mut world, "a", "again", 0, 0), Ok(5000), "an empty part");
    for frames in [0, 1, 2, 50, 3] {
        assert_eq!(call(&mut world, "a", "save", frames, 0), Ok(1000 + frames));
        assert_eq!(call(&mut world, "a", "save", 2 * frames, 1), Ok(1000 + 2 * frames));
        for _ in 0..3 {
            assert_eq!(call(&mut world, "a", "again", 0, 0), Ok(5000 + frames));
            assert_eq!(call(&mut world, "a", "again", 1, 0), Ok(5000 + 2 * frames));
        }
    }
}

#[test]
fn there_are_as_many_places_as_the_specification_says() {
    for count in [0_u64, 1, 2, 64, 1024] {
        let mut world = world([spec("a", count as usize)]);
        for place in [0, 1, count.wrapping_sub(1), count, count + 1, 1024, 1 << 32, 1 << 48, 1 << 63, u64::MAX] {
            if place < count {
                assert_eq!(call(&mut world, "a", "save", 2, place), Ok(1002));
                assert_eq!(call(&mut world, "a", "again", place, 0), Ok(5002));
            } else {
                assert_eq!(kind(call(&mut world, "a", "save", 2, place)), FaultKind::Fiber, "{place} of {count}");
                assert_eq!(kind(call(&mut world, "a", "again", place, 0)), FaultKind::Fiber, "{place} of {count}");
            }
        }
    }
    let builder = World::builder().host_fn("host_call", |_| Ok(0));
    let error = builder.domain(spec("a", 1025)).build().err().map(|e| e.to_string());
    assert_eq!(error.as_deref(), Some("domain `a`: more than 1024 fibers"));
}

#[test]
fn a_place_holds_8191_calls() {
    let mut world = world([spec("a", 2)]);
    assert_eq!(call(&mut world, "a", "save", 8191, 0), Ok(9191));
    assert_eq!(call(&mut world, "a", "again", 0, 0), Ok(5000 + 8191));
    assert_eq!(kind(call(&mut world, "a", "save", 8192, 0)), FaultKind::Fiber);
    assert_eq!(kind(call(&mut world, "a", "save", 20_000, 0)), FaultKind::Fiber);
    // Entered from the host, the stub has no return address of the domain.
    assert_eq!(kind(call(&mut world, "a", "jump_to_keep", 0, 0)), FaultKind::Fiber);
}

#[test]
fn targets_are_masked_and_no_register_holds_an_address_of_the_host() {
    let mut world = world([spec("a", 1)]);
    assert_eq!(call(&mut world, "a", "after_keep", 0, 0), Ok(0));
    assert_eq!(call(&mut world, "a", "after_bring", 0, 0), Ok(0));
    let host = kind as *const () as u64;
    for wild in [0, 1, u64::MAX, 1 << 47, host, host + 8] {
        let kind = kind(call(&mut world, "a", "bring", 0, wild));
        assert!(matches!(kind, FaultKind::WildBranch | FaultKind::Memory(_)), "{wild:#x}: {kind:?}");
    }
}

#[test]
fn a_new_life_and_another_domain_begin_without_parts() {
    let mut world = world([spec("a", 1), spec("b", 1)]);
    assert_eq!(call(&mut world, "a", "save", 3, 0), Ok(1003));
    assert_eq!(call(&mut world, "b", "again", 0, 0), Ok(5000), "another domain");
    let instance = world.instantiate("a").unwrap();
    let again: TypedFn<fn(u64) -> u64> = world.instance(instance).unwrap().export("again").unwrap();
    let save: TypedFn<fn(u64, u64) -> u64> = world.instance(instance).unwrap().export("save").unwrap();
    assert_eq!(again.call(&mut world, (0,)), Ok(5000), "another instance");
    assert_eq!(save.call(&mut world, (4, 0)), Ok(1004));
    assert_eq!(again.call(&mut world, (0,)), Ok(5004));
    world.reset(instance).unwrap();
    assert_eq!(again.call(&mut world, (0,)), Ok(5000), "after a reset");
    assert_eq!(call(&mut world, "a", "again", 0, 0), Ok(5003), "the first is as it was");
    world.restart("a").unwrap();
    assert_eq!(call(&mut world, "a", "again", 0, 0), Ok(5000), "after a restart");
    assert_eq!(call(&mut world, "a", "save", 3, 0), Ok(1003));
    assert_eq!(kind(call(&mut world, "a", "save", 3, 9)), FaultKind::Fiber);
    assert_eq!(call(&mut world, "a", "again", 0, 0), Ok(5000), "after a fault");
}

/// A part that waits for a callee is out of reach, also for calls back into the domain.
#[test]
fn a_part_that_waits_stays() {
    let mut world = world([spec("a", 2)]);
    assert_eq!(call(&mut world, "a", "save", 3, 0), Ok(1003));
    assert_eq!(call(&mut world, "a", "outer", 0, 0), Ok(5000 + 7 + 100));
    assert_eq!(call(&mut world, "a", "deep", 5, 0), Ok(5003), "through the host and back");
    // The part of the call back comes back in another crossing.
    assert_eq!(call(&mut world, "a", "again", 1, 0), Ok(5007));
}

/// A part does not come back where the control stack has no room for it, however full that is.
#[test]
fn the_control_stack_has_room_for_what_comes_back() {
    let mut world = world([spec("a", 1)]);
    let mut faults = 0;
    for frames in (100_000..131_000).step_by(500) {
        assert_eq!(call(&mut world, "a", "save", 8191, 0), Ok(9191));
        match call(&mut world, "a", "deep", frames, 0) {
            Ok(13_191) => {}
            Err(CallError::Fault(fault)) if fault.kind == FaultKind::ControlStackOverflow => {}
            // `again` died, and with it the domain that waits.
            Err(_) | Ok(900) => faults += 1,
            other => panic!("{frames}: {other:?}"),
        }
        if world.domain("a").unwrap().is_dead() {
            world.restart("a").unwrap();
        }
    }
    assert!(faults > 5, "{faults}");
}

#[test]
fn a_fiber_that_switches_for_ever_ends_with_the_time_limit() {
    let limit = Duration::from_millis(100);
    let domain = DomainSpec::new("a").object("bad.o", attacker()).import("host_call", Import::host("host_call"));
    let mut world = World::builder().domain(domain).host_fn("host_call", |_| Ok(0)).time_limit(limit).build().unwrap();
    for _ in 0..5 {
        assert_eq!(kind(call(&mut world, "a", "spin", 0, 0)), FaultKind::TimeLimit);
    }
}
