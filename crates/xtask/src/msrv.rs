//! `cargo xtask msrv`

use crate::setup;
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The oldest Rust that the project promises: `rust-version` of Cargo.toml.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Runs the task.
pub fn run() -> anyhow::Result<ExitCode> {
    check(&setup::root()?)?;
    println!("Rust {OLDEST} compiles the workspace");
    Ok(ExitCode::SUCCESS)
}

/// Checks programs, libraries, tests and examples with the oldest Rust itself, which rustup
/// installs if it is missing. Its output lies in a folder of its own.
///
/// # Errors
/// The toolchain cannot be installed, or does not compile the workspace.
pub fn check(root: &Path) -> anyhow::Result<()> {
    let toolchain = format!("{OLDEST}.0");
    let rustc = || {
        let mut rustup = Command::new("rustup");
        rustup.args(["run", &toolchain, "rustc", "--version"]).env("RUSTUP_AUTO_INSTALL", "0");
        rustup.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !rustc() {
        let install = ["toolchain", "install", &toolchain, "--profile", "minimal", "--no-self-update"];
        let status = Command::new("rustup").args(install).status();
        ensure!(
            status.is_ok_and(|status| status.success()) && rustc(),
            "Rust {toolchain} is missing: run `rustup {}`",
            install.join(" ")
        );
    }
    let target = setup::target(root).join("msrv");
    let mut check = Command::new("rustup");
    check.args(["run", &toolchain, "cargo", "check", "--workspace", "--all-targets", "--locked", "--quiet"]);
    // This task's own cargo and compiler are others.
    check.args(["--target-dir"]).arg(target).env_remove("CARGO").env_remove("RUSTC").current_dir(root);
    let status = check.status().context("cannot run rustup")?;
    ensure!(status.success(), "Rust {OLDEST} does not compile the workspace, which `rust-version` promises");
    Ok(())
}
