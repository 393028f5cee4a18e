//! Dependencies: the oldest Rust that the project promises builds all of them, and deny.toml allows
//! their licences and their source.

use serde_json::Value;
use sfi_tests::paths::root;
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
