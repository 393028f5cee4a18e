//! The sandboxed side of a comparison: rewrite, verify, run in a domain.

use crate::run::{Outcome, run};
use anyhow::{Context, bail, ensure};
use sfi_contract::Mode;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Rewrites one object twice, demands equal bytes, and has the verifier accept them.
///
/// # Errors
/// Refusals, differences and violations in words.
pub fn rewrite(object: &[u8], mode: Mode) -> anyhow::Result<Vec<u8>> {
    let options = sfi_rewriter::Options { mode, ..Default::default() };
    let once = || match catch_unwind(AssertUnwindSafe(|| sfi_rewriter::rewrite(object, &options))) {
        Ok(Ok(output)) => Ok(output.bytes),
        Ok(Err(refusals)) => {
            let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            bail!("refused by the rewriter:\n  {}", lines.join("\n  "))
        }
        Err(_) => bail!("the rewriter panicked"),
    };
    let bytes = once()?;
    ensure!(bytes == once()?, "rewriting twice gives different objects");
    verify(&bytes, mode)?;
    Ok(bytes)
}

/// Demands that the rewriter refuses at least one of the files, and that every refusal has this
/// code.
///
/// # Errors
/// The rewriter accepts all of them, or gives another code.
pub fn refused(files: &[PathBuf], mode: Mode, code: &str) -> anyhow::Result<()> {
    let mut seen = false;
    for file in files {
        let object = std::fs::read(file)?;
        if let Err(refusals) = sfi_rewriter::rewrite(&object, &sfi_rewriter::Options { mode, ..Default::default() }) {
            seen = true;
            for refusal in refusals {
                ensure!(refusal.reason.id() == code, "expected a refusal with {code}, got: {refusal}");
            }
        }
    }
    ensure!(seen, "expected a refusal with {code}, but it was rewritten");
    Ok(())
}

/// Demands that the verifier accepts an object.
///
/// # Errors
/// The violations in words, at most twenty.
pub fn verify(object: &[u8], mode: Mode) -> anyhow::Result<()> {
    let options = sfi_verifier::Options { mode, clock: true, ..sfi_verifier::Options::default() };
    let report = sfi_verifier::verify(object, &options).context("unreadable for the verifier")?;
    if report.violations.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} violations found by the verifier:", report.violations.len());
    for v in report.violations.iter().take(20) {
        let section = v.section_name.as_deref().unwrap_or("-");
        let _ = write!(text, "\n  {} {section}+{:#x} {:?}: {}", v.rule, v.offset, v.instruction, v.detail);
    }
    bail!(text)
}

/// Rewrites files into a directory under their names.
///
/// # Errors
/// As [`rewrite`], with the file's name.
pub fn rewrite_files<'a>(
    files: impl IntoIterator<Item = &'a Path>,
    mode: Mode,
    directory: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory)?;
    let mut outputs = Vec::new();
    for file in files {
        let name = file.file_name().context("no file name")?;
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let output = directory.join(name);
        std::fs::write(&output, rewrite(&bytes, mode).with_context(|| format!("{}", Path::new(name).display()))?)?;
        outputs.push(output);
    }
    Ok(outputs)
}

/// Runs `sfi_main` of rewritten objects in a domain. The domain has a process of its own
/// (`domain-run`), so that a defect of the sandbox does not end the test. The exit code is the
/// result's low byte.
///
/// # Errors
/// The process cannot be run, or does not end.
pub fn execute(objects: &[PathBuf], mode: Mode, scratch: &Path) -> anyhow::Result<Outcome> {
    let runner = runner()?;
    let mut command = Command::new(runner);
    command.arg(mode.name()).args(objects);
    run(&mut command, scratch, Duration::from_secs(30))
}

/// Returns the program `domain-run`, which cargo builds beside the tests.
fn runner() -> anyhow::Result<PathBuf> {
    // target/<profile>/deps/<test>
    let exe = std::env::current_exe()?;
    let directory = exe.parent().and_then(Path::parent).context("the test does not run from a target directory")?;
    let runner = directory.join("domain-run");
    ensure!(runner.exists(), "{} is missing: run the tests with `cargo test -p sfi-tests`", runner.display());
    Ok(runner)
}
