//! Programs of gcc's test suite, and the flags that their directives ask of the compiler.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// `gcc.c-torture/execute`
    C,
    /// The `g++.dg` tests that run.
    Cxx,
}

impl Suite {
    /// Returns its name in gcc's sources.
    pub fn name(self) -> &'static str {
        match self {
            Suite::C => "gcc.c-torture/execute",
            Suite::Cxx => "g++.dg",
        }
    }
}

/// One program.
#[derive(Clone, Debug)]
pub struct Program {
    pub suite: Suite,
    /// Its path below the suite's directory.
    pub name: String,
    pub sources: Vec<PathBuf>,
    /// Flags that its directives name.
    pub flags: Vec<String>,
}

/// Folders of `g++.dg` whose tests need the runtimes of sanitizers, profiles of earlier runs,
/// threads, modules or a debugger, which a domain never has.
const ELSEWHERE: [&str; 13] = [
    "asan",
    "debug",
    "dfp",
    "gcov",
    "goacc",
    "gomp",
    "guality",
    "hwasan",
    "lto",
    "modules",
    "pch",
    "tree-prof",
    "tsan",
];

/// Returns all programs below gcc's testsuite directory, by name.
pub fn all(testsuite: &Path) -> anyhow::Result<Vec<Program>> {
    let mut programs = Vec::new();
    let directory = testsuite.join(Suite::C.name());
    for folder in ["", "ieee"] {
        for source in files(&directory.join(folder), "c", false)? {
            programs.push(read(Suite::C, &directory, source, Vec::new())?);
        }
    }
    let main = directory.join("builtins/lib/main.c");
    for source in files(&directory.join("builtins"), "c", false)? {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem.ends_with("-lib") {
            continue;
        }
        let library = source.with_file_name(format!("{stem}-lib.c"));
        let mut program = read(Suite::C, &directory, source, vec![library, main.clone()])?;
        // As in builtins.exp: the test's own functions must not become calls of themselves.
        program.flags.extend(["-fno-tree-dse", "-fno-tree-loop-distribute-patterns"].map(String::from));
        programs.push(program);
    }
    let directory = testsuite.join(Suite::Cxx.name());
    for source in files(&directory, "C", true)? {
        let folder = source.strip_prefix(&directory)?.components().next();
        let folder = folder.map(|c| c.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
        if ELSEWHERE.contains(&&*folder) {
            continue;
        }
        let text = text(&source)?;
        if !text.lines().any(|line| line.contains("dg-do run")) {
            continue;
        }
        let mut program = read(Suite::Cxx, &directory, source, Vec::new())?;
        if !program.flags.iter().any(|flag| flag.starts_with("-std=")) {
            program.flags.extend(standard(&folder, &text).map(str::to_owned));
        }
        if folder == "coroutines" {
            program.flags.push("-fcoroutines".to_owned());
        }
        // Runtimes of sanitizers and profiles.
        if !program.flags.iter().any(|f| f.starts_with("-fsanitize") || f.starts_with("-fprofile")) {
            programs.push(program);
        }
    }
    programs.sort_by(|a, b| (a.suite, &a.name).cmp(&(b.suite, &b.name)));
    Ok(programs)
}

/// Returns the standard that a C++ test's `dg-do` line or folder asks for, if it is not the
/// compiler's default.
fn standard(folder: &str, text: &str) -> Option<&'static str> {
    let line = text.lines().find(|line| line.contains("dg-do"))?;
    let asked = |name: &str| line.contains(name);
    if asked("c++23") || folder == "cpp23" {
        return Some("-std=gnu++23");
    }
    if asked("c++20") || asked("c++2a") || folder == "cpp2a" || folder == "coroutines" || folder == "concepts" {
        return Some("-std=gnu++20");
    }
    if asked("c++98_only") {
        return Some("-std=gnu++98");
    }
    if asked("c++14_down") || asked("c++11_down") {
        return Some("-std=gnu++11");
    }
    None
}

fn read(suite: Suite, directory: &Path, source: PathBuf, more: Vec<PathBuf>) -> anyhow::Result<Program> {
    let text = text(&source)?;
    let mut sources = vec![source.clone()];
    sources.extend(more);
    for names in directives(&text, "dg-additional-sources") {
        let parent = source.parent().unwrap_or(directory);
        sources.extend(names.split_whitespace().map(|name| parent.join(name)));
    }
    let mut flags = Vec::new();
    for name in ["dg-options", "dg-additional-options"] {
        flags.extend(directives(&text, name).flat_map(|f| f.split_whitespace().map(str::to_owned).collect::<Vec<_>>()));
    }
    let name = source.strip_prefix(directory)?.display().to_string();
    Ok(Program { suite, name, sources, flags })
}

/// Reads a test. Tests are in many encodings, some on purpose.
fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the arguments of a directive if it applies to x86-64:
/// `{ dg-options "-O2 -w" { target x86_64-*-* } }`.
fn directives<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = String> + 't {
    text.lines().filter_map(move |line| {
        let (_, rest) = line.split_once(&format!("{{ {name} "))?;
        let rest = rest.trim_start().trim_start_matches(['{', ' ']);
        let (argument, selector) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_once([' ', '}'])?,
        };
        applies(selector).then(|| argument.to_owned())
    })
}

/// Says whether a selector such as `{ target { i?86-*-* x86_64-*-* } }` holds on x86-64 Linux.
fn applies(selector: &str) -> bool {
    let Some((_, target)) = selector.split_once("target") else { return true };
    let other = target.contains("ia32") && !target.contains("! ia32") && !target.contains("! { ia32");
    let here = ["x86_64", "*-*-*", "*-*-linux", "lp64", "c++", "fpic", "pie"].iter().any(|name| target.contains(name));
    here && !other && !target.contains("ilp32")
}

/// Returns the files with an ending, sorted.
fn files(directory: &Path, ending: &str, below: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() && below {
            found.extend(files(&path, ending, below)?);
        } else if kind.is_file() && path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Checks that directives are read as dejagnu reads them. Otherwise tests run with wrong flags.
pub fn directives_are_read() -> anyhow::Result<()> {
    let text = "/* { dg-options \"-O2 -w\" } */\n// { dg-options -w }\n\
                /* { dg-options { \"-fwrapv\" } } */\n\
                /* { dg-options \"-mpc64\" { target { i?86-*-* x86_64-*-* } } } */\n\
                /* { dg-options \"-mno-eabi\" { target powerpc-*-eabi* } } */\n\
                /* { dg-options \"-m32\" { target { { i?86-*-* x86_64-*-* } && ia32 } } } */\n";
    let found: Vec<String> = directives(text, "dg-options").collect();
    anyhow::ensure!(found == ["-O2 -w", "-w", "-fwrapv", "-mpc64"], "{found:?}");
    Ok(())
}
