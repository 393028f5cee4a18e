//! The native side of a comparison.

use crate::build::Objects;
use crate::run::{Outcome, must, run};
use std::process::Command;
use std::time::Duration;

/// Links a program with the runtime and runs it.
///
/// # Errors
/// The linker's messages, or the program does not end.
pub fn execute(program: &Objects, runtime: &Objects) -> anyhow::Result<Outcome> {
    let directory = program.directory.path();
    let executable = directory.join("native");
    let mut link = Command::new("gcc");
    link.args(&program.paths).args(runtime.native()).args(["-z", "noexecstack", "-o"]).arg(&executable);
    must(&mut link, directory)?;
    run(&mut Command::new(executable), directory, Duration::from_secs(30))
}
