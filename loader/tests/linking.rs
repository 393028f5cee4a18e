//! The loader's linker: archives, COMDAT, weak, common, thread locals, initialisers, errors.

mod common;
use common::{CALL_RAX, assemble, function};
use sfi_loader::{BuildError, DomainSpec, Import, LinkError, Manage, Mode, SpecError, TypedFn, World};

/// Makes an archive with `ar`.
fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let mut ar = std::process::Command::new("ar");
    ar.current_dir(directory.path()).arg("rcs").arg("out.a");
    for (name, bytes) in members {
        std::fs::write(directory.path().join(name), bytes).unwrap();
        ar.arg(name);
    }
    assert!(ar.status().expect("ar is needed for these tests").success());
    std::fs::read(directory.path().join("out.a")).unwrap()
}

fn build(spec: DomainSpec) -> Result<World, BuildError> {
    World::builder().domain(spec).build()
}

fn run(spec: DomainSpec) -> u64 {
    let mut world = build(spec).unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    run.call(&mut world, ()).unwrap()
}

fn spec(text: &str) -> DomainSpec {
    DomainSpec::new("a").object("a.o", assemble(text))
}

fn fail(spec: DomainSpec) -> String {
    match build(spec) {
        Ok(_) => panic!("it was built"),
        Err(error) => sfi_loader::chain(&error),
    }
}

#[test]
fn archives_give_what_is_needed_and_nothing_else() {
    let members = archive(&[
        ("one.o", assemble(&function("one", "call two\ninc %rax\nret"))),
        ("bad.o", assemble(&(function("unwanted", "call nobody_has_this\nret")))),
        ("two.o", assemble(&function("two", "mov $40,%eax\nret"))),
        ("second_one.o", assemble(&(function("one", "ud2") + &function("other", "ret")))),
    ]);
    let app = function("run", "call one\ninc %rax\nret");
    assert_eq!(run(spec(&app).archive("lib.a", members.clone())), 42);
    let needs_bad = function("run", "call unwanted\nret");
    let error = fail(spec(&needs_bad).archive("lib.a", members.clone()));
    assert!(error.contains("nobody_has_this (used in lib.a(bad.o))"), "{error}");
    // A granted name that a member defines is an error, whether the member is linked or not. A weak
    // reference pulls nothing.
    let app =
        ".weak other\n".to_owned() + &function("run", "call one\nlea other@GOTPCREL(%rip),%rcx\nadd (%rcx),%rax\nret");
    let error = conflict(spec(&app).archive("lib.a", members.clone()), "one");
    assert!(
        error.contains("one (granted by the specification, lib.a(one.o))") && error.contains("override"),
        "{error}"
    );
    let mut world = World::builder()
        .domain(spec(&app).archive("lib.a", members).import("one", Import::host("one").overrides()))
        .host_fn("one", |_| Ok(7))
        .build()
        .unwrap();
    let f: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    assert_eq!(f.call(&mut world, ()), Ok(7));
}

/// Objects are verified while they are selected. A violation hides none of another object. Mistakes
/// keep their order: a file that cannot be read, a granted name, violations.
#[test]
fn violations_are_reported_together_and_last() {
    let bad = |name: &str| assemble(&function(name, "syscall\ncall one\nret"));
    let members = archive(&[("one.o", bad("one")), ("never.o", bad("never"))]);
    let given = || DomainSpec::new("a").object("a.o", bad("run")).object("b.o", bad("b"));
    let Err(BuildError::Link(LinkError::Refused { objects, .. })) = build(given().archive("lib.a", members.clone()))
    else {
        panic!("it is not refused")
    };
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["a.o", "b.o", "lib.a(one.o)"]);
    assert!(objects.iter().all(|object| !object.violations.is_empty()));
    let error = conflict(given().archive("lib.a", members), "one");
    assert!(error.contains("one (granted by the specification, lib.a(one.o))"), "{error}");
    let error = conflict(given(), "b");
    assert!(error.contains("b (granted by the specification, b.o)"), "{error}");
    let broken = given().object("c.o", b"text".to_vec());
    assert!(matches!(build(broken), Err(BuildError::Link(LinkError::Unreadable { file, .. })) if file == "c.o"));
}

