//! Signatures of crossings: which registers carry arguments and results, so that all others can be cleared.

use std::fmt;
use std::str::FromStr;

/// One argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// An integer of up to 64 bits, or a pointer that passes unchanged (and reveals the caller's window).
    Int,
    /// A pointer into a shared region: its upper half is replaced by the callee's window (Wahbe et al. section 3.6, lazy
    /// pointer swizzling). Null stays null.
    Pointer,
    /// `float` or `double`.
    Float,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing.
    Void,
    /// An integer of up to 64 bits.
    Int,
    /// A pointer into a shared region, rebased to the caller's window.
    Pointer,
    /// `float` or `double`.
    Float,
}

/// What crosses. `Display` and `FromStr` use the form `(ptr, int, float) -> int`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Arguments in order.
    pub arguments: Vec<Argument>,
    /// Result.
    pub outcome: Outcome,
}

/// Registers for integer arguments.
pub const INT_REGISTERS: usize = 6;
/// Registers for floating-point arguments.
pub const FLOAT_REGISTERS: usize = 8;
/// Most words of stack arguments.
pub const MAX_STACK_WORDS: u32 = 64;

/// How a signature maps to registers (psABI 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Integer registers in use.
    pub ints: usize,
    /// Vector registers in use.
    pub floats: usize,
    /// Words on the stack.
    pub stack_words: u32,
    /// Bit i: integer register i holds a pointer.
    pub pointers: u32,
}

/// The text is not a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a signature: {why}; write for example `(ptr, int, float) -> int`")]
pub struct BadSignature {
    text: String,
    why: String,
}

impl Signature {
    /// Floats cross.
    pub fn has_floats(&self) -> bool {
        self.registers().floats > 0 || self.outcome == Outcome::Float
    }

    /// Assigns registers and stack words.
    pub fn registers(&self) -> Registers {
        let mut registers = Registers { ints: 0, floats: 0, stack_words: 0, pointers: 0 };
        for argument in &self.arguments {
            match argument {
                Argument::Float if registers.floats < FLOAT_REGISTERS => registers.floats += 1,
                Argument::Int | Argument::Pointer if registers.ints < INT_REGISTERS => {
                    registers.pointers |= u32::from(*argument == Argument::Pointer) << registers.ints;
                    registers.ints += 1;
                }
                _ => registers.stack_words += 1,
            }
        }
        registers
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.arguments.iter().map(|a| match a {
            Argument::Int => "int",
            Argument::Pointer => "ptr",
            Argument::Float => "float",
        });
        let outcome = match self.outcome {
            Outcome::Void => "void",
            Outcome::Int => "int",
            Outcome::Pointer => "ptr",
            Outcome::Float => "float",
        };
        write!(f, "({}) -> {outcome}", names.collect::<Vec<_>>().join(", "))
    }
}

impl FromStr for Signature {
    type Err = BadSignature;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why: &str| BadSignature { text: text.to_owned(), why: why.to_owned() };
        let (list, outcome) = text.split_once("->").ok_or_else(|| bad("no `->`"))?;
        let list = list.trim().strip_prefix('(').and_then(|l| l.strip_suffix(')')).ok_or_else(|| bad("no `( )`"))?;
        let mut arguments = Vec::new();
        for word in list.split(',').map(str::trim).filter(|w| !w.is_empty() || list.contains(',')) {
            arguments.push(match word {
                "int" => Argument::Int,
                "ptr" => Argument::Pointer,
                "float" => Argument::Float,
                _ => return Err(bad("arguments are `int`, `ptr` or `float`")),
            });
        }
        let outcome = match outcome.trim() {
            "void" => Outcome::Void,
            "int" => Outcome::Int,
            "ptr" => Outcome::Pointer,
            "float" => Outcome::Float,
            _ => return Err(bad("the result is `int`, `ptr`, `float` or `void`")),
        };
        let signature = Self { arguments, outcome };
        if signature.registers().stack_words > MAX_STACK_WORDS {
            return Err(bad("too many arguments"));
        }
        let mut ints = 0;
        for argument in &signature.arguments {
            ints += usize::from(*argument != Argument::Float);
            if *argument == Argument::Pointer && ints > INT_REGISTERS {
                return Err(bad("only the first six integer arguments can be `ptr`"));
            }
        }
        Ok(signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["() -> void", "(int) -> int", "(ptr, int, float) -> ptr", "(float, float) -> float"] {
            assert_eq!(text.parse::<Signature>().unwrap().to_string(), text);
        }
        for text in ["", "int", "(int)", "(int,) -> int", "(long) -> int", "(int) -> long", "int -> int"] {
            assert!(text.parse::<Signature>().is_err(), "{text}");
        }
        assert!("(int,int,int,int,int,int,ptr) -> int".parse::<Signature>().is_err());
    }

    #[test]
    fn registers_follow_the_psabi() {
        let registers = |text: &str| text.parse::<Signature>().unwrap().registers();
        assert_eq!(
            registers("(int, float, ptr) -> void"),
            Registers { ints: 2, floats: 1, stack_words: 0, pointers: 2 }
        );
        let many = format!("({}) -> int", ["int", "float"].repeat(10).join(", "));
        assert_eq!(registers(&many), Registers { ints: 6, floats: 8, stack_words: 6, pointers: 0 });
    }
}
