//! Modules stand in folders, and imports point down only (docs: loader/src/lib.rs,
//! rewriter/src/lib.rs).

mod circles;

use std::path::{Path, PathBuf};

/// The loader's folders. Each may import those to its right.
const LOADER: &[&str] = &["manifest", "fleet", "world", "load", "link", "spec", "fault", "gate", "vm"];
/// The rewriter's folders and the two plain modules that all of them may use.
const REWRITER: &[&str] = &["output", "debug", "transform", "text", "analysis", "unwind", "object", "stats", "refusal"];

/// Returns the `.rs` files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

/// Returns the top-level modules that a source names after `crate::`, with their lines. Braces
/// after `crate::` are refused, so each import has a line of its own.
fn named(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("crate::") {
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            let rest = &line[at + "crate::".len()..];
            assert!(!rest.starts_with('{'), "line {}: one import for each module, please: {line}", number + 1);
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            all.push((number + 1, name));
        }
    }
    all
}

/// Returns the imports of `folder/src` that point up, as text.
fn upward(source: &Path, order: &[&str]) -> Vec<String> {
    let place = |name: &str| order.iter().position(|o| *o == name);
    let mut found = Vec::new();
    let mut seen = vec![0; order.len()];
    for path in sources(source) {
        let inside = path.strip_prefix(source).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let Some(own) = place(first.trim_end_matches(".rs")) else {
            // The crate's root may import everything. No other module may stand outside the floors.
            assert_eq!(inside, Path::new("lib.rs"), "{} stands on no floor", path.display());
            continue;
        };
        seen[own] += 1;
        for (line, name) in named(&std::fs::read_to_string(&path).unwrap()) {
            if place(&name).is_some_and(|other| other < own) {
                found.push(format!("{}:{line} names crate::{name}", path.display()));
            }
        }
    }
    for (name, count) in order.iter().zip(seen) {
        assert!(count > 0, "{}: no module `{name}`", source.display());
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn imports_of_the_loader_point_down() {
    assert_eq!(upward(&root().join("loader/src"), LOADER), [] as [String; 0]);
}

#[test]
fn imports_of_the_rewriter_point_down() {
    assert_eq!(upward(&root().join("rewriter/src"), REWRITER), [] as [String; 0]);
}

/// The test sees imports that point up: with the floors in reverse order almost every import does.
#[test]
fn an_import_that_points_up_is_seen() {
    let mut reverse = LOADER.to_vec();
    reverse.reverse();
    let found = upward(&root().join("loader/src"), &reverse);
    assert!(found.iter().any(|f| f.contains("world/inner.rs") && f.contains("crate::gate")), "{found:?}");
    assert_eq!(named("use crate::vm::window;\n  x::crate_of(y)"), [(1, "vm".to_owned())]);
}
