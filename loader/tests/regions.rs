//! Shared regions: pointers in them work from every side, and they come and go at run time.
#![allow(clippy::type_complexity)]

mod common;
use common::{assemble, function};
use sfi_loader::{
    Access, AddressClass, BindError, CallError, DomainSpec, Fault, FaultKind, Import, LookupError, Manage, Mode,
    RegionFile, Status, TypedFn, World,
};

/// Assembles a linked list at `list` and a hash table of 16 chains at `hash`. Nodes hold full
/// pointers of the domain that made them.
fn structures() -> String {
    let next_free = |at: &str, first: &str| {
        format!("mov %gs:{at}(%eip),%rdx\ntest %rdx,%rdx\njnz 1f\nlea {first}(%rip),%rdx\n1:\n")
    };
    let bucket = "mov %edi,%ecx\nand $15,%ecx\nlea hash(%rip),%r8\nlea (%r8,%rcx,8),%r8\n";
    function(
        "push",
        &(next_free("list+8", "list+64")
            + "mov %gs:list(%eip),%rax\nmov %rax,%gs:(%edx)\nmov %rdi,%gs:8(%edx)\nmov %rdx,%gs:list(%eip)\n\
               lea 16(%rdx),%rdx\nmov %rdx,%gs:list+8(%eip)\nret"),
    ) + &function(
        "sum",
        "mov %gs:list(%eip),%rdx\nxor %eax,%eax\n1:\ntest %rdx,%rdx\nje 2f\nadd %gs:8(%edx),%rax\nmov %gs:(%edx),%rdx\njmp 1b\n2:\nret",
    ) + &function(
        "insert",
        &(next_free("hash+128", "hash+256")
            + bucket
            + "mov %gs:(%r8d),%rax\nmov %rax,%gs:(%edx)\nmov %rdi,%gs:8(%edx)\nmov %rsi,%gs:16(%edx)\nmov %rdx,%gs:(%r8d)\n\
               lea 24(%rdx),%rdx\nmov %rdx,%gs:hash+128(%eip)\nret"),
    ) + &function(
        "find",
        &(bucket.to_owned()
            + "mov %gs:(%r8d),%rdx\nmov $-1,%rax\n1:\ntest %rdx,%rdx\nje 2f\ncmp %rdi,%gs:8(%edx)\nje 3f\nmov %gs:(%edx),%rdx\njmp 1b\n\
               3:\nmov %gs:16(%edx),%rax\n2:\nret"),
    ) + &function("read", "mov %gs:(%edi),%rax\nret")
        + &function("write", "mov %rsi,%gs:(%edi)\nret")
}

fn side(name: &str, access: Access) -> DomainSpec {
    DomainSpec::new(name)
        .mode(Mode::Full)
        .object("structures.o", assemble(&structures()))
        .shared("list", "list", access)
        .shared("hash", "table", access)
}

fn world() -> World {
    let builder = World::builder().region("list", 1 << 16).region("table", 1 << 16);
    builder
        .domain(side("a", Access::ReadWrite))
        .domain(side("b", Access::ReadWrite))
        .domain(side("reader", Access::Read))
        .build()
        .unwrap()
}

