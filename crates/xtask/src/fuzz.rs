//! `cargo xtask fuzz`

use crate::setup::{self, cargo};
use crate::steps::Steps;
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Fuzzes the verifier, the rewriter, the manifest parser and the loader with libFuzzer, guided by
/// coverage.
///
/// Installs cargo-fuzz if it is missing. Finds lie in `fuzz/artifacts`. Move a find to
/// `fixtures/fuzz/TARGET` when it is mended, so that the tests keep trying it.
#[derive(clap::Args)]
pub struct Args {
    /// The targets. Default: all, one after the other
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Seconds for each
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

/// Returns the targets: the programs in `fuzz/fuzz_targets`.
fn targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let programs = root.join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    for entry in programs.read_dir().with_context(|| format!("{}", programs.display()))? {
        let path = entry?.path();
        targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    targets.sort();
    Ok(targets)
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    let root = setup::root()?;
    if !Command::new(cargo()).args(["fuzz", "--version"]).output().is_ok_and(|o| o.status.success()) {
        let status = Command::new(cargo()).args(["install", "cargo-fuzz"]).status()?;
        ensure!(status.success(), "cargo-fuzz cannot be installed");
    }
    let all = targets(&root)?;
    let targets = if args.targets.is_empty() { &all } else { &args.targets };
    let mut steps = Steps::default();
    for target in targets {
        ensure!(all.contains(target), "there is no target `{target}`; there are {all:?}");
        let corpus = root.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus).with_context(|| format!("{}", corpus.display()))?;
        seed(&root, target, &corpus)?;
        let mut command = Command::new(cargo());
        // No sanitizer: the targets are safe Rust, and the loader itself handles SIGSEGV and moves
        // GS.
        command.args(["fuzz", "run", "--sanitizer", "none", target]).arg(&corpus);
        command.arg(root.join("fixtures/fuzz").join(target)).arg("--");
        command.arg(format!("-max_total_time={}", args.seconds)).args(["-max_len=65536", "-timeout=20"]);
        command.args(["-handle_segv=0", "-handle_bus=0", "-handle_ill=0", "-handle_fpe=0", "-print_final_stats=1"]);
        // Coverage counters need compiler flags that otherwise only unstable toolchains accept.
        command.env("RUSTC_BOOTSTRAP", "1").current_dir(root.join("fuzz"));
        steps.whole(target, &mut command)?;
    }
    Ok(steps.finish())
}

/// Writes objects as seeds for the targets that take them.
fn seed(root: &Path, target: &str, corpus: &Path) -> anyhow::Result<()> {
    if target == "manifest" {
        return Ok(());
    }
    let programs = ["string_ops", "callbacks", "computed_goto", "avx512", "atomics"].map(|program| (program, "-g0"));
    // Only the rewriter reads debug information.
    let described = (target == "rewriter").then_some(("callbacks", "-g"));
    for (program, debug) in programs.into_iter().chain(described) {
        let object = corpus.join(format!("seed-{program}{}.o", debug.trim_start_matches("-g0")));
        let mut gcc = Command::new("gcc");
        gcc.arg(debug);
        gcc.args(["-O2", "-fPIE", "-march=x86-64-v4", "-c", "-I"]).arg(root.join("fixtures/rt"));
        gcc.arg(root.join(format!("fixtures/corpus/{program}.c"))).arg("-o").arg(&object);
        ensure!(gcc.status()?.success(), "{program}.c does not compile");
        if target != "rewriter" {
            let mut rewrite = Command::new(cargo());
            rewrite.args(["run", "--quiet", "-p", "sfi-cli", "--", "rewrite", "-o"]).arg(&object).arg(&object);
            ensure!(rewrite.current_dir(root).status()?.success(), "{program}.o is not rewritten");
        }
    }
    Ok(())
}
