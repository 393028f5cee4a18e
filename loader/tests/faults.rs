//! Faults end in an error of the call, and nothing else is lost.

mod common;
use common::{CALL_RAX, assemble, function};
use sfi_loader::{AddressClass, CallError, DomainSpec, Fault, FaultKind, Import, Mode, Status, TypedFn, World};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns bodies of functions with the expected fault and its function.
fn kinds() -> Vec<(&'static str, String, FaultKind)> {
    let memory = FaultKind::Memory;
    vec![
        ("null_load", "mov 8,%rax\nret".into(), memory(AddressClass::Null)),
        ("null_store", "movl $1,%gs:(%edi)\nret".into(), memory(AddressClass::Null)),
        ("wild_load", "mov $0x7000,%rax\nshl $32,%rax\nmov (%rax),%rax\nret".into(), memory(AddressClass::Outside)),
        ("non_canonical", "mov $0x800000000000dead,%rax\nmov (%rax),%rax\nret".into(), memory(AddressClass::Unknown)),
        ("unmapped_store", "mov $0xfffff000,%eax\nmovl $1,%gs:(%eax)\nret".into(), memory(AddressClass::Unmapped)),
        ("guard_store", "mov $0xfffffffc,%eax\nmovq $1,%gs:(%eax)\nret".into(), memory(AddressClass::Unmapped)),
        (
            "text_store",
            "lea text_store(%rip),%rax\nmovl $1,%gs:text_store(%eip)\nret".into(),
            memory(AddressClass::Protected),
        ),
        ("header_store", "movl $1,%gs:__sfi_header(%eip)\nret".into(), memory(AddressClass::Protected)),
        ("constant_store", "movl $1,%gs:constant(%eip)\nret".into(), memory(AddressClass::Protected)),
        // The same by stores relative to rip.
        ("relative_slot", "movl $1,relative_slot(%rip)\nret".into(), memory(AddressClass::Protected)),
        ("relative_header", "lock incl __sfi_header(%rip)\nret".into(), memory(AddressClass::Protected)),
        ("relative_constant", "movl $1,constant(%rip)\nret".into(), memory(AddressClass::Protected)),
        ("divide", "xor %edx,%edx\nxor %ecx,%ecx\ndiv %ecx\nret".into(), FaultKind::Division),
        ("divide_overflow", "mov $0x80000000,%eax\ncltd\nmov $-1,%ecx\nidiv %ecx\nret".into(), FaultKind::Division),
        ("undefined", "ud2".into(), FaultKind::IllegalInstruction),
        ("trap", "int3\nret".into(), FaultKind::Breakpoint),
        ("falls_off", "nop".into(), FaultKind::Breakpoint),
        (
            "unmasked",
            "movl $0x1d00,%gs:scratch(%eip)\nldmxcsr scratch(%rip)\nxorps %xmm0,%xmm0\ndivss %xmm0,%xmm0\nret".into(),
            FaultKind::FloatingPoint,
        ),
        ("wild_call", format!("mov $0x100ff0,%eax\n{CALL_RAX}ret"), FaultKind::WildBranch),
        ("null_call", format!("xor %eax,%eax\n{CALL_RAX}ret"), FaultKind::WildBranch),
        ("far_slot", format!("mov $0x1ff000,%eax\n{CALL_RAX}ret"), FaultKind::WildBranch),
        ("recursion", "call recursion\nret".into(), FaultKind::ControlStackOverflow),
        (
            "big_frames",
            "lea -4096(%r15),%r15\nmovl $1,%gs:(%r15d)\ncall big_frames\nret".into(),
            FaultKind::DataStackOverflow,
        ),
        ("huge_frame", "lea -0x180000(%r15),%r15\nmovl $1,%gs:(%r15d)\nret".into(), FaultKind::DataStackOverflow),
    ]
}

fn bad_domain() -> Vec<u8> {
    let mut text = ".data\n.globl scratch\nscratch: .quad 0\n.section .rodata\nconstant: .quad 0\n.text\n".to_owned();
    for (name, body, _) in kinds() {
        if name == "falls_off" {
            text += ".section .text.last,\"ax\",@progbits\n.globl falls_off\n.type falls_off,@function\nfalls_off:\nnop\n.text\n";
        } else {
            text += &function(name, &body);
        }
    }
    assemble(&text)
}

