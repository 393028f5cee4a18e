//! The records that the gates (`gate/*.s`) and Rust share. They are plain data with fixed layouts,
//! and this module runs no code of the crossing.
//!
//! All of them live in host memory outside every window. The [`Context`] is the header of a world's
//! control stack. A gateway stub finds it by rounding `rsp` down to [`CONTROL_SIZE`], so no stub
//! holds a secret.

use crate::gate::depths::Depths;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::ids::DomainId;
use crate::gate::room::{Door, Occupant, Room};
use crate::vm::address::HostAddress;
use crate::vm::region::Uppers;
use sfi_contract::layout::WINDOW_SIZE;
use std::mem::MaybeUninit;

/// Size and alignment of a control stack, with its header and guard.
pub(crate) const CONTROL_SIZE: u64 = 4 << 20;
/// Most bytes of the stack area, at the control stack's end. The rest of [`CONTROL_SIZE`] has the
/// header, some 180 KiB of bindings, the guard and the handlers' room.
pub(crate) const MAX_CONTROL_AREA: u64 = 3584 << 10;
/// Offset of the stubs' bindings, after the header. A stub adds the offset of its own binding to
/// the control stack's base.
pub(crate) const BINDINGS_OFFSET: u64 = 4096;
/// Bytes below the stack area for signal handlers of the host, see `fault/signal_room.rs`.
pub(crate) const CONTROL_ROOM: u64 = 256 << 10;
/// Smallest size of the guard between the bindings and that room. It is larger than a signal frame,
/// so no domain can make a handler write over the bindings.
pub(crate) const CONTROL_GUARD: u64 = 64 << 10;
/// Largest number of bytes of the stack area that gates use. A signal's frame must fit besides
/// ([`Context::floor`]).
pub(crate) const GATE_FRAMES: u64 = 4096;
/// Depth to which host functions may call back into domains.
pub const MAX_DEPTH: u32 = 64;

/// The outcome of a crossing: the domain's `__sfi_error`, and the code that a gate gives the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// The crossing returned normally.
    Ok = 0,
    /// The callee faulted.
    Fault = 1,
    /// The callee had faulted before, or the caller faulted while the callee ran.
    Dead = 2,
    /// The callee is active and its data stack pointer is not usable for a nested call.
    Refused = 3,
    /// A stack argument lies outside the caller's or the callee's data stack.
    Arguments = 4,
    /// The host function returned an error.
    Host = 5,
    /// A host function panicked. Only the host sees this.
    Panic = 6,
    /// The binding leads nowhere: it was never made, was undone, or its server is gone.
    Unbound = 7,
    /// The callee is dead and its owner's penalties are not over. It can be restarted later.
    NotReady = 8,
    /// A `ptr` argument or result is a function pointer. Function pointers cross as `fn`.
    Code = 9,
    /// An `fn` argument is no function pointer of the caller, or its function is gone.
    Function = 10,
    /// The callee has no gateway left for a function that a caller passes to it.
    Exhausted = 11,
    /// Other callers have all E-stacks of the callee, and the time to wait for one is over.
    Occupied = 12,
    /// Other callers have all E-stacks of the callee, and wait for some that this caller has.
    Deadlock = 13,
}

impl Status {
    /// All statuses, in the order of their codes.
    const ALL: [Self; 14] = [
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
        Self::Occupied,
        Self::Deadlock,
    ];

