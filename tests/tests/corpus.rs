//! Equal behaviour: every program of the corpus, compiled in every configuration, rewritten in
//! every mode and run in a domain, prints and returns the same as natively.
//!
//! One trial is one program, compiler and level. Its name filters it:
//! `cargo test --test corpus -- ipa_ra.c::gcc::O2`. `SFI_KEEP=dir` keeps the objects of failed
//! trials.

use libtest_mimic::{Arguments, Failed, Trial};
use sfi_contract::Mode;
use sfi_tests::build::{Compiler, Configuration, Level, Objects, compile, runtime};
use sfi_tests::program::Program;
use sfi_tests::run::Outcome;
use sfi_tests::{native, sandbox};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The counts of all trials together.
#[derive(Default)]
struct Totals {
    builds: AtomicUsize,
    compared: [AtomicUsize; 3],
    refused: AtomicUsize,
    failed: AtomicUsize,
    /// Native output by program. All configurations must agree, or the program is at fault.
    outputs: Mutex<BTreeMap<String, BTreeMap<String, Vec<String>>>>,
}

fn main() {
    let arguments = Arguments::from_args();
    let programs = Program::all().unwrap_or_else(|error| {
        eprintln!("the corpus cannot be read: {error:#}");
        std::process::exit(101)
    });
    let totals = Arc::new(Totals::default());
    let mut trials = Vec::new();
    let mut lacking = Vec::new();
    for program in programs {
        let missing = match program.missing_feature() {
            Ok(missing) => missing.map(str::to_owned),
            Err(error) => {
                eprintln!("cannot tell what the CPU has: {error:#}");
                std::process::exit(101)
            }
        };
        if let Some(feature) = &missing {
            lacking.push(format!("{} (needs {feature})", program.name));
        }
        let program = Arc::new(program);
        for &compiler in &program.compilers {
            for &level in &program.levels {
                let (program, totals) = (Arc::clone(&program), Arc::clone(&totals));
                let name = format!("{}::{compiler}::{level}", program.name);
                let trial = Trial::test(name, move || trial(&program, compiler, level, &totals));
                trials.push(trial.with_ignored_flag(missing.is_some()));
            }
        }
    }
    let listing = arguments.list;
    let mut conclusion = libtest_mimic::run(&arguments, trials);
    if !listing {
        conclusion.num_failed += report(&totals, &lacking);
    }
    conclusion.exit()
}

/// Prints the counts. Returns the number of programs whose native outputs disagree.
fn report(totals: &Totals, lacking: &[String]) -> u64 {
    let [write, full, matching] = [0, 1, 2].map(|i| totals.compared[i].load(Relaxed));
    println!(
        "corpus: {} builds; {} runs in domains compared with native ones (write {write}, full {full}, match {matching}), \
         {} refusals as documented, {} failed",
        totals.builds.load(Relaxed),
        write + full + matching,
        totals.refused.load(Relaxed),
        totals.failed.load(Relaxed)
    );
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        if !compiler.has_fixed_r15() {
            println!("corpus: {compiler} on this machine has no -ffixed-r15: those configurations do not exist");
        }
    }
    for program in lacking {
        println!("corpus: NOT RUN on this CPU: {program}");
    }
    let outputs = totals.outputs.lock().map(|o| o.clone()).unwrap_or_default();
    let mut disagreeing = 0;
    for (program, by_output) in outputs.iter().filter(|(_, o)| o.len() > 1) {
        println!("corpus: native outputs of {program} differ between configurations: the program is not deterministic");
        for configurations in by_output.values() {
            println!("  {}", configurations.join(", "));
        }
        disagreeing += 1;
    }
    disagreeing
}

/// Compares all configurations of one program with one compiler and level.
fn trial(program: &Program, compiler: Compiler, level: Level, totals: &Totals) -> Result<(), Failed> {
    let mut failures = String::new();
    for configuration in configurations(program, compiler, level) {
        totals.builds.fetch_add(1, Relaxed);
        if let Err(error) = check(program, &configuration, totals, &mut failures) {
            totals.failed.fetch_add(1, Relaxed);
            let _ = writeln!(failures, "{} {configuration}: {error:#}", program.name);
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.into()) }
}

/// Returns the configurations: each variant position-independent for executables, with and without
/// r15; optimised builds also with -fPIC.
fn configurations(program: &Program, compiler: Compiler, level: Level) -> Vec<Configuration> {
    let mut all = Vec::new();
    let mut add = |variant: &[String], more: &[&str]| {
        let flags = more.iter().map(|f| (*f).to_owned()).chain(variant.iter().cloned()).collect();
        all.push(Configuration { compiler, level, flags });
    };
    for variant in &program.variants {
        if compiler == Compiler::Rustc {
            add(variant, &[]);
            continue;
        }
        add(variant, &["-fPIE"]);
        if compiler.has_fixed_r15() {
            add(variant, &["-fPIE", "-ffixed-r15"]);
        }
        if level.to_string() == "O2" {
            add(variant, &["-fPIC"]);
        }
    }
    all
}

