//! Whole C programs on a rewritten musl. Their output is that of native programs, and hostile
//! system calls are refused.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing compiler fails the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SFI: &str = env!("CARGO_BIN_EXE_sfi");

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs").join(name)
}

fn run(command: &mut Command, input: &str) -> Output {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child =
        spawned.unwrap_or_else(|e| panic!("{command:?}: {e}; Debian packages gcc, musl-tools, musl-dev are needed"));
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("input");
    child.wait_with_output().expect("output")
}

/// Runs `sfi cc ARGUMENTS`.
fn compile(directory: &Path, mode: &str, arguments: &[&str], name: &str) -> PathBuf {
    let program = directory.join(format!("{name}-{mode}"));
    let mut command = Command::new(SFI);
    command.env("SFI_MODE", mode).arg("cc").args(arguments).arg(source(name)).arg("-o").arg(&program);
    let output = run(&mut command, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Builds the native program.
fn native(directory: &Path, name: &str) -> PathBuf {
    let program = directory.join("native");
    let mut gcc = Command::new("musl-gcc");
    gcc.args(["-O2", "-static"]).arg(source(name)).arg("-o").arg(&program);
    assert!(run(&mut gcc, "").status.success());
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn standard_library_behaves_as_natively() {
    let directory = tempfile::tempdir().expect("directory");
    let native = native(directory.path(), "stdio.c");
    let input = "first line\nsecond\n";
    let expected = run(Command::new(&native).args(["one", "two words"]).env_clear().env("NAME", "value"), input);
    assert_eq!(expected.status.code(), Some(42));
    for mode in ["write", "full", "match"] {
        for flags in [&["-O0"][..], &["-O2"], &["-Os", "-fstack-protector-all"]] {
            let program = compile(directory.path(), mode, flags, "stdio.c");
            let mut command = Command::new(SFI);
            command.args(["run", "--mode", mode, "--env", "NAME=value"]).arg(&program).args(["--", "one", "two words"]);
            let actual = run(&mut command, input);
            assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode} {flags:?}: {}", text(&actual.stderr));
            assert_eq!(text(&actual.stderr), text(&expected.stderr));
            assert_eq!(actual.status.code(), Some(42));
        }
    }
}

#[test]
fn setjmp_on_a_stock_libc() {
    let directory = tempfile::tempdir().expect("directory");
    let native = native(directory.path(), "setjmp.c");
    let expected = run(&mut Command::new(&native), "");
    assert_eq!(expected.status.code(), Some(7));
    for (mode, level) in [("write", "-O0"), ("write", "-O2"), ("full", "-O2"), ("match", "-O1")] {
        let program = compile(directory.path(), mode, &[level], "setjmp.c");
        let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program), "");
        assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode} {level}: {}", text(&actual.stderr));
        assert_eq!(actual.status.code(), Some(7));
    }
}

/// Most of them compare, because their functions save registers.
#[test]
fn switches_lead_where_they_do_natively() {
    let directory = tempfile::tempdir().expect("directory");
    let native = native(directory.path(), "switches.c");
    let expected = run(&mut Command::new(&native), "");
    assert!(expected.status.success() && expected.stdout.len() > 5000);
    for (mode, level) in [("write", "-O1"), ("write", "-O2"), ("full", "-O2"), ("full", "-Os"), ("match", "-O2")] {
        let program = compile(directory.path(), mode, &[level], "switches.c");
        let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program), "");
        assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode} {level}: {}", text(&actual.stderr));
        assert!(actual.status.success());
    }
}

#[test]
fn a_program_runs_itself() {
    let directory = tempfile::tempdir().expect("directory");
    let program = compile(directory.path(), "write", &["-O2"], "stdio.c");
    let path =
        format!("{}:{}", Path::new(SFI).parent().expect("parent").display(), std::env::var("PATH").unwrap_or_default());
    let output = run(Command::new(&program).env("PATH", path).arg("argument"), "");
    assert_eq!(output.status.code(), Some(42), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("[argument]"));
}

#[test]
fn files_in_a_granted_directory() {
    let directory = tempfile::tempdir().expect("directory");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("data");
    let program = compile(directory.path(), "write", &["-O2"], "files.c");
    let granted = format!("{}::data", data.display());
    let output = run(Command::new(SFI).args(["run", "--dir", &granted]).arg(&program), "");
    let native = native(directory.path(), "files.c");
    let expected = run(Command::new(&native).current_dir(directory.path()), "");
    assert_eq!(text(&output.stdout), text(&expected.stdout), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("rmdir -1\nunlink 0\nrmdir 0\n"));
    let read_only = run(Command::new(SFI).args(["run", "--read-only", "--dir", &granted]).arg(&program), "");
    assert_eq!(text(&read_only.stdout), "open: Read-only file system\n");
    let none = run(Command::new(SFI).arg("run").arg(&program), "");
    assert_eq!(text(&none.stdout), "open: No such file or directory\n");
    assert_eq!(std::fs::read_dir(&data).expect("data").count(), 0);
}

