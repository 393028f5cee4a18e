//! The records that the gates (`gate/*.s`) and Rust share. Plain data with fixed layouts; nothing
//! here runs.
//!
//! All of them live in host memory outside every window. The [`Context`] is the header of a world's
//! control stack: a gateway stub reaches it by rounding `rsp` down to [`CONTROL_SIZE`], so that no
//! stub holds a secret.

use crate::gate::fault::{RawFault, Trace};
use crate::vm::region::Uppers;
use std::mem::MaybeUninit;

/// Size and alignment of a control stack, its header and guard included.
pub(crate) const CONTROL_SIZE: u64 = 4 << 20;
/// Bytes of the stack area, at the control stack's end.
pub(crate) const CONTROL_AREA: u64 = 1 << 20;
/// Where the bindings of the stubs begin, behind the header. A stub adds the offset of its own to
/// the control stack's base.
pub(crate) const BINDINGS_OFFSET: u64 = 4096;
/// Bytes below the stack area that are for signal handlers of the host, see `fault/signal_room.rs`.
pub(crate) const CONTROL_ROOM: u64 = 256 << 10;
/// Least guard between the bindings and that room. Larger than a signal frame, so that no handler
/// can be made to write over the bindings.
pub(crate) const CONTROL_GUARD: u64 = 64 << 10;
/// Bytes of the stack area that gates use, at most; they get a signal's frame besides
/// ([`Context::floor`]).
pub(crate) const GATE_FRAMES: u64 = 4096;
/// Deepest nesting of host functions that call back into domains.
pub const MAX_DEPTH: u32 = 64;

/// How a crossing ended: the domain's `__sfi_error` and the code that a gate gives the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// The crossing returned normally.
    Ok = 0,
    /// The callee faulted.
    Fault = 1,
    /// The callee had faulted before, or the caller did while the callee ran.
    Dead = 2,
    /// The callee is active and its data stack pointer is not usable for a nested call.
    Refused = 3,
    /// A stack argument lies outside the caller's or the callee's data stack.
    Arguments = 4,
    /// The host function returned an error.
    Host = 5,
    /// A host function panicked; only the host sees this.
    Panic = 6,
    /// The binding leads nowhere: it was never made, was undone, or its server is gone.
    Unbound = 7,
    /// The callee is dead, and its owner's penalties are not over: it can be restarted later.
    NotReady = 8,
    /// A `ptr` argument or result is a function pointer: those cross as `fn`.
    Code = 9,
    /// An `fn` argument is no function pointer of the caller, or one that leads nowhere any more.
    Function = 10,
    /// The callee has no gateway left for a function that is passed to it.
    Exhausted = 11,
}

impl Status {
    /// All of them, in the order of their codes.
    const ALL: [Self; 12] = [
        Self::Ok,
        Self::Fault,
        Self::Dead,
        Self::Refused,
        Self::Arguments,
        Self::Host,
        Self::Panic,
        Self::Unbound,
        Self::NotReady,
        Self::Code,
        Self::Function,
        Self::Exhausted,
    ];

    /// Returns the status with this code. Gates give no other codes; one would count as
    /// [`Status::Dead`].
    #[inline]
    pub(crate) fn of(code: u32) -> Self {
        if code == Self::Ok as u32 { Self::Ok } else { Self::of_failure(code) }
    }

    #[cold]
    #[inline(never)]
    fn of_failure(code: u32) -> Self {
        Self::ALL.get(code as usize).copied().unwrap_or(Self::Dead)
    }
}

impl From<Status> for u32 {
    fn from(status: Status) -> Self {
        status as Self
    }
}

impl From<Status> for u64 {
    fn from(status: Status) -> Self {
        status as Self
    }
}

/// Header of a control stack. The gates' view of a world.
#[repr(C)]
pub struct Context {
    /// Lowest rsp at which a gate may be entered; above all addresses while the call overstays its
    /// time.
    pub limit: u64,
    /// The domain that runs, or that ran last when the host runs; GS base is its window while it
    /// runs.
    pub current: *mut DomainState,
    /// Innermost frame that entered a domain, an [`Entry`](crate::gate::frame::Entry). 0: none.
    pub top: u64,
    /// Where the next entry from the host continues on the control stack; valid while the host
    /// runs. While a host function runs, its [`Frame`](crate::gate::frame::Frame).
    pub control_sp: u64,
    /// The host's stack pointer of the innermost entry; valid while a domain runs.
    pub host_rsp: u64,
    /// The thread that runs this world now.
    pub thread: *mut ThreadState,
    /// MXCSR of the host at the innermost entry; the upper half holds the x87 control word.
    pub host_mxcsr: u64,
    /// A word for the gates.
    pub scratch: u64,
    /// Host functions in progress.
    pub depth: u32,
    /// The first of the world's domains, which are linked by [`DomainState::next`].
    pub domains: *mut DomainState,
    /// The world's record, for the host's use.
    pub world: *mut (),
    /// The world's time limit; null without one.
    pub watch: *const (),
    /// Binding of the host function that is asked to restart a dead callee; null if no domain is
    /// restarted.
    pub revive: *const Binding,
    /// What `limit` is unless the call overstays: a gate's own frames and a signal's fit below.
    pub floor: u64,
    /// Worlds with budgets: the time-stamp counter when the domain that runs was entered or
    /// returned to.
    pub since: u64,
    /// Ticks that were charged to all domains.
    pub ticks: u64,
    /// The handlers' room is open. Only signal handlers of the thread that runs the world touch it.
    pub room: bool,
}

