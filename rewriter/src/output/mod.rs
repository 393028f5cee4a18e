//! The new object: sections, symbols, relocations, bytes.

pub(crate) mod object;
pub(crate) mod sections;
pub(crate) mod unwind_table;
pub(crate) mod write;
