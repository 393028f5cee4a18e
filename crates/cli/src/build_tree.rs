//! The files that a program sees if it is run by its name while it is built and tested: the build
//! tree around the working directory, and its source tree.

use std::path::{Path, PathBuf};

/// Files that mark a directory as part of a build tree.
const MARKS: [&str; 8] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "config.log",
    "config.status",
    "CMakeCache.txt",
    "build.ninja",
    "meson.build",
];
/// Number of directories without a mark that may lie between the working directory and the tree.
/// Tests make such directories.
const DEEP: usize = 3;

/// A build tree.
#[derive(Debug, PartialEq, Eq)]
pub struct BuildTree {
    /// The uppermost directory of the tree.
    pub root: PathBuf,
    /// The directory of its sources, if they lie outside the tree.
    pub sources: Option<PathBuf>,
}

/// Finds the build tree around a directory: the uppermost of the directories with a mark that lie
/// one inside the other. Neither the root of the file system nor a home directory is part of a
/// tree.
pub fn around(directory: &Path, home: Option<&Path>) -> Option<BuildTree> {
    let is_part = |directory: &Path| {
        let may = directory.parent().is_some() && Some(directory) != home;
        may && MARKS.iter().any(|mark| directory.join(mark).is_file())
    };
    let first = directory.ancestors().take(DEEP + 1).find(|directory| is_part(directory))?;
    let root = first.ancestors().take_while(|directory| is_part(directory)).last()?;
    let sources = sources(root).filter(|sources| !sources.starts_with(root) && sources.parent().is_some());
    Some(BuildTree { root: root.to_owned(), sources })
}

/// Returns the source tree that the files of a build tree name.
fn sources(root: &Path) -> Option<PathBuf> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    // configure logs its own command line: `$ ../configure ...`.
    let log = read("config.log");
    let command = log.lines().find_map(|line| line.trim_start().strip_prefix("$ "));
    let configure = command.and_then(|command| command.split_whitespace().find(|word| word.ends_with("/configure")));
    let cache = read("CMakeCache.txt");
    let cmake = cache.lines().find_map(|line| line.strip_prefix("CMAKE_HOME_DIRECTORY:INTERNAL="));
    let named = configure.and_then(|path| Path::new(path).parent()).or(cmake.map(Path::new))?;
    root.join(named).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_begins_with_its_marks() {
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("a path");
        let (source, build) = (top.join("src"), top.join("work/build"));
        for directory in [&source, &build.join("tests/one/two")] {
            std::fs::create_dir_all(directory).expect("made");
        }
        let at = |path: &str| around(&build.join(path), None);
        assert_eq!(at("tests"), None);
        std::fs::write(build.join("tests/Makefile"), "").expect("written");
        let tree = |root: &str, sources| BuildTree { root: build.join(root), sources };
        assert_eq!(at("tests/one/two"), Some(tree("tests", None)));
        std::fs::write(build.join("config.log"), "  $ ../../src/configure CC=x\n").expect("written");
        let whole = BuildTree { root: build.clone(), sources: Some(source) };
        assert_eq!(at("tests"), Some(whole));
        assert_eq!(around(&build, Some(&build)), None);
        assert_eq!(around(&top, None), None);
    }
}
