//! One side of a suite: its package, built natively or for domains, and tested.

use super::packages::Suite;
use super::results::{self, Entry, Results};
use anyhow::{Context, bail, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Limit of `configure`, and of `make`, in minutes.
const BUILDING: u64 = 20;
/// The output of the tests.
const CHECK_LOG: &str = "sfi-check.log";

/// The place where a package's programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The machine, with the libc of the other side.
    Native,
    /// Domains.
    Domain,
}

impl Side {
    /// Returns its name, which is that of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Side::Native => "native",
            Side::Domain => "domain",
        }
    }

    /// Returns the flags with which a suite's programs run.
    fn flags(self, suite: &Suite) -> &'static str {
        match self {
            Side::Native => "",
            Side::Domain => suite.flags,
        }
    }

    fn compiler(self) -> &'static str {
        match self {
            Side::Native => "musl-gcc",
            Side::Domain => "sfi cc",
        }
    }
}

/// The results of a side.
pub struct Outcome {
    /// The tests.
    pub results: Results,
    /// The time that `make check` took.
    pub time: Duration,
    /// The suite did not end by itself.
    pub cut: bool,
}

/// The directories of a run.
pub struct Place<'a> {
    /// The sources of all packages.
    pub sources: &'a Path,
    /// The builds of all packages.
    pub builds: &'a Path,
    /// The program `sfi`.
    pub sfi: &'a Path,
}

impl Place<'_> {
    /// Builds a package and runs its tests.
    ///
    /// # Errors
    /// It cannot be built; the message names the log.
    pub fn run(&self, suite: &Suite, side: Side) -> anyhow::Result<Outcome> {
        let top = self.builds.join(side.name()).join(suite.package);
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(self.builds.join(side.name()))?;
        let copied = Command::new("cp").arg("-a").arg(self.sources.join(suite.package)).arg(&top).status();
        ensure!(copied.context("cannot run cp")?.success(), "cannot copy the sources of {}", suite.package);
        let directory = top.join(suite.folder);
        if !suite.prepare.is_empty() {
            self.build((suite, side), &directory, "sh", &["-c".to_owned(), suite.prepare.to_owned()])?;
        }
        if let Some(arguments) = suite.configure {
            if !directory.join("configure").exists() {
                self.build((suite, side), &directory, "autoreconf", &["-fi".to_owned()])?;
            }
            let root = self.root(side);
            let arguments: Vec<String> =
                arguments.iter().map(|argument| argument.replace("{root}", &root.to_string_lossy())).collect();
            self.build((suite, side), &directory, "./configure", &arguments)?;
        }
        let arguments = |list: &[&str]| list.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>();
        self.build((suite, side), &directory, "make", &[arguments(&["-j2"]), arguments(suite.build)].concat())?;
        if suite.install {
            self.build((suite, side), &directory, "make", &arguments(&["install"]))?;
        }
        let start = Instant::now();
        let (results, cut) = match suite.commands {
            [] => self.check(suite, side, &directory)?,
            commands => self.each(suite, side, &directory, commands)?,
        };
        Ok(Outcome { results, time: start.elapsed(), cut })
    }

    /// Runs `make check`. Returns the results, and whether the time limit ended it.
    fn check(&self, suite: &Suite, side: Side, directory: &Path) -> anyhow::Result<(Results, bool)> {
        let log = directory.join(CHECK_LOG);
        let list: Vec<String> = ["-k", "-w"].iter().chain(suite.check).map(|word| (*word).to_owned()).collect();
        let status = self.command((suite, side), directory, &log, suite.minutes, "make", &list)?;
        let output = fs::read(&log)?;
        let root = directory.canonicalize()?;
        let text = String::from_utf8_lossy(&output);
        Ok((results::read(&text, suite.format, &root.to_string_lossy(), status.success()), is_timeout(status)))
    }

    /// Runs commands, each of which is a test. The time limit holds for each.
    fn each(&self, suite: &Suite, side: Side, directory: &Path, commands: &[&str]) -> anyhow::Result<(Results, bool)> {
        let (mut results, mut cut) = (Results::new(), false);
        for (number, command) in commands.iter().enumerate() {
            let log = directory.join(format!("{number}-{CHECK_LOG}"));
            let arguments = ["-c".to_owned(), (*command).to_owned()];
            let status = self.command((suite, side), directory, &log, suite.minutes, "sh", &arguments)?;
            let outcome = if status.success() { results::Outcome::Pass } else { results::Outcome::Fail };
            results.insert((*command).to_owned(), Entry { outcome, tests: 1 });
            cut |= is_timeout(status);
        }
        Ok((results, cut))
    }

    /// Returns the directory into which a side installs.
    fn root(&self, side: Side) -> PathBuf {
        self.builds.join(side.name()).join("root")
    }

    /// Runs a step of a build, which must succeed.
    fn build(&self, of: (&Suite, Side), directory: &Path, program: &str, arguments: &[String]) -> anyhow::Result<()> {
        let log = directory.join("sfi-build.log");
        let status = self.command(of, directory, &log, BUILDING, program, arguments)?;
        if !status.success() {
            bail!("`{program} {}` failed ({status}); its output is in {}", arguments.join(" "), log.display());
        }
        Ok(())
    }

    /// Runs a command with the side's compiler, and its output in a file.
    fn command(
        &self,
        (suite, side): (&Suite, Side),
        directory: &Path,
        log: &Path,
        minutes: u64,
        program: &str,
        arguments: &[String],
    ) -> anyhow::Result<ExitStatus> {
        let output = File::create(log)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let before = self.sfi.parent().map(Path::to_owned);
        let path = std::env::join_paths(before.into_iter().chain(std::env::split_paths(&path)))?;
        // timeout(1) ends the whole process group.
        Command::new("timeout")
            .args(["--kill-after=10", &format!("{minutes}m"), program])
            .args(arguments)
            .current_dir(directory)
            .env("CC", side.compiler())
            .env("SFI_RUN_FLAGS", side.flags(suite))
            .env("CFLAGS", "-O2")
            .env("PATH", path)
            .env("LC_ALL", "C")
            .env_remove("MAKEFLAGS")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("cannot run timeout")
    }
}

/// Says whether timeout(1) ended a command.
fn is_timeout(status: ExitStatus) -> bool {
    matches!(status.code(), Some(124 | 137))
}
