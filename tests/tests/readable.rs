//! Rewritten objects are ordinary ELF relocatable objects. binutils reads and links them without
//! complaint, and each symbol of the input is there with its type, binding and visibility.

use sfi_contract::Mode;
use sfi_tests::build::{Compiler, Configuration, Level, compile};
use sfi_tests::program::Program;
use sfi_tests::run::must;
use sfi_tests::sandbox;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[test]
fn binutils_reads_what_gcc_made() {
    all_programs(Compiler::Gcc);
}

#[test]
fn binutils_reads_what_clang_made() {
    all_programs(Compiler::Clang);
}

fn all_programs(compiler: Compiler) {
    let level: Level = "2".parse().expect("a level");
    let mut objects_read = 0;
    for program in Program::all().expect("the corpus") {
        if !program.compilers.contains(&compiler) {
            continue;
        }
        let flags = ["-fPIE".to_owned()].into_iter().chain(program.variants[0].clone()).collect();
        let configuration = Configuration { compiler, level, flags };
        let objects = compile(&program, &configuration).unwrap_or_else(|e| panic!("{}: {e:#}", program.name));
        let directory = objects.directory.path();
        for mode in Mode::ALL {
            if program.refused.iter().any(|(m, _)| *m == mode) {
                continue;
            }
            let files = objects.paths.iter().map(std::path::PathBuf::as_path);
            let rewritten = sandbox::rewrite_files(files, mode, &directory.join(mode.name()))
                .unwrap_or_else(|e| panic!("{} {configuration}, mode {mode}: {e:#}", program.name));
            for (input, output) in objects.paths.iter().zip(&rewritten) {
                check(input, output, directory)
                    .unwrap_or_else(|e| panic!("{} {configuration}, mode {mode}: {e:#}", program.name));
                objects_read += 1;
            }
        }
    }
    assert!(objects_read > 100, "only {objects_read} objects were read");
}

fn check(input: &Path, output: &Path, scratch: &Path) -> anyhow::Result<()> {
    for (tool, arguments) in [
        ("readelf", &["--all", "--wide"][..]),
        ("readelf", &["--debug-dump=frames"]),
        ("objdump", &["--all-headers", "--disassemble", "--reloc"]),
        ("nm", &["--debug-syms", "--synthetic"]),
        ("ld", &["-r", "-o", "/dev/null"]),
    ] {
        let outcome = must(Command::new(tool).args(arguments).arg(output), scratch)?;
        anyhow::ensure!(outcome.stderr.is_empty(), "{tool} complains: {}", outcome.stderr);
    }
    let before = symbols(input, scratch)?;
    let after = symbols(output, scratch)?;
    for (symbol, count) in &before {
        let now = after.get(symbol).copied().unwrap_or(0);
        anyhow::ensure!(now >= *count, "symbol `{symbol}` is there {count} times before and {now} times after");
    }
    Ok(())
}

/// Counts `FUNC GLOBAL DEFAULT defined name` of every named symbol.
fn symbols(object: &Path, scratch: &Path) -> anyhow::Result<BTreeMap<String, usize>> {
    let listing = must(Command::new("readelf").args(["--symbols", "--wide"]).arg(object), scratch)?;
    let mut symbols = BTreeMap::new();
    for line in String::from_utf8(listing.stdout)?.lines() {
        // Num: Value Size Type Bind Vis Ndx Name
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [number, _, _, kind, binding, visibility, section, name] = words[..]
            && number.ends_with(':')
            && kind != "SECTION"
        {
            let place = match section {
                "UND" | "COM" | "ABS" => section,
                _ => "defined",
            };
            *symbols.entry(format!("{kind} {binding} {visibility} {place} {name}")).or_default() += 1;
        }
    }
    anyhow::ensure!(!symbols.is_empty(), "readelf lists no symbols");
    Ok(symbols)
}
