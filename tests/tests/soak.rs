//! Long suites, run by `cargo xtask soak` and not by `cargo test`.
//!
//! Random programs (csmith) are compared like those of the corpus. Every member of every static
//! archive on the machine is rewritten, and the verifier must accept each result.
//! `SFI_SOAK_PROGRAMS` and `SFI_SOAK_SEED` choose the programs.

use libtest_mimic::{Arguments, Failed, Trial};
use sfi_contract::Mode;
use sfi_tests::run::run;
use sfi_tests::{csmith, sandbox};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn main() {
    let arguments = Arguments::from_args();
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}: {e}")),
        Err(_) => default,
    };
    let (count, first) = (number("SFI_SOAK_PROGRAMS", 20), number("SFI_SOAK_SEED", 1));
    let mut trials: Vec<Trial> = (first..first + count)
        .map(|seed| {
            Trial::test(format!("csmith::{seed}"), move || {
                csmith::random_program(seed).map_err(|e| format!("{e:#}").into())
            })
        })
        .collect();
    for directory in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/x86_64-linux-musl"] {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let archives = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "a"));
        trials.extend(archives.map(|path| Trial::test(path.display().to_string(), move || archive(&path))));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Err(error) = csmith::summary() {
        println!("{error}");
        std::process::exit(1);
    }
    conclusion.exit()
}

/// Checks that every member is refused with a reason, or that its rewritten form is safe.
fn archive(path: &Path) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    // Archives that are linker scripts have no members.
    if !std::fs::read(path)?.starts_with(b"!<arch>\n") {
        return Ok(());
    }
    let list = run(Command::new("ar").arg("t").arg(path), directory.path(), Duration::from_secs(60))
        .map_err(|e| format!("{e:#}"))?;
    let mut names: Vec<String> = String::from_utf8_lossy(&list.stdout).lines().map(str::to_owned).collect();
    names.dedup();
    let (mut safe, mut refused) = (0, 0);
    let mut failures = Vec::new();
    for name in names {
        let member = run(Command::new("ar").arg("p").arg(path).arg(&name), directory.path(), Duration::from_secs(60));
        let member = member.map_err(|e| format!("{e:#}"))?.stdout;
        for (mode, saves) in Mode::ALL.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
            let result = catch_unwind(AssertUnwindSafe(|| {
                sfi_rewriter::rewrite(&member, &sfi_rewriter::Options { mode, saves, ..Default::default() })
            }));
            match result {
                Err(_) => failures.push(format!("{name}, mode {mode}, saves {saves}: the rewriter panicked")),
                Ok(Err(_)) => refused += 1,
                Ok(Ok(output)) => match sandbox::verify(&output.bytes, mode) {
                    Ok(()) => safe += 1,
                    Err(error) => failures.push(format!("{name}, mode {mode}, saves {saves}: {error:#}")),
                },
            }
        }
    }
    println!("{}: {safe} rewritten, {refused} refused", path.display());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}