#[test]
fn every_kind_reaches_the_host() {
    let mut world = World::builder().domain(DomainSpec::new("bad").object("bad.o", bad_domain())).build().unwrap();
    for (name, _, kind) in kinds() {
        let f: TypedFn<fn() -> u64> = world.domain("bad").unwrap().export(name).unwrap();
        let Err(CallError::Fault(fault)) = f.call(&mut world, ()) else { panic!("{name} did not fault") };
        assert_eq!((fault.kind, fault.function.as_deref()), (kind, Some(name)), "{name}: {fault}");
        let base = format!("{:x}", world.domain("bad").unwrap().secret_base() >> 32);
        assert!(!fault.to_string().contains(&base), "{fault} tells a secret");
        assert_eq!(f.call(&mut world, ()), Err(CallError::Dead { domain: "bad".into() }));
        assert_eq!(world.domain("bad").unwrap().last_fault(), Some(fault));
        world.restart("bad").unwrap();
    }
}

#[test]
fn every_kind_reaches_a_calling_domain() {
    for (name, _, kind) in kinds() {
        // The caller's preserved registers, data stack and memory survive.
        let app = function(
            "run",
            "lea -16(%r15),%r15\nmovq $99,%gs:(%r15d)\nmov $11,%ebx\nmov $12,%r14d\nmovl $0,%gs:__sfi_error(%eip)\ncall work\n\
             add %rbx,%rax\nadd %r14,%rax\nadd %gs:(%r15d),%rax\nmov %gs:__sfi_error(%eip),%ecx\nimul $1000,%rcx\nadd %rcx,%rax\nlea 16(%r15),%r15\nret",
        );
        let mut world = World::builder()
            .domain(
                DomainSpec::new("app")
                    .object("app.o", assemble(&app))
                    .import("work", Import::domain("bad", name).on_fault(5)),
            )
            .domain(DomainSpec::new("bad").object("bad.o", bad_domain()))
            .build()
            .unwrap();
        let run: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("run").unwrap();
        let expected = |code: u32| Ok(5 + 11 + 12 + 99 + 1000 * u64::from(code));
        assert_eq!(run.call(&mut world, ()), expected(Status::Fault as u32), "{name}");
        assert_eq!(run.call(&mut world, ()), expected(Status::Dead as u32), "{name}");
        assert_eq!(world.domain("bad").unwrap().last_fault().unwrap().kind, kind);
        assert!(!world.domain("app").unwrap().is_dead());
    }
}

/// A calls B, which calls A again, and the inner A faults. B gets an error. When B returns, the
/// outer A cannot go on.
#[test]
fn a_dead_domain_is_not_returned_to() {
    let a = function("outer", "call middle\nmov $1,%eax\nret") + &function("inner", "ud2");
    let b = function("middle", "call inner\nmov __sfi_error(%rip),%ecx\nmov %ecx,%gs:seen(%eip)\nret")
        + ".data\n.globl seen\nseen: .long 0\n";
    let mut world = World::builder()
        .domain(DomainSpec::new("a").object("a.o", assemble(&a)).import("middle", Import::domain("b", "middle")))
        .domain(DomainSpec::new("b").object("b.o", assemble(&b)).import("inner", Import::domain("a", "inner")))
        .build()
        .unwrap();
    let outer: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("outer").unwrap();
    for _ in 0..3 {
        let Err(CallError::Fault(fault)) = outer.call(&mut world, ()) else { panic!("returned into a dead domain") };
        assert_eq!((fault.kind, fault.function.as_deref()), (FaultKind::IllegalInstruction, Some("inner")));
        let seen = world.domain("b").unwrap().symbol("seen").unwrap();
        assert_eq!(world.memory("b").unwrap().read(seen.0, 4).unwrap(), (Status::Fault as u32).to_le_bytes());
        assert!(!world.domain("b").unwrap().is_dead());
        world.restart("a").unwrap();
    }
}

/// The nested call goes through a host function, which sees the error of its own call.
#[test]
fn a_host_function_survives_the_death_of_its_caller() {
    let a = function("outer", "lea inner(%rip),%rdi\ncall back\nmov $1,%eax\nret") + &function("inner", "ud2");
    let app = function("run", "call work\nret");
    let mut world = World::builder()
        .domain(
            DomainSpec::new("app")
                .object("app.o", assemble(&app))
                .import("work", Import::domain("a", "outer").on_fault(7)),
        )
        .domain(DomainSpec::new("a").object("a.o", assemble(&a)).import("back", Import::host("back")))
        .host_fn("back", |cx| {
            let inner = cx.function::<fn()>(cx.arg(0))?;
            assert!(matches!(inner.call(cx, ()), Err(CallError::Fault(_))));
            assert!(matches!(inner.call(cx, ()), Err(CallError::Dead { .. })));
            Ok(1)
        })
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("app").unwrap().export("run").unwrap();
    let outer: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("outer").unwrap();
    for _ in 0..3 {
        assert_eq!(run.call(&mut world, ()), Ok(7));
        world.restart("a").unwrap();
        assert!(matches!(outer.call(&mut world, ()), Err(CallError::Fault(_))));
        world.restart("a").unwrap();
    }
}

