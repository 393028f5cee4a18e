//! Shared regions: an object of a region has one address in all domains and modes, as long as the
//! world lives. The address reveals nothing about any window.

use sfi_contract::Mode;
use sfi_loader::{
    Access, AddressClass, CallError, DomainSpec, Fault, FaultKind, HostCall, Import, Manage, Owner, Pointer, Restart,
    TypedFn, Whose, World,
};
use sfi_tests::build::object;
use sfi_tests::sandbox;
use std::collections::HashSet;
use std::sync::OnceLock;

const MODES: [Mode; 3] = [Mode::Write, Mode::Full, Mode::Match];
/// The offset of `&reg.pool[7]` in the region, as `here` finds it with 64 bits.
const SEVENTH: u64 = 136;
const WAYS: u64 = 8;
/// The offset of `reg.text`.
const TEXT: u64 = 24 + 64 * 16;
const LENGTH: u64 = 1 << 16;

/// Compiles the fixture with options and rewrites it for a mode.
fn list(options: &str, mode: Mode) -> Vec<u8> {
    compiled("list.c", options, mode)
}

fn compiled(file: &str, options: &str, mode: Mode) -> Vec<u8> {
    let source = sfi_tests::paths::fixture("regions").join(file);
    let options: Vec<&str> = options.split(' ').chain(["-O2", "-ffreestanding", "-fno-builtin"]).collect();
    sandbox::rewrite(&object(source.to_str().unwrap(), &options).unwrap(), mode).unwrap()
}

fn spec(name: &str, mode: Mode, access: Access) -> DomainSpec {
    static OBJECTS: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    let objects = OBJECTS.get_or_init(|| MODES.map(|mode| list("-fPIE", mode)));
    let at = MODES.iter().position(|m| *m == mode).unwrap();
    DomainSpec::new(name).mode(mode).object("list.o", objects[at].clone()).shared("reg", "r", access)
}

fn member(name: &str, mode: Mode) -> DomainSpec {
    spec(name, mode, Access::ReadWrite)
}

fn call(world: &mut World, domain: &str, name: &str, a: u64, b: u64) -> Result<u64, CallError> {
    let function: TypedFn<fn(u64, u64) -> u64> = world.domain(domain).unwrap().export(name).unwrap();
    function.call(world, (a, b))
}

fn get(world: &mut World, domain: &str, name: &str, a: u64, b: u64) -> u64 {
    call(world, domain, name, a, b).unwrap_or_else(|error| panic!("{domain}.{name}({a:#x}, {b:#x}): {error}"))
}

fn fault(result: Result<u64, CallError>) -> Fault {
    match result {
        Err(CallError::Fault(fault)) => fault,
        other => panic!("{other:x?}"),
    }
}

fn base(world: &World, domain: &str) -> u64 {
    world.domain(domain).unwrap().secret_base()
}

/// Returns every pair of modes.
fn pairs() -> impl Iterator<Item = (Mode, Mode)> {
    MODES.into_iter().flat_map(|a| MODES.map(|b| (a, b)))
}

#[test]
fn an_object_has_one_address() {
    let reads = |name: &str, mode: Mode| spec(name, mode, Access::Read);
    for (first, second) in pairs() {
        let builder = World::builder().region("r", LENGTH).region("other", 1 << 20);
        let mut world = builder.domain(member("a", first)).domain(reads("b", second)).build().unwrap();
        let at = world.region_in("a", "r").unwrap();
        for domain in ["a", "b"] {
            assert_eq!(world.region_in(domain, "r"), Some(at));
            assert_eq!(world.domain(domain).unwrap().symbol("reg"), Some(at));
            assert_eq!(world.domain(domain).unwrap().symbol("reg_end"), Some(Pointer(at.0 + LENGTH)));
            for way in 0..WAYS {
                assert_eq!(get(&mut world, domain, "here", way, 0), at.0 + SEVENTH, "{domain} {way}");
            }
            assert_eq!(get(&mut world, domain, "here", WAYS, 0), (at.0 + SEVENTH) as u32 as u64);
            assert_eq!(get(&mut world, domain, "end", 0, 0), at.0 + LENGTH);
            // No window has the upper half of the address. Its lower half is the region's offset in
            // every window.
            assert_ne!(at.0 >> 32, base(&world, domain) >> 32);
            let segments = world.domain(domain).unwrap().segments();
            assert!(segments.iter().any(|s| s.shared && s.offset == at.0 & 0xffff_ffff));
        }
    }
}

