//! The sandbox contract: what the rewriter produces, the verifier accepts and the loader makes
//! true.
//!
//! This crate holds *data* that the three parts share: the layout of a domain's window, the rules
//! by name, the modes, the positive list of instructions and the note format. It holds no analysis:
//! the verifier and the rewriter have none in common.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod intermediate;
pub mod layout;
pub mod matching;
pub mod mode;
pub mod names;
pub mod note;
pub mod policy;
pub mod rule;
pub mod syntax;
pub mod text;
pub mod usage;

pub use mode::Mode;
pub use rule::Rule;
pub use usage::{Usage, Vectors};

/// Version of the contract that this crate describes; written into every note, checked by nobody
/// who matters.
pub const CONTRACT_VERSION: u16 = 1;
