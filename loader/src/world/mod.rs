//! A world: domains that call each other, entered by one thread at a time.

pub(crate) mod bindings;
pub(crate) mod builder;
pub(crate) mod calls;
pub(crate) mod domain;
pub(crate) mod domain_ref;
pub(crate) mod error;
pub(crate) mod frames;
pub(crate) mod idle;
pub(crate) mod ifunc;
pub(crate) mod instances;
pub(crate) mod lives;
pub(crate) mod owner;

use crate::fault::signal_room;
use crate::fault::thread;
use crate::fault::watch;
use crate::fault::watchdog::{self, Watched};
use crate::gate::control_stack::ControlStack;
use crate::gate::frame::Active;
use crate::gate::records::{Binding, CallFrame, Context, DomainState, MAX_DEPTH, Status, flag};
use crate::gate::{self, Table};
use crate::link::image::Image;
use crate::vm::memory::Memory;
use crate::vm::region::Region;
use crate::vm::space::Places;
use crate::world::bindings::Manager;
use crate::world::bindings::policy::BindingReport;
use crate::world::calls::call::{Arguments, Function, TypedFn};
use crate::world::calls::host::Host;
use crate::world::domain::Domain;
use crate::world::domain_ref::DomainRef;
use crate::world::error::{BuildError, CallError, Failure, LookupError};
use crate::world::lives::Lives;
use sfi_contract::layout::{DISPATCH_MASK, TCB_ERROR};
use sfi_verifier::Vectors;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// Domains that are loaded, sealed and ready to be called. Built by [`World::builder`]; dropping it
/// unmaps everything.
///
/// A world is entered by one thread at a time (calls take `&mut`), but it may move between threads.
/// More parallelism comes from more worlds.
#[derive(Debug)]
pub struct World {
    pub(crate) inner: *mut Inner,
}

// SAFETY: the record belongs to the world alone. Nothing in it is tied to a thread: the signal
// stack and GS are looked up per thread at every entry, and the control stack is used by the thread
// that holds the world mutably.
unsafe impl Send for World {}

/// The world's record. Gates and host functions reach it through a raw pointer while host code is
/// suspended inside a call.
pub struct Inner {
    pub id: u64,
    pub control: ControlStack,
    pub table: &'static Table,
    pub any_x87: bool,
    pub domains: Vec<Domain>,
    pub hosts: Vec<Host>,
    pub regions: Vec<Region>,
    pub panic: Option<Box<dyn Any + Send>>,
    /// The time limit.
    pub watched: Option<Watched>,
    /// Places and canaries of windows that are made later.
    pub places: Places,
    /// Domains that ask for it may read the processor's clock.
    pub clock: bool,
    /// Numbers of instances and of lives, and the places of discarded instances.
    pub lives: Lives,
    /// The domain at which looking after idle stacks goes on.
    pub trimmed: usize,
    /// Bindings, registered entry points, placement.
    pub manager: Manager,
}

