//! Faults: the signal handler that turns a fault inside a domain into an error of the crossing, and
//! the description of a fault that people read.

pub(crate) mod limits;
pub(crate) mod meter;
pub(crate) mod names;
pub(crate) mod signal_room;
pub(crate) mod stray;
pub(crate) mod thread;
pub(crate) mod trace;
pub(crate) mod watchdog;

use crate::fault::limits::reason;
use crate::fault::names::Names;
use crate::fault::stray::{NULL, Nearest, Refused, Stray, Whose};
use crate::fault::trace::{Backtrace, Place};
use crate::gate;
use crate::gate::control_stack::ControlStack;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::frame::{Active, Entry};
use crate::gate::records::{Context, Status};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::matching::{Check, NOTE};
use sfi_contract::text::clean;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The signals that a domain can cause.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// `si_code` of a general protection fault, as for a non-canonical address.
const SI_KERNEL: i32 = 0x80;
/// `si_code` of `SIGFPE`: integer division by zero.
const FPE_INTDIV: i32 = 1;
/// `si_code` of `SIGFPE`: integer overflow.
const FPE_INTOVF: i32 = 2;

/// Number of the processor's exception for a page fault.
const PAGE_FAULT: i64 = 14;
/// Bit of its error code: the access was a store.
const PAGE_FAULT_WRITE: i64 = 2;

/// [`RawFault::signal`] of a domain that asked to end. A mark: the signal itself is never handled
/// here.
pub const EXIT: c_int = libc::SIGTERM;

/// The domain did not run when its call's time was over: it waited for another one.
pub fn waited(fault: &RawFault) -> bool {
    fault.signal == watchdog::SIGNAL && fault.code as u32 & reason::WAITING != 0
}

/// Now, in nanoseconds of the monotonic clock. Async-signal-safe.
pub fn moment() -> u64 {
    watchdog::clock(libc::CLOCK_MONOTONIC).map_or(0, |time| time.as_nanos() as u64)
}

/// When a fault happened; now if nobody noted it.
pub fn when(fault: &RawFault) -> Instant {
    let now = Instant::now();
    let ago = if fault.when == 0 { 0 } else { moment().saturating_sub(fault.when) };
    now.checked_sub(Duration::from_nanos(ago)).unwrap_or(now)
}

/// Where a faulting access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// The first 64 KiB of the address space or of the domain's window.
    Null,
    /// A mapped part of the domain's window that does not allow the access.
    Protected,
    /// An unmapped part of the domain's window, the guard behind it, or a region that the domain
    /// saw and nobody maps.
    Unmapped,
    /// Elsewhere.
    Outside,
    /// No address at all: not canonical, or not reported by the processor.
    Unknown,
}

/// What kind of fault ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// A load or store that the memory does not allow.
    Memory(AddressClass),
    /// Calls nested too deeply.
    ControlStackOverflow,
    /// The data stack is used up.
    DataStackOverflow,
    /// Integer division by zero or overflow.
    Division,
    /// A floating-point exception that the domain unmasked.
    FloatingPoint,
    /// `ud2` or an instruction that this processor does not have.
    IllegalInstruction,
    /// `int3`: a trap of the code itself, or control fell off a function's end.
    Breakpoint,
    /// An indirect call or jump whose pointer is no function of the domain.
    WildBranch,
    /// A jump out of functions that are not active any more, or of another crossing's: a stale or
    /// forged `jmp_buf`.
    DeadFrame,
    /// Mode match: the check before a store found an address outside the domain's window.
    /// [`Fault::stray`] says where it leads. For an indirect branch that is
    /// [`FaultKind::WildBranch`].
    SegmentMatch,
    /// The memory behind a mapping is gone (`SIGBUS`).
    Bus,
    /// The call took longer than [`crate::Builder::time_limit`], or its own limit, allows.
    TimeLimit,
    /// The call used more processor time than its limit allows.
    CpuLimit,
    /// The domain ran longer than its own budget allows ([`crate::DomainSpec::budget`]).
    TimeBudget,
    /// The domain used more processor time than its own budget allows.
    CpuBudget,
    /// The domain asked to end: `exit`, or a signal to itself. The number is the exit status that
    /// it gave.
    Exit(i32),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Exit(code) => return write!(f, "the domain ended itself with exit status {code}"),
            FaultKind::Memory(AddressClass::Null) => "null pointer access",
            FaultKind::Memory(AddressClass::Protected) => "access that the domain's memory does not allow",
            FaultKind::Memory(AddressClass::Unmapped) => "access to an unmapped part of the domain's window",
            FaultKind::Memory(AddressClass::Outside) => "access outside the domain's window",
            FaultKind::Memory(AddressClass::Unknown) => "access to a non-canonical address",
            FaultKind::ControlStackOverflow => "control stack overflow",
            FaultKind::DataStackOverflow => "data stack overflow",
            FaultKind::Division => "integer division error",
            FaultKind::FloatingPoint => "floating-point exception",
            FaultKind::IllegalInstruction => "illegal instruction",
            FaultKind::DeadFrame => "jump to a frame that is not active in this call (longjmp)",
            FaultKind::Breakpoint => "breakpoint trap",
            FaultKind::WildBranch => "indirect branch to something that is not a function",
            FaultKind::SegmentMatch => "store outside the segment",
            FaultKind::Bus => "memory behind a mapping is gone",
            FaultKind::TimeLimit => "time limit exceeded",
            FaultKind::CpuLimit => "limit on processor time exceeded",
            FaultKind::TimeBudget => "the domain's time budget is used up",
            FaultKind::CpuBudget => "the domain's budget of processor time is used up",
        })
    }
}

