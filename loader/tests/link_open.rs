//! Libraries that a domain opens by name: handles, searches, closing, and hostile values.

mod common;
use common::{CALL_RAX, assemble, function, kind};
use sfi_loader::manifest::Manifest;
use sfi_loader::{CallError, DomainSpec, FaultKind, Library, LinkRoom, Manage, TypedFn, World};

type Two = TypedFn<fn(u64, u64) -> u64>;

const GLOBAL: u64 = 0x100;
const NO_LOAD: u64 = 4;
const ENOSYS: u64 = 38_u64.wrapping_neg();
const FAILED: u64 = u64::MAX;

/// A domain that passes on what the test asks for, and a count that libraries change.
fn app() -> String {
    let bump = "mov count@GOTPCREL(%rip),%rcx\nmov (%rcx),%rax\nadd %rdi,%rax\nmov %rax,%gs:(%ecx)\nret";
    let all = [
        ("open", "jmp __sfi_library_open".to_owned()),
        ("symbol", "jmp __sfi_library_symbol".to_owned()),
        ("close", "jmp __sfi_library_close".to_owned()),
        ("call", format!("mov %rdi,%rax\nmov %rsi,%rdi\n{CALL_RAX}ret")),
        ("bump", bump.to_owned()),
        ("atexit", "xor %eax,%eax\nret".to_owned()),
    ];
    let text: String = all.iter().map(|(name, body)| function(name, body)).collect();
    text + ".bss\n.globl count\ncount: .zero 8\n.globl name\nname: .zero 64\n"
}

fn library(name: &str, text: &str) -> Library {
    Library::new(name).object(format!("{name}.o"), assemble(text))
}

/// A library whose initialiser adds 1 to the count and whose finaliser adds 10.
fn counting(name: &str, value: u64) -> Library {
    let text = function(name, &format!("mov ${value},%eax\nret"))
        + &function("begin", "mov $1,%edi\njmp bump")
        + &function("end", "mov $10,%edi\njmp bump")
        + ".section .init_array,\"aw\",@init_array\n.quad begin\n.section .fini_array,\"aw\",@fini_array\n.quad end\n";
    library(name, &text.replace("begin", &format!("begin_{name}")).replace("end", &format!("end_{name}")))
}

fn spec() -> DomainSpec {
    DomainSpec::new("a").object("a.o", assemble(&app()))
}

fn build(spec: DomainSpec) -> World {
    World::builder().domain(spec).build().unwrap()
}

fn call(world: &mut World, function: &str, first: u64, second: u64) -> Result<u64, CallError> {
    let function: Two = world.domain("a").unwrap().export(function).unwrap();
    function.call(world, (first, second))
}

/// Writes a name to the domain's memory. Returns its address.
fn name(world: &mut World, text: &str) -> u64 {
    let at = world.domain("a").unwrap().symbol("name").unwrap().0;
    world.memory("a").unwrap().write(at, format!("{text}\0").as_bytes()).unwrap();
    at
}

fn open(world: &mut World, library: &str, flags: u64) -> u64 {
    let at = name(world, library);
    call(world, "open", at, flags).unwrap()
}

fn symbol(world: &mut World, handle: u64, symbol: &str) -> u64 {
    let at = name(world, symbol);
    call(world, "symbol", handle, at).unwrap()
}

fn close(world: &mut World, handle: u64) -> u64 {
    call(world, "close", handle, 0).unwrap()
}

fn count(world: &mut World) -> u64 {
    call(world, "bump", 0, 0).unwrap()
}

