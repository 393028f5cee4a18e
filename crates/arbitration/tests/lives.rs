//! A domain that lives again begins as a new process does. Its arbiter keeps nothing of its former
//! life, and an exit ends only the domain that asked for it.
//!
//! Needs gcc.

use sfi_arbitration::{Arbiter, Exit, GATEWAY, Policy, Preopen, Quota, Stdio};
use sfi_loader::{CallError, DomainSpec, FaultKind, Function, HostCall, HostError, Import, Restart, TypedFn, World};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

/// `sys` makes a system call with five arguments, `die` faults, `text` returns the address of a
/// path, and `here` returns an address of the domain's data.
const TENANT: &str = ".text
.globl sys, die, text, here
.type sys,@function
.type die,@function
.type text,@function
.type here,@function
sys:
    mov %rdi,%gs:request(%eip)
    mov %rsi,%gs:request+8(%eip)
    mov %rdx,%gs:request+16(%eip)
    mov %rcx,%gs:request+24(%eip)
    mov %r8,%gs:request+32(%eip)
    mov %r9,%gs:request+40(%eip)
    lea request(%rip),%rdi
    call __sfi_arbitrate@PLT
    ret
die:
    mov 8,%rax
    ret
text:
    lea path(%rip),%rax
    ret
here:
    lea request(%rip),%rax
    ret
.section .rodata
path: .asciz \"/data/file\"
.bss
.balign 8
request: .zero 56
.section .note.GNU-stack,\"\",@progbits
";

/// Calls functions of the tenant, and returns its own value if that fails.
const CLIENT: &str = ".text
.globl kill, leave
.type kill,@function
.type leave,@function
kill:
    call die@PLT
    ret
leave:
    call sys@PLT
    ret
.section .note.GNU-stack,\"\",@progbits
";

/// The client's value for a call that failed.
const FAILED: i64 = -77;
const MEMORY: u64 = 1 << 20;

fn assemble(directory: &Path, text: &str) -> Vec<u8> {
    let (source, object) = (directory.join("in.s"), directory.join("out.o"));
    std::fs::File::create(&source).unwrap().write_all(text.as_bytes()).unwrap();
    let done = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status().unwrap();
    assert!(done.success());
    std::fs::read(object).unwrap()
}

fn world(directory: &Path, restart: Restart, program: bool) -> World {
    std::fs::create_dir_all(directory.join("data")).unwrap();
    std::fs::write(directory.join("data/file"), "what the last tenant had open").unwrap();
    let policy = Policy {
        preopens: vec![Preopen::open(&directory.join("data"), "/data", true).unwrap()],
        quota: Quota { memory: MEMORY, ..Quota::default() },
        ..Policy::default()
    };
    let arbiter = Arbiter::new(policy, Stdio::inherit().unwrap());
    let mut arbiter = if program { arbiter.program() } else { arbiter };
    let import = |name: &str| Import::domain("tenant", name).signature("(int, int, int, int, int, int) -> int");
    World::builder()
        .domain(
            DomainSpec::new("tenant")
                .object("tenant.o", assemble(directory, TENANT))
                .memory(8 << 20)
                .restart(restart)
                .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int")),
        )
        .domain(
            DomainSpec::new("client")
                .object("client.o", assemble(directory, CLIENT))
                .import("die", import("die").on_fault(FAILED))
                .import("sys", import("sys").on_fault(FAILED)),
        )
        .host_fn(GATEWAY, move |cx: &mut HostCall<'_>| -> Result<u64, HostError> { arbiter.host_call(cx) })
        .build()
        .unwrap()
}

fn call<F: Function>(world: &mut World, domain: &str, name: &str, args: F::Args) -> Result<F::Output, CallError> {
    let function: TypedFn<F> = world.domain(domain).unwrap().export(name).unwrap();
    function.call(world, args)
}

fn sys(world: &mut World, call_: i64, a: u64, b: u64, c: u64) -> i64 {
    call::<fn(i64, u64, u64, u64, u64, u64) -> i64>(world, "tenant", "sys", (call_, a, b, c, 0x22, 0)).unwrap()
}

/// Changes state that a life can leave behind: memory, descriptors, and the mask of new files.
fn spend(world: &mut World) {
    assert!(sys(world, libc::SYS_mmap, 0, MEMORY / 2, 3) > 0);
    assert_eq!(sys(world, libc::SYS_mmap, 0, MEMORY, 3), -i64::from(libc::ENOMEM), "the quota bounds it");
    let path = call::<fn() -> u64>(world, "tenant", "text", ()).unwrap();
    assert_eq!(sys(world, libc::SYS_open, path, 0, 0), 3);
    assert_eq!(sys(world, libc::SYS_close, 0, 0, 0), 0);
    assert_eq!(sys(world, libc::SYS_umask, 0o77, 0, 0), 0o22);
}

/// Checks that the domain finds nothing of that state.
fn is_new(world: &mut World) {
    let memory = sys(world, libc::SYS_mmap, 0, MEMORY, 3);
    let base = world.domain("tenant").unwrap().secret_base();
    assert_eq!(memory as u64 >> 32, base >> 32, "memory of its own window, and its whole quota");
    assert_eq!(sys(world, libc::SYS_munmap, memory as u64, MEMORY, 0), 0);
    assert_eq!(sys(world, libc::SYS_lseek, 3, 0, 0), -i64::from(libc::EBADF), "the other's descriptor is closed");
    assert_eq!(sys(world, libc::SYS_fcntl, 0, 1, 0), 0, "standard input is open again");
    assert_eq!(sys(world, libc::SYS_umask, 0o22, 0, 0), 0o22);
}

#[test]
fn a_restarted_domain_finds_nothing_of_its_dead_self() {
    let directory = tempfile::tempdir().unwrap();
    let mut revived = world(directory.path(), Restart::Always, false);
    spend(&mut revived);
    let base = revived.domain("tenant").unwrap().secret_base();
    assert_eq!(call::<fn() -> i64>(&mut revived, "client", "kill", ()), Ok(FAILED));
    assert!(revived.domain("tenant").unwrap().is_dead());
    is_new(&mut revived);
    assert_ne!(revived.domain("tenant").unwrap().secret_base(), base, "it lives in another window");
    let mut restarted = world(directory.path(), Restart::Never, false);
    spend(&mut restarted);
    restarted.restart("tenant").unwrap();
    is_new(&mut restarted);
    is_new(&mut restarted);
}

#[test]
fn former_lives_cost_the_host_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = world(directory.path(), Restart::Never, false);
    let file = directory.path().join("data/file").canonicalize().unwrap();
    let open = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        // Other tests close theirs meanwhile.
        descriptors.filter(|at| std::fs::read_link(at).is_ok_and(|to| to == file)).count()
    };
    for _ in 0..3 {
        spend(&mut world);
        assert_eq!(open(), 1, "the living one has its file");
        world.restart("tenant").unwrap();
        is_new(&mut world);
        assert_eq!(open(), 0, "the dead one's is closed");
        world.restart("tenant").unwrap();
    }
}