/// What was charged to a domain for its time, in ticks of the time-stamp counter, and what it may
/// use, in nanoseconds (0: no bound).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Time in the domain.
    pub ticks: u64,
    /// Of that, time in which the thread did not run.
    pub relief: u64,
    /// `ticks` when `relief` was last found.
    pub mark: u64,
    /// Wall clock.
    pub wall: u64,
    /// Processor time.
    pub cpu: u64,
}

/// Faults that a domain handles itself, see `fault/deliver`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Caught {
    /// Bits by signal number.
    pub signals: u64,
    /// Address of the function that the domain goes on in.
    pub entry: u64,
    /// Its own text, without the stubs: start and end.
    pub text: [u64; 2],
    /// Address of its trap.
    pub trap: u64,
}

/// What the gates know of a domain.
#[repr(C)]
pub struct DomainState {
    /// Base of the window.
    pub base: u64,
    /// Data stack pointer for the next entry, 16-byte aligned; 0 means the domain cannot be entered
    /// now.
    pub sp: u64,
    /// Lowest address of the data stack.
    pub stack_low: u64,
    /// Highest data stack pointer that counts as inside the data stack.
    pub stack_high: u64,
    /// [`Status::Ok`] while the domain lives. After a fault: the status that its callers get.
    pub dead: Status,
    /// Index in the world.
    pub index: u32,
    /// Address of the TCB page.
    pub tcb: u64,
    /// Window offset of the dispatch table, and its length in bytes.
    pub dispatch: u32,
    pub dispatch_size: u32,
    /// Changes when the domain moves: whoever kept an address of it compares.
    pub generation: u64,
    /// Number of an instance; 0 for domains that were described, and after an instance was
    /// discarded.
    pub life: u64,
    /// Another domain of the world; the first is [`Context::domains`].
    pub next: *mut DomainState,
    /// The upper halves of the common addresses of the regions that it sees.
    pub regions: Uppers,
    /// Worlds with budgets.
    pub account: Account,
    /// The faults that it handles itself.
    pub caught: Caught,
    /// The last fault.
    pub fault: RawFault,
    /// The calls in progress at the last fault.
    pub trace: Trace,
}

impl DomainState {
    /// Nobody can enter it.
    pub fn nobody(index: usize) -> Self {
        let (base, sp, stack_low, stack_high) = (0, 0, 0, 0);
        let (dead, fault) = (Status::Dead, RawFault::default());
        Self {
            base,
            sp,
            stack_low,
            stack_high,
            dead,
            index: index as u32,
            tcb: 0,
            dispatch: 0,
            dispatch_size: 0,
            generation: 0,
            life: 0,
            next: std::ptr::null_mut(),
            regions: Uppers::NONE,
            account: Account::default(),
            caught: Caught::default(),
            fault,
            trace: Trace::EMPTY,
        }
    }
}

/// Flags of a [`Binding`]: work that its crossings need besides the common path.
pub(crate) mod flag {
    /// Stack arguments are copied.
    pub(crate) const STACK: u32 = 1;
    /// Some integer arguments are pointers: rebased to the callee's window, unless they lead into a
    /// region that it sees.
    pub(crate) const POINTERS: u32 = 2;
    /// x87 and MMX state is reset in both directions and the caller's control word is restored.
    pub(crate) const X87: u32 = 4;
    /// zmm16-31 and the mask registers are cleared when the callee is entered.
    pub(crate) const ZMM_IN: u32 = 8;
    /// zmm16-31 and the mask registers are cleared when the caller is returned to.
    pub(crate) const ZMM_OUT: u32 = 16;
    /// The result is a pointer, in the same way for the caller.
    pub(crate) const POINTER_RESULT: u32 = 32;
    /// Between host and domain: floating-point arguments cross.
    pub(crate) const FLOATS: u32 = 64;
    /// MXCSR is named by a domain on one side: it is saved, set and restored.
    pub(crate) const MXCSR: u32 = 128;
    /// On the way out: rbx, rbp and r12-r14 are restored from the frame.
    pub(crate) const PRESERVED: u32 = 256;
    /// Stack arguments are not copied; the callee gets their address.
    pub(crate) const CLIENT_STACK: u32 = 512;
    /// Between host and domain: the domain's text names vector registers.
    pub(crate) const VECTORS: u32 = 1024;
    /// The host enters a domain.
    pub(crate) const ENTRY: u32 = 2048;
    /// What makes a gate leave the common path on the way in.
    pub(crate) const IN: u32 = STACK | POINTERS | X87 | ZMM_IN | MXCSR;
    /// What makes a gate leave the common path on the way out.
    pub(crate) const OUT: u32 = X87 | ZMM_OUT | POINTER_RESULT | MXCSR;
}

