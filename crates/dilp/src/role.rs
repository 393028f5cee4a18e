//! The purposes of instructions.

/// The purpose of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The function's beginning: it saves and imports registers.
    Entry,
    /// It loads words of the source.
    Load,
    /// It cuts or joins words for a pipe.
    Convert(u8),
    /// It does a pipe's work.
    Pipe(u8),
    /// It stores words.
    Store,
    /// It counts and branches.
    Loop,
    /// It makes key stream.
    Stream,
    /// The function's end: it folds and exports registers.
    Exit,
}
