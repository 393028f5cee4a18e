//! `fixtures/cpp-host`: a host in C++ that uses all of `sfi.hpp` and checks itself.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run `cargo xtask setup`"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_host_in_cpp() {
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("plugin.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-fPIE", "-Wall", "-Wextra", "-Werror", "-c", "-o"]).arg(&object);
    succeed(gcc.arg(root("fixtures/cpp-host/plugin.c")));
    let options = sfi_rewriter::Options { mode: sfi_loader::Mode::Full };
    let rewritten = sfi_rewriter::rewrite(&std::fs::read(&object).unwrap(), &options);
    let rewritten = rewritten.unwrap_or_else(|reasons| panic!("{}", reasons[0]));
    std::fs::write(directory.path().join("plugin.sfi.o"), rewritten.bytes).unwrap();
    let manifest = std::fs::read_to_string(root("fixtures/cpp-host/domains.toml")).unwrap();
    let full = manifest.replace("[domains.plugin]\n", "[domains.plugin]\nmode = \"full\"\n");
    std::fs::write(directory.path().join("domains.toml"), full).unwrap();
    // The library lies beside the tests: Cargo makes all forms of a package's library at once.
    let libraries = std::env::current_exe().unwrap().parent().unwrap().display().to_string();
    let checked = "-fsanitize=undefined";
    for (compiler, flags) in
        [("g++", ["-std=c++17", checked]), ("g++", ["-std=c++20", "-O2"]), ("clang++", ["-std=c++17", "-O2"])]
    {
        let mut command = Command::new(compiler);
        command.args(flags).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        command.arg(root("crates/capi/include")).arg(root("fixtures/cpp-host/host.cc")).args(["-o", "host"]);
        command.args([format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}"), "-lsfi".into()]);
        succeed(command.current_dir(directory.path()));
        let said = succeed(Command::new("./host").current_dir(directory.path()));
        assert_eq!(said, "33 checks hold\n", "{compiler} {flags:?}");
    }
}
