//! A tenant's residue. After a reset all state that a domain can write, in memory, registers and
//! the world's records, is as at the start, for pools and for instances. The limits and loans of a
//! tenant's host are undone, too.

mod common;
mod registers;
use common::{CALL_RAX, assemble, function};
use registers::{check_gprs, data, dump, plant, take, widths};
use sfi_loader::{
    BindError, BuildError, CallError, DomainSpec, Entry, Import, Limits, Manage, Placement, Pointer, Pool, Protection,
    Restart, Template, TypedFn, World,
};
use std::time::Duration;

const CANARY: u8 = 0xc7;
const WINDOW: u64 = 1 << 32;

fn spec(placement: Placement, large: usize) -> DomainSpec {
    let text = ".data\n.globl state\nstate: .quad 0x1122334455667788, start\n".to_owned()
        + &format!(".fill {large}, 8, 0x0102030405060708\n.bss\n.globl zeroes\nzeroes: .skip 70000\n")
        + ".section .tdata,\"awT\",@progbits\n.quad 0x9988776655443322\n.section .tbss,\"awT\",@nobits\n.skip 300\n"
        + ".section .init_array,\"aw\"\n.quad start\n"
        + &function("start", "incq %gs:state(%eip)\nret")
        + &function("get", "mov state(%rip),%rax\nret")
        + &function("die", "ud2")
        + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nret")
        + &function("through", &format!("mov %rdi,%rax\nmov %rsi,%rdi\n{CALL_RAX}ret"))
        + &function("withdraw", "lea own(%rip),%rdi\ncall __sfi_unregister\nret")
        + ".section .rodata\nname: .asciz \"app.get\"\nown: .asciz \"get\"\n";
    DomainSpec::new("app")
        .placement(placement)
        .memory(300_000)
        .stack(200_000)
        .object("app.o", assemble(&text))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .import("__sfi_unregister", Import::host("__sfi_unregister"))
        .import("late", Import::entry("app.late").signature("() -> int"))
        .registers("get", Entry::function("get").signature("() -> int"))
        .spare_bindings(2)
        .callbacks(2)
}

fn call(world: &mut World, name: &str, arguments: (u64, u64)) -> Result<u64, CallError> {
    let function: TypedFn<fn(u64, u64) -> u64> = world.domain("app").unwrap().export(name).unwrap();
    function.call(world, arguments)
}

/// A segment's name and bytes.
type Part = (String, Vec<u8>);

/// Returns all memory that the domain can read, by segment, with addresses of its window as
/// offsets. The stack's canary is new each time.
fn image(world: &mut World) -> Vec<Part> {
    let domain = world.domain("app").unwrap();
    let (base, segments) = (domain.secret_base(), domain.segments().to_vec());
    let memory = world.memory("app").unwrap();
    let read = |s: &sfi_loader::Segment| {
        let mut bytes = memory.read(s.offset, s.length as usize).unwrap();
        for word in bytes.chunks_exact_mut(8) {
            let value = u64::from_le_bytes(word.try_into().unwrap());
            if value & !(WINDOW - 1) == base {
                word.copy_from_slice(&(value & (WINDOW - 1)).to_le_bytes());
            }
        }
        (s.name.clone(), bytes)
    };
    segments.iter().map(read).collect()
}

fn fill(world: &mut World) {
    let segments = world.domain("app").unwrap().segments().to_vec();
    let mut memory = world.memory("app").unwrap();
    for segment in segments.iter().filter(|s| s.protection == Protection::ReadWrite) {
        memory.write(segment.offset, &vec![CANARY; segment.length as usize]).unwrap();
    }
}

/// Counts the bytes that differ, by segment.
fn differences(a: &[Part], b: &[Part]) -> Vec<(String, usize)> {
    let count = |(a, b): (&Part, &Part)| {
        assert_eq!((&a.0, a.1.len()), (&b.0, b.1.len()));
        (a.0.clone(), a.1.iter().zip(&b.1).filter(|(a, b)| a != b).count())
    };
    a.iter().zip(b).map(count).filter(|(_, n)| *n > 0).collect()
}

