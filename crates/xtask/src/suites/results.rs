//! Results of a test suite, read from the output of `make check`.

use std::collections::BTreeMap;

/// The way in which a suite reports its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for each test: `PASS: name`. Automake's suites have it, and many others.
    Lines,
    /// Nothing but the exit status.
    Exit,
}

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded, or failed as its authors expect.
    Pass,
    /// It failed.
    Fail,
    /// It did not run, because something was missing.
    Skip,
}

/// A test or a group of tests with one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The outcome.
    pub outcome: Outcome,
    /// The number of tests.
    pub tests: u64,
}

/// The tests of one run, by directory and name.
pub type Results = BTreeMap<String, Entry>;

/// The test that stands for the exit status of `make check`.
pub const WHOLE: &str = "make check";

/// Reads the output of `make check`. `root` is the directory of the build, which the names of
/// subdirectories leave out. `success`: the exit status was 0.
pub fn read(output: &str, format: Format, root: &str, success: bool) -> Results {
    let mut results = Results::new();
    let mut directory = String::new();
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        // A title in the logs of tests that did not pass, which automake prints once more.
        if lines.peek().is_some_and(|next| next.len() == line.len() && next.bytes().all(|byte| byte == b'=')) {
            continue;
        }
        if let Some(entered) = entered(line) {
            let below = entered.strip_prefix(root).unwrap_or(entered).trim_start_matches('/');
            directory = if below.is_empty() { String::new() } else { format!("{below}/") };
        }
        let found = match format {
            Format::Lines => result_line(line).map(|(outcome, name)| (format!("{directory}{name}"), outcome)),
            Format::Exit => None,
        };
        if let Some((name, outcome)) = found {
            add(&mut results, name, Entry { outcome, tests: 1 });
        }
    }
    let outcome = if success { Outcome::Pass } else { Outcome::Fail };
    let tests = u64::from(format == Format::Exit);
    results.insert(WHOLE.to_owned(), Entry { outcome, tests });
    results
}

/// Adds a result under a name that no other has. Suites run a test again with other arguments.
fn add(results: &mut Results, name: String, entry: Entry) {
    let mut unique = name.clone();
    let mut number = 1;
    while results.contains_key(&unique) {
        number += 1;
        unique = format!("{name} ({number})");
    }
    results.insert(unique, entry);
}

/// Returns the directory of `make[2]: Entering directory '/path'`.
fn entered(line: &str) -> Option<&str> {
    let (_, path) = line.strip_prefix("make")?.split_once(": Entering directory ")?;
    path.trim().strip_prefix(['\'', '`'])?.strip_suffix('\'')
}

/// Returns the outcome and the name of `PASS: name`. A suite may leave out the space or add a
/// program's exit status: `FAIL: name (exit status: 1)`.
fn result_line(line: &str) -> Option<(Outcome, &str)> {
    let (word, name) = line.split_once(':')?;
    let outcome = match word {
        "PASS" | "XFAIL" => Outcome::Pass,
        "FAIL" | "XPASS" | "ERROR" => Outcome::Fail,
        "SKIP" => Outcome::Skip,
        _ => return None,
    };
    let name = name.split_once(" (exit status").map_or(name, |(name, _)| name).trim();
    // The summary of a suite has the same words: `PASS:  12`.
    (!name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit())).then_some((outcome, name))
}

/// Returns the outcome of a test in words. `None`: the suite ended before it.
pub fn word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Pass) => "passes",
        Some(Outcome::Fail) => "fails",
        Some(Outcome::Skip) => "is skipped",
        None => "does not run",
    }
}

/// Counts the tests of an outcome.
pub fn count(results: &Results, outcome: Outcome) -> u64 {
    results.values().filter(|entry| entry.outcome == outcome).map(|entry| entry.tests).sum()
}

/// Returns the tests that pass natively and do not pass in a domain, with the outcome there. A test
/// that is absent did not run, because the suite ended before it.
pub fn differences(native: &Results, domain: &Results) -> Vec<(String, Option<Outcome>)> {
    let mut list = Vec::new();
    for (name, entry) in native {
        let other = domain.get(name).map(|entry| entry.outcome);
        if entry.outcome == Outcome::Pass && other != Some(Outcome::Pass) {
            list.push((name.clone(), other));
        }
    }
    // A failed test makes the whole fail, and says more.
    if list.len() > 1 {
        list.retain(|(name, _)| name != WHOLE);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
make[2]: Entering directory '/b/gmp/tests/mpn'
PASS: t-add
FAIL: t-div (exit status: 139)
SKIP: t-fat
# PASS:  1
PASS:  12
PASSED everything
make[2]: Leaving directory '/b/gmp/tests/mpn'
make[2]: Entering directory '/b/gmp/tests/mpz'
XFAIL: t-add
PASS: t-add
XPASS: t-gone
make[2]: Entering directory '/b/gmp'
FAIL: last
==========
ERROR: last
=====
";

    #[test]
    fn lines_are_read_with_their_directories() {
        let results = read(LINES, Format::Lines, "/b/gmp", false);
        let outcome = |name: &str| results.get(name).map(|entry| entry.outcome);
        assert_eq!(outcome("tests/mpn/t-add"), Some(Outcome::Pass));
        assert_eq!(outcome("tests/mpn/t-div"), Some(Outcome::Fail));
        assert_eq!(outcome("tests/mpn/t-fat"), Some(Outcome::Skip));
        assert_eq!(outcome("tests/mpz/t-add"), Some(Outcome::Pass));
        assert_eq!(outcome("tests/mpz/t-add (2)"), Some(Outcome::Pass));
        assert_eq!(outcome("tests/mpz/t-gone"), Some(Outcome::Fail));
        assert_eq!(outcome("last"), Some(Outcome::Fail));
        assert_eq!(outcome(WHOLE), Some(Outcome::Fail));
        assert_eq!(results.len(), 8, "{results:?}");
        assert_eq!((count(&results, Outcome::Pass), count(&results, Outcome::Fail)), (3, 3));
    }

    #[test]
    fn an_exit_status_is_a_test() {
        let results = read("PASS: nothing\n", Format::Exit, "/b", true);
        assert_eq!(results, Results::from([(WHOLE.to_owned(), Entry { outcome: Outcome::Pass, tests: 1 })]));
    }

    #[test]
    fn only_what_passes_natively_can_differ() {
        let native = read("PASS: a\nPASS: b\nFAIL: c\nPASS: d\nSKIP: e\n", Format::Lines, "/b", true);
        let domain = read("PASS: a\nFAIL: b\nFAIL: c\nSKIP: d\nFAIL: e\n", Format::Lines, "/b", false);
        let expected = [("b".to_owned(), Some(Outcome::Fail)), ("d".to_owned(), Some(Outcome::Skip))];
        assert_eq!(differences(&native, &domain), expected);
        let cut = read("PASS: a\n", Format::Lines, "/b", false);
        assert_eq!(differences(&native, &cut), [("b".to_owned(), None), ("d".to_owned(), None)]);
        let broken = read("PASS: a\nPASS: b\nPASS: d\n", Format::Lines, "/b", false);
        assert_eq!(differences(&native, &broken), [(WHOLE.to_owned(), Some(Outcome::Fail))]);
        assert_eq!(differences(&native, &native), []);
    }
}
