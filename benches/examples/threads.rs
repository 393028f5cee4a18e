//! `cargo xtask bench --threads`: programs with one thread and with two, natively and in domains.
//!
//! A program does a fixed work with one thread and with two, in turn ([`ROUNDS`]). The quotient of
//! both times is the scaling, of which 2 is the best. The work takes 150 ms or more with one
//! thread, so creating threads takes no part of it. One more program creates threads that do
//! nothing and joins them, one after the other. Processes of all variants run in turn
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

/// The program that creates and joins threads.
const CREATION: Program = ("create", &[], &[]);

/// The figures of one process: the nanoseconds of each round, and its sum.
struct Run {
    rounds: Vec<Vec<f64>>,
    sum: String,
}

impl Run {
    /// Returns the median scaling of the rounds.
    fn scaling(&self) -> f64 {
        median(&mut self.rounds.iter().map(|round| round[0] / round[1]).collect::<Vec<_>>())
    }

    /// Returns the median of the first figures.
    fn first(&self) -> f64 {
        median(&mut self.rounds.iter().map(|round| round[0]).collect::<Vec<_>>())
    }
}

fn main() -> anyhow::Result<()> {
    let mut words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    ensure!(words.len() >= 2, "no sources, or no sfi");
    let only = words.split_off(2);
    let chosen = |program: &&Program| only.is_empty() || only.iter().any(|word| word.as_os_str() == program.0);
    let is_program = |word: &&PathBuf| PROGRAMS.iter().chain([&CREATION]).any(|p| word.as_os_str() == p.0);
    if let Some(unknown) = only.iter().find(|word| !is_program(word)) {
        bail!("no program is called {}", unknown.display());
    }
    let runs = |program: &Program| -> anyhow::Result<Vec<Vec<Run>>> {
        let work = tempfile::tempdir()?;
        let built = build(program, &words[0], &words[1], work.path()).context(program.0)?;
        run_all(program.0, &built, &words[1])
    };
    let scaled: Vec<&Program> = PROGRAMS.iter().filter(chosen).collect();
    if !scaled.is_empty() {
        println!("| program | native ms | native | write | full | write to native | full to native |");
        println!("|{}", " --- |".repeat(7));
    }
    for program in scaled {
        print_scaling(program.0, &runs(program)?);
    }
    if chosen(&&CREATION) {
        let all = runs(&CREATION)?;
        println!("\n| µs | native | write | full |\n|{}", " --- |".repeat(4));
        let cells = all.iter().map(|own| cell(own.iter().map(|run| run.first() / 1e3), 1)).collect::<Vec<_>>();
        println!("| creating and joining a thread | {} |", cells.join(" | "));
    }
    Ok(())
}

/// Builds a program natively and for both modes, from the same sources with the same flags.
fn build(program: &Program, sources: &Path, sfi: &Path, work: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (name, flags, parts) = program;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/threads");
    let zstd = sources.join("libzstd");
    let mut files = vec![here.join(format!("{name}.c"))];
    files.extend((*name != CREATION.0).then(|| here.join("main.c")));
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
    let (mut rounds, mut sum) = (Vec::new(), String::new());
    for line in output.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ns", ref figures @ ..] => {
                rounds.push(figures.iter().map(|figure| figure.parse()).collect::<Result<Vec<f64>, _>>()?);
            }
            ["sum", computed] => sum = computed.to_owned(),
            _ => bail!("unexpected output: {line}"),
        }
    }
    ensure!(rounds.len() == ROUNDS && !sum.is_empty(), "rounds are missing: {output}");
    Ok(Run { rounds, sum })
}

/// Runs all variants in turn. Returns the runs of each.
fn run_all(name: &str, built: &[PathBuf], sfi: &Path) -> anyhow::Result<Vec<Vec<Run>>> {
    let mut all: Vec<Vec<Run>> = built.iter().map(|_| Vec::new()).collect();
    for _ in 0..PROCESSES {
        for (index, program) in built.iter().enumerate() {
            let done = match index.checked_sub(1) {
                None => process(&mut Command::new(program))?,
                Some(mode) => {
                    let mut command = Command::new(sfi);
                    let command = command.args(["run", "--mode", MODES[mode], "--threads", THREADS, "--memory", "512"]);
                    process(command.arg(program).arg("--"))?
                }
            };
            all[index].push(done);
        }
    }
    let sum = &all[0][0].sum;
    ensure!(all.iter().flatten().all(|run| run.sum == *sum), "{name} does not compute the same everywhere");
    Ok(all)
}

/// Returns the median of values, the least and the greatest.
fn cell(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut values: Vec<f64> = values.collect();
    let middle = median(&mut values);
    format!("{middle:.digits$} ({:.digits$} to {:.digits$})", values[0], values[values.len() - 1])
}

/// Prints the program's line.
fn print_scaling(name: &str, all: &[Vec<Run>]) {
    let own = all.iter().map(|runs| cell(runs.iter().map(Run::scaling), 2));
    let to_native = all[1..].iter().map(|runs| {
        let neighbours = runs.iter().zip(&all[0]);
        cell(neighbours.map(|(run, native)| run.scaling() / native.scaling()), 2)
    });
    let cells: Vec<String> = own.chain(to_native).collect();
    let native = median(&mut all[0].iter().map(|run| run.first() / 1e6).collect::<Vec<_>>());
    println!("| {name} | {native:.0} | {} |", cells.join(" | "));
}
