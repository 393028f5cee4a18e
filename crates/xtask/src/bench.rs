//! `cargo xtask bench`

use crate::setup::{self, cargo};
use crate::sources;
use anyhow::ensure;
use std::process::{Command, ExitCode};

/// Compares whole programs in domains with native ones, and prints a table of the ratios of time
/// and of text.
#[derive(clap::Args)]
pub struct Args {
    /// Programs; default: all
    programs: Vec<String>,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    sources::ensure()?;
    let status = Command::new(cargo()).args(["build", "--release", "--quiet", "-p", "sfi-cli"]).status()?;
    ensure!(status.success(), "sfi cannot be built");
    let sources = sources::directory()?;
    let mut command = Command::new(cargo());
    command.args(["run", "--release", "--quiet", "-p", "sfi-benches", "--example", "programs", "--"]);
    let sfi = sources.with_file_name("release").join("sfi");
    let status = command.arg(&sources).arg(sfi).args(&args.programs).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
