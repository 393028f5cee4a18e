//! Host functions: what the host offers to domains.

use crate::fault::clock::moment;
use crate::fault::limits::{EXIT, TIME_SIGNAL, reason};
use crate::fault::signals;
use crate::fault::trace;
use crate::fault::watch;
use crate::gate::fault::RawFault;
use crate::gate::frame::Active;
use crate::gate::records::{Binding, Context, DomainState, FUNCTIONS, HostFrame, Status, flag};
use crate::spec::signature::{Argument, Signature};
use crate::vm::memory::{Memory, MemoryError};
use crate::world::Inner;
use crate::world::calls::call::{Function, TypedFn, sealed};
use crate::world::calls::dynamic::DynFn;
use crate::world::error::{CallError, HostError};
use sfi_contract::layout::{DISPATCH_OFFSET, DISPATCH_SLOTS};
use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One life of a domain or an instance in its world, see [`HostCall::tenant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant {
    index: usize,
    birth: u64,
}

impl Tenant {
    /// Whether this is another life of the same domain, or of an instance that took its place in
    /// the world.
    pub fn replaces(&self, other: &Tenant) -> bool {
        self.index == other.index && self.birth != other.birth
    }
}

/// Runs a host function for the gate.
pub type Shim = unsafe extern "C" fn(*mut Context, *const Binding, *mut HostFrame) -> Status;

/// A host function of the loader's own.
pub type HostFn = Box<dyn FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send>;

/// A host function of any type. It is not called again while it runs.
pub struct Host {
    /// Its name.
    pub name: String,
    /// A [`Record`], or the function itself if it is reentrant.
    record: *mut (),
    shim: Shim,
    drop: unsafe fn(*mut ()),
}

/// What is behind [`Host::record`].
struct Record<F> {
    busy: bool,
    function: F,
}

// SAFETY: the record owns a value that is `Send`; nobody else has the pointer but bindings of the
// same world.
unsafe impl Send for Host {}

impl Host {
    /// Takes the function; its shim is compiled for it, so that gates call it without a detour.
    pub fn new<F>(name: String, function: F) -> Self
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
    pub fn reentrant<F>(name: String, function: F) -> Self
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

    /// `shim` and `data` of bindings to it. They are good while it lives.
    pub fn entry(&self) -> (usize, *mut ()) {
        (self.shim as usize, self.record)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `new`, of the type of `drop`, and the world whose bindings
        // hold it is being dropped.
        unsafe { (self.drop)(self.record) };
    }
}

/// One call of a host function: its arguments, and its caller's memory. Everything in it is
/// hostile.
#[derive(Debug)]
pub struct HostCall<'c> {
    inner: *mut Inner,
    frame: *mut HostFrame,
    binding: *const Binding,
    caller: usize,
    skip: usize,
    life: PhantomData<&'c mut ()>,
}

impl HostCall<'_> {
    /// The world's record, for the loader's own host functions.
    pub(crate) fn world(&self) -> *mut Inner {
        self.inner
    }

    /// The caller's index in the world.
    pub(crate) fn caller_index(&self) -> usize {
        self.caller
    }

    /// The next so many arguments were a header's: those of the procedure begin behind them.
    pub(crate) fn skip(&mut self, arguments: usize) {
        self.skip += arguments;
    }

    /// How many were.
    pub(crate) fn skipped(&self) -> usize {
        self.skip
    }

    /// Integer argument `index`. From the seventh on they come from the caller's data stack; 0 if
    /// that is unusable. 0 also where the import has a signature that does not name the argument:
    /// what the caller has in other registers is not shown.
    pub fn arg(&self, index: usize) -> u64 {
        let index = index + self.skip;
        // SAFETY: the frame lives on the gate's part of the host stack during the call, and the
        // binding as long.
        let (frame, binding) = unsafe { (&*self.frame, &*self.binding) };
        match (frame.ints.get(index), index.checked_sub(frame.ints.len())) {
            (Some(word), _) if index < binding.ints as usize => *word,
            (None, Some(below)) if below < binding.stack_words as usize => {
                let mut word = [0; 8];
                let at = frame.r15.wrapping_add(8 * below as u64);
                match self.memory().read_into(at, &mut word) {
                    Ok(()) => u64::from_le_bytes(word),
                    Err(_) => 0,
                }
            }
            _ => 0,
        }
    }

    /// Floating-point argument `index` as a `double`. 0 if `index` is above 7 or the import's
    /// signature has no `float`.
    pub fn arg_f64(&self, index: usize) -> f64 {
        f64::from_bits(self.float(index))
    }

    /// Floating-point argument `index` as a `float`, see [`HostCall::arg_f64`].
    pub fn arg_f32(&self, index: usize) -> f32 {
        f32::from_bits(self.float(index) as u32)
    }

    fn float(&self, index: usize) -> u64 {
        // SAFETY: as in `arg`; with the flag the gate stored all eight.
        unsafe {
            let frame = &*self.frame;
            match frame.floats.get(index) {
                Some(word) if (*self.binding).flags & flag::FLOATS != 0 && index < (*self.binding).floats as usize => {
                    word.assume_init()
                }
                _ => 0,
            }
        }
    }

    /// The floating-point result, besides the integer that the function returns.
    pub fn set_result_f64(&mut self, value: f64) {
        // SAFETY: as in `arg`; `&mut self` makes the access exclusive.
        unsafe { (*self.frame).xmm0 = value.to_bits() };
    }

    /// The floating-point result as a `float`.
    pub fn set_result_f32(&mut self, value: f32) {
        // SAFETY: as in `set_result_f64`.
        unsafe { (*self.frame).xmm0 = u64::from(value.to_bits()) };
    }

    /// The caller's name.
    pub fn caller(&self) -> &str {
        // SAFETY: the world is borrowed by the call.
        unsafe { &(&(*self.inner).domains)[self.caller].name }
    }

    /// Tells the caller's present life apart from its other lives and from other callers. A domain
    /// that was restarted, reset or loaded again is another tenant: host functions that keep
    /// something for a domain keep it under this key.
    pub fn tenant(&self) -> Tenant {
        // SAFETY: the world is borrowed by the call.
        Tenant { index: self.caller, birth: unsafe { (&(*self.inner).domains)[self.caller].birth } }
    }

    /// The caller's memory.
    pub fn memory(&self) -> Memory<'_> {
        // SAFETY: the world is borrowed by the call; the domains are not moved or freed during it.
        unsafe { (&(*self.inner).domains)[self.caller].memory() }
    }

    /// Copies `length` bytes out of the caller's memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn read(&self, pointer: u64, length: usize) -> Result<Vec<u8>, MemoryError> {
        self.memory().read(pointer, length)
    }

    /// Copies bytes into the caller's memory.
    ///
    /// # Errors
    /// See [`Memory::write`].
    pub fn write(&mut self, pointer: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory().write(pointer, bytes)
    }

    /// The number of the binding through which the domain called.
    pub(crate) fn binding_index(&self) -> usize {
        // SAFETY: the world is borrowed by the call.
        unsafe { (*self.inner).control.binding_index(self.binding) }
    }

    /// Whether a pointer is a function pointer of the caller's.
    pub(crate) fn owns(&self, pointer: u64) -> bool {
        // SAFETY: the world is borrowed by the call.
        unsafe { (*self.inner).own_function(self.caller, pointer).is_some() }
    }

    /// Returns the signature that the domain's import declares.
    pub(crate) fn signature(&self) -> Option<&Signature> {
        // SAFETY: as above.
        let records = unsafe { &(*self.inner).manager.records };
        records.get(self.binding_index())?.as_ref()?.signature.as_ref()
    }

    /// The function that the caller passed as integer argument `index`, which its import declares
    /// to be an `fn`, with the signature that is declared there. It leads to the function as long
    /// as the caller's domain is not loaded again. `None`: the caller passed NULL.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`] if the import declares something else.
    pub fn passed(&mut self, index: usize) -> Result<Option<DynFn>, CallError> {
        let is_int = |argument: &&Argument| **argument != Argument::Float;
        let ints = self.signature().map_or(&[][..], |s| &s.arguments).iter().filter(is_int);
        let declared = match ints.skip(self.skip).nth(index) {
            Some(Argument::Function(signature)) => (**signature).clone(),
            _ => return Err(CallError::NotAFunction { domain: self.caller().to_owned() }),
        };
        match self.arg(index) {
            0 => Ok(None),
            pointer => self.function_dynamic(pointer, declared).map(Some),
        }
    }

    /// The caller's function that a function pointer means, to call it back: `cx.function::<fn(u64)
    /// -> u64>(p)?.call(cx, (1,))`.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn function<F: Function>(&self, pointer: u64) -> Result<TypedFn<F>, CallError> {
        // SAFETY: the world is borrowed by the call.
        unsafe { (*self.inner).function_at(self.caller, pointer) }
    }
}

