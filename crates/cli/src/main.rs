//! `sfi`: run untrusted native code inside your own process.

#![forbid(unsafe_code)]

#[macro_use]
mod print;

mod anonymity;
mod arbiters;
mod build_tree;
mod bundle;
mod cmd;
mod document;
mod driver;
mod gate;
mod grants;
mod heap;
mod input;
mod layout;
mod linked;
mod listing;
mod members;
mod objects;
mod program;
mod renamed;
mod render;
mod stats;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Runs untrusted native code inside your own process: rewrites stock ELF objects so that they
/// cannot store or jump outside their domain, verifies them object by object, and runs them in
/// domains whose calls cost nanoseconds.
#[derive(Parser)]
#[command(name = "sfi", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    match Cli::parse().command.run(Cli::command) {
        Ok(code) => code,
        Err(error) => print::failure(&error),
    }
}
