//! gdb and perf, run for real on domains.

#[path = "../../../tests/src/gdb.rs"]
mod debugger;
mod support;

use std::fs;
use std::process::{Command, Stdio};
use support::{Bench, sfi, succeed};

const APP: &str = "\
long middle(long x);
static long deep(long n) {
    if (n == 0)
        return middle(3);
    return deep(n - 1) + 1;
}
long sfi_main(void) {
    return deep(2);
}
";

const CODEC: &str = "\
long host_write(const char *s, long n);
static long work(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum += i * 7;
    return sum;
}
long middle(long x) {
    long sum = work(50000000);
    host_write(\"here\\n\", 5);
    return sum + *(volatile long *)x;
}
";

const MANIFEST: &str = r#"
[entry]
domain = "app"
function = "sfi_main"
[domains.app]
objects = ["app.sfi.o"]
[domains.app.imports]
middle = { domain = "codec", function = "middle", signature = "(int) -> int" }
[domains.codec]
objects = ["codec.sfi.o"]
exports = ["middle"]
[domains.codec.imports]
host_write = { host = "host_write", signature = "(ptr, int) -> int" }
"#;

/// Two domains: the second one computes, writes by a function of the host, and faults.
fn domains() -> Bench {
    let bench = Bench::new();
    bench.write("domains.toml", MANIFEST.as_bytes());
    for (name, source) in [("app", APP), ("codec", CODEC)] {
        let file = |ending: &str| format!("{name}{ending}");
        bench.write(&file(".c"), source.as_bytes());
        let flags = ["-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-c"];
        succeed(Command::new("gcc").args(flags).arg(file(".c")).current_dir(bench.directory()));
        bench.run(&["rewrite", "-o", &file(".sfi.o"), &file(".o")], 0);
    }
    bench
}

/// A program that handles a fault of a function that has saved registers.
const HANDLES: &str = "\
#include <signal.h>
#include <unistd.h>
void handler(int signal) {
    _exit(signal == SIGSEGV ? 3 : 4);
}
long work(volatile long *p, long n) {
    long a = p[0], b = p[1];
    for (long i = 0; i < n; i++) {
        a += b + getppid();
        *(volatile int *)8 = 1;
    }
    return a + b;
}
int main(void) {
    static long numbers[2] = {1, 2};
    signal(SIGSEGV, handler);
    return work(numbers, 3) & 1;
}
";

/// Runs `sfi run --gdb domains.toml` in gdb. Returns what both print.
fn gdb(bench: &Bench, commands: &[&str]) -> String {
    // A known seed: if the control stack lies above the host's stack, gdb stops there.
    let program = ["--args", env!("CARGO_BIN_EXE_sfi"), "run", "--gdb", "--seed", "5", "domains.toml"];
    debugger::run(bench.directory(), commands, &program)
}

/// Returns the functions of a backtrace.
fn functions(text: &str) -> Vec<String> {
    let frames = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let first = words.next().unwrap_or_default();
        let name = if first.starts_with("0x") { words.nth(1).unwrap_or_default() } else { first };
        name.to_owned()
    };
    frames.map(name).collect()
}

/// Says whether names stand in a list in this order, one after the other.
fn contains(list: &[String], names: &[&str]) -> bool {
    list.windows(names.len()).any(|part| part.iter().zip(names).all(|(have, want)| have.starts_with(want)))
}

#[test]
fn gdb_shows_lines_and_whole_backtraces() {
    let bench = domains();
    let commands = ["break codec.c:6", "run", "backtrace", "info symbol $pc", "info line", "kill"];
    let text = gdb(&bench, &commands);
    assert!(text.contains("Breakpoint 1, work () at codec.c:6"), "{text}");
    assert!(text.contains("in section .text.codec"), "{text}");
    guide_shows(&text);
    let frames = functions(&text);
    let gate = "sfi_gate_";
    let inside = ["work", "middle", gate, "deep", "deep", "deep", "sfi_main", "sfi_enter_", "enter"];
    assert!(contains(&frames, &inside), "{text}");
    assert_eq!(frames.last().map(String::as_str), Some("main"), "{text}");

    // A function of the host that a domain called, and the frames of the domains beyond it.
    let text = gdb(&bench, &["break codec.c:10", "run", "break write", "continue", "backtrace", "kill"]);
    let frames = functions(&text);
    assert!(
        contains(&frames, &["<signal", "middle", gate, "deep", "deep", "deep", "sfi_main", "sfi_enter_"]),
        "{text}"
    );
    assert_eq!(frames.last().map(String::as_str), Some("main"), "{text}");

    // A fault. The run goes on when gdb passes the signal, and says the same.
    let text = gdb(&bench, &["run", "backtrace", "continue"]);
    assert!(text.contains("SIGSEGV") && text.contains("middle () at codec.c:11"), "{text}");
    let frames = functions(&text);
    assert!(contains(&frames, &inside[1..]), "{text}");
    assert_eq!(frames.last().map(String::as_str), Some("main"), "{text}");
    assert!(text.contains("domain `codec`: null pointer access in `middle`"), "{text}");
}

#[test]
fn gdb_finds_the_callers_of_an_interrupted_function() {
    let bench = Bench::new();
    bench.write("handles.c", HANDLES.as_bytes());
    bench.run(&["cc", "-g", "-O1", "-fno-inline", "-o", "handles", "handles.c"], 0);
    bench.run(&["run", "./handles"], 3);
    let program = ["--args", env!("CARGO_BIN_EXE_sfi"), "run", "--gdb", "./handles"];
    let commands = ["handle SIGSEGV nostop noprint", "break handler", "run", "backtrace 6", "kill"];
    let text = debugger::run(bench.directory(), &commands, &program);
    assert!(contains(&functions(&text), &["handler", "__sfi_fault", "sfi_stubs", "main", "libc_start_main"]), "{text}");
}

