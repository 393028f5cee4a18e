//! `cargo xtask bench`: whole programs in domains against the same programs natively.
//!
//! Both sides have one compiler, one libc (static musl), one set of flags, one `malloc` on memory
//! that is not given back, and one `memcpy`. So rounds measure code, and neither page faults nor
//! musl's string instructions. `stock` objects are compiled as for the native program, `fixed` ones
//! with `-ffixed-r15` too. A round lasts about [`ROUND`] nanoseconds.
//!
//! Each of five layouts shifts the program's code by some bytes. In each layout, several processes
//! of all variants run in turn on one processor, and the fastest round of a process counts. Ratios
//! are of medians over all processes, because the pages that a process gets can change its speed by
//! half. Text is that of the program's own objects, relative to the native one compiled without
//! `-ffixed-r15`.
//!
//! Arguments: the directory of the sources, the `sfi` binary, then names of programs (default:
//! all). `--wasmtime=RUNNER` adds columns of clang and WebAssembly. `--svg=FILE` draws the ratios.
//! `--json=FILE` writes them for the plots of the documentation.
//! `--layouts=COUNT` takes fewer layouts and `--processes=COUNT` another number of processes.

mod chart;
#[path = "../../../crates/xtask/src/measured.rs"]
#[allow(dead_code, reason = "the plots use other parts")]
mod measured;
mod table;
mod wasm;

use anyhow::{Context, bail, ensure};
use object::{Object, ObjectSection, SectionKind};
use rayon::prelude::*;
use sfi_benches::compile::run;
use sfi_benches::median;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::{PROGRAMS, Program};

/// Sources that are programs of their own and not parts of a library.
const MAINS: [&str; 2] = ["lua.c", "luac.c"];
/// Files that each program has besides its own.
const HARNESS: [&str; 3] = ["main", "heap", "copy"];
const COMPILER: &str = "musl-gcc";
/// The layouts: bytes by which the program's code is shifted.
const SHIFTS: [u32; 5] = [16, 32, 64, 208, 1072];
/// Length of a round of the native program, nanoseconds.
const ROUND: f64 = 6e7;
/// Processes of each variant in each layout.
const PROCESSES: usize = 3;
/// Rounds of one process.
const ROUNDS: &str = "3";
const VARIANTS: [(&str, &str); 4] = [("stock", "write"), ("stock", "full"), ("fixed", "write"), ("fixed", "full")];
/// Further forms, with `--wasm`: the native program of clang, and clang's module by wasm2c and gcc
/// and in Wasmtime.
const FOREIGN: [&str; 3] = ["clang", "wasm2c", "Wasmtime"];

/// The places and settings of a run.
struct Setting {
    sources: PathBuf,
    here: PathBuf,
    sfi: PathBuf,
    /// The runner of `benches/wasmtime`, if the columns of WebAssembly are wanted.
    wasmtime: Option<PathBuf>,
    /// Number of layouts.
    layouts: usize,
    /// Number of processes of each variant in each layout.
    processes: usize,
    /// The processor on which the programs run.
    processor: String,
}

/// A program's figures. All ratios are to the native program.
struct Row {
    milliseconds: f64,
    times: Vec<Option<f64>>,
    texts: Vec<f64>,
}

