//! The code between the gate and a host function.

use crate::fault::lanes;
use crate::fault::limits::{EXIT, TIME_SIGNAL, reason};
use crate::fault::signals;
use crate::fault::trace;
use crate::fault::watch;
use crate::gate::fault::RawFault;
use crate::gate::frame::Active;
use crate::gate::ids::DomainId;
use crate::gate::records::{Binding, Context, DomainState, FUNCTIONS, HostFrame, Status};
use crate::world::calls::host::Host;
use crate::world::calls::host_call::HostCall;
use crate::world::error::HostError;
use crate::world::held::Held;
use crate::world::inner::Inner;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// The memory that [`Host::record`] points to.
struct Record<F> {
    busy: bool,
    function: F,
}

impl Host {
    /// Takes the function; its shim is compiled for it, so that gates call it without a detour.
    pub(crate) fn new<F>(name: String, function: F) -> Self
    where
        F: FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    {
        /// # Safety
        /// `record` comes from `Host::new` of this type and is not used again.
        unsafe fn drop_record<F>(record: *mut ()) {
            // SAFETY: see the function's contract.
            drop(unsafe { Box::from_raw(record.cast::<Record<F>>()) });
        }
        let record = Box::into_raw(Box::new(Record { busy: false, function })).cast();
        Self { name, record, shim: shim::<F>, drop: drop_record::<F> }
    }

    /// Takes a function that may be called again while it runs.
    pub(crate) fn reentrant<F>(name: String, function: F) -> Self
    where
        F: Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
    {
        /// # Safety
        /// `record` comes from `Host::reentrant` of this type and is not used again.
        unsafe fn drop_function<F>(record: *mut ()) {
            // SAFETY: see the function's contract.
            drop(unsafe { Box::from_raw(record.cast::<F>()) });
        }
        /// # Safety
        /// As for the other shim; `data` is an `F`.
        unsafe extern "C" fn shim<F>(context: *mut Context, binding: *const Binding, frame: *mut HostFrame) -> Status
        where
            F: Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
        {
            // SAFETY: see the function's contract; only shared references to the function exist.
            unsafe { run(context, binding, frame, &*(*binding).data.cast::<F>()) }
        }
        let record = Box::into_raw(Box::new(function)).cast();
        Self { name, record, shim: shim::<F>, drop: drop_function::<F> }
    }
}

/// Returns the shim of bindings that led to a host function and lead nowhere now.
pub(crate) fn unbound() -> usize {
    unsafe extern "C" fn shim(context: *mut Context, binding: *const Binding, frame: *mut HostFrame) -> Status {
        // SAFETY: as in the other shim.
        unsafe { refused(binding, frame, (*context).current, Status::Unbound) }
    }
    shim as *const () as usize
}

/// Runs a host function for the gate. Returns [`Status::Ok`], or the reason why the gate cannot
/// return to the caller. A panic never unwinds through the gate: this function catches it and keeps
/// it in the world, and the host code that entered the domain resumes it. The gate does not return
/// to a caller whose call overstayed the world's time limit.
///
/// # Safety
/// The gate passes the context of the world that this thread runs, one of its bindings, whose
/// `data` is a [`Record`] of `F`, and a frame on the host stack. The host code that entered the
/// domain is suspended and holds the world mutably.
unsafe extern "C" fn shim<F>(context: *mut Context, binding: *const Binding, frame: *mut HostFrame) -> Status
where
    F: FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send + 'static,
{
    // SAFETY: see the function's contract.
    unsafe {
        let host = (*binding).data.cast::<Record<F>>();
        if (*host).busy {
            return refused(binding, frame, (*context).current, Status::Refused);
        }
        (*host).busy = true;
        let status = run(context, binding, frame, |call| ((*host).function)(call));
        (*host).busy = false;
        status
    }
}

