//! Programs are compiled once and linked twice.

use sfi_contract::Mode;
use sfi_tests::libraries::libc;
use sfi_tests::paths::sfi;
use sfi_tests::run::must;
use std::path::{Path, PathBuf};
use std::process::Command;

/// musl's compiler.
pub const COMPILER: &str = "musl-gcc";

/// Compiles one source to an object for both sides.
pub fn compile(source: &Path, flags: &[String], object: &Path, scratch: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(COMPILER);
    command.args(["-w", "-fPIE", "-fno-asynchronous-unwind-tables"]).args(flags);
    command.arg("-c").arg(source).arg("-o").arg(object);
    must(&mut command, scratch).map(drop)
}

/// Makes an archive of objects.
pub fn archive(objects: &[PathBuf], to: &Path, scratch: &Path) -> anyhow::Result<()> {
    must(Command::new("ar").arg("rcsD").arg(to).args(objects), scratch).map(drop)
}

/// Links the native, static executable.
pub fn native(inputs: &[PathBuf], to: &Path, scratch: &Path) -> anyhow::Result<()> {
    must(Command::new(COMPILER).arg("-static").args(inputs).arg("-o").arg(to), scratch).map(drop)
}

/// Links the program for a domain with `sfi cc`.
pub fn domain(inputs: &[PathBuf], mode: Mode, to: &Path, scratch: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(sfi()?);
    command.env("SFI_MODE", mode.name()).env("SFI_LIBC_DIR", libc(mode)?).env("SFI_CC", COMPILER);
    must(command.arg("cc").args(inputs).arg("-o").arg(to), scratch).map(drop)
}

/// Rewrites an archive.
pub fn rewrite(archive: &Path, mode: Mode, to: &Path, scratch: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(sfi()?);
    command.args(["rewrite", "--mode", mode.name()]).arg(archive).arg("-o").arg(to);
    must(&mut command, scratch).map(drop)
}
