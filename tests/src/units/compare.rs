//! Batches of units. Each is one program, compared in one configuration that its number chooses.

use super::source;
use crate::build::{Compiler, Configuration, Level, Objects, runtime};
use crate::run::must;
use crate::{csmith, native, sandbox};
use anyhow::{Context, bail, ensure};
use sfi_contract::Mode;
use sfi_rewriter::Options;
use sfi_validator::{Failure, Validation};
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Units of one program.
pub const BATCH: u64 = 4;
/// The time limit. Programs end in milliseconds, but the machine may be busy.
const LIMIT: Duration = Duration::from_secs(30);

/// Levels of the psABI and the features that each adds, as /proc/cpuinfo names them.
const MACHINES: [(&str, &[&str]); 4] = [
    ("x86-64", &[]),
    ("x86-64-v2", &["cx16", "popcnt", "sse4_2", "ssse3"]),
    ("x86-64-v3", &["avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"]),
    ("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// The configuration of a batch, and the mode in which it is compared.
struct Setting<'c> {
    compiler: &'c str,
    level: Level,
    machine: usize,
    mode: Mode,
    /// Functions save registers on the control stack.
    saves: bool,
}

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { compiler, level, machine, mode, saves } = self;
        write!(f, "{compiler} -{level} -march={}, mode {mode}, saves {saves}", MACHINES[*machine].0)
    }
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fared {
    /// Equal output and status natively and in a domain.
    Same,
    /// Rewritten, proved and verified. This processor cannot run it.
    Proved,
    /// Refused by the rewriter.
    Refused,
}

/// Compares a batch of units: those of the seeds from `BATCH * number` on.
///
/// # Errors
/// A difference, with the configuration and the seed of a unit that has it alone.
pub fn batch(number: u64, compilers: &[&str]) -> anyhow::Result<Fared> {
    let turn = |of: usize, every: usize| number as usize / every % of;
    let setting = Setting {
        compiler: compilers[turn(compilers.len(), 5)],
        level: Level::ALL[turn(5, 1)],
        machine: turn(MACHINES.len(), 5 * compilers.len()),
        mode: Mode::ALL[turn(3, 1)],
        saves: turn(2, 1) == 1,
    };
    let seeds: Vec<u64> = (number * BATCH..(number + 1) * BATCH).collect();
    let differences = number.is_multiple_of(super::WITH_DIFFERENCES);
    match compare(&source(&seeds, differences), &setting) {
        Ok(fared) => Ok(fared),
        Err(error) => {
            for seed in &seeds {
                if let Err(error) = compare(&source(&[*seed], differences), &setting) {
                    return Err(error.context(format!("batch {number}, the unit of seed {seed}, {setting}")));
                }
            }
            Err(error.context(format!("batch {number}, only as a whole, {setting}")))
        }
    }
}

fn compare(source: &str, setting: &Setting<'_>) -> anyhow::Result<Fared> {
    let directory = tempfile::tempdir()?;
    let (unit, object) = (directory.path().join("unit.c"), directory.path().join("unit.o"));
    std::fs::write(&unit, source)?;
    let mut compile = Command::new(setting.compiler);
    compile.args(["-w", "-fPIE", "-Dmain=sfi_main"]).arg(format!("-{}", setting.level));
    compile.arg(format!("-march={}", MACHINES[setting.machine].0));
    must(compile.arg("-c").arg(&unit).arg("-o").arg(&object), directory.path())?;
    let bytes = std::fs::read(&object)?;
    let options = Options { mode: setting.mode, saves: setting.saves, ..Default::default() };
    let rewritten = match sfi_validator::rewrite(&bytes, &options, Validation::Differences) {
        Ok(checked) => checked.output.bytes,
        Err(Failure::Refused(_)) => return Ok(Fared::Refused),
        Err(Failure::NotProved(findings)) => {
            bail!("{}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        }
    };
    sandbox::verify(&rewritten, setting.mode)?;
    if !runs(setting.machine)? {
        return Ok(Fared::Proved);
    }
    let configuration =
        Configuration { compiler: Compiler::Gcc, level: Level::ALL[2], flags: vec!["-fPIE".to_owned()] };
    let runtime = runtime(&configuration)?;
    let program = Objects { paths: vec![object], directory };
    let scratch = program.directory.path();
    let executable = native::link(&program, &runtime)?;
    let expected = native::run(&executable, scratch, LIMIT).context("the program does not end")?;
    ensure!(expected.status.code().is_some(), "the native program ends with {}", expected.status);
    let to: PathBuf = scratch.join("unit.sfi.o");
    std::fs::write(&to, rewritten)?;
    let domain = csmith::domain_runtime(&configuration, &runtime, setting.mode)?;
    let files: Vec<PathBuf> = [to].into_iter().chain(domain.1.iter().cloned()).collect();
    let outcome = sandbox::execute(&files, setting.mode, scratch)?;
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    let (native, sandboxed) = (lines(&expected.stdout), lines(&outcome.stdout));
    let first = native.iter().zip(&sandboxed).position(|(n, s)| n != s).unwrap_or(native.len().min(sandboxed.len()));
    ensure!(
        outcome.stdout == expected.stdout && outcome.status == expected.status,
        "natively {}, in a domain {}; line {first}: {:?}, {:?} {}",
        expected.status,
        outcome.status,
        native.get(first),
        sandboxed.get(first),
        outcome.stderr
    );
    Ok(Fared::Same)
}

/// Says whether this processor runs code for a machine.
fn runs(machine: usize) -> anyhow::Result<bool> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let has = |feature: &&str| flags.split_whitespace().any(|have| have == *feature);
    Ok(MACHINES[..=machine].iter().flat_map(|(_, features)| *features).all(has))
}
