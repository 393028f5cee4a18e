//! Libraries for domains: the distribution's own, rewritten once for each mode.

use crate::paths::sfi;
use crate::run::{must, run};
use anyhow::{Context, ensure};
use sfi_contract::Mode;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The place of libc.a in Debian's musl-dev.
const LIBC: &str = "/usr/lib/x86_64-linux-musl/libc.a";

type Made = [OnceLock<Result<TempDir, String>>; 3];

/// Returns a directory with the rewritten libc.a of musl.
///
/// # Errors
/// It cannot be rewritten.
pub fn libc(mode: Mode) -> anyhow::Result<&'static Path> {
    static MADE: Made = [const { OnceLock::new() }; 3];
    directory(&MADE, mode, || Ok(vec![PathBuf::from(LIBC)]))
}

/// Returns a directory with g++'s libstdc++.a and libgcc.a, rewritten.
///
/// # Errors
/// They cannot be found or rewritten.
pub fn cxx(mode: Mode) -> anyhow::Result<&'static Path> {
    static MADE: Made = [const { OnceLock::new() }; 3];
    directory(&MADE, mode, || {
        let mut found = Vec::new();
        for name in ["libstdc++.a", "libgcc.a"] {
            let scratch = tempfile::tempdir()?;
            let asked = must(Command::new("g++").arg(format!("-print-file-name={name}")), scratch.path())?;
            found.push(PathBuf::from(String::from_utf8(asked.stdout)?.trim()));
        }
        Ok(found)
    })
}

fn directory(
    made: &'static Made,
    mode: Mode,
    archives: impl Fn() -> anyhow::Result<Vec<PathBuf>>,
) -> anyhow::Result<&'static Path> {
    let index = Mode::ALL.iter().position(|m| *m == mode).context("a mode")?;
    let make = || -> anyhow::Result<TempDir> {
        let directory = tempfile::tempdir()?;
        for archive in archives()? {
            let to = directory.path().join(archive.file_name().context("no file name")?);
            let mut command = Command::new(sfi()?);
            // Some members are refused. A link fails if it needs one.
            command.args(["rewrite", "--skip-refused", "--mode", mode.name()]).arg(&archive).arg("-o").arg(&to);
            let outcome = run(&mut command, directory.path(), Duration::from_secs(600))?;
            ensure!(outcome.status.success(), "{} cannot be rewritten: {}", archive.display(), outcome.stderr);
        }
        Ok(directory)
    };
    let made = made[index].get_or_init(|| make().map_err(|e| format!("{e:#}")));
    made.as_ref().map(TempDir::path).map_err(|e| anyhow::anyhow!("{e}"))
}
