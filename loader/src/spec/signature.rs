//! Signatures of crossings: which registers carry arguments and results, so that all others can be
//! cleared.

use std::fmt;
use std::str::FromStr;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// An integer of up to 64 bits, or a pointer that passes unchanged (and reveals the caller's
    /// window).
    Int,
    /// A pointer. It keeps its value if it is null or leads into a shared region that the callee
    /// sees. Otherwise its upper half is replaced by that of the callee's window (Wahbe et al.
    /// section 3.6, lazy pointer swizzling). A function pointer is refused
    /// ([`crate::Status::Code`]).
    Pointer,
    /// `float` or `double`.
    Float,
    /// A function of the caller, with the signature of calls to it. The callee gets a gateway of
    /// its own that leads there until the call returns. Null stays null.
    Function(Box<Signature>),
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// No result.
    Void,
    /// An integer of up to 64 bits.
    Int,
    /// A pointer, translated to the caller's terms as an argument is to the callee's.
    Pointer,
    /// `float` or `double`.
    Float,
}

/// The arguments and the result of a crossing. `Display` and `FromStr` use the form
/// `(ptr, int, float) -> int`, with `fn(int) -> int` for an argument that is a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Arguments in order.
    pub arguments: Vec<Argument>,
    /// The result.
    pub outcome: Outcome,
}

/// Registers for integer arguments.
pub(crate) const INT_REGISTERS: usize = 6;
/// Registers for floating-point arguments.
pub(crate) const FLOAT_REGISTERS: usize = 8;
/// Most words of stack arguments.
pub(crate) const MAX_STACK_WORDS: u32 = 64;
/// Deepest nesting of `fn` in `fn`.
pub(crate) const MAX_FUNCTION_DEPTH: usize = 4;

/// The registers of a signature (psABI 3.2.3).
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
    /// Bit i: integer register i holds a function.
    pub functions: u32,
}

/// The text is not a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a signature: {why}; write for example `(ptr, int, float) -> int`")]
pub struct BadSignature {
    text: String,
    why: String,
}

impl Signature {
    /// The signature without arguments and result.
    pub(crate) const NOTHING: Self = Self { arguments: Vec::new(), outcome: Outcome::Void };

    /// Says whether floats cross, at this call or at calls of a function that it passes.
    pub fn has_floats(&self) -> bool {
        let mut functions = self.functions();
        self.registers().floats > 0 || self.outcome == Outcome::Float || functions.any(Self::has_floats)
    }

    /// Returns the signatures of the functions that are passed.
    pub fn functions(&self) -> impl Iterator<Item = &Signature> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Function(signature) => Some(&**signature),
            _ => None,
        })
    }

    /// Says whether an argument is a function.
    pub fn has_functions(&self) -> bool {
        self.functions().next().is_some()
    }

    /// Assigns registers and stack words.
    pub fn registers(&self) -> Registers {
        let mut registers = Registers { ints: 0, floats: 0, stack_words: 0, pointers: 0, functions: 0 };
        for argument in &self.arguments {
            match argument {
                Argument::Float if registers.floats < FLOAT_REGISTERS => registers.floats += 1,
                Argument::Int | Argument::Pointer | Argument::Function(_) if registers.ints < INT_REGISTERS => {
                    registers.pointers |= u32::from(*argument == Argument::Pointer) << registers.ints;
                    registers.functions |= u32::from(matches!(argument, Argument::Function(_))) << registers.ints;
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
        f.write_str("(")?;
        for (index, argument) in self.arguments.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match argument {
                Argument::Int => f.write_str("int")?,
                Argument::Pointer => f.write_str("ptr")?,
                Argument::Float => f.write_str("float")?,
                Argument::Function(signature) => write!(f, "fn{signature}")?,
            }
        }
        f.write_str(match self.outcome {
            Outcome::Void => ") -> void",
            Outcome::Int => ") -> int",
            Outcome::Pointer => ") -> ptr",
            Outcome::Float => ") -> float",
        })
    }
}

/// The rest of a text that is read from the left.
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    /// Takes a token, with the space around it.
    fn take(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes a word of letters.
    fn word(&mut self) -> &'t str {
        let text = self.0.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        self.0 = &text[end..];
        &text[..end]
    }

    /// Takes a signature, `depth` functions deep.
    fn signature(&mut self, depth: usize) -> Result<Signature, &'static str> {
        if !self.take("(") {
            return Err("no `( )`");
        }
        let mut arguments = Vec::new();
        while !(arguments.is_empty() && self.take(")")) {
            arguments.push(match self.word() {
                "int" => Argument::Int,
                "ptr" => Argument::Pointer,
                "float" => Argument::Float,
                "fn" if depth < MAX_FUNCTION_DEPTH => Argument::Function(Box::new(self.signature(depth + 1)?)),
                "fn" => return Err("functions of functions nest too deeply"),
                _ => return Err("arguments are `int`, `ptr`, `float` or `fn(..) -> ..`"),
            });
            if self.take(")") {
                break;
            }
            if !self.take(",") {
                return Err("no `,` or `)` after an argument");
            }
        }
        if !self.take("->") {
            return Err("no `->`");
        }
        let outcome = match self.word() {
            "void" => Outcome::Void,
            "int" => Outcome::Int,
            "ptr" => Outcome::Pointer,
            "float" => Outcome::Float,
            _ => return Err("the result is `int`, `ptr`, `float` or `void`"),
        };
        let signature = Signature { arguments, outcome };
        signature.check().map(|()| signature)
    }
}

