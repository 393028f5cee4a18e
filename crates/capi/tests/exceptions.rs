//! C++ exceptions in a host's own functions. Those that stay within a function are its own affair.
//! One that would leave a function ends the process: no exception is caught on the other side of
//! the library, where a domain and the frames of a crossing would lie between.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLUGIN: &str = "
extern long note(long), other(long);
long call(long x) { return note(x) + 1; }
long deep(long x) { return other(x) + 1; }
__attribute__((constructor)) static void start(void) { note(0); }
";
const SERVER: &str = "extern long note(long); long serve(long x) { return note(2) + x; }";

const MANIFEST: &str = "
[domains.app]
objects = [\"app.sfi.o\"]
memory = \"64 KiB\"
imports.note = { host = \"note\", signature = \"(int) -> int\" }
imports.other = { entry = \"server.serve\", signature = \"(int) -> int\" }
[domains.server]
objects = [\"server.sfi.o\"]
memory = \"64 KiB\"
imports.note = { host = \"note\", signature = \"(int) -> int\" }
registers.serve = { function = \"serve\", signature = \"(int) -> int\" }
";

/// Puts a plugin, compiled and rewritten, into a folder.
fn plugin(folder: &Path, name: &str, source: &str) {
    let [source_file, object] = ["c", "o"].map(|extension| folder.join(name).with_extension(extension));
    std::fs::write(&source_file, source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIE", "-fno-stack-protector", "-fno-optimize-sibling-calls", "-c", "-o"]).arg(&object);
    assert!(gcc.arg(&source_file).status().expect("gcc").success());
    let options = sfi_rewriter::Options { mode: sfi_loader::Mode::Write, ..Default::default() };
    let rewritten = sfi_rewriter::rewrite(&std::fs::read(&object).unwrap(), &options);
    let rewritten = rewritten.unwrap_or_else(|reasons| panic!("{}", reasons[0]));
    std::fs::write(folder.join(name).with_extension("sfi.o"), rewritten.bytes).unwrap();
}

/// Compiles the host against the static library, which lies beside the tests.
fn host(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libsfi.a");
    let host = folder.join("host");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-I"]).arg(root.join("crates/capi/include"));
    compiler.arg(root.join("fixtures/c-host/throws.cpp")).arg("-o").arg(&host).arg(library);
    assert!(compiler.args(["-lpthread", "-ldl", "-lm"]).status().expect("g++").success());
    host
}

#[test]
fn no_exception_crosses_a_domain() {
    let folder = tempfile::tempdir().unwrap();
    plugin(folder.path(), "app", PLUGIN);
    plugin(folder.path(), "server", SERVER);
    let manifest = folder.path().join("domains.toml");
    std::fs::write(&manifest, MANIFEST).unwrap();
    let host = host(folder.path());
    for (way, expected) in [
        ("none", Some((0, "note is left\nnote is left\nstatus 0, result 22\nrun is left\n"))),
        ("within", Some((0, "note is left\nnote is left\nstatus 0, result 43\nrun is left\n"))),
        ("after", Some((9, "note is left\nnote is left\nstatus 0, result 22\nrun is left\ncaught\n"))),
        ("function", None),
        ("integer", None),
        ("nested", None),
        ("start", None),
        ("permission", None),
    ] {
        let output = Command::new(&host).arg(&manifest).arg(way).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        match expected {
            Some(expected) => assert_eq!((output.status.code(), out.as_str()), (Some(expected.0), expected.1), "{way}"),
            None => {
                assert_eq!(output.status.signal(), Some(6), "{way}: {:?}\n{out}{errors}", output.status);
                assert!(!out.contains("caught") && !out.contains("run is left"), "{way}: {out}{errors}");
            }
        }
    }
}