/// See [`Binding::pointers`].
pub(crate) const FUNCTIONS: u32 = 8;

/// One granted crossing (ARPC section 3.2.1): who is called, where, and what is cleared.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Binding {
    /// The callee; null for host functions.
    pub callee: *mut DomainState,
    /// Absolute address of the callee's function.
    pub entry: u64,
    /// Code that clears what the callee must not see and jumps to its function, see `ARGUMENTS` in
    /// gate/common.s.
    pub arguments: usize,
    /// Code that clears what the caller must not see and returns to it, see `RESULTS` there.
    pub results: usize,
    /// Code that continues after a fault of the callee; rsp is the frame, eax a [`Status`].
    pub failed: usize,
    /// Value of rax for a domain whose call failed.
    pub on_fault: u64,
    /// See [`flag`]: the way in, and the way out when the callee returns.
    pub flags: u32,
    /// Words of stack arguments.
    pub stack_words: u32,
    /// Bit i: integer argument i is a pointer. Host functions: bit [`FUNCTIONS`] + i: it is a
    /// function.
    pub pointers: u32,
    /// Index of the host function.
    pub host: u32,
    /// Host functions: how many integer argument registers the signature names. Beside them,
    /// `stack_words` words of the caller's stack are arguments.
    pub ints: u32,
    /// Host functions: how many floating-point ones.
    pub floats: u32,
    /// Entries from the host: the bits of MXCSR that the domain may see or depends on.
    pub mxcsr: u32,
    /// See [`flag`]: the way out when the callee does not return, or not to a living caller.
    pub failing: u32,
    /// Base of the callee's window.
    pub base: u64,
    /// Host functions: `extern "C" fn(*mut Context, *const Binding, *mut HostFrame) -> Status` that
    /// runs it.
    pub shim: usize,
    /// Host functions: what the shim needs.
    pub data: *mut (),
    /// The intermediary: the stubs jump through this word.
    pub gate: usize,
    /// Worlds with budgets: where `arguments` and `results` lead in others
    /// ([`crate::gate::meter`]).
    pub metered: [usize; 2],
}

/// Registers of a call from the host, and its results.
#[derive(Clone, Copy)]
pub struct CallFrame {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub ints: [u64; 6],
    /// Low halves of xmm0-xmm7; used only with [`flag::FLOATS`].
    pub floats: [u64; 8],
    /// The callee's data stack pointer at entry.
    pub sp: u64,
    /// rax of the result.
    pub rax: u64,
    /// Low half of xmm0 of the result.
    pub xmm0: u64,
}

impl CallFrame {
    /// No arguments.
    #[inline]
    pub fn new() -> Self {
        Self { ints: [0; 6], floats: [0; 8], sp: 0, rax: 0, xmm0: 0 }
    }
}

/// Registers of a call to a host function, on the host's stack.
#[repr(C)]
pub(crate) struct HostFrame {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub ints: [u64; 6],
    /// Low halves of xmm0-xmm7; undefined without [`flag::FLOATS`].
    pub floats: [MaybeUninit<u64>; 8],
    /// The caller's r15, hostile.
    pub r15: u64,
    /// rax of the result.
    pub rax: u64,
    /// Low half of xmm0 of the result.
    pub xmm0: u64,
    /// The world's: for the gate, behind the call.
    pub context: *mut Context,
}

/// What a thread knows about itself; reached through a thread local.
#[repr(C)]
pub struct ThreadState {
    /// The base that this thread's GS holds, as far as this library set it; 0 when it never did.
    /// Linux leaves GS to user code and neither glibc nor Rust uses it.
    pub gs: u64,
    /// The innermost world that this thread runs, for the signal handler.
    pub current: *mut Context,
    /// Whether the thread's alternate signal stack is installed.
    pub ready: bool,
    /// The kernel's id of the thread, once it made a call with a time limit; otherwise 0.
    pub id: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_statuses_correspond() {
        for (code, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!((status as usize, Status::of(code as u32)), (code, status));
        }
        assert_eq!(Status::of(Status::ALL.len() as u32), Status::Dead);
    }
}
