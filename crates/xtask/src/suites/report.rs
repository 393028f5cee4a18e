//! The document of the suites.

use super::packages::Suite;
use super::results::{self, Outcome};
use super::side;
use std::fmt::Write;

/// The results of a package on both sides, or the reason why there are none.
pub struct Row {
    /// The package.
    pub suite: &'static Suite,
    /// The version of its sources.
    pub version: String,
    /// The day of the run.
    pub date: String,
    /// The native side and the domain's.
    pub sides: Result<[side::Outcome; 2], String>,
}

/// A difference that no reason explains.
pub struct Difference<'a> {
    /// The package.
    pub package: &'a str,
    /// The test.
    pub test: String,
    /// The outcome in a domain.
    pub outcome: Option<Outcome>,
}

impl Row {
    /// Returns the differences with known reasons, and the others.
    pub fn differences(&self) -> (Vec<(String, &'static str)>, Vec<Difference<'static>>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        if let Ok([native, domain]) = &self.sides {
            for (test, outcome) in results::differences(&native.results, &domain.results) {
                match self.suite.known.iter().copied().flatten().find(|entry| entry.test == test) {
                    Some(entry) => known.push((test, entry.why)),
                    None => unknown.push(Difference { package: self.suite.package, test, outcome }),
                }
            }
        }
        (known, unknown)
    }
}

/// Returns the outcome of a test in a word.
pub fn word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Pass) => "passes",
        Some(Outcome::Fail) => "fails",
        Some(Outcome::Skip) => "is skipped",
        None => "does not run",
    }
}

/// Writes the document.
pub fn document(rows: &[Row]) -> String {
    let mut out = String::from(HEAD);
    let mut totals = [0; 4];
    for row in rows {
        let package = row.suite.package;
        let Ok([native, domain]) = &row.sides else {
            let _ = writeln!(out, "| {package} | {} | {} | not built | | | | |", row.version, row.date);
            continue;
        };
        let (known, unknown) = row.differences();
        let passed = [native, domain].map(|side| results::count(&side.results, Outcome::Pass));
        for (total, more) in totals.iter_mut().zip([passed[0], passed[1], known.len() as u64, unknown.len() as u64]) {
            *total += more;
        }
        let side = |side: &side::Outcome| {
            let counted = [Outcome::Pass, Outcome::Fail, Outcome::Skip].map(|o| results::count(&side.results, o));
            let cut = if side.cut { " (time limit)" } else { "" };
            format!("{} / {} / {}{cut}", counted[0], counted[1], counted[2])
        };
        let seconds = |side: &side::Outcome| format!("{:.0}", side.time.as_secs_f64());
        let _ = writeln!(
            out,
            "| {package} | {} | {} | {} | {} | {} | {} | {} / {} |",
            row.version,
            row.date,
            side(native),
            side(domain),
            known.len(),
            unknown.len(),
            seconds(native),
            seconds(domain)
        );
    }
    let _ = writeln!(
        out,
        "\n{} tests pass natively, and {} in domains. {} differ by design, and {} otherwise.",
        totals[0], totals[1], totals[2], totals[3]
    );
    lists(&mut out, rows);
    out
}

/// Writes the tests that differ, and the packages that were not built.
fn lists(out: &mut String, rows: &[Row]) {
    let known: Vec<_> = rows.iter().flat_map(|row| row.differences().0.into_iter().map(move |d| (row, d))).collect();
    if !known.is_empty() {
        out.push_str("\n## Known differences\n\n| package | test | why |\n| --- | --- | --- |\n");
        for (row, (test, why)) in known {
            let _ = writeln!(out, "| {} | {test} | {why} |", row.suite.package);
        }
    }
    let unknown: Vec<_> = rows.iter().flat_map(|row| row.differences().1).collect();
    if !unknown.is_empty() {
        out.push_str("\n## Other differences\n\n| package | test | in a domain |\n| --- | --- | --- |\n");
        for Difference { package, test, outcome } in unknown {
            let _ = writeln!(out, "| {package} | {test} | {} |", word(outcome));
        }
    }
    let broken: Vec<_> = rows.iter().filter_map(|row| Some((row.suite.package, row.sides.as_ref().err()?))).collect();
    if !broken.is_empty() {
        out.push_str("\n## Not built\n\n");
        for (package, why) in broken {
            let _ = writeln!(out, "- {package}: {why}");
        }
    }
}

const HEAD: &str = "\
# Test suites of other projects

`cargo xtask suites --write` builds packages of the distribution from their sources and runs their
own tests (`make check`), natively and in domains. Both sides use the distribution's musl, gcc at
-O2, and no shared libraries. In domains each program of a suite is rewritten, proved and verified,
and runs with `--build-tree --program /bin/sh --net loopback --threads 16`.

- *pass / fail / skip*: the numbers of tests. Expected failures pass.
- *by design*: tests that pass natively and cannot in a domain. The reasons stand below.
- *other*: all other tests that pass natively and do not in a domain.
- *s*: wall clock of `make check`, natively and in domains.

| package | version | date | native: pass / fail / skip | domain: pass / fail / skip | by design | other | s |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::super::packages::SUITES;
    use super::super::results::{Format, read};
    use super::*;
    use std::time::Duration;

    fn side(output: &str) -> side::Outcome {
        let results = read(output, Format::Lines, "/b", !output.contains("FAIL"));
        side::Outcome { results, time: Duration::from_secs(2), cut: false }
    }

    #[test]
    fn each_difference_is_listed() {
        let sides = Ok([side("PASS: a\nPASS: b\n"), side("PASS: a\nFAIL: b\n")]);
        let good = Row { suite: &SUITES[0], version: "1.0".into(), date: "2026-11-23".into(), sides };
        let bad =
            Row { suite: &SUITES[1], version: "2.0".into(), date: String::new(), sides: Err("`make` failed".into()) };
        let (known, unknown) = good.differences();
        assert_eq!((known.len(), unknown.len()), (0, 1));
        let text = document(&[good, bad]);
        let package = SUITES[0].package;
        assert!(
            text.contains(&format!("| {package} | 1.0 | 2026-11-23 | 2 / 0 / 0 | 1 / 1 / 0 | 0 | 1 | 2 / 2 |")),
            "{text}"
        );
        assert!(text.contains(&format!("| {package} | b | fails |")), "{text}");
        assert!(
            text.contains("2 tests pass natively, and 1 in domains. 0 differ by design, and 1 otherwise."),
            "{text}"
        );
        assert!(text.contains(&format!("- {}: `make` failed", SUITES[1].package)), "{text}");
    }
}
