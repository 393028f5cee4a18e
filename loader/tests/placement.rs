//! Secret random places, and memory that is given back.

mod common;
use common::{assemble, function, maps};
use sfi_loader::{
    Access, AddressSpace, BuildError, DomainSpec, La57, LinkError, Manage, MemoryError, Placement, Protection, Restart,
    Template, TypedFn, World,
};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

fn spec(name: &str) -> DomainSpec {
    let text = function("run", "ret")
        + ".data\n.globl value\nvalue: .quad 7\n.section .rodata\n.globl fixed\nfixed: .quad 8\n";
    DomainSpec::new(name).object("a.o", assemble(&text)).memory(1 << 20).shared("buf", "region", Access::ReadWrite)
}

fn world(seed: Option<u8>) -> World {
    let mut builder = World::builder();
    if let Some(seed) = seed {
        builder = builder.seed([seed; 32]);
    }
    builder.region("region", 4096).domain(spec("a")).domain(spec("b")).build().unwrap()
}

/// Returns the absolute addresses of the segments that move.
fn places(world: &World) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for name in ["a", "b"] {
        let domain = world.domain(name).unwrap();
        for s in domain.segments().iter().filter(|s| !s.shared) {
            all.push((s.name.clone(), domain.secret_base() + s.offset));
        }
    }
    all
}

#[test]
fn two_loads_share_no_address_and_no_offset() {
    let (first, second) = (world(None), world(None));
    let addresses = |w: &World| places(w).into_iter().map(|(_, at)| at).collect::<HashSet<_>>();
    assert_eq!(addresses(&first).len(), places(&first).len());
    assert!(addresses(&first).is_disjoint(&addresses(&second)));
    // Offsets inside the windows differ too.
    let offsets = |w: &World| places(w).into_iter().map(|(_, at)| at & 0xffff_ffff).collect::<HashSet<_>>();
    let common = offsets(&first).intersection(&offsets(&second)).count();
    assert_eq!(offsets(&first).len(), 16);
    assert!(common <= 1, "{common} of 16 random pages agree");
}

/// Every life of a domain that is linked again has a window and offsets of its own: after a reload
/// and after a fault. A restart by the host stays at its place. Windows of one image share their
/// offsets: instances, and the worlds of one template. Templates of one specification do not.
#[test]
fn each_life_draws_its_offsets() {
    type Offsets = BTreeMap<String, u64>;
    let parts = |world: &World| -> (u64, Offsets) {
        let domain = world.domain("a").unwrap();
        let own = domain.segments().iter().filter(|s| !s.shared);
        (domain.secret_base(), own.map(|s| (s.name.clone(), s.offset)).collect())
    };
    let alike = |a: &Offsets, b: &Offsets| {
        assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
        a.iter().filter(|(name, offset)| b[*name] == **offset).count()
    };
    for placement in [Placement::Scattered, Placement::Dense] {
        let object = assemble(&(function("run", "ret") + &function("die", "ud2") + ".data\n.quad 7\n"));
        let spec = || DomainSpec::new("a").object("a.o", object.clone()).memory(1 << 20).placement(placement);
        let mut world = World::builder().domain(spec().restart(Restart::Always)).build().unwrap();
        let mut lives = vec![parts(&world)];
        for round in 0..12 {
            match round % 3 {
                0 => world.reload(spec().restart(Restart::Always)).unwrap(),
                1 => {
                    world.restart("a").unwrap();
                    assert_eq!(&parts(&world), lives.last().unwrap());
                    continue;
                }
                _ => {
                    let call = |world: &mut World, name: &str| {
                        let f: TypedFn<fn()> = world.domain("a").unwrap().export(name).unwrap();
                        f.call(world, ())
                    };
                    assert!(call(&mut world, "die").is_err() && call(&mut world, "run").is_ok());
                }
            }
            lives.push(parts(&world));
        }
        let (mut windows, mut offsets) = (0, 0);
        for (n, (base, life)) in lives.iter().enumerate() {
            for (other, earlier) in &lives[..n] {
                windows += usize::from(base == other);
                offsets += usize::from(alike(life, earlier) > 1);
            }
        }
        // 36 pairs. Dense parts move together, so one draw of 1,792 decides about all of them.
        assert!(windows == 0 && offsets <= 2, "{placement:?}: {windows} windows and {offsets} layouts of 36 agree");
        // Windows of one image.
        let (_, image) = parts(&world);
        let instance = world.instantiate("a").unwrap();
        let twin = world.instance(instance).unwrap();
        let twin: Offsets = twin.segments().iter().map(|s| (s.name.clone(), s.offset)).collect();
        assert_eq!(twin, image);
        let templates = [(); 3].map(|()| Template::builder(spec()).build().unwrap());
        let worlds = [0, 0, 1, 2].map(|n| parts(&templates[n].instance().unwrap()));
        assert!(worlds[0].1 == worlds[1].1 && worlds[0].0 != worlds[1].0);
        assert!([2, 3].iter().any(|n| alike(&worlds[0].1, &worlds[*n].1) <= 1), "{worlds:?}");
    }
}

