//! The signal handlers. A fault inside a domain, or the end of its time, becomes an error of the
//! crossing. Code here that a handler runs neither allocates nor locks.

use crate::fault::deliver;
use crate::fault::fork;
use crate::fault::interrupt;
use crate::fault::lanes;
use crate::fault::limits::{TIME_SIGNAL, reason};
use crate::fault::meter;
use crate::fault::signal_room;
use crate::fault::thread;
use crate::fault::trace;
use crate::fault::watch;
use crate::fault::watchdog;
use crate::gate;
use crate::gate::control_stack::ControlStack;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::frame::{Active, FrameStart};
use crate::gate::records::{Context, Status};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use sfi_contract::matching::NOTE;
use std::sync::OnceLock;

/// The signals that a domain can cause.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// The carry flag. A charge that a budget of instructions cannot pay sets it.
const CARRY: i64 = 1;
/// Bit of its error code: the access was a store.
const PAGE_FAULT_WRITE: i64 = 2;

/// The handlers that were installed before ours.
static PREVIOUS: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Installs the handlers, once per process. A handler that the host installs later must pass on the
/// signals that it does not know.
pub(crate) fn install() {
    install_time();
    PREVIOUS.get_or_init(|| {
        SIGNALS.map(|signal| {
            // SAFETY: sigaction with valid pointers and without an action only reads the present
            // handler.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                assert_eq!(libc::sigaction(signal, std::ptr::null(), &mut old), 0, "sigaction");
                old
            }
        })
    });
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        for signal in SIGNALS {
            // SAFETY: the handler is async-signal-safe (see `on_signal`) and PREVIOUS is set before
            // it can run.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigemptyset(&mut action.sa_mask);
                // `signal_room` sends it to be handled later.
                libc::sigaddset(&mut action.sa_mask, TIME_SIGNAL);
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0, "sigaction");
            }
        }
    });
}

/// The handler of the watchdog's signal that was installed before ours.
static PREVIOUS_TIME: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler of the watchdog's signal.
fn install_time() {
    PREVIOUS_TIME.get_or_init(|| {
        // SAFETY: the handler is async-signal-safe (see `on_time`). A signal that comes before the
        // previous handler is noted is ignored, which is the default.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut old: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_time as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            assert_eq!(libc::sigaction(TIME_SIGNAL, &action, &mut old), 0, "sigaction");
            old
        }
    });
}

/// Handles the watchdog's signal. If the call in progress overstays and a domain runs, it ends the
/// domain. A domain runs exactly if rip is in `context.current`'s text window. That includes the
/// stubs, because they change only r10 and r11 and the gate after them has not run. In a gate or in
/// the host it only closes the gates, and the signal comes again. It also closes the room that a
/// handler of the host had opened, and interrupts a domain that is to be interrupted. Touches the
/// data that `on_signal` touches, and the world's watch.
extern "C" fn on_time(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers. The thread's state is its own. A world's watch
    // lives as long as the world.
    unsafe {
        let current = (*thread::state()).current;
        let machine = &mut *context.cast::<ucontext_t>();
        let own = !current.is_null() && signal_room::close(&mut *current, machine);
        if !current.is_null() && leave(&mut *current, machine) {
            return;
        }
        let due = ordered(current);
        if due != 0 {
            obey(current, machine, due);
            return;
        }
        if !current.is_null() && interrupt::is_wanted(&*current) {
            interrupt::interrupt(&mut *current, machine);
            // Other signals of this number are the host's.
            if (*info).si_code == libc::SI_TKILL {
                return;
            }
        }
        if own && (*info).si_code == libc::SI_TKILL {
            return;
        }
        match PREVIOUS_TIME.get() {
            Some(old) if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN => {
                call_previous(old, signal, info, context);
            }
            _ => {}
        }
    }
}

