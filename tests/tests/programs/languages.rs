//! The tests of a C compiler: programs of one file, each with its output.

use crate::build;
use crate::compare::{execute, same};
use anyhow::{Context, ensure};
use sfi_contract::Mode;
use sfi_tests::sources::{matching, package};
use std::fs;
use std::path::Path;

/// What does not compile as plain C for musl, or is about tcc itself.
const EXCEPT: [&str; 14] = [
    // Two halves of one program.
    "104_inline.c",
    "104+_inline.c",
    "60_errors_and_warnings.c",
    "76_dollars_in_identifiers.c",
    "85_asm-outside-function.c",
    "96_nodata_wanted.c",
    "98_al_ax_extend.c",
    "99_fastcall.c",
    "106_pthread.c",
    "112_backtrace.c",
    "113_btdll.c",
    "114_bound_signal.c",
    "115_bound_setjmp.c",
    "116_bound_setjmp2.c",
];

/// All of tcc's `tests2`: odd ones in mode write and even ones in mode full, or all in both.
pub fn tcc(both: bool) -> anyhow::Result<()> {
    let source = package("tcc")?;
    let temporary = tempfile::tempdir()?;
    let work = temporary.path();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (number, file) in matching(&source.join("tests/tests2"), "*.c")?.iter().enumerate() {
        if EXCEPT.iter().any(|name| file.ends_with(name)) {
            continue;
        }
        let modes: &[Mode] = match number % 2 {
            _ if both => &[Mode::Write, Mode::Full],
            0 => &[Mode::Full],
            _ => &[Mode::Write],
        };
        if let Some(error) = one(file, modes, work).with_context(|| file.display().to_string())? {
            wrong.push(format!("{}: {error:#}", file.display()));
        } else {
            compared += 1;
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(compared >= 60, "only {compared} programs were compared");
    Ok(())
}

/// Compares one program; the error is a difference.
fn one(file: &Path, modes: &[Mode], work: &Path) -> anyhow::Result<Option<anyhow::Error>> {
    let object = work.join("test.o");
    let flags = ["-O1".to_owned(), "-std=gnu11".to_owned()];
    build::compile(file, &flags, &object, work)?;
    let inputs = [object];
    let directory = tempfile::tempdir_in(work)?;
    let program = directory.path().join("program");
    let arguments: Vec<String> = match file.file_name().and_then(|n| n.to_str()) {
        Some("31_args.c") => ["arg1", "arg2", "arg3", "arg4", "arg5"].map(str::to_owned).to_vec(),
        Some("46_grep.c") => ["[^* ]*[:a:d: ]+\\:\\*-/: $", "46_grep.c"].map(str::to_owned).to_vec(),
        _ => Vec::new(),
    };
    if arguments.len() == 2 {
        fs::copy(file, directory.path().join("46_grep.c"))?;
    }
    build::native(&inputs, &program, work)?;
    let expected = execute(directory.path(), &arguments, None, None)?;
    for mode in modes {
        build::domain(&inputs, *mode, &program, work)?;
        let actual = execute(directory.path(), &arguments, None, Some(*mode))?;
        if let Err(error) = same(&expected, &actual) {
            return Ok(Some(error.context(format!("mode {mode}: {}", actual.stderr))));
        }
    }
    Ok(None)
}