#[test]
fn a_seed_reproduces_the_layout() {
    let first = places(&world(Some(1)));
    assert_eq!(first, places(&world(Some(1))));
    assert_ne!(first, places(&world(Some(2))));
}

#[test]
fn windows_are_aligned_reserved_and_guarded() {
    let world = world(None);
    for name in ["a", "b"] {
        let domain = world.domain(name).unwrap();
        let base = domain.secret_base();
        assert_eq!(base % (1 << 32), 0);
        // The whole window and the guard after it belong to the loader: mapped, and accessible only
        // where segments are.
        let mut accessible = Vec::new();
        let mut covered = base;
        for line in maps() {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|x| u64::from_str_radix(x, 16).unwrap());
            if end <= base || start >= base + (1 << 32) + (64 << 10) {
                continue;
            }
            assert!(start <= covered, "a hole in the window");
            covered = end;
            assert!(!rest.starts_with("rwx") && !rest[..3].contains("wx"), "{line}");
            if !rest.starts_with("---") {
                accessible.push((start - base, end - base, rest[..3].to_owned()));
            }
        }
        assert!(covered >= base + (1 << 32) + (64 << 10));
        let expected: Vec<_> = domain
            .segments()
            .iter()
            .map(|s| {
                let protection = match s.protection {
                    Protection::Read => "r--",
                    Protection::ReadWrite => "rw-",
                    Protection::ReadExecute => "r-x",
                };
                (s.offset, s.end(), protection.to_owned())
            })
            .collect();
        assert_eq!(accessible, expected);
        assert!(expected.len() <= 9, "too many mappings: {expected:?}");
        assert!(expected.iter().all(|s| s.0 >= 0x40_0000));
    }
    // A shared region lies at one offset in all windows.
    let offset = |name: &str| world.domain(name).unwrap().symbol("buf").unwrap().0 & 0xffff_ffff;
    assert_eq!(offset("a"), offset("b"));
}

/// Runs in a process of its own, because other tests map memory meanwhile.
#[test]
fn dropping_a_world_gives_everything_back() {
    if std::env::var_os("SFI_TEST_CHILD").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["dropping_a_world", "--nocapture", "--test-threads=1"])
            .env("SFI_TEST_CHILD", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let object = assemble(&function("run", "ret"));
    let bad = assemble(&(function("run", "call nobody\nret")));
    let make = |object: &Vec<u8>| {
        World::builder()
            .region("region", 1 << 20)
            .domain(DomainSpec::new("a").object("a.o", object.clone()).shared("buf", "region", Access::Read))
            .domain(DomainSpec::new("b").object("a.o", object.clone()))
            .build()
    };
    let windows = || maps().iter().filter(|l| !l.contains("[heap]") && !l.contains("[stack]")).count();
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let call = |w: &mut World| {
        let run: sfi_loader::TypedFn<fn()> = w.domain("a").unwrap().export("run").unwrap();
        run.call(w, ()).unwrap();
    };
    call(&mut make(&object).unwrap());
    let before = (windows(), files());
    for _ in 0..50 {
        let mut world = make(&object).unwrap();
        call(&mut world);
        assert!(windows() > before.0);
        drop(world);
        assert!(make(&bad).is_err());
    }
    assert_eq!((windows(), files()), before);
}

#[test]
fn memory_access_is_bounds_checked() {
    let mut world = world(None);
    let (base, value, fixed, run, header, table) = {
        let a = world.domain("a").unwrap();
        let part = |name: &str| a.secret_base() + a.segments().iter().find(|s| s.name == name).unwrap().offset;
        let [text, header, table] = ["text", "header page", "dispatch table"].map(part);
        (a.secret_base(), a.symbol("value").unwrap().0, a.symbol("fixed").unwrap().0, text, header, table)
    };
    let mut memory = world.memory("a").unwrap();
    assert_eq!(memory.read(value, 8).unwrap(), 7u64.to_le_bytes());
    // Only the lower half of a pointer counts, as for the domain's own stores.
    assert_eq!(memory.read(value & 0xffff_ffff, 8).unwrap(), 7u64.to_le_bytes());
    memory.write(value, &[9]).unwrap();
    assert_eq!(memory.read(value, 1).unwrap(), [9]);
    memory.store(value, 0x1_0009).unwrap();
    assert_eq!(memory.load(value), Ok(0x1_0009));
    for odd in [value + 1, value + 2] {
        assert!(matches!(memory.store(odd, 0), Err(MemoryError::OutOfBounds { length: 4, .. })));
    }
    for read_only in [fixed, run, header, table] {
        assert!(memory.read(read_only, 1).is_ok());
        assert!(matches!(memory.store(read_only, 0), Err(MemoryError::ReadOnly { .. })));
        assert!(matches!(memory.write(read_only, &[0]), Err(MemoryError::ReadOnly { .. })));
    }
    for (pointer, length) in [
        (0, 1),
        (base, 8),
        (base + 0xffff_ffff, 1),
        (base + 0xffff_ffff, 2),
        (value, usize::MAX),
        (value, 1 << 33),
        (value & !0xfff, 4097),
        (base + 0x30_1000, 1),
    ] {
        assert!(matches!(memory.read(pointer, length), Err(MemoryError::OutOfBounds { .. })), "{pointer:#x} {length}");
        if length < 1 << 20 {
            assert!(memory.write(pointer, &vec![0; length]).is_err());
        }
    }
    let page_end = (value & !0xfff) + 4095;
    memory.write(page_end, b"x").unwrap();
    assert!(matches!(memory.read_c_string(page_end, 100), Err(MemoryError::Unterminated { .. })));
    memory.write(value, b"text\0").unwrap();
    assert_eq!(memory.read_c_string(value, 5).unwrap(), b"text");
    assert!(matches!(memory.read_c_string(value, 4), Err(MemoryError::Unterminated { .. })));
}

