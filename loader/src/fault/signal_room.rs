//! Room for the host's signal handlers on a control stack.
//!
//! A handler that was installed without `SA_ONSTACK` runs on the stack that it interrupts. That may
//! be a domain's control stack, of which the domain may have left almost nothing. So below the
//! stack area lies a room that is closed to domains: a `call` that reaches it is a fault of the
//! domain. If a handler of the host reaches it, the handler of that fault, which has a stack of its
//! own, opens the room. After the host's handler returned, the room is closed again before the
//! domain goes on:
//!
//! - [`open`] sends the thread [`TIME_SIGNAL`] and blocks it in the context to which it returns,
//!   the host's handler. The code that this handler interrupted has a mask of its own. So the
//!   signal arrives when the handler has returned, before an instruction of the interrupted code
//!   runs.
//! - [`close`], called for that signal, closes the room if a domain or a gate was interrupted.
//!   Otherwise it waits again in this way.
//!
//! The kernel itself writes a signal's frame only to accessible memory. If less than a frame is
//! left it sends `SIGSEGV` instead and drops the signal: [`cramped`]. That ends the domain. Gates
//! begin only if a frame fits.

use crate::fault::limits::TIME_SIGNAL;
use crate::gate;
use crate::gate::control_stack::ControlStack;
use crate::gate::records::{CONTROL_ROOM, Context, GATE_FRAMES};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use sfi_contract::layout::PAGE_SIZE;

/// `si_code` of a fault that the kernel itself found.
pub(crate) const SI_KERNEL: i32 = 0x80;
/// Size of a signal's frame on kernels that do not tell it (before 5.14): more than AVX-512 takes.
const FRAME: u64 = 8 << 10;

/// Returns the most bytes of a signal's frame on this machine.
fn frame() -> u64 {
    // SAFETY: getauxval reads a table, and returns 0 if there is no such entry.
    let said = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    said.max(FRAME)
}

/// Returns the bytes of the stack area that must be left for a gate to begin.
pub(crate) fn reserve() -> u64 {
    GATE_FRAMES + frame().next_multiple_of(PAGE_SIZE)
}

/// Returns the size of an alternate signal stack. It fits the frames of some nested signals, and
/// leaves a handler as much again.
pub(crate) fn alternate() -> u64 {
    (8 * frame()).next_multiple_of(PAGE_SIZE).max(64 << 10)
}

fn register(machine: &ucontext_t, register: c_int) -> u64 {
    machine.uc_mcontext.gregs[register as usize] as u64
}

/// Says whether the kernel may have found no room for a signal's frame, because rsp is near the
/// stack area's end. No gate is in the middle of its work there.
pub(crate) fn cramped(context: &Context, info: &siginfo_t, machine: &ucontext_t) -> bool {
    let near = ControlStack::area(context).start..context.floor - GATE_FRAMES / 2;
    info.si_signo == libc::SIGSEGV && info.si_code == SI_KERNEL && near.contains(&register(machine, libc::REG_RSP))
}

/// Opens the room if a handler of the host, on the control stack, found it closed.
/// Async-signal-safe.
///
/// # Safety
/// `context` is that of the world that this thread runs. The rest are the values that the kernel
/// passed to the handler of the fault.
pub(crate) unsafe fn open(context: &mut Context, signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    let (room, area) = (ControlStack::room(context), ControlStack::area(context));
    let rsp = register(machine, libc::REG_RSP);
    // SAFETY: a SIGSEGV that was not sent has an address.
    let address = unsafe { info.si_addr() } as u64;
    // The kernel found the room closed when it wrote the frame of another signal.
    let refused = info.si_code == SI_KERNEL && (room.start..context.floor).contains(&rsp);
    let touched = room.contains(&address) && (room.start..area.end).contains(&rsp);
    if context.room || signal != libc::SIGSEGV || info.si_code <= 0 || !(refused || touched) {
        return false;
    }
    // SAFETY: the room belongs to this control stack, and only the handlers that run now use it.
    if unsafe { libc::mprotect(room.start as *mut c_void, CONTROL_ROOM as usize, libc::PROT_READ | libc::PROT_WRITE) }
        != 0
    {
        return false;
    }
    context.room = true;
    ask(machine);
    true
}

/// Closes the room if no handler uses it any more. Says whether it was open. Async-signal-safe.
///
/// # Safety
/// As for [`open`], in the handler of [`TIME_SIGNAL`].
pub(crate) unsafe fn close(context: &mut Context, machine: &mut ucontext_t) -> bool {
    if !context.room {
        return false;
    }
    let (rip, rsp) = (register(machine, libc::REG_RIP), register(machine, libc::REG_RSP));
    // SAFETY: domains live as long as their world.
    let domain = unsafe { context.current.as_ref() };
    let back = gate::text().contains(&rip) || domain.is_some_and(|d| d.runs_at(rip));
    let room = ControlStack::room(context);
    if back && rsp >= room.end {
        // The contents of the room were the host's. A room that cannot be closed stays open.
        // SAFETY: as in `open`. A domain or a gate goes on, and its frames lie above the room.
        context.room = unsafe {
            libc::madvise(room.start as *mut c_void, CONTROL_ROOM as usize, libc::MADV_DONTNEED);
            libc::mprotect(room.start as *mut c_void, CONTROL_ROOM as usize, libc::PROT_NONE) != 0
        };
    } else if (room.start..ControlStack::area(context).end).contains(&rsp) {
        ask(machine);
    }
    true
}

/// Sends the signal for [`close`], which arrives when the running handler has returned.
fn ask(machine: &mut ucontext_t) {
    // SAFETY: the mask is the context's own, and the signal goes to this thread.
    unsafe {
        libc::sigaddset(&mut machine.uc_sigmask, TIME_SIGNAL);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), TIME_SIGNAL);
    }
}
