//! Manifests that are read, and manifests that are refused.

use super::*;
use crate::Busy;
use crate::spec::{Access, Placement, Restart, Trust};
use sfi_contract::Mode;
use std::time::Duration;

fn load(text: &str) -> Result<Manifest, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Manifest::load(file.path()).map_err(|e| crate::chain(&e))
}

#[test]
fn calls_between_domains_need_a_signature() {
    let text = example().replace("signature = \"(ptr, int) -> int\"", "");
    let error = load(&text).unwrap_err();
    assert!(error.contains("import `compress`") && error.contains("needs a signature"), "{error}");
}

/// Returns the manifest in this module's documentation.
fn example() -> String {
    let source = include_str!("mod.rs");
    let block = source.split("```").nth(1).unwrap();
    block.lines().skip(1).map(|l| l.trim_start_matches("//!").to_owned() + "\n").collect()
}

#[test]
fn the_documented_manifest_is_read() {
    let manifest = load(&example()).unwrap();
    let app = &manifest.domains["app"];
    assert_eq!(
        (manifest.entry.as_ref().unwrap().args.as_slice(), manifest.regions["exchange"]),
        (&[1, 2][..], Size(1 << 20))
    );
    assert_eq!((app.mode, app.memory, app.stack), (Mode::Write, Size(64 << 20), Size(1 << 20)));
    let clock = |with: &str| load(&example().replacen("clock = false", &format!("clock = {with}"), 1));
    for (with, expected) in [("false", Clock::No), ("true", Clock::Confined), ("\"exposing\"", Clock::Exposing)] {
        assert_eq!(clock(with).unwrap().domains["app"].clock, expected);
    }
    assert!(["\"yes\"", "1", "[true]"].iter().all(|with| clock(with).unwrap_err().contains("exposing")));
    assert_eq!(app.placement, Placement::Scattered);
    let busy = |with: &str| load(&example().replacen("busy = \"10 ms\"", &format!("busy = {with}"), 1));
    for (with, expected) in [
        ("\"10 ms\"", Busy::Wait(Duration::from_millis(10))),
        ("2", Busy::Wait(Duration::from_secs(2))),
        ("\"refuse\"", Busy::Refuse),
    ] {
        assert_eq!(busy(with).unwrap().domains["tool"].busy, expected);
    }
    assert!(["\"soon\"", "true", "-1"].iter().all(|with| busy(with).is_err()));
    let dense = load(&example().replace("\"scattered\"", "\"dense\"")).unwrap();
    assert_eq!(dense.domains["app"].placement, Placement::Dense);
    assert!(load(&example().replace("\"scattered\"", "\"sparse\"")).unwrap_err().contains("placement"));
    assert_eq!(app.imports["compress"].signature.as_ref().unwrap().to_string(), "(ptr, int) -> int");
    assert_eq!(app.imports["compress"].trust, Some(Trust::MutualDistrust));
    assert_eq!(app.imports["host_write"].trust, None);
    assert_eq!(manifest.domains["codec"].exports, ["compress"]);
    assert_eq!(manifest.limits.call, Some(Time(Duration::from_secs(2))));
    let la57 = |with: &str| load(&example().replace("\"if-available\"", with)).map(|m| m.placement.la57);
    assert_eq!(manifest.placement.la57, La57::IfAvailable);
    assert_eq!((la57("true"), la57("false")), (Ok(La57::Always), Ok(La57::Never)));
    assert!(["\"always\"", "1"].iter().all(|with| la57(with).unwrap_err().contains("la57")));
    let codec = &manifest.domains["codec"];
    assert_eq!((codec.restart, codec.owner.as_deref()), (Restart::Limited(3), Some("alice")));
    assert_eq!(codec.budget.cpu, Some(Time(Duration::from_secs(1))));
    assert_eq!(codec.registers["ops"].procedures, ["open", "close"]);
    assert_eq!(manifest.domains["tool"].imports["size"].entry.as_deref(), Some("codec.size"));
    assert!(matches!(manifest.owners["alice"].penalty, Penalty::Adaptive(_)));
    assert_eq!((manifest.permit[0].client.as_str(), manifest.permit[0].entry.as_str()), ("tool", "codec.*"));
    assert_eq!(manifest.domains["codec"].shared["buffer"].access, Access::ReadWrite);
}

#[test]
fn errors_name_the_line() {
    let base = example();
    for (from, to, line, what) in [
        ("mode = \"write\"", "mode = \"fast\"", 15, "unknown mode"),
        ("memory = ", "memroy = ", 16, "unknown field `memroy`"),
        ("\"64 MiB\"", "\"64 MB\"", 16, "not a size"),
        ("(int, int) -> int", "(int, int)", 23, "is not a signature"),
        ("\"read-write\"", "\"rw\"", 41, "unknown access"),
        ("\"mutual-distrust\"", "\"mutual\"", 32, "unknown trust level"),
    ] {
        assert!(base.contains(from));
        let error = load(&base.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(&format!("line {line}")) && error.contains(what), "{error}");
    }
    let restart = load(&base.replace("restart = 3", "restart = \"often\"")).unwrap_err();
    assert!(restart.contains("unknown restart `often`"), "{restart}");
    let entry = load(&base.replace("function = \"size\", ", "")).unwrap_err();
    assert!(entry.contains("give either `function` or `procedures`"), "{entry}");
    assert!(load(&base.replace("domain = \"app\"", "domain = \"nope\"")).unwrap_err().contains("no domain `nope`"));
    let both = base.replace("{ host =", "{ domain = \"codec\", host =");
    assert!(load(&both).unwrap_err().contains("give either"));
    let host = base.replace("{ host = \"host_write\"", "{ trust = \"trusted-both\", host = \"host_write\"");
    assert!(load(&host).unwrap_err().contains("no `trust`"));
}
