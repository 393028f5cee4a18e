//! Lanes under attack and under load.

mod common;
mod lane_domains;
use common::{function, kind};
use lane_domains::{Unary, alone, domain, lanes, two};
use sfi_loader::{Builder, Busy, CallError, DomainSpec, FaultKind, Import, LaneFn, Lanes, Restart, Status, World};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One lane ends the domain again and again, others enter it meanwhile. Each call ends, with its
/// result or with the end of the domain.
#[test]
fn ends_and_entries_race() {
    let _alone = alone();
    for spec in [domain("app", ""), domain("app", "").threads_exposing(3)] {
        let lanes = lanes(3, [spec.restart(Restart::Always).busy(Busy::Wait(Duration::from_secs(20)))]);
        let over = AtomicU64::new(0);
        let (added, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let (mut lane, add) = (lanes.enter().unwrap(), two("app", "add"));
                    while over.load(Ordering::Relaxed) == 0 {
                        match add.call(&mut lane, (20, 22)) {
                            Ok(42) => added.fetch_add(1, Ordering::Relaxed),
                            Err(CallError::Dead { .. }) => ended.fetch_add(1, Ordering::Relaxed),
                            other => panic!("{other:?}"),
                        };
                    }
                });
            }
            let (mut lane, fault) = (lanes.enter().unwrap(), LaneFn::<fn() -> u64>::new("app", "fault"));
            let _end = Over(&over);
            for i in 0..300 {
                assert!(matches!(kind(fault.call(&mut lane, ())), FaultKind::Memory(_)));
                // Now and then the others come in between for certain.
                let (before, until) = (added.load(Ordering::Relaxed), Instant::now() + Duration::from_secs(60));
                while i % 10 == 0 && added.load(Ordering::Relaxed) == before {
                    assert!(Instant::now() < until, "nobody enters the next life: {ended:?}");
                    std::thread::yield_now();
                }
            }
        });
        assert!(added.load(Ordering::Relaxed) >= 30, "{ended:?}");
    }
}