/// Thousands of regions are placed one by one without looking at all others each time, and more
/// than a window holds are refused before the first is placed. Both took minutes.
#[test]
fn many_regions_take_little_time() {
    let object = assemble(&function("run", "ret"));
    let build = |count: usize, root: bool| {
        let (mut builder, mut spec) = (World::builder(), DomainSpec::new("a").object("a.o", object.clone()));
        for n in 0..count {
            builder = builder.region(format!("r{n}"), 4096);
            if !root {
                spec = spec.shared(format!("s{n}"), format!("r{n}"), Access::ReadWrite);
            }
        }
        builder.domain(if root { spec.root() } else { spec }).build()
    };
    let start = Instant::now();
    assert!(matches!(build(100_000, false), Err(BuildError::Link(LinkError::Regions))));
    assert!(matches!(build(100_000, true), Err(BuildError::Link(LinkError::Regions))));
    for root in [false, true] {
        let world = build(4_000, root).unwrap();
        let segments = world.domain("a").unwrap().segments();
        let regions: Vec<_> = segments.iter().filter(|s| s.shared).collect();
        assert_eq!(regions.len(), 4_000);
        assert!(regions.windows(2).all(|pair| pair[0].end() + (64 << 10) <= pair[1].offset));
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn regions_may_be_read_only() {
    let text = function("run", "movl $1,%gs:buf(%eip)\nret") + &function("get", "mov buf(%rip),%eax\nret");
    let mut world = World::builder()
        .region("region", 100)
        .domain(DomainSpec::new("a").object("a.o", assemble(&text)).shared("buf", "region", Access::Read))
        .build()
        .unwrap();
    let run: sfi_loader::TypedFn<fn()> = world.domain("a").unwrap().export("run").unwrap();
    let get: sfi_loader::TypedFn<fn() -> u32> = world.domain("a").unwrap().export("get").unwrap();
    world.region("region").unwrap().write(0, &[5, 0, 0, 0]).unwrap();
    assert_eq!(get.call(&mut world, ()), Ok(5));
    assert!(run.call(&mut world, ()).is_err());
    let buf = world.domain("a").unwrap().symbol("buf").unwrap();
    assert!(matches!(world.memory("a").unwrap().write(buf.0, &[1]), Err(MemoryError::ReadOnly { .. })));
}

/// A feature that this machine lacks is an error, a fallback, or has no effect.
#[test]
fn five_levels_of_page_tables_on_request() {
    let five = std::fs::read_to_string("/proc/cpuinfo").unwrap().split_whitespace().any(|flag| flag == "la57");
    assert_eq!(AddressSpace::Five.available(), five);
    let build = |la57| {
        let object = assemble(&function(
            "run",
            "lea here(%rip),%rax\nmov %rax,%gs:here(%eip)\nmov here(%rip),%rax\nret\n.data\nhere: .quad 0\n.text",
        ));
        let spec = DomainSpec::new("a").object("a.o", object);
        (World::builder().la57(la57).domain(spec.clone()).build(), Template::builder(spec).la57(la57).build())
    };
    for (la57, space) in [
        (La57::Never, Some(AddressSpace::Four)),
        (La57::IfAvailable, Some(if five { AddressSpace::Five } else { AddressSpace::Four })),
        (La57::Always, five.then_some(AddressSpace::Five)),
    ] {
        let (world, template) = build(la57);
        let Some(space) = space else {
            assert!(world.unwrap_err().to_string().starts_with("SFI-M02: "));
            assert!(template.unwrap_err().to_string().starts_with("SFI-M02: "));
            continue;
        };
        // The window lies in the upper half of 57 bits, and once in 512 draws low. Its code
        // computes and stores addresses.
        for mut world in [world.unwrap(), template.unwrap().instance().unwrap()] {
            let domain = world.domain("a").unwrap();
            assert_eq!(domain.placement().windows, space.windows());
            let (run, base): (TypedFn<fn() -> u64>, u64) = (domain.export("run").unwrap(), domain.secret_base());
            assert_eq!(run.call(&mut world, ()).unwrap() >> 32, base >> 32);
        }
    }
}