/// Makes a directory with `data`, `ro`, and a secret beside them. Both hold a file, and links that
/// lead out.
fn hostile_tree() -> tempfile::TempDir {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().expect("directory");
    std::fs::write(directory.path().join("secret"), "secret").expect("file");
    for name in ["data", "ro"] {
        let sub = directory.path().join(name);
        std::fs::create_dir(&sub).expect("directory");
        std::fs::write(sub.join("in"), "inside").expect("file");
        let absolute = sub.canonicalize().expect("canonical");
        let links = [("link", "/etc/passwd"), ("up", ".."), ("dir", "/etc"), ("magic", "/proc/self/root")];
        for (link, target) in links {
            symlink(target, sub.join(link)).expect("link");
        }
        symlink(absolute, sub.join("absolute")).expect("link");
    }
    directory
}

#[test]
fn hostile_system_calls_are_refused() {
    for mode in ["write", "full"] {
        let directory = hostile_tree();
        let program = compile(directory.path(), mode, &["-O2"], "hostile_calls.c");
        let before = tree(directory.path());
        let data = format!("{}::data", directory.path().join("data").display());
        let readable = format!("{}::ro", directory.path().join("ro").display());
        let mut command = Command::new(SFI);
        command.args(["run", "--mode", mode, "--dir", &data, "--dir-read", &readable]).arg(&program);
        let output = run(&mut command, "input that must not arrive in text");
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{out}{}", text(&output.stderr));
        let bad: Vec<&str> = out.lines().filter(|l| !l.starts_with("refused ")).collect();
        assert_eq!(bad, ["still here"]);
        assert!(out.lines().count() >= 500, "only {} lines", out.lines().count());
        assert_eq!(tree(directory.path()), before);
    }
}