#[test]
fn a_granted_library_is_opened_searched_and_closed() {
    let mut world = build(spec().library(counting("one", 1)).library(counting("two", 2)));
    assert_eq!(open(&mut world, "one", NO_LOAD), FAILED);
    let one = open(&mut world, "one", 0);
    assert_ne!(one, FAILED);
    assert_eq!(open(&mut world, "one", NO_LOAD), one, "it is linked once");
    assert_eq!(count(&mut world), 1);
    let two = open(&mut world, "two", GLOBAL);
    let pointer = symbol(&mut world, one, "one");
    assert_eq!(call(&mut world, "call", pointer, 0).unwrap(), 1);
    assert_eq!(symbol(&mut world, one, "one"), pointer);
    assert_eq!(symbol(&mut world, one, "two"), 0);
    // A search finds the domain's own and what is global.
    for handle in [0, 1, u64::MAX] {
        assert_eq!(symbol(&mut world, handle, "one"), 0);
        let found = symbol(&mut world, handle, "two");
        assert_eq!(call(&mut world, "call", found, 0).unwrap(), 2);
        let own = symbol(&mut world, handle, "bump");
        assert_eq!(call(&mut world, "call", own, 0).unwrap(), 2);
        let variable = world.domain("a").unwrap().symbol("count").unwrap().0;
        assert_eq!(symbol(&mut world, handle, "count"), variable);
    }
    // An open library becomes global, and stays so.
    assert_eq!(open(&mut world, "one", GLOBAL), one);
    assert_eq!(symbol(&mut world, 0, "one"), pointer);
    assert_eq!([close(&mut world, one), close(&mut world, one)], [0, 0]);
    assert_eq!(count(&mut world), 2, "it is open once more");
    assert_eq!(close(&mut world, one), 0);
    assert_eq!(count(&mut world), 12, "the finaliser ran");
    assert_eq!(close(&mut world, one), FAILED);
    assert_eq!(symbol(&mut world, one, "one"), 0);
    // The same library again has the same pointers.
    let again = open(&mut world, "one", 0);
    assert_ne!(again, one);
    assert_eq!(symbol(&mut world, again, "one"), pointer);
    close(&mut world, again);
    close(&mut world, two);
    assert_eq!(kind(call(&mut world, "call", pointer, 0)), FaultKind::WildBranch);
    world.restart("a").unwrap();
    assert_eq!(close(&mut world, two), FAILED);
}

#[test]
fn other_names_and_handles_lead_nowhere() {
    // Without a grant there are no such functions.
    let mut world = build(spec());
    assert_eq!([open(&mut world, "one", 0), close(&mut world, 1)], [ENOSYS, ENOSYS]);
    let hosts = library("hosts", &function("hosts", "mov $7,%eax\nret"));
    let mut world = build(spec().library(counting("one", 1)).library(hosts.clone()));
    for wrong in ["", "on", "one ", "/etc/passwd", "../one"] {
        assert_eq!(open(&mut world, wrong, 0), FAILED, "{wrong}");
    }
    for pointer in [1, 0x1000, u64::MAX, 0x7000_0000_0000] {
        assert_eq!(call(&mut world, "open", pointer, 0).unwrap(), FAILED);
        assert_eq!(call(&mut world, "symbol", 0, pointer).unwrap(), 0);
    }
    assert_eq!(call(&mut world, "open", 0, 0).unwrap(), 1, "the domain itself");
    assert_eq!(close(&mut world, 1), 0);
    // The host's own links are not the domain's to close.
    let linked = world.link("a", &hosts.clone()).unwrap();
    for handle in (2..40).chain([1 << 32, u64::MAX - 1, u64::MAX]) {
        assert_eq!(close(&mut world, handle), FAILED, "{handle}");
    }
    let handle = open(&mut world, "hosts", 0);
    assert_eq!(close(&mut world, handle), 0);
    let function: TypedFn<fn() -> u64> = linked.export(&mut world, "hosts").unwrap();
    assert_eq!(function.call(&mut world, ()).unwrap(), 7);
    world.unlink(linked).unwrap();
}

