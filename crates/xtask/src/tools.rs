//! Programs of crates.io that tasks need and Debian does not have.

use crate::setup::cargo;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package, whose program has the same name, and its version.
pub type Tool = (&'static str, &'static str);

/// Installs what is missing below `target/tools`, and returns the folder of programs.
pub fn ensure(root: &Path, tools: &[Tool]) -> anyhow::Result<PathBuf> {
    let folder = root.join("target/tools");
    let programs = folder.join("bin");
    for (package, version) in tools {
        if programs.join(package).exists() {
            continue;
        }
        eprintln!("installing {package} {version} in {}", folder.display());
        let mut install = Command::new(cargo());
        install.args(["install", "--locked", "--quiet", package, "--version", version, "--root"]).arg(&folder);
        let status = install.status().context("cannot run cargo")?;
        ensure!(status.success(), "{package} could not be installed");
    }
    Ok(programs)
}