/// Ends the call in progress for a [`reason`]: the domain, if it runs now. Otherwise closes the
/// gates. Says whether the domain was ended.
///
/// # Safety
/// `current` is the context of the world that this thread runs, with a watch. `machine` is what the
/// kernel passed to a signal handler that runs now.
unsafe fn obey(current: *mut Context, machine: &mut ucontext_t, due: u32) -> bool {
    // SAFETY: see the function's contract; the records live as long as the world.
    unsafe {
        let rip = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
        let domain = (*current).current;
        if (*current).top != 0 && domain.as_ref().is_some_and(|d| d.runs_at(rip)) {
            let due = if due == reason::SETTLE {
                meter::charge(current, domain);
                meter::settle(current, domain)
            } else {
                due
            };
            if due == 0 {
                return false;
            }
            let caller = topmost(&*current, machine, rip);
            let (signal, code) = (TIME_SIGNAL, (due & reason::KIND) as i32);
            fail(&mut *current, (machine, rip), RawFault { signal, code, rip, caller, ..RawFault::default() });
            overstayed(current, due);
            return true;
        }
        if due & reason::KIND == reason::CALL_WALL || due & reason::KIND == reason::CALL_CPU {
            watchdog::close_gates(current);
        }
        false
    }
}

/// Ends the call of a domain that this thread has in progress, with all domains that it leads
/// through, as at the end of a time limit. For signal handlers of the host that were installed with
/// `SA_SIGINFO | SA_ONSTACK`, with their third argument. The world must have been built with limits
/// or with [`crate::Builder::interruptible`]. Async-signal-safe once the thread has entered a
/// domain.
///
/// Returns whether nothing is left to do: a running domain ended, or this thread has no call that
/// can be interrupted. `false`: a gate or a host function runs. The call ends when the host
/// function returns, or at the next gate. A domain that runs on without a gate is not ended by
/// this: interrupt again, some milliseconds later, until the call ended.
///
/// A host function may call this with a null pointer. Then the call ends when it returns.
///
/// # Safety
/// `machine` is null, or the `ucontext_t` that the kernel passed to a signal handler that runs now,
/// on this thread.
pub unsafe fn interrupt(machine: *mut c_void) -> bool {
    // SAFETY: see the function's contract. The thread's state is its own, and a world's watch lives
    // as long as the world.
    unsafe {
        let current = (*thread::state()).current;
        if !current.as_ref().and_then(watch::of).is_some_and(watch::Watch::order) {
            return true;
        }
        let machine = machine.cast::<ucontext_t>().as_mut();
        machine.is_some_and(|machine| obey(current, machine, ordered(current)))
    }
}

/// Returns the watchdog's order to the call in progress: a [`reason`], or 0 if there is none.
///
/// # Safety
/// The context is null or that of the world that this thread runs.
unsafe fn ordered(context: *const Context) -> u32 {
    // SAFETY: see the function's contract; the records live as long as the world.
    unsafe { context.as_ref().and_then(watch::of).map_or(0, watch::Watch::ordered) }
}

/// Handles the signals that a domain can cause. Touches only the interrupted thread's records, the
/// signal context and `PREVIOUS`, without allocation or lock.
extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers; the thread's state is its own.
    let handled = unsafe {
        let current = (*thread::state()).current;
        let machine = &mut *context.cast::<ucontext_t>();
        !current.is_null()
            && (unwind(&mut *current, signal, &*info, machine)
                || signal_room::open(&mut *current, signal, &*info, machine))
    };
    if !handled {
        pass_on(signal, info, context);
    }
}

