//! A pipe: a tiny computation on each word of a stream.

use crate::error::PipeError;
use std::fmt;

/// Most steps of a pipe.
pub const MAX_STEPS: usize = 64;
/// Most persistent registers of a pipe.
pub const MAX_KEEPS: usize = 16;
/// Most temporary registers of a pipe.
pub const MAX_LOCALS: usize = 16;

/// The width of a word: a pipe's gauge, a register, or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 8 bits.
    W8,
    /// 16 bits.
    W16,
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

impl Width {
    /// All widths, from the narrowest on.
    pub const ALL: [Width; 4] = [Width::W8, Width::W16, Width::W32, Width::W64];

    /// Returns the width of so many bits.
    pub fn from_bits(bits: u32) -> Option<Width> {
        Width::ALL.into_iter().find(|width| width.bits() == bits)
    }

    /// Returns the width of so many bytes.
    pub(crate) fn from_bytes(bytes: usize) -> Width {
        *Width::ALL.iter().rfind(|width| width.bytes() <= bytes).unwrap_or(&Width::W8)
    }

    /// Returns the number of bits.
    pub fn bits(self) -> u32 {
        8 << self as u32
    }

    /// Returns the number of bytes.
    pub fn bytes(self) -> usize {
        1 << self as usize
    }

    /// Returns a word with all of its bits set.
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

/// The operation of a step. It reads its operands modulo its width, and its result is a word of its
/// width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The first operand.
    Move,
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Bits that both have.
    And,
    /// Bits that one has.
    Or,
    /// Bits in which they differ.
    Xor,
    /// All bits turned.
    Not,
    /// Shift to the left by a number.
    Shl,
    /// Shift to the right by a number.
    Shr,
    /// Rotation to the left by a number.
    Rol,
    /// Rotation to the right by a number.
    Ror,
    /// The bytes in reverse order.
    Swap,
    /// Sum in ones' complement: the carry is added again (RFC 1071).
    Ones,
    /// 1 if the first is less than the second, else 0.
    Less,
    /// 1 if they are equal, else 0.
    Equal,
    /// The CRC-32 of IEEE 802.3: register and word to register, without the inversions.
    Crc32,
    /// The CRC-32C of RFC 3720, likewise.
    Crc32c,
}

/// The names of all actions in the text form.
pub(crate) const ACTIONS: [(&str, Action); 18] = [
    ("move", Action::Move),
    ("add", Action::Add),
    ("sub", Action::Sub),
    ("mul", Action::Mul),
    ("and", Action::And),
    ("or", Action::Or),
    ("xor", Action::Xor),
    ("not", Action::Not),
    ("shl", Action::Shl),
    ("shr", Action::Shr),
    ("rol", Action::Rol),
    ("ror", Action::Ror),
    ("swap", Action::Swap),
    ("ones", Action::Ones),
    ("less", Action::Less),
    ("equal", Action::Equal),
    ("crc32", Action::Crc32),
    ("crc32c", Action::Crc32c),
];

impl Action {
    /// Says whether it has one operand only.
    pub fn is_unary(self) -> bool {
        matches!(self, Action::Move | Action::Not | Action::Swap)
    }

    /// Says whether its second operand is a number of bits.
    pub fn is_shift(self) -> bool {
        matches!(self, Action::Shl | Action::Shr | Action::Rol | Action::Ror)
    }

    /// Says whether its operands may change places.
    pub(crate) fn is_symmetric(self) -> bool {
        use Action::{Add, And, Equal, Mul, Ones, Or, Xor};
        matches!(self, Add | Mul | And | Or | Xor | Ones | Equal)
    }

    /// Says whether it gives a CRC register of 32 bits, whatever its width is.
    pub(crate) fn is_crc(self) -> bool {
        matches!(self, Action::Crc32 | Action::Crc32c)
    }
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The word from the stream.
    In,
    /// A persistent register of the pipe.
    Keep(usize),
    /// A temporary register.
    Local(usize),
    /// A number.
    Number(u64),
}

/// The place of a step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The word for the stream.
    Out,
    /// A persistent register.
    Keep(usize),
    /// A temporary register.
    Local(usize),
}

/// One step of a pipe: `target = action.width a b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The place of the result.
    pub target: Target,
    /// The operation.
    pub action: Action,
    /// Its width.
    pub width: Width,
    /// The first operand.
    pub a: Operand,
    /// The second operand. Actions with one operand ignore it.
    pub b: Operand,
}

/// A persistent register. It lives from word to word and from transfer to transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Its name.
    pub name: String,
    /// Its width. An imported value is cut to it.
    pub width: Width,
}

/// The fate of the last bytes if they do not fill a word of the input gauge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Zeros fill the word. The output has the share of the real bytes, rounded up.
    #[default]
    Pad,
    /// The bytes pass unchanged, and the pipe does not see them.
    Pass,
}

/// The computation of a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Steps for each word.
    Steps(Vec<Step>),
    /// The stream cipher of RFC 8439.
    ChaCha20,
}

