//! Comments and documents fit into 100 columns, so that they can be read beside something else.
//!
//! Code keeps rustfmt's 120. Exempt are rows of tables, fenced blocks, the lines of a fixture's
//! header that hold a command, generated headers, and links that cannot be broken.

use sfi_tests::paths::{own_files, root};
use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

/// The kinds of text that differ in how a comment starts.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Assembly,
    Hash,
    Document,
}

fn kind(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()? {
        "rs" | "c" | "h" | "cc" | "cpp" | "hpp" => Some(Kind::Code),
        "s" | "S" => Some(Kind::Assembly),
        "toml" | "py" | "sh" | "cmake" | "bzl" | "yml" => Some(Kind::Hash),
        "md" => Some(Kind::Document),
        _ => None,
    }
}

/// Returns the text of a line that is a comment from its start, or of a line of a document.
fn comment(kind: Kind, line: &str) -> Option<&str> {
    let line = line.trim_start();
    let starts: &[&str] = match kind {
        Kind::Document => return Some(line),
        Kind::Code => &["///", "//!", "//", "/*", "* "],
        Kind::Assembly => &["//", "/*", "* ", "# ", ";"],
        Kind::Hash => &["# "],
    };
    starts.iter().find_map(|start| line.strip_prefix(start)).map(str::trim_start)
}

/// Says whether a line may have any length.
fn exempt(text: &str) -> bool {
    let command = text.split_once(": ").is_some_and(|(key, _)| matches!(key, "show" | "run" | "variant"));
    let one_word = |text: &str| !text.trim_start_matches("- ").contains(' ');
    text.starts_with('|') || command || one_word(text) || text.starts_with("[![")
}

/// Returns the numbers of the lines that are too long.
fn long_lines(kind: Kind, text: &str) -> Vec<usize> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(text) = comment(kind, line) else {
            fenced = false;
            continue;
        };
        let fence = text.starts_with("```");
        fenced ^= fence;
        if !fence && !fenced && line.chars().count() > COLUMNS && !exempt(text) {
            found.push(at + 1);
        }
    }
    found
}

/// Returns the project's own files of these kinds.
fn files() -> Vec<(PathBuf, Kind)> {
    let paths = own_files(&[]).into_iter().map(|name| root().join(name));
    paths.filter_map(|path| kind(&path).map(|kind| (path, kind))).collect()
}

#[test]
fn comments_fit() {
    let files = files();
    assert!(files.len() > 700, "only {} files", files.len());
    let mut long = Vec::new();
    for (path, kind) in files {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let generated = text.lines().next().is_some_and(|line| line.contains("written by `sfi bind`"));
        let lines = if generated { Vec::new() } else { long_lines(kind, &text) };
        long.extend(lines.into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(long.is_empty(), "more than {COLUMNS} columns:\n{}", long.join("\n"));
}

#[test]
fn long_lines_are_found() {
    let words = "word ".repeat(25);
    for (kind, start) in [(Kind::Code, "    /// "), (Kind::Code, " * "), (Kind::Assembly, "# "), (Kind::Hash, "# ")] {
        assert_eq!(long_lines(kind, &format!("x\n{start}{words}\n")), [2], "{start}");
    }
    assert_eq!(long_lines(Kind::Document, &words), [1]);
    assert_eq!(long_lines(Kind::Code, &format!("let x = \"{words}\";\n    {words}")), []);
    assert_eq!(long_lines(Kind::Code, &format!("/// ```\n/// {words}\n/// ```\n/// | {words}\n// show: {words}")), []);
    assert_eq!(long_lines(Kind::Code, &format!("/// ```\n/// x\n/// ```\n/// {words}")), [4]);
}