/// Returns an IFUNC that is `pick`, and the functions that it may choose.
fn ifunc(resolver: &str) -> String {
    format!(".text\n.globl pick\n.type pick,@gnu_indirect_function\npick:\n{resolver}\nret\n")
        + &function("one", "mov $1,%eax\nret")
        + &function("two", "mov $2,%eax\nret")
}

#[test]
fn a_resolver_chooses_what_a_name_means() {
    // Calls, pointers in data and pointers out of the GOT lead to one function, in the object that
    // defines it and in another.
    let equal = "lea pick(%rip),%rcx\nmov pick@GOTPCREL(%rip),%rdx\ncmp %rcx,%rdx\njne 1f\nmov p(%rip),%rdx\ncmp %rcx,%rdx\njne 1f\n";
    let use_all = format!("call pick\n{equal}mov %rcx,%rax\n{CALL_RAX}lea 40(%rax),%rax\nret\n1: ud2");
    let pointer = ".data\np: .quad pick\n";
    let inside = ifunc("lea two(%rip),%rax") + &function("run", &use_all) + pointer;
    assert_eq!(run(spec(&inside)), 42);
    let outside = function("run", &use_all) + pointer;
    assert_eq!(run(spec(&outside).object("b.o", assemble(&ifunc("lea two(%rip),%rax")))), 42);
    // A resolver may call functions, and IFUNCs that were chosen before it. A restart chooses
    // again.
    let first = ".globl first\n.type first,@gnu_indirect_function\nfirst: lea one(%rip),%rax\nret\n";
    let text = format!(".text\n{first}") + &ifunc("call first\nlea two(%rip),%rax") + &function("run", "jmp pick");
    let mut world = build(spec(&text)).unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(2));
    world.restart("a").unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(2));
    // The host may call it by its name.
    let pick: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("pick").unwrap();
    assert_eq!(pick.call(&mut world, ()), Ok(2));
}

#[test]
fn a_resolver_cannot_choose_a_place_that_is_no_function() {
    let app = function("run", "call pick\nret");
    for resolver in [
        "xor %eax,%eax",
        "mov $-8,%rax",
        // The trap's slot, an IFUNC's own slot, a slot that is not used, the middle of one, one of
        // another 4 GiB.
        "lea two(%rip),%rax\nand $-4096,%rax",
        "lea two(%rip),%rax\nand $-4096,%rax\nadd $8,%rax",
        "lea two(%rip),%rax\nor $0xff8,%rax",
        "lea two(%rip),%rax\nadd $4,%rax",
        "lea two(%rip),%rax\nmov %eax,%eax",
        // The code that the slot leads to, the IFUNC itself, a gateway.
        "lea two(%rip),%rax\nmov (%rax),%rax",
        "lea pick(%rip),%rax",
        "lea granted(%rip),%rax",
    ] {
        let text = ifunc(resolver) + &app;
        let spec = spec(&text).import("granted", Import::host("granted"));
        let error = match World::builder().domain(spec).host_fn("granted", |_| Ok(0)).build() {
            Ok(_) => panic!("it was built: {resolver}"),
            Err(error) => sfi_loader::chain(&error),
        };
        assert!(error.contains("no function of domain"), "{resolver}: {error}");
    }
    // An IFUNC cannot be chosen before its resolver has run, and a fault of a resolver is an error.
    for (resolver, what) in [
        ("call pick", "something that is not a function in `pick`"),
        ("ud2", "in `pick`"),
        ("lea two(%rip),%rcx\nand $-4096,%ecx\nmov %rax,%gs:8(%ecx)", "in `pick`"),
    ] {
        let error = fail(spec(&(ifunc(resolver) + &app)));
        assert!(error.contains("an initialiser of domain `a` failed") && error.contains(what), "{resolver}: {error}");
    }
}

#[test]
fn absolute_symbols_are_numbers() {
    let app = function("run", "mov number@GOTPCREL(%rip),%rax\nadd n(%rip),%rax\nret") + ".data\nn: .quad number\n";
    let number = ".globl number\nnumber = 21\n";
    assert_eq!(run(spec(&app).object("b.o", assemble(number))), 42);
    let error = fail(spec(&function("run", "call number\nret")).object("b.o", assemble(number)));
    assert!(error.contains("not code"), "{error}");
}

