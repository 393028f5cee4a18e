//! `cargo xtask programs`

use crate::setup::{self, cargo};
use crate::sources;
use crate::steps::Steps;
use std::process::{Command, ExitCode};

/// Runs whole programs of other projects natively and in domains: all that `cargo xtask test`
/// compares, in both modes, and the long ones.
#[derive(clap::Args)]
pub struct Args {
    /// Only programs whose names contain this
    filter: Option<String>,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    sources::ensure()?;
    let mut steps = Steps::default();
    steps.tests("whole programs", command().args(&args.filter))?;
    Ok(steps.finish())
}

/// Runs the programs as a step of another task.
pub fn step(steps: &mut Steps) -> anyhow::Result<()> {
    steps.tests("whole programs", &mut command())
}

fn command() -> Command {
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-tests", "--test", "programs", "--"]).env("SFI_PROGRAMS", "all");
    command
}
