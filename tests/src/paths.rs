//! The places of the repository and of the `sfi` binary.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the repository's root directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Returns a path below `fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

/// Returns the project's own files that match one of Git's patterns, as paths from its root.
/// Without patterns it returns all.
///
/// # Panics
/// Git does not run here.
pub fn own_files(patterns: &[&str]) -> Vec<PathBuf> {
    let listing = Command::new("git").arg("ls-files").args(patterns).current_dir(root()).output().expect("git runs");
    assert!(listing.status.success(), "git ls-files: {}", listing.status);
    let names = String::from_utf8(listing.stdout).expect("names are UTF-8");
    names.lines().map(PathBuf::from).filter(|name| root().join(name).exists()).collect()
}

/// Builds the `sfi` command line tool in the profile of the running test, and returns its path.
/// `SFI_BINARY` is one that is built already.
///
/// # Errors
/// Cargo cannot be run or the build fails; its messages went to standard error.
pub fn sfi() -> anyhow::Result<&'static Path> {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = PATH.get() {
        return Ok(path);
    }
    if let Some(built) = std::env::var_os("SFI_BINARY") {
        return Ok(PATH.get_or_init(|| built.into()));
    }
    // target/<profile>/deps/<test>
    let exe = std::env::current_exe().context("cannot find the running test")?;
    let directory = exe.parent().and_then(Path::parent).context("the test does not run from a target directory")?;
    let profile = match directory.file_name().and_then(|n| n.to_str()) {
        Some("release") => "release",
        _ => "dev",
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "-p", "sfi-cli", "--bin", "sfi", "--profile", profile, "--target-dir"])
        .arg(directory.parent().context("no target directory")?)
        .current_dir(root())
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo could not build sfi-cli");
    Ok(PATH.get_or_init(|| directory.join("sfi")))
}
