//! Typed calls from the host into domains.

use crate::fault::limits::Limits;
use crate::fault::watch::Watch;
use crate::gate::records::{Binding, CallFrame, Status};
use crate::world::error::{CallError, Failure};
use crate::world::{Inner, World};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A value that crosses in one register: integers, `bool`, `f32`, `f64`, [`Pointer`].
pub trait Value: Copy {
    /// Travels in a vector register.
    const FLOAT: bool;
    /// The register's 64 bits. Integers narrower than 64 bits are extended as the psABI's users
    /// expect.
    fn to_word(self) -> u64;
    /// The value out of a register.
    fn from_word(word: u64) -> Self;
}

/// A pointer in a domain's terms; [`crate::Memory`] reads and writes through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer(pub u64);

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Value for $t {
            const FLOAT: bool = false;
            #[inline]
            fn to_word(self) -> u64 { self as u64 }
            #[inline]
            fn from_word(word: u64) -> Self { word as Self }
        }
    )* };
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Value for bool {
    const FLOAT: bool = false;
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        word & 0xff != 0
    }
}

impl Value for Pointer {
    const FLOAT: bool = false;
    #[inline]
    fn to_word(self) -> u64 {
        self.0
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Value for f64 {
    const FLOAT: bool = true;
    #[inline]
    fn to_word(self) -> u64 {
        self.to_bits()
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Self::from_bits(word)
    }
}

impl Value for f32 {
    const FLOAT: bool = true;
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self.to_bits())
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Self::from_bits(word as u32)
    }
}

/// A result: a [`Value`] or `()`.
pub trait Outcome {
    /// Out of rax and the low half of xmm0.
    fn from_registers(rax: u64, xmm0: u64) -> Self;
}

impl Outcome for () {
    #[inline]
    fn from_registers(_: u64, _: u64) {}
}

impl<T: Value> Outcome for T {
    #[inline]
    fn from_registers(rax: u64, xmm0: u64) -> Self {
        T::from_word(if T::FLOAT { xmm0 } else { rax })
    }
}

/// Arguments sorted into registers and stack words (psABI 3.2.3).
#[derive(Clone, Copy)]
pub struct Arguments {
    pub(crate) frame: CallFrame,
    ints: usize,
    floats: usize,
    stack: [MaybeUninit<u64>; MAX_ARGUMENTS],
    stack_words: usize,
}

/// Most arguments of a typed call.
pub const MAX_ARGUMENTS: usize = 12;

impl Arguments {
    #[inline]
    pub(crate) fn new() -> Self {
        let stack = [MaybeUninit::uninit(); MAX_ARGUMENTS];
        Self { frame: CallFrame::new(), ints: 0, floats: 0, stack, stack_words: 0 }
    }

    #[inline]
    fn push<T: Value>(&mut self, value: T) {
        self.push_word(value.to_word(), T::FLOAT);
    }

    /// A word, for a vector register if `float`.
    #[inline]
    pub(crate) fn push_word(&mut self, word: u64, float: bool) {
        if float && self.floats < 8 {
            self.frame.floats[self.floats] = word;
            self.floats += 1;
        } else if !float && self.ints < 6 {
            self.frame.ints[self.ints] = word;
            self.ints += 1;
        } else {
            self.stack[self.stack_words] = MaybeUninit::new(word);
            self.stack_words += 1;
        }
    }

    /// Stack words in order.
    pub(crate) fn stack(&self) -> Vec<u64> {
        // SAFETY: `push` initialised the first `stack_words`.
        self.stack[..self.stack_words].iter().map(|w| unsafe { w.assume_init() }).collect()
    }
}

/// A function type whose calls can cross: `fn(u64, f64) -> u64` and the like, up to
/// [`MAX_ARGUMENTS`] arguments.
pub trait Function {
    /// The arguments as a tuple.
    type Args;
    /// The result.
    type Output: Outcome;
    /// Some argument travels in a vector register.
    const FLOATS: bool;
    /// Sorts the arguments into registers.
    fn arguments(args: Self::Args) -> Arguments;
}

macro_rules! functions {
    ($($name:ident)*) => {
        impl<R: Outcome, $($name: Value),*> Function for fn($($name),*) -> R {
            type Args = ($($name,)*);
            type Output = R;
            const FLOATS: bool = false $(|| $name::FLOAT)*;
            #[inline]
            #[allow(non_snake_case, unused_mut)]
            fn arguments(($($name,)*): Self::Args) -> Arguments {
                let mut arguments = Arguments::new();
                $(arguments.push($name);)*
                arguments
            }
        }
    };
}
functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);
functions!(A B C D E);
functions!(A B C D E F);
functions!(A B C D E F G);
functions!(A B C D E F G H);
functions!(A B C D E F G H I);
functions!(A B C D E F G H I J);
functions!(A B C D E F G H I J K);
functions!(A B C D E F G H I J K L);

/// Something that may enter domains: a [`World`], or within a host function the
/// [`crate::HostCall`].
pub trait Enter: sealed::Sealed {}

pub(crate) mod sealed {
    /// Access to the world's record.
    pub trait Sealed {
        /// The record; valid while `self` is borrowed.
        fn inner(&mut self) -> *mut crate::world::Inner;
    }
}

impl sealed::Sealed for World {
    fn inner(&mut self) -> *mut Inner {
        self.inner
    }
}
impl Enter for World {}

/// A function of a domain with its type. Looked up once, called often.
pub struct TypedFn<F> {
    pub(crate) world: u64,
    /// Of the callee, when the binding was made.
    pub(crate) generation: u64,
    /// Number of the callee, if it is an instance.
    pub(crate) life: u64,
    pub(crate) binding: Binding,
    /// By which it is found again when the callee was loaded again.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) function: PhantomData<F>,
}

