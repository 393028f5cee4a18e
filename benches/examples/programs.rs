//! `cargo xtask bench`: whole programs in domains against the same programs natively.
//!
//! Both sides have one compiler, one libc (static musl), one set of flags, and one `malloc` on
//! memory that is not given back. So rounds measure code and not page faults. `stock` objects are
//! compiled as for the native program, `fixed` ones with `-ffixed-r15` too. A round lasts about
//! [`ROUND`] nanoseconds.
//!
//! Each of five layouts shifts the program's code by some bytes. In each layout, processes of all
//! variants run in turn, and the fastest round of a process counts. Ratios are of medians over the
//! layouts. Text is that of the program's own objects, relative to the native one compiled without
//! `-ffixed-r15`.
//!
//! Arguments: the directory of the sources, the `sfi` binary, then names of programs (default:
//! all).

use anyhow::{Context, bail, ensure};
use object::{Object, ObjectSection, SectionKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program: its name, its library's package and sources, and flags.
type Program = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const PROGRAMS: &[Program] = &[
    (
        "zlib",
        "zlib",
        &[
            "adler32.c",
            "compress.c",
            "crc32.c",
            "deflate.c",
            "inffast.c",
            "inflate.c",
            "inftrees.c",
            "trees.c",
            "uncompr.c",
            "zutil.c",
        ],
        &[],
    ),
    (
        "bzip2",
        "bzip2",
        &["blocksort.c", "bzlib.c", "compress.c", "crctable.c", "decompress.c", "huffman.c", "randtable.c"],
        &["-DBZ_NO_STDIO"],
    ),
    ("lz4", "lz4", &["lib/lz4.c"], &["-I{src}/lib"]),
    (
        "zstd",
        "libzstd",
        &["lib/common", "lib/compress", "lib/decompress"],
        &["-I{src}/lib", "-DXXH_NAMESPACE=ZSTD_", "-DZSTD_LEGACY_SUPPORT=0"],
    ),
    ("lua", "lua5.4", &["src"], &["-I{src}/src"]),
    ("sqlite", "sqlite3", &["sqlite3.c"], &["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"]),
    ("sha256", "", &[], &[]),
    ("matmul", "", &[], &[]),
    ("qsort", "", &[], &[]),
    ("fib", "", &[], &[]),
];
/// Sources that are programs of their own and not parts of a library.
const MAINS: [&str; 2] = ["lua.c", "luac.c"];
const COMPILER: &str = "musl-gcc";
/// The layouts: bytes by which the program's code is shifted.
const SHIFTS: [u32; 5] = [16, 32, 64, 208, 1072];
/// Length of a round of the native program, nanoseconds.
const ROUND: f64 = 1e8;
/// Rounds of one process.
const ROUNDS: &str = "3";
const VARIANTS: [(&str, &str); 4] = [("stock", "write"), ("stock", "full"), ("fixed", "write"), ("fixed", "full")];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (sources, sfi) = (arguments.next().context("no sources")?, arguments.next().context("no sfi")?);
    let only: Vec<String> = arguments.collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let work = Path::new(&sources).join("bench");
    let mut rows = Vec::new();
    println!(
        "| program | native ms | write | full | write, -ffixed-r15 | full, -ffixed-r15 | text, write | text, full | text, write, -ffixed-r15 | text, full, -ffixed-r15 |"
    );
    println!("|{}", " --- |".repeat(2 + 2 * VARIANTS.len()));
    for program in PROGRAMS.iter().filter(|p| only.is_empty() || only.iter().any(|o| o == p.0)) {
        let work = work.join(program.0);
        std::fs::create_dir_all(&work)?;
        let row = measure(program, Path::new(&sources), &here, Path::new(&sfi), &work).context(program.0)?;
        let cells: Vec<String> = row.iter().skip(1).map(|r| format!("{r:.3}")).collect();
        println!("| {} | {:.1} | {} |", program.0, row[0], cells.join(" | "));
        rows.push(row);
    }
    let mean = |i: usize| (rows.iter().map(|r: &Vec<f64>| r[i].ln()).sum::<f64>() / rows.len() as f64).exp();
    let cells: Vec<String> = (1..=2 * VARIANTS.len()).map(|i| format!("{:.3}", mean(i))).collect();
    println!("| geometric mean | | {} |", cells.join(" | "));
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
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
        let path = source.join(file);
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

/// Returns the native milliseconds of one call of `work`, four ratios of time, and four of text.
fn measure(program: &Program, sources: &Path, here: &Path, sfi: &Path, work: &Path) -> anyhow::Result<Vec<f64>> {
    let (_, package, _, flags) = *program;
    let source = sources.join(package);
    let compile = |file: &Path, object: &Path, extra: &[String]| {
        let mut command = Command::new(COMPILER);
        command.args(["-O2", "-w", "-fPIE", "-fno-asynchronous-unwind-tables", "-I"]).arg(here).arg("-I").arg(&source);
        command.args(flags.iter().map(|f| f.replace("{src}", &source.display().to_string())));
        run(command.args(extra).arg("-c").arg(file).arg("-o").arg(object)).map(drop)
    };
    let mut objects: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    let mut harness: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for (kind, extra) in [("stock", None), ("fixed", Some("-ffixed-r15".to_owned()))] {
        for (number, file) in sources_of(program, &source, here)?.iter().enumerate() {
            let object = work.join(format!("{kind}-{number}.o"));
            compile(file, &object, extra.as_slice())?;
            objects.entry(kind).or_default().push(object);
        }
        for name in ["main", "heap"] {
            let object = work.join(format!("{kind}-{name}.o"));
            compile(&here.join(name).with_extension("c"), &object, extra.as_slice())?;
            harness.entry(kind).or_default().push(object);
        }
    }
    let mut text_ratios = Vec::new();
    for (kind, mode) in VARIANTS {
        let (mut before, mut after) = (0, 0);
        for (stock, object) in objects["stock"].iter().zip(&objects[kind]) {
            let rewritten = work.join("rewritten.o");
            run(Command::new(sfi).args(["rewrite", "--mode", mode]).arg(object).arg("-o").arg(&rewritten))?;
            before += text(stock)?;
            after += text(&rewritten)?;
        }
        text_ratios.push(after as f64 / before as f64);
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); 1 + VARIANTS.len()];
    let mut sums = Vec::new();
    let mut repeat = None;
    for shift in SHIFTS {
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
        let mut built = Vec::new();
        for (kind, mode) in VARIANTS {
            let to = work.join(format!("{kind}-{mode}"));
            let mut command = Command::new(sfi);
            command.env("SFI_MODE", mode).arg("cc").arg(&shifted).args(&objects[kind]).args(&harness[kind]);
            run(command.arg("-o").arg(&to))?;
            built.push(to);
        }
        let repeat = match repeat {
            Some(repeat) => repeat,
            None => *repeat.insert((ROUND / rounds(&mut Command::new(&native), 1)?.nanoseconds).ceil() as u64),
        };
        for index in 0..=VARIANTS.len() {
            let result = if index == 0 {
                rounds(&mut Command::new(&native), repeat)?
            } else {
                let mode = VARIANTS[index - 1].1;
                rounds(Command::new(sfi).args(["run", "--mode", mode]).arg(&built[index - 1]).arg("--"), repeat)?
            };
            times[index].push(result.nanoseconds);
            sums.push(result.sum);
        }
    }
    sums.dedup();
    ensure!(sums.len() == 1, "the variants compute different sums: {sums:?}");
    let medians: Vec<f64> = times.iter_mut().map(|t| median(t)).collect();
    let mut row = vec![medians[0] / 1e6];
    row.extend(medians[1..].iter().map(|m| m / medians[0]));
    row.extend(text_ratios);
    Ok(row)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the bytes of code in an object.
fn text(path: &Path) -> anyhow::Result<u64> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    Ok(file.sections().filter(|s| s.kind() == SectionKind::Text).map(|s| s.size()).sum())
}
