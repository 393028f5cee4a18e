//! The description of a raw fault: its kind, its place, and the address that it accessed.

use crate::fault::limits::{EXIT, TIME_SIGNAL, reason};
use crate::fault::names::Names;
use crate::fault::report::{AddressClass, Calls, Fault, FaultKind};
use crate::fault::signal_room::SI_KERNEL;
use crate::fault::stray::{NULL, Nearest, Refused, Stray, Whose};
use crate::fault::trace::{self, FaultThread, TracedPlace};
use crate::gate::depths::TRAPS;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::ids::DomainId;
use crate::vm::address::{HostAddress, WindowOffset};
use sfi_contract::layout::{DISPATCH_SIZE, GUARD_SIZE, WINDOW_SIZE};
use sfi_contract::matching::Check;
use std::sync::Arc;

/// `si_code` of `SIGFPE`: integer division by zero.
const FPE_INTDIV: i32 = 1;
/// `si_code` of `SIGFPE`: integer overflow.
const FPE_INTOVF: i32 = 2;

/// The parts of a domain that a fault's description needs.
pub(crate) struct Scene<'a> {
    /// The domain's name.
    pub name: &'a str,
    /// The window's base.
    pub base: HostAddress,
    /// Unmapped bytes below the data stack, `[start, end)` as window offsets.
    pub stack_guard: [WindowOffset; 2],
    /// Says whether a window offset is mapped.
    pub mapped: &'a dyn Fn(WindowOffset) -> bool,
    /// Finds the shared region at an address: in the domain's window, visible or not, or among the
    /// common addresses that it knows.
    pub region: &'a dyn Fn(u64) -> Option<String>,
    /// Mode match: finds the instruction whose check's trap ends at a window offset.
    pub refused: &'a dyn Fn(WindowOffset) -> Option<Refused>,
    /// Finds the owner of an address, and the part of a window next to it.
    pub owner: &'a dyn Fn(u64) -> (Whose, Option<Nearest>),
    /// Window offset of the first trap, which unused dispatch slots lead to.
    pub trap: WindowOffset,
    /// Window offset of the dispatch table's block.
    pub dispatch: WindowOffset,
    /// Window offsets of the traps of the control stack's stubs.
    pub cut_traps: [WindowOffset; 2],
    /// Window offsets of the traps of the stubs that keep parts of the control stack.
    pub fiber_traps: [WindowOffset; 2],
    /// Finds the function around a window offset: its name and the distance to its start.
    pub function: &'a dyn Fn(WindowOffset) -> Option<(String, u64)>,
    /// The domain's index in its world.
    pub index: DomainId,
    /// The thread that met the fault, if it was a further one of the domain or a lane.
    pub thread: Option<FaultThread>,
    /// Returns a domain's name and the names around a place of its text, by index.
    pub names: &'a dyn Fn(DomainId, WindowOffset) -> Option<(String, Arc<Names>)>,
}

impl Scene<'_> {
    /// Returns the place of an address in the domain's window.
    fn place(&self, address: u64) -> Option<WindowOffset> {
        let distance = address.checked_sub(self.base.number()).filter(|distance| *distance < WINDOW_SIZE);
        distance.map(WindowOffset::new)
    }
}

