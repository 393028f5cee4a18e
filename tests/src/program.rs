//! Programs of the corpus: sources and their headers.
//!
//! A program is one file in `fixtures/corpus`, or a directory of several translation units. Headers
//! are comments at the beginning of lines:
//!
//! ```text
//! // Trap: the difficulty of the program (or `Workload:`)
//! // flags: -mavx2                 more compiler flags
//! // variant: -fPIC                one more configuration per line, `plain` (the default) for none
//! // compilers: gcc                only these compilers
//! // levels: 1 2 3 s (why)         only these levels
//! // requires: avx512f avx512bw    CPU features as /proc/cpuinfo names them
//! // refused: full SFI-W03          in this mode the rewriter must refuse it with this code
//! ```

use crate::build::{Compiler, Level};
use crate::paths::fixture;
use anyhow::{Context, bail, ensure};
use sfi_contract::Mode;
use std::path::{Path, PathBuf};

/// One program.
#[derive(Clone, Debug)]
pub struct Program {
    /// File or directory name.
    pub name: String,
    /// Translation units, sorted.
    pub units: Vec<PathBuf>,
    /// Flags for all units.
    pub flags: Vec<String>,
    /// Sets of further flags; at least one, which may be empty.
    pub variants: Vec<Vec<String>>,
    /// The compilers it is for.
    pub compilers: Vec<Compiler>,
    /// The levels it is for.
    pub levels: Vec<Level>,
    /// CPU features that it needs.
    pub requires: Vec<String>,
    /// Modes in which it must be refused, with the code.
    pub refused: Vec<(Mode, String)>,
}

impl Program {
    /// Returns all programs of the corpus by name.
    ///
    /// # Errors
    /// A file cannot be read or its header is wrong.
    pub fn all() -> anyhow::Result<Vec<Program>> {
        let mut programs = Vec::new();
        let directory = fixture("corpus");
        for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            let mut units = Vec::new();
            if path.is_dir() {
                for unit in std::fs::read_dir(&path)? {
                    units.push(unit?.path());
                }
                units.retain(|u| u.extension().is_some_and(|e| e != "h"));
                units.sort();
            } else {
                units.push(path.clone());
            }
            programs.push(Program::read(&path, units).with_context(|| path.display().to_string())?);
        }
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(programs)
    }

    fn read(path: &Path, units: Vec<PathBuf>) -> anyhow::Result<Program> {
        let name = path.file_name().and_then(|n| n.to_str()).context("the name is not UTF-8")?.to_owned();
        ensure!(!units.is_empty(), "no translation units");
        let rust = units[0].extension().is_some_and(|e| e == "rs");
        let mut program = Program {
            name,
            units,
            flags: Vec::new(),
            variants: Vec::new(),
            compilers: if rust { vec![Compiler::Rustc] } else { vec![Compiler::Gcc, Compiler::Clang] },
            levels: Level::ALL.to_vec(),
            requires: Vec::new(),
            refused: Vec::new(),
        };
        let mut described = false;
        for unit in &program.units {
            for line in std::fs::read_to_string(unit)?.lines() {
                let Some((key, value)) = line.strip_prefix("// ").and_then(|l| l.split_once(": ")) else { continue };
                let words = || value.split_whitespace().map(str::to_owned);
                match key {
                    "Trap" | "Workload" => described = true,
                    "flags" => program.flags.extend(words()),
                    "variant" => program.variants.push(words().filter(|w| w != "plain").collect()),
                    "requires" => program.requires.extend(words()),
                    "refused" => {
                        let (mode, code) = value.split_once(' ').context("`refused` needs a mode and a code")?;
                        program.refused.push((mode.parse()?, code.trim().to_owned()));
                    }
                    "compilers" => program.compilers = words().map(|w| w.parse()).collect::<Result<_, _>>()?,
                    "levels" => {
                        let known = words().take_while(|w| !w.starts_with('('));
                        program.levels = known.map(|w| w.parse()).collect::<Result<_, _>>()?;
                    }
                    _ => {}
                }
            }
        }
        if !described {
            bail!("the header names neither a trap nor a workload");
        }
        if program.variants.is_empty() {
            program.variants.push(Vec::new());
        }
        Ok(program)
    }

    /// Returns the first CPU feature that this machine lacks.
    ///
    /// # Errors
    /// /proc/cpuinfo cannot be read.
    pub fn missing_feature(&self) -> anyhow::Result<Option<&str>> {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
        let flags = cpuinfo.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
        Ok(self.requires.iter().map(String::as_str).find(|f| !flags.split_whitespace().any(|have| have == *f)))
    }
}
