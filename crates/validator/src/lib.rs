//! The validator: proves that a rewritten object does the original one's work.
//!
//! It takes both objects and the rewriter's traces, which tell the new code of each original
//! instruction. It walks both programs in lockstep. It shares no analysis with the rewriter and
//! believes nothing in the traces: a wrong trace makes a proof fail. Safety does not depend on it,
//! because the verifier decides about that. Correctness does.
//!
//! [`rewrite`] makes a rewrite with its proof. [`validate`] judges an existing one.
//!
//! Data flows one way:
//! - `object`: both files, with their sections paired.
//! - `code`, `cold`, `parts`: the instructions, and unlikely parts of functions.
//! - `frames`, `landings`: the unwind tables.
//! - `facts`, `leaves`, `endless`, `system`, `graph`: the original's control flow.
//! - `context`: both programs side by side.
//! - `saves`: the original without the words that the new program has on the control stack.
//! - `walk`, `control`, `between`, `stops`, `likely`, `arrays`, `copies`, `masked`, `held`: the
//!   lockstep. `alike` handles the common case, `machine` over `value` all others.
//! - `flow`: lost registers, and whether they are needed.
//! - `tables`, `exceptions`: data, symbols, records for the unwinder.
//! - `prove`, `report`: the findings.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod alike;
mod arrays;
mod between;
mod checked;
mod code;
mod cold;
mod context;
mod control;
mod copies;
mod difference;
mod endless;
mod exceptions;
mod facts;
mod far;
mod flow;
mod frames;
mod generic;
mod graph;
mod held;
mod jump_tables;
mod landings;
mod leaves;
mod likely;
mod machine;
mod masked;
mod needs;
mod object;
mod parts;
mod prove;
mod reference;
mod report;
mod returned;
mod saves;
mod searches;
mod sets;
mod stops;
mod strings;
mod sums;
mod system;
mod tables;
mod unread;
mod value;
mod walk;

pub use checked::{Checked, Failure, Validation, rewrite};
pub use prove::validate;
pub use report::{Finding, Proof, Verdict};
