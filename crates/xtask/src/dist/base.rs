//! The release in the making, and how its parts run commands.

use crate::setup::{self, cargo};
use anyhow::{Context, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release in the making.
pub struct Dist {
    /// The repository.
    pub root: PathBuf,
    /// The files for users.
    pub out: PathBuf,
    /// Copies of the sources, and what is built of them.
    pub work: PathBuf,
    /// The sources of the commit, in an archive. All builds begin with it, also if a commit is made
    /// meanwhile.
    pub archive: PathBuf,
    /// The version of the command.
    pub version: String,
    /// Seconds since 1970 of the last commit, the time of all files in archives.
    pub time: String,
}

impl Dist {
    /// Empties the folders, and reads version and time.
    pub fn begin(out: &Path) -> anyhow::Result<Self> {
        let root = setup::root()?;
        let text = |command: &mut Command| -> anyhow::Result<String> {
            let output = command.current_dir(&root).output().context("cannot run a command")?;
            ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let changed = text(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"]))?;
        ensure!(changed.is_empty(), "a release is made of a commit, and these files differ from it:\n{changed}");
        let commit = text(Command::new("git").args(["rev-parse", "HEAD"]))?;
        let time = text(Command::new("git").args(["log", "-1", "--format=%ct", &commit]))?;
        let identity = text(Command::new(cargo()).args(["pkgid", "-p", "sfi-cli"]))?;
        let version = identity.rsplit(['#', '@']).next().context("no version")?.to_owned();
        let (out, work) = (root.join(out), root.join("target/release-work"));
        for folder in [&out, &work] {
            remove(folder)?;
            std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        let archive = work.join("sources.tar");
        text(Command::new("git").args(["archive", "--output"]).arg(&archive).arg(&commit))?;
        Ok(Self { root, out, work, archive, version, time })
    }
}

/// Removes a folder, if it is there.
pub fn remove(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Lists the names in a folder, sorted.
pub fn names(folder: &Path) -> anyhow::Result<Vec<OsString>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<anyhow::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Compares the files of two folders, which must have the same names and the same bytes.
pub fn compare(one: &Path, other: &Path) -> anyhow::Result<()> {
    let [all, others] = [names(one)?, names(other)?];
    ensure!(all == others, "two builds gave different files: {all:?} and {others:?}");
    for name in &all {
        let [first, second] = [one, other].map(|folder| std::fs::read(folder.join(name)));
        ensure!(first? == second?, "two builds of {name:?} differ: {} and {}", one.display(), other.display());
        println!("{}: the same bytes", name.to_string_lossy());
    }
    ensure!(!all.is_empty(), "{} has no file", one.display());
    Ok(())
}

/// Lists the files in a folder with their sizes, a line for each.
pub fn sizes(folder: &Path) -> anyhow::Result<String> {
    let line = |name: &OsString| -> anyhow::Result<String> {
        let bytes = std::fs::metadata(folder.join(name))?.len();
        Ok(format!("{bytes:>12} bytes  {}", name.to_string_lossy()))
    };
    Ok(names(folder)?.iter().map(line).collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
}

/// Begins a part of the task.
pub fn headline(text: &str) {
    println!("\n== {text}");
}

/// Runs a command that must succeed.
pub fn execute(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_folders_are_equal() {
        let root = std::env::temp_dir().join(format!("sfi-dist-{}", std::process::id()));
        let [one, other] = ["one", "other"].map(|name| root.join(name));
        for folder in [&one, &other] {
            std::fs::create_dir_all(folder).expect("made");
        }
        let write = |folder: &Path, name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        assert!(compare(&one, &other).is_err(), "nothing was compared");
        write(&one, "a", "1");
        let missing = compare(&one, &other).expect_err("a file is missing").to_string();
        assert!(missing.contains("different files"), "{missing}");
        write(&other, "a", "2");
        let differ = compare(&one, &other).expect_err("the bytes differ").to_string();
        assert!(differ.contains("\"a\" differ"), "{differ}");
        write(&other, "a", "1");
        compare(&one, &other).expect("equal");
        write(&one, "b", "four");
        assert_eq!(sizes(&one).expect("listed"), "           1 bytes  a\n           4 bytes  b");
        remove(&root).expect("removed");
        remove(&root).expect("it is gone already");
    }
}
