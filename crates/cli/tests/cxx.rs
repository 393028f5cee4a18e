//! C++ programs on the distribution's libstdc++ and musl, both rewritten as they are: the same output as natively, which is on glibc.
//!
//! Needs g++, clang and musl-dev (Debian packages); a missing one fails the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SFI: &str = env!("CARGO_BIN_EXE_sfi");

fn run(command: &mut Command, input: &str) -> Output {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    // A program may end without reading.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("output")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn build(command: &mut Command) {
    let output = run(command, "");
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
}

/// One object serves all modes.
fn object(directory: &Path, source: &Path, compiler: &str, level: &str) -> PathBuf {
    let object = directory.join("program.o");
    let mut command = Command::new(SFI);
    command.env("SFI_CXX", compiler).args(["c++", "-std=c++17", "-w", "-c", level]);
    build(command.arg(source).arg("-o").arg(&object));
    object
}

fn sandboxed(object: &Path, compiler: &str, mode: &str) -> PathBuf {
    let program = object.with_extension(mode);
    let mut command = Command::new(SFI);
    command.env("SFI_CXX", compiler).env("SFI_MODE", mode);
    build(command.arg("c++").arg(object).arg("-o").arg(&program));
    program
}

/// Native output against that of the domain, in both modes.
fn compare(name: &str, compiler: &str, level: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs").join(name);
    let directory = tempfile::tempdir().expect("directory");
    let native = directory.path().join("native");
    build(Command::new(compiler).args(["-std=c++17", level, "-w"]).arg(&source).arg("-o").arg(&native));
    let input = "one line\nand another";
    let expected = run(Command::new(&native).arg("abc"), input);
    assert!(expected.status.code().is_some_and(|code| code > 1) && expected.stdout.len() > 500);
    let object = object(directory.path(), &source, compiler, level);
    for mode in ["write", "full"] {
        let program = sandboxed(&object, compiler, mode);
        let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program).args(["--", "abc"]), input);
        assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode}: {}", text(&actual.stderr));
        assert_eq!(text(&actual.stderr), text(&expected.stderr), "{mode}");
        assert_eq!(actual.status.code(), expected.status.code(), "{mode}");
    }
}

#[test]
fn exceptions_of_gcc() {
    for level in ["-O0", "-O2"] {
        compare("exceptions.cc", "g++", level);
    }
}

#[test]
fn exceptions_of_clang() {
    for level in ["-O0", "-O2"] {
        compare("exceptions.cc", "clang++", level);
    }
}

#[test]
fn the_library_of_gcc() {
    compare("library.cc", "g++", "-O2");
}

#[test]
fn the_library_of_clang() {
    compare("library.cc", "clang++", "-O0");
}

/// Nothing of the domain catches it, and nobody else is asked.
#[test]
fn an_exception_that_nobody_catches_ends_the_program() {
    let directory = tempfile::tempdir().expect("directory");
    let source = directory.path().join("uncaught.cc");
    let code = "#include <cstdio>\n#include <stdexcept>\nstruct S { ~S() { std::puts(\"unwound\"); } };\n\
                int main(int n, char **) { S s; std::puts(\"before\"); std::fflush(stdout);\n\
                if (n == 1) throw std::runtime_error(\"nobody wants it\"); return 0; }\n";
    std::fs::write(&source, code).expect("source");
    let object = object(directory.path(), &source, "g++", "-O1");
    for mode in ["write", "full"] {
        let program = sandboxed(&object, "g++", mode);
        let output = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program), "");
        assert_eq!(text(&output.stdout), "before\n");
        let errors = text(&output.stderr);
        assert!(errors.contains("terminate called after throwing an instance of 'std::runtime_error'"), "{errors}");
        assert!(errors.contains("what():  nobody wants it"), "{errors}");
        assert_eq!(output.status.code(), Some(128 + 6), "abort: {errors}");
        let output = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program).args(["--", "more"]), "");
        assert_eq!((text(&output.stdout), output.status.code()), ("before\nunwound\n".to_owned(), Some(0)));
    }
}