impl std::fmt::Debug for Arguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arguments").field("ints", &self.ints).field("floats", &self.floats).finish_non_exhaustive()
    }
}

impl<F> std::fmt::Debug for TypedFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TypedFn<{}>", std::any::type_name::<F>())
    }
}

impl<F> Clone for TypedFn<F> {
    fn clone(&self) -> Self {
        let Self { world, generation, life, binding, .. } = *self;
        Self { world, generation, life, binding, name: self.name.clone(), function: PhantomData }
    }
}

// SAFETY: the pointers in the binding are only used after the world's number was compared, with the
// world borrowed.
unsafe impl<F> Send for TypedFn<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for TypedFn<F> {}

impl World {
    /// Makes calls with limits of their own instead of the world's, which has some already or is
    /// [`crate::Builder::timed`]. Every call of `body` has the whole limit.
    ///
    /// # Errors
    /// [`CallError::Untimed`].
    pub fn within<R>(&mut self, limits: Limits, body: impl FnOnce(&mut Self) -> R) -> Result<R, CallError> {
        /// Puts the world's limits back, also when a panic goes on. The world may be gone by then:
        /// `body` can put another one in its place.
        struct Restore(Arc<Watch>);
        impl Drop for Restore {
            fn drop(&mut self) {
                self.0.limit_calls();
            }
        }
        // SAFETY: the record lives as long as the world, which is borrowed mutably.
        let Some(watched) = (unsafe { (*self.inner).watched.as_ref() }) else { return Err(CallError::Untimed) };
        watched.limit_call(limits);
        let _restore = Restore(watched.shared());
        Ok(body(self))
    }
}

impl<F: Function> TypedFn<F> {
    /// Calls the function in its domain. What the type says is between the caller and the domain's
    /// author: a wrong type gives wrong values, never more than the domain could do anyway.
    ///
    /// # Errors
    /// [`CallError`]; the domain is dead after [`CallError::Fault`].
    ///
    /// # Panics
    /// Resumes the panic of a host function that the domain called. The domains that were active
    /// are dead then.
    #[inline]
    pub fn call(&self, enter: &mut impl Enter, args: F::Args) -> Result<F::Output, CallError> {
        let inner = enter.inner();
        let mut arguments = F::arguments(args);
        // SAFETY: `inner` is valid and unaliased while `enter` is borrowed.
        match unsafe { self.enter(inner, &mut arguments) } {
            Ok(()) => Ok(F::Output::from_registers(arguments.frame.rax, arguments.frame.xmm0)),
            // SAFETY: as above.
            Err(failure) => Err(unsafe { Inner::failure(inner, self.binding.callee, failure) }),
        }
    }

    /// Calls the function with limits for this call instead of the world's, which has some already
    /// or is [`crate::Builder::timed`].
    ///
    /// # Errors
    /// As for [`TypedFn::call`]; [`CallError::Untimed`].
    ///
    /// # Panics
    /// As [`TypedFn::call`].
    pub fn call_within(&self, world: &mut World, limits: Limits, args: F::Args) -> Result<F::Output, CallError> {
        world.within(limits, |world| self.call(world, args))?
    }

    /// Crosses.
    ///
    /// # Safety
    /// `inner` is the record of a world that this thread holds mutably.
    #[inline]
    pub(crate) unsafe fn enter(&self, inner: *mut Inner, arguments: &mut Arguments) -> Result<(), Failure> {
        // SAFETY: see the function's contract; the binding belongs to this world, so its callee
        // lives.
        unsafe {
            if (*inner).id != self.world {
                return Err(Failure::WrongWorld);
            }
            let callee = self.binding.callee;
            let sp = (*callee).sp;
            if sp == 0 || (*callee).generation != self.generation {
                // A copy: the caller's own has no address then, and stays in registers.
                let mut copy = *arguments;
                let entered = self.enter_again(inner, &mut copy);
                *arguments = copy;
                return entered;
            }
            arguments.frame.sp = sp;
            if arguments.stack_words != 0 && !Inner::push_arguments(inner, self.binding.callee, arguments) {
                return Err(Failure::Status(Status::Arguments));
            }
            match Inner::cross(inner, &self.binding, &mut arguments.frame, F::FLOATS) {
                // The callee died below one of its own active calls: this is the call in which it
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
    /// The callee is dead, active, or was loaded again since the function was looked up.
    ///
    /// # Safety
    /// As for [`TypedFn::enter`].
    #[cold]
    unsafe fn enter_again(&self, inner: *mut Inner, arguments: &mut Arguments) -> Result<(), Failure> {
        // SAFETY: see the function's contract; the state lives as long as the world.
        unsafe {
            let callee = self.binding.callee;
            let index = (*callee).index as usize;
            if (*callee).life != self.life {
                return Err(Failure::Discarded);
            }
            if (*callee).dead != Status::Ok
                && let Err(status) = Inner::revive(inner, index)
            {
                return Err(Failure::Status(status));
            }
            if (*callee).sp == 0 {
                return Err(Failure::Status(Status::Refused));
            }
            if (*callee).generation == self.generation {
                return self.enter(inner, arguments);
            }
            let Some(name) = &self.name else { return Err(Failure::Gone) };
            let functions = &(&(*inner).domains)[index].image.functions_by_name;
            match functions.get(&**name) {
                Some(offset) => (*inner).typed::<F>(index, *offset, None).enter(inner, arguments),
                None => Err(Failure::Gone),
            }
        }
    }
}