#[test]
fn all_undefined_symbols_are_listed_at_once() {
    let text =
        function("run", "call f1\ncall f2\nmov v1@GOTPCREL(%rip),%rax\nret") + ".data\n.quad v2\n.weak w\n.quad w\n";
    let error = fail(spec(&text));
    for name in ["f1", "f2", "v1", "v2"] {
        assert!(error.contains(&format!("{name} (used in a.o)")), "{error}");
    }
    assert!(!error.contains("w (used"), "{error}");
}

#[test]
fn strong_weak_and_common() {
    let a = function("run", "call f\nadd c(%rip),%eax\nadd big+4092(%rip),%eax\nret")
        + ".weak f\n.type f,@function\nf: mov $1,%eax\nret\n.comm c,4,4\n.comm big,16,4\n";
    let b = function("f", "mov $10,%eax\nret") + ".data\n.globl c\nc: .long 100\n.comm big,4096,64\n";
    assert_eq!(run(spec(&a).object("b.o", assemble(&b))), 110);
    assert_eq!(run(spec(&a.replace("big+4092", "big+12"))), 1);
    let error = fail(spec(&a).object("b.o", assemble(&b)).object("c.o", assemble(&b)));
    assert!(error.contains("f (b.o, c.o)") && error.contains("c (b.o, c.o)"), "{error}");
    let granted = World::builder()
        .domain(spec(&function("f", "ret")).import("f", Import::host("f")))
        .host_fn("f", |_| Ok(0))
        .build();
    assert!(granted.unwrap_err().to_string().contains("f (granted by the specification, a.o)"));
}

/// A member's common block is a definition, and a block looks for a definition with contents, as
/// the gABI says of archives.
#[test]
fn common_blocks_and_archives() {
    let reads = function("run", "mov c(%rip),%eax\nret");
    let block = ".comm c,4,4\n";
    let full = ".data\n.globl c\nc: .long 7\n";
    let members = |texts: &[&str]| {
        let names = ["one.o", "two.o"];
        archive(&names.into_iter().zip(texts).map(|(name, text)| (name, assemble(text))).collect::<Vec<_>>())
    };
    assert_eq!(run(spec(&reads).archive("lib.a", members(&[block]))), 0);
    assert_eq!(run(spec(&reads).archive("lib.a", members(&[block, full]))), 7);
    let both = reads + block;
    assert_eq!(run(spec(&both).archive("lib.a", members(&[full]))), 7);
    assert_eq!(run(spec(&both).archive("lib.a", members(&[block]))), 0);
    // A weak definition has contents, too, and gives way to a block.
    assert_eq!(run(spec(&both).archive("lib.a", members(&[".data\n.weak c\nc: .long 7\n"]))), 0);
}

#[test]
fn a_whole_archive_is_linked() {
    let counts = function("run", "mov count(%rip),%eax\nret") + ".data\n.globl count\ncount: .long 0\n";
    let adds =
        function("add", "lea count(%rip),%rax\nincl %gs:(%eax)\nret") + ".section .init_array,\"aw\"\n.quad add\n";
    let members = archive(&[("adds.o", assemble(&adds))]);
    assert_eq!(run(spec(&counts).archive("lib.a", members.clone())), 0);
    assert_eq!(run(spec(&counts).whole_archive("lib.a", members.clone())), 1);
    let error = fail(spec(&counts).object("b.o", assemble(&adds)).whole_archive("lib.a", members));
    assert!(error.contains("add (b.o, lib.a(adds.o))"), "{error}");
}

/// Returns the error for a world in which a host's function is granted under a name.
fn conflict(domain: DomainSpec, name: &str) -> String {
    let domain = domain.import(name, Import::host(name));
    World::builder().domain(domain).host_fn(name, |_| Ok(0)).build().unwrap_err().to_string()
}

