//! One program in one variant: natively, and in a domain in each mode.

use crate::programs::{Program, Suite};
use anyhow::{Context, ensure};
use sfi_contract::Mode;
use sfi_rewriter::Options;
use sfi_tests::libraries;
use sfi_tests::paths::sfi;
use sfi_tests::run::{Outcome, run};
use sfi_tests::sandbox;
use sfi_validator::{Failure, Validation};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of compilers and programs.
const LIMIT: Duration = Duration::from_secs(120);
/// The modes that are compared.
pub const MODES: [Mode; 2] = [Mode::Write, Mode::Full];

/// A compiler and a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variant {
    /// `gcc` or `clang`. A version may follow after a `-`.
    pub compiler: &'static str,
    pub level: &'static str,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.compiler, self.level)
    }
}

/// The result of a program in a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Equal output and status. `unproved` is the number of places that the validator could not
    /// decide.
    Same { unproved: usize },
    /// Refused, by this code.
    Refused(String),
    /// Any other result, in words.
    Different(String),
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub enum Compared {
    /// There is no native result: the program does not compile, link or succeed natively.
    NotNatively(&'static str),
    /// One verdict for each of [`MODES`].
    Domains(Vec<Verdict>),
}

/// Compares a program.
///
/// # Errors
/// A tool fails that must work.
pub fn compare(program: &Program, variant: Variant) -> anyhow::Result<Compared> {
    let directory = tempfile::tempdir()?;
    let scratch = directory.path();
    let Some(objects) = compile(program, variant, scratch)? else {
        return Ok(Compared::NotNatively("does not compile"));
    };
    let native = scratch.join("native");
    let mut link = match program.suite {
        Suite::C => Command::new("musl-gcc"),
        Suite::Cxx => Command::new("g++"),
    };
    if program.suite == Suite::C {
        link.arg("-static");
    }
    link.args(&objects).arg("-lm").arg("-o").arg(&native);
    if !succeeds(&mut link, scratch)? {
        return Ok(Compared::NotNatively("does not link"));
    }
    let once = || execute(&mut Command::new(&native), scratch).ok().filter(|outcome| outcome.status.success());
    let Some(expected) = once() else { return Ok(Compared::NotNatively("does not succeed")) };
    if once().is_none_or(|again| again.stdout != expected.stdout) {
        return Ok(Compared::NotNatively("prints something else each time"));
    }
    let mut verdicts = Vec::new();
    for mode in MODES {
        let verdict = match domain(program, &objects, mode, scratch)? {
            Ok((program, unproved)) => {
                let mut command = Command::new(sfi()?);
                command.args(["run", "--mode", mode.name(), "--dir", ".::."]).arg(program);
                judge(&expected, execute(&mut command, scratch), unproved)
            }
            Err(verdict) => verdict,
        };
        verdicts.push(verdict);
    }
    Ok(Compared::Domains(verdicts))
}

fn judge(expected: &Outcome, actual: anyhow::Result<Outcome>, unproved: usize) -> Verdict {
    match actual {
        Err(error) => Verdict::Different(format!("{error:#}")),
        Ok(actual) if actual.status == expected.status && actual.stdout == expected.stdout => {
            Verdict::Same { unproved }
        }
        Ok(actual) => Verdict::Different(format!(
            "natively {} {:?}, in a domain {} {:?} {}",
            expected.status,
            String::from_utf8_lossy(&expected.stdout),
            actual.status,
            String::from_utf8_lossy(&actual.stdout),
            actual.stderr
        )),
    }
}

/// Runs a program in a directory of its own, which it may change.
fn execute(command: &mut Command, scratch: &Path) -> anyhow::Result<Outcome> {
    let own = tempfile::tempdir_in(scratch)?;
    // A domain's /tmp.
    std::fs::create_dir(own.path().join("tmp"))?;
    run(command.current_dir(own.path()), scratch, LIMIT)
}

fn succeeds(command: &mut Command, scratch: &Path) -> anyhow::Result<bool> {
    Ok(run(command, scratch, LIMIT)?.status.success())
}

/// Compiles the objects of a program. Returns `None` if one does not compile.
fn compile(program: &Program, variant: Variant, scratch: &Path) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let mut objects = Vec::new();
    for (number, source) in program.sources.iter().enumerate() {
        let object = scratch.join(format!("{number}.o"));
        let clang = variant.compiler.starts_with("clang");
        let mut command = match (program.suite, clang) {
            (Suite::C, true) => Command::new(variant.compiler),
            (Suite::C, false) => Command::new(variant.compiler.replace("gcc", "musl-gcc")),
            (Suite::Cxx, true) => Command::new(variant.compiler.replace("clang", "clang++")),
            (Suite::Cxx, false) => Command::new(variant.compiler.replace("gcc", "g++")),
        };
        if program.suite == Suite::C && clang {
            command.args(["--target=x86_64-linux-musl", "-nostdlibinc", "-isystem", "/usr/include/x86_64-linux-musl"]);
        }
        command.arg(variant.level).args(["-w", "-fPIE"]).args(&program.flags);
        // Dump files and similar output stay in the scratch directory.
        command.arg("-c").arg(source).arg("-o").arg(&object).current_dir(scratch);
        if !succeeds(&mut command, scratch)? {
            return Ok(None);
        }
        objects.push(object);
    }
    Ok(Some(objects))
}