/// Compilers form addresses in several ways. Each gives the common address.
#[test]
fn every_way_of_compiling_gives_the_same_address() {
    for options in ["-fPIC", "-fPIE", "-fPIE -mno-direct-extern-access"] {
        for mode in MODES {
            let spec = DomainSpec::new("a").mode(mode).object("list.o", list(options, mode));
            let world = World::builder().region("r", LENGTH).domain(spec.shared("reg", "r", Access::ReadWrite));
            let mut world = world.build().unwrap();
            let at = world.region_in("a", "r").unwrap().0;
            for way in 0..WAYS {
                assert_eq!(get(&mut world, "a", "here", way, 0), at + SEVENTH, "{options} {mode} {way}");
            }
            get(&mut world, "a", "push", 5, 0);
            assert_eq!(get(&mut world, "a", "sum", 0, 0), 5, "{options} {mode}");
        }
    }
}

/// A distance of 32 bits cannot hold a common address. The loader refuses it instead of giving
/// another address.
#[test]
fn distances_of_32_bits_are_refused() {
    let object = compiled("away.s", "-c", Mode::Write);
    let spec = DomainSpec::new("a").object("away.o", object).shared("reg", "r", Access::Read);
    let error = World::builder().region("r", LENGTH).domain(spec).build().unwrap_err().to_string();
    assert!(error.contains("reg") && error.contains("does not fit 32 bits"), "{error}");
}

/// One domain builds a list, others walk and change it, and the builder sees their changes, before
/// and after every move of a domain.
#[test]
fn a_list_is_everybodys() {
    for (first, second) in pairs() {
        let what = format!("{first} and {second}");
        let owners = [Owner::new("alice"), Owner::new("bob")];
        let specs = [("a", first), ("b", second)].map(|(name, mode)| member(name, mode).restart(Restart::Always));
        let [a, b] = [0, 1].map(|at| specs[at].clone().owner(&owners[at]));
        let mut world =
            World::builder().region("r", LENGTH).domain(a.clone()).domain(b).domain(spec("c", second, Access::Read));
        let mut world = {
            world = world.time_limit(None);
            world.build().unwrap()
        };
        let mut expected = 0;
        let mut faults = 0;
        let walk = |world: &mut World, expected: u64, domains: &[&str]| {
            for domain in domains {
                assert_eq!(get(world, domain, "sum", 0, 0), expected, "{what}: {domain}");
                assert_eq!(get(world, domain, "is_mark", 9, 0), 1, "{what}: {domain}");
                assert_eq!(get(world, domain, "is_mark", 8, 0), 0, "{what}: {domain}");
                assert_eq!(get(world, domain, "distance", 0, 0), 9 * 16, "{what}: {domain}");
            }
        };
        get(&mut world, "a", "set_mark", 9, 0);
        let at = get(&mut world, "a", "here", 0, 0);
        for value in 1..=5 {
            get(&mut world, "a", "push", value, 0);
            expected += value;
        }
        walk(&mut world, expected, &["a", "b", "c"]);
        get(&mut world, "b", "bump", 0, 0);
        expected += 500;
        get(&mut world, "b", "push", 7, 0);
        expected += 7;
        walk(&mut world, expected, &["a", "b", "c"]);

        // The domain is loaded again, at another place.
        let place = base(&world, "a");
        world.reload(a.clone()).unwrap();
        assert_ne!(base(&world, "a"), place);
        walk(&mut world, expected, &["b", "c", "a"]);
        // The domain is loaded again in another mode.
        for mode in MODES {
            world.reload(member("a", mode).restart(Restart::Always).owner(&owners[0])).unwrap();
            walk(&mut world, expected, &["c", "b", "a"]);
        }
        world.reload(a.clone()).unwrap();

        // The domain is reset at its place.
        world.restart("a").unwrap();
        walk(&mut world, expected, &["a", "b", "c"]);

        // The domain crashed and is restarted at another place.
        assert_eq!(fault(call(&mut world, "a", "peek", 0, 0)).kind, FaultKind::Memory(AddressClass::Null));
        faults += 1;
        walk(&mut world, expected, &["b", "c", "a"]);
        get(&mut world, "a", "push", 11, 0);
        expected += 11;

        // The region is hidden from the domain that built the list.
        world.make_invisible("a", "r").unwrap();
        walk(&mut world, expected, &["b", "c"]);
        let store = fault(call(&mut world, "a", "poke", at, 1));
        assert_eq!(store.region(), Some(("r", true)), "{what}: {store}");
        faults += 1;
        walk(&mut world, expected, &["b", "c"]);
        world.make_visible("a", "r", Access::Read).unwrap();
        walk(&mut world, expected, &["a", "b", "c"]);
        let store = fault(call(&mut world, "a", "push", 1, 0));
        assert_eq!(
            (store.kind, store.region()),
            (FaultKind::Memory(AddressClass::Protected), Some(("r", true))),
            "{what}"
        );
        faults += 1;
        world.make_visible("a", "r", Access::ReadWrite).unwrap();
        get(&mut world, "a", "push", 13, 0);
        expected += 13;
        walk(&mut world, expected, &["a", "b", "c"]);
        for domain in ["a", "b", "c"] {
            assert_eq!(get(&mut world, domain, "here", 0, 0), at);
        }

        // A domain that only reads is not suspicious.
        let records = owners.map(|owner| owner.record());
        assert_eq!([records[0].faults, records[1].faults], [faults, 0], "{what}");
        assert!(records.iter().all(|r| r.outside == 0 && !r.suspicious), "{what}");
    }
}

