//! Interruptions of a thread at every instruction that its domain executes. The thread goes on as
//! if nothing had happened.
//!
//! The processor traps after each instruction between two breakpoints. The handler of these traps
//! wants an interruption and sends the signal that delivers it. The signal arrives when the handler
//! has returned, before the next instruction.

mod common;
use common::{CALL_RAX, assemble, function};
use libc::{REG_EFL, c_int, c_void, siginfo_t, ucontext_t};
use sfi_loader::{
    Builder, CallError, DomainSpec, FaultKind, HostCall, HostError, Import, Manage, Stopper, TypedFn, World,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The signal of interruptions.
const SIGNAL: c_int = libc::SIGURG;
/// The trap flag.
const TRAP: i64 = 0x100;

/// Held by each test, because the handler belongs to the whole process.
static ALONE: Mutex<()> = Mutex::new(());
static STOPPER: Mutex<Option<Stopper>> = Mutex::new(None);
static STEPS: AtomicU64 = AtomicU64::new(0);
static STEPPING: AtomicBool = AtomicBool::new(false);
/// Says whether breakpoints begin steps, or mean nothing.
static ARMED: AtomicBool = AtomicBool::new(false);

/// Handles breakpoints and steps. A domain's thread that traps holds no lock.
extern "C" fn on_trap(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers.
    let (code, flags) = unsafe {
        let machine = &mut *context.cast::<ucontext_t>();
        ((*info).si_code, &mut machine.uc_mcontext.gregs[REG_EFL as usize])
    };
    if code == libc::TRAP_TRACE {
        STEPS.fetch_add(1, Ordering::SeqCst);
        STOPPER.lock().unwrap().as_ref().unwrap().interrupt();
        // SAFETY: a system call without pointers. The signal is blocked until this returns.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), SIGNAL) };
    } else if ARMED.load(Ordering::SeqCst) {
        let steps = !STEPPING.fetch_xor(true, Ordering::SeqCst);
        *flags = if steps { *flags | TRAP } else { *flags & !TRAP };
    }
}

/// Installs the handler in place of the loader's.
fn take_traps() {
    static TAKEN: OnceLock<()> = OnceLock::new();
    TAKEN.get_or_init(|| {
        // SAFETY: the handler is async-signal-safe as far as domains are interrupted, which run
        // without locks.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaddset(&mut action.sa_mask, SIGNAL);
            assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
        }
    });
}

