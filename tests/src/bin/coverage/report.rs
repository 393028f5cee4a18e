//! The table, the totals and the bars.

use crate::Sum;
use crate::measure::Archive;
use crate::measured;
use sfi_contract::Mode;
use sfi_rewriter::Reason;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Least share of all objects that must be rewritten, in percent.
const ALL: f64 = 99.0;
/// Least share without the packages of [`NUMERIC`], in percent.
const REST: f64 = 98.0;
/// Packages with thousands of objects from a Fortran compiler, which would hide the others in the
/// totals.
const NUMERIC: [&str; 5] = ["libblas-dev", "liblapack-dev", "libopenblas-pthread-dev", "libfftw3-dev", "libgsl-dev"];
/// Packages of which every object must be rewritten.
const WHOLE: [&str; 9] = [
    "zlib1g-dev",
    "libbz2-dev",
    "liblua5.4-dev",
    "libsqlite3-dev",
    "libyaml-dev",
    "libjansson-dev",
    "libogg-dev",
    "libvorbis-dev",
    "libpng-dev",
];
/// Least number of packages, and of objects rewritten twice, in a whole run.
const PACKAGES: usize = 40;
const REPEATED: usize = 3;

pub const HEADER: &str = "\
| package | archive | objects | rewritten | % | refused | verified | proved | s | text |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

pub struct Report {
    pub mode: Mode,
    pub packages: Vec<(String, String)>,
    lines: Vec<String>,
    figures: Vec<measured::Archive>,
    pub all: Sum,
    rest: Sum,
    /// Without the packages of OCaml.
    pub without_ocaml: Sum,
    whole: BTreeMap<&'static str, Sum>,
    pub reasons: BTreeMap<Reason, usize>,
    refused: Vec<String>,
    unproved: Vec<String>,
    defects: Vec<String>,
    /// Name, value, bar, whether it is met.
    bars: Vec<(String, String, bool)>,
}

impl Report {
    pub fn new(mode: Mode) -> Report {
        Report {
            mode,
            packages: Vec::new(),
            lines: Vec::new(),
            figures: Vec::new(),
            all: Sum::default(),
            rest: Sum::default(),
            without_ocaml: Sum::default(),
            whole: BTreeMap::new(),
            reasons: BTreeMap::new(),
            refused: Vec::new(),
            unproved: Vec::new(),
            defects: Vec::new(),
            bars: Vec::new(),
        }
    }

    pub fn package(&mut self, name: &str, version: &str) {
        self.packages.push((name.to_owned(), version.to_owned()));
    }

    /// Adds an archive and returns its line of the table.
    pub fn line(&self, package: &str, archive: &Archive) -> String {
        let reasons: Vec<String> = archive.reasons.iter().map(|(r, n)| format!("{n} {}", short(*r))).collect();
        format!(
            "| {package} | {} | {} | {} | {:.1} | {} | {} | {} | {:.2} | {} |",
            archive.name,
            archive.objects,
            archive.rewritten,
            100.0 * archive.rewritten as f64 / archive.objects.max(1) as f64,
            reasons.join(", "),
            archive.verified,
            archive.proved,
            archive.seconds,
            ratio(archive.text_in, archive.text_out),
        )
    }

    pub fn add(&mut self, package: &str, archive: Archive) {
        self.lines.push(self.line(package, &archive));
        self.figures.push(figures(package, &archive));
        self.all.add(&archive);
        if !NUMERIC.contains(&package) {
            self.rest.add(&archive);
        }
        if !package.ends_with("-ocaml-dev") {
            self.without_ocaml.add(&archive);
        }
        if let Some(name) = WHOLE.into_iter().find(|name| *name == package) {
            self.whole.entry(name).or_default().add(&archive);
        }
        for (reason, count) in &archive.reasons {
            *self.reasons.entry(*reason).or_default() += count;
        }
        for (member, text) in &archive.refused {
            self.refused.push(format!("{package} {}({member}): {text}", archive.name));
        }
        for (member, place) in &archive.unproved {
            self.unproved.push(format!("{package} {}({member}): {place}", archive.name));
        }
        self.defects.extend(archive.defects);
    }

