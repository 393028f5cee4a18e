//! The files in `ci/` do what they promise. Each runs with the built `sfi` on an object that is
//! safe and on one that is not.

mod support;

use serde_norway::Value;
use std::process::{Command, Output};
use support::{Bench, root, succeed};

const UNSAFE: &str = ".text\n.globl f\nf:\n\tmov %rax,(%rdi)\n\tret\n";
const SAFE: &str = ".text\n.globl g\ng:\n\tmov %rax,%gs:(%edi)\n\tret\n";
const SFI: &str = env!("CARGO_BIN_EXE_sfi");

fn bench() -> Bench {
    let bench = Bench::new();
    bench.assemble("bad.o", UNSAFE);
    bench.assemble("good.o", SAFE);
    bench
}

fn yaml(path: &str) -> Value {
    serde_norway::from_str(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs the action's one step as a runner does: `bash -e` on a file, with the inputs in its `env`.
fn action(bench: &Bench, inputs: &[(&str, &str)]) -> Output {
    let action = yaml("ci/action.yml");
    assert_eq!(action["runs"]["using"], "composite");
    let steps = action["runs"]["steps"].as_sequence().unwrap();
    // The other step is GitHub's own. It must run after a refusal too.
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[1]["if"], "always() && inputs.upload == 'true'");
    assert_eq!(steps[1]["with"]["sarif_file"], "${{ inputs.sarif }}");
    bench.write("step.sh", steps[0]["run"].as_str().unwrap().as_bytes());
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "step.sh"]).current_dir(bench.directory());
    command.env("GITHUB_OUTPUT", "outputs");
    for (name, value) in steps[0]["env"].as_mapping().unwrap() {
        let expression = value.as_str().unwrap();
        let input = expression.strip_prefix("${{ inputs.").and_then(|v| v.strip_suffix(" }}")).unwrap();
        let given = inputs.iter().find(|(name, _)| *name == input).map(|(_, value)| *value);
        let value = given.or(action["inputs"][input]["default"].as_str()).expect("an input or its default");
        command.env(name.as_str().unwrap(), value);
    }
    command.output().unwrap()
}

#[test]
fn the_action_gates() {
    let bench = bench();
    std::fs::rename(bench.path("good.o"), bench.path("a good.o")).unwrap();
    let good = action(&bench, &[("sfi", SFI), ("objects", "a g*.o\n"), ("attest", "s.json"), ("mode", "full")]);
    assert!(good.status.success(), "{}", said(&good));
    assert!(std::fs::read_to_string(bench.path("s.json")).unwrap().contains("PASSED"));
    assert_eq!(std::fs::read_to_string(bench.path("outputs")).unwrap(), "sarif=sfi.sarif\n");
    let bad = action(&bench, &[("sfi", SFI), ("objects", "*.o"), ("attest", "s.json")]);
    assert_eq!(bad.status.code(), Some(1), "{}", said(&bad));
    assert!(said(&bad).contains("error[SFI-S01]"));
    assert!(std::fs::read_to_string(bench.path("s.json")).unwrap().contains("FAILED"));
    assert!(std::fs::read_to_string(bench.path("sfi.sarif")).unwrap().contains("\"SFI-S01\""));
    let since = [("sfi", SFI), ("objects", "*.o"), ("since", "sfi.sarif"), ("sarif", "now.sarif")];
    assert!(action(&bench, &since).status.success());
    std::fs::create_dir_all(bench.path("deep/er")).unwrap();
    std::fs::copy(bench.path("bad.o"), bench.path("deep/er/bad.o")).unwrap();
    let deep = action(&bench, &[("sfi", SFI), ("objects", "**/*.o"), ("since", "sfi.sarif"), ("sarif", "now.sarif")]);
    assert_eq!(deep.status.code(), Some(1), "{}", said(&deep));
    assert!(said(&deep).contains("refused: deep/er/bad.o: 1 violation\n"), "{}", said(&deep));
    for nothing in ["", "missing*.o"] {
        assert!(!action(&bench, &[("sfi", SFI), ("objects", nothing)]).status.success(), "{nothing}");
    }
}

#[test]
fn the_pre_commit_hook_gates() {
    let bench = bench();
    let hook = &yaml(".pre-commit-hooks.yaml")[0];
    assert_eq!(hook["language"], "system");
    let mut words = hook["entry"].as_str().unwrap().split(' ');
    assert_eq!(words.next(), Some("sfi"));
    let words: Vec<&str> = words.collect();
    bench.run(&[words.as_slice(), &["good.o"]].concat(), 0);
    bench.run(&[words.as_slice(), &["good.o", "bad.o"]].concat(), 1);
}

