//! Programs on the distribution's run-time libraries (libstdc++, libgfortran, Rust's std) and musl,
//! all rewritten from stock files. The output is that of the native program, which uses glibc.
//!
//! Needs g++, clang, gfortran and musl-dev (Debian packages). A missing one fails the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SFI: &str = env!("CARGO_BIN_EXE_sfi");

fn run(command: &mut Command, input: &str) -> Output {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    // A program may end before it reads its input.
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

/// Compiles an object, which serves all modes. `level`: flags, separated by spaces.
fn object(directory: &Path, source: &Path, compiler: &str, level: &str) -> PathBuf {
    let mut command = Command::new(SFI);
    compiled(command.env("SFI_CXX", compiler).arg("c++"), directory, source, level)
}

/// Compiles an object without `sfi c++`, so that functions may use r15.
fn stock_object(directory: &Path, source: &Path, compiler: &str, level: &str) -> PathBuf {
    compiled(&mut Command::new(compiler), directory, source, level)
}

fn compiled(command: &mut Command, directory: &Path, source: &Path, level: &str) -> PathBuf {
    let object = directory.join("program.o");
    build(command.args(["-std=c++17", "-w", "-c"]).args(level.split(' ')).arg(source).arg("-o").arg(&object));
    object
}

fn sandboxed(object: &Path, compiler: &str, mode: &str) -> PathBuf {
    let program = object.with_extension(mode);
    let mut command = Command::new(SFI);
    command.env("SFI_CXX", compiler).env("SFI_MODE", mode);
    build(command.arg("c++").arg(object).arg("-o").arg(&program));
    program
}

/// Makes an object of a source.
type Compile = fn(&Path, &Path, &str, &str) -> PathBuf;

/// Compares the native output with that of the domain in both modes.
fn compare(name: &str, compiler: &str, level: &str) {
    compare_object(name, compiler, level, object);
}

fn compare_object(name: &str, compiler: &str, level: &str, object: Compile) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs").join(name);
    let directory = tempfile::tempdir().expect("directory");
    let native = directory.path().join("native");
    build(Command::new(compiler).args(["-std=c++17", "-w"]).args(level.split(' ')).arg(&source).arg("-o").arg(&native));
    let input = "one line\nand another";
    let expected = run(Command::new(&native).arg("abc"), input);
    assert!(expected.status.code().is_some_and(|code| code > 1) && expected.stdout.len() > 500);
    let object = object(directory.path(), &source, compiler, level);
    for mode in ["write", "full"] {
        let program = sandboxed(&object, compiler, mode);
        // The second run takes the image of the first.
        for _ in 0..2 {
            let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program).args(["--", "abc"]), input);
            assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode}: {}", text(&actual.stderr));
            assert_eq!(text(&actual.stderr), text(&expected.stderr), "{mode}");
            assert_eq!(actual.status.code(), expected.status.code(), "{mode}");
        }
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
fn exceptions_through_functions_that_save_registers() {
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("g++", "-Os"), ("clang++", "-O2")] {
        compare_object("saved.cc", compiler, level, stock_object);
    }
}

/// Many calls compare their target, and exceptions come through them.
#[test]
fn virtual_calls() {
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("g++", "-Os -DBASES"), ("clang++", "-O2")] {
        compare_object("virtual.cc", compiler, level, stock_object);
    }
}

/// Types are addresses of 32 bits in such objects, and windows lie higher.
#[test]
fn exceptions_of_code_for_a_fixed_place() {
    for compiler in ["g++", "clang++"] {
        compare("exceptions.cc", compiler, "-O2 -fno-pic -no-pie");
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

/// The domain has no handler for the exception, and no unwinder but its own looks for one.
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

#[test]
fn fortran_on_its_stock_library() {
    let directory = tempfile::tempdir().expect("directory");
    let (native, object) = (directory.path().join("native"), directory.path().join("numbers.o"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs/numbers.f90");
    build(
        Command::new("gfortran")
            .args(["-O2", "-fPIE", "-c", "-J"])
            .arg(directory.path())
            .arg(&source)
            .arg("-o")
            .arg(&object),
    );
    build(Command::new("gfortran").arg(&object).arg("-o").arg(&native));
    let input = "1 2\n-30 400\nx\n";
    let expected = run(&mut Command::new(&native), input);
    assert_eq!(expected.status.code(), Some(4), "{}", text(&expected.stderr));
    for mode in ["write", "full"] {
        let program = directory.path().join(mode);
        let mut command = Command::new(SFI);
        command.env("SFI_MODE", mode).arg("c++").arg(&object).args(["-lgfortran", "-lquadmath", "-lm", "-o"]);
        build(command.arg(&program));
        let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(&program), input);
        assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode}: {}", text(&actual.stderr));
        assert_eq!((text(&actual.stderr), actual.status.code()), (text(&expected.stderr), Some(4)), "{mode}");
    }
}

#[test]
fn a_rust_library_with_std() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("lib.rs"), RUST).expect("source");
    std::fs::write(
        at("main.c"),
        "unsigned rust_work(unsigned);\nint main(void) { return (int)rust_work(100) & 127; }\n",
    )
    .expect("source");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "--crate-type=staticlib", "-O"]).arg(at("lib.rs")).arg("-o").arg(at("librust.a"));
    build(&mut rustc);
    build(Command::new("gcc").args(["-O2", "-fPIE", "-c"]).arg(at("main.c")).arg("-o").arg(at("main.o")));
    let mut link = Command::new("gcc");
    build(link.arg(at("main.o")).arg(at("librust.a")).args(["-lm", "-o"]).arg(at("native")));
    let expected = run(&mut Command::new(at("native")), "");
    assert!(expected.stdout.len() > 60 && expected.status.code().is_some_and(|code| code > 9));
    for mode in ["write", "full"] {
        let mut command = Command::new(SFI);
        command.env("SFI_MODE", mode).arg("c++").arg(at("main.o")).arg(at("librust.a")).arg("-o").arg(at(mode));
        build(&mut command);
        let actual = run(Command::new(SFI).args(["run", "--mode", mode]).arg(at(mode)), "");
        assert_eq!(text(&actual.stdout), text(&expected.stdout), "{mode}: {}", text(&actual.stderr));
        assert_eq!(actual.status.code(), expected.status.code(), "{mode}: {}", text(&actual.stderr));
    }
}

