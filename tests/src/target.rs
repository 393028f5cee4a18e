//! The functions that fuzzers call. They take hostile bytes, and panic or fail an assertion if
//! something is wrong.
//!
//! `fuzz/` drives these with libFuzzer. `tests/targets.rs` runs them over the seeds and the earlier
//! finds.

use sfi_contract::Mode;
use sfi_loader::manifest::Manifest;
use sfi_loader::{CallError, DomainSpec, TypedFn, World};
use sfi_verifier::elf::Place;
use sfi_verifier::{Options, verify};
use std::path::Path;
use std::time::Duration;

/// A target: its name and its function.
pub struct Target {
    /// The name of its folder of seeds and of its program in `fuzz/`.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 4] = [
    Target { name: "verifier", run: verifier },
    Target { name: "rewriter", run: rewriter },
    Target { name: "manifest", run: manifest },
    Target { name: "loader", run: loader },
];

/// Largest input. A bigger input may be slow only because of its size.
const LIMIT: usize = 1 << 18;
/// Time limit of one call of a loaded object.
const CALL: Duration = Duration::from_millis(20);

fn accepted(bytes: &[u8], mode: Mode) -> bool {
    verify(bytes, &Options { mode, clock: true, ..Options::default() }).is_ok_and(|report| report.is_safe())
}

/// Checks the verifier: it answers, mode write accepts every object that mode full accepts, and a
/// policy only takes away.
pub fn verifier(bytes: &[u8]) {
    if bytes.len() > LIMIT {
        return;
    }
    let (write, full) = (accepted(bytes, Mode::Write), accepted(bytes, Mode::Full));
    assert!(write || !full, "mode full accepts what mode write refuses");
    let strict = Options { clock: false, identity: false, ..Options::default() };
    let strict = verify(bytes, &strict).is_ok_and(|report| report.is_safe());
    assert!(write || !strict, "a policy accepts what its absence refuses");
}

/// Checks the rewriter: it refuses, or produces text that the verifier accepts, twice with equal
/// bytes.
pub fn rewriter(bytes: &[u8]) {
    if bytes.len() > LIMIT {
        return;
    }
    for (mode, saves) in Mode::ALL.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let options = sfi_rewriter::Options { mode, saves, ..Default::default() };
        let Ok(output) = sfi_rewriter::rewrite(bytes, &options) else { continue };
        // The rewriter keeps a damaged container (symbols, groups, alignments), and the verifier
        // refuses it. Its text must be right.
        if let Ok(report) = verify(&output.bytes, &Options { mode, clock: true, ..Options::default() }) {
            let text = report.violations.iter().find(|v| !v.rule.id().starts_with("SFI-E"));
            assert_eq!(text, None, "mode {mode}, saves {saves}: the verifier refuses what the rewriter made");
        }
        let again = sfi_rewriter::rewrite(bytes, &options);
        assert!(
            again.is_ok_and(|second| second.bytes == output.bytes),
            "mode {mode}, saves {saves}: two rewrites differ"
        );
    }
}

/// Checks the manifest parser: a manifest is read or refused, and its world is built or refused.
pub fn manifest(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("domains.toml");
    let Ok(manifest) = Manifest::parse(text, path) else { return };
    // The folder has no files, so only manifests that need none get further.
    if let Ok(builder) = manifest.build(World::builder(), Path::new("/nonexistent")) {
        let _ = builder.build();
    }
}

/// Checks the loader: it loads or refuses an accepted object, and the object's functions return,
/// fault or overstay.
pub fn loader(bytes: &[u8]) {
    if bytes.len() > LIMIT {
        return;
    }
    let Ok(report) = verify(bytes, &Options::default()) else { return };
    let global = |s: &&sfi_verifier::elf::Symbol<'_>| s.binding != 0 && matches!(s.place, Place::Section(_));
    let names: Vec<String> = report.object.symbols.iter().filter(global).map(|s| s.name.to_owned()).take(4).collect();
    let safe = report.is_safe();
    drop(report);
    let spec = DomainSpec::new("input").memory(1 << 20).stack(64 << 10).object("input.o", bytes.to_vec());
    let world = World::builder().domain(spec).time_limit(CALL).build();
    let Ok(mut world) = world else { return };
    assert!(safe, "the loader runs what the verifier refuses");
    for name in names {
        for arguments in [(0, 0, 0), (0x50_0000, 64, u64::MAX)] {
            let export = world.domain("input").and_then(|d| d.export(&name));
            let Ok(f) = export else { continue };
            let f: TypedFn<fn(u64, u64, u64) -> u64> = f;
            if let Err(CallError::Fault(_) | CallError::Dead { .. }) = f.call(&mut world, arguments)
                && world.restart("input").is_err()
            {
                return;
            }
        }
    }
}
