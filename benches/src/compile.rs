//! Objects of sources in C, by gcc, and commands that must succeed.

use anyhow::{Context, ensure};
use sfi_contract::Mode;
use std::process::Command;

/// Compiles the last of some sources with gcc. It includes the others.
pub(crate) fn gcc(sources: &[(&str, &str)], flags: &[&str]) -> anyhow::Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    for (name, text) in sources {
        std::fs::write(path(name), text)?;
    }
    let name = sources.last().context("no source")?.0;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-ffreestanding"]).args(flags).args(["-c", name, "-o", "out.o"]);
    let run = gcc.current_dir(directory.path()).output().context("`gcc` is missing")?;
    ensure!(run.status.success(), "gcc: {}", String::from_utf8_lossy(&run.stderr));
    Ok(std::fs::read(path("out.o"))?)
}

/// Compiles a handler of messages, or another plugin, and rewrites it.
///
/// # Errors
/// gcc is missing or refuses the source, or the rewriter refuses the object.
pub fn rewritten(name: &str, text: &str, mode: Mode, budget: bool) -> anyhow::Result<Vec<u8>> {
    let flags: &[&str] = if budget { &["-ffixed-r14"] } else { &[] };
    let object = gcc(&[("ash.h", sfi_ash::HEADER), (name, text)], flags)?;
    let rewritten = sfi_rewriter::rewrite(&object, &sfi_rewriter::Options { mode, budget, ..Default::default() });
    let rewritten = rewritten.map_err(|refusals| anyhow::anyhow!("{name} is refused: {}", refusals[0]))?;
    Ok(rewritten.bytes)
}

/// Runs a command that must succeed. Returns what it printed.
///
/// # Errors
/// It does not run, or fails; the message has what it complained of.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
