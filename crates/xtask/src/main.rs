//! Chores of the repository: `cargo xtask demo`, `cargo xtask test`, `cargo xtask soak`, `cargo
//! xtask coverage`, `cargo xtask setup`.

#![forbid(unsafe_code)]

mod bench;
mod coverage;
mod demo;
mod fuzz;
mod mutants;
mod programs;
mod setup;
mod soak;
mod sources;
mod steps;
mod test;

use clap::Parser;
use std::process::ExitCode;

/// Chores of the repository. Each sets up what it needs: on Debian, as root, missing packages are
/// installed.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Runs the demo: stock zlib in one domain, a program in another, and what happens when zlib is
    /// sabotaged.
    Demo(demo::Args),
    /// Everything that must hold before a change is accepted: format, lints, documentation, all
    /// tests.
    Test(test::Args),
    /// The long suites: minutes to hours.
    Soak(soak::Args),
    /// Coverage-guided fuzzing of what reads hostile bytes.
    Fuzz(fuzz::Args),
    /// Leaves out each rule of the verifier in turn and says which tests notice.
    Mutants(mutants::Args),
    /// How much of Debian's static archives can be rewritten.
    Coverage(coverage::Args),
    /// Speed and size of whole programs in domains.
    Bench(bench::Args),
    /// Whole programs, natively and in domains.
    Programs(programs::Args),
    /// Only fetches the sources of whole programs.
    Sources,
    /// Only installs, or names, what the other tasks need.
    Setup,
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Coverage(args) => coverage::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Programs(args) => programs::run(&args),
        Task::Sources => setup::ensure(setup::BASE).and_then(|()| sources::ensure()).map(|()| ExitCode::SUCCESS),
        Task::Setup => setup::ensure(setup::BASE).and_then(|()| setup::components()).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