/// Returns the names, kinds and contents of all files beneath a directory.
fn tree(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).expect("directory") {
        let entry = entry.expect("entry");
        let metadata = entry.metadata().expect("metadata");
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
        let contents = if metadata.is_file() && metadata.len() < 100 {
            std::fs::read_to_string(entry.path()).expect("contents")
        } else {
            String::new()
        };
        all.push((entry.path(), format!("{mode:o} {contents}")));
        if metadata.is_dir() {
            all.extend(tree(&entry.path()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_signal_reaches_its_handler_or_ends_the_program() {
    let directory = tempfile::tempdir().expect("directory");
    let program = compile(directory.path(), "write", &["-O2"], "hostile_calls.c");
    let output = run(Command::new(SFI).arg("run").arg(&program).args(["--", "raise"]), "");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("handled 10\n", Some(128 + 10)));
}

#[test]
fn policies_allow_deny_count_and_log() {
    let directory = tempfile::tempdir().expect("directory");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("data");
    let granted = format!("{}::data", data.display());
    let program = compile(directory.path(), "write", &["-O2"], "files.c");
    let sfi =
        |options: &[&str]| run(Command::new(SFI).args(["run", "--dir", &granted]).args(options).arg(&program), "");
    let denied = sfi(&["--deny", "mkdir,rename", "--denied", "EPERM", "--log-syscalls=refused", "--count-syscalls"]);
    let (out, err) = (text(&denied.stdout), text(&denied.stderr));
    assert!(out.contains("mkdir -1\nrename -1\n"), "{out}");
    assert!(err.contains("mkdir(") && err.contains("= -1 Operation not permitted (os error 1) [refused]"), "{err}");
    assert!(!err.contains("open("), "{err}");
    assert!(err.lines().any(|l| l.trim() == "1 mkdir refused") && err.contains(" writev\n"), "{err}");
    let only = sfi(&["--allow", "memory,process,writev,ioctl", "--log-syscalls"]);
    assert_eq!(text(&only.stdout), "open: Function not implemented\n");
    let log = text(&only.stderr);
    assert!(log.contains("[refused]") && log.contains("writev(0x1, "), "{log}");
    // The log shows addresses as offsets, so no number lies between the window's size and 2^56.
    // Registers that a call does not use may hold other large numbers.
    let mut words = log.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|w| w.strip_prefix("0x"));
    let wild = |word: &&str| (1 << 32..1 << 56).contains(&u64::from_str_radix(word, 16).expect("a number"));
    assert_eq!(words.find(wild), None, "{log}");
    let quota = sfi(&["--max-written", "0"]);
    assert!(text(&quota.stdout).is_empty());
    let error = sfi(&["--allow", "ptrace"]);
    assert_eq!(error.status.code(), Some(2));
    assert!(text(&error.stderr).contains("`ptrace` cannot be granted"), "{}", text(&error.stderr));
}

/// Tables of a manifest: a program with arguments, environment, descriptors and directories, and a
/// domain that is a library on a libc.
#[test]
fn manifests_hold_policies() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("data")).expect("data");
    std::fs::write(at("input"), "first line\nsecond\n").expect("input");
    std::fs::write(at("data/given"), "given text").expect("given");
    for (file, source) in [("program.c", PROGRAM), ("library.c", LIBRARY)] {
        std::fs::write(at(file), source).expect("source");
        let object = at(&file.replace(".c", ".o"));
        let mut compiler = Command::new("musl-gcc");
        compiler.args(["-O2", "-fPIE", "-ffixed-r15", "-c"]).arg(at(file)).arg("-o").arg(&object);
        let output = run(&mut compiler, "");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let output = run(Command::new(SFI).arg("rewrite").arg(&object).arg("-o").arg(&object), "");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let libc = "/usr/lib/x86_64-linux-musl/libc.a";
    let rewritten = at("libc.a");
    let output = run(Command::new(SFI).args(["rewrite", "--skip-refused", libc, "-o"]).arg(&rewritten), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let manifest = at("domains.toml");
    std::fs::write(&manifest, MANIFEST).expect("manifest");
    let output = run(Command::new(SFI).arg("run").arg("--count-syscalls").arg(&manifest).args(["--", "last"]), "");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        out, "first last NAME=value\ngiven text\nfirst line\nlibrary: 7 and 1.50, opened -1 Operation not permitted\n",
        "{err}"
    );
    assert_eq!(std::fs::read_to_string(at("out")).expect("out"), "to descriptor 3\n");
    assert_eq!(output.status.code(), Some(5), "{err}");
    assert!(err.contains("helper: open("), "{err}");
    assert!(err.contains("system calls of `helper`:") && err.contains("1 open refused"), "{err}");
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int library(int);
int main(int argc, char **argv) {
    char line[100] = "";
    printf("%s %s NAME=%s\n", argv[1], argv[argc - 1], getenv("NAME"));
    FILE *f = fopen("/data/given", "r");
    if (f) puts(fgets(line, sizeof line, f));
    fputs(fgets(line, sizeof line, stdin), stdout);
    fflush(stdout);
    write(3, "to descriptor 3\n", 16);
    return library(7);
}
"#;
const LIBRARY: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
int library(int x) {
    int fd = open("/data/given", O_RDONLY);
    printf("library: %d and %.2f, opened %d %s\n", x, 1.5, fd, strerror(errno));
    fflush(stdout);
    return 5;
}
"#;
const MANIFEST: &str = r#"
[entry]
domain = "program"
function = "main"
[domains.program]
objects = ["program.o"]
archives = ["libc.a"]
[domains.program.imports]
library = { domain = "helper", function = "library", signature = "(int) -> int" }
[domains.program.syscalls]
allow = ["io", "files", "memory", "process"]
descriptors = [{ read = "input" }, "stdout", "stderr", { write = "out" }]
arguments = ["first"]
environment = ["NAME=value"]
directories = { "/data" = { host = "data" } }
[domains.helper]
objects = ["library.o"]
archives = ["libc.a"]
exports = ["library"]
[domains.helper.syscalls]
allow = ["write", "writev", "ioctl", "memory", "process"]
denied = "EPERM"
log = "refused"
"#;

/// The limit ends a program that never ends, and one that sleeps.
#[test]
fn the_time_limit_ends_a_program() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("long.c");
    let text_of_it = "#include <unistd.h>\nint main(int argc, char **argv) { if (argc > 1) sleep(1000); for (volatile int i = 0;; i++) ; }\n";
    std::fs::write(&source, text_of_it).expect("source");
    let program = directory.path().join("long");
    let output = run(Command::new(SFI).arg("cc").arg(&source).arg("-o").arg(&program), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    for arguments in [&[][..], &["sleep"]] {
        let begin = std::time::Instant::now();
        let mut command = Command::new(SFI);
        command.args(["run", "--time-limit", "0.3"]).arg(&program).arg("--").args(arguments);
        let output = run(&mut command, "");
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with("fault: "), "{}", text(&output.stderr));
        assert!(begin.elapsed() > std::time::Duration::from_millis(300));
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "ended by itself");
    }
    // With enough time the program ends by itself.
    let quick = compile(directory.path(), "write", &["-O2"], "stdio.c");
    let output = run(Command::new(SFI).args(["run", "--time-limit", "100"]).arg(&quick), "");
    assert_eq!(output.status.code(), Some(42), "{}", text(&output.stderr));
}