/// Definitions that lose or are not loaded would hide from the gate that a name is an import.
#[test]
fn granted_names_are_defined_by_nobody_else() {
    let app = function("run", "call f\nret");
    let group = ".section .text.g,\"axG\",@progbits,g,comdat\n";
    for (how, definition) in [
        ("strong", function("f", "mov $1,%eax\nret")),
        ("weak", ".weak f\n.type f,@function\nf: mov $1,%eax\nret\n".to_owned()),
        ("common", ".comm f,8,8\n".to_owned()),
        ("absolute", ".globl f\n.set f,64\n".to_owned()),
        ("in a note", ".globl f\n.section .note.x,\"a\",@note\nf: .long 0\n.text\n".to_owned()),
        ("in unwind tables", ".globl f\n.section .eh_frame,\"a\",@progbits\nf: .long 0\n.text\n".to_owned()),
        ("in debug information", ".globl f\n.section .debug_x,\"\",@progbits\nf: .long 0\n.text\n".to_owned()),
        ("in a group", format!("{group}.globl f\n.type f,@function\nf: mov $1,%eax\nret\n.text\n")),
    ] {
        let archive = |name| archive(&[("other.o", assemble(&function("g", "ret"))), (name, assemble(&definition))]);
        let other = format!("{group}.globl g\n.type g,@function\ng: ret\n.text\n");
        for (place, domain) in [
            ("the same object", spec(&(app.clone() + &definition))),
            ("another", spec(&app).object("b.o", assemble(&definition))),
            ("a dropped group", spec(&app).object("a.o", assemble(&other)).object("b.o", assemble(&definition))),
            ("a member that is not linked", spec(&app).archive("lib.a", archive("d.o"))),
            ("a whole archive", spec(&app).whole_archive("lib.a", archive("d.o"))),
            ("a member named as a table", spec(&app).archive("lib.a", archive("__.SYMDEF"))),
        ] {
            let error = conflict(domain.clone(), "f");
            assert!(error.contains("f (granted by the specification, "), "{how}, {place}: {error}");
            // In one object a call needs a definition with text.
            if place == "the same object" && !definition.contains("ret") {
                continue;
            }
            let mut world = World::builder()
                .domain(domain.import("f", Import::host("f").overrides()))
                .host_fn("f", |_| Ok(7))
                .build()
                .unwrap_or_else(|error| panic!("{how}, {place}: {error}"));
            let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
            assert_eq!(run.call(&mut world, ()), Ok(7), "{how}, {place}");
        }
    }
    // The rule also holds for regions, whose names have no override.
    let shared = spec(&(function("run", "ret") + ".comm buf_end,8,8\n")).shared("buf", "r", sfi_loader::Access::Read);
    let error = World::builder().region("r", 4096).domain(shared).build().unwrap_err().to_string();
    assert!(error.contains("buf_end (granted"), "{error}");
}