#[test]
fn restart_reloads_everything_private() {
    let text = ".data\n.globl counter\ncounter: .quad 5\n.section .init_array,\"aw\"\n.quad start\n".to_owned()
        + &function("start", "addq $10,%gs:counter(%eip)\nret")
        + &function("bump", "addq $1,%gs:counter(%eip)\nmov counter(%rip),%rax\nret")
        + &function("die", "ud2");
    let mut world = World::builder().domain(DomainSpec::new("a").object("a.o", assemble(&text))).build().unwrap();
    let a = world.domain("a").unwrap();
    let bump: TypedFn<fn() -> u64> = a.export("bump").unwrap();
    let die: TypedFn<fn()> = a.export("die").unwrap();
    assert_eq!(bump.call(&mut world, ()), Ok(16));
    assert_eq!(bump.call(&mut world, ()), Ok(17));
    assert!(die.call(&mut world, ()).is_err());
    world.restart("a").unwrap();
    assert_eq!(world.domain("a").unwrap().last_fault(), None);
    assert_eq!(bump.call(&mut world, ()), Ok(16));
}

#[test]
fn segment_match_traps_are_named() {
    let check = "addr32 mov %rcx,%gs:__sfi_tcb+0xf30\nlea (%rdi),%rcx\naddr32 mov %rcx,%gs:__sfi_tcb+0xf40\nshr $32,%rcx\n\
        cmp %gs:__sfi_header+0x4,%ecx\nje 1f\nmovzbl %gs:__sfi_tcb+0xf44,%ecx\nmov %gs:__sfi_header+0x800(,%rcx,8),%rcx\nadd %gs:__sfi_tcb+0xf40,%rcx\n\
        shr $32,%rcx\nje 1f\nint3\n1: mov %gs:__sfi_tcb+0xf30,%rcx\nmovl $1,%gs:(%edi)\nret";
    let text = function("check", check) + &function("plain", "int3\nret");
    let mut world =
        World::builder().domain(DomainSpec::new("a").mode(Mode::Match).object("a.o", assemble(&text))).build().unwrap();
    for (name, kind) in [("check", FaultKind::SegmentMatch), ("plain", FaultKind::Breakpoint)] {
        let f: TypedFn<fn()> = world.domain("a").unwrap().export(name).unwrap();
        let Err(CallError::Fault(Fault { kind: found, .. })) = f.call(&mut world, ()) else { panic!("{name}") };
        assert_eq!(found, kind);
        world.restart("a").unwrap();
    }
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn hosts_own(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
    // Steps over the two bytes of the host's own ud2.
    // SAFETY: the kernel passes the interrupted context.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] += 2 };
}

/// Runs in its own process, because handlers belong to processes.
#[test]
fn what_is_not_ours_goes_to_the_previous_handler() {
    if std::env::var_os("SFI_TEST_CHILD").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["what_is_not_ours", "--nocapture", "--test-threads=1"])
            .env("SFI_TEST_CHILD", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    // SAFETY: a handler with the signature that SA_SIGINFO wants.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = hosts_own as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()), 0);
    }
    let mut world = World::builder()
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&(function("run", "call own\nret") + &function("bad", "ud2"))))
                .import("own", Import::host("own")),
        )
        .host_fn("own", |_| {
            // SAFETY: the handler steps over it.
            unsafe { std::arch::asm!("ud2") };
            Ok(3)
        })
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    let bad: TypedFn<fn()> = world.domain("a").unwrap().export("bad").unwrap();
    assert_eq!(run.call(&mut world, ()), Ok(3));
    assert_eq!(HANDLED.load(Ordering::SeqCst), 1);
    assert!(bad.call(&mut world, ()).is_err());
    assert_eq!(HANDLED.load(Ordering::SeqCst), 1);
    // SAFETY: the handler steps over it.
    unsafe { std::arch::asm!("ud2") };
    assert_eq!(HANDLED.load(Ordering::SeqCst), 2);
}

/// Without an earlier handler, the host's own fault still ends the process with its signal.
#[test]
fn the_hosts_own_fault_stays_fatal() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os("SFI_TEST_CHILD").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["the_hosts_own_fault", "--nocapture", "--test-threads=1"])
            .env("SFI_TEST_CHILD", "1")
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
        return;
    }
    let mut world = World::builder()
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&function("run", "call own\nret")))
                .import("own", Import::host("own")),
        )
        // SAFETY: there is none: the fault is the purpose of the test, in a process of its own.
        .host_fn("own", |_| Ok(unsafe { std::hint::black_box(16 as *const u64).read_volatile() }))
        .build()
        .unwrap();
    let run: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("run").unwrap();
    let _ = run.call(&mut world, ());
    unreachable!("the fault was swallowed");
}
