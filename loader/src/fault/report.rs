//! Faults in the form that hosts see.

use crate::fault::stray::Stray;
use crate::fault::trace::{self, Backtrace, FaultThread, TracedPlace};
use sfi_contract::text::clean;
use std::fmt;
use std::sync::Arc;

/// The target of a faulting access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// The first 64 KiB of the address space or of the domain's window.
    Null,
    /// A mapped part of the domain's window whose protection forbids the access.
    Protected,
    /// An unmapped part of the domain's window, the guard after it, or a region that the domain saw
    /// and that is no longer mapped there.
    Unmapped,
    /// Any other place.
    Outside,
    /// Not an address: not canonical, or not reported by the processor.
    Unknown,
}

/// The kind of a fault that ended a call.
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
    /// `ud2`, or an instruction that this processor does not have.
    IllegalInstruction,
    /// `int3`: a trap of the code itself, or control ran past a function's end.
    Breakpoint,
    /// An indirect call or jump whose pointer is no function of the domain.
    WildBranch,
    /// A jump out of functions that are no longer active, or that belong to another crossing: a
    /// stale or forged `jmp_buf`.
    DeadFrame,
    /// A switch of fibers found no room: more of them wait than [`crate::DomainSpec::fibers`]
    /// allows, one of them has more calls in progress than a place holds, or the control stack is
    /// too full for the one that goes on.
    Fiber,
    /// Mode match: the check before a store found an address outside the domain's window.
    /// [`Fault::stray`] describes the address. For an indirect branch the kind is
    /// [`FaultKind::WildBranch`].
    SegmentMatch,
    /// The memory of a mapping is gone (`SIGBUS`).
    Bus,
    /// The call took longer than [`crate::Builder::time_limit`], or its own limit, allows.
    TimeLimit,
    /// The call used more processor time than its limit allows.
    CpuLimit,
    /// The domain ran longer than its own budget allows ([`crate::DomainSpec::budget`]).
    TimeBudget,
    /// The domain used more processor time than its own budget allows.
    CpuBudget,
    /// The domain ran all instructions that [`crate::DomainSpec::instructions`] allows in one call.
    InstructionBudget,
    /// The domain asked to end: `exit`, or a signal to itself. The number is its exit status.
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
            FaultKind::Fiber => "no room to switch fibers (too many of them wait, or too many calls in one)",
            FaultKind::Breakpoint => "breakpoint trap",
            FaultKind::WildBranch => "indirect branch to something that is not a function",
            FaultKind::SegmentMatch => "store outside the segment",
            FaultKind::Bus => "the memory of a mapping is gone",
            FaultKind::TimeLimit => "time limit exceeded",
            FaultKind::CpuLimit => "limit on processor time exceeded",
            FaultKind::TimeBudget => "the domain's time budget is used up",
            FaultKind::CpuBudget => "the domain's budget of processor time is used up",
            FaultKind::InstructionBudget => "the domain's budget of instructions is used up",
        })
    }
}

/// A fault of a domain. `Display` reveals no address, because the places of domains are secrets.
#[derive(Clone)]
pub struct Fault {
    /// The domain's name.
    pub domain: String,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The function that was running. For [`FaultKind::WildBranch`] the one that branched.
    pub function: Option<String>,
    /// Offset from the function's start in bytes.
    pub offset: u64,
    /// The thread, if it was a further one of the domain or a lane.
    pub thread: Option<FaultThread>,
    /// The shared region that was accessed, and whether the access was a store. Boxed to keep
    /// errors small.
    pub(crate) region: Option<Box<(String, bool)>>,
    /// Mode match: the address that a check refused.
    pub(crate) stray: Option<Box<Stray>>,
    pub(crate) address: u64,
    pub(crate) instruction: u64,
    pub(crate) trace: Arc<Calls>,
}

/// The place of the fault and the calls around it, which are named on request.
pub(crate) struct Calls {
    /// The first is the fault's own place.
    pub(super) places: Vec<TracedPlace>,
    /// Number of further calls.
    pub(super) more: u32,
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
    /// Returns the place of the fault as file and line, innermost first if functions were inlined
    /// there. Empty if the object has no debug information. Reads the object's debug information
    /// within bounds, and its contents are the word of the object's author.
    pub fn source(&self) -> Vec<sfi_debuginfo::Frame> {
        let mut trace = trace::name(&self.trace.places[..self.trace.places.len().min(1)], 0);
        trace.frames.pop().map_or(Vec::new(), |frame| frame.source)
    }

    /// Returns the calls that were in progress, as the control stack holds them: this domain's,
    /// those of the domains that called it, and the host's between them. Names and lines are looked
    /// up here, not when the fault happens.
    pub fn backtrace(&self) -> Backtrace {
        Backtrace { thread: self.thread, ..trace::name(&self.trace.places, self.trace.more) }
    }

    /// Returns the address that was accessed. It is a secret.
    pub fn secret_address(&self) -> u64 {
        self.address
    }

    /// Returns the shared region at the accessed address, visible or not, and whether the access
    /// was a store.
    pub fn region(&self) -> Option<(&str, bool)> {
        self.region.as_ref().map(|r| (r.0.as_str(), r.1))
    }

    /// Returns the instruction whose check failed in mode match, and the target of its address.
    pub fn stray(&self) -> Option<&Stray> {
        self.stray.as_deref()
    }

    /// Returns the instruction's address. It is a secret.
    pub fn secret_instruction(&self) -> u64 {
        self.instruction
    }
}

/// Prints as `Display` does: tests and logs print `Debug`, and addresses are secrets there too.
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
