//! Attacks on what is newer than the other tests: prepared calls, deadlines through hosts that call
//! back, and the stubs for fibers in any order.

mod common;
use common::{assemble, function};
use sfi_loader::{
    Budget, CallError, DomainSpec, FaultKind, HostCall, HostError, Import, Manage, Restart, Signature, TypedFn, World,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Delay that a busy machine may add.
const PATIENCE: Duration = Duration::from_secs(60);

fn signature(text: &str) -> Signature {
    text.parse().unwrap()
}

/// `get(p)` reads a word, `die()` faults.
fn tagged(name: &str, tag: u64) -> DomainSpec {
    let text = format!(".data\n.globl tag\ntag: .quad {tag}\n")
        + &function("get", "mov %gs:(%edi),%rax\nret")
        + &function("die", "ud2");
    DomainSpec::new(name).object("tagged.o", assemble(&text))
}

/// A prepared call of an instance that is gone reaches nobody, also if another domain's instance
/// has the place.
#[test]
fn a_prepared_call_of_a_discarded_instance_reaches_nobody() {
    let mut world = World::builder().domain(tagged("a", 11)).domain(tagged("b", 22)).build().unwrap();
    let first = world.instantiate("a").unwrap();
    let mut get = world.instance(first).unwrap().prepare("get", signature("(int) -> int")).unwrap();
    let own = world.instance(first).unwrap().symbol("tag").unwrap().0;
    assert_eq!(get.call(&mut world, &[own]), Ok(11));
    assert!(get.view(&mut world, own, 8).is_ok());
    let room = get.room(&mut world, 64).unwrap() as u64;
    world.discard(first).unwrap();
    for next in ["b", "a"] {
        assert_eq!(get.view(&mut world, own, 8).err(), Some(CallError::Discarded));
        assert_eq!(get.room(&mut world, 64).err(), Some(CallError::Discarded));
        let other = world.instantiate(next).unwrap();
        let place = world.instance(other).unwrap().symbol("tag").unwrap().0;
        for pointer in [own, place, room] {
            assert_eq!(get.view(&mut world, pointer, 8).err(), Some(CallError::Discarded), "{next}");
            assert_eq!(get.call(&mut world, &[pointer]), Err(CallError::Discarded), "{next}");
        }
        assert_eq!(get.room(&mut world, 64).err(), Some(CallError::Discarded), "{next}");
        world.discard(other).unwrap();
    }
}

/// Rooms lie in the callee's data stack, whatever size the host asks for, and a room of an earlier
/// life is not used.
#[test]
fn rooms_lie_in_the_present_stack() {
    let spec = || tagged("a", 11).stack(1 << 16);
    let mut world = World::builder().domain(spec().restart(Restart::Always)).build().unwrap();
    let mut get = world.domain("a").unwrap().prepare("get", signature("(int) -> int")).unwrap();
    let mut die = world.domain("a").unwrap().prepare("die", signature("() -> int")).unwrap();
    let base = |world: &World| world.domain("a").unwrap().secret_base();
    for size in [0, 1, 15, 16, 4096, 1 << 15, 1 << 16, 1 << 32, 1 << 63, usize::MAX - 15, usize::MAX] {
        let Ok(room) = get.room(&mut world, size) else {
            assert!(size > 1 << 15, "{size}");
            continue;
        };
        assert!(size < 1 << 16, "{size}");
        let room = room as u64;
        assert_eq!((room & !0xffff_ffff, room % 16), (base(&world), 0), "{size}");
        assert!(get.view(&mut world, room, size).is_ok(), "{size}");
        if size >= 8 {
            // SAFETY: the room is the host's until the call.
            unsafe { (room as *mut u64).write(size as u64) };
            assert_eq!(get.call(&mut world, &[room]), Ok(size as u64));
        }
    }
    // Each call leaves the data stack as it was.
    let place = get.room(&mut world, 64).unwrap();
    for end in 0..4 {
        let stale = get.room(&mut world, 64).unwrap();
        assert!(end > 0 || stale == place, "{end}");
        match end {
            0 => assert!(matches!(die.call(&mut world, &[]), Err(CallError::Fault(_)))),
            1 => world.restart("a").unwrap(),
            _ => world.reload(spec().restart(Restart::Always)).unwrap(),
        }
        // The place may be the present one, and is in the domain in any case.
        match get.call(&mut world, &[stale as u64]) {
            Ok(_) | Err(CallError::Arguments { .. }) => {}
            Err(CallError::Fault(fault)) => assert!(matches!(fault.kind, FaultKind::Memory(_)), "{fault}"),
            other => panic!("{end}: {other:?}"),
        }
        let tag = world.domain("a").unwrap().symbol("tag").unwrap().0;
        let _ = get.call(&mut world, &[tag]);
        let tag = world.domain("a").unwrap().symbol("tag").unwrap().0;
        assert_eq!(get.call(&mut world, &[tag]), Ok(11), "{end}");
    }
}

/// Domains and host functions call each other in turn, at every depth. Each level swallows the
/// errors of the inner ones and calls again. The outermost call ends all the same, at its limit of
/// wall clock or processor time, and the next call has its whole time.
#[test]
fn one_deadline_holds_through_hosts_that_call_back() {
    const LIMIT: Duration = Duration::from_millis(60);
    let text = function("run", "mov %rdi,%rbx\n1:\ntest %rbx,%rbx\njz 1b\nlea -1(%rbx),%rdi\ncall back\njmp 1b\nret")
        + &function("answer", "mov $42,%eax\nret");
    let object = assemble(&text);
    for depth in [0_u64, 1, 2, 7, 63, 200] {
        for (restart, limit) in [
            (Restart::Never, "wall"),
            (Restart::Always, "wall"),
            (Restart::Never, "cpu"),
            (Restart::Always, "cpu"),
            (Restart::Always, "budget"),
        ] {
            let turns = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&turns);
            let back = move |cx: &mut HostCall<'_>| {
                let (n, other) = (cx.arg(0), counter.fetch_add(1, Ordering::Relaxed) % 2);
                let next = cx.export::<fn(u64) -> u64>(["b", "a"][other as usize], "run");
                let next = next.map_err(|error| HostError::new(error.to_string()))?;
                Ok(next.call(cx, (n,)).unwrap_or(7))
            };
            let spec = |name: &str| {
                let spec = DomainSpec::new(name).object("turns.o", object.clone()).import("back", Import::host("back"));
                spec.restart(restart).budget(if limit == "budget" { Budget::cpu(LIMIT) } else { Budget::default() })
            };
            let builder = World::builder().domain(spec("a")).domain(spec("b")).host_fn("back", back);
            let mut world = match limit {
                "wall" => builder.time_limit(LIMIT),
                "cpu" => builder.cpu_limit(LIMIT),
                // One domain may go on after the other one is ended, until its own budget ends.
                _ => builder.time_limit(40 * LIMIT),
            }
            .build()
            .unwrap();
            let run: TypedFn<fn(u64) -> u64> = world.domain("a").unwrap().export("run").unwrap();
            let start = Instant::now();
            let Err(CallError::Fault(fault)) = run.call(&mut world, (depth,)) else { panic!("not ended") };
            assert!(start.elapsed() < PATIENCE, "{depth} {limit}: {:?}", start.elapsed());
            assert_eq!(fault.domain, "a");
            let expected = match limit {
                "wall" => [FaultKind::TimeLimit; 2],
                "cpu" => [FaultKind::CpuLimit; 2],
                _ => [FaultKind::CpuBudget, FaultKind::TimeLimit],
            };
            assert!(expected.contains(&fault.kind), "{depth} {limit}: {fault}");
            for name in ["a", "b"] {
                world.restart(name).unwrap();
                let answer: TypedFn<fn() -> u64> = world.domain(name).unwrap().export("answer").unwrap();
                assert_eq!(answer.call(&mut world, ()), Ok(42), "{name} after {depth} {limit}");
            }
        }
    }
}

