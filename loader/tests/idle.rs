//! Idle stacks: their pages go back to the kernel, but never while a call returns to them.

mod common;
use common::{CALL_RAX, assemble, function};
use sfi_loader::{Budget, DomainSpec, Entry, Import, Manage, Passed, TypedFn, World, bytes_mut};
use std::time::Duration;

const STACK: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Makes the server. `deep(pages, spins)` writes to that many pages of the data stack and takes its
/// time, `nest(n)` calls itself, `sum` adds up a buffer and puts it back doubled.
fn server() -> DomainSpec {
    let text = function(
        "deep",
        "mov %r15,%rax\n1:\nsub $4096,%rax\nmovq $1,%gs:(%eax)\ndec %rdi\njnz 1b\n2:\ndec %rsi\njg 2b\nmov $5,%eax\nret",
    ) + &function("nest", "test %rdi,%rdi\njz 1f\ndec %rdi\ncall nest\n1:\nret")
        + &function(
            "double",
            "xor %eax,%eax\n1:\nmov %gs:-8(%edi,%esi,8),%rcx\nadd %rcx,%rax\nadd %rcx,%rcx\nmov %rcx,%gs:-8(%edi,%esi,8)\ndec %rsi\njnz 1b\n\
             mov $20000000,%ecx\n2:\ndec %rcx\njnz 2b\nret",
        )
        // Leaves marks on its stack, calls back, and counts the marks that are still there.
        + &function(
            "marks",
            "lea -65536(%r15),%r15\nmov $8192,%ecx\n1:\nmov %rcx,%gs:-8(%r15d,%ecx,8)\ndec %ecx\njnz 1b\ncall back\n\
             xor %eax,%eax\nmov $8192,%ecx\n2:\ncmp %rcx,%gs:-8(%r15d,%ecx,8)\njne 3f\ninc %eax\n3:\ndec %ecx\njnz 2b\nlea 65536(%r15),%r15\nret",
        );
    DomainSpec::new("server")
        .stack(STACK)
        .object("server.o", assemble(&text))
        .import("back", Import::domain("client", "back").signature("() -> int"))
        .registers("deep", Entry::function("deep").signature("(int, int) -> int"))
        .registers("marks", Entry::function("marks").signature("() -> int"))
}

/// Makes the client. `call(pages)` calls the server's `deep`. `run` connects to `marks` and calls
/// it; the callback from there disconnects it.
fn client() -> DomainSpec {
    let text = ".data\npointer: .quad 0\n.section .rodata\nname: .asciz \"server.marks\"\n.text\n".to_owned()
        + &function("call", "xor %esi,%esi\njmp deep")
        + &function(
            "run",
            &format!("lea name(%rip),%rdi\ncall __sfi_connect\nmov %rax,%gs:pointer(%eip)\n{CALL_RAX}ret"),
        )
        + &function("back", "mov pointer(%rip),%rdi\njmp __sfi_disconnect");
    DomainSpec::new("client")
        .object("client.o", assemble(&text))
        .import("deep", Import::entry("server.deep").signature("(int, int) -> int"))
        .import("__sfi_connect", Import::host("__sfi_connect"))
        .import("__sfi_disconnect", Import::host("__sfi_disconnect"))
        .spare_bindings(1)
}

fn world() -> World {
    World::builder().domain(client()).domain(server()).permit("*", "*").build().unwrap()
}

/// Builds a world with a budget, in which the watchdog looks every four milliseconds.
fn watched() -> World {
    let server = server().stack(4 * STACK).budget(Budget::cpu(Duration::from_secs(600)));
    World::builder().domain(client()).domain(server).permit("*", "*").build().unwrap()
}

/// Counts the resident pages of a mapping. `None` if it is gone: tests of other threads unmap
/// theirs.
fn resident(start: u64, length: u64) -> Option<usize> {
    let mut pages = vec![0_u8; (length / PAGE) as usize];
    // SAFETY: a mapping of this process, and a byte for each of its pages.
    let result = unsafe { libc::mincore(start as *mut libc::c_void, length as usize, pages.as_mut_ptr()) };
    let error = std::io::Error::last_os_error();
    assert!(result == 0 || error.raw_os_error() == Some(libc::ENOMEM), "{error}");
    (result == 0).then(|| pages.iter().filter(|page| **page & 1 != 0).count())
}

