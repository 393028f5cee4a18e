//! `sfi`: run untrusted native code inside your own process.

#![forbid(unsafe_code)]

#[macro_use]
mod print;

mod anonymity;
mod arbiters;
mod build_tree;
mod bundle;
mod cmd;
mod descendants;
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

/// musl's own allocator has one lock for all threads: rewriting takes four times as long with it.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs untrusted native code inside your own process: rewrites stock ELF objects so that they
/// cannot store or jump outside their domain, verifies them object by object, and runs them in
/// domains whose calls cost nanoseconds.
#[derive(Parser)]
#[command(name = "sfi", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

/// The command line of `sfi run`, which often starts short programs. The other subcommands are not
/// described for it, which takes more time than such a program.
#[derive(Parser)]
#[command(name = "sfi", version, propagate_version = true)]
struct RunCli {
    #[command(subcommand)]
    command: cmd::Run,
}

/// Returns the subcommand of this process. `--version` is answered here, without a description of
/// all subcommands.
fn command() -> cmd::Command {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if (first == "--version" || first == "-V") && arguments.next().is_none() {
        println!("sfi {}", env!("CARGO_PKG_VERSION"));
        std::process::exit(0);
    }
    if first == "run" { RunCli::parse().command.into() } else { Cli::parse().command }
}

fn main() -> ExitCode {
    match command().run(Cli::command) {
        Ok(code) => code,
        Err(error) => print::failure(&error),
    }
}
