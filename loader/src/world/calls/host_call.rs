//! One call of a host function, as the function sees it.

use crate::fault::trace::{self, CallPath};
use crate::gate::frame::Active;
use crate::gate::ids::{BindingId, DomainId};
use crate::gate::records::{Binding, Caught, HostFrame, flag};
use crate::link;
use crate::spec::DomainSpec;
use crate::spec::signature::{MAX_STACK_WORDS, Signature};
use crate::vm::address::WindowOffset;
use crate::vm::closed::PageAccess;
use crate::vm::memory::{Memory, MemoryError};
use crate::world::calls::call::{Enter, TypedFn, sealed};
use crate::world::calls::values::Function;
use crate::world::error::{CallError, HostError};
use crate::world::held::Held;
use crate::world::inner::Inner;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

/// One life of a domain or an instance in its world, see [`HostCall::tenant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant {
    index: DomainId,
    birth: u64,
}

impl Tenant {
    /// Returns the life of a domain that began as this number of its world's births.
    pub(crate) fn new(index: DomainId, birth: u64) -> Self {
        Self { index, birth }
    }

    /// Says whether this is another life of the same domain, or of an instance that took its place
    /// in the world.
    pub fn replaces(&self, other: &Tenant) -> bool {
        self.index == other.index && self.birth != other.birth
    }
}

/// A host function of the loader's own.
pub(crate) type HostFn = Box<dyn FnMut(&mut HostCall<'_>) -> Result<u64, HostError> + Send>;

/// A host function that any number of threads may run at the same time.
pub(crate) type SharedFn = Arc<dyn Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + Sync>;

/// One call of a host function: its arguments, and its caller's memory. Everything in it is
/// hostile.
#[derive(Debug)]
pub struct HostCall<'c> {
    held: Held<'c>,
    frame: *mut HostFrame,
    binding: *const Binding,
    caller: DomainId,
    skip: usize,
    /// The words of the caller's data stack, from the first use on. The caller can change its stack
    /// in a call back.
    words: OnceCell<Box<[u64]>>,
}

impl<'c> HostCall<'c> {
    /// Makes the record of one call by `caller`.
    ///
    /// # Safety
    /// The gate passed the frame and the binding of this call.
    pub(super) unsafe fn new(held: Held<'c>, frame: *mut HostFrame, binding: *const Binding, caller: DomainId) -> Self {
        Self { held, frame, binding, caller, skip: 0, words: OnceCell::new() }
    }

    /// Returns the world's record.
    pub(crate) fn record(&mut self) -> &mut Inner {
        &mut self.held
    }

