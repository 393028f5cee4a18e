//! `fixtures/images`: a host in C whose processes pass an image to each other.

mod support;

use sfi_loader::Mode;
use std::process::Command;
use support::{libraries, plugin, printed, root, succeed};

#[test]
fn processes_pass_an_image_to_each_other() {
    for mode in [Mode::Write, Mode::Full] {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        plugin(directory.path(), &root("fixtures/images/plugin.c"), mode);
        let manifest = std::fs::read_to_string(root("fixtures/images/domains.toml")).unwrap();
        let mode = format!("objects = [\"plugin.sfi.o\"]\nmode = \"{}\"", format!("{mode:?}").to_lowercase());
        std::fs::write(at("domains.toml"), manifest.replace("objects = [\"plugin.sfi.o\"]", &mode)).unwrap();
        succeed(
            Command::new("gcc")
                .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(root("crates/capi/include"))
                .arg(root("fixtures/images/host.c"))
                .arg("-o")
                .arg(at("host"))
                .arg(libraries().join("libsfi.a"))
                .args(["-lgcc_s", "-lm", "-lpthread", "-ldl"]),
        );
        assert_eq!(printed(Command::new(at("host")).current_dir(directory.path())), "all checks hold\n");
    }
}
