//! The frames of crossings on the control stack, and the one walk over them.
//!
//! Gates write frames and read them again (`gate/*.s`). A domain's code cannot reach them: it pops
//! only what it pushed (rule `SFI-C03`), and the control stack lies outside every window. So a walk
//! cannot be misled, and it may run in a signal handler.
//!
//! From a world's outermost call inwards the control stack holds, from high addresses to low ones:
//!
//! - the [`HostEntry`] of the host's call, then the return addresses and saved registers of the
//!   entered domain ([`crate::gate::depths`]);
//! - for each call between domains a [`Frame`], then those of the callee;
//! - for each call of a host function a [`Frame`], and directly below it the [`HostEntry`] of the
//!   call that the host function makes.

use crate::gate::control_stack::ControlStack;
use crate::gate::records::{Binding, Context, DomainState, flag};

/// The start of every frame.
#[repr(C)]
pub(crate) struct FrameStart {
    /// The crossing.
    pub binding: *const Binding,
    /// Address of the callee's function. In the frame of a host function: [`flag::MXCSR`] if
    /// [`Frame::mxcsr`] holds the caller's value, else 0.
    pub entry: u64,
}

/// The frame of an entry from the host. The host's registers are on the host's stack.
#[repr(C)]
pub(crate) struct HostEntry {
    /// The crossing and its target.
    pub start: FrameStart,
    /// The host's stack pointer. Only debuggers read it.
    pub host_rsp: u64,
}

/// The frame of a call between domains or of a host function: the calling domain's state.
#[repr(C)]
pub(crate) struct Frame {
    /// The crossing and its target.
    pub start: FrameStart,
    /// The domain that calls.
    pub caller: *mut DomainState,
    /// The frame that entered the calling domain.
    pub outer: *const FrameStart,
    /// The calling domain's data stack pointer for entries, before this call.
    pub sp: u64,
    /// Base of the calling domain's window. In the frame of a host function only once it returned.
    pub base: u64,
    /// The caller's x87 control word, if the crossing saves it.
    pub control_word: u32,
    /// The caller's MXCSR, if the crossing saves it.
    pub mxcsr: u32,
    /// The caller's data stack pointer at the call.
    pub r15: u64,
    /// The other preserved registers, if the crossing saves them.
    pub r14: u64,
    /// See `r14`.
    pub r13: u64,
    /// See `r14`.
    pub r12: u64,
    /// See `r14`.
    pub rbp: u64,
    /// See `r14`.
    pub rbx: u64,
    /// The return address of the call that entered the gate. The domain pushed it.
    pub return_address: u64,
}

/// The arguments of a call that waits for the restart of its callee. Lies below the call's return
/// address.
#[repr(C)]
pub(crate) struct Kept {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub ints: [u64; 6],
    /// xmm0-xmm7.
    pub vectors: [[u64; 2]; 8],
    /// The crossing.
    pub binding: *const Binding,
}

/// A domain with a call in progress. It runs, or it waits for another domain or for the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    /// The domain.
    pub domain: *mut DomainState,
    /// Address of its innermost return address. Above it lie the others, among saved registers.
    pub at: u64,
    /// The crossing through which it left. The return reads it again. Null if the domain runs.
    pub left_by: *const Binding,
    /// The frame that entered it.
    pub entered: *const FrameStart,
}

impl Active {
    /// Returns the domain that runs. `at` is the place of its innermost return address.
    pub(crate) fn running(context: &Context, at: u64) -> Self {
        let entered = context.top as *const FrameStart;
        Self { domain: context.current, at, left_by: std::ptr::null(), entered }
    }

    /// Returns the domain that called the host function in progress.
    ///
    /// # Safety
    /// `context` is that of a world whose host function runs.
    pub(crate) unsafe fn calling_host(context: &Context) -> Self {
        // SAFETY: see the function's contract.
        unsafe { Self::waiting(context, context.control_sp as *const Frame) }
    }

    /// Returns the domain that waits for a frame's callee.
    ///
    /// # Safety
    /// `frame` is a frame of a call in progress of the world with this context.
    unsafe fn waiting(context: &Context, frame: *const Frame) -> Self {
        // SAFETY: see the function's contract.
        unsafe {
            let (left_by, mut at) = ((*frame).start.binding, &raw const (*frame).return_address as u64);
            // A gate called the host to restart the callee or to take an E-stack. No domain has
            // these bindings. The domain's own return address lies above the arguments, which the
            // gate keeps meanwhile.
            if left_by == context.revive || left_by == context.take {
                at += (size_of::<u64>() + size_of::<Kept>()) as u64;
            }
            Self { domain: (*frame).caller, at, left_by, entered: (*frame).outer }
        }
    }

    /// Says whether the host entered the domain, and not another domain.
    ///
    /// # Safety
    /// The domain is active in a call in progress.
    pub(crate) unsafe fn entered_by_host(&self) -> bool {
        // SAFETY: the frame is on the control stack while the domain is active, and a binding stays
        // while a frame refers to it.
        unsafe { (*(*self.entered).binding).flags & flag::ENTRY != 0 }
    }

    /// Returns the domain that waits for this one. If the host entered this one, that is the domain
    /// that called the host function in progress, or `None` for the host's outermost call.
    ///
    /// # Safety
    /// The domain is active in a call in progress of the world with this context.
    pub(crate) unsafe fn outer(&self, context: &Context) -> Option<Self> {
        // SAFETY: see the function's contract. A frame starts with an entry, and a host function's
        // frame lies directly above the entry of a call that the function makes.
        unsafe {
            let above = match self.entered_by_host() {
                true => self.entered.cast::<HostEntry>().add(1).cast(),
                false => self.entered.cast::<Frame>(),
            };
            (above as u64 != ControlStack::top_of(context)).then(|| Self::waiting(context, above))
        }
    }
}
