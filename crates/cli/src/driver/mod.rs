//! Compiling and linking programs: the work of `sfi cc` and `sfi c++`.

pub mod compiler;
mod line;
pub mod linker;
mod runtime;

use crate::bundle::Bundle;
use crate::members::write_output;
use anyhow::{Context, ensure};
use compiler::{Driver, library};
use line::{Item, Line};
use sfi_loader::LinkError;
use sfi_rewriter::{Mode, Options};
use sfi_validator::Validation;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The directory of libc.a in Debian's musl-dev.
const LIBC_DIR: &str = "/usr/lib/x86_64-linux-musl";

/// Compiles or links.
pub fn drive(driver: &Driver, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let arguments = line::expand(arguments)?;
    let line = line::parse(&arguments)?;
    let libc = std::env::var_os("SFI_LIBC_DIR").map_or_else(|| PathBuf::from(LIBC_DIR), PathBuf::from);
    let mut flags = driver.flags(&libc);
    if line.budget {
        flags.push("-ffixed-r14".into());
    }
    if line.compile_only || line.inputs.is_empty() {
        let arguments = arguments.iter().filter(|argument| *argument != line::BUDGET);
        let status = driver.run(driver.command().args(&flags).args(arguments))?;
        return Ok(code(status));
    }
    link(driver, &flags, &libc, &line)
}

fn code(status: std::process::ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1))
}

/// Compiles the sources, rewrites all parts and packs them into one file.
fn link(driver: &Driver, flags: &[OsString], libc_dir: &Path, line: &Line) -> anyhow::Result<ExitCode> {
    ensure!(
        !line.budget || line.plugin || line.library,
        "--budget: a program has no budget of instructions: add --plugin, and let a manifest load the archive"
    );
    // No libc leaves r14 alone, and neither does the support for one.
    let bare = line.bare || line.budget;
    let mode: Mode = std::env::var("SFI_MODE").map_or(Ok(Mode::Write), |mode| mode.parse())?;
    let temporary = tempfile::tempdir()?;
    let mut bundle = Bundle::default();
    let mut whole = false;
    let mut cxx = driver.cxx;
    let mut openmp = line.openmp;
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
                bundle.add(&object, path, false)?;
            }
            // Libraries are linked with a program, not with another library.
            Item::Object(path) if line.library && line::is_library(path) => {}
            Item::Object(path) => bundle.add(path, path, whole)?,
            Item::Whole(now) => whole = *now,
            Item::Library(name) => {
                // The link adds these libraries itself at its end.
                cxx |= matches!(&**name, "stdc++" | "supc++");
                openmp |= name == "gomp";
                if matches!(&**name, "stdc++" | "supc++" | "gcc" | "gcc_s" | "gcc_eh" | "gomp" | "c") {
                    continue;
                }
                let path = find(driver, libc_dir, line, name)?;
                if !(line.library && line::is_library(&path)) {
                    bundle.add(&path, &path, whole)?;
                }
            }
        }
    }
    let output = line.output.clone().unwrap_or_else(|| PathBuf::from("a.out"));
    if line.library {
        bundle.rename(&line.wishes)?;
        bundle.select(&[], &line.wishes.undefined)?;
        write_output(&output, &bundle.library()?, 0o755)?;
        return Ok(ExitCode::SUCCESS);
    }
    if openmp && !bare {
        runtime::add_openmp(driver, temporary.path(), &mut bundle)?;
    }
    if !line.budget {
        runtime::add_runtime(driver, cxx, temporary.path(), &mut bundle)?;
        runtime::add_libraries(driver, temporary.path(), &mut bundle)?;
    }
    if !bare {
        if let Some(libgcc) = library(driver, "libgcc.a")? {
            bundle.add(&libgcc, &libgcc, false)?;
        }
        let libc = libc_dir.join("libc.a");
        bundle
            .add(&libc, &libc, false)
            .with_context(|| "a libc is needed: install musl-dev, or name its directory in SFI_LIBC_DIR")?;
    }
    bundle.rename(&line.wishes)?;
    let start = if line.plugin { sfi_support::library(mode) } else { sfi_support::object(mode) };
    let roots = [start, sfi_support::jumps_object(mode), sfi_support::contexts_object(mode)];
    bundle.select(&roots, &line.wishes.undefined)?;
    if let Some(map) = &line.wishes.map {
        write_output(map, bundle.map().as_bytes(), 0o644)?;
    }
    let validation = match std::env::var("SFI_VALIDATE") {
        Ok(text) => text.parse().map_err(|why| anyhow::anyhow!("SFI_VALIDATE: {why}"))?,
        Err(_) => Validation::default(),
    };
    let options = Options { mode, budget: line.budget, saves: saves(&bundle)? };
    let Some(archive) = bundle.pack(&options, validation)? else {
        return Ok(ExitCode::FAILURE);
    };
    let name = output.display().to_string();
    if line.plugin {
        return plugin(mode, line.budget, &name, &output, archive);
    }
    let bytes = [crate::linked::header(mode).as_bytes(), &archive].concat();
    if let Err(error) = crate::program::check(mode, &name, archive) {
        eprintln!("error: {error}");
        return Ok(ExitCode::FAILURE);
    }
    write_output(&output, &bytes, 0o755)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the archive of a plugin. What it leaves undefined the manifest has to grant.
fn plugin(mode: Mode, budget: bool, name: &str, output: &Path, archive: Vec<u8>) -> anyhow::Result<ExitCode> {
    match crate::program::check_plugin(mode, budget, name, archive.clone()) {
        Ok(()) => {}
        Err(LinkError::Undefined { symbols, .. }) => {
            let names: Vec<&str> = symbols.iter().map(|mention| mention.symbol.as_str()).collect();
            eprintln!("note: the manifest has to grant what `{name}` imports: {}", names.join(", "));
        }
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(ExitCode::FAILURE);
        }
    }
    write_output(output, &archive, 0o644)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the archive that `-l` names. It may lie in a directory of `-L`, beside the libc, or
/// among the compiler's libraries. Libraries that `-shared` made are archives, too.
fn find(driver: &Driver, libc_dir: &Path, line: &Line, name: &str) -> anyhow::Result<PathBuf> {
    let files = match name.strip_prefix(':') {
        Some(file) => vec![file.to_owned()],
        None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let directories = line.directories.iter().map(PathBuf::as_path).chain([libc_dir]);
    let mut paths = directories.flat_map(|directory| files.iter().map(|file| directory.join(file)));
    if let Some(path) = paths.find(|path| path.exists() && !is_shared_object(path)) {
        return Ok(path);
    }
    let last = files.last().map_or(name, String::as_str);
    library(driver, last)?.with_context(|| format!("cannot find `{last}`: give its directory with -L"))
}

/// Says whether a file is a shared object. No domain can be linked with one.
fn is_shared_object(path: &Path) -> bool {
    line::is_library(path) && !matches!(crate::input::read(path), Ok(crate::input::Input::Archive(_)))
}

/// Says whether functions save registers on the control stack. The collector of Boehm, Demers and
/// Weiser searches the data stack for pointers, so they are in frames in programs that use it.
fn saves(bundle: &Bundle) -> anyhow::Result<bool> {
    match std::env::var("SFI_SAVES").as_deref() {
        Err(_) => Ok(!bundle.wants("GC_malloc")?),
        Ok("yes") => Ok(true),
        Ok("no") => Ok(false),
        Ok(other) => anyhow::bail!("SFI_SAVES: `{other}` is none of: yes, no"),
    }
}
