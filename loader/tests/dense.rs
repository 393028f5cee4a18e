//! Domains whose parts lie side by side in their windows.

mod common;
use common::{CALL_RAX, assemble, function, maps};
use sfi_loader::{DomainSpec, FaultKind, Import, Mode, Placement, Protection, TypedFn, World};

/// Assembles text, constants, data, bss, thread locals, and a pointer of every kind between them.
fn object() -> Vec<u8> {
    assemble(
        &(function("get", "mov value(%rip),%rax\nadd fixed(%rip),%rax\nmov zeroes+8(%rip),%rcx\nadd %rcx,%rax\nret")
            + &function("set", "mov %rdi,%gs:value(%eip)\nmov %rdi,%gs:zeroes+8(%eip)\nret")
            + &function("through", &format!("mov pointer(%rip),%rax\n{CALL_RAX}ret"))
            + &function("same", "lea get(%rip),%rax\ncmp pointer(%rip),%rax\nsete %al\nmovzbl %al,%eax\nret")
            + &function("wide", "movabs $value,%rax\nmov (%rax),%rax\nret")
            + &function("deep", "lea -8(%r15),%r15\nmov %rdi,%gs:(%r15d)\ncall deep\nret")
            + ".data\n.globl value\nvalue: .quad 7\npointer: .quad get\n.section .rodata\n.globl fixed\nfixed: .quad 100\n.bss\nzeroes: .zero 16384\n"),
    )
}

fn spec(name: &str, object: &[u8]) -> DomainSpec {
    DomainSpec::new(name).object("a.o", object.to_vec()).placement(Placement::Dense)
}

/// Returns the process' mappings in a window, as offsets and permissions.
fn window(base: u64) -> Vec<(u64, u64, String)> {
    let mut all = Vec::new();
    for line in maps() {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|x| u64::from_str_radix(x, 16).unwrap());
        if start < base + (1 << 32) + (64 << 10) && base < end {
            all.push((start.saturating_sub(base), end - base, rest[..4].to_owned()));
        }
    }
    all
}

#[test]
fn a_dense_domain_takes_six_mappings_and_is_sealed() {
    let object = object();
    let world = World::builder().domain(spec("a", &object)).domain(spec("b", &object)).build().unwrap();
    let domain = world.domain("a").unwrap();
    let mappings = window(domain.secret_base());
    let kinds: Vec<&str> = mappings.iter().map(|m| m.2.as_str()).collect();
    // The text has a copy of its own because of `wide`. A shared one is tested below.
    assert_eq!(kinds, ["---p", "r-xp", "r--p", "---p", "rw-p", "---p"], "{mappings:x?}");
    assert!(mappings[0].1 >= 0x8_0000 && mappings.last().unwrap().1 >= (1 << 32) + (64 << 10));
    assert!(mappings.windows(2).all(|pair| pair[0].1 == pair[1].0), "{mappings:x?}");
    // The table of indirect branch targets, all that the mask can reach, is not writable.
    let table = domain.segments().iter().find(|s| s.name == "dispatch table").unwrap().offset;
    let block = table & !(sfi_contract::layout::DISPATCH_SIZE - 1);
    let reach = |m: &(u64, u64, String)| m.0 < block + sfi_contract::layout::DISPATCH_SIZE && block < m.1;
    assert!(mappings.iter().all(|m| !m.2.contains('w') || !reach(m)), "{mappings:x?}");
    // All of it moves together.
    let parts = domain.placement().parts;
    assert!(parts.iter().all(|p| p.places == parts[0].places && p.places > 1700), "{parts:?}");
    assert_eq!(domain.placement().windows, (1 << 15) - 2);
    assert!(!domain.shares_text());
}

