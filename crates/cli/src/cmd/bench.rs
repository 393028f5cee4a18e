//! `sfi bench`

mod instance;
pub(super) mod number;

use crate::document;
use number::round;
use sfi_benches::crossing;
use std::process::ExitCode;

/// Measure the cost of crossings and domains on this machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  taskset -c 1 sfi bench crossing
  sfi bench crossing --json --rounds 101
  sfi bench instance --domains 1000

Exit codes:
  0  measured
  2  a measurement could not be made")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Null calls, there and back, in nanoseconds: medians over interleaved rounds of one run.
    ///
    /// Calls between domains are measured for each trust level, and by the state that the texts of
    /// both sides name, because this decides what the gate saves: nothing, not even GS (no_gs), GS,
    /// also the preserved integer registers, also the floating-point state (vector registers,
    /// MXCSR), and also x87. Beside them: a direct call, an indirect one, a system call, and round
    /// trips to another thread over a futex, a pipe and a Unix socket.
    Crossing {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Number of rounds. Each measures everything once.
        #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        rounds: u32,
    },
    /// Instances of a loaded image in microseconds: fresh ones, pooled ones and a process to
    /// compare with, and then many at once.
    Instance(instance::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (json, rounds) = match args.what {
        What::Crossing { json, rounds } => (json, rounds),
        What::Instance(args) => return instance::run(&args),
    };
    let results = crossing::measure(rounds)?;
    if json {
        let calls: serde_json::Map<String, serde_json::Value> =
            results.iter().map(|r| (r.name.to_owned(), round(r.nanoseconds).into())).collect();
        document::print(serde_json::json!({ "nanoseconds": calls }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let unit = results.iter().find(|r| r.name == "indirect_call").map_or(1.0, |r| r.nanoseconds);
    println!("{:<30} {:>12} {:>16}", "null call", "ns", "indirect calls");
    for r in &results {
        println!("{:<30} {:>12.2} {:>16.1}", r.name, r.nanoseconds, r.nanoseconds / unit);
    }
    Ok(ExitCode::SUCCESS)
}
