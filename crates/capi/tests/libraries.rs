//! The two libraries as users get them: the shared one has a name and versions, and hosts can be
//! linked statically, without any shared library.

mod support;

use object::read::elf::{Dyn, FileHeader};
use object::{Object, ObjectSymbol};
use sfi_loader::Mode;
use std::path::Path;
use std::process::Command;
use support::{libraries, plugin, printed, root, succeed};

/// Puts a plugin and a host that calls it into a folder.
fn host(directory: &Path) {
    std::fs::write(directory.join("plugin.c"), "long add(long a, long b) { return a + b; }").unwrap();
    plugin(directory, &directory.join("plugin.c"), Mode::Write);
    std::fs::write(directory.join("domains.toml"), "[domains.plugin]\nobjects = [\"plugin.sfi.o\"]\n").unwrap();
    let source = r#"
#include "sfi.h"
#include <stdio.h>
int main(void)
{
    sfi_world *world;
    sfi_function *add;
    sfi_value sum, arguments[] = {sfi_i(40), sfi_i(2)};
    if (sfi_world_open("domains.toml", NULL, &world, NULL)) return 1;
    if (sfi_function_find(world, "plugin", "add", "(int, int) -> int", &add, NULL)) return 2;
    if (sfi_call(world, add, arguments, 2, NULL, &sum, NULL)) return 3;
    printf("%ld\n", (long)sum.i);
    return sfi_world_close(world, NULL);
}
"#;
    std::fs::write(directory.join("host.c"), source).unwrap();
}

fn compile(directory: &Path, link: &[String]) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(root("crates/capi/include")).arg("host.c");
    succeed(gcc.args(link).args(["-o", "host"]).current_dir(directory));
    assert_eq!(printed(Command::new("./host").current_dir(directory)), "42\n", "{link:?}");
}

/// Returns what programs look for, and what a library needs. Nothing if it is linked statically.
fn names(path: &Path) -> (Option<String>, Vec<String>) {
    let bytes = std::fs::read(path).unwrap();
    let header = object::elf::FileHeader64::<object::Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let Some((entries, link)) = sections.dynamic(endian, &*bytes).unwrap() else { return (None, Vec::new()) };
    let strings = sections.strings(endian, &*bytes, link).unwrap();
    let text = |tag: object::elf::DynamicTag| {
        let found = entries.iter().filter(move |entry| entry.tag(endian) == tag);
        found.map(|entry| String::from_utf8(entry.string(endian, strings).unwrap().to_vec()).unwrap())
    };
    (text(object::elf::DT_SONAME).next(), text(object::elf::DT_NEEDED).collect())
}

#[test]
fn the_shared_library_has_a_name_and_versions() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    host(directory);
    let shared = directory.join("libsfi.so.0");
    let mut link = Command::new("sh");
    link.arg(root("crates/capi/link.sh")).arg(libraries().join("libsfi.a"));
    succeed(link.arg(root("crates/capi/include/sfi.h")).arg(&shared));
    let (name, needed) = names(&shared);
    assert_eq!(name.as_deref(), Some("libsfi.so.0"));
    assert!(
        needed.iter().all(|n| ["libgcc_s.so.1", "libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"].contains(&&**n)),
        "{needed:?}"
    );

    let bytes = std::fs::read(&shared).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let exported: Vec<String> = file
        .dynamic_symbols()
        .filter(|s| s.is_definition() && s.is_global())
        .map(|s| s.name().unwrap().to_owned())
        .collect();
    let foreign: Vec<_> = exported.iter().filter(|name| !name.starts_with("sfi_") && *name != "SFI_0").collect();
    assert!(foreign.is_empty() && exported.len() > 60, "{foreign:?} of {}", exported.len());

    std::os::unix::fs::symlink("libsfi.so.0", directory.join("libsfi.so")).unwrap();
    let at = directory.display();
    compile(directory, &[format!("-L{at}"), format!("-Wl,-rpath,{at}"), "-lsfi".into()]);
    assert!(names(&directory.join("host")).1.contains(&"libsfi.so.0".to_owned()));
    let symbols = printed(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(directory.join("host")));
    assert!(symbols.contains("sfi_call@SFI_0"), "{symbols}");
}

/// Installs as the guide says, and runs its commands.
#[test]
fn the_guides_commands_link_what_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    host(directory);
    let mut install = Command::new("make");
    install.arg("-C").arg(root("crates/capi")).args(["install", "PREFIX=/usr/local"]);
    install.arg(format!("DESTDIR={}", directory.join("root").display()));
    install.arg(format!("LIBSFI_A={}", libraries().join("libsfi.a").display()));
    succeed(install.arg(format!("OUT={}", directory.display())));
    let library = directory.join("root/usr/local/lib");
    let guide = std::fs::read_to_string(root("docs/GUIDE.md")).unwrap();
    let commands: Vec<&str> =
        guide.lines().filter(|line| line.starts_with("gcc ") && line.contains("pkg-config")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PKG_CONFIG_PATH", library.join("pkgconfig")).current_dir(directory);
        succeed(&mut shell);
        let run = printed(Command::new("./host").env("LD_LIBRARY_PATH", &library).current_dir(directory));
        assert_eq!(run, "42\n", "{command}");
        let is_shared = names(&directory.join("host")).1.iter().any(|name| name == "libsfi.so.0");
        assert_eq!(is_shared, !command.contains("-static"), "{command}");
    }
}

/// With the flags that pkg-config gives for `--static`.
#[test]
fn hosts_can_be_linked_statically() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let text = std::fs::read_to_string(root("crates/capi/sfi.pc")).unwrap();
    let private = text.lines().find_map(|line| line.strip_prefix("Libs.private:")).unwrap();
    let flags: Vec<String> = private.split_whitespace().map(str::to_owned).collect();
    assert!(flags.contains(&"-lgcc_eh".to_owned()));
    let archive = libraries().join("libsfi.a").display().to_string();
    for way in ["-static", "-static-pie", "-pie"] {
        compile(folder.path(), &[vec![way.into(), archive.clone()], flags.clone()].concat());
    }
}
