//! One file per subcommand.

mod bench;
mod cc;
mod explain;
mod rewrite;
mod run;
mod verify;

use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    Rewrite(rewrite::Args),
    Cc(cc::Args),
    Verify(verify::Args),
    Run(run::Args),
    Bench(bench::Args),
    Explain(explain::Args),
}

impl Command {
    /// Runs the subcommand; its exit code is documented in its `--help`.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Rewrite(args) => rewrite::run(args),
            Command::Cc(args) => cc::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Run(args) => run::run(args),
            Command::Bench(args) => bench::run(args),
            Command::Explain(args) => explain::run(args),
        }
    }
}