/// Work and memory are linear in the size of the files.
#[test]
fn small_objects_cost_little() {
    let start = std::time::Instant::now();
    let run = function("run", "lea zeros(%rip),%rcx\nmov 0x1000000(%rcx),%eax\nadd $5,%eax\nret");
    let zeros =
        |size: u64| run.clone() + &format!(".section .zeros,\"a\",@nobits\n.globl zeros\nzeros: .zero {size}\n");
    let error = fail(spec(&zeros(0x6f00_0000)).memory(1 << 20));
    assert!(error.contains("zeroed data"), "{error}");
    let error = fail(spec(&(run.clone() + ".comm zeros,0x6f000000,8\n")).memory(1 << 20));
    assert!(error.contains("zeroed data"), "{error}");
    let before = resident();
    assert_eq!(self::run(spec(&zeros(0x4000_0000)).memory(0x4000_0000)), 5);
    assert!(resident() < before + (64 << 20), "{} before, {} then", before, resident());
    // Two megabytes of padding for each byte.
    let padded: String = (0..100).map(|i| format!(".section .d{i},\"aw\"\n.balign 0x200000\n.byte 1\n")).collect();
    let error = fail(spec(&(function("run", "ret") + &padded)).memory(1 << 20));
    assert!(error.contains("padding"), "{error}");
    // 100,000 IFUNCs, and as many names of sections whose bounds are used.
    let resolvers: String = (0..100_000).map(|i| format!(".type i{i},@gnu_indirect_function\ni{i}: nop\n")).collect();
    let error =
        fail(spec(&(function("run", "ret") + &resolvers + &resolvers.replace(" i", " q").replace("\ni", "\nq"))));
    assert!(error.contains("200000 IFUNCs"), "{error}");
    let bounds: String =
        (0..30_000).map(|i| format!(".section s{i},\"aw\",@progbits\n.byte 1\n.text\n.globl __start_s{i}\n")).collect();
    let references: String = (0..30_000).map(|i| format!(".quad __start_s{i}\n")).collect();
    let all = function("run", "mov $4,%eax\nret") + &bounds + ".data\n" + &references;
    assert_eq!(self::run(spec(&all)), 4);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

/// Returns the resident bytes of this process, from `/proc/self/statm`.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn one_comdat_group_is_kept() {
    let group = |value: u32| {
        format!(
            ".section .text.shared,\"axG\",@progbits,shared,comdat\n.weak shared\n.type shared,@function\nshared: mov ${value},%eax\nret\n\
             .section .data.count,\"awG\",@progbits,shared,comdat\n.weak count\ncount: .long {value}\n.text\n"
        )
    };
    let a = group(1)
        + &function(
            "run",
            "call shared\nmov %eax,%ebx\ncall from_b\nshl $8,%eax\nadd %ebx,%eax\nadd count(%rip),%eax\nret",
        );
    let b = group(2) + &function("from_b", "call shared\nret");
    assert_eq!(run(spec(&a).object("b.o", assemble(&b))), 0x102);
}

#[test]
fn thread_locals_lie_below_the_tcb() {
    let a = ".section .tdata,\"awT\",@progbits\n.globl x\n.balign 64\nx: .quad 5\ny: .quad 6\n.section .tbss,\"awT\",@nobits\n.globl z\nz: .skip 8\n".to_owned()
        + &function(
            "run",
            // By its offset in the window, and through the thread pointer.
            "mov %gs:x,%rax\nmov %gs:__sfi_tcb,%rcx\nadd y@tpoff(%rcx),%rax\nadd z@tpoff(%rcx),%rax\nlea z@tpoff(%rcx),%rsi\nmovq $100,%gs:(%esi)\nadd z@tpoff(%rcx),%rax\nlea x@tpoff(%rcx),%rdx\nand $63,%edx\nadd %rdx,%rax\nret",
        );
    assert_eq!(run(spec(&a)), 111);
}

#[test]
fn initialisers_run_in_order_and_finalisers_at_the_end() {
    let step = |name: &str, digit: u32| {
        function(name, &format!("mov log(%rip),%rax\nimul $10,%rax\nadd ${digit},%rax\nmov %rax,%gs:log(%eip)\nret"))
    };
    let a = step("s1", 1)
        + &step("s2", 2)
        + &step("s3", 3)
        + ".data\n.globl log\nlog: .quad 0\n.section .init_array,\"aw\",@init_array\n.quad s3\n.section .init_array.00200,\"aw\",@init_array\n.quad s2\n"
        + &function("run", "mov log(%rip),%rax\nret");
    let b = step("s4", 4)
        + &step("s5", 5)
        + &step("s0", 9)
        + ".section .init_array,\"aw\",@init_array\n.quad s4\n.section .init_array.00100,\"aw\",@init_array\n.quad s5\n.section .preinit_array,\"aw\",@preinit_array\n.quad s0\n.section .fini_array,\"aw\",@fini_array\n.quad finish\n"
        + &function("finish", "mov log(%rip),%rdi\ncall told\nret");
    let told = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tell = told.clone();
    let mut world = World::builder()
        .domain(spec(&a).object("b.o", assemble(&b)).import("told", Import::host("told")))
        .host_fn("told", move |cx| {
            tell.store(cx.arg(0), std::sync::atomic::Ordering::SeqCst);
            Ok(0)
        })
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(95234));
    world.shutdown().unwrap();
    assert_eq!(told.load(std::sync::atomic::Ordering::SeqCst), 95234);
}

