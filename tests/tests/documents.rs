//! The documents: links lead somewhere, and CONTRIBUTING names every environment variable.

use sfi_tests::paths::{own_files, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the project's own files with this ending, from its root, with their texts.
fn files(pattern: &str) -> Vec<(PathBuf, String)> {
    let text = |name: &PathBuf| std::fs::read_to_string(root().join(name)).unwrap();
    own_files(&[pattern]).into_iter().map(|name| (name.clone(), text(&name))).collect()
}

/// Returns the lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// Returns the anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|heading| heading.chars().filter_map(letter).collect()).collect()
}

/// Returns the targets of `[text](target)`.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let rest = line.split("](").skip(1);
        found.extend(rest.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()));
    }
    found
}

/// Says what is wrong with a link of a document.
fn broken(document: &Path, target: &str, read: impl Fn(&Path) -> Option<String>) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { document.to_owned() } else { document.parent().unwrap().join(path) };
    let Some(text) = read(&path) else { return Some(format!("{}: {target}: no such file", document.display())) };
    let wrong = !anchor.is_empty() && !anchors(&text).contains(anchor);
    wrong.then(|| format!("{}: {target}: no such heading", document.display()))
}

#[test]
fn links_lead_somewhere() {
    let documents = files("*.md");
    let read = |path: &Path| {
        let path = root().join(path);
        if path.is_dir() { Some(String::new()) } else { std::fs::read_to_string(path).ok() }
    };
    let mut seen = 0;
    let mut found = Vec::new();
    for (path, text) in &documents {
        let targets = targets(text);
        seen += targets.len();
        found.extend(targets.iter().filter_map(|target| broken(path, target, read)));
    }
    assert!(seen > 30, "only {seen} links");
    assert_eq!(found, [] as [String; 0]);
}

#[test]
fn broken_links_are_seen() {
    let read = |path: &Path| (path == Path::new("docs/B.md")).then(|| "# A `b` c\n```\n# no\n```\n".to_owned());
    let document = Path::new("docs/A.md");
    assert_eq!(targets("see [b](B.md#a-b-c) and [c](C.md)\n```\n[x](y)\n```\n"), ["B.md#a-b-c", "C.md"]);
    assert_eq!(broken(document, "B.md#a-b-c", read), None);
    assert_eq!(broken(document, "https://x.invalid/", read), None);
    assert!(broken(document, "B.md#no", read).is_some());
    assert!(broken(document, "C.md", read).is_some());
}

/// Returns the names `SFI_...` after a mark.
fn names<'t>(text: &'t str, mark: &str) -> impl Iterator<Item = &'t str> {
    text.match_indices(mark).filter_map(move |(at, _)| {
        let rest = &text[at + mark.len()..];
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(rest.len());
        (rest.starts_with("SFI_") && end > 4).then_some(&rest[..end])
    })
}

#[test]
fn contributing_names_every_variable() {
    let mut read = BTreeSet::new();
    let scripts = files("*.sh");
    assert!(scripts.iter().any(|(_, text)| text.contains("SFI_")), "no script reads a variable");
    for (_, text) in &scripts {
        read.extend(names(text, "$").chain(names(text, "${")).map(str::to_owned));
    }
    for (path, text) in files("*.rs").iter().filter(|(path, _)| *path != Path::new("tests/tests/documents.rs")) {
        assert!(!text.is_empty(), "{}", path.display());
        // Names as whole strings, for any use, and the names in scripts.
        let quoted = names(text, "\"").filter(|name| text.contains(&format!("\"{name}\"")));
        read.extend(quoted.chain(names(text, "$")).map(str::to_owned));
    }
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let named: BTreeSet<String> = names(&text, "`").map(str::to_owned).collect();
    assert!(read.len() > 20, "{read:?}");
    assert_eq!(read, named, "variables that the code reads, and those that CONTRIBUTING names");
}