impl Inner {
    /// The host's crossing into a domain.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably, the binding is one of its own,
    /// `frame.sp` is a data stack pointer of the callee. `floats`: the binding's flag.
    #[inline(always)]
    pub unsafe fn cross(
        inner: *mut Inner,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = (*inner).control.context();
            if (*context).depth != 0 {
                return Self::aside(Self::cross_nested, inner, binding, frame, floats);
            }
            if !(*context).watch.is_null() {
                return Self::aside(Self::cross_limited, inner, binding, frame, floats);
            }
            Self::cross_here(inner, binding, frame, floats, ControlStack::top_of(context))
        }
    }

    /// Crosses in another way, with a copy of the frame: the caller's own has no address then, and
    /// stays in registers.
    ///
    /// # Safety
    /// As for [`Inner::cross`].
    #[inline]
    unsafe fn aside(
        way: unsafe fn(*mut Inner, &Binding, &mut CallFrame, bool) -> Result<(), Failure>,
        inner: *mut Inner,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        let mut copy = *frame;
        // SAFETY: see the function's contract.
        let crossed = unsafe { way(inner, binding, &mut copy, floats) };
        *frame = copy;
        crossed
    }

    /// A crossing with a time limit.
    ///
    /// # Safety
    /// As for [`Inner::cross`].
    #[inline(never)]
    unsafe fn cross_limited(
        inner: *mut Inner,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = (*inner).control.context();
            let state = thread::state();
            if !(*state).ready {
                thread::prepare(state);
            }
            watchdog::begin(context, state);
            let crossed = Self::cross_here(inner, binding, frame, floats, ControlStack::top_of(context));
            if watchdog::end(context, binding.callee) {
                (*inner).trim_some();
            }
            crossed
        }
    }

    /// A crossing by a host function: puts back what the entry changes for good.
    ///
    /// # Safety
    /// As for [`Inner::cross`].
    #[cold]
    unsafe fn cross_nested(
        inner: *mut Inner,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = (*inner).control.context();
            if (*context).depth >= MAX_DEPTH || (*context).control_sp < (*context).floor + signal_room::reserve() {
                return Err(Failure::TooDeep);
            }
            let (current, top) = ((*context).current, (*context).top);
            let (host_rsp, control_sp) = ((*context).host_rsp, (*context).control_sp);
            let host_mxcsr = (*context).host_mxcsr;
            let watch = watch::of(&*context);
            watch.inspect(|w| w.leave_host(context));
            let crossed = Self::cross_here(inner, binding, frame, floats, control_sp);
            watch.inspect(|w| w.enter_host(context, binding.callee));
            (*context).current = current;
            (*context).top = top;
            (*context).host_rsp = host_rsp;
            (*context).control_sp = control_sp;
            (*context).host_mxcsr = host_mxcsr;
            crossed
        }
    }

    /// The crossing itself.
    ///
    /// # Safety
    /// As for [`Inner::cross`].
    #[inline(always)]
    unsafe fn cross_here(
        inner: *mut Inner,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
        control_sp: u64,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract. Only raw pointers to the records are kept across the
        // call, because host functions use the records too.
        unsafe {
            let context = (*inner).control.context();
            let state = thread::state();
            if !(*state).ready {
                thread::prepare(state);
            }
            let outer = (*state).current;
            (*state).current = context;
            (*context).thread = state;
            let status = gate::enter((*inner).table.enter, context, binding, state, control_sp, frame, floats);
            (*state).current = outer;
            match status {
                Status::Ok => Ok(()),
                status => Err(Failure::Status(status)),
            }
        }
    }

    /// Copies stack arguments to the callee's data stack and lowers `frame.sp`. `false` if they do
    /// not fit.
    ///
    /// # Safety
    /// As for [`Inner::cross`].
    #[cold]
    pub unsafe fn push_arguments(inner: *mut Inner, callee: *const DomainState, arguments: &mut Arguments) -> bool {
        // SAFETY: see the function's contract.
        unsafe {
            let domain = &(&(*inner).domains)[(*callee).index as usize];
            let words = arguments.stack();
            let sp = arguments.frame.sp - (words.len() as u64 * 8).next_multiple_of(16);
            if sp < (*callee).stack_low {
                return false;
            }
            for (i, word) in words.iter().enumerate() {
                domain.window.write(sp - domain.window.base() + 8 * i as u64, &word.to_le_bytes());
            }
            arguments.frame.sp = sp;
            true
        }
    }

    /// Puts a failure into words; resumes a host function's panic.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably; `callee` is one of its domains
    /// unless the failure is [`Failure::WrongWorld`].
    #[cold]
    pub unsafe fn failure(inner: *mut Inner, callee: *const DomainState, failure: Failure) -> CallError {
        match failure {
            Failure::WrongWorld => return CallError::WrongWorld,
            Failure::Discarded => return CallError::Discarded,
            _ => {}
        }
        // SAFETY: see the function's contract.
        let (domains, index) = unsafe {
            if failure == Failure::Status(Status::Panic)
                && let Some(payload) = (*inner).panic.take()
            {
                std::panic::resume_unwind(payload);
            }
            (*inner).settle((*callee).index as usize);
            (&(*inner).domains, (*callee).index as usize)
        };
        let name = domains[index].name.clone();
        match failure {
            // SAFETY: the call is over.
            Failure::Status(Status::Fault) => CallError::Fault(unsafe { Domain::describe(domains, index) }),
            Failure::Status(Status::Refused) => CallError::Busy { domain: name },
            Failure::Status(Status::Arguments) => CallError::Arguments { domain: name },
            Failure::Status(Status::NotReady) => CallError::NotReady { domain: name },
            Failure::TooDeep => CallError::TooDeep,
            Failure::Gone => CallError::Gone { domain: name },
            _ => CallError::Dead { domain: name },
        }
    }

    /// Sets `__sfi_error` of a domain.
    ///
    /// # Safety
    /// `domain` is the state of a living domain.
    pub unsafe fn set_error(domain: *const DomainState, status: Status) {
        // SAFETY: the TCB page is mapped read-write at this place for as long as the domain lives.
        unsafe { (((*domain).base + TCB_ERROR) as *mut u32).write(status.into()) };
    }

    /// A host function panicked: the domains with frames above the innermost entry from the host
    /// were interrupted and are dead.
    ///
    /// # Safety
    /// The host runs and `context` is its world's.
    pub unsafe fn abandon(context: *mut Context) {
        // SAFETY: see the function's contract; domain states live as long as their frames.
        unsafe {
            let mut part = Some(Active::calling_host(&*context));
            while let Some(active) = part {
                (*active.domain).dead = Status::Dead;
                (*active.domain).sp = 0;
                part = if active.entered_by_host() { None } else { active.outer(&*context) };
            }
        }
    }

    /// A binding for entries of the host.
    pub fn host_binding(&self, domain: usize, offset: u64) -> Binding {
        let callee = &self.domains[domain];
        let zmm = if callee.image.usage.vectors >= Vectors::Zmm { flag::ZMM_IN } else { 0 };
        let vectors = if callee.side().has_vectors() { flag::VECTORS } else { 0 };
        let x87 = if self.any_x87 { flag::X87 } else { 0 };
        let mxcsr = if callee.image.usage.mxcsr { flag::MXCSR } else { 0 };
        Binding {
            callee: callee.state,
            entry: callee.window.base() + offset,
            arguments: 0,
            results: 0,
            failed: self.table.enter_failed,
            on_fault: 0,
            flags: flag::ENTRY | zmm | vectors | x87 | mxcsr,
            failing: 0,
            stack_words: 0,
            pointers: 0,
            host: 0,
            ints: 0,
            floats: 0,
            mxcsr: crate::world::bindings::record::mxcsr_mask(callee.image.usage),
            base: callee.window.base(),
            shim: 0,
            data: std::ptr::null_mut(),
            gate: 0,
            metered: [0; 2],
        }
    }

    pub fn typed<F: Function>(&self, domain: usize, offset: u64, name: Option<Arc<str>>) -> TypedFn<F> {
        let mut binding = self.host_binding(domain, offset);
        binding.flags |= if F::FLOATS { flag::FLOATS } else { 0 };
        // SAFETY: the state lives as long as the world.
        let (generation, life) = unsafe { ((*binding.callee).generation, (*binding.callee).life) };
        TypedFn { world: self.id, generation, life, binding, name, function: PhantomData }
    }

    /// The function that a pointer of a domain means: the same arithmetic as an indirect call of
    /// the domain.
    pub fn function_at<F: Function>(&self, domain: usize, pointer: u64) -> Result<TypedFn<F>, CallError> {
        match self.code_at(domain, pointer) {
            Some(offset) => Ok(self.typed(domain, offset, None)),
            None => Err(CallError::NotAFunction { domain: self.domains[domain].name.clone() }),
        }
    }

    /// The window offset of the code that a pointer of a domain means.
    pub fn code_at(&self, domain: usize, pointer: u64) -> Option<u64> {
        let slot = (pointer as u32 & DISPATCH_MASK) as usize / 8;
        self.domains[domain].image.slots.get(slot).copied().filter(|_| slot != 0)
    }

    pub fn find(&self, name: &str) -> Result<usize, LookupError> {
        let found = self.domains.iter().position(|d| d.name == name && !name.is_empty());
        found.ok_or_else(|| LookupError::Domain(name.to_owned()))
    }

    /// Chooses what IFUNCs mean, then runs the initialisers.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably.
    pub unsafe fn initialise(inner: *mut Inner, domain: usize) -> Result<(), BuildError> {
        // SAFETY: see the function's contract.
        unsafe {
            crate::world::ifunc::choose(inner, domain)?;
            if (&(*inner).domains)[domain].image.initialisers.is_empty() {
                return Ok(());
            }
            let offsets = (&(*inner).domains)[domain].image.initialisers.clone();
            let name = || (&(*inner).domains)[domain].name.clone();
            Inner::run_all(inner, domain, &offsets)
                .map_err(|error| BuildError::Initialiser { domain: name(), error: Box::new(error) })
        }
    }

    /// Runs functions without arguments, in order.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably.
    pub unsafe fn run_all(inner: *mut Inner, domain: usize, offsets: &[u64]) -> Result<(), CallError> {
        for offset in offsets {
            // SAFETY: see the function's contract.
            unsafe {
                let binding = (*inner).host_binding(domain, *offset);
                let callee = binding.callee;
                if (*callee).sp == 0 {
                    return Err(Self::failure(inner, callee, Failure::Status(Status::Dead)));
                }
                let mut frame = CallFrame { sp: (*callee).sp, ..CallFrame::new() };
                Self::cross(inner, &binding, &mut frame, false)
                    .map_err(|failure| Self::failure(inner, callee, failure))?;
            }
        }
        Ok(())
    }
}

