//! Running commands with a time limit and their output in files, so that no pipe can block.

use anyhow::{Context, bail};
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt;

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a command to its end. `scratch` is a directory for its output.
///
/// # Errors
/// The command cannot be started, or it takes longer than the limit and was killed.
pub fn run(command: &mut Command, scratch: &Path, limit: Duration) -> anyhow::Result<Outcome> {
    let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
    let what = || format!("{:?}", command.get_program());
    let name = what();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let Some(status) = child.wait_timeout(limit)? else {
        child.kill()?;
        child.wait()?;
        bail!("{name} did not end within {limit:?}");
    };
    Ok(Outcome {
        status,
        stdout: std::fs::read(out)?,
        stderr: String::from_utf8_lossy(&std::fs::read(err)?).into_owned(),
    })
}

/// Runs a command that must succeed.
///
/// # Errors
/// As [`run`]. If the command fails, the error holds it and its output.
pub fn must(command: &mut Command, scratch: &Path) -> anyhow::Result<Outcome> {
    let outcome = run(command, scratch, Duration::from_secs(300))?;
    if !outcome.status.success() {
        bail!("{command:?}: {}\n{}", outcome.status, outcome.stderr);
    }
    Ok(outcome)
}