/// A fault of a domain. `Display` reveals no address: in a world of anonymous domains addresses are
/// secrets.
#[derive(Clone)]
pub struct Fault {
    /// The domain's name.
    pub domain: String,
    /// What happened.
    pub kind: FaultKind,
    /// The function that was running; for [`FaultKind::WildBranch`] the one that branched.
    pub function: Option<String>,
    /// Offset from the function's start, bytes.
    pub offset: u64,
    /// The shared region that was accessed, and whether it was a store. Boxed: errors stay small.
    pub(crate) region: Option<Box<(String, bool)>>,
    /// Mode match: what a check refused.
    pub(crate) stray: Option<Box<Stray>>,
    pub(crate) address: u64,
    pub(crate) instruction: u64,
    pub(crate) trace: Arc<Calls>,
}

/// Where the fault happened and the calls around it, to be named when somebody asks.
pub(crate) struct Calls {
    /// The first is the fault's own place.
    places: Vec<Place>,
    /// Calls beyond those.
    more: u32,
}

impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        let all = |f: &Self| (f.kind, f.offset, f.address, f.instruction);
        let named = |f: &Self| (f.domain.clone(), f.function.clone(), f.region.clone(), f.stray.clone());
        all(self) == all(other) && named(self) == named(other)
    }
}

impl Eq for Fault {}

impl Fault {
    /// Where the fault happened, as file and line; innermost first if functions were inlined there.
    /// Empty if the object has no debug information. Reads the object's debug information, within
    /// bounds: what it says is the object's author's word.
    pub fn source(&self) -> Vec<sfi_debuginfo::Frame> {
        let mut trace = trace::name(&self.trace.places[..self.trace.places.len().min(1)], 0);
        trace.frames.pop().map_or(Vec::new(), |frame| frame.source)
    }

    /// The calls that were in progress, out of the control stack: this domain's, those of the
    /// domains that called it, and the host's between them. Names and lines are looked up here, not
    /// when the fault happens.
    pub fn backtrace(&self) -> Backtrace {
        trace::name(&self.trace.places, self.trace.more)
    }

    /// The address that was accessed. A secret.
    pub fn secret_address(&self) -> u64 {
        self.address
    }

    /// The shared region that was accessed, if the address lies in one, visible or not, and whether
    /// it was a store.
    pub fn region(&self) -> Option<(&str, bool)> {
        self.region.as_ref().map(|r| (r.0.as_str(), r.1))
    }

    /// Mode match: the instruction whose check failed, and where its address leads.
    pub fn stray(&self) -> Option<&Stray> {
        self.stray.as_deref()
    }

    /// The instruction's address. A secret.
    pub fn secret_instruction(&self) -> u64 {
        self.instruction
    }
}

/// As `Display`: tests and logs print `Debug`, and addresses are secrets there too.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({self})")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain `{}`: {}", self.domain, self.kind)?;
        if let Some((region, store)) = self.region() {
            write!(f, ", {} region `{region}`,", if store { "a store to" } else { "a load from" })?;
        }
        if let Some(stray) = self.stray() {
            write!(f, ": {stray},")?;
        }
        if let Some(name) = &self.function {
            write!(f, " in `{}`+{:#x}", clean(name.as_bytes()), self.offset)?;
        }
        match self.source().first() {
            Some(source) if source.line.is_some() => write!(f, " at {source}"),
            _ => Ok(()),
        }
    }
}