/// `go(buffer)` works with all kinds of registers and of unsafe regions between two breakpoints.
/// It stores what it has at the end: 16 general registers, flags, two words of the stack, and the
/// state of the floating-point units.
fn body() -> String {
    let mut text = String::from("mov %rdi,%gs:kept(%eip)\nmov $0,%edi\ncall host\nmov kept(%rip),%rdi\nint3\n");
    // The words of the red zone and of the lead.
    text += "lea -16(%r15),%r15\nmov %rdi,%gs:(%r15d)\nmovq $7,%gs:-8(%r15d)\nmovq $9,%gs:-2296(%r15d)\n";
    // Scratch words of the TCB page, and the home of r15.
    text += "addr32 movq $11,%gs:__sfi_tcb+0xf00\naddr32 movq $12,%gs:__sfi_tcb+0xf10\naddr32 movq $13,%gs:__sfi_tcb+0xf88\n";
    text += "fldpi\nfld1\nfaddp\nmovl $0x7f80,%gs:-24(%r15d)\nldmxcsr -24(%r15)\n";
    text += "mov $3,%eax\ncvtsi2sd %eax,%xmm0\nmov $7,%ecx\ncvtsi2sd %ecx,%xmm15\ndivsd %xmm15,%xmm0\n";
    // A string store, which is also interrupted within.
    text += "mov $0x5a,%eax\nmov $20,%ecx\nlea 512(%rdi),%rdi\n\
             mov %edi,%edi\nadd %gs:__sfi_header,%rdi\nrep stosb\nmov (%r15),%rdi\n";
    for (i, register) in ["rbx", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "rsi", "rdx"].iter().enumerate()
    {
        text += &format!("mov ${},%{register}\n", 1000 + i);
    }
    // Chains of the carry flag, with an indirect call between.
    text += &format!("lea callee(%rip),%rax\n{CALL_RAX}xor %ecx,%ecx\nmov $-1,%rax\nadd $1,%rax\nadc $0,%rcx\n");
    text += "sub $1,%rax\nsbb $5,%rcx\nlahf\nseto %al\n";
    // Saved registers, with a call between.
    text += "push %rcx\npush %r12\npush %rax\nxor %ecx,%ecx\ncall callee\npop %rax\nxor %r12d,%r12d\npop %r12\npop %rcx\nint3\n";
    for (i, register) in
        ["rax", "rbx", "rcx", "rdx", "rsi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]
            .iter()
            .enumerate()
    {
        text += &format!("mov %{register},%gs:{}(%edi)\n", 8 * i);
    }
    text += "movups %xmm0,%gs:128(%edi)\nmovups %xmm15,%gs:144(%edi)\nstmxcsr %gs:160(%edi)\nfstpl %gs:168(%edi)\n";
    text += "fnstcw %gs:176(%edi)\nmov -8(%r15),%rax\nmov %rax,%gs:184(%edi)\nmov -2296(%r15),%rax\n\
             mov %rax,%gs:192(%edi)\n";
    for (i, place) in ["0xf00", "0xf10", "0xf88"].iter().enumerate() {
        text += &format!("mov %gs:__sfi_tcb+{place},%rax\nmov %rax,%gs:{}(%edi)\n", 200 + 8 * i);
    }
    if std::arch::is_x86_feature_detected!("avx") {
        text += "vmovups %ymm3,%gs:224(%edi)\n";
    }
    text + "lea 16(%r15),%r15\nmovl $0x1f80,%gs:-24(%r15d)\nldmxcsr -24(%r15)\nret"
}

/// `entry()` notes what its registers hold, and then overwrites all that it can reach.
fn entry() -> String {
    const REGISTERS: [&str; 14] =
        ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14"];
    let mut text = String::new();
    for register in REGISTERS {
        text += &format!("or %{register},%rax\n");
    }
    text += "movq %xmm0,%rcx\nor %rcx,%rax\nmovq %xmm15,%rcx\nor %rcx,%rax\n";
    text += "lea found(%rip),%rcx\nor %rax,%gs:(%ecx)\nlea count(%rip),%rcx\nincq %gs:(%ecx)\n";
    text += "stmxcsr %gs:-8(%r15d)\nmov -8(%r15),%eax\nlea mxcsr(%rip),%rcx\nor %eax,%gs:(%ecx)\n";
    // A crossing, as the support code makes one.
    text += "lea -64(%r15),%r15\nmov $1,%edi\ncall host\nlea 64(%r15),%r15\n";
    for place in (0xf00..0xf90).step_by(8) {
        text += &format!("addr32 movq $-1,%gs:__sfi_tcb+{place}\n");
    }
    for below in (8..128).step_by(8) {
        text += &format!("movq $-1,%gs:-{below}(%r15d)\n");
    }
    text += "fninit\nfldz\nfldz\nmovl $0x3f80,%gs:-8(%r15d)\nldmxcsr -8(%r15)\n";
    for register in 0..16 {
        text += &format!("pcmpeqd %xmm{register},%xmm{register}\n");
    }
    if std::arch::is_x86_feature_detected!("avx") {
        text += "vxorps %ymm3,%ymm3,%ymm3\nvcmptrueps %ymm3,%ymm3,%ymm3\n";
    }
    for register in REGISTERS {
        text += &format!("mov $-1,%{register}\n");
    }
    text + "add $1,%rax\nret"
}

fn spec() -> DomainSpec {
    single().threads_exposing(2)
}

/// The domain without further threads.
fn single() -> DomainSpec {
    let mut text = function("go", &body()) + &function("entry", &entry());
    text += &function("callee", "lea 1(%rbx),%rbx\nret");
    text += &function("counted", "lea count(%rip),%rcx\nmov (%rcx),%rax\nret");
    text += &function("entered", "mov found(%rip),%rax\nret");
    text += &function("control", "mov mxcsr(%rip),%eax\nret");
    // A function that is wrongly thought to return: it leaves by the trap.
    text +=
        &function("trapped", "mov $0,%edi\ncall host\nxor %eax,%eax\nand $0xffff8,%eax\njmp *%gs:__sfi_dispatch(%eax)");
    text += &others();
    text += ".data\n.balign 16\nkept: .quad 0\ncount: .quad 0\nfound: .quad 0\nmxcsr: .quad 0\nflag: .quad 0\n";
    let import = Import::host("host").signature("(int) -> int");
    DomainSpec::new("app").object("app.o", assemble(&text)).import("host", import).memory(1 << 20)
}

/// A jump to the trap, which the last slots of the table's page hold.
const TO_TRAP: &str = "lea after(%rip),%rax\nor $0xff8,%eax\nand $0xffff8,%eax\njmp *%gs:__sfi_dispatch(%eax)";

/// Entries that do not simply return, and the functions that wait for them: `flood` until eleven
/// interruptions were there, the others until `flag` is set.
fn others() -> String {
    let waits =
        |way: u32| format!("mov ${way},%edi\ncall host\n1: pause\nmov flag(%rip),%eax\ntest %eax,%eax\nje 1b\nret");
    let set = "lea flag(%rip),%rcx\nmovl $5,%gs:(%ecx)\n";
    let cut = |to: &str| format!("mov $0,%edi\nlea {to}(%rip),%rsi\ncall __sfi_cut\nud2");
    let flood = "mov $3,%edi\ncall host\n1: pause\nmov count(%rip),%rax\ncmp $11,%rax\njb 1b\nret";
    let flooded = "lea -64(%r15),%r15\nmov $2,%edi\ncall host\nlea count(%rip),%rcx\nincq %gs:(%ecx)\n\
                   lea 64(%r15),%r15\nret";
    function("flood", flood)
        + &function("flooded", flooded)
        + &function("waits", &waits(4))
        + &function("waits_too", &waits(5))
        + &function("leaves", &cut("after"))
        + &function("leaves_too", &cut("calls_after"))
        + &function("waits_far", FAR)
        + &function("sets", &(set.to_owned() + "ret"))
        + &function("after", &(set.to_owned() + TO_TRAP))
        + &function("calls_after", "call after\nret")
        + &function("stays", "mov $7,%edi\ncall host\n1: pause\nmov flag(%rip),%eax\ntest %eax,%eax\nje 1b\nret")
        + &function("goes", &cut("gone"))
        + &function("gone", "mov $1,%eax\nret")
        + &function("forges", &format!("{set}jmp to_trap"))
        + &function("to_trap", TO_TRAP)
}

/// Waits with the least data stack pointer of all.
const FAR: &str = "mov $6,%edi\ncall host\nmov %r15,%rbx\nmovabs $0x8000000000000000,%r15\n\
                   1: pause\nmov flag(%rip),%eax\ntest %eax,%eax\nje 1b\nmov %rbx,%r15\nret";

/// Returns the world, and the number of calls that interruptions made.
fn world(spec: DomainSpec) -> (World, Arc<AtomicU64>) {
    build(World::builder().timed().domain(spec))
}

/// Builds a world as [`world`] does.
fn build(builder: Builder) -> (World, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let builder = builder.host_fn("host", move |cx| {
        if let 1 | 2 = cx.arg(0) {
            let calls = counted.fetch_add(1, Ordering::SeqCst) + 1;
            cx.want_interruption(cx.arg(0) == 2 && calls <= 10);
            return Ok(0);
        }
        *STOPPER.lock().unwrap() = cx.stopper();
        let entry = ["entry", "", "", "flooded", "leaves", "leaves_too", "sets", "goes"][cx.arg(0) as usize];
        cx.want_interruption(cx.arg(0) != 0);
        Ok(cx.allow_interruptions(entry).into())
    });
    let world = builder.build().unwrap();
    take_traps();
    (world, calls)
}

fn call(world: &mut World, name: &str, argument: u64) -> Result<u64, CallError> {
    let function: TypedFn<fn(u64) -> u64> = world.domain("app").unwrap().export(name).unwrap();
    function.call(world, (argument,))
}

#[test]
fn code_goes_on_after_an_interruption_at_any_instruction() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for spec in [spec(), single()] {
        goes_on(spec);
    }
}

