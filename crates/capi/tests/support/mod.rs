//! Helpers of the tests with hosts in C and C++.
#![allow(dead_code)]

use sfi_loader::Mode;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns a path in the repository.
pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Returns the folder of the libraries. They lie beside the tests: Cargo makes all forms of a
/// package's library at once.
pub fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run `cargo xtask setup`"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

/// Runs a command that must succeed, and returns what it printed.
pub fn printed(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

/// Compiles a plugin, and puts `name.o` and the rewritten `name.sfi.o` in a folder.
pub fn plugin(directory: &Path, source: &Path, mode: Mode) {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let object = directory.join(format!("{name}.o"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-fPIE", "-fno-stack-protector", "-Wall", "-Wextra", "-Werror"]);
    gcc.args(["-Wno-infinite-recursion", "-Wno-array-bounds", "-c", "-o"]);
    succeed(gcc.arg(&object).arg(source));
    let rewritten =
        sfi_rewriter::rewrite(&std::fs::read(&object).unwrap(), &sfi_rewriter::Options { mode, ..Default::default() });
    let rewritten = rewritten.unwrap_or_else(|reasons| panic!("{}", reasons[0]));
    std::fs::write(directory.join(format!("{name}.sfi.o")), rewritten.bytes).unwrap();
}

/// Builds a host in C and its plugin of a folder in `fixtures`, and runs it in both modes. It must
/// print that all checks hold.
pub fn host_holds(folder: &str) {
    let from = root("fixtures").join(folder);
    for mode in [Mode::Write, Mode::Full] {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        plugin(directory.path(), &from.join("plugin.c"), mode);
        let manifest = std::fs::read_to_string(from.join("domains.toml")).unwrap();
        let mode = format!("objects = [\"plugin.sfi.o\"]\nmode = \"{}\"", format!("{mode:?}").to_lowercase());
        std::fs::write(at("domains.toml"), manifest.replace("objects = [\"plugin.sfi.o\"]", &mode)).unwrap();
        succeed(
            Command::new("gcc")
                .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(root("crates/capi/include"))
                .arg(from.join("host.c"))
                .arg("-o")
                .arg(at("host"))
                .arg(libraries().join("libsfi.a"))
                .args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]),
        );
        assert_eq!(printed(Command::new(at("host")).current_dir(directory.path())), "all checks hold\n");
    }
}