/// The handlers that were installed before ours.
static PREVIOUS: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Installs the handlers, once per process. Handlers that the host installs later must pass on what
/// is not theirs.
pub fn install() {
    install_time();
    PREVIOUS.get_or_init(|| {
        SIGNALS.map(|signal| {
            // SAFETY: sigaction with valid pointers only reads the present handler.
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
                // `room` sends it for later.
                libc::sigaddset(&mut action.sa_mask, watchdog::SIGNAL);
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
            assert_eq!(libc::sigaction(watchdog::SIGNAL, &action, &mut old), 0, "sigaction");
            old
        }
    });
}

/// The watchdog's signal. If the call in progress overstays and a domain runs, which is so exactly
/// if rip is in the window of `context.current`: ends it. That covers the stubs: they change r10
/// and r11 only, and the gate behind them has not run. Elsewhere, in a gate or in the host, it
/// leaves everything as it is but closes the gates; the signal comes again. It also closes the room
/// that a handler of the host had opened. Touches what `on_signal` touches, and the world's watch.
extern "C" fn on_time(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers; the thread's state is its own; a world's watch
    // lives as long as the world.
    unsafe {
        let current = (*thread::state()).current;
        let machine = &mut *context.cast::<ucontext_t>();
        let own = !current.is_null() && signal_room::close(&mut *current, machine);
        let due = ordered(current);
        if due != 0 {
            let rip = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
            let domain = (*current).current;
            if (*current).top != 0 && domain.as_ref().is_some_and(|d| rip.wrapping_sub(d.base) < WINDOW_SIZE) {
                let due = if due == reason::SETTLE {
                    meter::charge(current, domain);
                    meter::settle(current, domain)
                } else {
                    due
                };
                if due == 0 {
                    return;
                }
                let caller = topmost(&*current, machine);
                let code = (due & reason::KIND) as i32;
                fail(&mut *current, machine, RawFault { signal, code, rip, caller, ..RawFault::default() });
                overstayed(current, due);
            } else if due & reason::KIND == reason::CALL_WALL || due & reason::KIND == reason::CALL_CPU {
                watchdog::close_gates(current);
            }
            return;
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

/// The watchdog's order to the call in progress: a [`reason`], 0 if there is none.
///
/// # Safety
/// The context is null or that of the world that this thread runs.
unsafe fn ordered(context: *const Context) -> u32 {
    // SAFETY: see the function's contract; the records live as long as the world.
    unsafe { context.as_ref().and_then(watchdog::of).map_or(0, watchdog::Watch::ordered) }
}

/// Touches nothing but the interrupted thread's records, the signal context and `PREVIOUS`: no
/// allocation, no lock.
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

/// If the running domain faulted: marks it dead and continues at its crossing's error path.
///
/// # Safety
/// `context` is the context of the world that this thread runs.
unsafe fn unwind(context: &mut Context, signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    let rip = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    // SAFETY: `current` and `top` are set together by the gates while a domain runs; all records
    // live as long as the world.
    unsafe {
        let Some(domain) = context.current.as_ref() else { return false };
        // A gate stopped, or was about to look whether it must.
        let in_gate = rip == gate::control_trap()
            || (gate::text().contains(&rip) && signal_room::cramped(context, info, machine));
        if context.top == 0 || info.si_code <= 0 || !(in_gate || rip.wrapping_sub(domain.base) < WINDOW_SIZE) {
            return false;
        }
        // A gate that was closed because the call overstays.
        let due = watchdog::of(context).filter(|_| in_gate).map_or(0, watchdog::Watch::overdue);
        if due != 0 {
            let (caller, code) = (topmost(context, machine), (due & reason::KIND) as i32);
            fail(context, machine, RawFault { signal: watchdog::SIGNAL, code, caller, ..RawFault::default() });
            overstayed(context, due);
            return true;
        }
        let no_room = signal_room::cramped(context, info, machine);
        let address = match signal {
            libc::SIGSEGV | libc::SIGBUS => info.si_addr() as u64,
            // The address that the last check of mode match looked at; the TCB page is mapped for
            // as long as the domain lives.
            libc::SIGTRAP if !in_gate => *((domain.base + NOTE) as *const u64),
            _ => 0,
        };
        let fault = RawFault {
            signal,
            code: info.si_code,
            address,
            rip,
            caller: topmost(context, machine),
            control: in_gate || no_room || (signal == libc::SIGSEGV && ControlStack::room(context).contains(&address)),
            store: machine.uc_mcontext.gregs[libc::REG_TRAPNO as usize] == PAGE_FAULT
                && machine.uc_mcontext.gregs[libc::REG_ERR as usize] & PAGE_FAULT_WRITE != 0,
            when: 0,
        };
        fail(context, machine, fault);
    }
    true
}

/// The word at rsp: the topmost return address. 0 if rsp is not on the control stack.
///
/// # Safety
/// As for [`unwind`].
unsafe fn topmost(context: &Context, machine: &ucontext_t) -> u64 {
    let rsp = machine.uc_mcontext.gregs[libc::REG_RSP as usize] as u64;
    // SAFETY: the stack area is mapped; rsp is a multiple of 8 while a domain runs.
    if ControlStack::area(context).contains(&rsp) { unsafe { *(rsp as *const u64) } } else { 0 }
}

/// Marks the running domain dead; the thread goes on at the error path of the crossing that entered
/// it.
///
/// # Safety
/// As for [`unwind`]; a domain runs.
unsafe fn fail(context: &mut Context, machine: &mut ucontext_t, fault: RawFault) {
    let registers = &mut machine.uc_mcontext.gregs;
    // SAFETY: see the function's contract.
    unsafe {
        if watchdog::of(context).is_some_and(watchdog::Watch::is_metered) {
            meter::charge(context, context.current);
        }
        let trace = trace::walk(context, registers[libc::REG_RSP as usize] as u64);
        let domain = &mut *context.current;
        domain.fault = RawFault { when: moment(), ..fault };
        domain.trace = trace;
        domain.dead = Status::Dead;
        domain.sp = 0;
        let binding = (*(context.top as *const Entry)).binding;
        registers[libc::REG_RIP as usize] = (*binding).failed as i64;
        registers[libc::REG_RSP as usize] = context.top as i64;
        registers[libc::REG_RAX as usize] = Status::Fault as i64;
    }
}

/// The running domain was ended for a [`reason`]. Where that is one for all, the domains that wait
/// for it down to the innermost entry from the host end as well: the gates do not return to dead
/// domains. Async-signal-safe.
///
/// # Safety
/// `context` belongs to a world with a watch that this thread runs; its frames are whole.
pub unsafe fn overstayed(context: *mut Context, due: u32) {
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
                    let (signal, caller) = (watchdog::SIGNAL, *(active.at as *const u64));
                    domain.fault = RawFault { signal, code, caller, ..RawFault::default() };
                    domain.trace = Trace::EMPTY;
                    domain.dead = Status::Dead;
                    domain.sp = 0;
                }
            }
        }
        watchdog::again(context, due);
    }
}