/// The value of a field that changes with each call.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % sides
    }
}

const FUNCTIONS: u64 = 16;
const PLACES: u64 = 3;

/// Functions that use the stubs in any order. After each use they compare a word of the window with
/// the domain's own tag: code of one domain with the window of another would tell the host. Endless
/// loops end in a fault.
fn anything(tag: u64, dice: &mut Dice) -> Vec<u8> {
    let check = format!(
        "mov %gs:tag(%eip),%rax\ncmp ${tag},%rax\nje 8f\ncall breach\n8:\ndecq %gs:fuel(%eip)\njns 8f\nud2\n8:\n"
    );
    let mut text = format!(".data\n.globl tag\ntag: .quad {tag}\n.globl fuel\nfuel: .quad 3000\n");
    for n in 0..FUNCTIONS {
        let mut body = check.clone();
        for _ in 0..1 + dice.roll(6) {
            let place =
                [dice.roll(PLACES), PLACES, u64::MAX, 1 << 32][usize::from(dice.roll(12) == 0) * dice.roll(4) as usize];
            let depth =
                [dice.roll(5), u64::MAX, 1 << 61, 9000][usize::from(dice.roll(12) == 0) * dice.roll(4) as usize];
            let mut slot = format!("lea f{}(%rip),%rsi\n", dice.roll(FUNCTIONS));
            if dice.roll(16) == 0 {
                slot = format!("mov ${},%rsi\n", dice.roll(1 << 31) << 17);
            }
            let how = ["call", "jmp"][dice.roll(2) as usize];
            body += &match dice.roll(10) {
                0 | 1 => format!("call f{}\n", dice.roll(FUNCTIONS)),
                2 | 3 => format!("mov ${place},%rdi\ncall __sfi_keep\n"),
                4 | 5 => format!("mov ${place},%rdi\n{slot}{how} __sfi_bring\n"),
                6 => format!("mov ${depth},%rdi\n{slot}{how} __sfi_cut\n"),
                7 => format!("mov ${},%edi\ncall __sfi_return\n", dice.roll(3)),
                8 => "call other\n".to_owned(),
                _ => "call host\n".to_owned(),
            };
            body += &check;
        }
        text += &function(&format!("f{n}"), &(body + "ret"));
    }
    text += &function("sane", &format!("call 1f\n{check}inc %rax\nret\n1: mov $5,%edi\ncall __sfi_depth\nret"));
    assemble(&text)
}