    /// Returns the status with this code. Gates give no other codes. Another one would count as
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

/// Header of a control stack: the gates' view of a world.
#[repr(C)]
pub(crate) struct Context {
    /// Lowest rsp at which a gate may be entered. The watchdog sets it above all addresses to stop
    /// a call that overstays its time.
    pub limit: u64,
    /// The domain that runs, or that ran last if the host runs. While it runs, GS base is the base
    /// of its window, or that of its caller if its text uses no GS.
    pub current: *mut DomainState,
    /// Innermost frame that entered a domain, a [`FrameStart`](crate::gate::frame::FrameStart). 0
    /// if there is none.
    pub top: u64,
    /// While the host runs: the place on the control stack where the next entry from the host
    /// continues. While a host function runs, that is its [`Frame`](crate::gate::frame::Frame).
    pub control_sp: u64,
    /// While a domain runs: the host's stack pointer at the innermost entry.
    pub host_rsp: u64,
    /// The thread that runs this world now.
    pub thread: *mut ThreadState,
    /// MXCSR of the host at the innermost entry.
    pub host_mxcsr: u32,
    /// The x87 control word of the host at the innermost entry, in the lower half.
    pub host_control_word: u32,
    /// Scratch space of the gates.
    pub scratch: u64,
    /// Number of host functions in progress.
    pub depth: u32,
    /// Not 0 if some domain of the world has a budget of instructions, which each call of the host
    /// renews.
    pub budgeted: u32,
    /// Not 0 if some text can see where the last x87 instruction was ([`sfi_verifier::Usage`]), so
    /// that a reset of x87 hides that.
    pub x87_places: u32,
    /// The first of the world's domains. [`DomainState::next`] links the others.
    pub domains: *mut DomainState,
    /// The world's record, for the host's use.
    pub world: *mut (),
    /// The world's time limit. Null if it has none.
    pub watch: *const (),
    /// Binding of the host function that restarts a dead callee. Null if the world restarts no
    /// domain.
    pub revive: *const Binding,
    /// Normal value of `limit`. Leaves room for a gate's frames and one signal frame. The watchdog
    /// raises `limit` to stop a call.
    pub floor: u64,
    /// In worlds with budgets: the time-stamp counter at the last entry of, or return to, the
    /// domain that runs.
    pub since: u64,
    /// Ticks that were charged to any domain.
    pub ticks: u64,
    /// The waits of the thread, in worlds where a budget counts processor time.
    pub waits: Waits,
    /// Lowest address of the stack area. Never changes.
    pub low: u64,
    /// Says whether the handlers' room is open. Only signal handlers of the world's thread use it.
    pub room: bool,
    /// Binding of the host function that waits for an E-stack. Null unless the world is a lane.
    pub take: *const Binding,
    /// The thread that runs a lane, for other threads. Null unless the world is a lane.
    pub occupant: *const Occupant,
}

/// The comparison of charged ticks with the thread's own clock (fault/meter.rs).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// The time-stamp counter from which on the next crossing compares. All ones if no budget
    /// counts processor time.
    pub look: u64,
    /// [`Context::ticks`] at the last comparison.
    pub ticks: u64,
    /// The thread's clock in nanoseconds at the last comparison.
    pub clock: u64,
    /// Ticks of a nanosecond, times 2^32.
    pub pace: u64,
    /// Ticks in which the thread waited, and that no domain got back yet.
    pub left: u64,
    /// Room for the kernel's answer: seconds and nanoseconds.
    pub answer: [u64; 2],
}

impl Waits {
    /// Nothing is compared.
    pub(crate) const NONE: Self = Self { look: u64::MAX, ticks: 0, clock: 0, pace: 0, left: 0, answer: [0; 2] };
}

/// A domain's time in ticks of the time-stamp counter, and its budgets in nanoseconds. A budget of
/// 0 is no bound.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Ticks in the domain.
    pub ticks: u64,
    /// Ticks of these in which the thread did not run.
    pub relief: u64,
    /// `ticks - relief` when waits were last shared out.
    pub mark: u64,
    /// Budget of wall-clock time.
    pub wall: u64,
    /// Budget of processor time.
    pub cpu: u64,
    /// Crossings: its calls of other domains and of the host, and the host's calls of it.
    pub crossings: u64,
}

/// The faults that a domain handles itself, see `fault/deliver.rs`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Caught {
    /// Bits by signal number.
    pub signals: u64,
    /// Address of the function in which the domain continues.
    pub entry: HostAddress,
    /// Its own text without the stubs: start and end.
    pub text: [HostAddress; 2],
    /// Address of its first trap.
    pub trap: HostAddress,
}

/// The gates' view of a domain.
#[repr(C)]
pub(crate) struct DomainState {
    /// Base of the window.
    pub base: HostAddress,
    /// Data stack pointer for the next entry, 16-byte aligned. 0 if the domain cannot be entered
    /// now.
    pub sp: u64,
    /// Lowest address of the data stack.
    pub stack_low: HostAddress,
    /// Highest data stack pointer that counts as inside the data stack.
    pub stack_high: HostAddress,
    /// [`Status::Ok`] while the domain lives. After a fault, the status that its callers get.
    pub dead: Status,
    /// Number in the world.
    pub index: DomainId,
    /// Address of the TCB page.
    pub tcb: HostAddress,
    /// Window offset of the dispatch table, and its length in bytes.
    pub dispatch: u32,
    pub dispatch_size: u32,
    /// Changes when the domain moves, so that owners of its addresses notice.
    pub generation: u64,
    /// Number of an instance. 0 for domains of the specification, and after an instance was
    /// discarded.
    pub life: u64,
    /// Another domain of the world. The first one is [`Context::domains`].
    pub next: *mut DomainState,
    /// Address of the places for parts of the control stack that the domain keeps, and their
    /// number ([`crate::gate::kept`]).
    pub parts_at: HostAddress,
    pub parts: u64,
    /// The words that its functions save on the control stack.
    pub depths: Depths,
    /// The upper halves of the common addresses of the regions that it sees.
    pub regions: Uppers,
    /// Base of the window in which its text runs. It is `base`, except for a further thread, which
    /// has a window of its own for everything but text.
    pub text: HostAddress,
    /// The lane's way in, and what all lanes know of the domain. Null unless the world is a lane.
    pub door: *const Door,
    pub room: *const Room,
    /// Its time, in worlds with budgets.
    pub account: Account,
    /// Its budget of instructions in a call of the host, 0 if it has none.
    pub instructions: u64,
    /// The rest of them while the domain does not run. While it runs the rest is in r14. 0 if it
    /// has no budget.
    pub left: u64,
    /// The faults that it handles itself.
    pub caught: Caught,
    /// The last fault.
    pub fault: RawFault,
    /// The calls in progress at the last fault.
    pub trace: Trace,
}