/// Not ours: does what would have happened without us.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get().and_then(|all| {
        let index = SIGNALS.iter().position(|s| *s == signal)?;
        all.get(index)
    });
    // SAFETY: the previous handler is called as the kernel would have called it. Restoring the
    // default action and returning repeats a synchronous fault, which then ends the process; other
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
/// `action` is neither the default nor to ignore; the rest is what the kernel passed.
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

/// The parts of a domain that a fault's description needs.
pub struct Scene<'a> {
    /// The domain's name.
    pub name: &'a str,
    /// The window's base.
    pub base: u64,
    /// Unmapped bytes below the data stack, `[start, end)` as window offsets.
    pub stack_guard: [u64; 2],
    /// Whether a window offset is mapped.
    pub mapped: &'a dyn Fn(u64) -> bool,
    /// The shared region at an address: in the domain's window, visible or not, or of the common
    /// addresses that it knows.
    pub region: &'a dyn Fn(u64) -> Option<String>,
    /// Mode match: the instruction whose check's trap ends at a window offset.
    pub refused: &'a dyn Fn(u64) -> Option<Refused>,
    /// Whose an address is, and the part of a window next to it.
    pub owner: &'a dyn Fn(u64) -> (Whose, Option<Nearest>),
    /// Window offset of the trap that unused dispatch slots lead to.
    pub trap: u64,
    /// Window offsets of the traps of the control stack's stubs.
    pub cut_traps: [u64; 2],
    /// The function around a window offset: its name and the distance to its start.
    pub function: &'a dyn Fn(u64) -> Option<(String, u64)>,
    /// The domain's index in its world.
    pub index: usize,
    /// A domain's name and those of its places, by index.
    pub names: &'a dyn Fn(usize) -> Option<(String, Arc<Names>)>,
}

