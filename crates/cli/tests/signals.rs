//! Signal handlers of programs: the output in a domain is the native one.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::{Bench, root, succeed};

const MODES: [&str; 3] = ["write", "full", "match"];

fn source(name: &str) -> PathBuf {
    root().join("fixtures/signals").join(name)
}

/// Builds a program natively and for a domain, and compares their output.
fn same(name: &str, code: i32) {
    let bench = Bench::new();
    let file = source(name);
    let native = bench.path("native");
    // musl has no fibers of its own.
    let gcc = if name == "fibers.c" { "gcc" } else { "musl-gcc" };
    succeed(Command::new(gcc).args(["-O2", "-w"]).arg(&file).arg("-o").arg(&native));
    let expected = text(&Command::new(&native).output().expect("runs").stdout);
    assert!(expected.lines().count() > 5, "{expected}");
    for mode in MODES {
        build(&bench, mode, &file);
        let output = bench.run(&["run", "--mode", mode, "prog"], code);
        assert_eq!(text(&output.stdout), expected, "{mode}: {}", text(&output.stderr));
    }
}

fn build(bench: &Bench, mode: &str, file: &std::path::Path) {
    let mut cc = support::sfi(bench, &["cc"]);
    succeed(cc.env("SFI_MODE", mode).args(["-O2", "-w"]).arg(file).args(["-o", "prog"]));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(source: &str, code: i32) -> Output {
    let bench = Bench::new();
    bench.write("prog.c", source.as_bytes());
    build(&bench, "write", &bench.path("prog.c"));
    bench.run(&["run", "--time-limit", "20", "prog"], code)
}

#[test]
fn handlers_run_at_system_calls() {
    same("calls.c", 128 + 15);
}

/// A timer interrupts code that makes no call, at any instruction.
#[test]
fn timers_interrupt_work() {
    same("timers.c", 128 + 14);
}

/// A handler switches to another fiber, which is interrupted as well. Each goes on where it was.
#[test]
fn timers_switch_fibers() {
    same("fibers.c", 6);
}

/// Runs a program, and sends it the signals that its lines name. It also gets a line to read after
/// them. Returns its output and its end.
fn with_signals(mut command: Command) -> (String, std::process::ExitStatus) {
    use std::io::{BufRead, BufReader, Write};
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("piped");
    let mut all = String::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        for signal in line.split(' ').filter(|word| ["INT", "USR1", "TERM"].contains(word)) {
            // It waits, reads or works by now.
            std::thread::sleep(std::time::Duration::from_millis(50));
            succeed(Command::new("kill").args(["-s", signal, &child.id().to_string()]));
        }
        if line.starts_with("read") {
            std::thread::sleep(std::time::Duration::from_millis(50));
            input.write_all(b"line\n").expect("written");
        }
        all += &(line + "\n");
    }
    (all, child.wait().expect("ends"))
}

/// Another process sends signals, to programs with one thread and to those that may have more.
#[test]
fn signals_come_from_outside() {
    let bench = Bench::new();
    let (file, native) = (source("outside.c"), bench.path("native"));
    succeed(Command::new("musl-gcc").args(["-O2", "-w"]).arg(&file).arg("-o").arg(&native));
    let expected = with_signals(Command::new(&native));
    assert_eq!(expected.0.lines().count(), 21, "{}", expected.0);
    for mode in MODES {
        build(&bench, mode, &file);
        for threads in ["1", "2"] {
            let arguments = ["run", "--time-limit", "60", "--threads", threads, "--mode", mode, "prog"];
            assert_eq!(with_signals(support::sfi(&bench, &arguments)), expected, "{mode}, {threads} threads");
        }
    }
    // This signal is not ignored in the background either.
    let source = std::fs::read_to_string(&file).expect("read");
    let source = source.replace("INT\"", "TERM\"").replace("SIGINT", "SIGTERM");
    bench.write("term.c", source.as_bytes());
    build(&bench, "write", &bench.path("term.c"));
    for threads in ["1", "2"] {
        let command = support::sfi(&bench, &["run", "--time-limit", "60", "--threads", threads, "prog"]);
        let (text, end) = with_signals(command);
        assert_eq!(end.signal(), Some(15), "{text}");
        assert_eq!(text.lines().count(), 21, "{text}");
    }
}