fn main() -> anyhow::Result<()> {
    let (options, mut words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    ensure!(words.len() >= 2, "no sources, or no sfi");
    let only = words.split_off(2);
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name)).map(PathBuf::from);
    let number = |name: &str, default| match option(name) {
        Some(count) => count.to_string_lossy().parse().with_context(|| name.to_owned()),
        None => Ok(default),
    };
    let setting = Setting {
        sources: PathBuf::from(&words[0]),
        here: Path::new(env!("CARGO_MANIFEST_DIR")).join("programs"),
        sfi: PathBuf::from(&words[1]),
        wasmtime: option("--wasmtime="),
        layouts: number("--layouts=", SHIFTS.len())?,
        processes: number("--processes=", PROCESSES)?,
        processor: processor()?,
    };
    ensure!(setting.processes > 0, "no process measures nothing");
    ensure!((1..=SHIFTS.len()).contains(&setting.layouts), "there are {} layouts", SHIFTS.len());
    if let Some(unknown) = only.iter().find(|name| !PROGRAMS.iter().any(|program| program.0 == **name)) {
        bail!("no program is called {unknown}");
    }
    let foreign = if setting.wasmtime.is_some() { &FOREIGN[..] } else { &[] };
    let times: Vec<&str> = ["write", "full", "write, -ffixed-r15", "full, -ffixed-r15"]
        .into_iter()
        .chain(foreign.iter().copied())
        .collect();
    let texts = ["text, write", "text, full", "text, write, -ffixed-r15", "text, full, -ffixed-r15"];
    println!("| program | native ms | {} | {} |", times.join(" | "), texts.join(" | "));
    println!("|{}", " --- |".repeat(2 + times.len() + texts.len()));
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|p| only.is_empty() || only.iter().any(|o| o == p.0)) {
        let work = setting.sources.join("bench").join(program.0);
        std::fs::create_dir_all(&work)?;
        let row = measure(program, &setting, &work).context(program.0)?;
        let cells = row.times.iter().copied().chain(row.texts.iter().copied().map(Some)).map(cell);
        println!("| {} | {:.1} | {} |", program.0, row.milliseconds, cells.collect::<Vec<_>>().join(" | "));
        rows.push((program.0, row));
    }
    let times_of = |index: usize| rows.iter().filter_map(move |(_, row)| row.times[index]);
    let texts_of = |index: usize| rows.iter().map(move |(_, row)| row.texts[index]);
    let means: Vec<String> = (0..times.len())
        .map(|index| cell(mean(times_of(index))))
        .chain((0..texts.len()).map(|index| cell(mean(texts_of(index)))))
        .collect();
    println!("| geometric mean | | {} |", means.join(" | "));
    if let Some(path) = option("--json=") {
        let programs = rows.iter().map(|(name, row)| figures(name, row, &times, &texts)).collect();
        std::fs::write(path, measured::write(&measured::Programs { schema: measured::SCHEMA, programs })?)?;
    }
    if let Some(path) = option("--svg=") {
        // The columns with -ffixed-r15 are left out.
        let shown: Vec<usize> = [0, 1].into_iter().chain(VARIANTS.len()..times.len()).collect();
        let series: Vec<&str> = shown.iter().map(|index| times[*index]).collect();
        let bars: Vec<_> =
            rows.iter().map(|(name, row)| (*name, shown.iter().map(|index| row.times[*index]).collect())).collect();
        std::fs::write(path, chart::draw(&series, &bars))?;
    }
    Ok(())
}

/// Returns a program's figures as the table shows them.
fn figures(name: &str, row: &Row, times: &[&str], texts: &[&str]) -> measured::Program {
    let way = |text: &str| text.strip_prefix("text, ").unwrap_or(text).to_owned();
    let ratio = |value: f64| measured::rounded(value, 3);
    measured::Program {
        name: name.to_owned(),
        native_ms: measured::rounded(row.milliseconds, 1),
        time: times.iter().zip(&row.times).map(|(time, value)| (way(time), value.map(ratio))).collect(),
        text: texts.iter().zip(&row.texts).map(|(text, value)| (way(text), ratio(*value))).collect(),
    }
}

/// Returns the last processor on which this process may run.
fn processor() -> anyhow::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).context("no processors")?;
    Ok(list.rsplit([',', '-', '\t']).next().unwrap_or_default().to_owned())
}

/// Returns a command that runs a program on one processor.
fn pinned(processor: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", processor]).arg(program);
    command
}

/// Returns the geometric mean.
fn mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    let count = logarithms.len() as f64;
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / count).exp())
}