type Linked = (PathBuf, usize);

/// Rewrites, proves and verifies objects, and links them for a domain. Returns a verdict if that
/// ends early.
fn domain(
    program: &Program,
    objects: &[PathBuf],
    mode: Mode,
    scratch: &Path,
) -> anyhow::Result<Result<Linked, Verdict>> {
    let mut rewritten = Vec::new();
    let mut unproved = 0;
    for object in objects {
        let bytes = std::fs::read(object)?;
        let rewrite =
            || sfi_validator::rewrite(&bytes, &Options { mode, ..Default::default() }, Validation::Differences);
        let checked = match catch_unwind(AssertUnwindSafe(rewrite)) {
            Err(_) => return Ok(Err(Verdict::Different("the rewriter or the validator panicked".into()))),
            Ok(Err(Failure::Refused(refusals))) => {
                let first = refusals.first().context("refused without a reason")?;
                return Ok(Err(Verdict::Refused(format!("{}: {}", first.reason.id(), first.reason.title()))));
            }
            Ok(Err(Failure::NotProved(findings))) => {
                let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
                return Ok(Err(Verdict::Different(format!("not proved: {}", texts.join("\n")))));
            }
            Ok(Ok(checked)) => checked,
        };
        if let Err(error) = sandbox::verify(&checked.output.bytes, mode) {
            return Ok(Err(Verdict::Different(format!("{error:#}"))));
        }
        unproved += checked.unproved.len();
        let to = object.with_extension(format!("{mode}.o"));
        std::fs::write(&to, &checked.output.bytes)?;
        rewritten.push(to);
    }
    let to = scratch.join(format!("program-{mode}"));
    let mut command = Command::new(sfi()?);
    command.env("SFI_MODE", mode.name()).env("SFI_LIBC_DIR", libraries::libc(mode)?);
    command.arg(if program.suite == Suite::C { "cc" } else { "c++" }).args(&rewritten).arg("-o").arg(&to);
    match program.suite {
        Suite::C => command.env("SFI_CC", "musl-gcc"),
        Suite::Cxx => command.env("SFI_CXX", format!("g++ -B{}", libraries::cxx(mode)?.display())),
    };
    let linked = run(&mut command, scratch, LIMIT)?;
    if !linked.status.success() {
        return Ok(Err(Verdict::Different(format!("does not link: {}", linked.stderr))));
    }
    ensure!(to.exists(), "`sfi cc` succeeded without an output");
    Ok(Ok((to, unproved)))
}
