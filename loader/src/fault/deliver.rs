//! Faults that a domain handles itself: the signal handler lets the domain go on at a function of
//! its own instead of the faulting instruction.
//!
//! The domain could have called that function there itself, with these registers: the function is
//! one of the domain's own by name, all registers but the data stack pointer are 0 or describe the
//! fault, and the return address is the place of a trap of the domain: the one that says how many
//! registers the faulting function had saved on the control stack ([`crate::gate::depths`]). The
//! function is code of the domain like any other. Nothing is resumed, and nothing that it does is
//! trusted.
//!
//! A fault at an address outside the domain's window may be a look for other memory. No handler of
//! the domain gets it: it ends the call, and counts as a fault.

use crate::fault::signal_room::SI_KERNEL;
use crate::fault::stray::NULL;
use crate::gate::control_stack::ControlStack;
use crate::gate::depths::STEP;
use crate::gate::records::{Caught, Context, DomainState};
use crate::vm::address::HostAddress;
use libc::{REG_EFL, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP, REG_TRAPNO, c_int, siginfo_t, ucontext_t};
use sfi_contract::layout::{GUARD_SIZE, WINDOW_SIZE};

/// Number of the processor's exception for a page fault.
pub(super) const PAGE_FAULT: i64 = 14;
/// Flags of a function's start: interrupts, and the bit that is always there.
const FLAGS: i64 = 0x202;
/// Registers that carry nothing into the function, by their places in the context.
const CLEARED: [c_int; 11] = [
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_RBP,
    libc::REG_RBX,
    libc::REG_RAX,
    libc::REG_RCX,
];

/// Lets the running domain go on in its handler of faults, if it has one for this signal and
/// faulted in its own text, at a place of its own. The handler is not entered again before the
/// domain asks for it. Async-signal-safe.
///
/// # Safety
/// `context` is that of the world that this thread runs, a domain runs, and the rest is what the
/// kernel passed to the handler of the fault.
pub(crate) unsafe fn deliver(context: &mut Context, signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    // SAFETY: the records live as long as the world.
    let Some(domain) = (unsafe { context.current.as_mut() }) else { return false };
    let registers = &machine.uc_mcontext.gregs;
    let (rip, rsp) = (registers[REG_RIP as usize] as u64, registers[REG_RSP as usize] as u64);
    let area = ControlStack::area(context);
    let room = rsp.is_multiple_of(8) && area.contains(&rsp) && area.contains(&(rsp - 8));
    if domain.caught.signals & 1 << signal == 0 || !domain.caught.is_text(rip) || !room {
        return false;
    }
    let address = match signal {
        // SAFETY: these signals have an address.
        libc::SIGSEGV | libc::SIGBUS => unsafe { info.si_addr() as i64 },
        _ => rip as i64,
    };
    if is_look(domain, signal, info, machine) {
        return false;
    }
    // SAFETY: the word lies in the stack area, below everything that is in use there.
    unsafe {
        let depth = domain.depths.at(instruction(signal, info, machine));
        enter((&domain.caught, depth), [signal.into(), info.si_code.into(), address], machine);
    }
    domain.caught.signals = 0;
    true
}

/// Says whether a fault of a domain may tell it of memory outside its window. Null pointers tell
/// nothing. Only page faults have an address. Async-signal-safe.
pub(super) fn is_look(domain: &DomainState, signal: c_int, info: &siginfo_t, machine: &ucontext_t) -> bool {
    // SAFETY: the field is only read as a number, and only these signals have an address.
    let address = unsafe { info.si_addr() } as u64;
    let is_in = |window: HostAddress| address.wrapping_sub(window.number()) < WINDOW_SIZE + GUARD_SIZE;
    let paged = machine.uc_mcontext.gregs[REG_TRAPNO as usize] == PAGE_FAULT;
    let own = paged && (address < NULL || is_in(domain.base) || is_in(domain.text));
    matches!(signal, libc::SIGSEGV | libc::SIGBUS) && !own
}

impl Caught {
    /// Returns the address of the trap of a depth.
    pub(super) fn trap(&self, depth: u64) -> u64 {
        self.trap.number() + depth * STEP
    }

    /// Says whether an instruction belongs to the domain's own text without the stubs.
    pub(super) fn is_text(&self, rip: u64) -> bool {
        (self.text[0]..self.text[1]).contains(&HostAddress::new(rip))
    }
}

/// Returns the address of the instruction that caused a signal. Async-signal-safe.
pub(super) fn instruction(signal: c_int, info: &siginfo_t, machine: &ucontext_t) -> u64 {
    let rip = machine.uc_mcontext.gregs[REG_RIP as usize] as u64;
    // The processor reports the address after an int3, and the kernel gives its signal this code.
    if signal == libc::SIGTRAP && info.si_code == SI_KERNEL { rip.wrapping_sub(1) } else { rip }
}

/// Lets the running domain go on in its function of `place`, with three arguments and with the trap
/// of the depth as its return address. r15 stays.
///
/// # Safety
/// rsp is that of the domain, a multiple of 8, and the word below it lies in the stack area. The
/// domain stopped at a place with this depth.
pub(super) unsafe fn enter((place, depth): (&Caught, u64), arguments: [i64; 3], machine: &mut ucontext_t) {
    let registers = &mut machine.uc_mcontext.gregs;
    let rsp = registers[REG_RSP as usize] - 8;
    // SAFETY: see the function's contract. Nothing below rsp is in use.
    unsafe { (rsp as *mut u64).write(place.trap(depth)) };
    CLEARED.iter().for_each(|register| registers[*register as usize] = 0);
    for (register, argument) in [REG_RDI, REG_RSI, REG_RDX].into_iter().zip(arguments) {
        registers[register as usize] = argument;
    }
    registers[REG_RSP as usize] = rsp;
    registers[REG_EFL as usize] = FLAGS;
    registers[REG_RIP as usize] = place.entry.number() as i64;
}