/// A domain that follows a pointer into a region that it saw gets a fault that names the region,
/// and is not suspicious. A stranger is.
#[test]
fn hidden_regions() {
    for mode in [Mode::Write, Mode::Match] {
        let owners = ["member", "stranger"].map(Owner::new);
        let stranger = {
            DomainSpec::new("stranger").mode(mode).object("peek.o", compiled("peek.c", "-fPIE", mode)).owner(&owners[1])
        };
        let mut world = World::builder()
            .region("r", LENGTH)
            .domain(member("a", mode).owner(&owners[0]))
            .domain(member("reader", Mode::Write))
            .domain(member("full", Mode::Full))
            .domain(stranger)
            .build()
            .unwrap();
        let at = world.region_in("a", "r").unwrap().0 + SEVENTH;
        get(&mut world, "full", "poke", at, 42);
        world.make_invisible("a", "r").unwrap();
        // Another domain still reads the region, and loads are not confined, so only stores fault.
        assert_eq!(get(&mut world, "a", "peek", at, 0), 42);
        let found = fault(call(&mut world, "a", "poke", at, 1));
        assert_eq!(found.region(), Some(("r", true)));
        if mode == Mode::Match {
            assert_eq!(found.kind, FaultKind::SegmentMatch);
            assert_eq!(found.stray().unwrap().owner, Whose::Region("r".into()), "{found}");
        }
        world.restart("a").unwrap();
        // The only other member has confined loads, so nobody reads the region at its common
        // address.
        world.make_invisible("reader", "r").unwrap();
        assert_eq!(get(&mut world, "full", "peek", at, 0), 42);
        let found = fault(call(&mut world, "a", "peek", at, 0));
        assert_eq!((found.kind, found.region()), (FaultKind::Memory(AddressClass::Unmapped), Some(("r", false))));
        world.restart("a").unwrap();
        assert_eq!(fault(call(&mut world, "stranger", "peek", at, 0)).kind, FaultKind::Memory(AddressClass::Outside));
        world.restart("stranger").unwrap();
        let records = owners.map(|owner| owner.record());
        assert_eq!(records.map(|r| (r.faults, r.outside)), [(2, 0), (1, 1)]);
        world.make_visible("reader", "r", Access::Read).unwrap();
        assert_eq!(get(&mut world, "reader", "peek", at, 0), 42);
        // A reload that fails changes nothing. After a reload in mode full nobody reads there.
        let mut other = DomainSpec::new("reader").object("list.o", list("-fPIE", Mode::Write));
        other = other.shared("reg", "s", Access::Read);
        assert!(world.reload(other).is_err(), "there is no such region");
        world.reload(member("reader", Mode::Full)).unwrap();
        assert!(call(&mut world, "a", "peek", at, 0).is_err());
    }
}