#[test]
fn a_dense_domain_computes_what_a_scattered_one_does() {
    let object = object();
    for placement in [Placement::Dense, Placement::Scattered] {
        let spec = DomainSpec::new("a").object("a.o", object.clone()).placement(placement);
        let mut world = World::builder().domain(spec).build().unwrap();
        let get = |name: &str| -> TypedFn<fn(u64) -> u64> { world.domain("a").unwrap().export(name).unwrap() };
        let [get, set, through, same, wide, deep] = ["get", "set", "through", "same", "wide", "deep"].map(get);
        assert_eq!(get.call(&mut world, (0,)), Ok(107));
        set.call(&mut world, (8,)).unwrap();
        assert_eq!(get.call(&mut world, (0,)), Ok(116));
        assert_eq!(through.call(&mut world, (0,)), Ok(116));
        assert_eq!(same.call(&mut world, (0,)), Ok(1));
        assert_eq!(wide.call(&mut world, (0,)), Ok(8));
        let sfi_loader::CallError::Fault(fault) = deep.call(&mut world, (0,)).unwrap_err() else { panic!() };
        assert!(matches!(fault.kind, FaultKind::DataStackOverflow | FaultKind::ControlStackOverflow), "{fault}");
    }
}

#[test]
fn what_does_not_fit_goes_to_random_places() {
    // Constants of a megabyte, thread locals beside a stack of a megabyte, and data larger than the
    // limit for copies.
    let big = function("sum", "mov table+1048568(%rip),%rax\nadd array+99992(%rip),%rax\nadd back(%rip),%rax\nret")
        + ".section .rodata\ntable: .zero 1048568\n.quad 5\n.data\narray: .zero 99992\n.quad 6\nback: .quad array\n.section .tbss,\"awT\",@nobits\nlocal: .zero 64\n";
    let world = || World::builder().domain(spec("a", &assemble(&big)).memory(1 << 20)).build().unwrap();
    let (mut one, mut two) = (world(), world());
    for world in [&mut one, &mut two] {
        let sum: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("sum").unwrap();
        let array = sum.call(world, ()).unwrap() - 11;
        let base = world.domain("a").unwrap().secret_base();
        assert_eq!(array & !0xffff_ffff, base);
        let domain = world.domain("a").unwrap();
        let places: Vec<_> = domain.placement().parts;
        let many = |name: &str| places.iter().find(|p| p.name == name).unwrap().places;
        assert!(many("constants") > 1700 && many("data stack") > 1 << 18, "{places:?}");
        assert_eq!(many("heap"), many("constants"));
        let rights: Vec<_> = domain.segments().iter().map(|s| (s.name.as_str(), s.protection)).collect();
        assert!(rights.contains(&("constants", Protection::Read)));
        assert!(window(base).iter().any(|m| m.2 == "rw-p" && m.1 - m.0 == 100_000u64.next_multiple_of(4096)));
    }
    let offsets = |w: &World| w.domain("a").unwrap().segments().iter().map(|s| s.offset).collect::<Vec<_>>();
    assert_ne!(offsets(&one), offsets(&two));
}

/// Text without a word that depends on the window is one sealed file.
#[test]
fn text_is_shared_sealed_and_never_writable() {
    let text = function("get", "mov value(%rip),%rax\nret") + ".data\nvalue: .quad 9\n";
    let world = World::builder().domain(spec("a", &assemble(&text)).mode(Mode::Full)).build().unwrap();
    assert!(world.domain("a").unwrap().shares_text());
    let mappings = window(world.domain("a").unwrap().secret_base());
    let (start, end, _) = mappings.iter().find(|m| m.2 == "r-xs").expect("a shared mapping").clone();
    let at = (world.domain("a").unwrap().secret_base() + start) as *mut libc::c_void;
    // SAFETY: the call changes nothing, because the file is sealed.
    let refused = unsafe { libc::mprotect(at, (end - start) as usize, libc::PROT_READ | libc::PROT_WRITE) };
    assert_eq!((refused, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EACCES)));
}

