//! The harness of the end-to-end tests: compiles the corpus, runs it natively and in domains, and
//! compares.
//!
//! Data flows one way: [`program`] finds the sources and reads their headers, [`build`] compiles
//! them for a configuration, [`native`] runs the result without a sandbox, [`sandbox`] rewrites,
//! verifies and runs it in a domain. [`target`] holds the functions that fuzzers call.

pub mod build;
pub mod csmith;
pub mod gdb;
pub mod libraries;
pub mod native;
pub mod paths;
pub mod program;
pub mod random;
pub mod run;
pub mod sandbox;
pub mod sources;
pub mod target;
pub mod units;