#[test]
fn a_failing_initialiser_is_an_error() {
    let text = function("start", "ud2") + ".section .init_array,\"aw\",@init_array\n.quad start\n";
    let error = fail(spec(&text));
    assert!(error.contains("initialiser") && error.contains("`start`"), "{error}");
}

#[test]
fn function_pointers_compare_equal_between_objects() {
    let a = function(
        "run",
        "lea f(%rip),%rax\nsub table(%rip),%rax\nmov f@GOTPCREL(%rip),%rcx\nsub table(%rip),%rcx\nor %rcx,%rax\nret",
    ) + &function("by_table", &format!("mov table(%rip),%rax\n{CALL_RAX}ret"))
        + &function("by_alias", &format!("lea alias(%rip),%rax\n{CALL_RAX}ret"));
    let b = function("f", "mov $5,%eax\nret") + ".globl alias\n.set alias,f\n.data\n.globl table\ntable: .quad f\n";
    let spec = spec(&a).object("b.o", assemble(&b));
    let mut world = build(spec).unwrap();
    for (name, result) in [("run", 0), ("by_table", 5), ("by_alias", 5)] {
        let f: TypedFn<fn() -> u64> = world.domain("a").unwrap().export(name).unwrap();
        assert_eq!(f.call(&mut world, ()), Ok(result), "{name}");
    }
    // A function pointer is a slot, never a code address.
    let table = world.domain("a").unwrap().symbol("table").unwrap();
    let bytes = world.memory("a").unwrap().read(table.0, 8).unwrap();
    let slot = u64::from_le_bytes(bytes.try_into().unwrap()) & 0xffff_ffff;
    let domain = world.domain("a").unwrap();
    let dispatch = domain.segments().iter().find(|s| s.name == "dispatch table").unwrap();
    assert!((dispatch.offset + 8..dispatch.end()).contains(&slot), "{slot:#x}");
}

#[test]
fn switch_tables_hold_slots() {
    let text = function(
        "run",
        &format!(
            "lea table(%rip),%rcx\nmov $1,%edx\nmovslq (%rcx,%rdx,4),%rax\nadd %rcx,%rax\n{}.Lzero: mov $1,%eax\nret\n.Lone: mov $2,%eax\nret",
            CALL_RAX.replace("call", "jmp")
        ),
    ) + ".section .rodata\ntable: .long .Lzero-table,.Lone-table\n";
    // Against local labels the assembler would emit their section and an offset, which the contract
    // does not allow.
    let text = text.replace(".Lzero", "zero").replace(".Lone", "one") + ".globl zero,one\n";
    assert_eq!(run(spec(&text)), 2);
}

#[test]
fn section_bounds_are_defined() {
    let part = |value: u32| format!(".section things,\"aw\",@progbits\n.quad {value}\n.text\n");
    let a = part(3)
        + &part(4)
        + &function(
            "run",
            "lea __start_things(%rip),%rcx\nlea __stop_things(%rip),%rdx\nxor %eax,%eax\n1: add (%rcx),%rax\nadd $8,%rcx\ncmp %rdx,%rcx\njne 1b\nret",
        );
    assert_eq!(run(spec(&a).object("b.o", assemble(&part(20)))), 27);
}

#[test]
fn weak_functions_that_nobody_defines() {
    let text = ".weak absent\n".to_owned()
        + &function("run", "mov absent@GOTPCREL(%rip),%rax\nret")
        + &function("call_it", "call absent\nret");
    let mut world = build(spec(&text)).unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    let call_it: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("call_it").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(0));
    assert!(call_it.call(&mut world, ()).is_err());
}

#[test]
fn addresses_that_do_not_fit_are_errors_with_their_place() {
    let error = fail(spec(&(function("run", "mov $value,%eax\nret") + ".data\n.globl value\nvalue: .quad 0\n")));
    assert!(error.contains("a.o: .text+0x1") && error.contains("`value`") && error.contains("32 bits"), "{error}");
    // An undefined weak symbol is 0, which no rip-relative operand reaches.
    let error = fail(spec(&(".weak far\n".to_owned() + &function("run", "lea far(%rip),%rax\nret"))));
    assert!(error.contains("`far`") && error.contains("32 bits"), "{error}");
}

