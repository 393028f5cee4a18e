//! The results of the last run of each package, in docs/measured/suites.json. A run of some
//! packages replaces theirs and keeps the others.

use super::packages::{SUITES, Suite};
use super::results;
use super::side;
use crate::measured::{self, SCHEMA};
use crate::setup;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The results of all packages.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    #[serde(deserialize_with = "measured::this_form")]
    schema: u32,
    /// In the order of [`SUITES`].
    pub packages: Vec<Row>,
}

/// The results of a package on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub package: String,
    /// The version of its sources.
    pub version: String,
    /// The day of the run.
    pub date: String,
    /// The flags with which programs ran in domains.
    pub flags: String,
    pub native: Sums,
    pub domain: Sums,
    /// Tests that pass natively and do not in a domain, with their outcome there.
    pub differences: BTreeMap<String, String>,
}

/// The numbers of tests of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    pub pass: u64,
    pub fail: u64,
    pub skip: u64,
    /// Wall clock of the tests.
    pub seconds: u64,
    /// The time limit ended the tests.
    pub cut: bool,
}

impl Row {
    /// Returns the row of a run.
    pub fn new(suite: &Suite, version: String, date: String, [native, domain]: &[side::Outcome; 2]) -> Self {
        let differences = results::differences(&native.results, &domain.results).into_iter();
        Row {
            package: suite.package.to_owned(),
            version,
            date,
            flags: suite.flags.to_owned(),
            native: Sums::of(native),
            domain: Sums::of(domain),
            differences: differences.map(|(test, outcome)| (test, results::word(outcome).to_owned())).collect(),
        }
    }

    /// Returns the suite of the package. A test holds that each row has one.
    pub fn suite(&self) -> Option<&'static Suite> {
        SUITES.iter().find(|suite| suite.package == self.package)
    }

    /// Returns the reason why a test differs by design, if there is one.
    pub fn reason(&self, test: &str) -> Option<&'static str> {
        let mut known = self.suite()?.known.iter().copied().flatten();
        known.find(|entry| entry.test == test).map(|entry| entry.why)
    }

    /// Returns the differences that no reason explains, with the outcome in a domain.
    pub fn unexplained(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.differences.iter().filter(|(test, _)| self.reason(test).is_none());
        all.map(|(test, outcome)| (test.as_str(), outcome.as_str()))
    }
}

impl Sums {
    fn of(side: &side::Outcome) -> Self {
        let count = |outcome| results::count(&side.results, outcome);
        Sums {
            pass: count(results::Outcome::Pass),
            fail: count(results::Outcome::Fail),
            skip: count(results::Outcome::Skip),
            seconds: side.time.as_secs_f64().round() as u64,
            cut: side.cut,
        }
    }
}

impl Stored {
    /// Returns results, in the order of [`SUITES`].
    pub fn new(mut packages: Vec<Row>) -> Self {
        let place = |row: &Row| SUITES.iter().position(|suite| suite.package == row.package);
        packages.sort_by_key(place);
        Self { schema: SCHEMA, packages }
    }

    /// Reads the results of the last runs.
    ///
    /// # Errors
    /// The file is missing, or has another form.
    pub fn read() -> anyhow::Result<Self> {
        let path = path()?;
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        measured::read(&text).with_context(|| path.display().to_string())
    }

    /// Writes the results.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let path = path()?;
        std::fs::write(&path, measured::write(self)?).with_context(|| path.display().to_string())
    }

    /// Puts rows in the place of the rows of the same packages, and keeps all others.
    pub fn with(self, rows: Vec<Row>) -> Self {
        let old = self.packages.into_iter().filter(|old| rows.iter().all(|row| row.package != old.package));
        Self::new(old.collect::<Vec<_>>().into_iter().chain(rows).collect())
    }
}

fn path() -> anyhow::Result<PathBuf> {
    Ok(setup::root()?.join("docs/measured/suites.json"))
}

#[cfg(test)]
pub mod tests {
    use super::super::results::{Format, read};
    use super::*;
    use std::time::Duration;

    /// Returns a row whose outputs of `make check` are given.
    pub fn row(suite: usize, native: &str, domain: &str) -> Row {
        let side = |output: &str| side::Outcome {
            results: read(output, Format::Lines, "/b", !output.contains("FAIL")),
            time: Duration::from_secs(2),
            cut: false,
        };
        Row::new(&SUITES[suite], "1.0".into(), "2026-11-23".into(), &[side(native), side(domain)])
    }

    #[test]
    fn a_run_replaces_only_its_own_rows() {
        let old = Stored::new([3, 0, 2].map(|suite| row(suite, "PASS: a\n", "FAIL: a\n")).into());
        let new = vec![row(1, "PASS: b\n", "PASS: b\n"), row(2, "PASS: c\nSKIP: d\n", "PASS: c\nSKIP: d\n")];
        let kept = [old.packages[0].clone(), old.packages[2].clone()];
        let all = old.with(new.clone()).packages;
        assert_eq!(all, [kept[0].clone(), new[0].clone(), new[1].clone(), kept[1].clone()]);
        assert_eq!(all[0].unexplained().collect::<Vec<_>>(), [("a", "fails")]);
        assert_eq!((all[2].domain.pass, all[2].domain.skip, all[2].domain.seconds), (1, 1, 2));
    }

    #[test]
    fn results_come_back() {
        let stored = Stored::new(vec![row(0, "PASS: a\nPASS: \"b\"\n", "PASS: a\n")]);
        let text = measured::write(&stored).expect("JSON");
        assert_eq!(measured::read::<Stored>(&text).expect("results"), stored);
        assert!(measured::read::<Stored>(&text.replace(":1,", ":9,")).is_err());
        assert!(measured::read::<Stored>(&text.replace("flags", "words")).is_err());
    }
}
