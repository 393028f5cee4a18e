//! Fetching binary packages, without installing them.

use anyhow::{Context, bail, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Downloads packages into a directory. Updates the package lists if they do not know the packages.
///
/// # Errors
/// A package cannot be fetched. The message quotes apt-get.
pub fn download(directory: &Path, packages: &[&str]) -> anyhow::Result<()> {
    if try_download(directory, packages)?.is_none() {
        return Ok(());
    }
    quiet(Command::new("apt-get").args(["update", "-qq"]))?;
    match try_download(directory, packages)? {
        None => Ok(()),
        Some(words) => bail!(
            "`apt-get download {}` failed; the package source must know these Debian packages: {words}",
            packages.join(" ")
        ),
    }
}

/// Downloads packages by the present lists. Returns apt-get's message if that fails.
///
/// # Errors
/// apt-get cannot be run.
pub fn try_download(directory: &Path, packages: &[&str]) -> anyhow::Result<Option<String>> {
    let mut command = Command::new("apt-get");
    command.args(["download", "-qq", "-oAPT::Sandbox::User=root"]).args(packages).current_dir(directory);
    let output =
        command.stdin(Stdio::null()).output().context("cannot run apt-get: this task needs Debian's archive")?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Returns the packages of this machine's architecture that hold a file whose name has an ending,
/// by the archive's lists of contents. These lists go to a directory of their own, because apt does
/// not fetch them by itself.
///
/// # Errors
/// The lists cannot be fetched or read.
pub fn packages_with(lists: &Path, ending: &str) -> anyhow::Result<BTreeSet<String>> {
    const CONTENTS: &str = "-oAcquire::IndexTargets::deb::Contents-deb";
    std::fs::create_dir_all(lists.join("partial"))?;
    let listed = || -> anyhow::Result<Vec<_>> {
        let paths = std::fs::read_dir(lists)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(paths.into_iter().filter(|path| path.to_string_lossy().contains("_Contents-amd64")).collect())
    };
    if listed()?.is_empty() {
        eprintln!("fetching the lists of contents");
        quiet(
            Command::new("apt-get")
                .args(["update", "-qq", "-oAPT::Sandbox::User=root"])
                .arg(format!("-oDir::State::Lists={}", lists.display()))
                .arg(format!("{CONTENTS}::MetaKey=$(COMPONENT)/Contents-$(ARCHITECTURE)"))
                .arg(format!("{CONTENTS}::ShortDescription=Contents"))
                .arg(format!("{CONTENTS}::Description=$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Contents")),
        )?;
    }
    let lists = listed()?;
    ensure!(!lists.is_empty(), "apt fetched no list of contents");
    // apt knows the compression of its lists.
    let text = Command::new("/usr/lib/apt/apt-helper").arg("cat-file").args(lists).output();
    let text = text.context("cannot run apt-helper")?.stdout;
    let mut packages = BTreeSet::new();
    for line in String::from_utf8_lossy(&text).lines() {
        // A file, and `section/package` for each package that has it.
        let Some((file, owners)) = line.rsplit_once(char::is_whitespace) else { continue };
        if file.trim_end().ends_with(ending) {
            packages.extend(owners.split(',').filter_map(|owner| owner.rsplit('/').next()).map(str::to_owned));
        }
    }
    Ok(packages)
}

/// Runs a command that must succeed, without its standard output.
///
/// # Errors
/// It cannot be run or fails.
pub fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