#[test]
fn the_cmake_function_gates() {
    for (source, is_safe) in [(SAFE, true), (UNSAFE, false)] {
        let bench = Bench::new();
        bench.write("code.s", source.as_bytes());
        bench.write("policy.toml", b"modes = ['write']\n");
        let include = root().join("integrations/build/sfiConfig.cmake").canonicalize().unwrap();
        let lists = format!(
            "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES C ASM)\ninclude(\"{}\")\nadd_library(code STATIC code.s)\n\
             sfi_verify(code MODE write POLICY policy.toml)\n",
            include.display()
        );
        bench.write("CMakeLists.txt", lists.as_bytes());
        let program = format!("-DSFI_EXECUTABLE={SFI}");
        succeed(Command::new("cmake").args(["-G", "Ninja", "-B", "build", &program]).current_dir(bench.directory()));
        let built = Command::new("cmake").args(["--build", "build"]).current_dir(bench.directory()).output().unwrap();
        assert_eq!(built.status.success(), is_safe, "{}", said(&built));
        assert_eq!(said(&built).contains("SFI-S01"), !is_safe, "{}", said(&built));
    }
}

#[test]
fn the_ninja_rule_gates() {
    let bench = bench();
    std::fs::copy(root().join("integrations/build/sfi.ninja"), bench.path("sfi.ninja")).unwrap();
    for (object, is_safe) in [("good.o", true), ("bad.o", false)] {
        let text = format!(
            "sfi_program = {SFI}\nsfi_mode = --mode write\ninclude sfi.ninja\nbuild verified: sfi_verify {object}\n"
        );
        bench.write("build.ninja", text.as_bytes());
        let built = Command::new("ninja").current_dir(bench.directory()).output().unwrap();
        assert_eq!(built.status.success(), is_safe, "{}", said(&built));
        assert_eq!(said(&built).contains("SFI-S01"), !is_safe, "{}", said(&built));
    }
}

#[test]
fn the_bazel_rules_gate() {
    let bench = bench();
    std::fs::copy(root().join("integrations/build/sfi.bzl"), bench.path("sfi.bzl")).unwrap();
    bench.write("plugin.c", b"int set(int *at) { return *at = 7; }");
    succeed(Command::new("gcc").args(["-O2", "-fPIE", "-c", "plugin.c"]).current_dir(bench.directory()));
    std::fs::create_dir(bench.path("tools")).unwrap();
    std::os::unix::fs::symlink(SFI, bench.path("tools/sfi")).unwrap();
    bench.write("tools/BUILD", b"exports_files([\"sfi\"])");
    bench.write("WORKSPACE", b"");
    let rule = |rule: &str, name: &str, object: &str, more: &str| {
        format!("{rule}(name = \"{name}\", srcs = [\"{object}\"], sfi = \"//tools:sfi\"{more})\n")
    };
    let rules = [
        "load(\"//:sfi.bzl\", \"sfi_plugin\", \"sfi_verify\")\n".to_owned(),
        rule("sfi_verify", "accepted", "good.o", ""),
        rule("sfi_verify", "refused", "bad.o", ""),
        rule("sfi_plugin", "made", "plugin.o", ", mode = \"full\", options = [\"--deny-unknown\"]"),
        rule("sfi_plugin", "full", "plugin.o", ", mode = \"full\""),
        rule("sfi_verify", "again", ":full", ", mode = \"full\""),
    ];
    bench.write("BUILD", rules.concat().as_bytes());
    let build = |target: &str| {
        let mut bazel = Command::new("bazel");
        bazel.args(["--batch", "build", target]).env("TEST_TMPDIR", bench.path("bazel"));
        bazel.current_dir(bench.directory()).output().unwrap()
    };
    for (target, is_built) in [("accepted", true), ("refused", false), ("again", true), ("made", false)] {
        let built = build(target);
        assert_eq!(built.status.success(), is_built, "{}", said(&built));
        assert_eq!(said(&built).contains("SFI-S01"), target == "refused", "{}", said(&built));
    }
    bench.run(&["verify", "--mode", "full", "bazel-bin/full/plugin.o"], 0);
    assert!(!bench.path("bazel-bin/made/plugin.o").exists());
}
