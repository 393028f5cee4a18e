//! The files that a program sees if it is run by its name while it is built and tested: the build
//! tree around the working directory.
//!
//! A program may write in its tree. So the tree that a later run finds must not depend on files
//! that a program made or removed: the marks of a root cannot be removed (see
//! [`crate::grants::Grants::resolve`]), and the directory above it has none. The sources outside
//! the tree are the user's to name. What files of the tree say about them is only told.

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

/// Returns the marks of a directory. A link is none.
pub fn marks(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let is_mark = |path: &PathBuf| path.symlink_metadata().is_ok_and(|file| file.is_file());
    MARKS.iter().map(move |mark| directory.join(mark)).filter(is_mark)
}

/// Finds the root of the build tree around a directory: the uppermost of the directories with a
/// mark that lie one inside the other. Neither the root of the file system nor a home directory is
/// part of a tree.
pub fn around(directory: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let is_part = |directory: &Path| {
        let may = directory.parent().is_some() && Some(directory) != home;
        may && marks(directory).next().is_some()
    };
    let first = directory.ancestors().take(DEEP + 1).find(|directory| is_part(directory))?;
    first.ancestors().take_while(|directory| is_part(directory)).last().map(Path::to_owned)
}

/// Returns the source directory outside a build tree that its files name. A program may have
/// written them.
pub fn told_sources(root: &Path) -> Option<PathBuf> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    // configure logs its own command line: `$ ../configure ...`.
    let log = read("config.log");
    let command = log.lines().find_map(|line| line.trim_start().strip_prefix("$ "));
    let configure = command.and_then(|command| command.split_whitespace().find(|word| word.ends_with("/configure")));
    let cache = read("CMakeCache.txt");
    let cmake = cache.lines().find_map(|line| line.strip_prefix("CMAKE_HOME_DIRECTORY:INTERNAL="));
    let named = configure.and_then(|path| Path::new(path).parent()).or(cmake.map(Path::new))?;
    root.join(named).canonicalize().ok().filter(|sources| !sources.starts_with(root) && sources.is_dir())
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
        assert_eq!(at("tests/one/two"), Some(build.join("tests")));
        std::os::unix::fs::symlink("tests/Makefile", build.join("Makefile")).expect("a link");
        assert_eq!(at("tests"), Some(build.join("tests")), "a link is no mark");
        std::fs::write(build.join("config.log"), "  $ ../../src/configure CC=x\n").expect("written");
        assert_eq!(at("tests"), Some(build.clone()));
        assert_eq!(told_sources(&build), Some(source));
        std::fs::write(build.join("config.log"), "  $ ./configure CC=x\n").expect("written");
        assert_eq!(told_sources(&build), None);
        assert_eq!(around(&build, Some(&build)), None);
        assert_eq!(around(&top, None), None);
    }
}
