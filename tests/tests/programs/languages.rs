//! The tests of a C compiler (tcc's `tests2`): programs of one file, and one of two.

use crate::build;
use crate::compare::{PROGRAM, execute, same};
use anyhow::{Context, ensure};
use libtest_mimic::Trial;
use sfi_contract::Mode;
use sfi_tests::sources::{matching, package};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The reason why a program is not compared. Each reason is tested, so that no program stays on the
/// list without need.
#[derive(Clone, Copy)]
enum Why {
    /// gcc does not compile or link it.
    NotBuilt(&'static str),
    /// A domain has no threads, so the program reports that or faults.
    Threads,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotBuilt(why) => write!(f, "gcc does not build it: {why}"),
            Why::Threads => f.write_str("it starts threads, which a domain does not have"),
        }
    }
}

const EXCEPT: [(&str, Why); 7] = [
    ("34_array_assignment.c", Why::NotBuilt("assigns arrays, which is not C; tcc's Makefile leaves it out, too")),
    ("60_errors_and_warnings.c", Why::NotBuilt("snippets that tcc must refuse, one by one; no program")),
    ("96_nodata_wanted.c", Why::NotBuilt("snippets that tcc must refuse, one by one; no program")),
    ("99_fastcall.c", Why::NotBuilt("32-bit assembly")),
    ("113_btdll.c", Why::NotBuilt("the source of two shared libraries and a program, on tcc's own backtraces")),
    ("114_bound_signal.c", Why::Threads),
    ("116_bound_setjmp2.c", Why::Threads),
];
/// Programs and their second source file.
const HALVES: [(&str, &str); 1] = [("104_inline.c", "104+_inline.c")];
/// Least number of programs: those of Debian's tcc 0.9.27 without the ones on the list.
const LEAST: usize = 100;

/// Returns one test for each program and one for the list's length. Odd programs run in mode write
/// and even ones in mode full, or all in both.
pub fn tcc(both: bool) -> Vec<Trial> {
    let programs = match programs() {
        Ok(programs) => programs,
        Err(error) => {
            let text = format!("{error:#}");
            return vec![Trial::test("tcc-tests2", move || Err(text.into()))];
        }
    };
    let count = programs.iter().filter(|(.., why)| why.is_none()).count();
    let mut trials = vec![Trial::test("tcc-tests2", move || {
        EXCEPT.iter().for_each(|(name, why)| println!("tcc: {name} is not compared: {why}"));
        println!("tcc: {count} programs are compared");
        if count >= LEAST { Ok(()) } else { Err(format!("{count} programs instead of {LEAST}").into()) }
    })];
    for (number, (name, sources, why)) in programs.into_iter().enumerate() {
        let modes: &[Mode] = match number % 2 {
            _ if both => &[Mode::Write, Mode::Full],
            0 => &[Mode::Full],
            _ => &[Mode::Write],
        };
        let test = move || match why {
            None => one(&sources, modes),
            Some(Why::NotBuilt(_)) => {
                let built = tempfile::tempdir().is_ok_and(|work| native(&sources, work.path()).is_ok());
                ensure!(!built, "gcc builds it: it can be compared");
                Ok(())
            }
            Some(Why::Threads) => {
                ensure!(one(&sources, modes).is_err(), "it behaves as natively: it can be compared");
                Ok(())
            }
        };
        trials.push(Trial::test(format!("tcc-{name}"), move || test().map_err(|e| format!("{e:#}").into())));
    }
    trials
}

type Program = (String, Vec<PathBuf>, Option<Why>);

fn programs() -> anyhow::Result<Vec<Program>> {
    let mut programs = Vec::new();
    for file in matching(&package("tcc")?.join("tests/tests2"), "*.c")? {
        let name = file.file_name().and_then(|n| n.to_str()).context("the name is not UTF-8")?.to_owned();
        if HALVES.iter().any(|(_, other)| *other == name) {
            continue;
        }
        let other = HALVES.iter().find(|(half, _)| *half == name).map(|(_, other)| file.with_file_name(other));
        let why = EXCEPT.iter().find(|(except, _)| *except == name).map(|(_, why)| *why);
        programs.push((name, [file].into_iter().chain(other).collect(), why));
    }
    Ok(programs)
}

/// Returns the objects for both sides and links the native program.
fn native(sources: &[PathBuf], work: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let flags = ["-O1".to_owned(), "-std=gnu11".to_owned()];
    let mut objects = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let object = work.join(format!("{number}.o"));
        build::compile(source, &flags, &object, work)?;
        objects.push(object);
    }
    let directory = side(work, "native")?;
    build::native(&objects, &directory.join(PROGRAM), work)?;
    Ok(objects)
}

/// Makes a directory for one side.
fn side(work: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let directory = work.join(name);
    fs::create_dir(&directory)?;
    Ok(directory)
}

/// Compares one program.
fn one(sources: &[PathBuf], modes: &[Mode]) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let work = temporary.path();
    let objects = native(sources, work)?;
    let name = sources.first().and_then(|s| s.file_name()).and_then(|n| n.to_str());
    // These are the arguments of tcc's Makefile.
    let (arguments, file): (&[&str], _) = match name {
        Some("31_args.c") => (&["arg1", "arg2", "arg3", "arg4", "arg5"], None),
        Some("46_grep.c") => (&["[^* ]*[:a:d: ]+\\:\\*-/: $", "46_grep.c"], sources.first()),
        _ => (&[], None),
    };
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let run = |directory: &Path, mode| {
        if let Some(file) = file {
            fs::copy(file, directory.join("46_grep.c"))?;
        }
        execute(directory, &arguments, None, mode)
    };
    let expected = run(&work.join("native"), None)?;
    for mode in modes {
        let directory = side(work, mode.name())?;
        build::domain(&objects, *mode, &directory.join(PROGRAM), work)?;
        let actual = run(&directory, Some(*mode))?;
        same(&expected, &actual).with_context(|| format!("mode {mode}: {}", actual.stderr))?;
    }
    Ok(())
}
