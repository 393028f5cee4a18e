//! The native side of a comparison.

use crate::build::Objects;
use crate::run::{Outcome, must};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(30);

/// Links a program with the runtime and runs it.
///
/// # Errors
/// The linker's messages, or the program does not end.
pub fn execute(program: &Objects, runtime: &Objects) -> anyhow::Result<Outcome> {
    run(&link(program, runtime)?, program.directory.path(), LIMIT)
}

/// Links a program with the runtime, in the program's directory.
///
/// # Errors
/// The linker's messages.
pub fn link(program: &Objects, runtime: &Objects) -> anyhow::Result<PathBuf> {
    let directory = program.directory.path();
    let executable = directory.join("native");
    let mut link = Command::new("gcc");
    // Code for a fixed place runs at no other.
    link.args(&program.paths).args(runtime.native()).args(["-no-pie", "-z", "noexecstack", "-o"]).arg(&executable);
    must(&mut link, directory)?;
    Ok(executable)
}

/// Runs a linked program.
///
/// # Errors
/// The program does not end.
pub fn run(executable: &Path, scratch: &Path, limit: Duration) -> anyhow::Result<Outcome> {
    crate::run::run(&mut Command::new(executable), scratch, limit)
}