/// Marks the running domain dead if it faulted, and continues at its crossing's error path.
///
/// # Safety
/// `context` is the context of the world that this thread runs.
unsafe fn unwind(context: &mut Context, signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    let rip = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    let at = deliver::instruction(signal, info, machine);
    // SAFETY: `current` and `top` are set together by the gates while a domain runs; all records
    // live as long as the world.
    unsafe {
        let Some(domain) = context.current.as_ref() else { return false };
        // A gate stopped, or was about to check whether it must.
        let in_gate = rip == gate::control_trap()
            || (gate::text().contains(&rip) && signal_room::cramped(context, info, machine));
        if context.top == 0 || info.si_code <= 0 || !(in_gate || domain.runs_at(rip)) {
            return false;
        }
        // A gate was closed because the call overstays.
        let due = watch::of(context).filter(|_| in_gate).map_or(0, watch::Watch::overdue);
        if due != 0 {
            let (caller, code) = (topmost(context, machine, at), (due & reason::KIND) as i32);
            fail(context, (machine, at), RawFault { signal: TIME_SIGNAL, code, caller, ..RawFault::default() });
            overstayed(context, due);
            return true;
        }
        let no_room = signal_room::cramped(context, info, machine);
        let mut caught =
            || interrupt::go_on(context, signal, info, machine) || deliver::deliver(context, signal, info, machine);
        if !in_gate && !no_room && caught() {
            return true;
        }
        let is_control = signal == libc::SIGSEGV && ControlStack::room(context).contains(&(info.si_addr() as u64));
        if !in_gate && !no_room && !is_control && deliver::is_look(domain, signal, info, machine) {
            fork::end_family();
        }
        let address = match signal {
            libc::SIGSEGV | libc::SIGBUS => info.si_addr() as u64,
            // The address that the last check of mode match tested. The TCB page is mapped as long
            // as the domain lives.
            libc::SIGTRAP if !in_gate => *(domain.tcb.number().wrapping_add_signed(NOTE.addend.into()) as *const u64),
            _ => 0,
        };
        let fault = RawFault {
            signal,
            code: info.si_code,
            address,
            rip,
            caller: topmost(context, machine, at),
            control: in_gate || no_room || is_control,
            store: machine.uc_mcontext.gregs[libc::REG_TRAPNO as usize] == deliver::PAGE_FAULT
                && machine.uc_mcontext.gregs[libc::REG_ERR as usize] & PAGE_FAULT_WRITE != 0,
            spent: signal == libc::SIGTRAP
                && domain.instructions != 0
                && machine.uc_mcontext.gregs[libc::REG_EFL as usize] & CARRY != 0,
            when: 0,
        };
        fail(context, (machine, at), fault);
    }
    true
}

/// Returns the innermost return address, or 0 if rsp is not on the control stack. The code stopped
/// at an instruction.
///
/// # Safety
/// As for [`unwind`].
unsafe fn topmost(context: &Context, machine: &ucontext_t, instruction: u64) -> u64 {
    let rsp = machine.uc_mcontext.gregs[libc::REG_RSP as usize] as u64;
    // SAFETY: the stack area is mapped, and rsp is a multiple of 8 while a domain runs. See the
    // function's contract.
    unsafe {
        let at = trace::innermost(context, rsp, instruction);
        if ControlStack::area(context).contains(&at) { *(at as *const u64) } else { 0 }
    }
}

/// Marks the running domain dead. The thread goes on at the error path of the crossing that entered
/// it. The domain stopped at an instruction.
///
/// # Safety
/// As for [`unwind`]; a domain runs.
unsafe fn fail(context: &mut Context, (machine, instruction): (&mut ucontext_t, u64), fault: RawFault) {
    let registers = &mut machine.uc_mcontext.gregs;
    // SAFETY: see the function's contract.
    unsafe {
        if watch::of(context).is_some_and(watch::Watch::is_metered) {
            meter::charge(context, context.current);
        }
        let rsp = registers[libc::REG_RSP as usize] as u64;
        let trace = trace::walk(context, trace::innermost(context, rsp, instruction));
        // While the lane is inside, so that it ends no later life.
        let status = lanes::end_by(context.current, fault, trace);
        give_up(context, machine, status);
    }
}

