//! `cargo xtask postgres`

use crate::setup::{self, cargo};
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Builds the extension for PostgreSQL and tests it: on a server of its own, in a temporary folder,
/// which is stopped and removed at the end. The last line is `N passed, N failed`.
#[derive(clap::Args)]
pub struct Args {
    /// Only these tests, which are files in integrations/postgresql/test/sql. Most need `honest`
    /// before them
    tests: Vec<String>,
    /// Measure instead of testing: calls natively, in domains, in PL/pgSQL, over pipes
    #[arg(long)]
    bench: bool,
    /// Measure queries 6, 7, 8 and 10 of the Sequoia 2000 benchmark, as table 3 of Wahbe et al.
    /// does. PL/Python takes part if postgresql-plpython3-15 is installed, WebAssembly if clang,
    /// lld and wabt are
    #[arg(long, conflicts_with = "bench")]
    table3: bool,
    /// Run hostile functions beside honest ones in four backends, 10,000,000 calls or as many as
    /// SFI_PG_CALLS says
    #[arg(long, conflicts_with_all = ["bench", "table3"])]
    soak: bool,
}

/// Returns the program `sfi`, the library and the folder of the extension, all built.
fn built(profile: &str) -> anyhow::Result<(PathBuf, PathBuf, PathBuf)> {
    let root = setup::root()?;
    let target = setup::target(&root);
    let mut build = Command::new(cargo());
    // All packages: a choice of them may choose other features of their dependencies.
    build.args(["build", "--workspace", "--profile", profile]).current_dir(&root);
    // The same targets as those of `cargo test`, for the same reason: nothing is built anew.
    let of_tests = profile == "dev";
    if of_tests {
        build.args(["--bins", "--tests"]);
    }
    let status = build.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo build failed");
    let folder = target.join(if of_tests { "debug" } else { profile });
    let library = folder.join(if of_tests { "deps/libsfi.a" } else { "libsfi.a" });
    Ok((folder.join("sfi"), library, root.join("integrations/postgresql")))
}

/// Returns the command that runs the tests, with what `cargo build --profile` builds. What `dev`
/// builds is there after `cargo test`.
pub fn tests(profile: &str) -> anyhow::Result<Command> {
    let (sfi, library, folder) = built(profile)?;
    let mut command = Command::new(folder.join("test/run.sh"));
    command.arg(sfi).arg(library);
    Ok(command)
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::POSTGRES)?;
    let mut command = tests("release")?;
    let script = match (args.bench, args.table3, args.soak) {
        (true, ..) => Some("bench/run.sh"),
        (_, true, _) => Some("bench/table3/table3.sh"),
        (.., true) => Some("test/soak.sh"),
        _ => None,
    };
    if let Some(script) = script {
        // Counts of all backends need the module in all of them.
        command.args(args.soak.then_some("--preload")).arg("--exec");
        command.arg(setup::root()?.join("integrations/postgresql").join(script));
    }
    let status = command.args(&args.tests).status().context("cannot run test/run.sh")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