impl DomainState {
    /// Says whether an instruction lies in the window in which the domain's text runs.
    pub(crate) fn runs_at(&self, rip: u64) -> bool {
        rip.wrapping_sub(self.text.number()) < WINDOW_SIZE
    }

    /// Returns the state of a domain that cannot be entered.
    pub(crate) fn nobody(index: DomainId) -> Self {
        let null = HostAddress::NULL;
        let (base, sp, stack_low, stack_high) = (null, 0, null, null);
        let (dead, fault) = (Status::Dead, RawFault::default());
        Self {
            base,
            sp,
            stack_low,
            stack_high,
            dead,
            index,
            tcb: HostAddress::NULL,
            dispatch: 0,
            dispatch_size: 0,
            generation: 0,
            life: 0,
            next: std::ptr::null_mut(),
            parts_at: null,
            parts: 0,
            depths: Depths::NONE,
            regions: Uppers::NONE,
            text: null,
            door: std::ptr::null(),
            room: std::ptr::null(),
            account: Account::default(),
            instructions: 0,
            left: 0,
            caught: Caught::default(),
            fault,
            trace: Trace::EMPTY,
        }
    }
}

/// Flags of a [`Binding`]: work of its crossings off the common path.
pub(crate) mod flag {
    /// Stack arguments are copied.
    pub(crate) const STACK: u32 = 1;
    /// Some integer arguments are pointers. They are rebased to the callee's window, unless they
    /// point into a region that the callee sees.
    pub(crate) const POINTERS: u32 = 2;
    /// x87 and MMX state is reset in both directions, and the caller's control word is restored.
    pub(crate) const X87: u32 = 4;
    /// zmm16-31 and the mask registers are cleared before the callee runs.
    pub(crate) const ZMM_IN: u32 = 8;
    /// zmm16-31 and the mask registers are cleared before the caller continues.
    pub(crate) const ZMM_OUT: u32 = 16;
    /// The result is a pointer. It is rebased to the caller's window like [`POINTERS`].
    pub(crate) const POINTER_RESULT: u32 = 32;
    /// Between host and domain: floating-point arguments cross.
    pub(crate) const FLOATS: u32 = 64;
    /// A domain on one side names MXCSR, so it is saved, set and restored.
    pub(crate) const MXCSR: u32 = 128;
    /// On the way out: rbx, rbp and r12-r14 are restored from the frame.
    pub(crate) const PRESERVED: u32 = 256;
    /// Stack arguments are not copied. The callee gets their address.
    pub(crate) const CLIENT_STACK: u32 = 512;
    /// Between host and domain: the domain's text names vector registers.
    pub(crate) const VECTORS: u32 = 1024;
    /// The host enters a domain.
    pub(crate) const ENTRY: u32 = 2048;
    /// The caller has a budget of instructions. What is left of it is kept during the call.
    pub(crate) const CALLER_PAYS: u32 = 4096;
    /// The callee has a budget of instructions. What is left of it is kept after the call.
    pub(crate) const CALLEE_PAYS: u32 = 8192;
    /// Flags that take a gate off the common path on the way in.
    pub(crate) const IN: u32 = STACK | POINTERS | X87 | ZMM_IN | MXCSR;
    /// Flags that take a gate off the common path on the way out.
    pub(crate) const OUT: u32 = X87 | ZMM_OUT | POINTER_RESULT | MXCSR | CALLER_PAYS;
}

/// First bit of the functions in [`Binding::pointers`].
pub(crate) const FUNCTIONS: u32 = 8;

