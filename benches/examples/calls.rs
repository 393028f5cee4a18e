//! `cargo run --release -p sfi-benches --example calls [rounds]` prints the cost of calls from a
//! host in C, beside that of a typed call of a host in Rust. Needs gcc, and the library:
//! `cargo build --release -p sfi-capi`.

use anyhow::{Context, bail};
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
    let mut samples = vec![Vec::new(); WAYS.len() + 1];
    // The first round warms up and does not count.
    for round in 0..=rounds {
        let mut line = String::new();
        ask.write_all(b"\n")?;
        answers.read_line(&mut line)?;
        let mut times = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        times.push(sfi_benches::crossing::host_to_domain(1)?);
        if times.len() != samples.len() {
            bail!("the host printed `{line}`");
        }
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
    let sources = root.join("benches/host");
    let (object, host) = (directory.join("plugin.o"), directory.join("host"));
    let examples = std::env::current_exe()?;
    let library = examples.parent().and_then(Path::parent).context("no folder")?.join("libsfi.a");
    if !library.exists() {
        bail!("{} is missing: run `cargo build --release -p sfi-capi`", library.display());
    }
    printed(Command::new("gcc").args(["-O2", "-fPIE", "-c", "-o"]).arg(&object).arg(sources.join("plugin.c")))?;
    let rewritten = sfi_rewriter::rewrite(&std::fs::read(&object)?, &sfi_rewriter::Options::default());
    let rewritten = rewritten.map_err(|reasons| anyhow::anyhow!("{}", reasons[0]))?;
    std::fs::write(directory.join("plugin.sfi.o"), rewritten.bytes)?;
    std::fs::write(directory.join("domains.toml"), "[domains.plugin]\nobjects = [\"plugin.sfi.o\"]\n")?;
    printed(
        Command::new("gcc")
            .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("crates/capi/include"))
            .arg(sources.join("calls.c"))
            .arg("-o")
            .arg(&host)
            .arg(library)
            .args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]),
    )?;
    Ok(host)
}

/// Runs a command that must succeed. Returns what it printed.
fn printed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}: run `cargo xtask setup`"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