fn fault(result: Result<u64, CallError>) -> Fault {
    match result {
        Err(CallError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_and_a_hash_table_are_used_from_all_sides() {
    let mut world = world();
    let export = |world: &World, domain: &str, name: &str| -> TypedFn<fn(u64, u64) -> u64> {
        world.domain(domain).unwrap().export(name).unwrap()
    };
    let mut expected = 0;
    for i in 0..200_u64 {
        let domain = ["a", "b"][i as usize % 2];
        export(&world, domain, "push").call(&mut world, (i, 0)).unwrap();
        export(&world, domain, "insert").call(&mut world, (i * 7, i)).unwrap();
        expected += i;
        for reader in ["a", "b", "reader"] {
            assert_eq!(export(&world, reader, "sum").call(&mut world, (0, 0)), Ok(expected));
            assert_eq!(export(&world, reader, "find").call(&mut world, (i * 7, 0)), Ok(i));
            assert_eq!(export(&world, reader, "find").call(&mut world, (i * 7 + 1, 0)), Ok(u64::MAX));
        }
    }
    let bases = ["a", "b", "reader"].map(|d| world.region_in(d, "list").unwrap().0 & 0xffff_ffff);
    assert!(bases.iter().all(|b| *b == bases[0]), "the same offset everywhere");
}

#[test]
fn a_store_through_a_read_only_view_names_the_culprit() {
    let mut world = world();
    for (function, region) in [("push", "list"), ("insert", "table")] {
        let push: TypedFn<fn(u64, u64) -> u64> = world.domain("reader").unwrap().export(function).unwrap();
        let fault = fault(push.call(&mut world, (1, 2)));
        assert_eq!((fault.domain.as_str(), fault.function.as_deref()), ("reader", Some(function)));
        assert_eq!(fault.kind, FaultKind::Memory(AddressClass::Protected));
        assert_eq!(fault.region(), Some((region, true)));
        assert!(fault.to_string().contains(&format!("a store to region `{region}`")), "{fault}");
        world.restart("reader").unwrap();
    }
}

#[test]
fn a_region_disappears_under_pointers_that_are_kept_and_comes_back() {
    let mut world = world();
    let export = |world: &World, name: &str| -> TypedFn<fn(u64, u64) -> u64> {
        world.domain("b").unwrap().export(name).unwrap()
    };
    export(&world, "push").call(&mut world, (5, 0)).unwrap();
    let at = world.region_in("b", "list").unwrap().0;
    for round in 0..3 {
        world.make_invisible("b", "list").unwrap();
        assert_eq!(world.region_in("b", "list"), None);
        assert!(world.memory("b").unwrap().read(at, 8).is_err(), "the host sees what the domain sees");
        let found = fault(export(&world, "read").call(&mut world, (at + 8, 0)));
        assert_eq!((found.kind, found.region()), (FaultKind::Memory(AddressClass::Unmapped), Some(("list", false))));
        world.restart("b").unwrap();
        let found = fault(export(&world, "write").call(&mut world, (at + 8, 0)));
        assert_eq!(found.region(), Some(("list", true)));
        // The region stays hidden when the domain is reset or loaded again.
        world.restart("b").unwrap();
        world.reload(side("b", Access::ReadWrite)).unwrap();
        assert!(matches!(export(&world, "sum").call(&mut world, (0, 0)), Err(CallError::Fault(_))));
        world.restart("b").unwrap();
        world.make_visible("b", "list", Access::Read).unwrap();
        assert_eq!(export(&world, "sum").call(&mut world, (0, 0)), Ok(5 + 10 * round));
        assert!(export(&world, "push").call(&mut world, (1, 0)).is_err());
        world.restart("b").unwrap();
        world.make_visible("b", "list", Access::ReadWrite).unwrap();
        export(&world, "push").call(&mut world, (10, 0)).unwrap();
        let a: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("sum").unwrap();
        assert_eq!(a.call(&mut world, ()), Ok(15 + 10 * round));
    }
    let unknown = |e| BindError::Unknown(e);
    assert_eq!(world.make_invisible("b", "x"), Err(unknown(LookupError::Region("x".into()))));
    assert_eq!(world.make_invisible("x", "list"), Err(unknown(LookupError::Domain("x".into()))));
}

/// Only a root domain sees every region and decides which regions others see.
#[test]
fn a_root_domain_decides_what_others_see() {
    let names = ".data\nchild: .asciz \"child\"\nsecret: .asciz \"secret\"\nwrong: .asciz \"wrong\"\n.globl length\nlength: .quad 0\n.text\n";
    let call = |name: &str, body: &str, callee: &str| function(name, &format!("{body}call {callee}\nret"));
    let pair = "lea child(%rip),%rdi\nlea secret(%rip),%rsi\n";
    let text = names.to_owned()
        + &call("show", &format!("mov %edi,%edx\n{pair}"), "__sfi_make_visible")
        + &call("hide", pair, "__sfi_make_invisible")
        + &call("wrong_region", "lea child(%rip),%rdi\nlea wrong(%rip),%rsi\n", "__sfi_make_invisible")
        + &call("wrong_pointer", "xor %edi,%edi\nmov $-1,%rsi\n", "__sfi_make_invisible")
        + &call("find", "lea secret(%rip),%rdi\nlea length(%rip),%rsi\n", "__sfi_region")
        + &function("read", "mov %gs:(%edi),%rax\nret")
        + &function("write", "mov %rsi,%gs:(%edi)\nret")
        + &function("error", "mov __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret");
    let spec = |name: &str| {
        let functions = ["__sfi_make_visible", "__sfi_make_invisible", "__sfi_region"];
        let spec = DomainSpec::new(name).object("o.o", assemble(&text));
        functions.iter().fold(spec, |spec, f| spec.import(*f, Import::host(*f)))
    };
    let mut world =
        World::builder().region("secret", 8192).domain(spec("root").root()).domain(spec("child")).build().unwrap();
    let call = |world: &mut World, domain: &str, name: &str, a: u64, b: u64| {
        let f: TypedFn<fn(u64, u64) -> u64> = world.domain(domain).unwrap().export(name).unwrap();
        f.call(world, (a, b))
    };
    let at = call(&mut world, "root", "find", 0, 0).unwrap();
    let length = world.domain("root").unwrap().symbol("length").unwrap();
    assert_eq!(world.memory("root").unwrap().read(length.0, 8).unwrap(), 8192_u64.to_le_bytes());
    call(&mut world, "root", "write", at, 77).unwrap();
    // The child sees nothing and can neither ask nor decide.
    assert_eq!(call(&mut world, "child", "find", 0, 0), Ok(0));
    assert_eq!(call(&mut world, "child", "error", 0, 0), Ok(Status::Unbound.into()));
    assert_eq!(call(&mut world, "child", "show", 1, 0).map(|v| v as i32), Ok(-1));
    assert_eq!(fault(call(&mut world, "child", "read", at, 0)).region(), Some(("secret", false)));
    world.restart("child").unwrap();
    for bad in ["wrong_region", "wrong_pointer"] {
        assert_eq!(call(&mut world, "root", bad, 0, 0).map(|v| v as i32), Ok(-1), "{bad}");
    }
    assert_eq!(call(&mut world, "root", "show", 0, 0), Ok(0));
    let seen = call(&mut world, "child", "find", 0, 0).unwrap();
    assert_eq!(seen & 0xffff_ffff, at & 0xffff_ffff);
    assert_eq!(call(&mut world, "child", "read", at, 0), Ok(77));
    assert_eq!(fault(call(&mut world, "child", "write", at, 1)).region(), Some(("secret", true)));
    world.restart("child").unwrap();
    assert_eq!(call(&mut world, "root", "show", 1, 0), Ok(0));
    call(&mut world, "child", "write", at, 78).unwrap();
    assert_eq!(call(&mut world, "root", "read", at, 0), Ok(78));
    assert_eq!(call(&mut world, "root", "hide", 0, 0), Ok(0));
    assert!(call(&mut world, "child", "read", at, 0).is_err());
}

#[test]
fn worlds_and_the_host_share_the_memory_of_a_region_file() {
    let file = RegionFile::create(5000).unwrap();
    assert_eq!(file.bytes(), 8192, "whole pages");
    let mut view = file.view().unwrap();
    let build = |access| {
        let side = DomainSpec::new("side").mode(Mode::Full).object("structures.o", assemble(&structures()));
        let side = side.shared("list", "list", access).shared("hash", "hash", Access::ReadWrite);
        World::builder().region_file("list", &file).region("hash", 1 << 16).domain(side).build().unwrap()
    };
    let (mut writer, mut reader) = (build(Access::ReadWrite), build(Access::Read));
    let list = |world: &World| world.domain("side").unwrap().symbol("list").unwrap().0;
    let call = |world: &mut World, name: &str, argument: u64| {
        let at = list(world);
        let function: TypedFn<fn(u64, u64) -> u64> = world.domain("side").unwrap().export(name).unwrap();
        function.call(world, (at + 4096, argument))
    };
    // The host, a world that may write and one that may not see the same bytes.
    view.write(4096, &7_u64.to_le_bytes()).unwrap();
    assert_eq!(call(&mut reader, "read", 0), Ok(7));
    call(&mut writer, "write", 8).unwrap();
    assert_eq!(call(&mut reader, "read", 0), Ok(8));
    assert_eq!(fault(call(&mut reader, "write", 9)).kind, FaultKind::Memory(AddressClass::Protected));
    let mut word = [0; 8];
    view.read(4096, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 8);
    // The bytes outlive the worlds.
    drop((writer, reader));
    assert_eq!(call(&mut build(Access::Read), "read", 0), Ok(8));
    // Bytes go from region to region, and from a region to a domain, within both.
    let mut other = RegionFile::create(4096).unwrap().view().unwrap();
    other.copy_from(4088, &view, 4096, 8).unwrap();
    other.read(4088, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 8);
    assert!(other.copy_from(4089, &view, 0, 8).is_err());
    assert!(other.copy_from(0, &view, 8185, 8).is_err());
    let mut world = build(Access::ReadWrite);
    let at = list(&world);
    world.memory("side").unwrap().write_from(at + 4096, &other, 4080, 16).unwrap();
    view.read(4104, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 8);
    for (pointer, offset) in [(at + 8177, 0), (at, 4081), (at, usize::MAX), (0, 0)] {
        assert!(world.memory("side").unwrap().write_from(pointer, &other, offset, 16).is_err());
    }
    let mut world = build(Access::Read);
    let at = list(&world);
    assert!(world.memory("side").unwrap().write_from(at, &other, 0, 16).is_err(), "a region that it only reads");
    assert!(RegionFile::create(0).is_err());
}