#[test]
fn what_is_not_memory_of_the_domain_is_not_mapped() {
    let text = function("run", "mov $1,%eax\nret")
        + ".section .note.test,\"a\",@note\n.long 0\n.section .eh_frame,\"a\",@progbits\n.long 0\n.section .debug_x,\"\",@progbits\n.quad run\n";
    let world = build(spec(&text)).unwrap();
    let names: Vec<_> = world.domain("a").unwrap().segments().iter().map(|s| s.name.clone()).collect();
    assert_eq!(names.iter().filter(|n| *n == "constants").count(), 0, "{names:?}");
}

#[test]
fn unsafe_objects_are_refused_with_every_violation() {
    let text = function("run", "mov %eax,(%rdi)\nsyscall\nret");
    let error = fail(spec(&text));
    assert!(error.contains("SFI-S01") && error.contains("SFI-D04") && error.contains("a.o"), "{error}");
    assert!(fail(DomainSpec::new("a").object("x.o", &b"nothing"[..])).contains("x.o"));
    // Mode full confines loads too.
    let load = function("run", "mov (%rdi),%rax\nret");
    assert!(build(spec(&load)).is_ok());
    assert!(fail(spec(&load).mode(sfi_loader::Mode::Full)).contains("SFI-L01"));
}

/// The processor's clock is read only if the domain asks for it and the world grants it, also after
/// a reload.
#[test]
fn the_clock_needs_two_grants() {
    let text = function("run", "rdtsc\nmov $1,%eax\nret");
    for (asks, granted) in [(false, false), (false, true), (true, false), (true, true)] {
        let domain = |text: &str| if asks { spec(text).clock_exposing() } else { spec(text) };
        let builder = || if granted { World::builder().clock() } else { World::builder() };
        let built = builder().domain(domain(&text)).build();
        let mut harmless = builder().domain(domain(&function("run", "mov $1,%eax\nret"))).build().unwrap();
        let reloaded = harmless.reload(domain(&text));
        for error in [built.err(), reloaded.err()] {
            assert_eq!(error.is_none(), asks && granted, "asks {asks}, granted {granted}: {error:?}");
            assert!(error.is_none_or(|error| error.to_string().contains("reads the clock")));
        }
    }
}

/// Outside mode full the clock leads to all memory of the process, so the host has to say that it
/// knows. Also for a reload, and whatever the objects do.
#[test]
fn the_clock_needs_confined_loads() {
    let text = function("run", "mov $1,%eax\nret");
    let build = |spec: DomainSpec| World::builder().clock().domain(spec).build();
    for (mode, allowed) in [(Mode::Write, false), (Mode::Match, false), (Mode::Full, true)] {
        let plain = || spec(&text).mode(mode);
        let mut world = build(plain()).unwrap();
        for error in [build(plain().clock()).err(), world.reload(plain().clock()).err()] {
            assert_eq!(error.is_none(), allowed, "{mode}: {error:?}");
            let names = |e: BuildError| matches!(e, BuildError::Spec(SpecError::Clock { domain, .. }) if domain == "a");
            assert!(error.is_none_or(names), "{mode}");
        }
        assert!(build(plain().clock_exposing()).is_ok());
        assert!(world.reload(plain().clock_exposing()).is_ok());
        // Nothing is exposed if the host grants no clock.
        assert!(World::builder().domain(plain().clock()).build().is_ok());
    }
}

#[test]
fn specifications_that_do_not_fit_are_errors() {
    let app = || spec(&function("run", "call f\nret"));
    let error = |spec: DomainSpec| fail(spec);
    assert!(error(app().import("f", Import::host("g"))).contains("the host offers no function `g`"));
    assert!(error(app().import("f", Import::domain("b", "g"))).contains("there is no domain `b`"));
    assert!(error(app().import("f", Import::domain("a", "nope"))).contains("no global function `nope`"));
    assert!(error(app().shared("buf", "r", sfi_loader::Access::Read)).contains("there is no region `r`"));
    assert!(
        error(app().import("f", Import::domain("a", "run").signature("(what) -> int"))).contains("is not a signature")
    );
    assert!(error(app().exports(["other"]).import("f", Import::domain("a", "run"))).contains("does not export `run`"));
    assert!(error(app().import("f", Import::domain("a", "run")).memory(5 << 30)).contains("heap"));
}