fn cell(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "not built".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// A variant's fastest round, and the sum that it computed.
struct Run {
    nanoseconds: f64,
    sum: String,
}

/// Runs a program's rounds, natively or by `sfi` with arguments.
fn rounds(command: &mut Command, times: u64) -> anyhow::Result<Run> {
    let output = run(command.arg(ROUNDS).arg(times.to_string()))?;
    let (mut nanoseconds, mut sum) = (f64::MAX, String::new());
    for line in output.lines() {
        match line.split_once(' ') {
            Some(("ns", ns)) => nanoseconds = nanoseconds.min(ns.parse()?),
            Some(("sum", computed)) => sum = computed.to_owned(),
            _ => bail!("unexpected output: {line}"),
        }
    }
    Ok(Run { nanoseconds: nanoseconds / times as f64, sum })
}

/// Returns a program's C and assembly files, with those in directories.
fn sources_of(program: &Program, source: &Path, here: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = vec![here.join(format!("{}.c", program.0))];
    for file in program.2 {
        let path = source.join(file.replace("{here}", &here.display().to_string()));
        if path.is_dir() {
            let mut found: Vec<PathBuf> =
                std::fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
            found.retain(|p| {
                p.extension().is_some_and(|e| e == "c" || e == "S") && !MAINS.iter().any(|m| p.ends_with(m))
            });
            found.sort();
            all.extend(found);
        } else {
            all.push(path);
        }
    }
    Ok(all)
}

/// Builds a program in all forms, and measures them in turn.
fn measure(program: &Program, setting: &Setting, work: &Path) -> anyhow::Result<Row> {
    let Setting { here, sfi, .. } = setting;
    let pinned = |program: &Path| pinned(&setting.processor, program);
    let source = setting.sources.join(program.1);
    let mut flags = vec![format!("-I{}", here.display()), format!("-I{}", source.display())];
    let place = |flag: &&str| {
        flag.replace("{src}", &source.display().to_string()).replace("{here}", &here.display().to_string())
    };
    flags.extend(program.3.iter().map(place));
    let compile = |file: &Path, object: &Path, extra: &[String]| {
        let mut command = Command::new(COMPILER);
        command.args(["-O2", "-w", "-fPIE", "-fno-asynchronous-unwind-tables"]).args(&flags);
        run(command.args(extra).arg("-c").arg(file).arg("-o").arg(object)).map(drop)
    };
    let files = sources_of(program, &source, here)?;
    let mut objects: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    let mut harness: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for (kind, extra) in [("stock", None), ("fixed", Some("-ffixed-r15".to_owned()))] {
        let compiled = |name: String, file: &Path| {
            let object = work.join(format!("{kind}-{name}.o"));
            compile(file, &object, extra.as_slice()).map(|()| object)
        };
        let own = files.par_iter().enumerate().map(|(number, file)| compiled(number.to_string(), file));
        objects.insert(kind, own.collect::<Result<_, _>>()?);
        let common = HARNESS.iter().map(|name| compiled((*name).to_owned(), &here.join(name).with_extension("c")));
        harness.insert(kind, common.collect::<Result<_, _>>()?);
    }
    let rewritten_text = |kind: &str, mode: &str, object: &Path| {
        let rewritten = work.join(format!("{kind}-{mode}.o"));
        run(Command::new(sfi).args(["rewrite", "--mode", mode]).arg(object).arg("-o").arg(&rewritten))?;
        text(&rewritten)
    };
    let growth = |(kind, mode): &(&str, &str)| -> anyhow::Result<f64> {
        let before: u64 = objects["stock"].iter().map(|object| text(object)).sum::<Result<_, _>>()?;
        let after: u64 = objects[kind].iter().map(|object| rewritten_text(kind, mode, object)).sum::<Result<_, _>>()?;
        Ok(after as f64 / before as f64)
    };
    let texts = VARIANTS.par_iter().map(growth).collect::<Result<_, _>>()?;
    let foreign = match &setting.wasmtime {
        Some(_) => Some(wasm::build(&files, &flags, here, work)?),
        None => None,
    };
    let columns = 1 + VARIANTS.len() + if foreign.is_some() { FOREIGN.len() } else { 0 };
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); columns];
    let mut sums = Vec::new();
    let mut repeat = None;
    for shift in SHIFTS.into_iter().take(setting.layouts) {
        let shifted = work.join("shift.o");
        compile(&here.join("shift.S"), &shifted, &[format!("-DSHIFT={shift}")])?;
        let native = work.join("native");
        run(Command::new(COMPILER)
            .arg("-static")
            .arg(&shifted)
            .args(&objects["stock"])
            .args(&harness["stock"])
            .arg("-o")
            .arg(&native))?;
        let linked = |(kind, mode): &(&str, &str)| -> anyhow::Result<PathBuf> {
            let to = work.join(format!("{kind}-{mode}"));
            let mut command = Command::new(sfi);
            command.env("SFI_MODE", mode).arg("cc").arg(&shifted).args(&objects[kind]).args(&harness[kind]);
            run(command.arg("-o").arg(&to)).map(|_| to)
        };
        let domains = VARIANTS.par_iter().map(linked).collect::<Result<Vec<_>, _>>()?;
        let command = |index: usize| -> Option<Command> {
            let foreign = || foreign.as_ref().zip(setting.wasmtime.as_ref());
            Some(match index {
                0 => pinned(&native),
                1..=4 => {
                    let mut command = pinned(sfi);
                    command.args(["run", "--mode", VARIANTS[index - 1].1]).arg(&domains[index - 1]).arg("--");
                    command
                }
                5 => pinned(&foreign()?.0.clang),
                6 => pinned(foreign()?.0.wasm2c.as_ref()?),
                _ => {
                    let (built, wasmtime) = foreign()?;
                    let mut command = pinned(wasmtime);
                    command.arg(built.module.as_ref()?);
                    command
                }
            })
        };
        let repeat = match repeat {
            Some(repeat) => repeat,
            None => *repeat.insert((ROUND / rounds(&mut pinned(&native), 1)?.nanoseconds).ceil() as u64),
        };
        for _ in 0..setting.processes {
            for (index, times) in times.iter_mut().enumerate() {
                let Some(mut command) = command(index) else { continue };
                let result = rounds(&mut command, repeat)?;
                times.push(result.nanoseconds);
                sums.push(Sum { whole: result.sum.parse()?, module: index > VARIANTS.len() + 1 });
            }
        }
    }
    let native = sums[0].whole;
    let (ours, modules): (Vec<&Sum>, Vec<&Sum>) = sums.iter().partition(|sum| !sum.module);
    ensure!(ours.iter().all(|sum| sum.whole == native), "the variants compute different sums: {sums:?}");
    ensure!(modules.windows(2).all(|two| two[0] == two[1]), "the modules compute different sums: {sums:?}");
    // Some libraries choose other tables where words have 32 bits, as a module's.
    if modules.first().is_some_and(|sum| sum.whole as u32 != native as u32) {
        eprintln!("{}: a module computes another sum than the native program", program.0);
    }
    let medians: Vec<Option<f64>> = times.iter_mut().map(|t| (!t.is_empty()).then(|| median(t))).collect();
    let native = medians[0].context("the native program did not run")?;
    let times = medians[1..].iter().map(|median| median.map(|median| median / native)).collect();
    Ok(Row { milliseconds: native / 1e6, times, texts })
}

/// A sum that a variant computed.
#[derive(Debug, PartialEq)]
struct Sum {
    whole: u64,
    /// A module computed it. Its `unsigned long` has 32 bits.
    module: bool,
}

/// Returns the bytes of code in an object.
fn text(path: &Path) -> anyhow::Result<u64> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    Ok(file.sections().filter(|s| s.kind() == SectionKind::Text).map(|s| s.size()).sum())
}