/// A stack below the thread locals never reaches down to the dispatch table, for any sizes.
#[test]
fn nothing_writable_lies_where_indirect_branches_look() {
    for (stack, locals) in [(1 << 20, 0), (1 << 20, 8), ((1 << 20) - 4096, 8), (1 << 14, 1 << 19), (4 << 20, 0)] {
        let text = function("run", "ret") + &format!(".section .tbss,\"awT\",@nobits\nlocal: .zero {locals}\n");
        let spec = spec("a", &assemble(&text)).stack(stack).import("host", Import::host("host"));
        let world = World::builder().host_fn("host", |_| Ok(0)).domain(spec).build().unwrap();
        for (start, end, rights) in window(world.domain("a").unwrap().secret_base()) {
            assert!(!rights.contains('w') || start >= 0x20_0000, "{stack:#x} {locals}: {start:#x} {end:#x} {rights}");
        }
    }
}

/// Text with a word that depends on the window is copied and verified for each instance. So is
/// every other such word, in any form.
#[test]
fn words_that_depend_on_the_window_are_right_in_every_instance() {
    let text = function("wide", "movabs $value,%rax\nmov (%rax),%rax\nret")
        + &function("set", "mov %rdi,%gs:value(%eip)\nret")
        + &function("minus", "mov distance(%rip),%rax\nlea distance(%rip),%rcx\nadd %rcx,%rax\nret")
        + ".weak missing\n.data\nvalue: .quad 7\ndistance: .quad missing - .\n";
    for placement in [Placement::Dense, Placement::Scattered] {
        let spec = DomainSpec::new("a").object("a.o", assemble(&text)).placement(placement);
        let mut world = World::builder().domain(spec).build().unwrap();
        assert!(!world.domain("a").unwrap().shares_text());
        let instances: Vec<_> = (0..3).map(|_| world.instantiate("a").unwrap()).collect();
        let get = |world: &World, n: usize, name: &str| -> TypedFn<fn(u64) -> u64> {
            world.instance(instances[n]).unwrap().export(name).unwrap()
        };
        for n in 0..3 {
            get(&world, n, "set").call(&mut world, (n as u64 + 10,)).unwrap();
        }
        for n in 0..3 {
            assert_eq!(get(&world, n, "wide").call(&mut world, (0,)), Ok(n as u64 + 10));
            assert_eq!(get(&world, n, "minus").call(&mut world, (0,)), Ok(0), "the distance to address 0");
        }
        world.reset(instances[0]).unwrap();
        assert_eq!(get(&world, 0, "wide").call(&mut world, (0,)), Ok(7));
        assert_eq!(get(&world, 0, "minus").call(&mut world, (0,)), Ok(0));
    }
}

/// An address in a window never fits 32 bits, although its offset does.
#[test]
fn window_addresses_of_32_bits_are_refused() {
    for (text, why) in [
        (function("f", "mov $value,%eax\nret"), "does not fit 32 bits"),
        (function("f", "mov value,%eax\nret"), "does not fit 32 bits"),
        (".data\n.long value\n".to_owned() + &function("f", "ret"), "does not fit 32 bits"),
        (".weak none\n".to_owned() + &function("f", "mov none(%rip),%eax\nret"), "does not fit 32 bits"),
        (".weak none\n".to_owned() + &function("f", "movl $1,none(%rip)\nret"), "does not fit 32 bits"),
    ] {
        let object = assemble(&(text + ".data\nvalue: .quad 7\n"));
        let error = World::builder().domain(spec("a", &object)).build().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// The displacement of a store relative to rip may name any place of the window and no other.
#[test]
fn stores_relative_to_rip_stay_in_the_window() {
    let build = |body: &str| {
        let object = assemble(&(function("f", body) + ".data\nvalue: .quad 7\n"));
        World::builder().domain(spec("a", &object)).build()
    };
    for store in
        ["mov %rax,value(%rip)", "movl $1,value+4(%rip)", "lock incq value+0x1000000(%rip)", "fnsave value(%rip)"]
    {
        assert!(build(&format!("{store}\nret")).is_ok(), "{store}");
    }
    for store in
        ["mov %rax,value-0x7f000000(%rip)", "movl $1,value-0x7f000000(%rip)", "lock incq value-0x7f000000(%rip)"]
    {
        let error = build(&format!("{store}\nret")).unwrap_err().to_string();
        assert!(error.contains("SFI-T04"), "{error}");
    }
}