/// Marks the running domain dead. The thread goes on at the error path of the crossing that entered
/// it, with a status.
///
/// # Safety
/// As for [`fail`].
unsafe fn give_up(context: &mut Context, machine: &mut ucontext_t, status: Status) {
    let registers = &mut machine.uc_mcontext.gregs;
    // SAFETY: see the function's contract. No call below the domain's frame is in progress.
    unsafe {
        let domain = &mut *context.current;
        domain.dead = Status::Dead;
        domain.sp = 0;
        lanes::sweep(context, context.top);
        let binding = (*(context.top as *const FrameStart)).binding;
        registers[libc::REG_RIP as usize] = (*binding).failed as i64;
        registers[libc::REG_RSP as usize] = context.top as i64;
        registers[libc::REG_RAX as usize] = status as i64;
    }
}

/// Ends the domain that this lane runs, if it ended in another lane. Its caller finds it dead.
/// Otherwise marks the domains that wait for the running one and ended. While a gate or the host
/// runs nothing is done, and the signal comes again. Says whether the domain was ended.
///
/// # Safety
/// As for [`unwind`].
unsafe fn leave(context: &mut Context, machine: &mut ucontext_t) -> bool {
    let rip = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    // SAFETY: as in `unwind`.
    unsafe {
        let runs = context.top != 0 && context.current.as_ref().is_some_and(|d| d.runs_at(rip));
        if context.take.is_null() || !runs {
            return false;
        }
        lanes::mark(context);
        let over = lanes::is_over(context.current);
        if over {
            if watch::of(context).is_some_and(watch::Watch::is_metered) {
                meter::charge(context, context.current);
            }
            give_up(context, machine, Status::Dead);
        }
        over
    }
}

/// Takes note that the running domain was ended for a [`reason`]. A final reason also ends the
/// domains that wait for it, down to the innermost entry from the host: the gates do not return to
/// dead domains. Async-signal-safe.
///
/// # Safety
/// `context` belongs to a world with a watch that this thread runs; its frames are whole.
pub(crate) unsafe fn overstayed(context: *mut Context, due: u32) {
    // SAFETY: see the function's contract; domain states live as long as their frames.
    unsafe {
        if due & reason::FINAL != 0 {
            let mut active = Active::running(&*context, 0);
            while !active.entered_by_host()
                && let Some(outer) = active.outer(&*context)
            {
                active = outer;
                let domain = &mut *active.domain;
                if domain.dead == Status::Ok {
                    let code = ((due & reason::KIND) | reason::WAITING) as i32;
                    let (signal, caller) = (TIME_SIGNAL, *(active.at as *const u64));
                    domain.fault = RawFault { signal, code, caller, ..RawFault::default() };
                    domain.trace = Trace::EMPTY;
                    domain.dead = Status::Dead;
                    domain.sp = 0;
                    lanes::end(domain);
                }
            }
        }
        watchdog::again(context, due);
    }
}

/// Passes on a signal that belongs to no domain, as if these handlers were not installed.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get().and_then(|all| {
        let index = SIGNALS.iter().position(|s| *s == signal)?;
        all.get(index)
    });
    // SAFETY: the previous handler is called as the kernel would have called it. After the default
    // action is restored, returning repeats a synchronous fault, which then ends the process. Other
    // signals are raised again.
    unsafe {
        let sent = (*info).si_code <= 0;
        match previous {
            Some(action) if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN => {
                call_previous(action, signal, info, context);
            }
            Some(action) if action.sa_sigaction == libc::SIG_IGN && sent => {}
            _ => {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, std::ptr::null_mut());
                if sent || signal == libc::SIGTRAP {
                    libc::raise(signal);
                }
            }
        }
    }
}

/// Calls a handler as the kernel would have called it.
///
/// # Safety
/// `action` is neither the default nor to ignore. The rest are the values that the kernel passed.
unsafe fn call_previous(action: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the flag says which of the two types the handler has.
    unsafe {
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(action.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(action.sa_sigaction);
            handler(signal);
        }
    }
}
