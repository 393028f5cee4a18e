//! Room for the host's signal handlers on a control stack.
//!
//! A handler that was installed without `SA_ONSTACK` runs on the stack of whatever it interrupts,
//! which may be a domain's control stack, of which a domain leaves as little as it likes. So below
//! the stack area lies a room that is closed to domains: a `call` that reaches it is a fault of the
//! domain. When a handler reaches it, the handler of that fault, which has a stack of its own,
//! opens the room; when the host's handler returns, the room is closed again before the domain goes
//! on:
//!
//! - [`open`] sends the thread [`TIME_SIGNAL`], blocked in the context to which it returns,
//!   the host's handler. What that handler interrupted has its own mask, so the signal arrives when
//!   the handler has returned, before an instruction of what was interrupted runs.
//! - [`close`], called for that signal, closes the room if a domain or a gate was interrupted, and
//!   else waits again in the same way.
//!
//! The kernel itself writes a signal's frame only where it is allowed to. Where less than a frame
//! is left it sends `SIGSEGV` instead and forgets the signal: [`cramped`]. That is the end of a
//! domain which goes so far. Gates begin only where a frame is left.

use crate::fault::limits::TIME_SIGNAL;
use crate::gate;
use crate::gate::control_stack::ControlStack;
use crate::gate::records::{CONTROL_ROOM, Context, GATE_FRAMES};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use sfi_contract::layout::{PAGE_SIZE, WINDOW_SIZE};

/// `si_code` of a fault that the kernel found itself.
pub const SI_KERNEL: i32 = 0x80;
/// A signal's frame where the kernel does not say how large it is (before 5.14): more than AVX-512
/// takes.
const FRAME: u64 = 8 << 10;

/// Most bytes of a signal's frame on this machine.
fn frame() -> u64 {
    // SAFETY: getauxval reads a table; 0 if there is no such entry.
    let said = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    said.max(FRAME)
}

/// Bytes of the stack area that must be left for a gate to begin.
pub fn reserve() -> u64 {
    GATE_FRAMES + frame().next_multiple_of(PAGE_SIZE)
}

/// Size of an alternate signal stack on which a handler has as much again for itself as the frames
/// of some nested signals take.
pub fn alternate() -> u64 {
    (8 * frame()).next_multiple_of(PAGE_SIZE).max(64 << 10)
}

fn register(machine: &ucontext_t, register: c_int) -> u64 {
    machine.uc_mcontext.gregs[register as usize] as u64
}

/// The kernel may have found no room for a signal's frame: rsp is so near to the stack area's end.
/// No gate is in the middle of its work there.
pub fn cramped(context: &Context, info: &siginfo_t, machine: &ucontext_t) -> bool {
    let near = ControlStack::area(context).start..context.floor - GATE_FRAMES / 2;
    info.si_signo == libc::SIGSEGV && info.si_code == SI_KERNEL && near.contains(&register(machine, libc::REG_RSP))
}

/// If a handler of the host, on the control stack, found the room closed: opens it.
/// Async-signal-safe.
///
/// # Safety
/// `context` is that of the world that this thread runs, the rest is what the kernel passed to the
/// handler of the fault.
pub unsafe fn open(context: &mut Context, signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    let (room, area) = (ControlStack::room(context), ControlStack::area(context));
    let rsp = register(machine, libc::REG_RSP);
    // SAFETY: a SIGSEGV that was not sent has an address.
    let address = unsafe { info.si_addr() } as u64;
    // Or the kernel did, for the frame of another signal.
    let refused = info.si_code == SI_KERNEL && (room.start..context.floor).contains(&rsp);
    let touched = room.contains(&address) && (room.start..area.end).contains(&rsp);
    if context.room || signal != libc::SIGSEGV || info.si_code <= 0 || !(refused || touched) {
        return false;
    }
    // SAFETY: the room belongs to this control stack, and only handlers that run now use it.
    if unsafe { libc::mprotect(room.start as *mut c_void, CONTROL_ROOM as usize, libc::PROT_READ | libc::PROT_WRITE) }
        != 0
    {
        return false;
    }
    context.room = true;
    ask(machine);
    true
}

/// Closes the room if no handler uses it any more. Whether it was open. Async-signal-safe.
///
/// # Safety
/// As for [`open`], of [`TIME_SIGNAL`].
pub unsafe fn close(context: &mut Context, machine: &mut ucontext_t) -> bool {
    if !context.room {
        return false;
    }
    let (rip, rsp) = (register(machine, libc::REG_RIP), register(machine, libc::REG_RSP));
    // SAFETY: domains live as long as their world.
    let domain = unsafe { context.current.as_ref() };
    let back = gate::text().contains(&rip) || domain.is_some_and(|d| rip.wrapping_sub(d.base) < WINDOW_SIZE);
    let room = ControlStack::room(context);
    if back && rsp >= room.end {
        // What is in there was the host's. A room that cannot be closed stays open.
        // SAFETY: as in `open`; a domain or a gate goes on, whose frames lie above the room.
        context.room = unsafe {
            libc::madvise(room.start as *mut c_void, CONTROL_ROOM as usize, libc::MADV_DONTNEED);
            libc::mprotect(room.start as *mut c_void, CONTROL_ROOM as usize, libc::PROT_NONE) != 0
        };
    } else if (room.start..ControlStack::area(context).end).contains(&rsp) {
        ask(machine);
    }
    true
}

/// Sends the signal for [`close`], for when what runs now has returned.
fn ask(machine: &mut ucontext_t) {
    // SAFETY: the mask is the context's own; a signal to the thread itself.
    unsafe {
        libc::sigaddset(&mut machine.uc_sigmask, TIME_SIGNAL);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), TIME_SIGNAL);
    }
}
