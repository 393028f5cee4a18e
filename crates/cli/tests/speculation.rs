//! A search for another domain's window by loads that only speculation executes: its preconditions
//! and its result.
//!
//! `SFI_PROBE=1 cargo test --release -p sfi-cli --test speculation -- --nocapture` runs the search
//! and prints its figures.

mod support;

use std::process::Command;
use support::{Bench, root, succeed};

/// Makes the two domains, rewritten. `from` in the manifest becomes `to`.
fn bench(from: &str, to: &str) -> Bench {
    let bench = Bench::new();
    let folder = root().join("fixtures/secrecy");
    for name in ["speculation", "other"] {
        let source = folder.join(name).with_extension("c");
        let native = format!("{name}.native.o");
        succeed(Command::new("gcc").args(["-O2", "-fPIC", "-c", "-o"]).arg(bench.path(&native)).arg(source));
        bench.run(&["rewrite", &native, "-o", &format!("{name}.o")], 0);
    }
    let manifest = std::fs::read_to_string(folder.join("domains.toml")).expect("the manifest");
    assert!(manifest.contains(from));
    bench.write("domains.toml", manifest.replace(from, to).as_bytes());
    bench
}

/// Without both grants the gate refuses the search's clock before anything runs.
#[test]
fn the_search_needs_the_clock() {
    for (from, to, arguments) in [
        ("clock = \"exposing\"", "clock = \"exposing\"", &["run", "domains.toml"][..]),
        ("clock = \"exposing\"", "clock = false", &["run", "--clock", "domains.toml"]),
    ] {
        let output = bench(from, to).run(arguments, 2);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("SFI-D02") && text.contains("rdtsc"), "{to}: {text}");
    }
}

/// Beside other domains the search does not get the clock unless the manifest says that it exposes
/// them.
#[test]
fn the_search_gets_no_clock_in_mode_write_by_accident() {
    for mode in ["write", "match"] {
        let bench = bench("clock = \"exposing\"", &format!("clock = true\nmode = \"{mode}\""));
        let output = bench.run(&["run", "--clock", "domains.toml"], 2);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("`app` may read the clock") && text.contains("exposing"), "{mode}: {text}");
    }
}

/// With the clock the search ends, or dies of a wrong guess, and prints its figures.
#[test]
fn the_search_is_measured() {
    if std::env::var_os("SFI_PROBE").is_none() {
        return;
    }
    let bench = bench("", "");
    let output = support::sfi(&bench, &["run", "--clock", "domains.toml"]).output().expect("sfi runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)) && text.contains("probes"), "{:?}", output.status);
}