fn check(before: &[Part], after: &[Part], what: &str) {
    for (name, bytes) in after {
        let longest = bytes.chunk_by(|a, b| a == b).filter(|run| run[0] == CANARY).map(<[u8]>::len).max();
        assert!(longest.unwrap_or(0) < 4, "{what}: {longest:?} canaries in {name}");
    }
    // Stack canary and pointer guard take 16 bytes, of which the first is 0.
    for (name, count) in differences(before, after) {
        assert!(name == "thread locals" && count <= 15, "{what}: {count} bytes of {name} differ");
    }
}

#[test]
fn no_byte_of_a_tenant_is_left() {
    for placement in [Placement::Scattered, Placement::Dense] {
        for large in [10, 20_000] {
            let what = format!("{placement:?}, {large} words");
            let template = Template::builder(spec(placement, large)).build().unwrap();
            let pool = Pool::new(&template, 1).unwrap();
            let mut first = image(&mut pool.take().unwrap());
            first.sort();
            for _ in 0..3 {
                let mut world = pool.take().unwrap();
                let mut now = image(&mut world);
                now.sort();
                check(&first, &now, &what);
                assert_eq!(call(&mut world, "get", (0, 0)), Ok(0x1122334455667789));
                fill(&mut world);
            }
            let mut world = World::builder().domain(spec(placement, large)).build().unwrap();
            let before = image(&mut world);
            fill(&mut world);
            world.restart("app").unwrap();
            check(&before, &image(&mut world), &what);
        }
    }
}

#[test]
fn no_register_of_a_tenant_is_left() {
    for width in widths() {
        let text = data() + &function("show", &(dump(width) + "ret")) + &function("leave", &(plant(width) + "ret"));
        let template = Template::builder(DomainSpec::new("app").object("app.o", assemble(&text))).build().unwrap();
        let pool = Pool::new(&template, 1).unwrap();
        for _ in 0..3 {
            let mut world = pool.take().unwrap();
            call(&mut world, "show", (0, 0)).unwrap();
            let seen = take(&mut world, "app");
            check_gprs(&seen, &world, "app", &[]);
            seen.check_vectors(width, &[]);
            seen.check_x87(0x37f);
            assert_eq!(seen.mxcsr(), 0x1f80);
            // Preserved registers of the domain are the host's, and the gate restores them.
            call(&mut world, "leave", (0, 0)).unwrap();
        }
    }
}

/// Connections, lent functions and earlier faults are gone after a reset.
#[test]
fn no_record_of_a_tenant_is_left() {
    let build = |restart| {
        let spec = spec(Placement::Dense, 10).restart(restart);
        Template::builder(spec).build().unwrap()
    };
    let pool = Pool::new(&build(Restart::Limited(2)), 1).unwrap();
    let mut pointers = Vec::new();
    for round in 0..3 {
        let mut world = pool.take().unwrap();
        assert!(world.domain("app").unwrap().last_fault().is_none(), "round {round}");
        assert_eq!(world.domain("app").unwrap().restarts(), 0);
        // A gateway that the last tenant bound leads nowhere, and neither does a function that it
        // was lent.
        for pointer in pointers.drain(..) {
            assert_eq!(call(&mut world, "through", (pointer, 1)), Ok(u64::MAX), "round {round}");
        }
        assert_eq!(call(&mut world, "connect", (0, 0)), Ok(0), "no rule permits it");
        world.permit("app", "app.*");
        let Pointer(spare) = world.connect_spare("app", "app.get").unwrap().pointer();
        assert_eq!(call(&mut world, "through", (spare, 1)), Ok(0x1122334455667789));
        let Pointer(lent) = world.lend("app", "host", "(int) -> int", |cx| Ok(cx.arg(0) + 1)).unwrap();
        assert_eq!(call(&mut world, "through", (lent, 1)), Ok(2));
        // The domain dies, and the next call restarts it at another place.
        assert!(call(&mut world, "die", (0, 0)).is_err());
        assert_eq!(call(&mut world, "get", (0, 0)), Ok(0x1122334455667789));
        let base = world.domain("app").unwrap().secret_base();
        let Pointer(again) = world.connect_spare("app", "app.get").unwrap().pointer();
        assert_eq!(again & !(WINDOW - 1), base);
        pointers = vec![again, base | (lent & (WINDOW - 1))];
    }
    // A name that the last tenant's host used is free again.
    let mut world = pool.take().unwrap();
    assert!(matches!(world.take_back("app", "host"), Err(BindError::Lent { .. })));
    assert!(!matches!(world.lend("app", "host", "(int)", |_| Ok(0)), Err(BuildError::Bind(_))));
}

