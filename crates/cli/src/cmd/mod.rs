//! One file per subcommand.

mod addr2line;
mod anonymity;
mod ash;
mod bench;
mod bind;
mod cc;
mod completion;
mod cxx;
mod explain;
mod man;
mod model;
mod objdump;
mod rewrite;
mod run;
mod verify;

use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    Rewrite(rewrite::Args),
    Cc(cc::Args),
    #[command(name = "c++")]
    Cxx(cxx::Args),
    Verify(verify::Args),
    Run(Box<run::Args>),
    Bench(bench::Args),
    Ash(ash::Args),
    Model(model::Args),
    Bind(bind::Args),
    Anonymity(anonymity::Args),
    Explain(explain::Args),
    Addr2line(addr2line::Args),
    Objdump(objdump::Args),
    Completion(completion::Args),
    Man(man::Args),
}

/// The subcommand `run` alone.
#[derive(clap::Subcommand)]
pub enum Run {
    Run(Box<run::Args>),
}

impl From<Run> for Command {
    fn from(Run::Run(args): Run) -> Command {
        Command::Run(args)
    }
}

impl Command {
    /// Runs the subcommand. Its `--help` documents the exit codes. `whole` describes the whole
    /// command line.
    pub fn run(self, whole: impl FnOnce() -> clap::Command) -> anyhow::Result<ExitCode> {
        match self {
            Command::Rewrite(args) => rewrite::run(args),
            Command::Cc(args) => cc::run(args),
            Command::Cxx(args) => cxx::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Run(args) => run::run(*args),
            Command::Bind(args) => bind::run(&args),
            Command::Bench(args) => bench::run(args),
            Command::Ash(args) => ash::run(args),
            Command::Anonymity(args) => anonymity::run(&args),
            Command::Explain(args) => explain::run(args),
            Command::Addr2line(args) => addr2line::run(&args),
            Command::Objdump(args) => objdump::run(&args),
            Command::Completion(args) => completion::run(&args, whole()),
            Command::Model(args) => model::run(&args),
            Command::Man(args) => man::run(&args, whole()),
        }
    }
}
