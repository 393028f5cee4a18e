//! Tools of a release, which Debian does not have.

use super::base::execute;
use crate::setup::cargo;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of crates.io, their programs, and their versions.
const TOOLS: [(&str, &str); 3] = [("cargo-deb", "3.8.0"), ("cargo-cyclonedx", "0.5.9"), ("cargo-deny", "0.20.2")];

/// Installs what is missing below `target/tools`, and returns the folder of programs.
pub fn ensure(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = root.join("target/tools");
    let programs = folder.join("bin");
    for (package, version) in TOOLS {
        if programs.join(package).exists() {
            continue;
        }
        eprintln!("installing {package} {version} in {}", folder.display());
        let mut install = Command::new(cargo());
        install.args(["install", "--locked", "--quiet", package, "--version", version, "--root"]);
        execute(install.arg(&folder))?;
    }
    Ok(programs)
}
