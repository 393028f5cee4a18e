//! `cargo xtask bench --threads`: programs with one thread and with two, natively and in domains.
//!
//! A program does a fixed work with one thread and with two, in turn ([`ROUNDS`]). The quotient of
//! both times is the scaling, of which 2 is the best. Processes of all variants run in turn
//! ([`PROCESSES`]), and each variant is compared with the native process of its turn. So a machine
//! that is busy for a while harms all variants alike. Prints medians, and the least and the
//! greatest.
//!
//! Arguments: the directory of the sources, the `sfi` binary, then names of programs (default:
//! all).

use anyhow::{Context, bail, ensure};
use sfi_benches::compile::run;
use sfi_benches::median;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROUNDS: usize = 5;
const PROCESSES: usize = 9;
const MODES: [&str; 2] = ["write", "full"];
/// Threads that a program may have: those of both works, with the first one.
const THREADS: &str = "6";

/// A program: its name, flags, and directories of the sources of zstd.
type Program = (&'static str, &'static [&'static str], &'static [&'static str]);

const ZSTD: &[&str] = &["-DZSTD_MULTITHREAD", "-DZSTD_DISABLE_ASM", "-I{zstd}/lib"];
const PROGRAMS: [Program; 3] = [
    ("table", &[], &[]),
    ("zstd", ZSTD, &["common", "compress"]),
    // Libraries of the compiler are the domain's own, natively the shared one.
    ("loop", &["-fopenmp"], &[]),
];

/// The figures of one process: the median scaling of its rounds, and its sum.
struct Run {
    scaling: f64,
    /// Nanoseconds of one thread.
    one: f64,
    sum: String,
}

fn main() -> anyhow::Result<()> {
    let mut words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    ensure!(words.len() >= 2, "no sources, or no sfi");
    let only = words.split_off(2);
    let chosen = |name: &str| only.is_empty() || only.iter().any(|word| word.as_os_str() == name);
    if let Some(unknown) = only.iter().find(|word| !PROGRAMS.iter().any(|p| word.as_os_str() == p.0)) {
        bail!("no program is called {}", unknown.display());
    }
    println!("| program | native ms | native | write | full | write to native | full to native |");
    println!("|{}", " --- |".repeat(7));
    for program in PROGRAMS.iter().filter(|program| chosen(program.0)) {
        let work = tempfile::tempdir()?;
        let built = build(program, &words[0], &words[1], work.path()).context(program.0)?;
        measure(program.0, &built, &words[1])?;
    }
    Ok(())
}

/// Builds a program natively and for both modes, from the same sources with the same flags.
fn build(program: &Program, sources: &Path, sfi: &Path, work: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (name, flags, parts) = program;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/threads");
    let zstd = sources.join("libzstd");
    let mut files = vec![here.join("main.c"), here.join(format!("{name}.c"))];
    for part in *parts {
        let found = std::fs::read_dir(zstd.join("lib").join(part))?.map(|e| Ok(e?.path()));
        let mut found = found.collect::<anyhow::Result<Vec<_>>>()?;
        found.retain(|path| path.extension().is_some_and(|e| e == "c"));
        found.sort();
        files.extend(found);
    }
    let place = |flag: &&str| flag.replace("{zstd}", &zstd.display().to_string());
    let common: Vec<String> = ["-O2", "-w", "-pthread"].iter().chain(*flags).map(place).collect();
    let native = work.join("native");
    run(Command::new("gcc").args(&common).args(&files).arg("-o").arg(&native))?;
    let mut built = vec![native];
    for mode in MODES {
        let output = work.join(mode);
        let mut cc = Command::new(sfi);
        run(cc.arg("cc").args(&common).args(&files).arg("-o").arg(&output).env("SFI_MODE", mode))?;
        built.push(output);
    }
    Ok(built)
}

/// Runs one process of a program.
fn process(command: &mut Command) -> anyhow::Result<Run> {
    let output = run(command.arg(ROUNDS.to_string()))?;
    let (mut scalings, mut ones, mut sum) = (Vec::new(), Vec::new(), String::new());
    for line in output.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ns", one, two] => {
                let (one, two): (f64, f64) = (one.parse()?, two.parse()?);
                scalings.push(one / two);
                ones.push(one);
            }
            ["sum", computed] => sum = computed.to_owned(),
            _ => bail!("unexpected output: {line}"),
        }
    }
    ensure!(scalings.len() == ROUNDS && !sum.is_empty(), "rounds are missing: {output}");
    Ok(Run { scaling: median(&mut scalings), one: median(&mut ones), sum })
}

fn cell(values: &mut [f64]) -> String {
    let middle = median(values);
    format!("{middle:.2} ({:.2} to {:.2})", values[0], values[values.len() - 1])
}

/// Runs all variants in turn, and prints the program's line.
fn measure(name: &str, built: &[PathBuf], sfi: &Path) -> anyhow::Result<()> {
    let (mut own, mut to_native) = (vec![Vec::new(); built.len()], vec![Vec::new(); MODES.len()]);
    let (mut times, mut sum) = (Vec::new(), None);
    for _ in 0..PROCESSES {
        let native = process(&mut Command::new(&built[0]))?;
        own[0].push(native.scaling);
        times.push(native.one / 1e6);
        let expected = &*sum.get_or_insert(native.sum);
        for (index, mode) in MODES.iter().enumerate() {
            let mut command = Command::new(sfi);
            let command = command.args(["run", "--mode", mode, "--threads", THREADS, "--memory", "512"]);
            let domain = process(command.arg(&built[index + 1]).arg("--"))?;
            ensure!(domain.sum == *expected, "{name} computes something else in mode {mode}");
            own[index + 1].push(domain.scaling);
            to_native[index].push(domain.scaling / native.scaling);
        }
    }
    let cells: Vec<String> = own.iter_mut().chain(&mut to_native).map(|values| cell(values)).collect();
    println!("| {name} | {:.0} | {} |", median(&mut times), cells.join(" | "));
    Ok(())
}
