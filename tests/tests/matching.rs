//! Mode match: a fault names every wrong store or branch with instruction, function, source line,
//! and the target of the address.

use sfi_contract::{Mode, Rule};
use sfi_loader::{
    Access, BuildError, CallError, Distance, DomainSpec, Fault, FaultKind, LinkError, Manage, Nearest, TypedFn, Whose,
    World,
};
use sfi_tests::sandbox;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/matching/stores.c");
const WINDOW: u64 = 1 << 32;

/// Functions that store at their first argument, and the storing instruction.
const STORES: &[(&str, &str)] = &[
    ("byte", "mov"),
    ("far_off", "mov"),
    ("indexed", "mov"),
    ("increment", "inc"),
    ("locked", "lock add"),
    ("locked_sum", "lock xadd"),
    ("floating", "movsd"),
    ("vector", "movups"),
    ("extended", "fstp"),
    ("exchange", "xchg"),
    ("compare", "lock cmpxchg"),
    ("condition", "setg"),
    ("flags", "mov"),
    ("bit", "bts"),
    ("moved_bit", "mov"),
    ("high", "mov"),
    ("count", "mov"),
    ("accumulator", "mov"),
    ("popped", "mov"),
    ("stack", "mov"),
    ("nontemporal", "movnti"),
    ("control", "stmxcsr"),
    ("wide", "vmovdqu"),
    ("filled", "rep stosb"),
    ("filled_words", "rep stosq"),
    ("copied", "rep movsw"),
    ("one", "mov"),
    ("filled_flags", "rep stosb"),
];

/// Compiles and rewrites the object.
fn stores(mode: Mode) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("stores.o");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-g", "-fPIC", "-fcf-protection=none", "-c", SOURCE, "-o"]).arg(&object);
    assert!(compiler.status().unwrap().success());
    sandbox::rewrite(&std::fs::read(&object).unwrap(), mode).unwrap()
}

/// Builds a world with two domains of the object.
fn world(mode: Mode) -> World {
    let object = stores(mode);
    let domain = |name: &str| DomainSpec::new(name).mode(mode).object("stores.o", object.clone());
    World::builder().domain(domain("a")).domain(domain("b")).build().unwrap()
}

/// A common address of a region that the domain sees is accepted by every kind of store.
#[test]
fn stores_to_regions_are_matched() {
    let object = stores(Mode::Match);
    let member =
        DomainSpec::new("a").mode(Mode::Match).object("stores.o", object).shared("reg", "r", Access::ReadWrite);
    let mut world = World::builder().region("r", 1 << 16).region("s", 1 << 16).domain(member).build().unwrap();
    let region = world.region_in("a", "r").unwrap().0;
    let own = world.domain("a").unwrap().secret_base();
    for (function, instruction) in STORES {
        let at = region + 4096;
        call(&mut world, function, (at, 1)).unwrap_or_else(|fault| panic!("{function}: {fault}"));
        // Other bits of the upper half. Some keep the byte that regions are found by.
        let others = [1, 1 << 8, 1 << 14].map(|bit| at ^ bit << 32);
        // Upper halves that entries without a region could match, and their negatives.
        let none = [1, 2, 256, 257, 1 << 31].map(|upper: u64| upper << 32 | 4096);
        let all = others.into_iter().chain(none).chain(none.map(|at| at.wrapping_neg()));
        for other in all.filter(|at| at & !(WINDOW - 1) != own) {
            let fault = call(&mut world, function, (other, 1)).unwrap_err();
            assert_named(&fault, FaultKind::SegmentMatch, function, instruction);
        }
    }
}

/// Calls a function of domain `a`; a fault restarts the domain.
fn call(world: &mut World, name: &str, arguments: (u64, u64)) -> Result<u64, Fault> {
    let function: TypedFn<fn(u64, u64) -> u64> = world.domain("a").unwrap().export(name).unwrap();
    match function.call(world, arguments) {
        Ok(value) => Ok(value),
        Err(CallError::Fault(fault)) => {
            world.restart("a").unwrap();
            Err(fault)
        }
        Err(other) => panic!("{name}: {other}"),
    }
}

/// Returns the line that defines a function.
fn line(function: &str) -> u64 {
    let source = std::fs::read_to_string(SOURCE).unwrap();
    let found = source.lines().position(|line| line.contains(&format!("{function}(")) && line.ends_with('}'));
    1 + found.unwrap_or_else(|| panic!("no function {function}")) as u64
}

/// Checks that the fault names this instruction of this function, and its line.
fn assert_named(fault: &Fault, kind: FaultKind, function: &str, instruction: &str) {
    assert_eq!((fault.kind, fault.function.as_deref()), (kind, Some(function)), "{fault}");
    assert_eq!(fault.stray().unwrap().instruction, instruction, "{fault}");
    let source = fault.source();
    let place = source.first().unwrap_or_else(|| panic!("{function}: no source line"));
    assert_eq!(place.line, Some(line(function)), "{fault}");
    assert!(Path::new(place.file.as_deref().unwrap()).ends_with("stores.c"), "{fault}");
}

fn inside(part: &str, by: u64) -> Option<Nearest> {
    Some(Nearest { part: part.to_owned(), distance: Distance::Inside(by) })
}

