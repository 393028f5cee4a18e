//! gcc's own torture tests in a domain: status and output as natively, or a refusal.
//!
//! The default is a slice. `SFI_TORTURE=once` compares every program in one variant,
//! `SFI_TORTURE=all` in all of them. `SFI_TORTURE_TABLE` names a file for the table. The programs
//! come from `cargo xtask sources`.

mod compare;
mod known;
mod programs;
mod report;

use compare::{Compared, Variant, Verdict};
use libtest_mimic::{Arguments, Trial};
use programs::{Program, Suite};
use report::Tally;
use sfi_tests::random::Random;
use sfi_tests::sources;
use std::sync::{Arc, Mutex};

/// Programs of a slice. Those of C++ cost more: their libraries are large.
const SLICE: [(Suite, usize); 2] = [(Suite::C, 180), (Suite::Cxx, 20)];

const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::from_args();
    let asked = std::env::var("SFI_TORTURE").unwrap_or_default();
    let directory = sources::package("gcc-testsuite")?;
    let programs = programs::all(&directory)?;
    let pairs: Vec<(Program, Variant)> = match &*asked {
        "all" => {
            programs.into_iter().flat_map(|p| variants(p.suite).into_iter().map(move |v| (p.clone(), v))).collect()
        }
        "once" => programs.into_iter().map(one).collect(),
        "" => slice(programs).into_iter().map(one).collect(),
        other => anyhow::bail!("SFI_TORTURE is `{other}`, not `once` or `all`"),
    };
    let tally = Arc::new(Mutex::new(Tally::default()));
    let mut trials = vec![
        Trial::test("directives are read", || programs::directives_are_read().map_err(|e| format!("{e:#}").into())),
        Trial::test("known differences have reasons", || known::reasons().map_err(|e| format!("{e:#}").into())),
    ];
    for (program, variant) in pairs {
        let tally = Arc::clone(&tally);
        let name = format!("{}/{} {variant}", program.suite.name(), program.name);
        trials.push(Trial::test(name, move || trial(&program, variant, &tally).map_err(|e| format!("{e:#}").into())));
    }
    let whole = arguments.filter.is_none();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let tally = tally.lock().map_err(|e| anyhow::anyhow!("{e}"))?;
    println!("{tally}");
    if let Some(path) = std::env::var_os("SFI_TORTURE_TABLE") {
        std::fs::write(path, tally.markdown())?;
    }
    if whole && let Err(error) = tally.check(asked == "all") {
        println!("{error:#}");
        std::process::exit(1);
    }
    conclusion.exit()
}

/// Returns the variants of a whole run.
fn variants(suite: Suite) -> Vec<Variant> {
    let mut variants: Vec<Variant> = LEVELS.iter().map(|level| Variant { compiler: "gcc", level }).collect();
    if suite == Suite::C {
        variants.push(Variant { compiler: "clang", level: "-O2" });
    }
    variants
}

/// Pairs a program with the variant that its name chooses.
fn one(program: Program) -> (Program, Variant) {
    let variants = variants(program.suite);
    let variant = variants[Random(hash(&program.name)).below(variants.len())];
    (program, variant)
}

/// Chooses programs all over both suites, equal ones in each run.
fn slice(mut programs: Vec<Program>) -> Vec<Program> {
    programs.sort_by_cached_key(|program| Random(hash(&program.name)).next());
    let first = |(suite, count)| programs.iter().filter(move |p| p.suite == suite).take(count).cloned();
    SLICE.into_iter().flat_map(first).collect()
}

/// Hashes a name (FNV-1a).
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn trial(program: &Program, variant: Variant, tally: &Mutex<Tally>) -> anyhow::Result<()> {
    let compared = compare::compare(program, variant)?;
    let known = known::reason(program.suite, &program.name);
    let mut tally = tally.lock().map_err(|e| anyhow::anyhow!("{e}"))?;
    tally.add(program, variant, &compared, known);
    let Compared::Domains(verdicts) = compared else { return Ok(()) };
    for (mode, verdict) in compare::MODES.iter().zip(verdicts) {
        if let (Verdict::Different(text), None) = (verdict, known) {
            anyhow::bail!("mode {mode}: {text}");
        }
    }
    Ok(())
}