/// Compares the native run with every mode. Differences go to `failures`.
fn check(
    program: &Program,
    configuration: &Configuration,
    totals: &Totals,
    failures: &mut String,
) -> anyhow::Result<()> {
    let objects = compile(program, configuration)?;
    let mut plain = configuration.clone();
    plain.flags.retain(|flag| flag.starts_with("-fPI") || flag == "-ffixed-r15");
    let runtime = runtime(&plain)?;
    let expected = native::execute(&objects, &runtime)?;
    anyhow::ensure!(expected.status.code().is_some(), "the native program ends with {}", expected.status);
    if let Ok(mut outputs) = totals.outputs.lock() {
        let output = format!("{:?} {}", expected.status.code(), String::from_utf8_lossy(&expected.stdout));
        outputs.entry(program.name.clone()).or_default().entry(output).or_default().push(configuration.to_string());
    }
    for (index, mode) in Mode::ALL.into_iter().enumerate() {
        let refused = program.refused.iter().find(|(m, _)| *m == mode);
        let result = match refused {
            Some((_, code)) => sandbox::refused(&objects.paths, mode, code).map(|()| &totals.refused),
            None => in_domain(&objects, &runtime, mode, &expected).map(|()| &totals.compared[index]),
        };
        match result {
            Ok(counter) => {
                counter.fetch_add(1, Relaxed);
            }
            Err(error) => {
                totals.failed.fetch_add(1, Relaxed);
                let _ = writeln!(failures, "{} {configuration}, mode {mode}: {error:#}", program.name);
                keep(program, configuration, mode, objects.directory.path(), failures);
            }
        }
    }
    Ok(())
}

fn in_domain(objects: &Objects, runtime: &Objects, mode: Mode, expected: &Outcome) -> anyhow::Result<()> {
    let directory = objects.directory.path().join(mode.name());
    let files = objects.paths.iter().map(std::path::PathBuf::as_path).chain(runtime.domain());
    let rewritten = sandbox::rewrite_files(files, mode, &directory)?;
    let outcome = sandbox::execute(&rewritten, mode, &directory)?;
    if outcome.stdout != expected.stdout {
        let (native, domain) = (String::from_utf8_lossy(&expected.stdout), String::from_utf8_lossy(&outcome.stdout));
        anyhow::bail!("{}\n{}", difference(&native, &domain), outcome.stderr);
    }
    anyhow::ensure!(
        outcome.status == expected.status,
        "natively {}, in a domain {}: {}",
        expected.status,
        outcome.status,
        outcome.stderr
    );
    Ok(())
}

/// Returns the first lines that differ.
fn difference(native: &str, domain: &str) -> String {
    let (mut a, mut b) = (native.lines(), domain.lines());
    for line in 1.. {
        match (a.next(), b.next()) {
            (None, None) => break,
            (x, y) if x == y => {}
            (x, y) => {
                let show = |t: Option<&str>| t.map_or_else(|| "(end)".to_owned(), |t| format!("{t:?}"));
                let more =
                    |mut t: std::str::Lines<'_>| t.next().map_or(String::new(), |t| format!("\n           {t:?}"));
                return format!(
                    "line {line} differs\n  native:  {}{}\n  domain:  {}{}",
                    show(x),
                    more(a),
                    show(y),
                    more(b)
                );
            }
        }
    }
    "only line ends differ".to_owned()
}

/// Keeps the objects if SFI_KEEP names a directory.
fn keep(program: &Program, configuration: &Configuration, mode: Mode, from: &Path, failures: &mut String) {
    let Some(to) = std::env::var_os("SFI_KEEP") else { return };
    let name = format!("{}-{configuration}-{mode}", program.name).replace([' ', '/'], "_");
    let to = Path::new(&to).join(name);
    let copy = |from: &Path, to: &Path| -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let path = entry?.path();
            if path.is_file() {
                std::fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(())
    };
    let done = copy(from, &to).and_then(|()| copy(&from.join(mode.name()), &to.join(mode.name())));
    let _ = match done {
        Ok(()) => writeln!(failures, "  kept in {}", to.display()),
        Err(error) => writeln!(failures, "  cannot keep the objects in {}: {error}", to.display()),
    };
}
