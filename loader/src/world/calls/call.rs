//! Typed calls from the host into domains.

use crate::fault::limits::Limits;
use crate::fault::watch::Watch;
use crate::gate::ids::DomainId;
use crate::gate::records::{Binding, DomainState, Status, flag};
use crate::vm::address::WindowOffset;
use crate::world::calls::values::{Arguments, Function, Outcome};
use crate::world::error::{CallError, Failure};
use crate::world::held::{Held, World};
use crate::world::inner::Inner;
use std::marker::PhantomData;
use std::sync::Arc;

/// A way into domains: a [`World`], or within a host function the [`crate::HostCall`].
pub trait Enter: sealed::Sealed {}

pub(crate) mod sealed {
    use crate::world::held::Held;

    /// Access to the world.
    pub trait Sealed {
        /// Returns the world, which is held as long as `self` is borrowed.
        fn access(&mut self) -> Access<'_>;
    }

    /// A held world that only this crate can use.
    #[derive(Debug)]
    pub struct Access<'w>(pub(crate) Held<'w>);
}

/// The world of an [`Enter`], for this crate.
pub(crate) trait Hold: sealed::Sealed {
    /// Returns the world, which is held as long as `self` is borrowed.
    #[inline]
    fn held(&mut self) -> Held<'_> {
        self.access().0
    }
}

impl<E: sealed::Sealed + ?Sized> Hold for E {}

impl sealed::Sealed for World {
    #[inline]
    fn access(&mut self) -> sealed::Access<'_> {
        sealed::Access(self.held())
    }
}
impl Enter for World {}

/// A function of a domain with its type. It is looked up once and called often.
pub struct TypedFn<F> {
    pub(crate) world: u64,
    /// The number at `fresh` when the binding was made.
    pub(crate) generation: u64,
    /// The place of a number that changes when the binding must be made again: the callee's
    /// generation, or that of the library that has the function.
    pub(crate) fresh: *const u64,
    /// The number of that library's link.
    pub(crate) link: Option<u64>,
    /// Number of the callee, if it is an instance.
    pub(crate) life: u64,
    pub(crate) binding: Binding,
    /// The name by which the function is found again after the callee was loaded again.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) function: PhantomData<F>,
}

impl<F> std::fmt::Debug for TypedFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TypedFn<{}>", std::any::type_name::<F>())
    }
}

impl<F> Clone for TypedFn<F> {
    fn clone(&self) -> Self {
        let Self { world, generation, fresh, link, life, binding, .. } = *self;
        Self { world, generation, fresh, link, life, binding, name: self.name.clone(), function: PhantomData }
    }
}

// SAFETY: the pointers in the binding are only used after the world's number was compared, with the
// world borrowed.
unsafe impl<F> Send for TypedFn<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for TypedFn<F> {}

impl World {
    /// Makes calls with limits of their own instead of the world's. The world must have limits
    /// already, or be [`crate::Builder::timed`]. Every call of `body` has the whole limit.
    ///
    /// # Errors
    /// [`CallError::Untimed`]; [`CallError::Watchdog`].
    pub fn within<R>(&mut self, limits: Limits, body: impl FnOnce(&mut Self) -> R) -> Result<R, CallError> {
        /// Puts the world's limits back, also when a panic goes on. The world may be gone by then,
        /// because `body` can put another one in its place.
        struct Restore(Arc<Watch>);
        impl Drop for Restore {
            fn drop(&mut self) {
                self.0.limit_calls();
            }
        }
        let Some(watched) = self.record().time.watched.as_ref().filter(|w| w.is_by_watchdog()) else {
            return Err(CallError::Untimed);
        };
        watched.limit_call(limits).map_err(|error| CallError::Watchdog(error.kind()))?;
        let _restore = Restore(watched.shared());
        Ok(body(self))
    }
}

