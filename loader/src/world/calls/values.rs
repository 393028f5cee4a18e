//! Values that cross in registers, and functions by the types of their values.

use crate::gate::records::CallFrame;
use std::mem::MaybeUninit;

/// A value that crosses in one register: integers, `bool`, `f32`, `f64`, [`Pointer`].
pub trait Value: Copy {
    /// True for values that travel in a vector register.
    const FLOAT: bool;
    /// Returns the register's 64 bits. Narrower integers are extended as users of the psABI expect.
    fn to_word(self) -> u64;
    /// Makes the value from a register.
    fn from_word(word: u64) -> Self;
}

/// A pointer in a domain's terms. [`crate::Memory`] reads and writes through it.
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
    /// Makes the result from rax and the low half of xmm0.
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

/// Number of general registers that hold arguments (psABI 3.2.3).
pub(crate) const INT_REGISTERS: usize = 6;

/// Number of vector registers that hold arguments.
pub(crate) const FLOAT_REGISTERS: usize = 8;

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

    /// Adds a word, for a vector register if `float`.
    #[inline]
    pub(crate) fn push_word(&mut self, word: u64, float: bool) {
        if float && self.floats < FLOAT_REGISTERS {
            self.frame.floats[self.floats] = word;
            self.floats += 1;
        } else if !float && self.ints < INT_REGISTERS {
            self.frame.ints[self.ints] = word;
            self.ints += 1;
        } else {
            self.stack[self.stack_words] = MaybeUninit::new(word);
            self.stack_words += 1;
        }
    }

    /// Says whether some arguments do not fit into registers.
    #[inline]
    pub(crate) fn has_stack(&self) -> bool {
        self.stack_words != 0
    }

    /// Returns the stack words in order.
    pub(crate) fn stack(&self) -> Vec<u64> {
        // SAFETY: `push` initialised the first `stack_words`.
        self.stack[..self.stack_words].iter().map(|w| unsafe { w.assume_init() }).collect()
    }
}

impl std::fmt::Debug for Arguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arguments").field("ints", &self.ints).field("floats", &self.floats).finish_non_exhaustive()
    }
}

/// A function type whose calls can cross, such as `fn(u64, f64) -> u64`, with up to
/// [`MAX_ARGUMENTS`] arguments.
pub trait Function {
    /// The arguments as a tuple.
    type Args;
    /// The result.
    type Output: Outcome;
    /// True if an argument travels in a vector register.
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