    /// Compares the sums with the bars, prints them, and says whether all bars are met.
    pub fn finish(&mut self, whole_run: bool) -> bool {
        let mut bars = Vec::new();
        let mut bar = |what: String, value: String, met: bool| bars.push((what, value, met));
        let counts = |sum: &Sum| format!("{} of {} ({:.2}%)", sum.rewritten, sum.objects, sum.share());
        if whole_run {
            bar(format!("all objects: {ALL}%"), counts(&self.all), self.all.share() >= ALL);
            let what = format!("without BLAS, LAPACK, FFTW, GSL: {REST}%");
            bar(what, counts(&self.rest), self.rest.share() >= REST);
            let packages = self.packages.len();
            bar(format!("packages: {PACKAGES}"), packages.to_string(), packages >= PACKAGES);
            let repeated = self.all.repeated;
            let what = format!("objects rewritten twice, the same bytes: {REPEATED}");
            bar(what, repeated.to_string(), repeated >= REPEATED);
            for name in WHOLE {
                let sum = self.whole.get(name);
                let met = sum.is_some_and(|s| s.objects > 0 && s.rewritten == s.objects);
                bar(format!("{name}: 100%"), sum.map_or("absent".into(), counts), met);
            }
        }
        let all = format!("{} of {}", self.all.verified, self.all.rewritten);
        bar("every rewritten object verifies".into(), all, self.defects.is_empty());
        let proved = format!("{} of {}", self.all.proved, self.all.rewritten);
        bar("no rewritten object is wrong; proved".into(), proved, self.defects.is_empty());
        for defect in &self.defects {
            println!("defect: {defect}");
        }
        for (what, value, met) in &bars {
            println!("{}: {what}: {value}", if *met { "met" } else { "MISSED" });
        }
        println!(
            "text {}, {:.1} s, {:.2} s for 1,000 objects",
            ratio(self.all.text_in, self.all.text_out),
            self.all.seconds,
            1000.0 * self.all.seconds / self.all.objects.max(1) as f64
        );
        let passed = bars.iter().all(|(_, _, met)| *met);
        self.bars = bars;
        passed
    }

