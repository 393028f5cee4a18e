//! The sandbox contract: the code that the rewriter produces and the verifier accepts, and the
//! promises that the loader keeps.
//!
//! This crate holds the *data* that the three parts share: the layout of a domain's window, the
//! rules by name, the modes, the positive list of instructions and the note format. It holds no
//! analysis, because the verifier and the rewriter share none.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod anchor;
pub mod based;
pub mod budget;
pub mod foreign;
pub mod intermediate;
pub mod layout;
pub mod matching;
pub mod mode;
pub mod names;
pub mod note;
pub mod policy;
pub mod report;
pub mod requests;
pub mod rule;
pub mod saves;
pub mod syntax;
pub mod text;
pub mod usage;

pub use anchor::{Anchor, Anchored, Anchors};
pub use mode::Mode;
pub use rule::Rule;
pub use usage::{Usage, Vectors};

/// Version of the contract that this crate describes; written into every note, checked by nobody
/// who matters.
pub const CONTRACT_VERSION: u16 = 2;
