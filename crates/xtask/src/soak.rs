//! `cargo xtask soak`

use crate::setup::{self, cargo};
use crate::steps::Steps;
use crate::{programs, sources};
use std::process::{Command, ExitCode};

/// Runs the long suites: gcc's own tests, random units and programs, compared natively and in
/// domains; every static archive on the machine; random instructions, read by both decoders; all
/// instruction heads, read by four decoders; live domains; crossings under stress; every way out of
/// a crossing on every variant of the gates; a search by speculation.
#[derive(clap::Args)]
pub struct Args {
    /// Random translation units, by every compiler that the distribution has
    #[arg(long, default_value_t = 20_000)]
    units: u64,
    /// Number of random programs
    #[arg(long, default_value_t = 2000)]
    programs: u64,
    /// Damaged copies of each of about fifty accepted objects; a tenth of those that are still
    /// accepted is run
    #[arg(long, default_value_t = 50_000)]
    mutants: u64,
    /// Domains that live in one process at the same time, each called 200 times
    #[arg(long, default_value_t = 10_700)]
    domains: u64,
    /// Calls per thread and domain under stress, of eight threads and a hundred domains, and calls
    /// per thread of eight lanes
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
    /// Seed of the first random unit and program, and of the stress
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Random compositions of data pipes
    #[arg(long, default_value_t = 1_000_000)]
    pipes: u64,
    /// Minutes for the two decoders to read random instructions
    #[arg(long, default_value_t = 60)]
    decoders: u64,
    /// Heads that four decoders read: `all`, or a part of them, as in `3/100`
    #[arg(long, default_value = "all")]
    heads: String,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    setup::ensure(setup::COMPILERS)?;
    sources::ensure()?;
    let mut steps = Steps::default();
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-tests", "--test", "torture", "--"]);
    command.env("SFI_TORTURE", "all").env("SFI_TORTURE_TABLE", setup::root()?.join("docs/TORTURE.md"));
    steps.tests("gcc's own tests", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-tests", "--test", "units", "--", "--nocapture"]);
    command.env("SFI_UNITS", args.units.to_string()).env("SFI_UNITS_SEED", args.seed.to_string());
    command.env("SFI_UNITS_COMPILERS", setup::compilers());
    steps.tests("random translation units", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-dilp", "--test", "random"]);
    command.env("SFI_DILP_CASES", args.pipes.to_string()).env("SFI_DILP_SEED", args.seed.to_string());
    steps.tests("random compositions of data pipes", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-tests", "--test", "soak", "--"]);
    command.env("SFI_SOAK_PROGRAMS", args.programs.to_string()).env("SFI_SOAK_SEED", args.seed.to_string());
    steps.tests("random programs and archives", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-tests", "--test", "mutate"]);
    command.env("SFI_MUTANTS", args.mutants.to_string());
    steps.tests("damaged objects", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-verifier", "--test", "second", "--", "--nocapture"]);
    command.env("SFI_SECOND_SECONDS", (args.decoders * 60).to_string());
    steps.tests("two decoders, random bytes", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-tests", "--test", "heads", "--", "--nocapture"]);
    command.env("SFI_HEADS", &args.heads);
    steps.tests("four decoders, all heads", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-loader", "--test", "scale", "--", "--nocapture"]);
    command.env("SFI_DOMAINS", args.domains.to_string()).env("SFI_ROUNDS", "200");
    steps.tests("live domains", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-loader", "--test", "stress", "--", "--nocapture"]);
    command.env("SFI_STRESS_CALLS", args.calls.to_string()).env("SFI_STRESS_SEED", args.seed.to_string());
    steps.tests("crossings under stress", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-loader", "--test", "lanes_hostile", "--", "stress", "--nocapture"]);
    command.env("SFI_STRESS_CALLS", args.calls.to_string()).env("SFI_STRESS_SEED", args.seed.to_string());
    command.env("SFI_STRESS_DOMAINS", "100");
    steps.tests("lanes under stress", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-loader", "--test", "exits"]).env("SFI_EXITS", "all");
    steps.tests("every way out of a crossing", &mut command)?;
    let mut command = Command::new(cargo());
    command
        .args(["test", "--release", "-p", "sfi-loader", "--test", "changing", "--test", "link_changing"])
        .env("SFI_CHANGES", "20000");
    steps.tests("changes in the middle of calls", &mut command)?;
    let mut command = Command::new(cargo());
    command.args(["test", "--release", "-p", "sfi-cli", "--test", "speculation", "--", "--nocapture"]);
    command.env("SFI_PROBE", "1");
    steps.tests("a search by speculation", &mut command)?;
    programs::step(&mut steps)?;
    Ok(steps.finish())
}
