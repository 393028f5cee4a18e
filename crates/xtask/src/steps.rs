//! Running all steps in turn, and counting.

use anyhow::Context;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Numbers of the whole run.
#[derive(Default)]
pub struct Steps {
    passed: u64,
    failed: u64,
    broken: Vec<String>,
    failures: Vec<String>,
}

impl Steps {
    /// Runs a step that passes or fails as a whole.
    pub fn whole(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let start = begin(name);
        let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        if status.success() {
            self.passed += 1;
        } else {
            self.failed += 1;
            self.broken.push(name.to_owned());
        }
        end(name, start);
        Ok(())
    }

    /// Runs a step that prints summaries of tests (`test result: ok. 3 passed; 0 failed; ...`), and
    /// adds them up.
    pub fn tests(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let start = begin(name);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let (mut passed, mut failed) = (0, 0);
        for line in output.split(b'\n') {
            let line = line?;
            let text = String::from_utf8_lossy(&line);
            if let Some(summary) = text.strip_prefix("test result: ") {
                let count = |what| number_before(summary, what);
                passed += count(" passed");
                failed += count(" failed");
            }
            if let Some(test) = failed_test(&text) {
                self.failures.push(test.to_owned());
            }
            println!("{text}");
        }
        std::io::stdout().flush()?;
        let status = child.wait()?;
        if !status.success() {
            self.broken.push(name.to_owned());
            // A test binary that died, or a crate that does not compile, printed no summary.
            failed = failed.max(1);
        }
        self.passed += passed;
        self.failed += failed;
        end(name, start);
        Ok(())
    }

    /// Counts a step that could not begin.
    pub fn failed(&mut self, name: &str, error: &anyhow::Error) {
        println!("== {name}: {error:#}");
        self.failed += 1;
        self.broken.push(name.to_owned());
    }

    /// Prints the names of what failed, and the last line. The exit code is success only if
    /// everything passed.
    pub fn finish(self) -> ExitCode {
        if !self.broken.is_empty() {
            println!("failed steps: {}", self.broken.join(", "));
        }
        for test in &self.failures {
            println!("failed test: {test}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 && self.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn begin(name: &str) -> Instant {
    println!("== {name}");
    Instant::now()
}

fn end(name: &str, start: Instant) {
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
}

/// Returns the name of the test that a line of a test binary calls failed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Returns the number directly before `what`, or 0 if there is none.
fn number_before(text: &str, what: &str) -> u64 {
    let before = text.split_once(what).map_or("", |(before, _)| before);
    before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{failed_test, number_before};

    #[test]
    fn failed_tests_are_named() {
        assert_eq!(failed_test("test gate::leaks ... FAILED"), Some("gate::leaks"));
        assert_eq!(failed_test("test gate::leaks ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed"), None);
    }

    #[test]
    fn summaries_are_read() {
        let line = "FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(number_before(line, " passed"), 12);
        assert_eq!(number_before(line, " failed"), 3);
        assert_eq!(number_before(line, " lost"), 0);
    }
}
