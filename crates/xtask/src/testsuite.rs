//! gcc's own tests, out of the distribution's package of gcc's source: fetched once into the target
//! directory, and never part of this repository.

use crate::apt;
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A binary package that holds gcc's upstream archive, so no source package is needed.
const PACKAGE: &str = "gcc-12-source";
/// Folders of gcc's testsuite.
const FOLDERS: [&str; 3] = ["gcc.c-torture/execute", "g++.dg", "c-c++-common"];

/// Fetches and unpacks the tests into the folder of sources if they are not there.
///
/// # Errors
/// The package cannot be fetched; the message says what to do.
pub fn ensure(sources: &Path) -> anyhow::Result<()> {
    let directory = sources.join("gcc-testsuite");
    let complete = directory.join(".complete");
    if complete.exists() {
        return Ok(());
    }
    eprintln!("fetching gcc's tests ({PACKAGE})");
    let _ = fs::remove_dir_all(&directory);
    let download = directory.join(".download");
    fs::create_dir_all(&download)?;
    apt::download(&download, &[PACKAGE])?;
    let deb = only(&download, |name| name.ends_with(".deb")).context("there is no package")?;
    apt::quiet(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(download.join("tree")))?;
    let sources = download.join("tree/usr/src/gcc-12");
    let archive = only(&sources, |name| name.starts_with("gcc-") && name.contains(".tar."));
    let archive = archive.with_context(|| format!("{PACKAGE} holds no archive of gcc"))?;
    let mut unpack = Command::new("tar");
    unpack.arg("xf").arg(archive).arg("-C").arg(&directory).args(["--strip-components=3", "--wildcards"]);
    apt::quiet(unpack.args(FOLDERS.map(|folder| format!("*/gcc/testsuite/{folder}"))))?;
    for folder in FOLDERS {
        ensure!(directory.join(folder).is_dir(), "gcc's source has no tests in {folder}");
    }
    fs::remove_dir_all(download)?;
    fs::write(complete, "")?;
    Ok(())
}

/// Returns the first file of a directory whose name fits.
fn only(directory: &Path, fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    entries.map(|e| e.path()).find(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(&fits))
}