#[test]
fn libraries_open_and_close_each_other_and_themselves() {
    let at_name = "lea other(%rip),%rdi\nmov $0x100,%esi\ncall __sfi_library_open\n";
    let outer = function("begin", &format!("{at_name}mov handle@GOTPCREL(%rip),%rcx\nmov %rax,%gs:(%ecx)\nret"))
        + &function("outer", "mov handle(%rip),%rax\nret")
        + ".data\n.globl handle\nhandle: .quad 0\n.section .rodata\nother: .asciz \"inner\"\n\
           .section .init_array,\"aw\",@init_array\n.quad begin\n";
    let selfish = function("close_self", "call __sfi_library_close\nadd $5,%rax\nret");
    let keeps = function("keeps", "xor %edi,%edi\ncall atexit\nret");
    let spec = spec()
        .library(library("outer", &outer))
        .library(library("inner", &function("inner", "mov $3,%eax\nret")))
        .library(library("selfish", &selfish))
        .library(library("keeps", &keeps));
    let mut world = build(spec);
    let handle = open(&mut world, "outer", 0);
    let outer = symbol(&mut world, handle, "outer");
    let inner = call(&mut world, "call", outer, 0).unwrap();
    let function = symbol(&mut world, inner, "inner");
    assert_eq!(call(&mut world, "call", function, 0).unwrap(), 3);
    // A library that closes itself stays, because its function goes on.
    let handle = open(&mut world, "selfish", 0);
    let pointer = symbol(&mut world, handle, "close_self");
    assert_eq!(call(&mut world, "call", pointer, handle).unwrap(), 5);
    assert_eq!(close(&mut world, handle), FAILED);
    assert_eq!(call(&mut world, "call", pointer, handle).unwrap(), 4);
    assert_eq!(open(&mut world, "selfish", 0), handle, "it was never unlinked");
    // One whose functions the libc may call at the end stays, too.
    let handle = open(&mut world, "keeps", 0);
    let pointer = symbol(&mut world, handle, "keeps");
    assert_eq!(close(&mut world, handle), 0);
    assert_eq!(call(&mut world, "call", pointer, 0).unwrap(), 0);
}

#[test]
fn bad_libraries_and_full_rooms_are_refused() {
    let bad = library("bad", &function("bad", "mov %rax,(%rdi)\nret"));
    let clash = library("clash", &function("bump", "ret"));
    let room = LinkRoom { libraries: 1, slots: 512, bytes: 8192 };
    let large = library("large", &(function("large", "ret") + ".bss\n.zero 8192\n"));
    let grants = [bad, clash, large, counting("one", 1), counting("two", 2)];
    let spec = grants.into_iter().fold(spec().link_room(room), DomainSpec::library);
    let mut world = build(spec);
    for name in ["bad", "clash", "large"] {
        assert_eq!(open(&mut world, name, 0), FAILED, "{name}");
    }
    assert_eq!(count(&mut world), 0);
    let one = open(&mut world, "one", 0);
    assert_ne!(one, FAILED);
    assert_eq!(open(&mut world, "two", 0), FAILED);
    for _ in 0..1000 {
        assert_eq!(open(&mut world, "one", 0), one);
        assert_eq!(close(&mut world, one), 0);
    }
    assert_eq!(close(&mut world, one), 0);
    assert_ne!(open(&mut world, "two", 0), FAILED);
}

#[test]
fn a_manifest_grants_libraries() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.o"), assemble(&app())).unwrap();
    std::fs::write(directory.path().join("one.o"), assemble(&function("one", "mov $1,%eax\nret"))).unwrap();
    let text = "[domains.a]\nobjects = [\"a.o\"]\nlibraries.one = [\"one.o\"]\nlink_room = { libraries = 2, bytes = \"64 KiB\" }\n";
    let read = |text: &str| Manifest::parse(text, "sfi.toml".as_ref());
    let builder = read(text).unwrap().build(World::builder(), directory.path()).unwrap();
    let mut world = builder.build().unwrap();
    let handle = open(&mut world, "one", 0);
    let pointer = symbol(&mut world, handle, "one");
    assert_eq!(call(&mut world, "call", pointer, 0).unwrap(), 1);
    assert!(read(&text.replace("libraries = 2", "library = 2")).is_err());
}

/// The host reads a library's data in place. The domain closes the library meanwhile, and its
/// memory stays.
#[test]
fn a_library_stays_while_the_host_has_an_address() {
    let text = function("place", "lea word(%rip),%rax\nret") + ".data\n.globl word\nword: .quad 77\n";
    for kept in [false, true] {
        let mut world = build(spec().library(library("one", &text)));
        let one = open(&mut world, "one", 0);
        let word = symbol(&mut world, one, "word");
        let other = world.domain("a").unwrap().symbol("count").unwrap().0;
        let prepared = world.domain("a").unwrap().prepare("bump", "(int) -> int".parse().unwrap()).unwrap();
        if kept {
            // Any address counts, because nobody says how long the host uses it.
            prepared.view(&mut world, other, 8).unwrap();
        }
        assert_eq!(close(&mut world, one), 0);
        let read = world.memory("a").unwrap().read(word, 8);
        assert_eq!(read.is_ok(), kept, "{read:?}");
        assert_eq!(close(&mut world, one), FAILED, "the handle is gone");
        assert_ne!(open(&mut world, "one", 0), FAILED);
    }
}