/// One granted crossing (ARPC section 3.2.1): the callee, its function, and the registers to clear.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    /// The domain that calls enter.
    pub callee: *mut DomainState,
    /// Absolute address of the callee's function.
    pub entry: HostAddress,
    /// Code that clears the registers that the callee must not see, and jumps to its function. See
    /// `ARGUMENTS` in gate/common.s.
    pub arguments: usize,
    /// Code that clears the registers that the caller must not see, and returns to it. See
    /// `RESULTS` there.
    pub results: usize,
    /// Code that continues after a fault of the callee. rsp is the frame, eax a [`Status`].
    pub failed: usize,
    /// Value of rax for a domain whose call failed.
    pub on_fault: u64,
    /// Flags of [`flag`] for the way in, and for the way out if the callee returns.
    pub flags: u32,
    /// Number of words of stack arguments.
    pub stack_words: u32,
    /// Bit i says that integer argument i is a pointer. For host functions, bit [`FUNCTIONS`] + i
    /// says that it is a function.
    pub pointers: u32,
    /// Host functions: the number of integer argument registers in the signature. `stack_words`
    /// words of the caller's stack are arguments, too.
    pub ints: u32,
    /// Host functions: the number of floating-point argument registers.
    pub floats: u32,
    /// Entries from the host: the bits of MXCSR that the domain may see or depends on.
    pub mxcsr: u32,
    /// Flags of [`flag`] for the way out if the callee does not return, or its caller is dead.
    pub failing: u32,
    /// Base of the callee's window.
    pub base: HostAddress,
    /// Host functions: `extern "C" fn(*mut Context, *const Binding, *mut HostFrame) -> Status` that
    /// runs the function.
    pub shim: usize,
    /// Host functions: the shim's data.
    pub data: *mut (),
    /// The gate. Stubs jump through this word.
    pub gate: usize,
    /// The domain that calls return from. It is `callee`, unless the binding was undone while a
    /// call by it was in progress: then it is the callee of that call.
    pub server: *mut DomainState,
    /// Worlds with budgets: the code of `arguments` and `results` that runs after the time is
    /// charged ([`crate::gate::meter`]).
    pub metered: [usize; 2],
    /// Lanes: the gate, the code of `results` behind the door, and the callee's door
    /// ([`crate::gate::lane`]).
    pub lane: [usize; 3],
}

/// Registers of a call from the host, and of its results.
#[derive(Clone, Copy)]
pub(crate) struct CallFrame {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub ints: [u64; 6],
    /// Low halves of xmm0-xmm7. Used only with [`flag::FLOATS`].
    pub floats: [u64; 8],
    /// The callee's data stack pointer at entry.
    pub sp: u64,
    /// rax of the result.
    pub rax: u64,
    /// rdx of the result.
    pub rdx: u64,
    /// Low half of xmm0 of the result.
    pub xmm0: u64,
    /// Low half of xmm1 of the result.
    pub xmm1: u64,
}

impl CallFrame {
    /// Returns a frame without arguments.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { ints: [0; 6], floats: [0; 8], sp: 0, rax: 0, rdx: 0, xmm0: 0, xmm1: 0 }
    }
}

/// Registers of a call to a host function, on the host's stack.
#[repr(C)]
pub(crate) struct HostFrame {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub ints: [u64; 6],
    /// Low halves of xmm0-xmm7. Undefined without [`flag::FLOATS`].
    pub floats: [MaybeUninit<u64>; 8],
    /// The caller's r15. It may have any value.
    pub r15: u64,
    /// rax of the result.
    pub rax: u64,
    /// rdx of the result.
    pub rdx: u64,
    /// Low half of xmm0 of the result.
    pub xmm0: u64,
    /// Low half of xmm1 of the result.
    pub xmm1: u64,
    /// Address of the crossing's frame on the control stack. After the call it leads the gate to
    /// the world's context.
    pub frame: u64,
}

impl HostFrame {
    /// Sets all registers of the result to 0. The caller gets every one of them.
    #[inline]
    pub(crate) fn clear_results(&mut self) {
        (self.rax, self.rdx, self.xmm0, self.xmm1) = (0, 0, 0, 0);
    }
}

/// A thread's record for this library. A thread local leads to it.
#[repr(C)]
pub(crate) struct ThreadState {
    /// The base in this thread's GS, as this library set it. 0 if it never did. Linux leaves GS to
    /// user code, and neither glibc nor Rust uses it.
    pub gs: u64,
    /// The innermost world that this thread runs. The signal handler reads it.
    pub current: *mut Context,
    /// Says whether the thread's alternate signal stack is installed.
    pub ready: bool,
    /// The kernel's id of the thread, set by its first call with a time limit. 0 before.
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
