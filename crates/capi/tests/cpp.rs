//! `fixtures/cpp-host`: a host in C++ that uses all of `sfi.hpp` and checks itself.

mod support;

use sfi_loader::Mode;
use std::process::Command;
use support::{libraries, plugin, printed, root, succeed};

#[test]
fn a_host_in_cpp() {
    let directory = tempfile::tempdir().unwrap();
    for part in ["plugin.c", "shared.c"] {
        plugin(directory.path(), &root("fixtures/cpp-host").join(part), Mode::Full);
    }
    for name in ["domains.toml", "one.toml"] {
        let manifest = std::fs::read_to_string(root("fixtures/cpp-host").join(name)).unwrap();
        let full = manifest.replace("[domains.plugin]\n", "[domains.plugin]\nmode = \"full\"\n");
        std::fs::write(directory.path().join(name), full).unwrap();
    }
    let libraries = libraries().display().to_string();
    let checked = "-fsanitize=undefined";
    for (compiler, flags) in
        [("g++", ["-std=c++17", checked]), ("g++", ["-std=c++20", "-O2"]), ("clang++", ["-std=c++17", "-O2"])]
    {
        let mut command = Command::new(compiler);
        command.args(flags).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        command.arg(root("crates/capi/include")).arg(root("fixtures/cpp-host/host.cc")).args(["-o", "host"]);
        command.args([format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}"), "-lsfi".into()]);
        succeed(command.current_dir(directory.path()));
        // Cargo's path for libraries may lead to a library of an older build.
        let said = printed(Command::new("./host").env("LD_LIBRARY_PATH", &libraries).current_dir(directory.path()));
        assert_eq!(said, "79 checks hold\n", "{compiler} {flags:?}");
    }
}