/// Uses collections, formatting, and a caught panic that drops the values it passes.
const RUST: &str = r#"
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

struct Loud(&'static str);
impl Drop for Loud {
    fn drop(&mut self) {
        println!("drop {} {}", self.0, std::thread::panicking());
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rust_work(n: u32) -> u32 {
    let mut map = HashMap::new();
    for i in 0..n {
        *map.entry(i % 7).or_insert(0u32) += i;
    }
    let sorted: BTreeMap<_, _> = map.into_iter().collect();
    let mut text = String::new();
    for (k, v) in &sorted {
        write!(text, "{k}={v:#x} ").unwrap();
    }
    println!("rust says {text}{:.3}", (n as f64).sqrt());
    std::panic::set_hook(Box::new(|info| println!("hook: {info}")));
    let caught = std::panic::catch_unwind(|| {
        let _outer = Loud("outer");
        let v: Vec<u32> = (0..5).map(|i| i * n).collect();
        let _inner = Loud("inner");
        v[n as usize]
    });
    println!("caught {}", caught.is_err());
    text.len() as u32
}
"#;

const PLUGIN: &str = r#"
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
extern "C" long host_clock(void);
static std::map<std::string, long> seen{{"first", 1}};
struct Late { ~Late() { std::cout << "the end" << std::endl; } };
static Late late;
__attribute__((destructor)) static void after() { std::puts("a destructor"); }
__attribute__((destructor(101))) static void last() { std::puts("the last destructor"); }
static long deep(long n) {
    if (n == 0) throw std::out_of_range("bottom");
    return deep(n - 1) + 1;
}
extern "C" long work(long n) {
    std::ostringstream text;
    for (long i = 0; i < n; i++) seen[std::to_string(i * i)] += i;
    try { deep(n); } catch (const std::exception &error) { text << error.what(); }
    for (const auto &[key, value] : seen) text << ' ' << key << '=' << value;
    std::cout << text.str() << std::endl;
    return host_clock() > 0 ? long(text.str().size()) : -1;
}
"#;

/// The order of `exit`: registered functions, then destructors by their priorities.
const END: &str = "the end\na destructor\nthe last destructor\n";

/// A domain of a manifest gets all of C++: what an archive of `--plugin` does not define is what
/// the manifest grants.
#[test]
fn plugins_of_manifests() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("plugin.cc"), PLUGIN).expect("source");
    for mode in ["write", "full", "match"] {
        let mut command = Command::new(SFI);
        command.env("SFI_MODE", mode).args(["c++", "--plugin", "-std=c++17", "-O2"]);
        let output = run(command.arg(at("plugin.cc")).arg("-o").arg(at("plugin.sfi.a")), "");
        let note = format!("note: the manifest has to grant what `{}` imports: ", at("plugin.sfi.a").display());
        assert_eq!(text(&output.stderr), format!("{note}host_clock\n"), "{mode}");
        let manifest = format!(
            "[domains.plugin]\nobjects = ['plugin.sfi.a']\nmode = '{mode}'\nmemory = '8 MiB'\n\
             imports.host_clock = {{ host = 'host_clock', signature = '() -> int' }}\n\
             syscalls.allow = ['io', 'memory']\n[entry]\ndomain = 'plugin'\nfunction = 'work'\nargs = [4]\n"
        );
        std::fs::write(at("domains.toml"), manifest).expect("manifest");
        let output = run(Command::new(SFI).arg("run").arg(at("domains.toml")), "");
        let line = "bottom 0=0 1=1 4=2 9=3 first=1";
        assert_eq!(text(&output.stdout), format!("{line}\n{END}"), "{mode}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(line.len() as i32), "{mode}");
    }
    // Nobody may call a plugin as a program, and a definition too many is an error as in any link.
    let output = run(Command::new(SFI).arg("run").arg(at("plugin.sfi.a")), "");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    std::fs::write(at("twice.cc"), "extern \"C\" long work(long n) { return n; }").expect("source");
    let mut command = Command::new(SFI);
    command.args(["c++", "--plugin"]).args([at("plugin.cc"), at("twice.cc")]).arg("-o").arg(at("two.sfi.a"));
    let output = run(&mut command, "");
    assert!(text(&output.stderr).contains("work") && !output.status.success(), "{}", text(&output.stderr));
    assert!(!at("two.sfi.a").exists());
}
