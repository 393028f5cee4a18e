//! `sfi ash header`

use std::process::ExitCode;

/// Print ash.h, the header of handlers in C.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi ash header > ash.h

Exit codes:
  0  printed")]
pub struct Args {}

/// Runs the subcommand.
pub fn run() -> ExitCode {
    print!("{}", sfi_ash::HEADER);
    ExitCode::SUCCESS
}