#[test]
fn dumps_of_gdb_hold_memory_and_no_reservations() {
    let bench = domains();
    let text = gdb(&bench, &["run", "generate-core-file core", "kill"]);
    assert!(text.contains("Saved corefile core"), "{text}");
    let length = fs::metadata(bench.directory().join("core")).unwrap().len();
    assert!(length < 1 << 30, "{length} bytes for two windows");
    let text = gdb(&bench, &["core-file core", "backtrace 2", "x/i $pc"]);
    assert!(text.contains("middle () at codec.c:11") && text.contains("=> 0x"), "{text}");
}

#[test]
fn without_the_option_nothing_is_shown() {
    let bench = domains();
    bench.run(&["run", "domains.toml"], 1);
    assert!(fs::read_dir(bench.directory()).unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        !name.to_string_lossy().contains("dump")
    }));
}

/// Checks that the backtrace in the guide has the same functions as one of gdb. Processors choose
/// the variants of gates.
fn guide_shows(text: &str) {
    let guide = fs::read_to_string(support::root().join("docs/GUIDE.md")).unwrap();
    let is_frame =
        |line: &&str| line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let shown = functions(&guide.lines().filter(is_frame).collect::<Vec<_>>().join("\n"));
    let variants = ["sfi_gate_", "sfi_enter_"];
    let plain = |name: &String| {
        variants.iter().find(|gate| name.starts_with(*gate)).map_or(name.clone(), |gate| (*gate).to_owned())
    };
    let [shown, printed] = [shown, functions(text)].map(|names| names.iter().map(plain).collect::<Vec<_>>());
    assert!(shown.len() > 5 && printed.starts_with(&shown), "the guide: {shown:#?}\ngdb: {text}");
}

#[test]
fn perf_names_functions_and_lines() {
    let bench = domains();
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-k", "mono", "-e", "cpu-clock", "-o", "perf.data"]).arg(env!("CARGO_BIN_EXE_sfi"));
    record.args(["run", "--perf", "domains.toml"]).current_dir(bench.directory());
    record.env("JITDUMPDIR", bench.directory()).env("HOME", bench.directory());
    let output = record.output().expect("perf: run `cargo xtask setup`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("perf_event"), "perf may not count here (kernel.perf_event_paranoid): {said}");
    let perf = |arguments: &[&str]| {
        let mut command = Command::new("perf");
        succeed(command.args(arguments).current_dir(bench.directory()).env("HOME", bench.directory()))
    };
    perf(&["inject", "--jit", "-i", "perf.data", "-o", "jit.data"]);
    let report = perf(&["report", "--stdio", "-i", "jit.data"]);
    let first = report.lines().find(|line| line.contains('%')).unwrap_or_default();
    assert!(first.contains("work [codec]"), "{report}");
    let annotated = perf(&["annotate", "--stdio", "-i", "jit.data", "work [codec]"]);
    assert!(annotated.contains("sum += i * 7;"), "{annotated}");
}

#[test]
fn the_files_for_perf_name_all_functions() {
    let bench = domains();
    let mut run = sfi(&bench, &["run", "--perf", "domains.toml"]);
    let mut run = run.env("JITDUMPDIR", bench.directory()).stderr(Stdio::null()).spawn().unwrap();
    let process = run.id();
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let all = ["deep [app]", "middle [codec]", "sfi_main [app]", "work [codec]"];
    let dump = bench.directory().join(format!("jit-{process}.dump"));
    assert_eq!(jitdump(&fs::read(dump).unwrap()), all);

    let map = format!("/tmp/perf-{process}.map");
    let lines = fs::read_to_string(&map).unwrap();
    fs::remove_file(map).unwrap();
    let mut named = Vec::new();
    for line in lines.lines() {
        let [address, size, name] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let [address, size] = [address, size].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        assert!(address > 0 && size > 0, "{line}");
        named.push(name);
    }
    named.retain(|name| !name.starts_with("sfi_stubs"));
    named.sort_unstable();
    assert_eq!(named, all, "{lines}");
}

/// Reads a jitdump as its specification says. Returns the functions whose lines it has.
fn jitdump(bytes: &[u8]) -> Vec<String> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..][..4].try_into().unwrap()) as usize;
    let long = |at: usize| u64::from_le_bytes(bytes[at..][..8].try_into().unwrap());
    assert_eq!((&bytes[..4], word(4), word(8)), (&b"DTiJ"[..], 1, 40));
    let (mut at, mut named, mut functions) = (word(8), Vec::new(), Vec::new());
    while at < bytes.len() {
        let (kind, size) = (word(at), word(at + 4));
        match kind {
            0 => {
                let name = bytes[at + 56..at + size].split(|byte| *byte == 0).next().unwrap();
                assert_eq!(size, 56 + name.len() + 1 + long(at + 40) as usize);
                if named.contains(&long(at + 32)) {
                    functions.push(String::from_utf8(name.to_vec()).unwrap());
                }
            }
            2 => named.push(long(at + 16)),
            other => panic!("record {other}"),
        }
        at += size;
    }
    assert_eq!(at, bytes.len());
    functions.sort();
    functions
}