#[test]
fn forged_jump_buffers_hurt_nobody_else() {
    let directory = tempfile::tempdir().expect("directory");
    for mode in ["write", "full"] {
        let program = compile(directory.path(), mode, &["-O1"], "hostile_jumps.c");
        let run_case = |case: usize| {
            run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program).arg("--").arg(case.to_string()), "")
        };
        let fine = run_case(0);
        assert_eq!(
            (text(&fine.stdout), fine.status.code()),
            ("case 0\nback 1\n".into(), Some(0)),
            "{}",
            text(&fine.stderr)
        );
        for case in 1..=15 {
            let output = run_case(case);
            let errors = text(&output.stderr);
            assert_eq!((text(&output.stdout), output.status.code()), (format!("case {case}\n"), Some(3)), "{errors}");
            assert!(errors.contains("fault: domain"), "{case}: {errors}");
            let dead = [1, 2, 3, 4, 5, 10, 11, 14, 15].contains(&case);
            assert_eq!(errors.contains("jump to a frame that is not active"), dead, "{case}: {errors}");
        }
    }
}

/// 400,000 calls in progress need more than the usual control stack. Without it the program faults,
/// and the report says what to ask for.
#[test]
fn deep_recursion_on_request() {
    let directory = tempfile::tempdir().expect("directory");
    for mode in ["write", "full", "match"] {
        let program = compile(directory.path(), mode, &["-O1"], "recursion.c");
        let go = |options: &[&str], calls: &str| {
            let stack = ["run", "--mode", mode, "--stack", "64"];
            run(Command::new(SFI).args(stack).args(options).arg(&program).args(["--", calls]), "")
        };
        let deep = go(&["--control-stack", "3584KiB"], "400000");
        assert_eq!(text(&deep.stdout), "400000\n", "{mode}: {}", text(&deep.stderr));
        for (options, calls) in [(&["--control-stack", "3584KiB"][..], "500000"), (&[], "400000")] {
            let cut = go(options, calls);
            let errors = text(&cut.stderr);
            assert_eq!(cut.status.code(), Some(3), "{mode}: {errors}");
            assert!(errors.contains("control stack overflow in `down`"), "{errors}");
            assert!(errors.contains("needs a larger --control-stack"), "{errors}");
        }
        for wrong in ["63KiB", "3585KiB", "4MiB", "-1", "much", "18446744073709551615GiB"] {
            let refused = go(&["--control-stack", wrong], "1");
            assert_eq!(refused.status.code(), Some(2), "{wrong}: {}", text(&refused.stderr));
        }
    }
}

/// A collector that searches the stack finds registers that functions save in frames.
#[test]
fn a_search_of_the_stack_finds_registers_in_frames() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    let object = at("collector.o");
    let succeed = |command: &mut Command| {
        let output = run(command, "");
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    };
    succeed(Command::new("musl-gcc").args(["-O2", "-c"]).arg(source("collector.c")).arg("-o").arg(&object));
    succeed(Command::new("musl-gcc").arg("-static").arg(&object).arg("-o").arg(at("native")));
    let expected = run(&mut Command::new(at("native")), "");
    assert_eq!((text(&expected.stdout), expected.status.code()), ("1\n".to_owned(), Some(3)));
    std::fs::write(at("uses.c"), "void *GC_malloc(unsigned long); void *f(void) { return GC_malloc(8); }\n").unwrap();
    std::fs::write(at("gc.c"), "void *GC_malloc(unsigned long n) { return 0; }\n").unwrap();
    for (saves, with, found) in
        [(None, false, "0\n"), (Some("no"), false, "1\n"), (None, true, "1\n"), (Some("yes"), true, "0\n")]
    {
        let mut command = Command::new(SFI);
        command.arg("cc").arg(&object).env_remove("SFI_SAVES").envs(saves.map(|saves| ("SFI_SAVES", saves)));
        if with {
            command.args([at("uses.c"), at("gc.c")]);
        }
        succeed(command.arg("-o").arg(at("program")));
        let actual = run(Command::new(SFI).arg("run").arg(at("program")), "");
        assert_eq!((text(&actual.stdout), actual.status.code()), (found.to_owned(), Some(3)), "{saves:?} {with}");
    }
}
