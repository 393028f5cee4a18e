//! `cargo xtask bench`

use crate::setup::{self, cargo};
use crate::{sources, start};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
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
    /// With --start: measure the start by this `sfi`, too, for example that of a release
    #[arg(long, value_name = "FILE", requires = "start")]
    released: Option<PathBuf>,
    /// Measure the tools instead: rewriting and loading
    #[arg(long, conflicts_with_all = ["programs", "start"])]
    tools: bool,
    /// Measure programs with one thread and with two instead: what the second thread gains,
    /// natively and in domains
    #[arg(long, conflicts_with_all = ["start", "tools", "wasm", "svg"])]
    threads: bool,
    /// Add columns of clang, and of WebAssembly by wasm2c and in Wasmtime, which is built for this
    #[arg(long, conflicts_with_all = ["start", "tools"])]
    wasm: bool,
    /// Draw the ratios of the programs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["start", "tools"])]
    svg: Option<PathBuf>,
    /// Write the ratios as JSON, as docs/measured/programs.json keeps them for plots
    #[arg(long, value_name = "FILE", conflicts_with_all = ["start", "tools", "threads"])]
    json: Option<PathBuf>,
    /// Number of layouts: fewer are faster, and their ratios depend on luck
    #[arg(long, default_value_t = 5, value_name = "COUNT", conflicts_with_all = ["start", "tools"])]
    layouts: u32,
    /// Number of processes of each program in each layout
    #[arg(long, default_value_t = 3, value_name = "COUNT", conflicts_with_all = ["start", "tools", "threads"])]
    processes: u32,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    if args.threads {
        sources::fetch(&["libzstd"])?;
    } else if !args.start && !args.tools {
        sources::ensure()?;
        sources::fetch(sources::BENCH)?;
    }
    let status = Command::new(cargo()).args(["build", "--release", "--quiet", "-p", "sfi-cli"]).status()?;
    ensure!(status.success(), "sfi cannot be built");
    let sources = sources::directory()?;
    let sfi = sources.with_file_name("release").join("sfi");
    if args.start {
        start::run(&sfi, args.released.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let example = match (args.tools, args.threads) {
        (true, _) => "tools",
        (_, true) => "threads",
        _ => "programs",
    };
    let mut command = Command::new(cargo());
    command.args(["run", "--release", "--quiet", "-p", "sfi-benches", "--example", example, "--"]);
    if !args.tools {
        command.arg(&sources);
    }
    command.arg(&sfi);
    if example == "programs" {
        command.args([format!("--layouts={}", args.layouts), format!("--processes={}", args.processes)]);
    }
    if args.wasm {
        command.arg(format!("--wasmtime={}", wasmtime(&sfi)?.display()));
    }
    if let Some(svg) = &args.svg {
        command.arg(format!("--svg={}", svg.display()));
    }
    if let Some(json) = &args.json {
        command.arg(format!("--json={}", json.display()));
    }
    let status = command.args(&args.programs).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the runner of Wasmtime, which is no member of the workspace. Returns its path.
fn wasmtime(sfi: &Path) -> anyhow::Result<PathBuf> {
    setup::ensure(setup::WASM)?;
    let target = sfi.ancestors().nth(2).context("sfi lies in no target directory")?.join("wasmtime");
    let manifest = setup::root()?.join("benches/wasmtime/Cargo.toml");
    let mut command = Command::new(cargo());
    command.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]).arg(manifest);
    let status = command.env("CARGO_TARGET_DIR", &target).status()?;
    ensure!(status.success(), "the runner of Wasmtime cannot be built");
    Ok(target.join("release/sfi-bench-wasmtime"))
}
