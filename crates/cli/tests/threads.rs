//! Programs with threads: each case prints in a domain what it prints natively, in modes write and
//! full. Hostile programs end as they must, and soon.
//!
//! Needs gcc and musl-dev (Debian packages). A missing one fails the tests.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Bench, root, sfi, succeed};

const MODES: [&str; 2] = ["write", "full"];
/// The time in which a domain with endless threads has ended, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn source(name: &str) -> PathBuf {
    root().join("fixtures/threads").join(name).with_extension("c")
}

/// Compiles and links a program for a mode.
fn build(bench: &Bench, name: &str, mode: &str) -> String {
    let (object, program) = (format!("{name}.o"), format!("{name}-{mode}"));
    if !bench.path(&object).exists() {
        let compile = ["cc", "-O2", "-pthread", "-w", "-c", "-o", &object];
        succeed(sfi(bench, &compile).arg(source(name)));
    }
    succeed(sfi(bench, &["cc", "-pthread", &object, "-o", &program]).env("SFI_MODE", mode));
    program
}

fn run(bench: &Bench, mode: &str, program: &str, options: &[&str], case: &str) -> Output {
    let line = [&["run", "--mode", mode], options, &[program, "--", case]].concat();
    sfi(bench, &line).output().expect("sfi runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares all cases of a program with the native ones.
fn compare(name: &str, least: usize) {
    let bench = Bench::new();
    let native = bench.path("native");
    succeed(Command::new("gcc").args(["-O2", "-pthread", "-w", "-o"]).arg(&native).arg(source(name)));
    let cases = succeed(&mut Command::new(&native));
    assert!(cases.lines().count() >= least, "{cases}");
    for mode in MODES {
        let program = build(&bench, name, mode);
        for case in cases.lines() {
            let expected = Command::new(&native).arg(case).output().expect("runs");
            let actual = run(&bench, mode, &program, &["--threads", "8", "--time-limit", "60"], case);
            let errors = text(&actual.stderr);
            assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode}: {case}: {errors}");
            assert_eq!(actual.status.code(), expected.status.code(), "{mode}: {case}: {errors}");
            assert!(!expected.stdout.is_empty(), "{case}");
        }
    }
}

#[test]
fn locks_and_atomics_are_like_native_ones() {
    compare("sync", 15);
}

#[test]
fn lives_of_threads_are_like_native_ones() {
    compare("life", 27);
}

/// std::thread, std::async, exceptions that cross threads, thread locals with destructors.
#[test]
fn the_cxx_library_has_threads() {
    let bench = Bench::new();
    let source = root().join("fixtures/threads/library.cc");
    let native = bench.path("native");
    succeed(Command::new("g++").args(["-O2", "-std=c++17", "-pthread", "-w", "-o"]).arg(&native).arg(&source));
    let expected = succeed(&mut Command::new(&native));
    let compile = ["c++", "-O2", "-std=c++17", "-pthread", "-w", "-c", "-o", "library.o"];
    succeed(sfi(&bench, &compile).arg(&source));
    for mode in MODES {
        succeed(sfi(&bench, &["c++", "-pthread", "library.o", "-o", "library"]).env("SFI_MODE", mode));
        let output = sfi(&bench, &["run", "--mode", mode, "--threads", "8", "library"]).output().expect("sfi runs");
        assert_eq!(text(&output.stdout), expected, "{mode}: {}", text(&output.stderr));
    }
}

/// Runs a hostile case in both modes. Returns the outputs.
fn hostile(case: &str, options: &[&str], code: i32) -> [Output; 2] {
    ends(case, options, &[code])
}

/// Runs a hostile case that may end with one of several codes, as [`hostile`].
fn ends(case: &str, options: &[&str], codes: &[i32]) -> [Output; 2] {
    let bench = Bench::new();
    MODES.map(|mode| {
        let program = build(&bench, "hostile", mode);
        let start = Instant::now();
        let output = run(&bench, mode, &program, &[&["--threads", "6"], options].concat(), case);
        let code = output.status.code().expect("no signal ends the host");
        assert!(codes.contains(&code), "{mode}: {case}: {code}: {}", text(&output.stderr));
        assert!(start.elapsed() < SOON, "{mode}: {case}: {:?}", start.elapsed());
        output
    })
}

/// A fault of any thread ends the domain, whatever the others do, and the report names its place.
#[test]
fn a_fault_ends_all_threads() {
    let waits = ["fault_while_looping", "fault_while_waiting", "fault_while_sleeping", "fault_while_reading"];
    for case in waits.into_iter().chain(["main_faults"]) {
        for output in hostile(case, &[], 3) {
            let errors = text(&output.stderr);
            assert!(errors.starts_with("fault: domain `program`: null pointer access in "), "{case}: {errors}");
            assert!(errors.contains("faults"), "{case}: {errors}");
            assert_eq!(errors.contains(": host, thread "), case != "main_faults", "{case}: {errors}");
        }
    }
}

#[test]
fn the_end_of_main_ends_threads_that_loop() {
    hostile("main_returns", &[], 5);
}

#[test]
fn the_time_limit_holds_for_all_threads() {
    for output in hostile("all_loop", &["--time-limit", "0.3"], 3) {
        assert!(text(&output.stderr).contains("time limit exceeded"), "{}", text(&output.stderr));
    }
}

#[test]
fn threads_are_counted() {
    for output in hostile("bomb", &[], 0) {
        assert_eq!(text(&output.stdout), "5 1\n".repeat(3));
    }
    let bench = Bench::new();
    let program = build(&bench, "hostile", "write");
    let alone = run(&bench, "write", &program, &[], "bomb");
    assert_eq!(text(&alone.stdout), "0 0\n".repeat(3), "without --threads there is no second thread");
}

/// Threads that ended leave neither mappings nor threads of the host behind.
#[test]
fn ten_thousand_threads_leave_nothing() {
    let bench = Bench::new();
    for mode in MODES {
        let program = build(&bench, "hostile", mode);
        let line = ["run", "--mode", mode, "--threads", "6", &program, "--", "ten_thousand"];
        let mut child = sfi(&bench, &line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sfi runs");
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(output).lines();
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        let mut count = || {
            assert_eq!(lines.next().expect("it goes on").expect("text"), "created");
            let maps = std::fs::read_to_string(process.join("maps")).expect("it runs").lines().count();
            let tasks = std::fs::read_dir(process.join("task")).expect("it runs").count();
            input.write_all(b"\n").expect("it reads");
            (maps, tasks)
        };
        let (some, many) = (count(), count());
        assert!(child.wait().expect("it ends").success(), "{mode}");
        // At most as many threads of the host wait as the domain has at a time. They take a dozen
        // mappings each.
        assert!(many.1 <= some.1.max(8) && many.0 <= some.0 + 100, "{mode}: {some:?}, and then {many:?}");
    }
}

/// The report names the thread that faulted, and not an earlier one in its place.
#[test]
fn a_fault_in_the_place_of_another_thread_is_its_own() {
    for output in hostile("the_last_faults", &[], 3) {
        let errors = text(&output.stderr);
        assert!(errors.ends_with(": host, thread 52\n"), "{errors}");
    }
}

/// Thread pointers, stacks and functions that no libc passes are refused.
#[test]
fn starts_that_a_domain_must_not_choose_are_refused() {
    for output in hostile("clones", &[], 0) {
        assert_eq!(text(&output.stdout), "18\nconstant\n");
    }
}

#[test]
fn threads_that_share_a_stack_harm_themselves_only() {
    hostile("one_stack", &[], 6);
    // The victim's own code may run into the damage before the attacker ends the program.
    for output in ends("stack_of_another", &[], &[7, 3]) {
        let fault = text(&output.stderr);
        assert!(output.status.code() == Some(7) || fault.starts_with("fault: domain `program`: "), "{fault}");
    }
}

/// Arguments and their memory change, and are unmapped, while another thread crosses.
#[test]
fn arguments_that_another_thread_changes() {
    for output in hostile("races", &["--time-limit", "120"], 0) {
        assert_eq!(text(&output.stdout), "stolen 0\n");
    }
}

/// Domains that cannot have threads are refused when they are loaded.
#[test]
fn manifests_say_who_has_threads() {
    let bench = Bench::new();
    let table = "[domains.app.syscalls]\nallow = [\"all\"]\n";
    let entry = "[entry]\ndomain = \"app\"\nfunction = \"main\"\nargs = []\n";
    let manifest = |mode: &str, more: &str, rest: &str| {
        let program = build(&bench, "life", mode);
        let domain = format!("[domains.app]\nobjects = [\"{program}.a\"]\nmode = \"{mode}\"\nmemory = \"64 MiB\"\n");
        let bytes = std::fs::read(bench.path(&program)).expect("linked");
        let start = bytes.windows(8).position(|window| window == b"!<arch>\n").expect("an archive");
        bench.write(&format!("{program}.a"), &bytes[start..]);
        bench.write("m.toml", format!("{entry}{domain}{more}\n{table}{rest}").as_bytes());
        let output = sfi(&bench, &["run", "m.toml", "--", "create_join"]).output().expect("sfi runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let printed = "0 2 4 6 8 \n";
    for (mode, more) in [("full", "threads = 4"), ("write", "threads = 4\nclock = \"exposing\"")] {
        let (code, output, errors) = manifest(mode, more, "");
        assert_eq!((code, output.as_str()), (Some(0), printed), "{errors}");
    }
    let (code, output, _) = manifest("full", "", "");
    assert_eq!((code, output.contains("Function not implemented")), (Some(98), true), "{output}");
    let other = "[domains.other]\nobjects = []\n";
    for (mode, more, rest, why) in [
        ("write", "threads = 4", "", "a thread that counts is a clock"),
        ("full", "threads = 0", "", "1 to 256 threads"),
        ("full", "threads = 257", "", "1 to 256 threads"),
        ("full", "threads = 2", other, "other domains"),
        ("full", "threads = 2\nrestart = \"always\"", "", "no restarts"),
        ("full", "threads = 2\nimports.x = { host = \"host_clock\" }", "", "one host function"),
        ("full", "threads = 2\nbudget = { cpu = \"1 s\" }", "", "no budget"),
        ("full", "threads = 2", "[limits]\ncpu = \"1 s\"\n", "processor time"),
    ] {
        let (code, _, errors) = manifest(mode, more, rest);
        assert!(code == Some(2) && errors.contains(why), "{more}: {code:?}: {errors}");
    }
}
