//! Fetching binary packages, without installing them.

use anyhow::{Context, bail, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// Downloads packages into a directory. Updates the package lists if they do not know the packages.
///
/// # Errors
/// A package cannot be fetched. The message quotes apt-get.
pub fn download(directory: &Path, packages: &[&str]) -> anyhow::Result<()> {
    if try_download(directory, packages)?.is_none() {
        return Ok(());
    }
    quiet(Command::new("apt-get").args(["update", "-qq"]))?;
    match try_download(directory, packages)? {
        None => Ok(()),
        Some(words) => bail!(
            "`apt-get download {}` failed; the package source must know these Debian packages: {words}",
            packages.join(" ")
        ),
    }
}

/// Downloads packages by the present lists. Returns apt-get's message if that fails.
///
/// # Errors
/// apt-get cannot be run.
pub fn try_download(directory: &Path, packages: &[&str]) -> anyhow::Result<Option<String>> {
    let mut command = Command::new("apt-get");
    command.args(["download", "-qq", "-oAPT::Sandbox::User=root"]).args(packages).current_dir(directory);
    let output =
        command.stdin(Stdio::null()).output().context("cannot run apt-get: this task needs Debian's archive")?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Runs a command that must succeed, without its standard output.
///
/// # Errors
/// It cannot be run or fails.
pub fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