/// The stubs for fibers and for `longjmp`, in any order and with any argument, from three domains
/// that call each other, directly and through the host: no code ever runs in another window.
#[test]
fn stubs_in_any_order_stay_in_their_domain() {
    let names = ["a", "b", "c"];
    let (breaches, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (mut returned, mut faulted) = (0, 0);
    for seed in 0..10 {
        let mut dice = Dice(seed);
        let mut builder = World::builder().time_limit(PATIENCE);
        for (i, name) in names.into_iter().enumerate() {
            builder = builder.domain(
                DomainSpec::new(name)
                    .object("any.o", anything(1_000 * (i as u64 + 1) + seed, &mut dice))
                    .import("other", Import::domain(names[(i + 1) % 3], "f0").signature("() -> int"))
                    .import("host", Import::host("host"))
                    .import("breach", Import::host("breach"))
                    .fibers(PLACES as usize),
            );
        }
        let (breach, count) = (Arc::clone(&breaches), Arc::clone(&calls));
        let mut next = 0;
        let mut world = builder
            .host_fn("breach", move |_| Ok(breach.fetch_add(1, Ordering::Relaxed)))
            .host_fn("host", move |cx| {
                next += 1;
                count.fetch_add(1, Ordering::Relaxed);
                let function = format!("f{}", next % FUNCTIONS);
                let back: TypedFn<fn() -> u64> =
                    cx.export(names[next as usize % 3], &function).map_err(|e| HostError::new(e.to_string()))?;
                Ok(back.call(cx, ()).unwrap_or(0))
            })
            .build()
            .unwrap();
        for n in 0..FUNCTIONS {
            for (i, name) in names.into_iter().enumerate() {
                let any: TypedFn<fn() -> u64> = world.domain(name).unwrap().export(&format!("f{n}")).unwrap();
                match any.call(&mut world, ()) {
                    Ok(_) => returned += 1,
                    Err(CallError::Fault(_) | CallError::Dead { .. }) => faulted += 1,
                    other => panic!("seed {seed}, {name}: {other:?}"),
                }
                for name in names {
                    world.restart(name).unwrap();
                }
                let sane: TypedFn<fn() -> u64> = world.domain(name).unwrap().export("sane").unwrap();
                assert_eq!(sane.call(&mut world, ()), Ok(1_000 * (i as u64 + 1) + seed + 1), "seed {seed}, {name}");
            }
        }
    }
    let calls = calls.load(Ordering::Relaxed);
    println!("{returned} calls returned, {faulted} faulted, {calls} calls of the host");
    assert_eq!(breaches.load(Ordering::Relaxed), 0);
    assert!(returned > 20 && faulted > 20 && calls > 100, "{returned} returned, {faulted} faulted, {calls} calls");
}
