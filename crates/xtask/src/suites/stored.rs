//! Results of earlier runs, kept as text beside the builds. So a run of some packages keeps the
//! results of the others. Tabs separate the fields.
//!
//! ```text
//! jansson
//! version    2.14-2
//! date    2026-11-23
//! side    native    12    whole
//! Pass    1    test/run-suites
//! side    domain    14    whole
//! Fail    1    test/run-suites
//! ```

use super::packages::Suite;
use super::report::Row;
use super::results::{Entry, Outcome, Results};
use super::side;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Keeps a row in a directory. A package that was not built replaces no earlier row.
///
/// # Errors
/// The file cannot be written.
pub fn keep(directory: &Path, row: &Row) -> std::io::Result<()> {
    match text(row) {
        Some(text) => fs::write(directory.join(format!("{}.results", row.suite.package)), text),
        None => Ok(()),
    }
}

/// Returns the row of an earlier run, if there is one.
pub fn earlier(directory: &Path, suite: &'static Suite) -> Option<Row> {
    parse(suite, &fs::read_to_string(directory.join(format!("{}.results", suite.package))).ok()?)
}

fn text(row: &Row) -> Option<String> {
    let sides = row.sides.as_ref().ok()?;
    let mut out = format!("{}\nversion\t{}\ndate\t{}\n", row.suite.package, row.version, row.date);
    for (side, name) in sides.iter().zip(["native", "domain"]) {
        let end = if side.cut { "cut" } else { "whole" };
        let _ = writeln!(out, "side\t{name}\t{}\t{end}", side.time.as_secs());
        for (test, Entry { outcome, tests }) in &side.results {
            let _ = writeln!(out, "{outcome:?}\t{tests}\t{test}");
        }
    }
    Some(out)
}

fn parse(suite: &'static Suite, text: &str) -> Option<Row> {
    let (mut version, mut date) = (String::new(), String::new());
    let mut sides: Vec<side::Outcome> = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        match fields[..] {
            ["version", is] => is.clone_into(&mut version),
            ["date", is] => is.clone_into(&mut date),
            ["side", _, seconds, end] => sides.push(side::Outcome {
                results: Results::new(),
                time: Duration::from_secs(seconds.parse().ok()?),
                cut: end == "cut",
            }),
            [outcome, tests, test] => {
                let outcome =
                    [Outcome::Pass, Outcome::Fail, Outcome::Skip].into_iter().find(|o| format!("{o:?}") == outcome)?;
                let entry = Entry { outcome, tests: tests.parse().ok()? };
                sides.last_mut()?.results.insert(test.to_owned(), entry);
            }
            _ => return None,
        }
    }
    let sides = <[side::Outcome; 2]>::try_from(sides).ok()?;
    Some(Row { suite, version, date, sides: Ok(sides) })
}

#[cfg(test)]
mod tests {
    use super::super::packages::SUITES;
    use super::super::results::{Format, read};
    use super::*;

    #[test]
    fn a_row_comes_back() {
        let side = |output: &str, cut: bool| side::Outcome {
            results: read(output, Format::Lines, "/b", !cut),
            time: Duration::from_secs(7),
            cut,
        };
        let sides = Ok([side("PASS: a\nSKIP: b c\n", false), side("PASS: a\nFAIL: b c\n", true)]);
        let row = Row { suite: &SUITES[0], version: "1.0".into(), date: "2026-11-23".into(), sides };
        let text = text(&row).expect("text");
        let again = parse(&SUITES[0], &text).expect("a row");
        assert_eq!(super::text(&again).as_ref(), Some(&text));
        let [native, domain] = again.sides.expect("sides");
        assert!(!native.cut && domain.cut);
        assert_eq!(domain.results["b c"], Entry { outcome: Outcome::Fail, tests: 1 });
        assert!(parse(&SUITES[0], "jansson\nnonsense\n").is_none());
    }
}