/// A region's address reveals no window, and different worlds and regions have different common
/// addresses.
#[test]
fn addresses_tell_nothing() {
    let mut seen = HashSet::new();
    for mode in MODES {
        let mut world = World::builder()
            .region("r", LENGTH)
            .region("s", LENGTH)
            .domain(member("a", mode).shared("second", "s", Access::ReadWrite))
            .domain(member("b", mode))
            .build()
            .unwrap();
        for domain in ["a", "b"] {
            get(&mut world, domain, "push", 5, 0);
            get(&mut world, domain, "set_mark", 3, 0);
        }
        let mut bytes = vec![0; LENGTH as usize];
        world.region("r").unwrap().read(0, &mut bytes).unwrap();
        let windows = ["a", "b"].map(|domain| base(&world, domain) >> 32);
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let pointers: Vec<u64> = words.filter(|word| *word > 1 << 32).collect();
        assert!(pointers.len() >= 3 && pointers.iter().all(|p| !windows.contains(&(p >> 32))), "{pointers:x?}");
        for region in ["r", "s"] {
            assert!(seen.insert(world.region_in("a", region).unwrap().0 >> 32));
        }
    }
}

/// Pointers that string instructions leave are the original ones, advanced: in a region, and in the
/// domain's own memory.
#[test]
fn string_instructions_keep_pointers() {
    for mode in MODES {
        let world =
            World::builder().region("r", LENGTH).domain(member("a", mode)).domain(spec("b", mode, Access::Read));
        let mut world = world.build().unwrap();
        let region = world.region_in("a", "r").unwrap().0 + TEXT;
        let own = get(&mut world, "a", "buffer", 0, 0);
        for at in [region, own] {
            assert_eq!(get(&mut world, "a", "fill", at, 40), at + 40, "{mode}");
            assert_eq!(get(&mut world, "a", "fill", at, 0), at, "{mode}");
            assert_eq!(get(&mut world, "a", "fill_words", at, 5), at + 40, "{mode}");
            assert_eq!(get(&mut world, "a", "fill_one", at + 40, 0), at + 41, "{mode}");
            assert_eq!(get(&mut world, "a", "fill_none", at, 0), at + 1, "{mode}");
            assert_eq!(get(&mut world, "a", "scan", at, 0), at + 41, "{mode}");
            assert_eq!(get(&mut world, "a", "load", at, 0), at + 8, "{mode}");
        }
        for (to, from) in [(own, region), (region, own), (region + 64, region)] {
            get(&mut world, "a", "fill", from, 64);
            assert_eq!(get(&mut world, "a", "copy_to", to, from), to + 64, "{mode}");
            assert_eq!(get(&mut world, "a", "copy_from", to, from), from + 64, "{mode}");
            assert_eq!(get(&mut world, "a", "compare", to, from), from + 64, "{mode}");
        }
        // A reader in another domain finds these bytes.
        get(&mut world, "a", "fill_one", region + 10, 0);
        assert_eq!(get(&mut world, "b", "scan", region, 0), region + 11, "{mode}");
    }
}

/// `ptr`: a region's pointer keeps its value, any other becomes one into the receiver's window, and
/// null stays null.
#[test]
fn pointers_cross() {
    let import = Import::domain("b", "same").signature("(ptr) -> ptr");
    for (first, second) in pairs() {
        let builder = World::builder().region("r", LENGTH).region("s", LENGTH);
        let a = member("a", first).import("other", import.clone()).shared("second", "s", Access::ReadWrite);
        let mut world = builder.domain(a).domain(member("b", second)).build().unwrap();
        let windows = ["a", "b"].map(|domain| base(&world, domain));
        let [r, s] = ["r", "s"].map(|region| world.region_in("a", region).unwrap().0);
        let own = get(&mut world, "a", "private_address", 0, 0);
        for (passed, back) in [
            (0, 0),
            (r, r),
            (r + SEVENTH, r + SEVENTH),
            (own, own),
            (own - windows[0], own),
            (windows[1] + 64, windows[0] + 64),
            // The callee does not see this region.
            (s, windows[0] + (s & 0xffff_ffff)),
            // The byte that regions are found by is right, but other bits are wrong.
            (r ^ 1 << 40, windows[0] + (r & 0xffff_ffff)),
            (r ^ 0x12 << 40, windows[0] + (r & 0xffff_ffff)),
            (4096, windows[0] + 4096),
        ] {
            assert_eq!(get(&mut world, "a", "pass", passed, 0), back, "{first} {second}: {passed:#x}");
        }
        // The region is shown and hidden while the world runs.
        world.make_visible("b", "s", Access::Read).unwrap();
        assert_eq!(get(&mut world, "a", "pass", s + 8, 0), s + 8);
        world.make_invisible("b", "s").unwrap();
        assert_eq!(get(&mut world, "a", "pass", s + 8, 0), windows[0] + ((s + 8) & 0xffff_ffff));
        world.make_invisible("b", "r").unwrap();
        assert_eq!(get(&mut world, "a", "pass", r, 0), windows[0] + (r & 0xffff_ffff));
    }
}

