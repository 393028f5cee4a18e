//! Dependencies: the oldest Rust that the project promises builds all of them, and deny.toml allows
//! their licences and their source. Packages have all files that they need. The project's own code
//! has no syntax that is younger than this Rust and that clippy overlooks.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;
use sfi_tests::paths::{own_files, root};
use std::path::Path;
use std::process::Command;

/// Returns cargo's description of each package of the lock file that this platform needs. A build
/// has fetched no others.
fn packages() -> Vec<Value> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline"]).current_dir(root());
    metadata.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = metadata.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut parsed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    match parsed["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("{other} is no list"),
    }
}

/// Returns the versions of Rust that are named by the packages of the lock file, with the packages.
fn needed() -> Vec<(String, (u32, u32))> {
    let packages = packages();
    let version = |text: &str| {
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().expect("a number"));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    };
    let row = |package: &Value| {
        let text = package["rust_version"].as_str()?;
        Some((format!("{} {}", package["name"], package["version"]), version(text)))
    };
    packages.iter().filter_map(row).collect()
}

#[test]
fn no_dependency_needs_a_younger_rust() {
    let needed = needed();
    let own = needed.iter().find(|(name, _)| name.starts_with("\"sfi-cli\"")).expect("the command").1;
    assert!(needed.len() > 100, "{} packages name a version", needed.len());
    let younger: Vec<_> = needed.iter().filter(|(_, version)| *version > own).collect();
    assert!(younger.is_empty(), "rust-version is {own:?}, but: {younger:?}");
}

#[test]
fn all_files_name_the_same_oldest_rust() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let version = manifest["workspace"]["package"]["rust-version"].as_str().expect("text");
    for (path, words) in [("Dockerfile", "FROM rust:{}-"), (".ci/run", "Rust {} or later")] {
        let words = words.replace("{}", version);
        assert!(text(path).contains(&words), "{path} does not say {words:?}");
    }
}

/// Counts the guards of match arms with `if let`, which Rust has since 1.95.
///
/// A guard ends with `=>`. Other uses of `if let` have their block before any `=>`. A group in
/// braces before a `=` is part of a pattern.
fn guards_with_let(tokens: TokenStream) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |at: usize, name: &str| matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if *ident == name);
    let sign = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
    let mut count = 0;
    for (at, tree) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            count += guards_with_let(group.stream());
        }
        if !word(at, "if") {
            continue;
        }
        let mut has_let = false;
        for (at, tree) in tokens.iter().enumerate().skip(at + 1) {
            has_let |= word(at, "let");
            if sign(at, '=') && sign(at + 1, '>') {
                count += usize::from(has_let);
                break;
            }
            let block = matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
            if sign(at, ';') || block && !sign(at + 1, '=') {
                break;
            }
        }
    }
    count
}

#[test]
fn no_guard_has_if_let() {
    let files = own_files(&["*.rs"]);
    assert!(files.len() > 600, "only {} files", files.len());
    let with = |file: &Path| {
        let text = std::fs::read_to_string(root().join(file)).expect("text");
        guards_with_let(text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.display())))
    };
    let found: Vec<_> = files.iter().filter(|file| with(file) > 0).collect();
    assert!(found.is_empty(), "Rust 1.90 has no `if let` in guards: {found:?}; use an inner `match` or `if let`");
}

#[test]
fn guards_are_told_from_expressions() {
    for (text, count) in [
        ("match a { _ if let Some(b) = c => 1, _ => 2 }", 1),
        ("match a { _ if d && let S { b } = c => 1, _ if let Some(b) = match c { _ => e } => 3 }", 2),
        ("match a { _ if let S { b, .. } = c => { if let S { b } = c { 1 } else { 2 } } _ if d => 3 }", 1),
        ("match a { _ if matches!(a, S { .. }) => if let Some(b) = c { 1 } else { 2 }, _ => 3 }", 0),
        ("if let Some(b) = c && d { } match a { _ => 1 }", 0),
        ("if let S { b } = c { b } else if let T { b } = c { 2 } else { 3 }; match a { T => 1 }", 0),
    ] {
        assert_eq!(guards_with_let(text.parse().expect("tokens")), count, "{text}");
    }
}

/// Returns the licences that deny.toml allows.
fn allowed() -> Vec<spdx::Licensee> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let rules: toml::Table = text.parse().expect("TOML");
    let names = rules["licenses"]["allow"].as_array().expect("a list");
    names.iter().map(|name| spdx::Licensee::parse(name.as_str().expect("text")).expect("a licence")).collect()
}

/// Says whether allowed licences are enough for an expression, as packages write it.
fn is_allowed(expression: &str, allowed: &[spdx::Licensee]) -> bool {
    let parsed = spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX);
    parsed.is_ok_and(|parsed| parsed.evaluate(|need| allowed.iter().any(|licence| licence.satisfies(need))))
}

#[test]
fn dependencies_have_licences_and_a_source_that_are_allowed() {
    let allowed = allowed();
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| {
            let licence = package["license"].as_str().is_some_and(|licence| is_allowed(licence, &allowed));
            // The project's own packages have no source.
            let source = package["source"].as_str().is_none_or(|source| source.contains("crates.io-index"));
            !(licence && source)
        })
        .map(|package| {
            format!("{} {}: {}, {}", package["name"], package["version"], package["license"], package["source"])
        })
        .collect();
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn expressions_are_judged() {
    let allowed = allowed();
    for (expression, is) in [
        ("MIT", true),
        ("MIT OR GPL-3.0-only", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND GPL-3.0-only", false),
        ("GPL-2.0-only", false),
        ("of my own", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), is, "{expression}");
    }
}

/// Returns the paths in a text that it includes and that lead out of `within` from `folder`.
fn outside(text: &str, folder: &Path, within: &Path) -> Vec<String> {
    let paths = text.split("include_str!(").chain(text.split("include_bytes!(")).filter_map(|rest| {
        let (path, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(path)
    });
    let leaves = |path: &&str| {
        let mut place = folder.to_owned();
        for part in path.split('/') {
            match part {
                ".." => _ = place.pop(),
                part => place.push(part),
            }
        }
        !place.starts_with(within)
    };
    paths.filter(leaves).map(str::to_owned).collect()
}

#[test]
fn packages_include_only_their_own_files() {
    let mut read = 0;
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let within = manifest.parent().expect("a folder");
        // The packages of the project that are published.
        if !within.starts_with(root()) || package["publish"].as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let files = own_files(&["*.rs"]).into_iter().map(|file| root().join(file));
        for file in files.filter(|file| file.starts_with(within.join("src"))) {
            let text = std::fs::read_to_string(&file).expect("text");
            let found = outside(&text, file.parent().expect("a folder"), within);
            assert!(found.is_empty(), "{} includes {found:?}, which no package has", file.display());
            read += 1;
        }
    }
    assert!(read > 300, "only {read} files");
}

#[test]
fn paths_that_leave_a_package_are_found() {
    let text = "include_str!(\"../a.c\") include_bytes!(\"../../b.c\") include_str!(concat!())";
    assert_eq!(outside(text, Path::new("/p/src"), Path::new("/p")), ["../../b.c"]);
}
