//! Compiling programs and the runtime.

use crate::paths::fixture;
use crate::program::Program;
use crate::run::must;
use anyhow::{Context, bail};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use tempfile::TempDir;

/// A compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Compiler {
    /// GNU C and C++.
    Gcc,
    /// LLVM C and C++.
    Clang,
    /// Rust; the runtime beside it is gcc's.
    Rustc,
}

impl Compiler {
    fn c(self) -> &'static str {
        match self {
            Compiler::Gcc | Compiler::Rustc => "gcc",
            Compiler::Clang => "clang",
        }
    }

    /// Says whether the compiler accepts `-ffixed-r15`. The compiler itself is asked once: clang 14
    /// does not have the flag for x86.
    pub fn has_fixed_r15(self) -> bool {
        static ANSWERS: OnceLock<[bool; 2]> = OnceLock::new();
        let ask = |name: &str| {
            let mut command = Command::new(name);
            command.args(["-ffixed-r15", "-S", "-x", "c", "/dev/null", "-o", "/dev/null"]);
            command.output().is_ok_and(|o| o.status.success())
        };
        let [gcc, clang] = ANSWERS.get_or_init(|| [ask("gcc"), ask("clang")]);
        match self {
            Compiler::Gcc => *gcc,
            Compiler::Clang => *clang,
            Compiler::Rustc => false,
        }
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang => "clang",
            Compiler::Rustc => "rustc",
        })
    }
}

impl FromStr for Compiler {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "gcc" => Ok(Compiler::Gcc),
            "clang" => Ok(Compiler::Clang),
            "rustc" => Ok(Compiler::Rustc),
            _ => bail!("unknown compiler `{text}`"),
        }
    }
}

/// An optimisation level: `0`, `1`, `2`, `3` or `s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(char);

impl Level {
    /// All levels.
    pub const ALL: [Level; 5] = [Level('0'), Level('1'), Level('2'), Level('3'), Level('s')];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "O{}", self.0)
    }
}

impl FromStr for Level {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let level = Level::ALL.into_iter().find(|l| text.len() == 1 && text.starts_with(l.0));
        level.with_context(|| format!("unknown level `{text}`"))
    }
}

/// A way to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// Compiler.
    pub compiler: Compiler,
    /// Level.
    pub level: Level,
    /// Flags beyond those of the program: `-fPIE`, `-ffixed-r15`, a variant.
    pub flags: Vec<String>,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -{}", self.compiler, self.level)?;
        self.flags.iter().try_for_each(|flag| write!(f, " {flag}"))
    }
}

/// Objects of a program or of the runtime, in link order.
#[derive(Debug)]
pub struct Objects {
    /// The files.
    pub paths: Vec<PathBuf>,
    /// The folder of the files.
    pub directory: TempDir,
}

/// Compiles a program.
///
/// # Errors
/// The compiler's messages.
pub fn compile(program: &Program, configuration: &Configuration) -> anyhow::Result<Objects> {
    let directory = tempfile::tempdir()?;
    let mut paths = Vec::new();
    for unit in &program.units {
        let stem = unit.file_stem().and_then(|s| s.to_str()).context("the name is not UTF-8")?;
        if configuration.compiler == Compiler::Rustc {
            paths.extend(rust(unit, configuration, directory.path())?);
            continue;
        }
        let object = directory.path().join(format!("{stem}.o"));
        let mut command = c_command(unit, configuration);
        command.args(&program.flags).args(&configuration.flags).arg("-c").arg(unit).arg("-o").arg(&object);
        must(&mut command, directory.path())?;
        paths.push(object);
    }
    Ok(Objects { paths, directory })
}

/// Compiles one source below `fixtures/corpus` with gcc and returns the object.
///
/// # Errors
/// gcc's messages.
pub fn object(source: &str, options: &[&str]) -> anyhow::Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let object = directory.path().join("a.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-c", "-w", "-I"]).arg(fixture("rt")).args(options).arg(fixture("corpus").join(source));
    must(gcc.arg("-o").arg(&object), directory.path())?;
    Ok(std::fs::read(object)?)
}

/// Makes the command with compiler, language and level.
fn c_command(unit: &Path, configuration: &Configuration) -> Command {
    let mut command = Command::new(configuration.compiler.c());
    match unit.extension().and_then(|e| e.to_str()) {
        Some("cpp") => command.args(["-std=gnu++17", "-fno-exceptions", "-fno-rtti"]),
        Some("c") => command.arg("-std=gnu11"),
        _ => command.arg("-Wno-unused-command-line-argument"),
    };
    command.arg(format!("-{}", configuration.level)).arg("-I").arg(fixture("rt"));
    command
}

/// Compiles Rust into one object that holds everything, core included.
fn rust(unit: &Path, configuration: &Configuration, directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let archive = directory.join("rust.a");
    let mut command = Command::new("rustc");
    command
        .args(["--edition=2024", "--crate-type=staticlib", "-Clto=fat", "-Cpanic=abort", "-Ccodegen-units=1"])
        .arg(format!("-Copt-level={}", configuration.level.0))
        .arg(unit)
        .arg("-o")
        .arg(&archive);
    must(&mut command, directory)?;
    let listing = must(Command::new("ar").arg("t").arg(&archive), directory)?;
    let listing = String::from_utf8(listing.stdout)?;
    let members: Vec<&str> =
        listing.lines().filter(|m| m.ends_with(".rcgu.o") && !m.contains("compiler_builtins")).collect();
    must(Command::new("ar").arg("x").arg(&archive).args(&members).current_dir(directory), directory)?;
    Ok(members.iter().map(|m| directory.join(m)).collect())
}

/// Compiles the runtime in the given configuration, without the parts that only one side needs.
/// Each configuration is compiled once.
///
/// # Errors
/// The compiler's messages.
pub fn runtime(configuration: &Configuration) -> anyhow::Result<Arc<Objects>> {
    type Cache = Mutex<HashMap<Configuration, Arc<OnceLock<Result<Arc<Objects>, String>>>>>;
    static CACHE: OnceLock<Cache> = OnceLock::new();
    let cell = {
        let mut cache = CACHE.get_or_init(Cache::default).lock().map_err(|e| anyhow::anyhow!("{e}"))?;
        Arc::clone(cache.entry(configuration.clone()).or_default())
    };
    let built = cell.get_or_init(|| compile_runtime(configuration).map(Arc::new).map_err(|e| format!("{e:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

/// Sources of the runtime that both sides need.
const RUNTIME: [&str; 6] = ["string", "malloc", "printf", "stdlib", "abort", "cxx"];

fn compile_runtime(configuration: &Configuration) -> anyhow::Result<Objects> {
    let directory = tempfile::tempdir()?;
    let mut paths = Vec::new();
    for name in RUNTIME.iter().chain(&["cxx_exit", "native"]) {
        let source = fixture("rt").join(format!("{name}.c"));
        let object = directory.path().join(format!("{name}.o"));
        let mut command = c_command(&source, configuration);
        command.args(["-ffreestanding", "-fno-builtin"]).args(&configuration.flags);
        must(command.arg("-c").arg(&source).arg("-o").arg(&object), directory.path())?;
        paths.push(object);
    }
    Ok(Objects { paths, directory })
}

impl Objects {
    /// Returns the parts of a runtime that are linked natively.
    pub fn native(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path).filter(|p| !p.ends_with("cxx_exit.o"))
    }

    /// Returns the parts of a runtime that are linked into a domain.
    pub fn domain(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path).filter(|p| !p.ends_with("native.o"))
    }
}