/// A pool takes no world back after its host changed the world's shape, and no domain takes back an
/// entry point of its specification: the next tenant finds all of them.
#[test]
fn no_change_of_a_tenants_host_is_left() {
    fn entry() -> Entry {
        Entry::function("get").signature("() -> int")
    }
    type Change = fn(&mut World);
    let changes: [(&str, bool, Change); 8] = [
        ("nothing", true, |world| assert_eq!(call(world, "withdraw", (0, 0)), Ok(u64::MAX))),
        ("a rule", true, |world| world.permit("app", "app.*")),
        ("an entry point more", false, |world| world.register("app", "more", entry()).unwrap()),
        ("an entry point less", false, |world| world.unregister("app.get").unwrap()),
        ("an import connected", false, |world| {
            world.permit("app", "app.*");
            world.connect("app", "late", "app.get").unwrap();
        }),
        ("an import disconnected", false, |world| world.disconnect("app", "late").unwrap()),
        ("other code", false, |world| {
            let spec = world.domain("app").unwrap().spec();
            world.reload(spec).unwrap();
        }),
        // An instance would keep the gateways of the domain bound.
        ("an instance", false, |world| assert!(world.instantiate("app").is_ok())),
    ];
    let pool = Pool::new(&Template::builder(spec(Placement::Dense, 10)).build().unwrap(), 1).unwrap();
    for (what, again, change) in changes {
        let mut world = pool.take().unwrap();
        let place = world.domain("app").unwrap().secret_base();
        change(&mut world);
        drop(world);
        assert_eq!(pool.idle(), usize::from(again), "{what}");
        let mut world = pool.take().unwrap();
        assert_eq!(world.domain("app").unwrap().secret_base() == place, again, "{what}");
        assert_eq!(world.entries(), ["app.get"], "{what}");
        assert_eq!((world.domains().count(), call(&mut world, "get", (0, 0))), (1, Ok(0x1122334455667789)), "{what}");
    }
}

/// `body` may replace the world whose limits it was given by another one. Freed memory is filled
/// with a pattern.
#[test]
fn a_world_is_dropped_while_it_is_limited() {
    const NAME: &str = "a_world_is_dropped_while_it_is_limited";
    if std::env::var_os("SFI_RESIDUE_CHILD").is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([NAME, "--exact"]).env("SFI_RESIDUE_CHILD", "1").env("GLIBC_TUNABLES", "glibc.malloc.perturb=165");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let build = || World::builder().domain(spec(Placement::Dense, 10)).timed().build().unwrap();
    let mut world = build();
    let limits = Limits { wall: Some(Duration::from_secs(60)), cpu: None };
    world.within(limits, |world| drop(std::mem::replace(world, build()))).unwrap();
    assert_eq!(call(&mut world, "get", (0, 0)), Ok(0x1122334455667789));
    // After the exchange both worlds have their own limits again.
    let mut other = build();
    world.within(limits, |world| std::mem::swap(world, &mut other)).unwrap();
    for world in [&mut world, &mut other] {
        assert_eq!(call(world, "get", (0, 0)), Ok(0x1122334455667789));
    }
}
