//! `integrations/rlbox`: a driver in C++ uses all functions that RLBox asks of a plugin.

mod support;

use sfi_loader::Mode;
use std::collections::BTreeSet;
use std::process::Command;
use support::{libraries, plugin, printed, root, succeed};

/// A callback's result that crosses, and one that does not and is refused by the compiler.
#[test]
fn results_of_callbacks_cross_or_do_not_compile() {
    let here = root("integrations/rlbox");
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("callback.cc");
    for (result, crosses) in [
        ("struct { long a; }", true),
        ("struct { long a; char b; }", true),
        ("struct { double a, b; }", true),
        ("struct { long a, b; char c; }", true),
        ("struct { long double a; }", false),
    ] {
        let text = format!(
            "#include \"rlbox_sfi_sandbox.hpp\"\ntypedef {result} given;\n\
             struct box : rlbox::rlbox_sfi_sandbox {{\n\
             uintptr_t add(void *key) {{ return this->template impl_register_callback<given, long>(key, key); }}\n}};\n\
             uintptr_t add(box &sandbox, void *key) {{ return sandbox.add(key); }}\n"
        );
        std::fs::write(&source, text).unwrap();
        for compiler in ["g++", "clang++"] {
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"]);
            command.arg(root("crates/capi/include")).arg("-I").arg(&here).arg("-I").arg(here.join("test/stand-in"));
            let output = command.arg(&source).output().expect("the compiler: run `cargo xtask setup`");
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.success(), crosses, "{compiler}: {result}: {said}");
            let told = said.contains("aligned to more than 8 bytes do not cross");
            assert_eq!(told, !crosses, "{compiler}: {result}: {said}");
        }
    }
}

/// Returns the names of the functions of a plugin in a text.
fn functions(path: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root("integrations/rlbox").join(path)).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("impl_")).map(str::to_owned).collect()
}

/// The driver leaves none out.
#[test]
fn the_driver_uses_every_function() {
    let (all, used) = (functions("rlbox_sfi_sandbox.hpp"), functions("test/driver.cc"));
    assert!(all.contains("impl_unregister_callback") && all.len() >= 19, "{all:?}");
    assert_eq!(all, used);
}

#[test]
fn every_function_of_a_plugin() {
    let here = root("integrations/rlbox");
    let ways = [
        ("g++", Mode::Write, vec!["-std=c++17", "-O2"]),
        ("clang++", Mode::Full, vec!["-std=c++20", "-O1", "-DRLBOX_EMBEDDER_PROVIDES_TLS_STATIC_VARIABLES"]),
        ("g++", Mode::Full, vec!["-std=c++17", "-fsanitize=undefined", "-fno-sanitize-recover=all"]),
    ];
    for (compiler, mode, flags) in ways {
        let directory = tempfile::tempdir().unwrap();
        plugin(directory.path(), &here.join("test/library.c"), mode);
        let manifest = std::fs::read_to_string(here.join("test/library.toml")).unwrap();
        let mode = format!("[domains.library]\nmode = \"{}\"", format!("{mode:?}").to_lowercase());
        let manifest = manifest.replace("[domains.library]", &mode);
        std::fs::write(directory.path().join("library.toml"), manifest).unwrap();
        let mut command = Command::new(compiler);
        command.args(&flags).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"]);
        command.arg(root("crates/capi/include")).arg("-I").arg(&here).arg("-I").arg(here.join("test/stand-in"));
        command.arg(here.join("test/driver.cc")).args(["-o", "driver"]).arg(libraries().join("libsfi.a"));
        succeed(command.args(["-lgcc_eh", "-lm", "-ldl"]).current_dir(directory.path()));
        let said = printed(Command::new("./driver").current_dir(directory.path()));
        assert_eq!(said, "all checks hold\n", "{compiler} {flags:?}");
    }
}