impl<F: Function> TypedFn<F> {
    /// Calls the function in its domain. Its type is a convention between the caller and the
    /// domain's author. A wrong type gives wrong values, but lets the domain do no more than it
    /// could anyway.
    ///
    /// # Errors
    /// [`CallError`]. The domain is dead after [`CallError::Fault`].
    ///
    /// # Panics
    /// Resumes the panic of a host function that the domain called. The active domains are dead
    /// then.
    #[inline]
    pub fn call(&self, enter: &mut (impl Enter + ?Sized), args: F::Args) -> Result<F::Output, CallError> {
        let mut held = enter.held();
        let mut arguments = F::arguments(args);
        match self.enter(held.again(), &mut arguments) {
            Ok(()) => Ok(F::Output::from_registers(arguments.frame.rax, arguments.frame.xmm0)),
            // SAFETY: the callee is the world's, or `enter` found that it is another's.
            Err(failure) => Err(unsafe { held.failure(self.binding.callee, failure) }),
        }
    }

    /// Calls the function with limits for this call instead of the world's. The world must have
    /// limits already, or be [`crate::Builder::timed`].
    ///
    /// # Errors
    /// As for [`TypedFn::call`]; [`CallError::Untimed`]; [`CallError::Watchdog`].
    ///
    /// # Panics
    /// As [`TypedFn::call`].
    pub fn call_within(&self, world: &mut World, limits: Limits, args: F::Args) -> Result<F::Output, CallError> {
        world.within(limits, |world| self.call(world, args))?
    }

    /// Calls the function with this budget of instructions for its domain, instead of
    /// [`crate::DomainSpec::instructions`].
    ///
    /// # Errors
    /// As for [`TypedFn::call`]; [`CallError::Unbudgeted`].
    ///
    /// # Panics
    /// As [`TypedFn::call`].
    pub fn call_with_instructions(&self, world: &mut World, most: u64, args: F::Args) -> Result<F::Output, CallError> {
        let held = world.held();
        if held.id != self.world {
            return self.call(world, args);
        }
        // SAFETY: the binding belongs to this world, so its callee lives.
        let (state, usual) = unsafe { (self.binding.callee, (*self.binding.callee).instructions) };
        if usual == 0 || !(1..=sfi_contract::budget::MOST).contains(&most) {
            return Err(CallError::Unbudgeted);
        }
        /// Puts the usual budget back, also when a panic goes on.
        struct Restore(*mut DomainState, u64);
        impl Drop for Restore {
            fn drop(&mut self) {
                // SAFETY: the world is borrowed during the call, so the state lives.
                unsafe { (*self.0).instructions = self.1 };
            }
        }
        let _restore = Restore(state, usual);
        // SAFETY: as above.
        unsafe { (*state).instructions = most };
        self.call(world, args)
    }

    /// Crosses into the domain, in a lane by its door.
    #[inline]
    pub(crate) fn enter(&self, held: Held<'_>, arguments: &mut Arguments) -> Result<(), Failure> {
        match held.lane.is_none() {
            true => self.enter_open(held, arguments),
            false => self.enter_by_door(held, arguments),
        }
    }

    /// Crosses in a lane.
    fn enter_by_door(&self, mut held: Held<'_>, arguments: &mut Arguments) -> Result<(), Failure> {
        if held.id != self.world {
            return Err(Failure::WrongWorld);
        }
        let callee = self.binding.callee;
        // SAFETY: the binding belongs to this world, so its callee lives.
        unsafe {
            let mark = held.go_in(callee).map_err(Failure::Status)?;
            let entered = self.enter_open(held.again(), arguments);
            held.go_out(callee, mark, entered.is_err());
            entered
        }
    }

    /// Crosses into a domain that no other lane keeps this one out of.
    #[inline]
    fn enter_open(&self, held: Held<'_>, arguments: &mut Arguments) -> Result<(), Failure> {
        if held.id != self.world {
            return Err(Failure::WrongWorld);
        }
        // SAFETY: the binding belongs to this world, so its callee lives.
        unsafe {
            let callee = self.binding.callee;
            let sp = (*callee).sp;
            if sp == 0 || *self.fresh != self.generation {
                // The copy leaves the caller's own frame without an address, so that it stays in
                // registers.
                let mut copy = *arguments;
                let entered = self.enter_again(held, &mut copy);
                *arguments = copy;
                return entered;
            }
            arguments.frame.sp = sp;
            if arguments.has_stack() && !held.push_arguments(callee, arguments) {
                return Err(Failure::Status(Status::Arguments));
            }
            match held.cross(&self.binding, &mut arguments.frame, F::FLOATS) {
                // The callee died below one of its own active calls. This is the call in which it
                // happened.
                Err(Failure::Status(Status::Dead)) if (*callee).fault.signal != 0 => {
                    Err(Failure::Status(Status::Fault))
                }
                crossed => crossed,
            }
        }
    }
}

