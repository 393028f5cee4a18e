//! `cargo run --release -p sfi-benches --example calls [rounds]` prints the cost of calls from a
//! host in C, beside that of a typed call of a host in Rust. Needs gcc, and the library:
//! `cargo build --release -p sfi-capi`.

use anyhow::{Context, ensure};
use sfi_benches::compile::{rewritten, run};
use sfi_benches::crossing::ToDomain;
use sfi_rewriter::Mode;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The ways of the host in C, in its order.
const WAYS: [&str; 5] = ["native by pointer", "prepared", "prepared, one thread", "prepared, with room", "found"];

fn main() -> anyhow::Result<()> {
    let rounds: u32 = std::env::args().nth(1).map_or(Ok(201), |n| n.parse())?;
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(build(directory.path())?);
    let mut host = command.current_dir(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut ask, answers) = (host.stdin.take().context("no pipe")?, host.stdout.take().context("no pipe")?);
    let mut answers = BufReader::new(answers);
    let mut to_domain = ToDomain::new()?;
    let mut samples = vec![Vec::new(); WAYS.len() + 1];
    // The first round warms up and does not count.
    for round in 0..=rounds {
        let mut line = String::new();
        ask.write_all(b"\n")?;
        answers.read_line(&mut line)?;
        let mut times = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        times.push(to_domain.time()?);
        ensure!(times.len() == samples.len(), "the host printed `{line}`");
        if round > 0 {
            samples.iter_mut().zip(times).for_each(|(samples, time)| samples.push(time));
        }
    }
    drop(ask);
    host.wait()?;
    for (way, samples) in WAYS.into_iter().chain(["typed, in Rust"]).zip(&mut samples) {
        println!("{way:<24} {:>8.2} ns", sfi_benches::median(samples));
    }
    Ok(())
}

/// Builds the host and its plugin in a folder. Returns the host.
fn build(directory: &Path) -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let host = directory.join("host");
    let examples = std::env::current_exe()?;
    let library = examples.parent().and_then(Path::parent).context("no folder")?.join("libsfi.a");
    ensure!(library.exists(), "{} is missing: run `cargo build --release -p sfi-capi`", library.display());
    let plugin = rewritten("plugin.c", include_str!("../host/plugin.c"), Mode::Write, false)?;
    std::fs::write(directory.join("plugin.sfi.o"), plugin)?;
    std::fs::write(directory.join("domains.toml"), "[domains.plugin]\nobjects = [\"plugin.sfi.o\"]\n")?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("crates/capi/include"));
    gcc.arg(root.join("benches/host/calls.c")).arg("-o").arg(&host).arg(library);
    run(gcc.args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]))?;
    Ok(host)
}