/// A switch of two cases in `name`, which jumps by an array of slots.
fn switch(name: &str, cases: [u32; 2], words: &str) -> String {
    let [a, b] = cases;
    let body = "lea 9f(,%rdi,8),%rsi\nand $0xffff8,%esi\njmp *%gs:__sfi_dispatch(%esi)\n";
    let body = format!("{body}1: mov ${a},%eax\nret\n2: mov ${b},%eax\nret\n");
    function(name, &body) + &format!(".section .sfi.slots,\"a\",@progbits\n9: {words}\n")
}

#[test]
fn arrays_of_slots_lead_to_the_cases_of_a_switch() {
    let run = function("run", "mov %rdi,%rax\nshr $8,%rax\nmovzbl %dil,%edi\ntest %eax,%eax\nje pick\njmp other");
    let text = run + &switch("pick", [1, 2], ".quad 2b, 1b, 2b") + &switch("third", [3, 4], ".quad 1b");
    let other = switch("other", [5, 6], ".quad 1b, 2b, 1b, 1b");
    for mode in [Mode::Write, Mode::Full] {
        let domain = spec(&text).object("b.o", assemble(&other)).mode(mode);
        let mut world = build(domain).unwrap();
        for life in 0..2 {
            let run: TypedFn<fn(u64) -> u64> = world.domain("a").unwrap().export("run").unwrap();
            let found: Vec<u64> =
                [0, 1, 2, 0x100, 0x101, 0x102, 0x103].map(|n| run.call(&mut world, (n,)).unwrap()).to_vec();
            assert_eq!(found, [2, 1, 2, 5, 6, 5, 5], "life {life}");
            world.restart("a").unwrap();
        }
    }
}

#[test]
fn a_slot_of_an_array_is_no_pointer_of_a_function() {
    // A switch leads to the beginning of `case`, and a register holds the address of `named`.
    let functions =
        ".text\n7:\n".to_owned() + &function("case", "mov $1,%eax\nret") + &function("named", "mov $2,%eax\nret");
    let run = function("run", "lea named(%rip),%rcx\nmov $3,%eax\nret");
    let text = functions + &run + &switch("pick", [3, 4], ".quad 7b, 1b");
    let world = build(spec(&text)).unwrap();
    let domain = world.domain("a").unwrap();
    assert!(domain.symbol("named").is_some());
    assert_eq!(domain.symbol("case"), None);
}

#[test]
fn a_slot_of_an_array_holds_a_boundary() {
    let error = fail(spec(&switch("run", [1, 2], ".quad 1b, 2b + 1")));
    assert!(error.contains("SFI-T02"), "{error}");
    // The text goes with its group, and the array stays.
    let grouped = ".section .text.g,\"axG\",@progbits,group,comdat\n.weak group\ngroup: ret\n7: ret\n";
    let array = ".section .sfi.slots,\"a\",@progbits\n9: .quad 7b\n";
    let text = function("run", "lea 9f(,%rdi,8),%rax\nret");
    let [first, second] =
        [1, 2].map(|n| assemble(&(grouped.to_owned() + &text.replace("run", &format!("run{n}")) + array)));
    let error = fail(DomainSpec::new("a").object("a.o", first.clone()).object("b.o", second));
    assert!(error.contains("b.o: .sfi.slots") && error.contains("not part of the domain"), "{error}");
    build(DomainSpec::new("a").object("a.o", first)).unwrap();
}

#[test]
fn a_full_table_names_the_objects_with_long_arrays() {
    let long = |name, count| assemble(&switch(name, [1, 2], &format!(".rept {count}\n.quad 1b\n.endr")));
    let with = |count| DomainSpec::new("a").object("a.o", long("run", 1000)).object("b.o", long("other", count));
    let error = fail(with(131_072 - 1000));
    let names = error.contains("131072 slots of switches (130072 of b.o, 1000 of a.o)");
    assert!(names && error.contains("a domain has 131072 slots"), "{error}");
    assert_eq!(run(with(131_071 - 1000)), 1);
}
