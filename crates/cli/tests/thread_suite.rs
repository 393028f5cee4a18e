//! A suite of programs with threads in C, C++, OpenMP and Rust (`fixtures/threads/suite`). Each
//! program has several cases. Each case must print and end in a domain as it does natively, in
//! modes write and full.
//!
//! Needs gcc, g++, rustc and musl-dev. A missing one fails the tests.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::scope;
use std::time::Duration;
use support::{Bench, root, sfi, succeed};

const MODES: [&str; 2] = ["write", "full"];
/// Threads that a program may have at a time.
const THREADS: &str = "8";
/// Seconds for one case. The slowest one needs a tenth of one on an idle machine.
const LIMIT: &str = "60";
/// Time after which a case that runs natively is ended.
const PATIENCE: Duration = Duration::from_secs(60);

fn source(name: &str) -> PathBuf {
    root().join("fixtures/threads/suite").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the exit code as a shell does: 128 and the number for a signal.
fn code(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal)).expect("it ended")
}

/// A program, linked natively and for both modes.
struct Program {
    bench: Bench,
    native: PathBuf,
}

impl Program {
    /// Links `inputs` with `driver` (`cc` or `c++`) and some flags for both modes.
    fn link(bench: Bench, native: PathBuf, driver: &str, inputs: &[&str]) -> Self {
        scope(|scope| {
            for mode in MODES {
                let line = [&[driver, "-pthread", "-o", mode], inputs].concat();
                let mut command = sfi(&bench, &line);
                scope.spawn(move || succeed(command.env("SFI_MODE", mode)));
            }
        });
        Self { bench, native }
    }

    /// A program of one file in C.
    fn c(name: &str, flags: &[&str]) -> Self {
        let (bench, source) = (Bench::new(), source(&format!("{name}.c")));
        let native = bench.path("native");
        let all = [&["-O2", "-pthread", "-w"], flags].concat();
        succeed(Command::new("gcc").args(&all).arg(&source).arg("-o").arg(&native));
        let compile = [&["cc", "-c", "-o", "program.o"], &all[..]].concat();
        succeed(sfi(&bench, &compile).arg(&source));
        Self::link(bench, native, "cc", &[flags, &["program.o"]].concat())
    }

    /// Runs all cases. Their number is at least `least`.
    fn compare(&self, least: usize) {
        let cases = succeed(&mut Command::new(&self.native));
        assert!(cases.lines().count() >= least, "{cases}");
        cases.lines().for_each(|case| self.compare_case(case));
    }

    fn compare_case(&self, case: &str) {
        let expected = native(&self.native, case);
        assert!(!expected.stdout.is_empty(), "{case} prints nothing natively");
        for mode in MODES {
            let line = ["run", "--mode", mode, "--threads", THREADS, "--time-limit", LIMIT, mode, "--", case];
            let actual = sfi(&self.bench, &line).output().expect("sfi runs");
            let errors = text(&actual.stderr);
            assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode}: {case}: {errors}");
            assert_eq!(code(&actual), code(&expected), "{mode}: {case}: {errors}");
        }
    }
}

/// Runs a case natively. One that hangs is the program's mistake.
fn native(program: &Path, case: &str) -> Output {
    let seconds = PATIENCE.as_secs().to_string();
    let output = Command::new("timeout").arg(seconds).arg(program).arg(case).output().expect("coreutils");
    assert_ne!(output.status.code(), Some(124), "{case} hangs natively");
    output
}

#[test]
fn c11() {
    Program::c("c11", &[]).compare(11);
}

#[test]
fn posix() {
    Program::c("posix", &[]).compare(25);
}

#[test]
fn signals() {
    Program::c("signals", &[]).compare(20);
}

/// Outcomes that the memory model forbids are counted. There are none.
#[test]
fn litmus() {
    let program = Program::c("litmus", &[]);
    program.compare(13);
    let none = |case| assert_eq!(text(&native(&program.native, case).stdout), "0 of 3000\n", "{case}");
    ["sb_fence", "iriw"].into_iter().for_each(none);
}

#[test]
fn structures() {
    Program::c("structures", &[]).compare(10);
}

#[test]
fn work() {
    Program::c("work", &[]).compare(4);
}

#[test]
fn openmp() {
    let program = Program::c("openmp", &["-fopenmp"]);
    program.compare(18);
    // A team that is larger than the domain may be ends the program, as the library does it.
    let line = ["run", "--threads", "2", "write", "--", "schedules"];
    let output = sfi(&program.bench, &line).output().expect("sfi runs");
    let errors = text(&output.stderr);
    assert!(errors.contains("libgomp: Thread creation failed: Resource temporarily unavailable"), "{errors}");
    assert_eq!(output.status.code(), Some(1), "{errors}");
}

#[test]
fn cxx() {
    let bench = Bench::new();
    let native = bench.path("native");
    let compile = ["c++", "-O1", "-std=c++20", "-pthread", "-w", "-c", "-o", "program.o"];
    succeed(sfi(&bench, &compile).arg(source("std.cc")));
    succeed(Command::new("g++").arg(bench.path("program.o")).args(["-pthread", "-o"]).arg(&native));
    Program::link(bench, native, "c++", &["program.o"]).compare(18);
}

#[test]
fn rust() {
    let bench = Bench::new();
    let native = bench.path("native");
    let compile = ["--edition=2024", "--crate-type=staticlib", "-O", "-o"];
    succeed(Command::new("rustc").args(compile).arg(bench.path("libsuite.a")).arg(source("std.rs")));
    succeed(sfi(&bench, &["cc", "-O2", "-c", "-o", "main.o"]).arg(source("rust.c")));
    let inputs = [bench.path("main.o"), bench.path("libsuite.a")];
    succeed(Command::new("gcc").args(inputs).args(["-lm", "-pthread", "-o"]).arg(&native));
    Program::link(bench, native, "cc", &["main.o", "libsuite.a"]).compare(18);
}
