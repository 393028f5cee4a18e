//! Whole C programs on a rewritten musl: the same output as natively, and system calls that must be refused.
//!
//! Needs musl-gcc (Debian package musl-tools); a missing compiler fails the tests.

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

/// `sfi cc ARGUMENTS`
fn compile(directory: &Path, mode: &str, arguments: &[&str], name: &str) -> PathBuf {
    let program = directory.join(format!("{name}-{mode}"));
    let mut command = Command::new(SFI);
    command.env("SFI_MODE", mode).arg("cc").args(arguments).arg(source(name)).arg("-o").arg(&program);
    let output = run(&mut command, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn standard_library_behaves_as_natively() {
    let directory = tempfile::tempdir().expect("directory");
    let native = directory.path().join("native");
    let mut gcc = Command::new("musl-gcc");
    gcc.args(["-O2", "-static"]).arg(source("stdio.c")).arg("-o").arg(&native);
    assert!(run(&mut gcc, "").status.success());
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
    let native = directory.path().join("native");
    let mut gcc = Command::new("musl-gcc");
    gcc.args(["-O2", "-static"]).arg(source("setjmp.c")).arg("-o").arg(&native);
    assert!(run(&mut gcc, "").status.success());
    let expected = run(&mut Command::new(&native), "");
    assert_eq!(expected.status.code(), Some(7));
    for (mode, level) in [("write", "-O0"), ("write", "-O2"), ("full", "-O2"), ("match", "-O1")] {
        let program = compile(directory.path(), mode, &[level], "setjmp.c");
        let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program), "");
        assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode} {level}: {}", text(&actual.stderr));
        assert_eq!(actual.status.code(), Some(7));
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
    let native = directory.path().join("native");
    let mut gcc = Command::new("musl-gcc");
    gcc.args(["-O2", "-static"]).arg(source("files.c")).arg("-o").arg(&native);
    assert!(run(&mut gcc, "").status.success());
    let expected = run(Command::new(&native).current_dir(directory.path()), "");
    assert_eq!(text(&output.stdout), text(&expected.stdout), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("rmdir -1\nunlink 0\nrmdir 0\n"));
    let read_only = run(Command::new(SFI).args(["run", "--read-only", "--dir", &granted]).arg(&program), "");
    assert_eq!(text(&read_only.stdout), "open: Permission denied\n");
    let none = run(Command::new(SFI).arg("run").arg(&program), "");
    assert_eq!(text(&none.stdout), "open: No such file or directory\n");
    assert_eq!(std::fs::read_dir(&data).expect("data").count(), 0);
}

#[test]
fn hostile_system_calls_are_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("data");
    std::fs::write(data.join("in"), "inside").expect("file");
    std::fs::write(directory.path().join("secret"), "secret").expect("file");
    std::os::unix::fs::symlink("/etc/passwd", data.join("link")).expect("link");
    std::os::unix::fs::symlink("..", data.join("up")).expect("link");
    for mode in ["write", "full"] {
        let program = compile(directory.path(), mode, &["-O2"], "hostile_calls.c");
        let granted = format!("{}::data", data.display());
        let mut command = Command::new(SFI);
        command.args(["run", "--mode", mode, "--dir", &granted]).arg(&program);
        let output = run(&mut command, "input that must not arrive in text");
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{out}{}", text(&output.stderr));
        assert!(!out.contains("ESCAPED"), "{out}");
        assert!(out.matches("refused ").count() >= 80, "{out}");
        assert!(out.ends_with("still here\n"), "{out}");
    }
    assert_eq!(std::fs::read_to_string(directory.path().join("secret")).expect("secret"), "secret");
    assert_eq!(std::fs::read_to_string(data.join("in")).expect("in"), "inside");
    assert!(!directory.path().join("made").exists() && !directory.path().join("out").exists());
}
