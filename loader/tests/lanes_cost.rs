//! The price of doors, counted in instructions. The count does not depend on the machine's load:
//! each instruction of the calls raises a trap.

mod common;
mod lane_domains;
use common::{function, maps};
use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, OpKind};
use lane_domains::{Unary, alone, domain, two};
use sfi_loader::{Import, LaneFn, TypedFn, World};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Room for the places of instructions.
const MOST: usize = 1 << 17;
/// The places of the instructions that ran.
static PLACES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The processor's flag that makes each instruction raise a trap.
const TRAP_FLAG: i64 = 1 << 8;

/// Turns the trap flag on or off if the signal was sent, and notes a place if it is a trap.
extern "C" fn stepped(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes both, and nobody else uses them.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        if (*info).si_code <= 0 {
            registers[libc::REG_EFL as usize] ^= TRAP_FLAG;
        } else {
            let place = PLACES.get(COUNT.fetch_add(1, Ordering::Relaxed));
            place.inspect(|place| place.store(registers[libc::REG_RIP as usize] as u64, Ordering::Relaxed));
        }
    }
}

/// Returns the places of the instructions that a call runs, the handlers' own left out.
#[inline(never)]
fn steps(call: &mut dyn FnMut(u64), rounds: u64) -> Vec<u64> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = stepped;
    COUNT.store(0, Ordering::Relaxed);
    // SAFETY: the handler changes flags and counts. It runs on the alternate stack. The loader's
    // handler of the same signal is put back.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, &mut before), 0);
        libc::raise(libc::SIGTRAP);
        call(rounds);
        libc::raise(libc::SIGTRAP);
        assert_eq!(libc::sigaction(libc::SIGTRAP, &before, std::ptr::null_mut()), 0);
    }
    let count = COUNT.load(Ordering::Relaxed);
    assert!(count < MOST, "{count} instructions");
    PLACES[..count].iter().map(|place| place.load(Ordering::Relaxed)).collect()
}

/// Returns the number of instructions of one round of a loop: those of 60 rounds less than those
/// of 20. Each place so counts that ran in all rounds.
fn round(mut call: impl FnMut(u64)) -> HashMap<u64, i64> {
    call(1);
    let mut all: HashMap<u64, i64> = HashMap::new();
    for (rounds, sign) in [(60, 1), (20, -1)] {
        steps(&mut call, rounds).into_iter().for_each(|place| *all.entry(place).or_default() += sign);
    }
    all.retain(|_, count| *count != 0);
    assert!(!all.is_empty() && all.values().all(|count| *count == 40), "the same instructions in every round: {all:?}");
    all
}

/// Says whether an instruction waits for other processors or enters the kernel.
fn is_slow(place: u64) -> bool {
    let line = maps().into_iter().find_map(|line| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        (from..to).contains(&place).then(|| to - place)
    });
    let length = line.expect("text is mapped").min(15) as usize;
    // SAFETY: the bytes are mapped, and ran, so nobody writes them.
    let bytes = unsafe { std::slice::from_raw_parts(place as *const u8, length) };
    let instruction = Decoder::with_ip(64, bytes, place, DecoderOptions::NONE).decode();
    assert!(instruction.code() != Code::INVALID);
    let memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    let fences = [Mnemonic::Syscall, Mnemonic::Mfence, Mnemonic::Sfence, Mnemonic::Lfence, Mnemonic::Cpuid];
    instruction.has_lock_prefix()
        || instruction.mnemonic() == Mnemonic::Xchg && memory
        || fences.contains(&instruction.mnemonic())
}

/// A call between domains of a lane by open doors takes 14 instructions more than one of a world
/// that one thread enters: seven for the way in, seven for the way out. None of them waits for
/// other processors. The number of E-stacks does not matter.
#[test]
fn doors_are_cheap() {
    let _alone = alone();
    let text = function("run", "mov %rdi,%rbx\n1: call far\ndec %rbx\njnz 1b\nret");
    let builder = |several: bool| {
        let back = domain("back", &function("null", "xor %eax,%eax\nret"));
        let front = domain("front", &text).import("far", Import::domain("back", "null").signature("() -> int"));
        World::builder().domain(front).domain(if several { back.threads_exposing(2) } else { back })
    };
    let mut world = builder(false).build().unwrap();
    let plain: TypedFn<fn(u64) -> u64> = world.domain("front").unwrap().export("run").unwrap();
    let plain = round(|rounds| _ = plain.call(&mut world, (rounds,)).unwrap());
    assert_eq!(plain.keys().filter(|place| is_slow(**place)).count(), 0, "without lanes");
    for several in [false, true] {
        let lanes = builder(several).lanes(2).unwrap();
        let run: Unary = LaneFn::new("front", "run");
        let mut lane = lanes.enter().unwrap();
        let steps = round(|rounds| _ = run.call(&mut lane, (rounds,)).unwrap());
        assert_eq!(steps.keys().filter(|place| is_slow(**place)).count(), 0, "several E-stacks: {several}");
        let more = steps.len() as i64 - plain.len() as i64;
        println!("{} instructions in a round, {more} of them for doors", steps.len());
        assert_eq!(more, 14, "instructions for doors");
    }
}

/// A lane that is in a domain, wherever it is, holds up no lane in another domain.
#[test]
fn lanes_in_different_domains_do_not_wait() {
    let _alone = alone();
    let (inside, seen) = channel();
    let (go, wait) = channel::<()>();
    let (inside, wait) = (Mutex::new(inside), Mutex::new(wait));
    let hold = domain("held", &function("hold", "call block\nret")).import("block", Import::host("block"));
    let lanes = World::builder()
        .domain(hold)
        .domain(domain("free", ""))
        .shared_fn("block", move |_| {
            inside.lock().unwrap().send(()).unwrap();
            wait.lock().unwrap().recv().unwrap();
            Ok(7)
        })
        .lanes(2)
        .unwrap();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| LaneFn::<fn() -> u64>::new("held", "hold").call(&mut lanes.enter().unwrap(), ()));
        seen.recv().unwrap();
        let (mut lane, add) = (lanes.enter().unwrap(), two("free", "add"));
        (0..1000).for_each(|i| assert_eq!(add.call(&mut lane, (i, 1)), Ok(i + 1)));
        assert!(!held.is_finished());
        go.send(()).unwrap();
        assert_eq!(held.join().unwrap(), Ok(7));
    });
}