/// A caller changes memory of its domain while another caller of the domain crosses: the data
/// stack, the arguments on it, the thread locals. Nobody but the domain itself gets wrong values,
/// and nothing outside of it is hurt. The attacker writes at any time, and in `paused` surely
/// between the victim's last store and its call.
#[test]
fn one_caller_attacks_another() {
    let _alone = alone();
    let seven = "mov $1,%edi\nmov $2,%esi\nmov $3,%edx\nmov $4,%ecx\nmov $5,%r8d\nmov $6,%r9d
        lea -16(%r15),%r15
        movq $7,%gs:(%r15d)\n";
    let smash = "mov %esi,%ecx\nmov %rdx,%rax\nmov %edi,%edi\nadd %gs:__sfi_header,%rdi\nrep stosq\nret";
    // The victim says with a flag that its arguments are stored, and goes on at the other flag.
    let pause = "lea flags(%rip),%rax
        movl $1,%gs:128(%eax)
        2: cmpl $0,132(%rax)
        je 2b
        movl $0,%gs:132(%eax)\n";
    let smash_between = "mov %rdi,%rbx
        lea flags(%rip),%r8
        1: cmpl $0,128(%r8)
        je 1b
        movl $0,%gs:128(%r8d)
        mov %esi,%ecx
        mov %rdx,%rax
        mov %edi,%edi
        add %gs:__sfi_header,%rdi
        rep stosq
        movl $1,%gs:132(%r8d)
        mov %rbx,%rax
        ret";
    let steal = format!("mov %r15,%rbx\nmov %rdi,%r15\nlea 16(%r15),%r15\n{seven}call far\nmov %rbx,%r15\nret");
    let text = function("seven", &format!("{seven}call far\nlea 16(%r15),%r15\nret"))
        + &function("eight", &format!("{seven}call told\nlea 16(%r15),%r15\nret"))
        + &function("paused", &format!("{seven}{pause}call far\nlea 16(%r15),%r15\nret"))
        + &function("smash", smash)
        + &function("smash_between", smash_between)
        + &function("steal", &steal)
        + &function("stack", "mov %r15,%rax\nret");
    let signature = "(int, int, int, int, int, int, int) -> int";
    let sum = "lea (%rdi,%rsi),%rax\nadd %rdx,%rax\nadd %rcx,%rax\nadd %r8,%rax\nadd %r9,%rax\nadd (%r15),%rax\nret";
    let front = domain("front", &text)
        .threads_exposing(2)
        .restart(Restart::Always)
        .import("far", Import::domain("back", "sum").signature(signature))
        .import("told", Import::host("told").signature(signature));
    let lanes = World::builder()
        .domain(front)
        .domain(domain("back", &function("sum", sum)).threads_exposing(2))
        .shared_fn("told", |cx| {
            assert_eq!((0..6).map(|i| cx.arg(i)).sum::<u64>(), 21, "registers are the caller's own");
            let (first, second) = (cx.arg(6), cx.arg(6));
            assert_eq!(first, second, "an argument is read once");
            Ok(first.wrapping_add(21))
        })
        .lanes(2)
        .unwrap();
    let (mut victim, mut attacker) = (lanes.enter().unwrap(), lanes.enter().unwrap());
    let stack: LaneFn<fn() -> u64> = LaneFn::new("front", "stack");
    let pointer: LaneFn<fn() -> u64> = LaneFn::new("front", "pointer");
    let (sp, locals) = (stack.call(&mut victim, ()).unwrap(), pointer.call(&mut victim, ()).unwrap());
    let steal: Unary = LaneFn::new("front", "steal");
    let error: LaneFn<fn() -> u64> = LaneFn::new("front", "error");
    assert_eq!(steal.call(&mut attacker, (sp - 4096,)), Ok(u64::MAX), "another caller's stack");
    assert_eq!(error.call(&mut attacker, ()), Ok(Status::Arguments as u64));
    let over = AtomicU64::new(0);
    let values = [7, u64::MAX, 0, 1 << 40];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let smash: LaneFn<fn(u64, u64, u64) -> u64> = LaneFn::new("front", "smash");
            for i in 0usize.. {
                if over.load(Ordering::Relaxed) != 0 {
                    break;
                }
                let at = if i.is_multiple_of(3) { locals } else { sp - 2048 };
                match smash.call(&mut attacker, (at, 256, values[i % 4])) {
                    Ok(_) | Err(CallError::Dead { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
        for i in 0..20_000 {
            let name = ["seven", "eight"][i % 2];
            let sum = LaneFn::<fn() -> u64>::new("front", name).call(&mut victim, ()).unwrap();
            assert!(values.iter().any(|value| value.wrapping_add(21) == sum), "{sum:#x}");
        }
        over.store(1, Ordering::Relaxed);
    });
    for value in values {
        std::thread::scope(|scope| {
            let smash: LaneFn<fn(u64, u64, u64) -> u64> = LaneFn::new("front", "smash_between");
            let attacker = &mut attacker;
            let attack = scope.spawn(move || smash.call(attacker, (sp - 2048, 256, value)).unwrap());
            let paused: LaneFn<fn() -> u64> = LaneFn::new("front", "paused");
            assert_eq!(paused.call(&mut victim, ()), Ok(value.wrapping_add(21)), "the attack came in between");
            attack.join().unwrap();
        });
    }
    assert_eq!(two("back", "add").call(&mut victim, (1, 2)), Ok(3));
}

/// Signals of the host that were handled in the stress.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn signalled(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Returns a number of the environment.
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Sends signals to some threads of this process in turn until `over` is set.
fn disturb(threads: &[AtomicU64], over: &AtomicU64) {
    let handler: extern "C" fn(libc::c_int) = signalled;
    // SAFETY: the handler only counts. It runs on the alternate stack, as the loader asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    while over.load(Ordering::Relaxed) == 0 {
        for thread in threads.iter().map(|thread| thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0) {
            // SAFETY: a system call without pointers. A thread that ended gets nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Sets a word when it is dropped, also by a panic.
struct Over<'o>(&'o AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// Loads the domains again in turn until `over` is set, at least one. Returns the number of them.
fn replace(lanes: &Lanes, specs: &[DomainSpec], over: &AtomicU64) -> u64 {
    let mut count = 0;
    for spec in specs.iter().cycle() {
        lanes.reload(spec.clone(), Duration::from_secs(60)).unwrap();
        count += 1;
        if over.load(Ordering::Relaxed) != 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    count
}

/// Windows of the process, and its open files.
fn held(lanes: &Lanes) -> [u64; 2] {
    let lane = lanes.enter().unwrap();
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    [lane.domain("d0").unwrap().placement().live, files]
}

/// Eight threads, a ring of many domains that call each other, faults, endless loops, restarts,
/// reloads, and signals of the host to all threads. No window and no file is left over.
#[test]
fn stress() {
    let domains = asked("SFI_STRESS_DOMAINS", 24);
    const FAIL: u64 = -5i64 as u64;
    let _alone = alone();
    let ring =
        "test %rdi,%rdi\njz 1f\ndec %rdi\ncall next\ncmp $-5,%rax\nje 2f\ninc %rax\n2: ret\n1: lea 1(%rsi),%rax\nret";
    let text = function("ring", ring);
    let name = move |i: u64| format!("d{}", i % domains);
    let spec = |i: u64| {
        let next = Import::domain(name(i + 1), "ring").signature("(int, int) -> int").on_fault(FAIL as i64);
        let spec = domain(&name(i), &text).import("next", next).restart(Restart::Always);
        let spec = spec.busy(Busy::Wait(Duration::from_millis(20)));
        if i.is_multiple_of(3) { spec.threads_exposing(1 + i as usize % 5) } else { spec }
    };
    let specs: Vec<DomainSpec> = (0..domains).map(spec).collect();
    let all = specs.iter().cloned().fold(World::builder(), Builder::domain);
    let lanes = all.time_limit(Duration::from_millis(40)).lanes(8).unwrap();
    let (calls, seed) = (asked("SFI_STRESS_CALLS", 3_000), asked("SFI_STRESS_SEED", 1));
    let counts = [const { AtomicU64::new(0) }; 6];
    let before = held(&lanes);
    let (threads, over) = ([const { AtomicU64::new(0) }; 8], AtomicU64::new(0));
    std::thread::scope(|disturbance| {
        disturbance.spawn(|| disturb(&threads, &over));
        let reloads = disturbance.spawn(|| replace(&lanes, &specs, &over));
        let end = Over(&over);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (lanes, counts, name, threads) = (&lanes, &counts, &name, &threads);
                scope.spawn(move || {
                    // SAFETY: a system call without arguments.
                    threads[thread as usize]
                        .store(unsafe { libc::syscall(libc::SYS_gettid) } as u64, Ordering::Relaxed);
                    let rings: Vec<_> = (0..domains).map(|i| two(&name(i), "ring")).collect();
                    let mut random = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed * 8 + thread + 1);
                    for _ in 0..calls {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let (at, depth, what) = ((random >> 56) % domains, random >> 33 & 7, random >> 44 & 1023);
                        let mut lane = lanes.enter().unwrap();
                        let result = match what {
                            0..8 => LaneFn::<fn() -> u64>::new(name(at), "fault").call(&mut lane, ()),
                            8 => Unary::new(name(at), "spin").call(&mut lane, (0,)),
                            _ => rings[at as usize].call(&mut lane, (depth, 100)),
                        };
                        let count = match result {
                            Ok(FAIL) => 1,
                            Ok(sum) => {
                                assert_eq!(sum, 101 + depth);
                                0
                            }
                            Err(CallError::Fault(_)) => 2,
                            Err(CallError::Dead { .. }) => 3,
                            Err(CallError::Occupied { .. }) => 4,
                            Err(CallError::Deadlock { .. }) => 5,
                            Err(error) => panic!("{error:?}"),
                        };
                        counts[count].fetch_add(1, Ordering::Relaxed);
                    }
                    threads[thread as usize].store(0, Ordering::Relaxed);
                });
            }
        });
        drop(end);
        println!("reloads: {}", reloads.join().unwrap());
    });
    println!("good, failed, faults, ended, occupied, deadlocks: {counts:?}, signals: {SIGNALS:?}");
    assert!(SIGNALS.load(Ordering::Relaxed) > 0, "no signal came in between");
    assert!(counts[0].load(Ordering::Relaxed) > calls, "most calls are good");
    assert_eq!(held(&lanes), before, "windows and files");
    // All E-stacks came back: each domain can be entered by as many lanes as it has E-stacks.
    let mut all = [0; 8].map(|_| lanes.enter().unwrap());
    for i in 0..domains {
        for lane in &mut all {
            let sum = two(&name(i), "ring").call(lane, (0, 1));
            assert!(matches!(sum, Ok(2)), "{sum:?}");
        }
    }
}
