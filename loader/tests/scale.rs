//! Many instances: in one world, in pools, up to the kernel's limit. Tests that count the process'
//! mappings or memory run in a process of their own.

mod common;
use common::{CALL_RAX, assemble, function, maps};
use sfi_loader::{
    Access, BuildError, CallError, DomainSpec, Import, Instance, LookupError, Manage, MapError, Placement, Pool,
    PoolError, Template, TypedFn, World,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Runs the named test again in a child, and says whether this is the child.
fn child(test: &str) -> bool {
    if std::env::var_os("SFI_TEST_CHILD").is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let status = command.args([test, "--exact", "--nocapture"]).env("SFI_TEST_CHILD", "1").status().unwrap();
    assert!(status.success(), "the child of {test} failed: {status}");
    false
}

/// Assembles the object. `mix(x)` sets `state = state * 31 + x`, and state begins with 7.
/// `touch(p, x)` stores anywhere. Other functions die or ask the host.
fn object() -> Vec<u8> {
    assemble(
        &(function("mix", "imul $31,state(%rip),%rax\nadd %rdi,%rax\nmov %rax,%gs:state(%eip)\nret")
            + &function("touch", "mov %rsi,%gs:(%edi)\nret")
            + &function("peek", "mov %gs:(%edi),%rax\nret")
            + &function("heap", "mov %gs:__sfi_header+0x10,%rax\nret")
            + &function("local", "mov %gs:__sfi_tcb,%rax\nmov %rdi,%gs:-8(%eax)\nret")
            + &function("push", "mov %rdi,%gs:-512(%r15d)\nmov %rdi,%gs:-200000(%r15d)\nret")
            + &function("spill", "mov %gs:__sfi_tcb,%rax\nmov %rdi,%gs:0xf18(%eax)\nret")
            + &function("canary", "mov %gs:__sfi_tcb+0x28,%rax\nret")
            + &function("die", "xor %eax,%eax\nmov %rax,%gs:(%eax)\nret")
            + &function("ask", "call host\nret")
            + &function("started", "mov begun(%rip),%rax\nret")
            + &function("begin", "addq $1,%gs:begun(%eip)\nret")
            + ".data\n.globl state\nstate: .quad 7\npointer: .quad state\nbegun: .quad 0\n"
            + ".section .init_array,\"aw\"\n.quad begin\n.section .rodata\n.quad 5\n.bss\n.globl zeroes\nzeroes: .zero 8192\n"
            + ".section .tbss,\"awT\",@nobits\nlocals: .zero 64\n"),
    )
}

fn spec() -> DomainSpec {
    DomainSpec::new("app")
        .object("app.o", object())
        .import("host", Import::host("host").signature("(int) -> int"))
        .placement(Placement::Dense)
        .memory(1 << 20)
        .stack(512 << 10)
}

/// The type of all functions here.
type Two = TypedFn<fn(u64, u64) -> u64>;

fn world() -> World {
    World::builder().domain(spec()).host_fn("host", |call| Ok(call.arg(0) + 1)).build().unwrap()
}

fn function_of(world: &World, instance: Instance, name: &str) -> Two {
    world.instance(instance).unwrap().export(name).unwrap()
}

#[test]
fn instances_are_domains_of_their_own() {
    let mut world = world();
    let (one, two) = (world.instantiate("app").unwrap(), world.instantiate("app").unwrap());
    let first: Two = world.domain("app").unwrap().export("mix").unwrap();
    let call = |world: &mut World, instance, name: &str, x| function_of(world, instance, name).call(world, (x, 0));
    assert_eq!(first.call(&mut world, (1, 0)), Ok(7 * 31 + 1));
    assert_eq!(call(&mut world, one, "mix", 2), Ok(7 * 31 + 2));
    assert_eq!(call(&mut world, two, "mix", 3), Ok(7 * 31 + 3));
    assert_eq!(call(&mut world, one, "mix", 0), Ok((7 * 31 + 2) * 31));
    assert_eq!(call(&mut world, one, "ask", 41), Ok(42));
    for instance in [one, two] {
        assert_eq!(call(&mut world, instance, "started", 0), Ok(1));
    }
    let bases: Vec<u64> = [one, two].iter().map(|i| world.instance(*i).unwrap().secret_base()).collect();
    assert_ne!(bases[0], bases[1]);
    // Each instance has its own canary, and its pointers lead into its own window.
    assert_ne!(call(&mut world, one, "canary", 0), call(&mut world, two, "canary", 0));
    for (instance, base) in [one, two].into_iter().zip(bases) {
        let state = world.instance(instance).unwrap().symbol("state").unwrap().0;
        assert_eq!(state >> 32, base >> 32);
        assert_eq!(call(&mut world, instance, "peek", state + 8), Ok(state));
    }
    // A fault ends only its own instance.
    let error = call(&mut world, one, "die", 0).unwrap_err();
    let CallError::Fault(fault) = error else { panic!("{error}") };
    assert_eq!((fault.domain.as_str(), fault.function.as_deref()), ("app#1", Some("die")));
    assert!(matches!(call(&mut world, one, "mix", 0), Err(CallError::Dead { .. })));
    assert!(call(&mut world, two, "mix", 0).is_ok());
    world.reset(one).unwrap();
    assert_eq!(call(&mut world, one, "mix", 2), Ok(7 * 31 + 2));
}

#[test]
fn instances_that_were_discarded_are_gone_for_everybody() {
    let mut world = world();
    let old = world.instantiate("app").unwrap();
    let mix = function_of(&world, old, "mix");
    mix.call(&mut world, (0, 0)).unwrap();
    world.discard(old).unwrap();
    assert!(matches!(world.instance(old), Err(LookupError::Instance)));
    assert_eq!(world.discard(old), Err(LookupError::Instance));
    assert_eq!(mix.call(&mut world, (0, 0)), Err(CallError::Discarded));
    // The next instance takes its place in the world, but old handles do not lead to it.
    let new = world.instantiate("app").unwrap();
    let fresh = function_of(&world, new, "mix");
    assert_eq!(mix.call(&mut world, (0, 0)), Err(CallError::Discarded));
    assert!(world.instance(old).is_err());
    assert_eq!(fresh.call(&mut world, (1, 0)), Ok(218));
    let other =
        World::builder().domain(DomainSpec::new("x").object("x.o", assemble(&function("f", "ret")))).build().unwrap();
    assert!(matches!(other.instance(new), Err(LookupError::Instance)));
    assert!(matches!(world.instantiate("nobody"), Err(BuildError::Spec(_))));
    assert!(world.domain("").is_err());
}

#[test]
fn instances_see_shared_regions() {
    let text = function("put", "mov %rdi,%gs:buf(%eip)\nret") + &function("get", "mov buf(%rip),%rax\nret");
    let spec = DomainSpec::new("a").object("a.o", assemble(&text)).shared("buf", "region", Access::ReadWrite);
    let mut world = World::builder().region("region", 4096).domain(spec.placement(Placement::Dense)).build().unwrap();
    let (one, two) = (world.instantiate("a").unwrap(), world.instantiate("a").unwrap());
    function_of(&world, one, "put").call(&mut world, (99, 0)).unwrap();
    assert_eq!(function_of(&world, two, "get").call(&mut world, (0, 0)), Ok(99));
}

#[test]
fn a_reset_hides_what_was_shown_to_the_last_tenant() {
    let text = function("get", "mov %gs:(%edi),%rax\nret");
    let seer = |name: &str| DomainSpec::new(name).object("a.o", assemble(&text)).placement(Placement::Dense);
    let spec = seer("a").shared("buf", "always", Access::Read);
    let builder =
        World::builder().region("always", 4096).region("secret", 4096).domain(spec).domain(seer("root").root());
    let mut world = builder.build().unwrap();
    let instance = world.instantiate("a").unwrap();
    let get = function_of(&world, instance, "get");
    world.make_visible("a#1", "secret", Access::Read).unwrap();
    world.make_invisible("a#1", "always").unwrap();
    let secret = world.region_in("a#1", "secret").unwrap().0;
    assert_eq!(get.call(&mut world, (secret, 0)), Ok(0));
    let always = world.region_in("a", "always").unwrap().0;
    for (address, seen) in [(secret, false), (always, true)] {
        world.reset(instance).unwrap();
        assert_eq!(get.call(&mut world, (address, 0)).is_ok(), seen);
    }
    // An instance of a root domain sees every region, too.
    let root = world.instantiate("root").unwrap();
    let get = function_of(&world, root, "get");
    assert_eq!((get.call(&mut world, (secret, 0)), get.call(&mut world, (always, 0))), (Ok(0), Ok(0)));
}

const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// Plants the secret wherever a domain can write: data, bss, heap (near and far), stack (near and
/// deep), thread locals, TCB.
fn plant(world: &mut World, function: &dyn Fn(&World, &str) -> Two, symbols: [u64; 2]) {
    let call = |world: &mut World, name: &str, a, b| function(world, name).call(world, (a, b)).unwrap();
    let heap = call(world, "heap", 0, 0);
    for at in [symbols[0], symbols[1], symbols[1] + 8184, heap, heap + 4096, heap + 70_000, heap + (1 << 20) - 8] {
        call(world, "touch", at, SECRET);
        assert_eq!(call(world, "peek", at, 0), SECRET);
    }
    for name in ["local", "push", "spill"] {
        call(world, name, SECRET, 0);
    }
}

/// Counts occurrences of the secret in all memory of a domain.
fn occurrences(base: u64, segments: &[sfi_loader::Segment], memory: &sfi_loader::Memory<'_>) -> usize {
    let mut found = 0;
    for segment in segments {
        let bytes = memory.read(base + segment.offset, segment.length as usize).unwrap();
        found += bytes.chunks_exact(8).filter(|w| *w == SECRET.to_le_bytes()).count();
    }
    found
}

#[test]
fn a_reset_leaves_nothing_of_a_tenant() {
    for big in [false, true] {
        // With large data the pages come from a file, copy-on-write.
        let mut spec = spec();
        if big {
            let array = ".data\n.globl array\narray: .fill 20000,8,3\n.quad array\n".to_owned();
            let text = function("third", "mov array+24(%rip),%rax\nret") + &array;
            spec = spec.object("big.o", assemble(&text));
        }
        for placement in [Placement::Dense, Placement::Scattered] {
            let builder = World::builder().domain(spec.clone().placement(placement));
            let mut world = builder.host_fn("host", |_| Ok(0)).build().unwrap();
            let instance = world.instantiate("app").unwrap();
            let symbol = |world: &World, name| world.instance(instance).unwrap().symbol(name).unwrap().0;
            let mut symbols = [symbol(&world, "state"), symbol(&world, "zeroes")];
            if big {
                symbols[0] = symbol(&world, "array") + 24;
            }
            let name = "app#1";
            let state = |world: &mut World| {
                let domain = world.instance(instance).unwrap();
                let (base, segments) = (domain.secret_base(), domain.segments().to_vec());
                let memory = world.memory(name).unwrap();
                let mut all = Vec::new();
                for s in segments.iter().filter(|s| s.protection == sfi_loader::Protection::ReadWrite) {
                    let mut bytes = memory.read(base + s.offset, s.length as usize).unwrap();
                    if s.name == "thread locals" {
                        // The canary and the pointer guard are new every time.
                        let at = bytes.len() - 4096 + 0x28;
                        bytes[at..at + 16].fill(0);
                    }
                    all.push(bytes);
                }
                (all, occurrences(base, &segments, &memory))
            };
            let before = state(&mut world);
            assert_eq!(before.1, 0);
            for _ in 0..3 {
                let canary = function_of(&world, instance, "canary").call(&mut world, (0, 0)).unwrap();
                plant(&mut world, &|world, name| function_of(world, instance, name), symbols);
                assert_eq!(state(&mut world).1, 11, "{placement:?} {big}");
                world.reset(instance).unwrap();
                let after = state(&mut world);
                assert_eq!(after.1, 0, "{placement:?} {big}");
                assert!(after.0 == before.0, "{placement:?} {big}: the memory differs from a fresh instance's");
                assert_ne!(function_of(&world, instance, "canary").call(&mut world, (0, 0)).unwrap(), canary);
                if big {
                    assert_eq!(function_of(&world, instance, "third").call(&mut world, (0, 0)), Ok(3));
                }
            }
        }
    }
}

fn template() -> Template {
    Template::builder(spec()).host_fn("host", |call| Ok(call.arg(0) + 1)).build().unwrap()
}

fn export(world: &World, name: &str) -> Two {
    world.domain("app").unwrap().export(name).unwrap()
}

#[test]
fn a_pool_gives_clean_instances_to_many_threads() {
    let pool = Pool::new(&template(), 3).unwrap();
    assert_eq!(pool.idle(), 3);
    let calls = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (pool, calls) = (&pool, &calls);
            scope.spawn(move || {
                for round in 0..200 {
                    let mut world = pool.wait().unwrap();
                    let (mix, ask) = (export(&world, "mix"), export(&world, "ask"));
                    assert_eq!(export(&world, "started").call(&mut *world, (0, 0)), Ok(1));
                    assert_eq!(mix.call(&mut *world, (thread, 0)), Ok(217 + thread));
                    assert_eq!(mix.call(&mut *world, (round, 0)), Ok((217 + thread) * 31 + round));
                    assert_eq!(ask.call(&mut *world, (round, 0)), Ok(round + 1));
                    if round % 50 == thread {
                        assert!(export(&world, "die").call(&mut *world, (0, 0)).is_err());
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(calls.into_inner(), 1200);
}

#[test]
fn a_pool_that_is_used_up_says_so_and_replaces_the_dead() {
    let pool = Pool::new(&template(), 2).unwrap();
    let (mut one, two) = (pool.take().unwrap(), pool.take().unwrap());
    assert!(matches!(pool.take(), Err(PoolError::Exhausted { capacity: 2 })));
    let base = |world: &World| world.domain("app").unwrap().secret_base();
    let places = [base(&one), base(&two)];
    let die = export(&one, "die");
    assert!(die.call(&mut *one, (0, 0)).is_err());
    drop(one);
    // The dead instance is not used again, so the next one lies elsewhere.
    let three = pool.take().unwrap();
    assert!(!places.contains(&base(&three)));
    drop(two);
    let four = pool.take().unwrap();
    assert_eq!(base(&four), places[1]);
    assert!(pool.take().is_err());
}

#[test]
fn a_pooled_instance_keeps_no_secret() {
    let pool = Pool::new(&template(), 1).unwrap();
    for _ in 0..3 {
        let mut world = pool.take().unwrap();
        let domain = world.domain("app").unwrap();
        let (base, segments) = (domain.secret_base(), domain.segments().to_vec());
        let symbols = ["state", "zeroes"].map(|name| domain.symbol(name).unwrap().0);
        assert_eq!(occurrences(base, &segments, &world.memory("app").unwrap()), 0);
        plant(&mut world, &|world, name| export(world, name), symbols);
        assert_eq!(occurrences(base, &segments, &world.memory("app").unwrap()), 11);
    }
}

/// Returns a line of `/proc/self/status` or `smaps_rollup`, in bytes.
fn kilobytes(file: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_else(|| panic!("no {key} in {file}"));
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn shuffle(items: &mut [usize], seed: &mut u64) {
    for i in (1..items.len()).rev() {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        items.swap(i, (*seed % (i as u64 + 1)) as usize);
    }
}

#[test]
fn ten_thousand_domains_live_in_one_process() {
    if !child("ten_thousand_domains_live_in_one_process") {
        return;
    }
    let count: usize = std::env::var("SFI_DOMAINS").map_or(10_000, |n| n.parse().unwrap());
    let rounds: u64 = std::env::var("SFI_ROUNDS").map_or(3, |n| n.parse().unwrap());
    let mut world = world();
    let before = (maps().len(), kilobytes("smaps_rollup", "Pss:"), kilobytes("status", "VmPTE:"));
    let start = Instant::now();
    let instances: Vec<Instance> = (0..count).map(|_| world.instantiate("app").unwrap()).collect();
    let made = start.elapsed();
    let idle = (maps().len(), kilobytes("smaps_rollup", "Pss:"), kilobytes("status", "VmPTE:"));
    let functions: Vec<_> = instances.iter().map(|i| function_of(&world, *i, "mix")).collect();
    let mut expected = vec![7u64; count];
    let mut order: Vec<usize> = (0..count).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let mut calls = Vec::new();
    for round in 0..rounds {
        shuffle(&mut order, &mut seed);
        let start = Instant::now();
        for index in &order {
            let argument = *index as u64 ^ round;
            let state = &mut expected[*index];
            *state = state.wrapping_mul(31).wrapping_add(argument);
            assert_eq!(functions[*index].call(&mut world, (argument, 0)), Ok(*state));
        }
        calls.push(start.elapsed() / count as u32);
    }
    let per = |now: u64, then: u64| (now - then) as f64 / count as f64;
    let mappings = per(idle.0 as u64, before.0 as u64);
    println!(
        "{count} domains: {:?} to make one, {mappings:.2} mappings, {:.1} KiB resident and {:.1} KiB of page tables each; calls in random order, \
         by round: {calls:?}",
        made / count as u32,
        per(idle.1, before.1) / 1024.0,
        per(idle.2, before.2) / 1024.0,
    );
    assert!(mappings < 6.3, "{mappings}");
    assert!(per(idle.1, before.1) < 40.0 * 1024.0 && per(idle.2, before.2) < 24.0 * 1024.0);
    // Some die, and the others do not notice.
    for index in (0..count).step_by(100) {
        assert!(function_of(&world, instances[index], "die").call(&mut world, (0, 0)).is_err());
    }
    for (index, function) in functions.iter().enumerate() {
        assert_eq!(function.call(&mut world, (0, 0)).is_err(), index % 100 == 0);
    }
    let start = Instant::now();
    for instance in &instances {
        world.discard(*instance).unwrap();
    }
    println!("{:?} to give one up", start.elapsed() / count as u32);
    assert!(maps().len() <= before.0 + 16, "{} mappings, {} before", maps().len(), before.0);
    drop(world);
}

#[test]
fn the_limit_on_mappings_is_an_error_and_nothing_else() {
    if !child("the_limit_on_mappings_is_an_error_and_nothing_else") {
        return;
    }
    let limit: u64 = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    // Assembled before, because no process can be started at the limit.
    let spec = spec();
    let build = || World::builder().domain(spec.clone()).host_fn("host", |call| Ok(call.arg(0) + 1)).build();
    let mut world = build().unwrap();
    // The host uses up most of the kernel's limit, so that the kernel refuses and not the loader's
    // own account. Every second page of a mapping gets another protection.
    let pages = ((limit - 2_000) / 2) as usize;
    // SAFETY: a fresh mapping with no other user.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            pages * 8192,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    for page in 0..pages {
        // SAFETY: inside that mapping.
        assert_eq!(unsafe { libc::mprotect(at.byte_add(page * 8192), 4096, libc::PROT_READ) }, 0, "page {page}");
    }
    let mut instances = Vec::new();
    let refused = |error: BuildError, least: usize, parts: &[&str]| match error {
        BuildError::Map(MapError::Mappings { limit: l, mappings, domains, ref what }) => {
            assert!(
                l == limit
                    && mappings + 64 >= limit
                    && domains as usize > least
                    && parts.iter().any(|part| what.contains(part)),
                "{error}"
            );
            let text = error.to_string();
            assert!(text.starts_with("SFI-M01: ") && text.contains("vm.max_map_count"), "{text}");
        }
        other => panic!("{other}"),
    };
    for round in 0..3 {
        let error = loop {
            match world.instantiate("app") {
                Ok(instance) => instances.push(instance),
                Err(error) => break error,
            }
        };
        assert!(instances.len() > 100, "{} instances only", instances.len());
        refused(error, instances.len(), &["app"]);
        // A world of its own does not fit either, and its control stack may be the first to show
        // it. All existing instances work, faults included.
        refused(build().unwrap_err(), instances.len(), &["app", "the control stack"]);
        for (n, instance) in instances.iter().enumerate() {
            assert_eq!(function_of(&world, *instance, "ask").call(&mut world, (n as u64, 0)), Ok(n as u64 + 1));
        }
        let victim = instances[round];
        assert!(function_of(&world, victim, "die").call(&mut world, (0, 0)).is_err());
        world.reset(victim).unwrap();
        // Room that is given back can be used.
        for instance in instances.drain(..50) {
            world.discard(instance).unwrap();
        }
        for _ in 0..40 {
            instances.push(world.instantiate("app").unwrap());
        }
    }
}

#[test]
fn the_loader_leaves_the_host_some_mappings() {
    if !child("the_loader_leaves_the_host_some_mappings") {
        return;
    }
    // Scattered domains reach the limit first.
    let text = function("one", "mov $1,%eax\nret") + ".data\n.quad 1\n.section .rodata\n.quad 2\n";
    let mut world = World::builder().domain(DomainSpec::new("app").object("a.o", assemble(&text))).build().unwrap();
    let mut instances = Vec::new();
    let error = loop {
        match world.instantiate("app") {
            Ok(instance) => instances.push(instance),
            Err(error) => break error,
        }
    };
    let BuildError::Map(MapError::Mappings { limit, mappings, domains, .. }) = error else { panic!("{error}") };
    assert_eq!(domains as usize, instances.len() + 1);
    println!("{domains} scattered domains, {mappings} of {limit} mappings");
    assert!(mappings + 256 < limit, "{mappings} of {limit}");
    // Threads, large allocations and calls still work.
    std::thread::spawn(|| drop(vec![1u8; 64 << 20])).join().unwrap();
    for instance in &instances {
        assert_eq!(function_of(&world, *instance, "one").call(&mut world, (0, 0)), Ok(1));
    }
}

#[test]
fn a_thousand_instances_leave_nothing_behind() {
    if !child("a_thousand_instances_leave_nothing_behind") {
        return;
    }
    let template = template();
    let pool = Pool::new(&template, 2).unwrap();
    let mut world = world();
    let mut round = |count: usize| {
        for n in 0..count {
            let instance = world.instantiate("app").unwrap();
            function_of(&world, instance, "mix").call(&mut world, (n as u64, 0)).unwrap();
            world.discard(instance).unwrap();
            let mut single = template.instance().unwrap();
            let mix = export(&single, if n % 7 == 0 { "die" } else { "mix" });
            let _ = mix.call(&mut single, (n as u64, 0));
            let mut pooled = pool.take().unwrap();
            let mix = export(&pooled, if n % 7 == 0 { "die" } else { "mix" });
            let _ = mix.call(&mut *pooled, (n as u64, 0));
        }
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        (maps().len(), kilobytes("status", "VmRSS:"), files, kilobytes("status", "VmPTE:"))
    };
    let before = round(100);
    let after = round(1000);
    assert!(after.0 <= before.0 + 4, "mappings: {} then {}", before.0, after.0);
    assert!(after.1 <= before.1 + (1 << 20), "resident: {} then {}", before.1, after.1);
    assert_eq!(after.2, before.2, "descriptors");
    assert!(after.3 <= before.3 + (256 << 10), "page tables: {} then {}", before.3, after.3);
}

/// A domain's registrations at run time end with its tenant. Connections to them lead nowhere, also
/// after another tenant took its place.
#[test]
fn entry_points_of_instances_end_with_them() {
    let server = ".data\nname: .asciz \"late\"\ntype: .asciz \"(int) -> int\"\n.text\n".to_owned()
        + &function("late", "lea 5(%rdi),%rax\nret")
        + &function("start", "lea name(%rip),%rdi\nlea late(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret");
    let client = ".data\n.globl name\nname: .asciz \"server#1.late\"\n.text\n".to_owned()
        + &function("connect", "lea name(%rip),%rdi\ncall __sfi_connect\nret")
        + &function("through", &format!("mov %rdi,%rax\nmov %rsi,%rdi\n{CALL_RAX}ret"))
        + &function("error", "mov __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret");
    let server = DomainSpec::new("server")
        .object("s.o", assemble(&server))
        .placement(Placement::Dense)
        .import("__sfi_register", Import::host("__sfi_register"));
    let client = DomainSpec::new("client")
        .object("c.o", assemble(&client))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .spare_bindings(2);
    let mut world = World::builder().domain(server).domain(client).permit("client", "server*").build().unwrap();
    let of = |world: &World, name: &str| -> Two { world.domain("client").unwrap().export(name).unwrap() };
    let [connect, through, error] = ["connect", "through", "error"].map(|name| of(&world, name));
    let mut instance = world.instantiate("server").unwrap();
    for end in ["reset", "discard"] {
        assert_eq!(function_of(&world, instance, "start").call(&mut world, (0, 0)), Ok(0));
        let pointer = connect.call(&mut world, (0, 0)).unwrap();
        assert_ne!(pointer, 0);
        assert_eq!(through.call(&mut world, (pointer, 37)), Ok(42));
        if end == "reset" {
            world.reset(instance).unwrap();
        } else {
            world.discard(instance).unwrap();
        }
        assert!(world.entries().is_empty());
        for _ in 0..2 {
            assert_eq!(through.call(&mut world, (pointer, 37)), Ok(u64::MAX), "{end}");
            assert_eq!(error.call(&mut world, (0, 0)), Ok(sfi_loader::Status::Unbound.into()));
            assert_eq!(connect.call(&mut world, (0, 0)), Ok(0));
            if end == "discard" {
                instance = world.instantiate("server").unwrap();
            }
        }
    }
}
