//! Lanes in C: a host with threads, compiled with gcc against `sfi.h` and the shared library.

mod support;

use sfi_loader::Mode;
use std::process::Command;
use support::{libraries, plugin, root, succeed};

#[test]
fn a_host_with_threads_has_lanes() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["plugin.c", "newer.c"] {
        plugin(folder.path(), &root("fixtures/lanes").join(part), Mode::Full);
    }
    let host = folder.path().join("host");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root("crates/capi/include"));
    gcc.arg(root("fixtures/lanes/host.c")).arg("-L").arg(libraries()).args(["-lsfi", "-o"]).arg(&host);
    succeed(&mut gcc);
    let mut run = Command::new("timeout");
    run.arg("60").arg(&host).env("LD_LIBRARY_PATH", libraries()).current_dir(folder.path());
    let output = run.output().expect("coreutils");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    let expected = [
        "4000 calls of 4 threads, 4000 by the host's function",
        "two callers were inside at once",
        "one E-stack: refused, and then let in",
        "a fault ends the domain in both lanes, and it lives again",
        "a host function enters its own lane",
        "two threads call while the domain is loaded again",
        "lanes are busy",
        "changes are refused",
        "freed before the last lane",
    ];
    assert_eq!(lines, expected, "{errors}");
}