fn goes_on(spec: DomainSpec) {
    let (mut world, calls) = world(spec);
    let before = STEPS.load(Ordering::SeqCst);
    let heap = world.memory("app").unwrap().heap().start;
    let mut results = Vec::new();
    for armed in [false, true] {
        ARMED.store(armed, Ordering::SeqCst);
        call(&mut world, "go", heap).unwrap();
        results.push(world.memory("app").unwrap().read(heap, 600).unwrap());
    }
    ARMED.store(false, Ordering::SeqCst);
    let steps = STEPS.load(Ordering::SeqCst) - before;
    // The work has more than 40 instructions, and each byte of the string store is one step.
    assert!(steps > 60, "{steps}");
    assert_eq!(call(&mut world, "counted", 0).unwrap(), steps);
    assert_eq!(calls.load(Ordering::SeqCst), steps);
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0][512..534], [[0x5a; 20].as_slice(), &[0; 2]].concat());
    assert_eq!(call(&mut world, "entered", 0).unwrap(), 0, "registers of the interrupted code were seen");
    assert_eq!(call(&mut world, "control", 0).unwrap(), 0x1f80);
}

/// The trap is a fault as ever where no interruption returns.
#[test]
fn the_trap_without_an_interruption_ends_the_domain() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut world, _) = world(spec());
    let Err(CallError::Fault(fault)) = call(&mut world, "trapped", 0) else { panic!("no fault") };
    assert_eq!(fault.kind, FaultKind::WildBranch);
}