    /// Holds the world.
    pub(crate) fn held(&mut self) -> Held<'_> {
        self.held.again()
    }

    /// Returns the world's record for reading.
    pub(crate) fn world(&self) -> &Inner {
        &self.held
    }

    /// Returns the caller's specification.
    pub(crate) fn spec(&self) -> &DomainSpec {
        &self.held.domains[self.caller].spec
    }

    /// Returns the caller's index in the world.
    pub(crate) fn caller_index(&self) -> DomainId {
        self.caller
    }

    /// Skips arguments that were meant for a header. The procedure's own begin after them.
    pub(crate) fn skip(&mut self, arguments: usize) {
        self.skip += arguments;
    }

    /// Returns the number of skipped arguments.
    pub(crate) fn skipped(&self) -> usize {
        self.skip
    }

    /// Returns integer argument `index`. The seventh and later ones come from the caller's data
    /// stack, and are 0 if that is unusable. They are copied at the first use of one. An argument
    /// that the import's signature does not name is 0, so the caller's other registers stay hidden.
    /// Without a signature the stack has 64 words.
    pub fn arg(&self, index: usize) -> u64 {
        let index = index.saturating_add(self.skip);
        // SAFETY: the frame lives on the gate's part of the host stack during the call, and the
        // binding as long.
        let (frame, binding) = unsafe { (&*self.frame, &*self.binding) };
        match (frame.ints.get(index), index.checked_sub(frame.ints.len())) {
            (Some(word), _) if index < binding.ints as usize => *word,
            (None, Some(below)) if below < binding.stack_words as usize => {
                let words = self.words.get_or_init(|| self.stack_words(frame.r15, binding.stack_words));
                words.get(below).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Copies words of the caller's data stack. Words that it cannot read are 0.
    fn stack_words(&self, stack: u64, count: u32) -> Box<[u64]> {
        let memory = self.memory();
        let word = |index: u32| {
            let mut word = [0; 8];
            let read = memory.read_into(stack.wrapping_add(8 * u64::from(index)), &mut word);
            read.map_or(0, |()| u64::from_le_bytes(word))
        };
        (0..count.min(MAX_STACK_WORDS)).map(word).collect()
    }

    /// Returns floating-point argument `index` as a `double`, or 0 if `index` is above 7 or the
    /// import's signature has no `float`.
    pub fn arg_f64(&self, index: usize) -> f64 {
        f64::from_bits(self.float(index))
    }

    /// Returns floating-point argument `index` as a `float`, see [`HostCall::arg_f64`].
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

    /// Sets the floating-point result, besides the integer that the function returns.
    pub fn set_result_f64(&mut self, value: f64) {
        // SAFETY: as in `arg`; `&mut self` makes the access exclusive.
        unsafe { (*self.frame).xmm0 = value.to_bits() };
    }

    /// Sets the floating-point result as a `float`.
    pub fn set_result_f32(&mut self, value: f32) {
        // SAFETY: as in `set_result_f64`.
        unsafe { (*self.frame).xmm0 = u64::from(value.to_bits()) };
    }

    /// Sets the second registers of the result: rdx, and the low half of xmm1. A structure of 9 to
    /// 16 bytes is returned in two registers (psABI 3.2.3). If both its eightbytes are integers,
    /// they are the integer that the function returns and `int`. If both are floating-point, they
    /// are [`HostCall::set_result_f64`] and `float`. Otherwise no second register is used.
    pub fn set_second_result(&mut self, int: u64, float: f64) {
        // SAFETY: as in `set_result_f64`.
        unsafe { ((*self.frame).rdx, (*self.frame).xmm1) = (int, float.to_bits()) };
    }

    /// Returns the caller's name.
    pub fn caller(&self) -> &str {
        &self.held.domains[self.caller].name
    }

    /// Tells the caller's present life apart from its other lives and from other callers. A domain
    /// that was restarted, reset or loaded again is another tenant: host functions that keep
    /// something for a domain keep it under this key.
    pub fn tenant(&self) -> Tenant {
        Tenant::new(self.caller, self.held.domains[self.caller].birth)
    }

    /// Returns the caller's memory.
    pub fn memory(&self) -> Memory<'_> {
        self.held.domains[self.caller].memory()
    }

    /// Returns the first thread's pointer: the address of its TCB page.
    pub fn thread_pointer(&self) -> u64 {
        let domain = &self.held.domains[self.caller];
        let tcb = WindowOffset::new(domain.image.anchors.tcb);
        let second = domain.image.thread_locals.as_ref().map(|locals| locals.second + (tcb - locals.place));
        domain.window.address(second.unwrap_or(tcb)).number()
    }

    /// Returns the caller's heap, as addresses in its own terms.
    pub fn heap(&self) -> Range<u64> {
        self.memory().heap()
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

    /// Sets the caller's own access to whole pages of its heap, until its end. Copies of pages that
    /// it closed are errors for the host, too. A domain with threads keeps all access, and so does
    /// one of which the host was given an address ([`crate::Prepared::view`],
    /// [`crate::DomainRef::keep_open`]).
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`] for anything but whole pages of the heap;
    /// [`MemoryError::TooManyRanges`].
    pub fn protect_heap(&mut self, pointer: u64, length: u64, access: PageAccess) -> Result<(), MemoryError> {
        let domain = &self.held.domains[self.caller];
        let access = if domain.viewed.get() { PageAccess::ReadWrite } else { access };
        domain.memory().protect_heap(pointer, length, access)
    }

    /// Returns the calls that are in progress, from the caller's call of this function outwards.
    /// They are read from the control stack, so no domain can mislead the host about them.
    pub fn path(&self) -> CallPath {
        let context = self.held.gates.control.context();
        // SAFETY: the world whose context this is runs this host function, so the caller's frame is
        // on the control stack, with the return address of its call.
        unsafe { CallPath::new(&trace::walk(&*context, Active::calling_host(&*context).at)) }
    }

    /// Finds the function of the caller that an import replaced ([`crate::Import::wraps`]). `None`
    /// if the caller's objects have none.
    pub fn wrapped<F: Function>(&self, symbol: &str) -> Option<TypedFn<F>> {
        let domain = &self.held.domains[self.caller];
        let offset = *domain.image.functions_by_name.get(&link::wrapped(symbol))?;
        Some(self.held.typed(self.caller, offset, None))
    }

    /// Lets the caller handle its next fault, if the fault raises one of these signals (bits by
    /// number). The caller then goes on in its global function `entry`, with signal, code and
    /// address as arguments. Each call of this function catches one fault. Returns whether the
    /// caller has such a function and no budget of instructions, whose end is a fault too.
    pub fn catch_faults(&mut self, signals: u64, entry: &str) -> bool {
        let Some(caught) = self.continuation(signals, entry) else { return false };
        // SAFETY: the state lives as long as the world, and no gate or handler uses it now.
        unsafe { (*self.held.domains[self.caller].state).caught = caught };
        true
    }

    /// Returns the record with which a signal handler lets the caller go on in its global function
    /// `entry`.
    pub(crate) fn continuation(&self, signals: u64, entry: &str) -> Option<Caught> {
        let domain = &self.held.domains[self.caller];
        let found = domain.image.functions_by_name.get(entry).filter(|_| domain.spec.instructions.is_none());
        // A stub would need the domain's GS base, and text without GS runs with that of others.
        let found = found.filter(|place| domain.image.has_text(**place));
        let (window, (text, length)) = (&domain.window, domain.image.text);
        let text = [text, text + length].map(|place| window.address(place));
        let [entry, trap] = [*found?, domain.image.trap].map(|place| window.address(place));
        Some(Caught { signals, entry, text, trap })
    }

    /// Returns the number of the binding through which the domain called.
    pub(crate) fn binding_id(&self) -> BindingId {
        self.held.gates.control.binding_id(self.binding)
    }

    /// Says whether a pointer is a function pointer of the caller's.
    pub(crate) fn owns(&self, pointer: u64) -> bool {
        self.held.own_function(self.caller, pointer).is_some()
    }

    /// Returns the signature that the domain's import declares.
    pub(crate) fn signature(&self) -> Option<&Signature> {
        let records = &self.held.manager.records;
        records.get(self.binding_id())?.as_ref()?.signature.as_ref()
    }

    /// Finds the caller's function that a function pointer means, to call it back:
    /// `cx.function::<fn(u64) -> u64>(p)?.call(cx, (1,))`.
    ///
    /// # Errors
    /// [`CallError::NotAFunction`].
    pub fn function<F: Function>(&self, pointer: u64) -> Result<TypedFn<F>, CallError> {
        self.held.function_at(self.caller, pointer)
    }
}

impl sealed::Sealed for HostCall<'_> {
    #[inline]
    fn access(&mut self) -> sealed::Access<'_> {
        sealed::Access(self.held.again())
    }
}

impl Enter for HostCall<'_> {}