    /// Lists every refused object, one on a line.
    pub fn refused(&self) -> String {
        self.refused.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Lists every rewritten object that is not proved, one a line.
    pub fn unproved(&self) -> String {
        self.unproved.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Returns the figures, with those of archives if wanted.
    pub fn sums(&self, with_archives: bool) -> measured::Sums {
        let all = &self.all;
        measured::Sums {
            mode: self.mode.name().to_owned(),
            objects: all.objects,
            rewritten: all.rewritten,
            verified: all.verified,
            proved: Some(all.proved),
            refused: codes(&self.reasons),
            seconds: measured::rounded(all.seconds, 1),
            text: shown(all.text_in, all.text_out),
            archives: if with_archives { self.figures.clone() } else { Vec::new() },
        }
    }

    /// Writes the sums of finished runs in other modes.
    fn others(others: &[Report], out: &mut String) {
        if others.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "\n## Other modes\n\nThe same archives and bars.\n\n| mode | all | without BLAS, LAPACK, FFTW, GSL | verified | proved | missed bars | refused | s | text |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        );
        for report in others {
            let (all, rest) = (&report.all, &report.rest);
            let reasons: Vec<String> = report.reasons.iter().map(|(r, n)| format!("{n} {}", short(*r))).collect();
            let _ = writeln!(
                out,
                "| {} | {} of {} ({:.2}%) | {} of {} ({:.2}%) | {} | {} | {} | {} | {:.1} | {} |",
                report.mode,
                all.rewritten,
                all.objects,
                all.share(),
                rest.rewritten,
                rest.objects,
                rest.share(),
                all.verified,
                all.proved,
                report.bars.iter().filter(|(_, _, met)| !met).count(),
                reasons.join(", "),
                all.seconds,
                ratio(all.text_in, all.text_out)
            );
        }
    }

    /// Returns the report of a finished run, and the sums of runs in other modes.
    pub fn markdown(&self, others: &[Report]) -> String {
        let mut out = String::from(
            "# Coverage\n\n\
             `cargo xtask coverage --write` measures how many objects of Debian's static archives `sfi rewrite`\n\
             rewrites as they are.\n\n\
             - The reasons are those of [REFUSALS.md](REFUSALS.md). An object counts under the first one found.\n\
             - Members that are no objects for x86-64 do not count.\n\
             - *s*: wall clock of rewriting, proving and verifying.\n\
             - *text*: bytes of code after rewriting, divided by those before.\n",
        );
        let _ = write!(out, "\nMode {}.\n\n| bar | measured | |\n| --- | --- | --- |\n", self.mode);
        for (what, value, met) in &self.bars {
            let _ = writeln!(out, "| {what} | {value} | {} |", if *met { "met" } else { "**missed**" });
        }
        let threads = rayon::current_num_threads();
        let _ = writeln!(
            out,
            "\n{} objects in {:.1} s on {threads} threads{}; text {}.",
            self.all.objects,
            self.all.seconds,
            if cfg!(debug_assertions) { " (development build)" } else { "" },
            ratio(self.all.text_in, self.all.text_out)
        );
        let _ = write!(out, "\n## Refused, by reason\n\n| code | objects | reason |\n| --- | --- | --- |\n");
        for (reason, count) in &self.reasons {
            let _ = writeln!(out, "| {} | {count} | {} |", reason.id(), reason.title());
        }
        Report::others(others, &mut out);
        let _ = write!(out, "\n## By archive\n\n{HEADER}\n");
        for line in &self.lines {
            let _ = writeln!(out, "{line}");
        }
        let _ = write!(out, "\n## Packages\n\n");
        for (name, version) in &self.packages {
            let _ = writeln!(out, "- {name} {version}");
        }
        out
    }
}

/// Returns a short code such as `W03`.
pub fn short(reason: Reason) -> &'static str {
    reason.id().strip_prefix("SFI-").unwrap_or(reason.id())
}

/// Returns the figures of an archive.
fn figures(package: &str, archive: &Archive) -> measured::Archive {
    measured::Archive {
        package: package.to_owned(),
        archive: archive.name.clone(),
        objects: archive.objects,
        rewritten: archive.rewritten,
        verified: archive.verified,
        proved: Some(archive.proved),
        refused: codes(&archive.reasons),
        seconds: measured::rounded(archive.seconds, 2),
        text: shown(archive.text_in, archive.text_out),
    }
}

fn codes(reasons: &BTreeMap<Reason, usize>) -> BTreeMap<String, usize> {
    reasons.iter().map(|(reason, count)| (reason.id().to_owned(), *count)).collect()
}

/// Returns the ratio that the table shows.
fn shown(before: u64, after: u64) -> Option<f64> {
    (before > 0).then(|| measured::rounded(after as f64 / before as f64, 3))
}

fn ratio(before: u64, after: u64) -> String {
    if before == 0 { "-".to_owned() } else { format!("{:.3}", after as f64 / before as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are those of the table.
    #[test]
    fn figures_are_those_of_the_table() {
        let archive = Archive {
            name: "l.a".to_owned(),
            objects: 7,
            rewritten: 5,
            verified: 5,
            proved: 4,
            reasons: [(Reason::NoSafeForm, 2)].into(),
            seconds: 1.234,
            text_in: 3,
            text_out: 4,
            ..Archive::default()
        };
        let mut report = Report::new(Mode::Write);
        report.package("p", "1");
        let line = report.line("p", &archive);
        report.add("p", archive);
        let sums = report.sums(true);
        let a = &sums.archives[0];
        let text = format!(
            "| {} | {} | {} | {} | 71.4 | {} {} | {} | {} | {} | {} |",
            a.package,
            a.archive,
            a.objects,
            a.rewritten,
            a.refused["SFI-W03"],
            "W03",
            a.verified,
            a.proved.unwrap_or(0),
            a.seconds,
            a.text.unwrap_or(0.0)
        );
        assert_eq!(line, text);
        assert_eq!((sums.mode.as_str(), sums.objects, sums.text), ("write", 7, Some(1.333)));
        assert!(report.sums(false).archives.is_empty());
    }
}
