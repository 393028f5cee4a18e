//! Random programs (csmith), compared natively and in domains.

use crate::build::{Compiler, Configuration, Level, Objects, runtime};
use crate::run::must;
use crate::{native, sandbox};
use anyhow::{Context, ensure};
use sfi_contract::Mode;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tempfile::TempDir;

/// Options for smaller programs. Thousands run in the time of hundreds, and fewer are lost to
/// endless loops.
const SMALL: [&str; 10] = [
    "--max-funcs",
    "5",
    "--max-block-size",
    "4",
    "--max-block-depth",
    "3",
    "--max-expr-complexity",
    "6",
    "--max-array-dim",
    "2",
];
/// One program in this many has csmith's own size.
const LARGE: u64 = 20;
/// One program in this many also runs in mode match.
const MATCH: u64 = 4;
/// The time limit. Programs that end do so in milliseconds.
const LIMIT: Duration = Duration::from_secs(2);

/// The number of programs that were compared in this process.
static COMPARED: AtomicU64 = AtomicU64::new(0);
static ENDLESS: AtomicU64 = AtomicU64::new(0);
static BUILDS: AtomicU64 = AtomicU64::new(0);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Compares one random program in two configurations that its seed chooses: gcc and clang at some
/// level, gcc with and without `-ffixed-r15` (clang for x86-64 cannot reserve a register). Runs it
/// in modes write and full, and sometimes match.
///
/// # Errors
/// A difference, with the configuration.
pub fn random_program(seed: u64) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("random.c");
    let mut generate = Command::new("csmith");
    generate.args(["--no-argc", "--float", "--seed", &seed.to_string(), "--output"]).arg(&source);
    if !seed.is_multiple_of(LARGE) {
        generate.args(SMALL);
    }
    must(generate.current_dir(directory.path()), directory.path())?;
    let modes: &[Mode] =
        if seed.is_multiple_of(MATCH) { &[Mode::Write, Mode::Full, Mode::Match] } else { &[Mode::Write, Mode::Full] };
    for (index, compiler) in [Compiler::Gcc, Compiler::Clang].into_iter().enumerate() {
        let level = Level::ALL[(seed as usize + index) % Level::ALL.len()];
        let mut flags = vec!["-fPIE".to_owned()];
        if compiler.has_fixed_r15() && (seed / Level::ALL.len() as u64).is_multiple_of(2) {
            flags.push("-ffixed-r15".to_owned());
        }
        let configuration = Configuration { compiler, level, flags };
        if !compare(&source, &configuration, modes).with_context(|| configuration.to_string())? {
            ENDLESS.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
    }
    COMPARED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Prints the number of compared programs, and fails if that is less than half of them.
///
/// # Errors
/// Most programs did not end, so hardly anything was compared.
pub fn summary() -> anyhow::Result<()> {
    let [compared, endless, builds, runs] = [&COMPARED, &ENDLESS, &BUILDS, &RUNS].map(|n| n.load(Ordering::Relaxed));
    if compared + endless > 0 {
        println!(
            "random programs: {compared} compared in {builds} builds and {runs} runs in domains, {endless} do not end natively"
        );
    }
    ensure!(endless <= compared, "most random programs do not end within {LIMIT:?}");
    Ok(())
}

/// Compares one build. Returns `false` if the native program does not end, so that there is nothing
/// to compare.
///
/// # Errors
/// A difference, or a refusal of the rewriter.
pub fn compare(source: &Path, configuration: &Configuration, modes: &[Mode]) -> anyhow::Result<bool> {
    let directory = tempfile::tempdir()?;
    let object = directory.path().join("random.o");
    let mut compile = Command::new(configuration.compiler.to_string());
    compile.args(["-w", "-Dmain=sfi_main", "-I"]).arg("/usr/include/csmith");
    compile
        .arg(format!("-{}", configuration.level))
        .args(&configuration.flags)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object);
    must(&mut compile, directory.path())?;
    let runtime = runtime(configuration)?;
    let program = Objects { paths: vec![object], directory };
    let scratch = program.directory.path();
    let executable = native::link(&program, &runtime)?;
    let Ok(expected) = native::run(&executable, scratch, LIMIT) else { return Ok(false) };
    ensure!(expected.status.code().is_some(), "the native program ends with {}", expected.status);
    for &mode in modes {
        let files = program.paths.iter().map(PathBuf::as_path);
        let mut rewritten = sandbox::rewrite_files(files, mode, &scratch.join(mode.name()))?;
        rewritten.extend(domain_runtime(configuration, &runtime, mode)?.1.iter().cloned());
        let outcome = sandbox::execute(&rewritten, mode, scratch)?;
        ensure!(
            outcome.stdout == expected.stdout && outcome.status == expected.status,
            "mode {mode}: natively {} {:?}, in a domain {} {:?} {}",
            expected.status,
            String::from_utf8_lossy(&expected.stdout),
            outcome.status,
            String::from_utf8_lossy(&outcome.stdout),
            outcome.stderr
        );
        RUNS.fetch_add(1, Ordering::Relaxed);
    }
    BUILDS.fetch_add(1, Ordering::Relaxed);
    Ok(true)
}

pub(crate) type Rewritten = (TempDir, Vec<PathBuf>);

/// Returns the runtime's part in a domain, rewritten once for each configuration and mode.
pub(crate) fn domain_runtime(
    configuration: &Configuration,
    runtime: &Objects,
    mode: Mode,
) -> anyhow::Result<Arc<Rewritten>> {
    type Cell = Arc<OnceLock<Result<Arc<Rewritten>, String>>>;
    static CACHE: OnceLock<Mutex<HashMap<(Configuration, &'static str), Cell>>> = OnceLock::new();
    let cell = {
        let mut cache = CACHE.get_or_init(Mutex::default).lock().map_err(|e| anyhow::anyhow!("{e}"))?;
        Arc::clone(cache.entry((configuration.clone(), mode.name())).or_default())
    };
    let make = || -> anyhow::Result<Arc<Rewritten>> {
        let directory = tempfile::tempdir()?;
        let files = sandbox::rewrite_files(runtime.domain(), mode, directory.path())?;
        Ok(Arc::new((directory, files)))
    };
    cell.get_or_init(|| make().map_err(|e| format!("{e:#}"))).clone().map_err(anyhow::Error::msg)
}