/// Each interruption wants one more before it returns. Those that find too many in progress come
/// later.
#[test]
fn interruptions_nest_and_wait() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut world, calls) = world(spec());
    assert_eq!(call(&mut world, "flood", 0).unwrap(), 11);
    assert_eq!(calls.load(Ordering::SeqCst), 11);
}

/// A domain that leaves its interruption by a jump and then takes the way of its return goes on in
/// its own code, with its own registers. Elsewhere on the control stack this is a fault.
#[test]
fn a_forged_return_leads_to_the_domain_itself() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut first, _) = world(spec());
    assert_eq!(call(&mut first, "waits", 0).unwrap(), 5);
    let (mut second, _) = world(spec());
    let Err(CallError::Fault(fault)) = call(&mut second, "waits_too", 0) else { panic!("no fault") };
    assert_eq!(fault.kind, FaultKind::WildBranch);
}

/// The handler's frame begins below r15, which may hold any value.
#[test]
fn the_data_stack_pointer_may_be_anything() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut world, _) = world(spec());
    assert_eq!(call(&mut world, "waits_far", 0).unwrap(), 5);
}

/// Sets the control word of x87, and returns the one from before.
fn set_control_word(word: u16) -> u16 {
    let mut before = 0_u16;
    // SAFETY: both words live during the instructions. The compiler's code does not use x87 here.
    unsafe { std::arch::asm!("fnstcw [{}]", "fldcw [{}]", in(reg) &raw mut before, in(reg) &raw const word) };
    before
}