impl Signature {
    /// Checks that the arguments fit into their registers and stack words.
    fn check(&self) -> Result<(), &'static str> {
        let words = self.registers().stack_words;
        if words > MAX_STACK_WORDS {
            return Err("too many arguments");
        }
        if words > 0 && self.has_functions() {
            return Err("beside a `fn` all arguments are in registers: six integers and eight floats");
        }
        let ints = self.arguments.iter().filter(|argument| **argument != Argument::Float);
        if ints.skip(INT_REGISTERS).any(|argument| *argument == Argument::Pointer) {
            return Err("only the first six integer arguments can be `ptr`");
        }
        Ok(())
    }
}

impl FromStr for Signature {
    type Err = BadSignature;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why: &str| BadSignature { text: text.chars().take(200).collect(), why: why.to_owned() };
        let mut rest = Rest(text);
        let signature = rest.signature(0).map_err(bad)?;
        if rest.0.trim().is_empty() { Ok(signature) } else { Err(bad("text after the result")) }
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
    fn functions_are_arguments() {
        for text in ["(fn(int) -> int, int) -> int", "(fn() -> void, fn(ptr, float) -> float) -> ptr"] {
            assert_eq!(text.parse::<Signature>().unwrap().to_string(), text);
        }
        let nested = "(fn(fn(float) -> int) -> int) -> int".parse::<Signature>().unwrap();
        assert!(nested.has_floats() && nested.has_functions());
        assert_eq!(nested.registers().functions, 1);
        assert_eq!("(int, float, fn() -> int) -> int".parse::<Signature>().unwrap().registers().functions, 2);
        let deep = |depth: usize| "(fn".repeat(depth) + "() -> int" + &") -> int".repeat(depth);
        assert!(deep(MAX_FUNCTION_DEPTH).parse::<Signature>().is_ok());
        assert!(deep(MAX_FUNCTION_DEPTH + 1).parse::<Signature>().is_err());
        assert!(deep(100_000).parse::<Signature>().is_err());
        for text in [
            "(fn) -> int",
            "(fn(int)) -> int",
            "(fn(int) -> int int) -> int",
            "(fn(int) -> fn) -> int",
            "(int) -> fn() -> int",
            "(int,int,int,int,int,int,fn() -> int) -> int",
            "(fn() -> int,int,int,int,int,int,int) -> int",
            "(int) -> int)",
        ] {
            assert!(text.parse::<Signature>().is_err(), "{text}");
        }
    }

    #[test]
    fn registers_follow_the_psabi() {
        let registers = |text: &str| text.parse::<Signature>().unwrap().registers();
        assert_eq!(
            registers("(int, float, ptr) -> void"),
            Registers { ints: 2, floats: 1, stack_words: 0, pointers: 2, functions: 0 }
        );
        let many = format!("({}) -> int", ["int", "float"].repeat(10).join(", "));
        assert_eq!(registers(&many), Registers { ints: 6, floats: 8, stack_words: 6, pointers: 0, functions: 0 });
    }
}