#[test]
fn every_kind_of_store_is_named() {
    let mut world = world(Mode::Match);
    let base = |world: &World, name: &str| world.domain(name).unwrap().secret_base();
    let (a, b) = (base(&world, "a"), base(&world, "b"));
    let heap = |world: &World, name: &str| {
        let domain = world.domain(name).unwrap();
        domain.segments().iter().find(|s| s.name == "heap").unwrap().offset + 64
    };
    let empty = (1..).map(|n| a + n * WINDOW).find(|w| *w != b).unwrap();
    for (name, instruction) in STORES {
        let room = call(&mut world, "place", (0, 0)).unwrap();
        assert_eq!(room & !(WINDOW - 1), a);
        call(&mut world, name, (room, 1)).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        for (pointer, owner, nearest) in [
            (b + heap(&world, "b"), Whose::Domain("b".into()), inside("heap", 64)),
            (empty + heap(&world, "a"), Whose::Nobody, inside("heap", 64)),
            (64, Whose::Null, None),
        ] {
            let fault = call(&mut world, name, (pointer, 1)).unwrap_err();
            assert_named(&fault, FaultKind::SegmentMatch, name, instruction);
            let stray = fault.stray().unwrap();
            assert_eq!((&stray.owner, &stray.nearest), (&owner, &nearest), "{fault}");
            assert_eq!(fault.secret_address(), pointer, "{fault}");
            assert!(!fault.to_string().contains(&format!("{:x}", pointer >> 32)) || pointer == 64, "{fault}");
        }
    }
}

/// In mode write the stores hit the domain itself without a fault.
#[test]
fn mode_write_says_nothing() {
    let mut world = world(Mode::Write);
    // A bit test with a distance loads first.
    for (name, _) in STORES.iter().filter(|(name, _)| *name != "moved_bit") {
        let room = call(&mut world, "place", (0, 0)).unwrap();
        call(&mut world, name, (room.wrapping_add(WINDOW), 1)).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}

#[test]
fn string_stores_are_checked_at_both_ends() {
    let mut world = world(Mode::Match);
    let base = world.domain("a").unwrap().secret_base();
    for (name, size, instruction) in
        [("filled", 1, "rep stosb"), ("filled_words", 8, "rep stosq"), ("copied", 2, "rep movsw")]
    {
        // With a count of 0 no byte is stored, so any pointer is accepted.
        call(&mut world, name, (0x1234, 0)).unwrap();
        for (pointer, count, address) in [
            (base - size, 4, base - size),
            (base + WINDOW - size, 2, base + WINDOW + size - 1),
            (base, 1 << 33, base + (size << 33) - 1),
        ] {
            let fault = call(&mut world, name, (pointer, count)).unwrap_err();
            assert_named(&fault, FaultKind::SegmentMatch, name, instruction);
            assert_eq!(fault.secret_address(), address, "{fault}");
        }
    }
}

/// Flags that are live across a store survive its check.
#[test]
fn checks_keep_flags_and_registers() {
    let mut world = world(Mode::Match);
    let room = call(&mut world, "place", (0, 0)).unwrap();
    for (name, greater) in [("flags", [2, 5]), ("filled_flags", [2, 5])] {
        let found = greater.map(|n| call(&mut world, name, (room, n)).unwrap());
        assert_eq!(found, [0, 1], "{name}");
    }
    for i in 0..4 {
        assert_eq!(call(&mut world, "thread", (i, 0)), Ok(9));
    }
    let chosen: Vec<u64> = (0..8).map(|n| call(&mut world, "chosen", (n, 0)).unwrap()).collect();
    assert_eq!(chosen, [5, 3, 8, 21, 11, 4_u64.wrapping_neg(), 36, u64::MAX]);
}

#[test]
fn indirect_branches_are_named() {
    let mut world = world(Mode::Match);
    let (a, b) = (world.domain("a").unwrap().secret_base(), world.domain("b").unwrap().secret_base());
    let function = call(&mut world, "address", (0, 0)).unwrap();
    let empty = (1..).map(|n| a + n * WINDOW).find(|w| *w != b).unwrap();
    let own = function - a;
    for (name, instruction, extra) in [("called", "call", 1), ("jumped", "jmp", 0)] {
        assert_eq!(call(&mut world, name, (function, 0)), Ok(7 + extra));
        for (pointer, owner) in [
            (b + own, Whose::Domain("b".into())),
            (empty + own, Whose::Nobody),
            (function + 3, Whose::Own),
            (function ^ 0x0ff0_0000, Whose::Own),
            (a + 0x1234_5678, Whose::Own),
            (0, Whose::Null),
        ] {
            let fault = call(&mut world, name, (pointer, 0)).unwrap_err();
            assert_named(&fault, FaultKind::WildBranch, name, instruction);
            assert_eq!((&fault.stray().unwrap().owner, fault.secret_address()), (&owner, pointer), "{fault}");
        }
    }
    let room = call(&mut world, "place", (0, 0)).unwrap();
    let fault = call(&mut world, "loaded", (room, 0)).unwrap_err();
    assert_named(&fault, FaultKind::WildBranch, "loaded", "call");
}

/// An object of mode write has no checks: the verifier and the loader refuse it.
#[test]
fn objects_of_mode_write_are_no_objects_of_mode_match() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("stores.o");
    assert!(Command::new("gcc").args(["-O2", "-fPIC", "-c", SOURCE, "-o"]).arg(&object).status().unwrap().success());
    let object = sandbox::rewrite(&std::fs::read(&object).unwrap(), Mode::Write).unwrap();
    assert!(sandbox::verify(&object, Mode::Match).unwrap_err().to_string().contains("SFI-M01"));
    let domain = DomainSpec::new("a").mode(Mode::Match).object("stores.o", object);
    let Err(BuildError::Link(LinkError::Refused { objects, .. })) = World::builder().domain(domain).build() else {
        panic!("the loader takes an object of another mode");
    };
    assert!(objects[0].violations.iter().all(|violation| violation.rule == Rule::Unmatched), "{objects:?}");
}
