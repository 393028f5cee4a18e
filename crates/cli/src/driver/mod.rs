//! Compiling and linking programs: the work of `sfi cc` and `sfi c++`.

pub mod compiler;
mod line;
mod runtime;

use crate::bundle::Bundle;
use crate::members::write_output;
use anyhow::Context;
use compiler::{Driver, library};
use line::{Item, Line};
use sfi_rewriter::Mode;
use sfi_validator::Validation;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where Debian's musl-dev puts libc.a.
const LIBC_DIR: &str = "/usr/lib/x86_64-linux-musl";

/// Compiles or links.
pub fn drive(driver: &Driver, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let arguments = line::expand(arguments)?;
    let line = line::parse(&arguments)?;
    let libc = std::env::var_os("SFI_LIBC_DIR").map_or_else(|| PathBuf::from(LIBC_DIR), PathBuf::from);
    let flags = driver.flags(&libc);
    if line.compile_only || line.inputs.is_empty() {
        let status = driver.run(driver.command().args(&flags).args(&arguments))?;
        return Ok(code(status));
    }
    link(driver, &flags, &libc, &line)
}

fn code(status: std::process::ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1))
}

/// Compiles the sources, rewrites everything, packs it into one file.
fn link(driver: &Driver, flags: &[OsString], libc_dir: &Path, line: &Line) -> anyhow::Result<ExitCode> {
    let mode: Mode = std::env::var("SFI_MODE").map_or(Ok(Mode::Write), |mode| mode.parse())?;
    let temporary = tempfile::tempdir()?;
    let mut bundle = Bundle::default();
    for (number, item) in line.inputs.iter().enumerate() {
        match item {
            Item::Source(path, language) => {
                let object = temporary.path().join(format!("{number}.o"));
                let mut command = driver.command();
                command.args(flags).args(&line.flags).arg("-c");
                if let Some(language) = language {
                    command.arg("-x").arg(language);
                }
                let status = driver.run(command.arg(path).arg("-o").arg(&object))?;
                if !status.success() {
                    return Ok(code(status));
                }
                bundle.add(&object, path)?;
            }
            Item::Object(path) => bundle.add(path, path)?,
            Item::Library(name) => {
                // In the end, whatever the line says.
                if matches!(&**name, "stdc++" | "gcc" | "gcc_s" | "gcc_eh" | "c") {
                    continue;
                }
                let file = format!("lib{name}.a");
                let found =
                    line.directories.iter().map(|d| d.join(&file)).chain([libc_dir.join(&file)]).find(|p| p.exists());
                let found = match found {
                    Some(path) => Some(path),
                    None => library(driver, &file)?,
                };
                let path = found.with_context(|| format!("cannot find `{file}`: give its directory with -L"))?;
                bundle.add(&path, &path)?;
            }
        }
    }
    if driver.cxx {
        runtime::add_runtime(driver, temporary.path(), &mut bundle)?;
    }
    if !line.bare {
        if let Some(libgcc) = library(driver, "libgcc.a")? {
            bundle.add(&libgcc, &libgcc)?;
        }
        let libc = libc_dir.join("libc.a");
        bundle
            .add(&libc, &libc)
            .with_context(|| "a libc is needed: install musl-dev, or name its directory in SFI_LIBC_DIR")?;
    }
    let output = line.output.clone().unwrap_or_else(|| PathBuf::from("a.out"));
    let roots = [sfi_support::object(mode), sfi_support::jumps_object(mode)];
    let validation = match std::env::var("SFI_VALIDATE") {
        Ok(text) => text.parse().map_err(|why| anyhow::anyhow!("SFI_VALIDATE: {why}"))?,
        Err(_) => Validation::default(),
    };
    let Some(archive) = bundle.pack(mode, validation, &roots.each_ref().map(Vec::as_slice))? else {
        return Ok(ExitCode::FAILURE);
    };
    let bytes = [crate::program::header(mode).into_bytes(), archive].concat();
    write_output(&output, &bytes, 0o755)?;
    Ok(ExitCode::SUCCESS)
}
