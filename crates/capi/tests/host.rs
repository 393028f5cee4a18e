//! `fixtures/c-host`: a host in C with rewritten plugins. Stock compilers compile it against
//! `sfi.h`, the generated headers and both libraries. The host checks itself, and the test checks
//! its output.

mod support;

use sfi_loader::Mode;
use std::path::Path;
use std::process::Command;
use support::{libraries, plugin, printed, root, succeed};

/// Returns the words of a line of the pkg-config file.
fn pkg_config(key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root("crates/capi/sfi.pc")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key}"));
    line.split_whitespace().map(str::to_owned).collect()
}

/// Puts the plugins, compiled and rewritten, beside the manifest.
fn plugins(directory: &Path) {
    for name in ["plugin", "shop", "calls"] {
        plugin(directory, &root("fixtures/c-host").join(format!("{name}.c")), Mode::Write);
    }
    std::fs::rename(directory.join("plugin.o"), directory.join("stock.o")).unwrap();
    std::fs::copy(root("fixtures/c-host/domains.toml"), directory.join("domains.toml")).unwrap();
}

const EXPECTED: &str = "\
scaled 100 to 10
refused: stack arguments do not fit the data stack of domain `thumb`
the plugin said 33 bytes
not found: domain `thumb` has no global function `none`
null: status 1, domain thumb, function crash+0, plugin.c, line known, address class 1, called by the host
outside: status 1, domain thumb, function crash+0, plugin.c, line known, address class 4, called by the host
endless: status 2, domain thumb, function spin+..., plugin.c, line known, address class 0, called by the host
exit: the domain's libc exits with 7
275 checks hold
";

#[test]
fn a_host_in_c() {
    let directory = tempfile::tempdir().unwrap();
    plugins(directory.path());
    let archive = libraries().join("libsfi.a");
    let shared: Vec<String> = ["-L", "-Wl,-rpath,"].map(|o| format!("{o}{}", libraries().display())).into();
    let by_hand = [vec![archive.display().to_string()], pkg_config("Libs.private:")].concat();
    let checked = [vec!["-fsanitize=undefined".into(), "-fno-sanitize-recover=all".into()], by_hand.clone()].concat();
    for (compiler, link) in [("gcc", by_hand), ("gcc", checked), ("clang", [shared, vec!["-lsfi".into()]].concat())] {
        let mut command = Command::new(compiler);
        command
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
            .arg(root("crates/capi/include"));
        succeed(
            command.current_dir(directory.path()).arg(root("fixtures/c-host/host.c")).args(["-o", "host"]).args(link),
        );
        // Without caches of freed memory the count of used memory is exact, so the host can look
        // for leaks.
        let mut host = Command::new("./host");
        host.args(["domains.toml", "leaks"]).env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        // Cargo's path for libraries may lead to a library of an older build.
        host.env("LD_LIBRARY_PATH", libraries());
        assert_eq!(printed(host.current_dir(directory.path())), EXPECTED, "{compiler}");
    }
    assert_eq!(pkg_config("Version:"), [env!("CARGO_PKG_VERSION")]);
}
