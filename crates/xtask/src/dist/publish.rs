//! The packages for crates.io.

use super::base::{Dist, execute, headline, remove};
use crate::setup::cargo;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages and builds all crates in the order of their needs, and installs the command from the
/// packages alone.
pub fn check(dist: &Dist) -> anyhow::Result<()> {
    headline("cargo publish --dry-run");
    let folder = dist.root.join("target/package");
    remove(&folder)?;
    execute(Command::new(cargo()).args(["publish", "--dry-run", "--workspace", "--quiet"]).current_dir(&dist.root))?;
    headline("cargo install sfi-cli, from the packages, without a network");
    let registry = dist.work.join("registry");
    let mut vendor = Command::new(cargo());
    vendor.args(["vendor", "--locked", "--quiet"]).arg(&registry).current_dir(&dist.root);
    // It prints the configuration, which stands below.
    ensure!(vendor.output().context("cannot run cargo")?.status.success(), "cargo vendor failed");
    // Cargo puts them here or there, as its version wants it.
    let [packages, local] = [&folder, &folder.join("tmp-registry")].map(|folder| crates(folder, &dist.version));
    let packages = Some(packages?).filter(|found| !found.is_empty()).map_or(local, Ok)?;
    ensure!(!packages.is_empty(), "cargo publish left no package");
    for package in &packages {
        add(package, &registry)?;
    }
    let installed = dist.work.join("installed");
    let directory = format!("source.packages.directory={:?}", registry.display().to_string());
    let mut install = Command::new(cargo());
    install.args(["install", "--offline", "--debug", "--quiet", "sfi-cli", "--version", &dist.version]);
    install.args(["--config", "source.crates-io.replace-with=\"packages\"", "--config", &directory, "--root"]);
    // Not in the repository, whose workspace and configuration would take part.
    install.arg(&installed).current_dir(&dist.work).env("CARGO_TARGET_DIR", dist.work.join("installed-target"));
    execute(&mut install)?;
    execute(Command::new(installed.join("bin/sfi")).arg("--version"))
}

/// Lists the packages of this version.
fn crates(folder: &Path, version: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    let ending = format!("-{version}.crate");
    Ok(paths.into_iter().filter(|path| path.to_string_lossy().ends_with(&ending)).collect())
}

/// Unpacks a package into a folder that cargo takes for a registry.
fn add(package: &Path, registry: &Path) -> anyhow::Result<()> {
    execute(Command::new("tar").arg("-xzf").arg(package).arg("-C").arg(registry))?;
    let digest = Command::new("sha256sum").arg(package).output().context("cannot run sha256sum")?;
    let digest = String::from_utf8(digest.stdout)?;
    let digest = digest.split_whitespace().next().context("sha256sum printed nothing")?;
    let folder = registry.join(package.file_stem().context("a package without a name")?);
    let sums = format!("{{\"files\":{{}},\"package\":\"{digest}\"}}\n");
    std::fs::write(folder.join(".cargo-checksum.json"), sums).with_context(|| format!("{}", folder.display()))
}