impl World {
    /// Starts a description of a world.
    pub fn builder() -> crate::world::builder::Builder {
        crate::world::builder::Builder::new()
    }

    /// An image, for further instances.
    pub(crate) fn image(&self, index: usize) -> Arc<Image> {
        Arc::clone(&self.get().domains[index].image)
    }

    /// Makes all domains what they were at their start, but for their initialisers, and what the
    /// host holds of a call. Not if one of them died.
    pub(crate) fn wipe(&mut self) -> bool {
        // SAFETY: `&mut self`: no call is in progress.
        unsafe {
            let inner = &mut *self.inner;
            inner.panic = None;
            inner.manager.permits.truncate(inner.manager.first_permits);
            for domain in &mut inner.domains {
                (domain.crash, domain.restarts) = (None, 0);
            }
            let all = 0..inner.domains.len();
            inner.domains.iter().all(|d| (*d.state).dead == Status::Ok)
                && all.clone().all(|index| inner.clear(index).is_ok())
        }
    }

    pub(crate) fn get(&self) -> &Inner {
        // SAFETY: the record lives as long as the world; `&self` means that no call is in progress.
        unsafe { &*self.inner }
    }

    /// All bindings, in the order of the domains and their imports.
    pub fn bindings(&self) -> Vec<BindingReport> {
        self.get().reports()
    }

