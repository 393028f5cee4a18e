//! The validator: proves that a rewritten object does what the original one does.
//!
//! It takes both objects and the rewriter's traces, which say what new code serves which original
//! instruction, and walks both programs in lockstep. It shares no analysis with the rewriter, and
//! believes nothing that the traces say: a wrong trace makes a proof fail. It is untrusted for
//! safety, which is the verifier's matter, and trusted for correctness.
//!
//! [`rewrite`] is a rewrite with its proof; [`validate`] judges one that is there.
//!
//! Data flows one way: `object` (both files, sections paired) → `code` (instructions) → `frames`,
//! `landings` (unwind tables) → `facts`, `graph` (the original's control flow) → `context` (both
//! programs side by side) → `walk`, `control` (lockstep: `alike`, else `machine` over `value`) →
//! `flow` (what is lost, and whether it is needed) → `tables`, `exceptions` (data, symbols, records
//! of the unwinder) → `prove` → `report`.

#![forbid(unsafe_code)]

mod alike;
mod checked;
mod code;
mod context;
mod control;
mod copies;
mod difference;
mod exceptions;
mod facts;
mod flow;
mod frames;
mod graph;
mod landings;
mod machine;
mod object;
mod prove;
mod reference;
mod report;
mod returned;
mod sets;
mod tables;
mod value;
mod walk;

pub use checked::{Checked, Failure, Validation, rewrite};
pub use prove::validate;
pub use report::{Finding, Proof, Verdict};