impl<F: Function> TypedFn<F> {
    /// Handles a callee that is dead, active, or was loaded again since the function was looked up.
    #[cold]
    fn enter_again(&self, mut held: Held<'_>, arguments: &mut Arguments) -> Result<(), Failure> {
        // SAFETY: the binding belongs to this world, so its callee lives.
        unsafe {
            let callee = self.binding.callee;
            let index = (*callee).index;
            if (*callee).life != self.life {
                return Err(Failure::Discarded);
            }
            if (*callee).dead != Status::Ok
                && let Err(status) = held.revive(index)
            {
                return Err(Failure::Status(status));
            }
            if (*callee).sp == 0 {
                return Err(Failure::Status(Status::Refused));
            }
            if *self.fresh == self.generation {
                return self.enter(held, arguments);
            }
            let Some(name) = &self.name else { return Err(Failure::Gone) };
            let domain = &held.domains[index];
            let functions = match self.link {
                None => Some(&domain.image.functions_by_name),
                Some(number) => domain.links.as_ref().and_then(|l| l.get(number)).map(|link| &link.functions),
            };
            match functions.and_then(|functions| functions.get(&**name)).copied() {
                Some(offset) => held.typed::<F>(index, offset, None).enter(held, arguments),
                None => Err(Failure::Gone),
            }
        }
    }
}

impl Inner {
    /// Makes the function at a window offset callable.
    pub(crate) fn typed<F: Function>(
        &self,
        domain: DomainId,
        offset: WindowOffset,
        name: Option<Arc<str>>,
    ) -> TypedFn<F> {
        let mut binding = self.host_binding(domain, offset);
        binding.flags |= if F::FLOATS { flag::FLOATS } else { 0 };
        let link = self.domains[domain].link_at(offset);
        // SAFETY: the state and the numbers of libraries live as long as the world.
        let (fresh, generation, life) = unsafe {
            let fresh = link.map_or(&raw const (*binding.callee).generation, |link| link.word.place());
            (fresh, *fresh, (*binding.callee).life)
        };
        let link = link.map(|link| link.number);
        TypedFn { world: self.id, generation, fresh, link, life, binding, name, function: PhantomData }
    }

    /// Makes the function that a pointer of a domain means callable. The arithmetic is that of an
    /// indirect call of the domain.
    pub(crate) fn function_at<F: Function>(&self, domain: DomainId, pointer: u64) -> Result<TypedFn<F>, CallError> {
        match self.code_at(domain, pointer) {
            Some(offset) => Ok(self.typed(domain, offset, None)),
            None => Err(CallError::NotAFunction { domain: self.domains[domain].name.clone() }),
        }
    }
}

impl Held<'_> {
    /// Calls the code at a window offset with arguments that are sorted already. `floats`: some
    /// travel in vector registers.
    pub(crate) fn enter_code(
        &mut self,
        domain: DomainId,
        offset: WindowOffset,
        floats: bool,
        arguments: &mut Arguments,
    ) -> Result<(), CallError> {
        let entered = if floats {
            let function: TypedFn<fn(f64)> = self.typed(domain, offset, None);
            function.enter(self.again(), arguments)
        } else {
            let function: TypedFn<fn()> = self.typed(domain, offset, None);
            function.enter(self.again(), arguments)
        };
        let state = self.domains[domain].state;
        // SAFETY: the callee is the world's own.
        entered.map_err(|failure| unsafe { self.failure(state, failure) })
    }
}
