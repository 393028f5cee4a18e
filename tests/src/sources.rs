//! Sources of whole programs, which `cargo xtask sources` fetches into the target directory.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

/// Returns `target/sources/PACKAGE`.
///
/// # Errors
/// The folder does not exist.
pub fn package(name: &str) -> anyhow::Result<PathBuf> {
    // target/<profile>/deps/<test>
    let exe = std::env::current_exe()?;
    let target = exe.ancestors().nth(3).context("the test does not run from a target directory")?;
    let path = target.join("sources").join(name);
    ensure!(path.join(".complete").exists(), "the source of {name} is missing: run `cargo xtask sources`");
    Ok(path)
}

/// Returns the files below a directory whose path matches a pattern with at most one `*`, sorted.
///
/// # Errors
/// There is none.
pub fn matching(directory: &Path, pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let path = directory.join(pattern);
    let name = path.file_name().and_then(|n| n.to_str()).context("a pattern ends with a name")?;
    let Some((before, behind)) = name.split_once('*') else {
        ensure!(path.exists(), "there is no {}", path.display());
        return Ok(vec![path]);
    };
    let parent = path.parent().context("a pattern has a directory")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(parent).with_context(|| parent.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.len() >= before.len() + behind.len() && name.starts_with(before) && name.ends_with(behind) {
            found.push(path);
        }
    }
    ensure!(!found.is_empty(), "nothing matches {}", path.display());
    found.sort();
    Ok(found)
}
