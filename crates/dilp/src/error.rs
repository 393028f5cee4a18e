//! The errors of this crate.

use thiserror::Error;

/// A pipe that is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PipeError {
    /// It has too many steps or registers.
    #[error("a pipe has at most 64 steps, 16 persistent and 16 temporary registers")]
    Large,
    /// Gauges that differ need an output, and a tail that is padded.
    #[error("a pipe with two gauges writes `out`, and its tail is `pad`")]
    Gauges,
    /// A step reads a register that has no value, or a number that does not fit.
    #[error("step {0} names a register without a value, or a number that does not fit its width")]
    Operand(usize),
    /// A shift by something other than a small number.
    #[error("step {0} shifts by a register, or by more bits than its width has")]
    Shift(usize),
    /// A result that is wider than its persistent register.
    #[error("step {0} writes a result that is wider than the persistent register")]
    Width(usize),
    /// A line of the text form that cannot be read.
    #[error("line {line}: {problem}")]
    Text {
        /// The line's number, from 1 on.
        line: usize,
        /// The reason.
        problem: &'static str,
    },
    /// No ready pipe has this name.
    #[error("no pipe is named `{0}`")]
    Unknown(String),
}

/// Pipes that cannot be composed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ComposeError {
    /// One of the pipes is not well formed.
    #[error("pipe {number}: {error}")]
    Pipe {
        /// Its number in the composition, from 0 on.
        number: usize,
        /// The reason.
        error: PipeError,
    },
    /// There are more pipes than a composition may have.
    #[error("a composition has at most 16 pipes")]
    Many,
    /// The gauges need units of more than 64 bytes.
    #[error("the gauges of the pipes need a unit of more than 64 bytes")]
    Unit,
    /// Mode match checks each store, which a loop of this kind does not have.
    #[error("compositions have no form for mode match")]
    Mode,
    /// The object cannot be written.
    #[error("cannot write the object: {0}")]
    Object(String),
}