/// Runs code of the host that a domain called.
///
/// # Safety
/// As for [`shim`]; `body` may do what a host function may.
#[inline]
pub(crate) unsafe fn run(
    context: *mut Context,
    binding: *const Binding,
    frame: *mut HostFrame,
    mut body: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError>,
) -> Status {
    // SAFETY: see the function's contract.
    unsafe {
        let (caller, depth) = ((*context).current, (*context).depth);
        let watch = watch::of(&*context);
        (*frame).clear_results();
        if (*binding).pointers != 0
            && let Err(code) = declared(&Held::called_with(context), &*binding, &*frame, (*caller).index)
        {
            return refused(binding, frame, caller, code);
        }
        (*context).depth = depth + 1;
        if let Some(watch) = watch {
            watch.enter_host(context, caller);
        }
        let occupant = (*context).occupant.as_ref();
        occupant.inspect(|occupant| occupant.in_host.store(true, Ordering::Release));
        let result = catch_unwind(AssertUnwindSafe(|| {
            let index = (*caller).index;
            let mut call = HostCall::new(Held::called_with(context), frame, binding, index);
            body(&mut call)
        }));
        (*context).depth = depth;
        if let Some(watch) = watch {
            watch.leave_host(context);
        }
        if let Some(occupant) = occupant {
            occupant.in_host.store(false, Ordering::Release);
            lanes::notice(&*context, occupant);
        }
        match result {
            Ok(Ok(value)) => (*frame).rax = value,
            Ok(Err(error)) => match error.exit() {
                Some(code) => return ended(context, caller, EXIT, code),
                None => _ = failed(binding, frame, caller, error),
            },
            Err(payload) => return panicked(context, payload),
        }
        if (*caller).dead != Status::Ok {
            return Status::Dead;
        }
        match watch.map_or(0, |watch| watch.due(context, caller)) {
            0 => Status::Ok,
            due => overstayed(context, caller, due),
        }
    }
}

/// Checks the arguments: no pointer of the signature may be one to code, and each function of the
/// signature must be a function of the caller.
#[inline(never)]
fn declared(inner: &Inner, binding: &Binding, frame: &HostFrame, caller: DomainId) -> Result<(), Status> {
    for (i, word) in frame.ints.iter().enumerate() {
        if binding.pointers & 1 << i != 0 && inner.is_code(caller, *word) {
            return Err(Status::Code);
        }
        if binding.pointers & 1 << (i as u32 + FUNCTIONS) != 0
            && *word != 0
            && inner.own_function(caller, *word).is_none()
        {
            return Err(Status::Function);
        }
    }
    Ok(())
}

/// Ends the caller of a host function in which the call overstayed its time.
///
/// # Safety
/// As for [`shim`].
#[cold]
unsafe fn overstayed(context: *mut Context, caller: *mut DomainState, due: u32) -> Status {
    // SAFETY: see the function's contract.
    unsafe {
        let status = ended(context, caller, TIME_SIGNAL, (due & reason::KIND) as i32);
        signals::overstayed(context, due);
        status
    }
}

/// Ends the caller of a host function, with a fault at the place of its call.
///
/// # Safety
/// As for [`shim`].
#[cold]
unsafe fn ended(context: *mut Context, caller: *mut DomainState, signal: i32, code: i32) -> Status {
    // SAFETY: see the function's contract.
    unsafe {
        let place = Active::calling_host(&*context).at;
        let return_address = *(place as *const u64);
        let fault = RawFault { signal, code, caller: return_address, ..RawFault::default() };
        lanes::end_by(caller, fault, trace::walk(&*context, place))
    }
}

/// Gives the caller its import's value and `status`, because the host function was not run or
/// returned an error.
///
/// # Safety
/// As for [`shim`].
#[cold]
unsafe fn refused(
    binding: *const Binding,
    frame: *mut HostFrame,
    caller: *const DomainState,
    status: Status,
) -> Status {
    // SAFETY: see the function's contract.
    unsafe {
        (*frame).clear_results();
        (*frame).rax = (*binding).on_fault;
        Inner::set_error(caller, status);
    }
    Status::Ok
}

/// Gives the caller its import's value and the error that the host function returned.
///
/// # Safety
/// As for [`shim`].
#[cold]
unsafe fn failed(
    binding: *const Binding,
    frame: *mut HostFrame,
    caller: *const DomainState,
    error: HostError,
) -> Status {
    // SAFETY: see the function's contract.
    unsafe { refused(binding, frame, caller, error.status()) }
}

/// Keeps the payload of a host function's panic for the host code that entered the domain.
///
/// # Safety
/// As for [`shim`].
#[cold]
unsafe fn panicked(context: *mut Context, payload: Box<dyn Any + Send>) -> Status {
    // SAFETY: see the function's contract. An earlier payload cannot be there: it is taken when its
    // entry ends.
    unsafe {
        Held::called_with(context).panic = Some(payload);
        Inner::abandon(context);
    }
    Status::Panic
}
