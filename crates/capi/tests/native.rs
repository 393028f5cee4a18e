//! `fixtures/native`: a host in C with calls by pointer, structures by value, callbacks that come
//! and go, instances, templates, pools, servers, and threads that share a world.

mod support;

use sfi_loader::Mode;
use std::process::Command;
use support::{libraries, plugin, printed, root, succeed};

#[test]
fn a_host_that_calls_by_pointer() {
    for mode in [Mode::Write, Mode::Full] {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        plugin(directory.path(), &root("fixtures/native/plugin.c"), mode);
        let manifest = std::fs::read_to_string(root("fixtures/native/domains.toml")).unwrap();
        let mode = format!("objects = [\"plugin.sfi.o\"]\nmode = \"{}\"", format!("{mode:?}").to_lowercase());
        std::fs::write(at("domains.toml"), manifest.replace("objects = [\"plugin.sfi.o\"]", &mode)).unwrap();
        succeed(
            Command::new("gcc")
                .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
                .arg(root("crates/capi/include"))
                .arg(root("fixtures/native/host.c"))
                .arg("-o")
                .arg(at("host"))
                .arg(libraries().join("libsfi.a"))
                .args(["-lgcc_eh", "-lm", "-lpthread", "-ldl"]),
        );
        assert_eq!(printed(Command::new(at("host")).current_dir(directory.path())), "all checks hold\n", "{mode}");
    }
}