/// Code that names no x87 changes none of the host's: neither if it leaves its interruption by a
/// jump, nor if it takes the way back in a later call, when the host has another control word.
#[test]
fn the_hosts_x87_stays_as_it_is() {
    const HOST: u16 = 0x27f;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = function("waits", "mov $4,%edi\ncall host\n1: pause\njmp 1b");
    text += &function("leaves", "mov $0,%edi\nlea after(%rip),%rsi\ncall __sfi_cut\nud2");
    text += &function("after", "mov $1,%eax\nret");
    // The first call was interrupted where its second instruction was, in this frame's place.
    text += &function("forges", "lea flag(%rip),%rcx\nmovl $5,%gs:(%ecx)\njmp to_trap");
    text += &function("to_trap", TO_TRAP);
    text += &function("waits_too", "mov $4,%edi\ncall host\n1: pause\nmov flag(%rip),%eax\ntest %eax,%eax\nje 1b\nret");
    text += ".data\nflag: .quad 0\n";
    let import = Import::host("host").signature("(int) -> int");
    let spec = DomainSpec::new("app").object("app.o", assemble(&text)).import("host", import).threads_exposing(2);
    let (mut world, _) = world(spec);
    let before = set_control_word(HOST);
    let left = call(&mut world, "waits", 0);
    let after = set_control_word(before);
    assert_eq!((left.unwrap(), after), (1, HOST));
    assert_eq!(call(&mut world, "waits_too", 0).unwrap(), 1);
    let before = set_control_word(HOST);
    let forged = call(&mut world, "forges", 0);
    let after = set_control_word(before);
    assert_eq!((forged.unwrap(), after), (5, HOST));
}

/// The control word of x87 and MXCSR that the host has in [`ways_out`].
const HOST: (u16, u32) = (0x27f, 0x9fc0);

/// Sets both control words, and returns those from before.
fn set_controls((word, mxcsr): (u16, u32)) -> (u16, u32) {
    let mut before = 0_u32;
    // SAFETY: both words live during the instructions. All exceptions stay masked.
    unsafe { std::arch::asm!("stmxcsr [{}]", "ldmxcsr [{}]", in(reg) &raw mut before, in(reg) &raw const mxcsr) };
    // The flags are nobody's.
    (set_control_word(word), before & !0x3f)
}

/// Code that unmasks all exceptions of x87 and SSE and leaves one of x87 pending, or that names
/// nothing of them.
const MESSES: [&str; 3] = [
    "",
    "movw $0x40,%gs:-8(%r15d)\nfldcw -8(%r15)\nfld1\nfldz\nfdivrp\n",
    "movl $0x2000,%gs:-8(%r15d)\nldmxcsr -8(%r15)\n",
];

/// Ways out of an interruption: the handler's code, and whether the call returns afterwards.
const WAYS: [(&str, bool); 8] = [
    ("ret", true),
    ("mov $0,%edi\nlea after(%rip),%rsi\ncall __sfi_cut\nud2", true),
    ("mov $0,%edi\nlea forges(%rip),%rsi\ncall __sfi_cut\nud2", true),
    ("ud2", false),
    ("mov (0),%eax\nret", false),
    ("mov $7,%edi\ncall host\n1: jmp 1b", false),
    ("mov $5,%edi\ncall host\nret", false),
    ("mov $6,%edi\ncall host\nret", false),
];

/// Leaves an interruption in one way. Returns whether the call returned, and the control words of
/// the host during and after it.
fn ways_out(mess: &str, inner: &str, way: &str) -> (bool, Vec<(u16, u32)>) {
    let mut text = function(
        "go",
        &format!("mov $4,%edi\ncall host\n{mess}1: pause\nmov flag(%rip),%eax\ntest %eax,%eax\nje 1b\nret"),
    );
    let set = "lea flag(%rip),%rcx\nmovl $5,%gs:(%ecx)\n";
    text += &function(
        "entry",
        &format!("{set}{inner}lea -64(%r15),%r15\nmov $0,%edi\ncall host\nlea 64(%r15),%r15\n{inner}{way}"),
    );
    text += &function("after", "mov $5,%eax\nret");
    text += &function("forges", TO_TRAP);
    text += ".data\nflag: .quad 0\n";
    let import = Import::host("host").signature("(int) -> int");
    let spec = DomainSpec::new("app").object("app.o", assemble(&text)).import("host", import).threads_exposing(2);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let host = move |cx: &mut HostCall<'_>| {
        noted.lock().unwrap_or_else(PoisonError::into_inner).push(set_controls(HOST));
        match cx.arg(0) {
            4 => {
                let allowed = cx.allow_interruptions("entry");
                cx.want_interruption(allowed);
            }
            5 => std::panic::panic_any(5_u8),
            6 => return Err(HostError::end_caller(6)),
            // The end comes while the handler runs.
            7 => {
                let stopper = cx.stopper().unwrap();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(10));
                    stopper.stop();
                });
            }
            _ => {}
        }
        Ok(0)
    };
    let builder = World::builder().domain(spec).time_limit(Duration::from_secs(60)).host_fn("host", host);
    let mut world = builder.build().unwrap();
    let go: TypedFn<fn()> = world.domain("app").unwrap().export("go").unwrap();
    let before = set_controls(HOST);
    let result = catch_unwind(AssertUnwindSafe(|| go.call(&mut world, ())));
    let after = set_controls(before);
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    seen.push(after);
    (matches!(result, Ok(Ok(()))), seen)
}