/// A host function, and so the arbiter, accepts a region's pointers from all domains.
#[test]
fn the_host_takes_them() {
    for mode in MODES {
        let spec = member("a", mode).import("other", Import::host("add").signature("(ptr) -> int"));
        let other =
            DomainSpec::new("other").object("list.o", list("-fPIE", Mode::Write)).shared("reg", "s", Access::Read);
        let world = World::builder().region("r", LENGTH).region("s", LENGTH).domain(other);
        let world = world.domain(spec).host_fn("add", |cx| {
            let (pointer, low) = (cx.arg(0), cx.arg(0) & 0xffff_ffff);
            let rebased = |cx: &mut HostCall<'_>, to, pointer| cx.rebase(to, pointer).unwrap();
            let window = rebased(cx, "other", 4096) - 4096;
            assert_eq!([0, pointer].map(|p| rebased(cx, "a", p)), [0, pointer]);
            assert_eq!([0, pointer].map(|p| rebased(cx, "other", p)), [0, window + low]);
            let bytes = cx.read(cx.arg(0), 8)?;
            cx.write(cx.arg(0) + 8, &bytes)?;
            Ok(u64::from_le_bytes(bytes.try_into().unwrap()))
        });
        let mut world = world.build().unwrap();
        let at = world.region_in("a", "r").unwrap().0 + TEXT;
        get(&mut world, "a", "poke", at, 77);
        assert_eq!(get(&mut world, "a", "pass", at, 0), 77);
        assert_eq!(get(&mut world, "a", "peek", at + 8, 0), 77);
        assert_eq!(world.memory("a").unwrap().read(at, 8).unwrap(), 77_u64.to_le_bytes());
    }
}

/// Instances see the same addresses. After a reset nothing is left of a region that was shown in
/// between.
#[test]
fn instances() {
    for mode in MODES {
        let world = World::builder().region("r", LENGTH).region("s", LENGTH).domain(member("a", mode));
        let mut world = world.build().unwrap();
        let at = world.region_in("a", "r").unwrap().0;
        let all = [0; 3].map(|_| world.instantiate("a").unwrap());
        let names = [1, 2, 3].map(|number| format!("a#{number}"));
        for name in &names {
            assert_eq!(get(&mut world, name, "here", 0, 0), at + SEVENTH);
            get(&mut world, name, "push", 1, 0);
        }
        assert_eq!(get(&mut world, "a", "sum", 0, 0), 3);
        let header = |world: &mut World| {
            let domain = world.domain(&names[0]).unwrap();
            let page = domain.segments().iter().find(|segment| segment.name == "header page").unwrap().offset;
            let header = domain.secret_base() + page + sfi_contract::layout::HEADER_REGIONS.addend as u64;
            world.memory(&names[0]).unwrap().read(header, 8 * sfi_contract::layout::REGION_SLOTS).unwrap()
        };
        let before = header(&mut world);
        world.make_visible(&names[0], "s", Access::ReadWrite).unwrap();
        let second = world.region_in(&names[0], "s").unwrap().0;
        get(&mut world, &names[0], "poke", second, 9);
        assert_eq!(header(&mut world) != before, mode == Mode::Match);
        world.reset(all[0]).unwrap();
        assert_eq!(header(&mut world), before);
        assert!(call(&mut world, &names[0], "peek", second, 0).is_err());
        world.discard(all[1]).unwrap();
        world.discard(all[0]).unwrap();
        assert_eq!(get(&mut world, &names[2], "sum", 0, 0), 3);
    }
}
