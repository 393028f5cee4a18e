//! The oldest Rust that the project promises builds all of its dependencies.

use sfi_tests::paths::root;
use std::process::Command;

/// Returns the versions of Rust that are named by the packages of the lock file, with the packages.
fn needed() -> Vec<(String, (u32, u32))> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline"]).current_dir(root());
    let output = metadata.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let parsed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = parsed["packages"].as_array().expect("a list");
    let version = |text: &str| {
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().expect("a number"));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    };
    let row = |package: &serde_json::Value| {
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
