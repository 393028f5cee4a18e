//! The page of the suites, docs/SUITES.md. All of it comes from the descriptions of the packages
//! and from the results of their last runs.

use super::packages::{FLAGS, SUITES};
use super::stored::{Row, Stored, Sums};
use std::fmt::Write;

/// Writes the page.
pub fn document(stored: &Stored) -> String {
    let mut out = HEAD.replace("{flags}", FLAGS);
    let rows = &stored.packages;
    for row in rows {
        let Row { package, version, date, native, domain, .. } = row;
        let other = row.unexplained().count();
        let _ = writeln!(
            out,
            "| {package} | {version} | {date} | {} | {} | {} | {other} | {} / {} |",
            cell(native),
            cell(domain),
            row.differences.len() - other,
            native.seconds,
            domain.seconds,
        );
    }
    let sum = |number: fn(&Row) -> u64| rows.iter().map(number).sum::<u64>();
    let other = sum(|row| row.unexplained().count() as u64);
    let _ = writeln!(
        out,
        "\n{} tests pass natively, and {} in domains. {} differ by design, and {other} otherwise.",
        sum(|row| row.native.pass),
        sum(|row| row.domain.pass),
        sum(|row| row.differences.len() as u64) - other,
    );
    let without = SUITES.iter().filter(|suite| rows.iter().all(|row| row.package != suite.package));
    let without: Vec<&str> = without.map(|suite| suite.package).collect();
    if !without.is_empty() {
        let _ = writeln!(out, "\nDescribed, and without results: {}.", without.join(", "));
    }
    lists(&mut out, rows);
    out
}

/// Writes the lists below the table.
fn lists(out: &mut String, rows: &[Row]) {
    let parts =
        rows.iter().filter_map(|row| Some([&row.package, row.suite()?.part]).filter(|[_, part]| !part.is_empty()));
    table(out, "Suites that run in part", ["package", "what does not run, and why"], parts);
    let flags =
        rows.iter().filter(|row| row.flags != FLAGS).map(|row| [row.package.clone(), format!("`{}`", row.flags)]);
    table(out, "Other flags", ["package", "flags of the last run"], flags);
    let known = rows.iter().flat_map(|row| {
        row.differences.keys().filter_map(|test| Some([row.package.as_str(), test, row.reason(test)?]))
    });
    table(out, "Known differences", ["package", "test", "why"], known);
    let unknown = rows.iter().flat_map(|row| row.unexplained().map(|(test, outcome)| [&row.package, test, outcome]));
    table(out, "Other differences", ["package", "test", "in a domain"], unknown);
}

/// Writes a table below a title, if it has lines.
fn table<T: AsRef<str>, const N: usize>(
    out: &mut String,
    title: &str,
    head: [&str; N],
    lines: impl Iterator<Item = [T; N]>,
) {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let lines: Vec<String> = lines.map(|cells| line(&cells.each_ref().map(AsRef::as_ref))).collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n## {title}\n\n{}{}{}", line(&head), line(&["---"; N]), lines.concat());
    }
}

/// Returns the cell of a side.
fn cell(side: &Sums) -> String {
    let cut = if side.cut { " (time limit)" } else { "" };
    format!("{} / {} / {}{cut}", side.pass, side.fail, side.skip)
}

const HEAD: &str = "\
# Test suites of other projects

`cargo xtask suites --write` builds packages of the distribution from their sources and runs their
own tests (`make check`), natively and in domains. QuickJS comes from a crate, because the
distribution has no package of it. Both sides use the distribution's musl, gcc at -O2, and no shared
libraries. In domains each program of a suite is rewritten, proved and verified, and runs with
`{flags}`.

The command makes this page from the descriptions of the packages (`crates/xtask/src/suites`) and
from the results of their last runs ([suites.json](measured/suites.json)).

- *pass / fail / skip*: the numbers of tests. Expected failures pass.
- *by design*: tests that pass natively and cannot in a domain. The reasons stand below.
- *other*: all other tests that pass natively and do not in a domain.
- *s*: wall clock of the tests, natively and in domains. One run each, often beside other work, so
  the times do not compare.

| package | version | date | native: pass / fail / skip | domain: pass / fail / skip | by design | other | s |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::super::stored::tests::row;
    use super::*;
    use crate::setup;
    use std::collections::BTreeSet;

    #[test]
    fn each_difference_is_listed() {
        let mut cut = row(1, "PASS: a\n", "PASS: a\n");
        (cut.domain.cut, cut.flags) = (true, "--build-tree".to_owned());
        let text = document(&Stored::new(vec![row(0, "PASS: a\nPASS: b\n", "PASS: a\nFAIL: b\n"), cut]));
        let [first, second, third] = [0, 1, 2].map(|suite: usize| SUITES[suite].package);
        for line in [
            format!("| {first} | 1.0 | 2026-11-23 | 2 / 0 / 0 | 1 / 1 / 0 | 0 | 1 | 2 / 2 |"),
            format!("| {first} | b | fails |"),
            format!("| {second} | 1.0 | 2026-11-23 | 1 / 0 / 0 | 1 / 0 / 0 (time limit) | 0 | 0 | 2 / 2 |"),
            format!("| {second} | `--build-tree` |"),
            "3 tests pass natively, and 2 in domains. 0 differ by design, and 1 otherwise.".to_owned(),
            format!("Described, and without results: {third}, "),
        ] {
            assert!(text.contains(&format!("\n{line}")), "{line} is not in\n{text}");
        }
        assert!(!text.contains("Known differences"), "{text}");
    }

    #[test]
    fn known_differences_have_their_reasons() {
        let suite = SUITES.iter().position(|suite| !suite.known.is_empty()).expect("a suite");
        let known = &SUITES[suite].known[0][0];
        let (passes, fails) = (format!("PASS: {}\n", known.test), format!("FAIL: {}\n", known.test));
        let text = document(&Stored::new(vec![row(suite, &passes, &fails)]));
        let line = format!("\n| {} | {} | {} |\n", SUITES[suite].package, known.test, known.why);
        assert!(text.contains(&line) && !text.contains("Other differences"), "{text}");
    }

    #[test]
    fn the_page_is_made_from_the_results() {
        let stored = Stored::read().expect("the results");
        let path = setup::root().expect("the repository").join("docs/SUITES.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, document(&stored)).expect("written");
        }
        let page = std::fs::read_to_string(&path).expect("docs/SUITES.md");
        assert!(page == document(&stored), "docs/SUITES.md differs: write it by BLESS=1 and read the difference");
        let packages: BTreeSet<&str> = stored.packages.iter().map(|row| row.package.as_str()).collect();
        assert_eq!(packages.len(), stored.packages.len(), "a package has two rows");
        assert!(stored.packages.iter().all(|row| row.suite().is_some()), "a row has no suite");
    }

    #[test]
    fn each_reason_explains_a_difference() {
        let stored = Stored::read().expect("the results");
        let differ: BTreeSet<&str> =
            stored.packages.iter().flat_map(|row| row.differences.keys()).map(String::as_str).collect();
        for suite in SUITES {
            for known in suite.known.iter().copied().flatten() {
                assert!(differ.contains(known.test), "{}: {} differs nowhere any more", suite.package, known.test);
            }
        }
    }
}
