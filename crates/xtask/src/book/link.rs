//! Links of the documents.

use std::path::{Component, Path, PathBuf};

/// Returns the files that a document links to, from the repository's root.
pub fn links(document: &Path, text: &str) -> Vec<PathBuf> {
    let folder = document.parent().unwrap_or(Path::new(""));
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.map(|target| plain(&folder.join(target.split('#').next().unwrap_or(target)))).collect()
}

/// Resolves `..` by name.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_files_from_the_root() {
        let text = "[a](B.md#c) [d](../e/f.h) [g](#h) [i](https://example.org)";
        assert_eq!(links(Path::new("docs/A.md"), text), [PathBuf::from("docs/B.md"), PathBuf::from("e/f.h")]);
    }
}
