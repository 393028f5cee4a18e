//! Dynamic integrated layer processing: data pipes that become one loop at run time.
//!
//! Layers of a protocol each go over a message: one copies it, one adds it up, one swaps its bytes.
//! A [`Pipe`] describes one such pass by its work on a single word. [`Transfer::compose`] makes one
//! loop of any list of pipes, in a few microseconds. The loop is text of the contract
//! (`docs/CONTRACT.md`). [`object()`] puts it into a relocatable object, which the verifier checks
//! like any other, and which the loader links into a domain. This crate is trusted by nobody.
//!
//! ```
//! use sfi_contract::Mode;
//! use sfi_dilp::{Options, Transfer, builtin, object};
//!
//! let pipes = builtin::chain("checksum | swap32")?;
//! let transfer = Transfer::compose("transfer", &pipes, &Options::new(Mode::Write))?;
//! let bytes = object(Mode::Write, [&transfer])?;
//! # let _ = bytes;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The function's form in C is
//!
//! ```text
//! uint64_t transfer(void *to, const void *from, uint64_t length, uint64_t *registers);
//! ```
//!
//! It returns the number of bytes that it stored. The registers are those of all pipes in order,
//! each in a word of 64 bits. The function imports them at its beginning and exports those that
//! the pipes write at its end.
//!
//! - The meaning of a composition is [`interpret()`]: each pipe goes over the whole stream by
//!   itself.
//! - Any length and any alignment are allowed. [`Tail`] says what a pipe does with last bytes that
//!   fill no word. [`Transfer::unit`] is the number of bytes whose multiples leave none.
//! - Source and destination may be equal. The contents of a destination that overlaps the source in
//!   another way are not defined. Nothing else is written.
//! - An access outside of the domain's memory is a fault of the domain like any other. The
//!   registers in memory then still have their old values.
//! - A [`Catalog`] numbers compositions, and has a function that calls one by its number.
//! - [`Transfer::listing`] shows which instruction serves which pipe.
//!
//! The paper is Wallach, Engler and Kaashoek, *ASHs: Application-Specific Handlers for
//! High-Performance Messaging* (1997), section II-B.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod asm;
pub mod builtin;
mod catalog;
mod chacha;
mod compose;
mod crc;
mod error;
mod explain;
mod function;
mod interpret;
mod lanes;
mod object;
mod options;
mod pipe;
mod plan;
mod registers;
mod role;
mod scalar;
mod steps;
mod sums;
mod text;
mod transfer;
mod vector;

pub use catalog::{Catalog, TransferId};
pub use error::{ComposeError, PipeError};
pub use explain::Line;
pub use interpret::interpret;
pub use object::object;
pub use options::{Features, Options, Sink};
pub use pipe::{Action, Keep, MAX_KEEPS, MAX_LOCALS, MAX_STEPS, Operand, Pipe, Step, Tail, Target, Width};
pub use plan::MAX_PIPES;
pub use role::Role;
pub use transfer::Transfer;
