//! `cargo xtask bench`

use crate::setup::{self, cargo};
use crate::{sources, start};
use anyhow::ensure;
use std::process::{Command, ExitCode};

/// Compares whole programs in domains with native ones, and prints a table of the ratios of time
/// and of text.
#[derive(clap::Args)]
pub struct Args {
    /// Programs; default: all
    programs: Vec<String>,
    /// Measure the start of short programs instead
    #[arg(long, conflicts_with = "programs")]
    start: bool,
    /// Measure the tools instead: rewriting, loading, commands that do nothing
    #[arg(long, conflicts_with_all = ["programs", "start"])]
    tools: bool,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    if !args.start && !args.tools {
        sources::ensure()?;
    }
    let status = Command::new(cargo()).args(["build", "--release", "--quiet", "-p", "sfi-cli"]).status()?;
    ensure!(status.success(), "sfi cannot be built");
    let sources = sources::directory()?;
    let sfi = sources.with_file_name("release").join("sfi");
    if args.start {
        start::run(&sfi)?;
        return Ok(ExitCode::SUCCESS);
    }
    let example = if args.tools { "tools" } else { "programs" };
    let mut command = Command::new(cargo());
    command.args(["run", "--release", "--quiet", "-p", "sfi-benches", "--example", example, "--"]);
    if !args.tools {
        command.arg(&sources);
    }
    let status = command.arg(sfi).args(&args.programs).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