/// Beside another domain nothing interrupts a program, and its timer's signal waits for a call.
#[test]
fn beside_another_domain_a_timer_waits_for_a_call() {
    let source = "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n#include <sys/time.h>\n\
        static volatile int count;\nstatic void note(int s) { (void)s; count++; }\n\
        int main(void) { signal(SIGALRM, note); struct itimerval t = {{0, 0}, {0, 1000}};\n\
        setitimer(ITIMER_REAL, &t, 0); for (volatile long i = 0; i < 100000000; i++); int during = count;\n\
        getppid(); printf(\"%d %d\\n\", during, count); return 0; }";
    let bench = Bench::new();
    bench.write("prog.c", source.as_bytes());
    build(&bench, "write", &bench.path("prog.c"));
    let bytes = std::fs::read(bench.path("prog")).expect("linked");
    let start = bytes.windows(8).position(|window| window == b"!<arch>\n").expect("an archive");
    bench.write("prog.a", &bytes[start..]);
    let domain = "[entry]\ndomain = \"app\"\nfunction = \"main\"\nargs = []\n[domains.app]\nobjects = [\"prog.a\"]\n\
        memory = \"16 MiB\"\n[domains.app.syscalls]\nallow = [\"all\"]\n";
    for (other, expected) in [("", "1 1\n"), ("[domains.other]\nobjects = []\n", "0 1\n")] {
        bench.write("m.toml", format!("{domain}{other}").as_bytes());
        assert_eq!(text(&bench.run(&["run", "m.toml"], 0).stdout), expected, "{other}");
    }
}

#[test]
fn a_write_to_a_closed_pipe_is_a_signal() {
    same("pipes.c", 128 + 13);
}

#[test]
fn handlers_run_at_faults() {
    same("faults.c", 5);
}

#[test]
fn protected_pages_trap() {
    same("protection.c", 7);
}

/// A handler does not run if it faulted itself or if its signal is blocked. The fault then ends the
/// program.
#[test]
fn a_fault_of_a_faults_handler_ends_the_program() {
    let faults = "#include <signal.h>\nstatic void again(int s) { *(volatile int *)64 = s; }\n\
        int main(void) { signal(SIGSEGV, again); *(volatile int *)64 = 1; return 0; }";
    let output = run(faults, 3);
    assert!(text(&output.stderr).contains("null pointer access in `again`"), "{}", text(&output.stderr));
    let blocked = "#include <signal.h>\n#include <stdlib.h>\nstatic void stop(int s) { (void)s; _Exit(0); }\n\
        int main(void) { sigset_t all; sigfillset(&all); signal(SIGSEGV, stop); sigprocmask(SIG_BLOCK, &all, 0);\n\
        *(volatile int *)64 = 1; return 0; }";
    let output = run(blocked, 3);
    assert!(text(&output.stderr).contains("null pointer access in `main`"), "{}", text(&output.stderr));
}

/// Execution does not resume at the fault. If its handler returns, the program ends as by the
/// signal.
#[test]
fn a_returning_handler_of_a_fault_ends_the_program() {
    let returns = "#include <signal.h>\n#include <unistd.h>\nstatic void note(int s) { (void)s; write(1, \"x\", 1); }\n\
        int main(void) { signal(SIGSEGV, note); *(volatile int *)64 = 1; return 0; }";
    assert_eq!(text(&run(returns, 128 + 11).stdout), "x");
}

/// A hostile domain enters the support code's functions itself with forged arguments. It gains
/// nothing and ends.
#[test]
fn calls_of_the_support_code_reach_nothing() {
    let forged = "#include <signal.h>\nvoid __sfi_fault(long, long, long); void __sfi_handlers(void);\n\
        static void none(int s) { (void)s; }\n\
        int main(void) { signal(SIGSEGV, (void (*)(int))0x1234567890); __sfi_handlers();\n\
        __sfi_fault(11, 0, 0); return 0; }";
    let output = run(forged, 3);
    assert!(text(&output.stderr).contains("fault: domain `program`"), "{}", text(&output.stderr));
    let stack = "#include <signal.h>\nstatic void none(int s) { (void)s; }\n\
        int main(void) { stack_t s = { (void *)0x7fff00000000, 0, 1 << 20 }; sigaltstack(&s, 0);\n\
        struct sigaction a = { .sa_handler = none, .sa_flags = SA_ONSTACK }; sigaction(SIGSEGV, &a, 0);\n\
        *(volatile int *)64 = 1; return 0; }";
    run(stack, 128 + 11);
}