/// In whatever way an interruption ends, the host's control words are its own, and the domain
/// leaves no exception pending.
#[test]
fn the_host_is_as_before_in_each_way_out() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for mess in MESSES {
        for inner in MESSES {
            for (way, returns) in WAYS {
                // Text without x87 shows that nothing of it changes.
                let (returned, seen) = ways_out(mess, inner, way);
                assert_eq!(seen, vec![HOST; seen.len()], "{mess:?} {inner:?} {way:?}");
                assert_eq!((returned, seen.len() >= 3), (returns, true), "{mess:?} {inner:?} {way:?}");
            }
        }
    }
}

/// An interruption that is wanted and not allowed changes nothing. Domains are alone, and the
/// watchdog looks at their worlds.
#[test]
fn only_domains_that_are_alone_are_interrupted() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let ask = |name: &str| {
        let text = function("ask", "mov $0,%edi\ncall host\nret") + &function(name, "ret");
        let import = Import::host("host").signature("(int) -> int");
        DomainSpec::new("app").object("app.o", assemble(&text)).import("host", import)
    };
    let allowed = |builder: Builder| call(&mut build(builder).0, "ask", 0).unwrap();
    let plain = World::builder;
    assert_eq!(allowed(plain().domain(ask("entry").threads_exposing(2))), 1);
    assert_eq!(allowed(plain().domain(ask("other").threads_exposing(2))), 0);
    assert_eq!(allowed(plain().timed().domain(ask("entry"))), 1);
    assert_eq!(allowed(plain().timed().domain(ask("other"))), 0);
    assert_eq!(allowed(plain().domain(ask("entry"))), 0);
    assert_eq!(allowed(plain().interruptible().domain(ask("entry"))), 0);
    assert_eq!(allowed(plain().timed().domain(ask("entry")).domain(DomainSpec::new("other"))), 0);
    let (mut world, _) = build(plain().timed().domain(ask("entry")));
    world.instantiate("app").unwrap();
    assert_eq!(call(&mut world, "ask", 0).unwrap(), 0);
}

/// A domain that lives again, at its place or at another one, has no interruption of its last life.
/// It can be interrupted again.
#[test]
fn a_new_life_has_no_interruptions_of_the_last_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lives: [fn(&mut World); 3] =
        [|_| {}, |world| world.restart("app").unwrap(), |world| world.reload(single()).unwrap()];
    for (number, again) in lives.into_iter().enumerate() {
        let (mut world, _) = world(single());
        // The interruption does not return: its record stays, with the stack pointer that
        // `forges` has at the trap.
        assert_eq!(call(&mut world, "stays", 0).unwrap(), 1);
        again(&mut world);
        let forged = call(&mut world, "forges", 0);
        if number == 0 {
            assert_eq!(forged.unwrap(), 5, "the old state goes on in its own life");
            continue;
        }
        let Err(CallError::Fault(fault)) = forged else { panic!("{forged:?}") };
        assert_eq!(fault.kind, FaultKind::WildBranch);
        world.restart("app").unwrap();
        assert_eq!(call(&mut world, "flood", 0).unwrap(), 11);
    }
}