    /// A domain by name.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn domain(&self, name: &str) -> Result<DomainRef<'_>, LookupError> {
        let index = self.get().find(name)?;
        Ok(DomainRef { inner: self.get(), index })
    }

    /// The names of all domains that were described, in the order in which they were added.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.get()
            .domains
            .iter()
            .enumerate()
            .filter(|(index, d)| d.origin == *index && !d.name.is_empty())
            .map(|(_, d)| d.name.as_str())
    }

    /// A domain's memory.
    ///
    /// # Errors
    /// [`LookupError::Domain`].
    pub fn memory(&mut self, name: &str) -> Result<Memory<'_>, LookupError> {
        let index = self.get().find(name)?;
        Ok(self.get().domains[index].memory())
    }

    /// A shared region's memory.
    ///
    /// # Errors
    /// [`LookupError::Region`].
    pub fn region(&mut self, name: &str) -> Result<&mut crate::vm::region::View, LookupError> {
        // SAFETY: the record lives as long as the world; `&mut self` makes the access exclusive.
        let inner = unsafe { &mut *self.inner };
        let region = inner.regions.iter_mut().find(|r| r.name == name);
        region.map(|r| &mut r.view).ok_or_else(|| LookupError::Region(name.to_owned()))
    }

    /// Brings a domain back to the state in which it was built: data, heap, stack and thread locals
    /// are reloaded and the initialisers run again. Shared regions stay as they are, placement too.
    ///
    /// # Errors
    /// [`BuildError::Spec`] for an unknown name, [`BuildError::Initialiser`], [`BuildError::Map`].
    pub fn restart(&mut self, name: &str) -> Result<(), BuildError> {
        let index = self.get().find(name)?;
        // SAFETY: `&mut self`: no call is in progress, so no frame of the domain is outstanding.
        unsafe {
            (&mut (*self.inner).domains)[index].crash = None;
            (*self.inner).clear(index)?;
        }
        self.initialise(index)
    }

    /// Runs the finalisers (`.fini_array`) of all living domains, the last added first. All run,
    /// the first error is given.
    ///
    /// # Errors
    /// [`CallError`] of a finaliser.
    pub fn shutdown(self) -> Result<(), CallError> {
        let mut result = Ok(());
        for index in (0..self.get().domains.len()).rev() {
            let domain = &self.get().domains[index];
            // SAFETY: the state lives as long as the world, which this thread owns.
            if unsafe { (*domain.state).dead } != Status::Ok {
                continue;
            }
            let offsets = domain.image.finalisers.clone();
            // SAFETY: as above.
            let done = unsafe { Inner::run_all(self.inner, index, &offsets) };
            result = result.and(done);
        }
        result
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: both were made by the builder with `Box::into_raw`; no call is in progress, so
        // nobody uses them.
        unsafe {
            let mut inner = Box::from_raw(self.inner);
            // First: the watchdog looks at the others.
            inner.watched = None;
            (0..inner.domains.len()).for_each(|index| inner.settle(index));
            for state in inner.domains.iter().map(|d| d.state) {
                drop(Box::from_raw(state));
            }
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("id", &self.id).finish_non_exhaustive()
    }
}