#[test]
fn instances_are_processes_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = world(directory.path(), Restart::Never, false);
    spend(&mut world);
    let instance = world.instantiate("tenant").unwrap();
    type Sys = fn(i64, u64, u64, u64, u64, u64) -> i64;
    let of_it: TypedFn<Sys> = world.instance(instance).unwrap().export("sys").unwrap();
    let base = world.instance(instance).unwrap().secret_base();
    let memory = of_it.call(&mut world, (libc::SYS_mmap, 0, MEMORY, 3, 0x22, 0)).unwrap();
    assert_eq!(memory as u64 >> 32, base >> 32);
    assert_eq!(sys(&mut world, libc::SYS_mmap, 0, MEMORY, 3), -i64::from(libc::ENOMEM), "the first spent its own");
    assert_eq!(sys(&mut world, libc::SYS_lseek, 3, 0, 0), 0, "and its descriptor is open");
    let more = of_it.call(&mut world, (libc::SYS_mmap, 0, 4096, 3, 0x22, 0)).unwrap();
    assert_eq!(more, -i64::from(libc::ENOMEM));
    world.reset(instance).unwrap();
    let again = of_it.call(&mut world, (libc::SYS_mmap, 0, MEMORY, 3, 0x22, 0)).unwrap();
    assert_eq!(again, memory, "a reset gives it back");
}

#[test]
fn an_exit_is_the_fault_of_the_domain_that_asked() {
    let directory = tempfile::tempdir().unwrap();
    let endings = [(libc::SYS_exit_group, 0, 0, 0), (libc::SYS_exit, 3, 0, 3), (libc::SYS_kill, 1, 15, 143)];
    for (number, a, b, code) in endings {
        let mut world = world(directory.path(), Restart::Never, false);
        let leave = call::<fn(i64, u64, u64) -> i64>(&mut world, "client", "leave", (number, a, b));
        assert_eq!(leave, Ok(FAILED), "the client goes on");
        let tenant = world.domain("tenant").unwrap();
        assert!(tenant.is_dead() && !world.domain("client").unwrap().is_dead());
        let fault = world.domain("tenant").unwrap().last_fault().unwrap();
        assert_eq!((fault.kind, fault.function.as_deref()), (FaultKind::Exit(code), Some("sys")));
        assert_eq!(
            fault.to_string(),
            format!("domain `tenant`: the domain ended itself with exit status {code} in `sys`+{:#x}", fault.offset)
        );
        let direct = call::<fn(i64, u64, u64) -> i64>(&mut world, "tenant", "sys", (number, a, b));
        assert_eq!(direct, Err(CallError::Dead { domain: "tenant".into() }));
        world.restart("tenant").unwrap();
        let direct = call::<fn(i64, u64, u64) -> i64>(&mut world, "tenant", "sys", (number, a, b));
        assert!(matches!(direct, Err(CallError::Fault(fault)) if fault.kind == FaultKind::Exit(code)));
    }
}

#[test]
fn a_whole_program_ends_its_embedding() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = world(directory.path(), Restart::Never, true);
    let exit = catch_unwind(AssertUnwindSafe(|| {
        call::<fn(i64, u64) -> i64>(&mut world, "client", "leave", (libc::SYS_exit_group, 5))
    }));
    assert_eq!(exit.unwrap_err().downcast_ref(), Some(&Exit(5)));
}