/// Returns the resident pages of a domain's data stack.
fn stack(world: &World, domain: &str) -> usize {
    let domain = world.domain(domain).unwrap();
    let segment = domain.segments().iter().find(|s| s.name == "data stack").unwrap();
    resident(domain.secret_base() + segment.offset, segment.length).expect("the world's own stack")
}

/// Returns the resident pages of this process' one control stack. Its stack area is the last MiB of
/// 4 MiB-aligned 4 MiB.
fn control() -> usize {
    let range = |line: &String| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let [from, to] = [from, to].map(|x| u64::from_str_radix(x, 16).unwrap());
        (to.is_multiple_of(4 << 20) && to - from == 1 << 20).then_some(from)
    };
    let all: Vec<u64> = common::maps().iter().filter(|line| line.contains("rw-p")).filter_map(range).collect();
    all.into_iter().filter_map(|from| resident(from, 1 << 20)).max().expect("a control stack")
}

#[test]
fn a_trimmed_world_keeps_nothing_on_its_stacks() {
    let mut world = world();
    let call: TypedFn<fn(u64) -> u64> = world.domain("client").unwrap().export("call").unwrap();
    let nest: TypedFn<fn(u64)> = world.domain("server").unwrap().export("nest").unwrap();
    for _ in 0..3 {
        assert_eq!(call.call(&mut world, (200,)), Ok(5));
        nest.call(&mut world, (100_000,)).unwrap();
        assert!(stack(&world, "server") >= 200 && control() >= 190);
        world.trim();
        assert_eq!((stack(&world, "server"), stack(&world, "client")), (0, 0));
        assert!(control() < 190, "{}", control());
    }
    // A dead domain gives back its pages, too, and lives again.
    assert!(call.call(&mut world, (300,)).unwrap() != 5);
    assert!(world.domain("server").unwrap().is_dead());
    world.trim();
    assert_eq!(stack(&world, "server"), 0);
    world.restart("server").unwrap();
    assert_eq!(call.call(&mut world, (20,)), Ok(5));
    assert!((20..100).contains(&stack(&world, "server")));
}

#[test]
fn a_server_that_nobody_is_bound_to_keeps_nothing() {
    let mut world = world();
    let call: TypedFn<fn(u64) -> u64> = world.domain("client").unwrap().export("call").unwrap();
    assert_eq!(call.call(&mut world, (200,)), Ok(5));
    assert!(stack(&world, "server") >= 200);
    world.disconnect("client", "deep").unwrap();
    assert_eq!(stack(&world, "server"), 0);
    world.connect("client", "deep", "server.deep").unwrap();
    assert_eq!(call.call(&mut world, (200,)), Ok(5));
    world.unregister("server.deep").unwrap();
    assert_eq!(stack(&world, "server"), 0);
}

/// The last binding goes in the middle of a call through it.
#[test]
fn a_stack_that_is_in_use_stays() {
    let mut world = world();
    world.disconnect("client", "deep").unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("client").unwrap().export("run").unwrap();
    for _ in 0..100 {
        assert_eq!(run.call(&mut world, ()), Ok(8192));
    }
}

/// The watchdog finds idle stacks, so that other calls need not look at them.
#[test]
fn a_long_call_leaves_a_small_stack() {
    let mut world = watched();
    let deep: TypedFn<fn(u64, u64) -> u64> = world.domain("server").unwrap().export("deep").unwrap();
    // On a busy machine the watchdog sees short calls more than once, too.
    let kept = (0..50).any(|_| {
        assert_eq!(deep.call(&mut world, (200, 0)), Ok(5));
        stack(&world, "server") >= 200
    });
    assert!(kept);
    let released = (0..50).any(|_| {
        assert_eq!(deep.call(&mut world, (200, 50_000_000)), Ok(5));
        stack(&world, "server") <= 16
    });
    assert!(released);
}

/// The contents of a long call's buffers stay on its stack until they are copied back.
#[test]
fn buffers_of_a_long_call_come_back() {
    let mut world = watched();
    let double = "u64 double(inout u64 values[count], u64 count)".parse().unwrap();
    let double = world.domain("server").unwrap().bind(&double).unwrap();
    let values: Vec<u64> = (0..200_000).map(|i| i * i).collect();
    for _ in 0..10 {
        let mut copy = values.clone();
        let arguments = &mut [Passed::InOut(bytes_mut(&mut copy)), Passed::Word(200_000)];
        assert_eq!(double.call(&mut world, arguments), Ok(values.iter().sum()));
        assert!(copy.iter().zip(&values).all(|(new, old)| *new == 2 * old));
    }
}