/// Describes a fault.
pub(crate) fn describe(raw: &RawFault, trace: &Trace, scene: &Scene<'_>) -> Fault {
    let refused = scene.place(raw.rip).filter(|_| raw.signal == libc::SIGTRAP).and_then(scene.refused);
    let kind = match &refused {
        Some(Refused { check: Check::Store, .. }) => FaultKind::SegmentMatch,
        Some(Refused { check: Check::Branch, .. }) => FaultKind::WildBranch,
        None => classify(raw, scene),
    };
    let behind_call = matches!(raw.signal, libc::SIGILL)
        && matches!(kind, FaultKind::WildBranch | FaultKind::DeadFrame | FaultKind::Fiber)
        || scene.place(raw.rip).is_none();
    let place = if behind_call { raw.caller.wrapping_sub(1) } else { raw.rip };
    let place = match &refused {
        Some(refused) => place.wrapping_add(refused.distance),
        // The processor reports the address after an int3.
        None if raw.signal == libc::SIGTRAP => place.wrapping_sub(1),
        None => place,
    };
    let find = |place: u64| scene.place(place).and_then(scene.function);
    // A call can be ended within a stub, or below a host function.
    let stub = raw.signal == TIME_SIGNAL || raw.signal == EXIT;
    let direct = find(place);
    let by_caller = behind_call || (direct.is_none() && stub);
    let found = direct.or_else(|| stub.then(|| find(raw.caller.wrapping_sub(1))).flatten());
    let (function, offset) = found.map_or((None, 0), |(name, offset)| (Some(name), offset));
    // If the fault was found through its caller, its place is the innermost call of the trace.
    let at = scene.place(if by_caller { raw.caller.wrapping_sub(1) } else { place });
    let mut places = Vec::new();
    if let Some(at) = at
        && let Some((domain, names)) = (scene.names)(scene.index, at)
    {
        places.push(TracedPlace::Code { domain, names, offset: at.bytes() });
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
    let (thread, address) = (scene.thread, raw.address);
    Fault { domain, kind, function, offset, thread, region, stray, address, instruction: place, trace: calls }
}

/// Returns the kind of a fault that no check of mode match reported.
fn classify(raw: &RawFault, scene: &Scene<'_>) -> FaultKind {
    if raw.control {
        return FaultKind::ControlStackOverflow;
    }
    let is_at = |place: &WindowOffset| scene.place(raw.rip) == Some(*place);
    let is_trap = |at: WindowOffset| (scene.trap..scene.trap + TRAPS).contains(&at);
    match raw.signal {
        TIME_SIGNAL => match raw.code as u32 & reason::KIND {
            reason::CALL_CPU => FaultKind::CpuLimit,
            reason::DOMAIN_WALL => FaultKind::TimeBudget,
            reason::DOMAIN_CPU => FaultKind::CpuBudget,
            _ => FaultKind::TimeLimit,
        },
        EXIT => FaultKind::Exit(raw.code),
        libc::SIGILL if scene.place(raw.rip).is_some_and(is_trap) => FaultKind::WildBranch,
        libc::SIGILL if scene.cut_traps.iter().any(is_at) => FaultKind::DeadFrame,
        libc::SIGILL if scene.fiber_traps.iter().any(is_at) => FaultKind::Fiber,
        libc::SIGILL => FaultKind::IllegalInstruction,
        libc::SIGTRAP if raw.spent => FaultKind::InstructionBudget,
        libc::SIGTRAP => FaultKind::Breakpoint,
        libc::SIGFPE if raw.code == FPE_INTDIV || raw.code == FPE_INTOVF => FaultKind::Division,
        libc::SIGFPE => FaultKind::FloatingPoint,
        libc::SIGBUS if raw.code != SI_KERNEL => FaultKind::Bus,
        _ if raw.code == SI_KERNEL => FaultKind::Memory(AddressClass::Unknown),
        _ => {
            // Above the window for addresses below it.
            let distance = raw.address.wrapping_sub(scene.base.number());
            let offset = WindowOffset::new(distance);
            let class = if raw.address < NULL || distance < NULL {
                AddressClass::Null
            } else if (scene.stack_guard[0]..scene.stack_guard[1]).contains(&offset) {
                return FaultKind::DataStackOverflow;
            } else if !raw.store && (scene.dispatch..scene.dispatch + DISPATCH_SIZE).contains(&offset) {
                // The block has no page there: the pointer is no function, null perhaps.
                return FaultKind::WildBranch;
            } else if distance >= WINDOW_SIZE + GUARD_SIZE {
                // An access to a region that the domain no longer sees is no search.
                if (scene.region)(raw.address).is_some() { AddressClass::Unmapped } else { AddressClass::Outside }
            } else if distance < WINDOW_SIZE && (scene.mapped)(offset) {
                AddressClass::Protected
            } else {
                AddressClass::Unmapped
            };
            FaultKind::Memory(class)
        }
    }
}
