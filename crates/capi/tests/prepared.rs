//! `fixtures/prepared`: a host in C with prepared calls, and calls that its signal handlers end.

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
fn prepared_calls() {
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    for mode in [sfi_loader::Mode::Write, sfi_loader::Mode::Full] {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let compile = ["-O2", "-g", "-fPIE", "-fno-stack-protector", "-Wno-infinite-recursion", "-c", "-o"];
        succeed(Command::new("gcc").args(compile).arg(at("plugin.o")).arg(root("fixtures/prepared/plugin.c")));
        let object = std::fs::read(at("plugin.o")).unwrap();
        let rewritten = sfi_rewriter::rewrite(&object, &sfi_rewriter::Options { mode });
        let rewritten = rewritten.unwrap_or_else(|reasons| panic!("{}", reasons[0]));
        std::fs::write(at("plugin.sfi.o"), rewritten.bytes).unwrap();
        let manifest = std::fs::read_to_string(root("fixtures/prepared/domains.toml")).unwrap();
        let mode = format!("objects = [\"plugin.sfi.o\"]\nmode = \"{}\"", format!("{mode:?}").to_lowercase());
        std::fs::write(at("domains.toml"), manifest.replace("objects = [\"plugin.sfi.o\"]", &mode)).unwrap();
        succeed(
            Command::new("gcc")
                .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(root("crates/capi/include"))
                .arg(root("fixtures/prepared/host.c"))
                .arg("-o")
                .arg(at("host"))
                .arg(libraries.join("libsfi.a"))
                .args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]),
        );
        assert_eq!(succeed(Command::new(at("host")).current_dir(directory.path())), "all checks hold\n");
    }
}
