//! Rewrites, proves and verifies every member of the static archives below some directories
//! (`package=version`), and reports the result. `cargo xtask coverage` fetches the directories and
//! runs it.
//!
//! One archive is in memory at a time. Data flows one way: [`measure`] → [`report`] → [`drawn`].

mod drawn;
mod measure;
#[path = "../../../../crates/xtask/src/measured.rs"]
#[allow(dead_code, reason = "the plots use other parts")]
mod measured;
mod report;

use anyhow::Context;
use clap::Parser;
use measure::Archive;
use report::Report;
use sfi_contract::Mode;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures the share of a set of static archives that can be rewritten.
#[derive(Parser)]
struct Args {
    /// Sandbox modes; the report covers the first and sums up the others
    #[arg(long, default_value = "write", value_delimiter = ',')]
    mode: Vec<Mode>,
    /// Write the report to this file, as Markdown
    #[arg(long)]
    report: Option<PathBuf>,
    /// Write the figures to this file, for plots
    #[arg(long)]
    json: Option<PathBuf>,
    /// Directory in which to list every refused and every unproved object, files for each mode
    #[arg(long)]
    refused: Option<PathBuf>,
    /// The directories are a part of the set: hold no bar against the totals
    #[arg(long)]
    part: bool,
    /// The directories were drawn by this seed: write that part of the report
    #[arg(long, requires = "part")]
    seed: Option<u64>,
    /// Directories named `package=version`
    trees: Vec<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut reports = Vec::new();
    let mut passed = true;
    for &mode in &args.mode {
        println!("mode {mode}");
        let mut report = measure_all(&args.trees, mode)?;
        passed &= report.finish(!args.part);
        if let Some(directory) = &args.refused {
            let path = directory.join(format!("refused-{mode}.txt"));
            std::fs::write(&path, report.refused()).with_context(|| path.display().to_string())?;
            println!("every refused object: {}", path.display());
            let path = directory.join(format!("unproved-{mode}.txt"));
            std::fs::write(&path, report.unproved()).with_context(|| path.display().to_string())?;
            println!("every unproved object: {}", path.display());
        }
        reports.push(report);
    }
    if let (Some(path), None) = (&args.json, args.seed) {
        let archives = reports.iter().enumerate().map(|(number, report)| report.sums(number == 0)).collect();
        let figures = measured::Coverage { schema: measured::SCHEMA, modes: archives };
        std::fs::write(path, measured::write(&figures)?).with_context(|| path.display().to_string())?;
    }
    if let (Some(path), Some((first, others))) = (&args.report, reports.split_first()) {
        let before = std::fs::read_to_string(path).unwrap_or_default();
        let text = match args.seed {
            Some(seed) => drawn::add(&before, seed, &reports),
            // The part of drawn packages stays in the report.
            None => first.markdown(others) + drawn::part(&before),
        };
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures all archives below directories in one mode.
fn measure_all(trees: &[PathBuf], mode: Mode) -> anyhow::Result<Report> {
    let mut report = Report::new(mode);
    let mut seen = HashSet::new();
    println!("{}", report::HEADER);
    for tree in trees {
        let name = tree.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let (package, version) = name.split_once('=').context("directories are named `package=version`")?;
        report.package(package, version);
        let mut paths = Vec::new();
        archives(tree, &mut paths)?;
        paths.sort();
        for path in paths {
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            // An archive with two names counts once. Linker scripts are no archives.
            if bytes.starts_with(b"!<arch>\n") && seen.insert(measure::digest(&bytes)) {
                let archive = measure::archive(&path, &bytes, mode)?;
                if archive.objects + archive.foreign > 0 {
                    println!("{}", report.line(package, &archive));
                    report.add(package, archive);
                }
            }
        }
    }
    Ok(report)
}

/// Collects the regular files whose name ends in `.a`.
fn archives(directory: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            archives(&entry.path(), found)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|e| e == "a") {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// The numbers that are added up over archives.
#[derive(Default)]
struct Sum {
    objects: usize,
    foreign: usize,
    rewritten: usize,
    verified: usize,
    proved: usize,
    repeated: usize,
    seconds: f64,
    text_in: u64,
    text_out: u64,
}

impl Sum {
    fn add(&mut self, archive: &Archive) {
        self.objects += archive.objects;
        self.foreign += archive.foreign;
        self.rewritten += archive.rewritten;
        self.verified += archive.verified;
        self.proved += archive.proved;
        self.repeated += archive.repeated;
        self.seconds += archive.seconds;
        self.text_in += archive.text_in;
        self.text_out += archive.text_out;
    }

    /// Returns the percentage of the objects that were rewritten.
    fn share(&self) -> f64 {
        100.0 * self.rewritten as f64 / self.objects.max(1) as f64
    }
}