/// A pipe. [`Pipe::new`] begins one, [`Pipe::parse`] reads its text form, and the functions of
/// [`crate::builtin`] return the ready ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    pub(crate) name: String,
    pub(crate) input: Width,
    pub(crate) output: Width,
    pub(crate) is_commutative: bool,
    pub(crate) tail: Tail,
    pub(crate) keeps: Vec<Keep>,
    pub(crate) locals: Vec<String>,
    pub(crate) body: Body,
}

impl Pipe {
    /// Begins a pipe with equal gauges and no steps: a copy.
    pub fn new(name: impl Into<String>, gauge: Width) -> Pipe {
        Pipe {
            name: name.into(),
            input: gauge,
            output: gauge,
            is_commutative: false,
            tail: Tail::Pad,
            keeps: Vec::new(),
            locals: Vec::new(),
            body: Body::Steps(Vec::new()),
        }
    }

    /// Sets the output gauge.
    #[must_use]
    pub fn output_gauge(mut self, gauge: Width) -> Pipe {
        self.output = gauge;
        self
    }

    /// Allows the composer to apply the pipe to the words in any order. The result must not depend
    /// on the order.
    #[must_use]
    pub fn commutative(mut self) -> Pipe {
        self.is_commutative = true;
        self
    }

    /// Sets the fate of the last bytes.
    #[must_use]
    pub fn tail(mut self, tail: Tail) -> Pipe {
        self.tail = tail;
        self
    }

    /// Adds a persistent register. The first one is `Keep(0)`.
    #[must_use]
    pub fn keep(mut self, name: impl Into<String>, width: Width) -> Pipe {
        self.keeps.push(Keep { name: name.into(), width });
        self
    }

    /// Adds a step. Temporary registers are numbered by the caller, from 0 on.
    #[must_use]
    pub fn step(mut self, target: Target, action: Action, width: Width, a: Operand, b: Operand) -> Pipe {
        for operand in [a, b] {
            if let Operand::Local(number) = operand {
                self.add_locals(number);
            }
        }
        if let Target::Local(number) = target {
            self.add_locals(number);
        }
        if let Body::Steps(steps) = &mut self.body {
            steps.push(Step { target, action, width, a, b });
        }
        self
    }

    fn add_locals(&mut self, number: usize) {
        while self.locals.len() <= number.min(MAX_LOCALS) {
            self.locals.push(format!("t{}", self.locals.len()));
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the input gauge and the output gauge.
    pub fn gauges(&self) -> (Width, Width) {
        (self.input, self.output)
    }

    /// Returns the persistent registers.
    pub fn keeps(&self) -> &[Keep] {
        &self.keeps
    }

    /// Returns the steps for each word. The stream cipher has none.
    pub fn steps(&self) -> &[Step] {
        match &self.body {
            Body::Steps(steps) => steps,
            Body::ChaCha20 => &[],
        }
    }

    /// Says whether the pipe lets the stream pass unchanged.
    pub fn is_tap(&self) -> bool {
        self.body != Body::ChaCha20 && self.steps().iter().all(|step| step.target != Target::Out)
    }

    /// Checks the pipe.
    ///
    /// # Errors
    /// [`PipeError`]: the first thing that is wrong.
    pub fn check(&self) -> Result<(), PipeError> {
        let steps = self.steps();
        if steps.len() > MAX_STEPS || self.keeps.len() > MAX_KEEPS || self.locals.len() > MAX_LOCALS {
            return Err(PipeError::Large);
        }
        if self.input != self.output && (self.is_tap() || self.tail == Tail::Pass) {
            return Err(PipeError::Gauges);
        }
        let mut known = [false; MAX_LOCALS];
        steps.iter().enumerate().try_for_each(|(number, step)| self.check_step(number, step, &mut known))
    }

    fn check_step(&self, number: usize, step: &Step, known: &mut [bool; MAX_LOCALS]) -> Result<(), PipeError> {
        let line = number + 1;
        let readable = |operand: Operand| match operand {
            Operand::In => true,
            Operand::Number(value) => value <= step.width.mask(),
            Operand::Keep(keep) => keep < self.keeps.len(),
            Operand::Local(local) => known.get(local).copied().unwrap_or(false),
        };
        if !readable(step.a) || !step.action.is_unary() && !readable(step.b) {
            return Err(PipeError::Operand(line));
        }
        if step.action.is_shift() && !matches!(step.b, Operand::Number(bits) if bits < u64::from(step.width.bits())) {
            return Err(PipeError::Shift(line));
        }
        match step.target {
            Target::Out => {}
            Target::Local(local) if local < MAX_LOCALS => known[local] = true,
            Target::Keep(keep) if keep < self.keeps.len() => {
                let width = if step.action.is_crc() { Width::W32 } else { step.width };
                if width > self.keeps[keep].width {
                    return Err(PipeError::Width(line));
                }
            }
            _ => return Err(PipeError::Operand(line)),
        }
        Ok(())
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bits())
    }
}
