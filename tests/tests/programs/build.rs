//! Programs are compiled once and linked twice.

use anyhow::{Context, ensure};
use sfi_contract::Mode;
use sfi_tests::paths::sfi;
use sfi_tests::run::{must, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// musl's compiler.
pub const COMPILER: &str = "musl-gcc";
/// The place of libc.a in Debian's musl-dev.
const LIBC: &str = "/usr/lib/x86_64-linux-musl/libc.a";

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

/// Returns a directory with the rewritten libc, made once for each mode.
pub fn libc(mode: Mode) -> anyhow::Result<&'static Path> {
    static MADE: [OnceLock<Result<TempDir, String>>; 3] = [const { OnceLock::new() }; 3];
    let index = Mode::ALL.iter().position(|m| *m == mode).context("a mode")?;
    let made = MADE[index].get_or_init(|| {
        let make = || -> anyhow::Result<TempDir> {
            let directory = tempfile::tempdir()?;
            let to = directory.path().join("libc.a");
            let mut command = Command::new(sfi()?);
            // Some members are refused, and the exit status says so. If a program needs one of
            // them, its link fails.
            command.args(["rewrite", "--skip-refused", "--mode", mode.name(), LIBC, "-o"]).arg(&to);
            run(&mut command, directory.path(), Duration::from_secs(300))?;
            ensure!(to.exists(), "musl's libc.a cannot be rewritten: install musl-dev");
            Ok(directory)
        };
        make().map_err(|e| format!("{e:#}"))
    });
    made.as_ref().map(TempDir::path).map_err(|e| anyhow::anyhow!("{e}"))
}