impl sealed::Sealed for HostCall<'_> {
    fn inner(&mut self) -> *mut Inner {
        self.inner
    }
}
impl crate::world::calls::call::Enter for HostCall<'_> {}

/// `shim` of bindings that led to a host function and lead nowhere now.
pub fn unbound() -> usize {
    unsafe extern "C" fn shim(context: *mut Context, binding: *const Binding, frame: *mut HostFrame) -> Status {
        // SAFETY: as in the other shim.
        unsafe { refused(binding, frame, (*context).current, Status::Unbound) }
    }
    shim as *const () as usize
}

/// Runs a host function for the gate. Returns [`Status::Ok`], or why the caller cannot be returned
/// to. A panic is caught here, kept in the world and resumed by the host code that entered the
/// domain: it never unwinds through the gate. In worlds with a time limit a caller whose call
/// overstayed is not returned to.
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
            (*frame).xmm0 = 0;
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
pub unsafe fn run(
    context: *mut Context,
    binding: *const Binding,
    frame: *mut HostFrame,
    mut body: impl FnMut(&mut HostCall<'_>) -> Result<u64, HostError>,
) -> Status {
    // SAFETY: see the function's contract.
    unsafe {
        let (caller, depth) = ((*context).current, (*context).depth);
        let watch = watch::of(&*context);
        (*frame).xmm0 = 0;
        if (*binding).pointers != 0
            && let Err(code) =
                declared(&*(*context).world.cast::<Inner>(), &*binding, &*frame, (*caller).index as usize)
        {
            return refused(binding, frame, caller, code);
        }
        (*context).depth = depth + 1;
        if let Some(watch) = watch {
            watch.enter_host(context, caller);
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            let index = (*caller).index as usize;
            let mut call =
                HostCall { inner: (*context).world.cast(), frame, binding, caller: index, skip: 0, life: PhantomData };
            body(&mut call)
        }));
        (*context).depth = depth;
        if let Some(watch) = watch {
            watch.leave_host(context);
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

/// Whether arguments that the signature calls pointers are none to code, and those that it calls
/// functions are functions of the caller.
fn declared(inner: &Inner, binding: &Binding, frame: &HostFrame, caller: usize) -> Result<(), Status> {
    for (i, word) in frame.ints.iter().enumerate() {
        if binding.pointers & 1 << i != 0 && is_code(*word) {
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

/// Whether a pointer means a place of the dispatch table, as the gates judge (`REFUSE_CODE` in
/// gate/common.s).
pub fn is_code(pointer: u64) -> bool {
    (pointer as u32).wrapping_sub(DISPATCH_OFFSET as u32) < 8 * DISPATCH_SLOTS as u32
}

/// The call overstayed its time in the host function: its caller ends here.
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
        (*caller).trace = trace::walk(&*context, place);
        (*caller).fault = RawFault { signal, code, caller: return_address, when: moment(), ..RawFault::default() };
        (*caller).dead = Status::Dead;
        (*caller).sp = 0;
    }
    Status::Fault
}

/// The host function was not run, or returned an error: the caller gets its import's value and
/// `status`.
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
        (*frame).rax = (*binding).on_fault;
        (*frame).xmm0 = 0;
        Inner::set_error(caller, status);
    }
    Status::Ok
}

/// The host function returned an error.
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

/// The host function panicked: keeps the payload for the host code that entered the domain.
///
/// # Safety
/// As for [`shim`].
#[cold]
unsafe fn panicked(context: *mut Context, payload: Box<dyn Any + Send>) -> Status {
    // SAFETY: see the function's contract. An earlier payload cannot be there: it is taken when its
    // entry ends.
    unsafe {
        (*(*context).world.cast::<Inner>()).panic = Some(payload);
        Inner::abandon(context);
    }
    Status::Panic
}
