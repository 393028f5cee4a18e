//! `cargo run --release -p sfi-benches --example calls [rounds]` prints the cost of calls from a
//! host in C, beside that of a typed call of a host in Rust. Needs gcc, and the library:
//! `cargo build --release -p sfi-capi`.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> anyhow::Result<()> {
    let rounds: u32 = std::env::args().nth(1).map_or(Ok(5), |n| n.parse())?;
    let directory = tempfile::tempdir()?;
    let host = build(directory.path())?;
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut add = |name: &str, nanoseconds| samples.entry(name.to_owned()).or_default().push(nanoseconds);
    for _ in 0..rounds {
        for line in printed(Command::new(&host).current_dir(directory.path()))?.lines() {
            let (name, nanoseconds) = line.split_once(' ').context("a line without a number")?;
            add(name, nanoseconds.parse()?);
        }
        add("rust_typed", sfi_benches::crossing::host_to_domain(101)?);
    }
    for (name, mut samples) in samples {
        println!("{name:<24} {:>8.2} ns", sfi_benches::median(&mut samples));
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
