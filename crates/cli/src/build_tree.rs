//! What a program that is run by its name sees while it is built and tested: the build tree around
//! the working directory, and the sources that it is built from.

use std::path::{Path, PathBuf};

/// Files that a directory of a build tree has.
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
/// Directories without a mark between the working directory and the tree: those that tests make.
const DEEP: usize = 3;

/// A build tree.
#[derive(Debug, PartialEq, Eq)]
pub struct BuildTree {
    /// Its uppermost directory.
    pub root: PathBuf,
    /// Where its sources are, if they lie elsewhere.
    pub sources: Option<PathBuf>,
}

/// The build tree around a directory: the uppermost of those around it that have a mark, one inside
/// the other. The root of the file system and a home directory are none.
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

/// The source tree that a build tree names.
fn sources(root: &Path) -> Option<PathBuf> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    // configure notes its own command line, `$ ../configure ...`.
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