/// Describes a fault.
pub fn describe(raw: &RawFault, trace: &Trace, scene: &Scene<'_>) -> Fault {
    let refused = (raw.signal == libc::SIGTRAP).then(|| (scene.refused)(raw.rip.wrapping_sub(scene.base))).flatten();
    let kind = match &refused {
        Some(Refused { check: Check::Store, .. }) => FaultKind::SegmentMatch,
        Some(Refused { check: Check::Branch, .. }) => FaultKind::WildBranch,
        None => classify(raw, scene),
    };
    let behind_call = matches!(raw.signal, libc::SIGILL)
        && matches!(kind, FaultKind::WildBranch | FaultKind::DeadFrame)
        || raw.rip.wrapping_sub(scene.base) >= WINDOW_SIZE;
    let place = if behind_call { raw.caller.wrapping_sub(1) } else { raw.rip };
    let place = match &refused {
        Some(refused) => place.wrapping_add(refused.distance),
        // The processor reports the address behind an int3.
        None if raw.signal == libc::SIGTRAP => place.wrapping_sub(1),
        None => place,
    };
    let find = |place: u64| Some(place.wrapping_sub(scene.base)).filter(|o| *o < WINDOW_SIZE).and_then(scene.function);
    // A call can be ended within a stub, or below a host function.
    let stub = raw.signal == watchdog::SIGNAL || raw.signal == EXIT;
    let direct = find(place);
    let by_caller = behind_call || (direct.is_none() && stub);
    let found = direct.or_else(|| stub.then(|| find(raw.caller.wrapping_sub(1))).flatten());
    let (function, offset) = found.map_or((None, 0), |(name, offset)| (Some(name), offset));
    // The innermost call of the trace is the fault's place where that was found through it.
    let at = if by_caller { raw.caller.wrapping_sub(1) } else { place }.wrapping_sub(scene.base);
    let mut places = Vec::new();
    if at < WINDOW_SIZE
        && let Some((domain, names)) = (scene.names)(scene.index)
    {
        places.push(Place::Code { domain, names, offset: at });
    }
    let skip = usize::from(by_caller && !places.is_empty());
    places.extend(trace::places(trace, skip, scene.names));
    let classes = [AddressClass::Protected, AddressClass::Unmapped].map(FaultKind::Memory);
    let accessed = classes.contains(&kind) || kind == FaultKind::SegmentMatch;
    let region = Some(raw.address).filter(|_| accessed).and_then(scene.region);
    let store = raw.store || kind == FaultKind::SegmentMatch;
    let region = region.map(|name| Box::new((name, store)));
    let stray = refused.map(|Refused { instruction, .. }| {
        let (owner, nearest) = (scene.owner)(raw.address);
        Box::new(Stray { instruction, owner, nearest })
    });
    let calls = Arc::new(Calls { places, more: trace.more() });
    let domain = scene.name.to_owned();
    Fault { domain, kind, function, offset, region, stray, address: raw.address, instruction: place, trace: calls }
}

fn classify(raw: &RawFault, scene: &Scene<'_>) -> FaultKind {
    if raw.control {
        return FaultKind::ControlStackOverflow;
    }
    let rip = raw.rip.wrapping_sub(scene.base);
    match raw.signal {
        watchdog::SIGNAL => match raw.code as u32 & reason::KIND {
            reason::CALL_CPU => FaultKind::CpuLimit,
            reason::DOMAIN_WALL => FaultKind::TimeBudget,
            reason::DOMAIN_CPU => FaultKind::CpuBudget,
            _ => FaultKind::TimeLimit,
        },
        EXIT => FaultKind::Exit(raw.code),
        libc::SIGILL if rip == scene.trap => FaultKind::WildBranch,
        libc::SIGILL if scene.cut_traps.contains(&rip) => FaultKind::DeadFrame,
        libc::SIGILL => FaultKind::IllegalInstruction,
        libc::SIGTRAP => FaultKind::Breakpoint,
        libc::SIGFPE if raw.code == FPE_INTDIV || raw.code == FPE_INTOVF => FaultKind::Division,
        libc::SIGFPE => FaultKind::FloatingPoint,
        libc::SIGBUS if raw.code != SI_KERNEL => FaultKind::Bus,
        _ if raw.code == SI_KERNEL => FaultKind::Memory(AddressClass::Unknown),
        _ => {
            let offset = raw.address.wrapping_sub(scene.base);
            let class = if raw.address < NULL || offset < NULL {
                AddressClass::Null
            } else if (scene.stack_guard[0]..scene.stack_guard[1]).contains(&offset) {
                return FaultKind::DataStackOverflow;
            } else if offset >= WINDOW_SIZE + sfi_contract::layout::GUARD_SIZE {
                // Whoever follows a pointer into a region that it no longer sees did not search.
                if (scene.region)(raw.address).is_some() { AddressClass::Unmapped } else { AddressClass::Outside }
            } else if offset < WINDOW_SIZE && (scene.mapped)(offset) {
                AddressClass::Protected
            } else {
                AddressClass::Unmapped
            };
            FaultKind::Memory(class)
        }
    }
}
