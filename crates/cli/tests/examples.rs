//! The examples and the transcript of the first README: the commands run unchanged and print the
//! output that the README shows.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::transcript::{is_shown, say, transcript};
use support::{Bench, root};

/// Returns the first block of a README with this language.
fn block(readme: &str, language: &str) -> String {
    let begin = format!("```{language}\n");
    let (_, rest) = readme.split_once(&begin).unwrap_or_else(|| panic!("no block {language}"));
    rest.split_once("```").unwrap().0.to_owned()
}

/// Returns the folder of `libsfi`. It lies beside the tests, because Cargo builds all forms of a
/// package's library at once.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn copy(from: &Path, bench: &Bench) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, bench.path(path.file_name().unwrap().to_str().unwrap())).unwrap();
        }
    }
}

/// Runs an example's commands in a copy of its folder. Its cargo commands work on the original.
fn run(name: &str) {
    let (source, bench, libraries) = (root().join("examples").join(name), Bench::new(), libraries());
    copy(&source, &bench);
    let readme = std::fs::read_to_string(source.join("README.md")).unwrap();
    let manifest = |path: &str| format!("cargo run --quiet --manifest-path '{}'", source.join(path).display());
    let script = block(&readme, "sh")
        .replace("cargo run -- ", &format!("{} -- ", manifest("Cargo.toml")))
        .replace("cargo run --manifest-path host/Cargo.toml", &manifest("host/Cargo.toml"));
    let sfi = Path::new(env!("CARGO_BIN_EXE_sfi"));
    let path = format!("{}:{}", sfi.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.arg("-ec").arg(script).current_dir(bench.directory()).env("PATH", path);
    command.env("SFI_BUILD", root().join("integrations/build").canonicalize().unwrap());
    let includes = ["crates/capi/include", "integrations/rlbox"].map(|folder| root().join(folder));
    command.env("LIBSFI_CFLAGS", includes.map(|folder| format!("-I{}", folder.display())).join(" "));
    command.env("LIBSFI_LIBS", format!("-L{0} -Wl,-rpath,{0} -lsfi", libraries.display()));
    // Bazel works in this folder instead of one for all builds of the user.
    command.env("TEST_TMPDIR", bench.path("bazel"));
    // Cargo names a folder with the library of an earlier build first.
    command.env_remove("LD_LIBRARY_PATH");
    let output = command.output().expect("sh runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{name}: {}{}", text(&output.stdout), text(&output.stderr));
    let said = text(&output.stdout).replace(&bench.directory().canonicalize().unwrap().display().to_string(), "...");
    assert_eq!(said, block(&readme, "text"), "{name}");
}

#[test]
fn the_gate_of_the_guide() {
    let bench = Bench::new();
    let guide = std::fs::read_to_string(root().join("docs/GUIDE.md")).unwrap();
    let (_, rest) = guide.split_once("The gate reports violations").unwrap();
    let console = block(rest, "console");
    let commands = transcript(&console);
    assert!(commands.iter().any(|(command, shown)| command.starts_with("sfi verify ") && shown.contains("SFI-S01")));
    for (command, shown) in commands {
        let said = say(&bench, command);
        assert!(is_shown(&said, &shown), "$ {command}\n{said}\nThe guide shows:\n{shown}");
    }
}

/// The files come from the README as well: the plugin from its block, and the manifest from the
/// output of `cat`.
#[test]
fn the_transcript_of_the_readme() {
    let bench = Bench::new();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    bench.write("plugin.c", block(&readme, "c").as_bytes());
    let console = block(&readme, "console");
    let commands = transcript(&console);
    for part in ["gcc ", "sfi rewrite ", "sfi verify ", "sfi run "] {
        assert!(commands.iter().any(|(command, _)| command.starts_with(part)), "{part}");
    }
    for (command, shown) in commands {
        if let Some(file) = command.strip_prefix("cat ") {
            bench.write(file, shown.as_bytes());
        }
        let said = say(&bench, command);
        assert!(is_shown(&said, &shown), "$ {command}\n{said}\nThe README shows:\n{shown}");
    }
}

#[test]
fn other_output_is_not_that_of_a_transcript() {
    let commands = transcript("$ a  # first\none\n\n$ b\n$ c\nthree\n...\n");
    assert_eq!(commands, [("a  # first", "one\n\n".into()), ("b", String::new()), ("c", "three\n...\n".into())]);
    assert!(is_shown("one\n", "one\n\n") && is_shown("three\nfour\n", "three\n...\n"));
    assert!(!is_shown("one\ntwo\n", "one\n") && !is_shown("", "one\n") && !is_shown("one\n", ""));
    assert!(!is_shown("threefold\n", "three\n...\n") && !is_shown("three\n", "three\n...\n"));
}

#[test]
fn a_host_in_rust() {
    run("rust");
}

#[test]
fn a_host_in_c() {
    run("c");
}

#[test]
fn a_host_in_cpp() {
    run("cpp");
}

/// The example's Makefile takes the headers of RLBox itself if `RLBOX` names their folder.
#[test]
fn the_example_with_rlbox() {
    run("rlbox");
}

/// A workflow fetches the headers, and runs the test above with them.
#[test]
fn a_workflow_runs_the_example_with_rlbox_itself() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let workflow = read(".github/workflows/rlbox.yml");
    let value = |key: &str| workflow.lines().find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(key));
    let test = workflow.lines().find_map(|line| line.trim().strip_prefix("- run: cargo test -p sfi-cli --test "));
    assert_eq!(test, Some("examples -- the_example_with_rlbox"));
    let folder = value("path: ").expect("a folder for RLBox");
    let headers = value("RLBOX: ${{ github.workspace }}/").expect("the headers' folder");
    assert_eq!(headers, format!("{folder}/code/include"));
    assert_eq!(value("ref: ").map(str::len), Some(40), "a commit is named, not a branch");
    assert!(read("examples/rlbox/Makefile").contains("ifdef RLBOX\nTAINTED := -I$(RLBOX) -DWITH_RLBOX "));
    for folder in ["crates/capi/include", "integrations/rlbox", "examples/rlbox"] {
        assert_eq!(workflow.matches(&format!("\"{folder}/**\"")).count(), 2, "{folder}");
    }
}

#[test]
fn handlers_of_messages() {
    run("ash");
}

#[test]
fn a_plugin_by_every_build_system() {
    run("build");
}

/// The overview names every example, and this file runs each of them.
#[test]
fn every_example_is_run() {
    let folder = root().join("examples");
    let overview = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = entries
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["ash", "build", "c", "cpp", "rlbox", "rust"]);
    assert!(names.iter().all(|name| overview.contains(&format!("]({name}/README.md)"))));
}
