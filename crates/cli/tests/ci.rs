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

/// Runs the action's step that verifies.
fn action(bench: &Bench, inputs: &[(&str, &str)]) -> Output {
    step(bench, 1, inputs)
}

/// Runs a step of the action as a runner does: `bash -e` on a file, with the inputs in its `env`.
fn step(bench: &Bench, number: usize, inputs: &[(&str, &str)]) -> Output {
    let action = yaml("ci/action.yml");
    assert_eq!(action["runs"]["using"], "composite");
    let steps = action["runs"]["steps"].as_sequence().unwrap();
    // The last step is GitHub's own. It must run after a refusal too.
    assert_eq!(steps.len(), 3);
    assert_eq!(steps[0]["if"], "inputs.version != ''");
    assert_eq!(steps[2]["if"], "always() && inputs.upload == 'true'");
    assert_eq!(steps[2]["with"]["sarif_file"], "${{ inputs.sarif }}");
    bench.write("step.sh", steps[number]["run"].as_str().unwrap().as_bytes());
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "step.sh"]).current_dir(bench.directory());
    command
        .env("GITHUB_OUTPUT", "outputs")
        .env("GITHUB_PATH", bench.path("path"))
        .env("RUNNER_TEMP", bench.directory());
    command.env("GITHUB_SERVER_URL", "file:///nowhere").env("GITHUB_ACTION_REPOSITORY", "owner/sfi");
    for (name, value) in steps[number]["env"].as_mapping().unwrap() {
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

/// The release is a folder with the built program, packed as `cargo xtask dist` packs it.
#[test]
fn the_action_installs_a_release_if_its_digest_is_right() {
    let bench = bench();
    let name = "sfi-0.1.0-x86_64-linux";
    let archive = bench.path(&format!("releases/v0.1.0/{name}.tar.gz"));
    std::fs::create_dir_all(archive.parent().unwrap()).unwrap();
    std::fs::create_dir_all(bench.path(name).join("bin")).unwrap();
    std::fs::copy(SFI, bench.path(name).join("bin/sfi")).unwrap();
    succeed(Command::new("tar").arg("-czf").arg(&archive).arg(name).current_dir(bench.directory()));
    let sums = archive.with_file_name("SHA256SUMS");
    let digest = support::sha256sum(&archive);
    std::fs::write(&sums, format!("{digest}  {name}.tar.gz\n")).unwrap();
    let releases = format!("file://{}", bench.path("releases").display());
    let install = |more: &[(&str, &str)]| {
        let _ = std::fs::remove_file(bench.path("path"));
        step(&bench, 0, &[more, &[("version", "v0.1.0"), ("releases", &releases)]].concat())
    };
    for more in [&[][..], &[("sha256", digest.as_str())]] {
        let good = install(more);
        assert!(good.status.success(), "{}", said(&good));
        let path = std::fs::read_to_string(bench.path("path")).unwrap();
        let sfi = std::path::Path::new(path.trim_end()).join("sfi");
        assert!(action(&bench, &[("sfi", sfi.to_str().unwrap()), ("objects", "good.o")]).status.success());
    }
    let is_refused = |more: &[(&str, &str)], why: &str| {
        let bad = install(more);
        assert!(!bad.status.success() && said(&bad).contains(why), "{why}: {}", said(&bad));
        assert!(!bench.path("path").exists(), "{why}");
    };
    is_refused(&[("sha256", &"0".repeat(64))], "FAILED");
    is_refused(&[("version", "0.2.0")], "curl");
    // By default the releases are those of the action's own repository, which is nowhere here.
    is_refused(&[("releases", "")], "curl");
    std::fs::write(&sums, format!("{digest}  other.tar.gz\n")).unwrap();
    is_refused(&[], "does not name");
    std::fs::write(&sums, format!("{}  {name}.tar.gz\n", "0".repeat(64))).unwrap();
    is_refused(&[], "FAILED");
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

/// An option that a function of CMake does not have is an error and is not passed over.
#[test]
fn the_cmake_function_refuses_options_of_others() {
    for (options, why) in [
        ("OUTPUT other.a", Some("sfi_verify(code): OUTPUT is for sfi_rewrite")),
        ("REWRITE_OPTIONS --skip-refused", Some("sfi_verify(code): REWRITE_OPTIONS is for sfi_rewrite")),
        ("FULL", Some("sfi_verify(code): FULL is not understood")),
        ("MODE full", None),
    ] {
        let bench = Bench::new();
        bench.write("code.s", SAFE.as_bytes());
        let lists =
            format!("find_package(sfi REQUIRED)\nadd_library(code STATIC code.s)\nsfi_verify(code {options})\n");
        let configured = cmake(&bench, &lists, &[]);
        assert_eq!(configured.status.success(), why.is_none(), "{options}: {}", said(&configured));
        // CMake breaks long lines.
        let words = said(&configured).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(why.is_none_or(|why| words.contains(why)), "{options}: {words}");
    }
}

/// An object that is rewritten, one that the rewriter refuses, and one that the policy refuses.
const SOURCES: [(&str, &str, Option<&str>); 3] = [
    ("plain.s", UNSAFE, None),
    ("refused.s", ".text\n.globl h\n.type h, @function\nh: wrmsr\n ret\n", Some("error[SFI-W03]")),
    ("unwanted.s", ".text\n.globl i\n.type i, @function\ni: cpuid\n ret\n", Some("error[SFI-P03]")),
];
const POLICY: &[u8] = b"modes = ['write']\ninstructions.cpuid = false\n";

/// Writes a policy and the sources, with an object and an archive of each.
fn rewritable() -> Bench {
    let bench = Bench::new();
    bench.write("policy.toml", POLICY);
    for (name, source, _) in SOURCES {
        bench.write(name, source.as_bytes());
        let stem = name.trim_end_matches(".s");
        bench.assemble(&format!("{stem}.o"), source);
        bench.archive(&format!("{stem}.a"), &[&format!("{stem}.o")]);
    }
    // One part can be rewritten.
    bench.archive("both.a", &["plain.o", "refused.o"]);
    bench
}

/// Runs the builds of the sources. Each output exists if and only if it has a verdict, and an
/// earlier one does not outlive a refusal.
fn judge(bench: &Bench, output: impl Fn(&str) -> String, build: impl Fn(&str) -> Output) {
    for (name, _, error) in SOURCES {
        let stem = name.trim_end_matches(".s");
        let made = bench.path(&output(stem));
        std::fs::create_dir_all(made.parent().unwrap()).unwrap();
        std::fs::write(&made, "stale").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::options().write(true).open(&made).unwrap().set_modified(old).unwrap();
        let built = build(stem);
        assert_eq!(built.status.success(), error.is_none(), "{stem}: {}", said(&built));
        assert_eq!(made.exists(), error.is_none(), "{stem}: {}", said(&built));
        match error {
            Some(error) => assert!(said(&built).contains(error), "{stem}: {}", said(&built)),
            None => _ = bench.run(&["verify", made.to_str().unwrap()], 0),
        }
    }
}

fn integration(name: &str) -> std::path::PathBuf {
    root().join("integrations/build").join(name).canonicalize().unwrap()
}

/// Configures a project of CMake.
fn cmake(bench: &Bench, lists: &str, more: &[&str]) -> Output {
    let lists = format!("cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES C ASM)\n{lists}");
    bench.write("CMakeLists.txt", lists.as_bytes());
    let mut cmake = Command::new("cmake");
    cmake.args(["-G", "Ninja", "-B", "build", &format!("-DSFI_EXECUTABLE={SFI}")]).args(more);
    cmake.arg(format!("-Dsfi_DIR={}", integration("").display())).current_dir(bench.directory()).output().unwrap()
}

#[test]
fn cmake_rewrites_or_leaves_no_output() {
    let bench = rewritable();
    let mut lists = String::from("find_package(sfi REQUIRED)\n");
    for (name, _, _) in SOURCES {
        let stem = name.trim_end_matches(".s");
        lists += &format!(
            "sfi_add_plugin(a-{stem} {name} POLICY policy.toml)\nadd_library(b-{stem} STATIC {name})\n\
             sfi_rewrite(b-{stem} POLICY policy.toml)\nsfi_rewrite_archive(c-{stem} {stem}.a POLICY policy.toml)\n"
        );
    }
    lists += "sfi_rewrite_archive(both both.a)\nsfi_rewrite_archive(part both.a REWRITE_OPTIONS --skip-refused)\n";
    let configured = cmake(&bench, &lists, &[]);
    assert!(configured.status.success(), "{}", said(&configured));
    let build = |target: &str| {
        Command::new("cmake")
            .args(["--build", "build", "--target", target])
            .current_dir(bench.directory())
            .output()
            .unwrap()
    };
    judge(&bench, |stem| format!("build/a-{stem}.sfi.a"), |stem| build(&format!("a-{stem}-sfi")));
    judge(&bench, |stem| format!("build/b-{stem}.sfi.a"), |stem| build(&format!("b-{stem}-sfi")));
    judge(&bench, |stem| format!("build/c-{stem}.sfi.a"), |stem| build(&format!("c-{stem}")));
    assert!(!build("both").status.success() && !bench.path("build/both.sfi.a").exists());
    let part = build("part");
    assert!(part.status.success() && said(&part).contains("warning[SFI-W03]"), "{}", said(&part));
    assert!(!said(&part).contains("error"), "{}", said(&part));
    bench.run(&["verify", "build/part.sfi.a"], 0);
}

#[test]
fn cmake_finds_versions_that_are_compatible() {
    let own = env!("CARGO_PKG_VERSION");
    let minor = own.rsplit_once('.').unwrap().0;
    for (wanted, is_found) in [("", true), (own, true), (minor, true), ("0.99", false), ("1.0", false), ("0.0", false)]
    {
        let configured = cmake(&Bench::new(), &format!("find_package(sfi {wanted} REQUIRED)\n"), &[]);
        assert_eq!(configured.status.success(), is_found, "{wanted}: {}", said(&configured));
    }
    let exact = cmake(&Bench::new(), &format!("find_package(sfi {own} EXACT REQUIRED)\n"), &[]);
    assert!(exact.status.success(), "{}", said(&exact));
}

#[test]
fn the_cmake_toolchain_makes_sandboxed_programs() {
    let bench = Bench::new();
    bench.write("main.c", b"#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n");
    let toolchain = format!("-DCMAKE_TOOLCHAIN_FILE={}", integration("sfi-toolchain.cmake").display());
    let configured = cmake(&bench, "add_executable(prog main.c)\n", &[&toolchain]);
    assert!(configured.status.success(), "{}", said(&configured));
    let built = Command::new("cmake").args(["--build", "build"]).current_dir(bench.directory()).output().unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let ran = bench.run(&["run", "build/prog"], 0);
    assert_eq!(said(&ran), "hello\n");
}

#[test]
fn make_rewrites_or_leaves_no_output() {
    let bench = rewritable();
    let text = format!("SFI = {SFI}\nSFI_POLICY = policy.toml\ninclude {}\n", integration("sfi.mk").display());
    bench.write("Makefile", text.as_bytes());
    let build = |target: &str, more: &[&str]| {
        Command::new("make").arg(target).args(more).current_dir(bench.directory()).output().unwrap()
    };
    judge(&bench, |stem| format!("{stem}.sfi.o"), |stem| build(&format!("{stem}.sfi.o"), &[]));
    judge(&bench, |stem| format!("{stem}.sfi.a"), |stem| build(&format!("{stem}.sfi.a"), &[]));
    assert!(!build("both.sfi.a", &[]).status.success() && !bench.path("both.sfi.a").exists());
    let part = build("both.sfi.a", &["SFI_REWRITEFLAGS=--skip-refused"]);
    assert!(part.status.success(), "{}", said(&part));
    bench.run(&["verify", "both.sfi.a"], 0);
}

#[test]
fn ninja_rewrites_or_leaves_no_output() {
    let bench = rewritable();
    let mut text = format!(
        "sfi_program = {SFI}\nsfi_options = --policy policy.toml\ninclude {}\n",
        integration("sfi.ninja").display()
    );
    for stem in ["plain", "refused", "unwanted", "both"] {
        text += &format!("build {stem}.sfi.a: sfi_rewrite {stem}.a\n");
    }
    text += "build part.sfi.a: sfi_rewrite both.a\n  sfi_rewrite_options = --skip-refused\n";
    bench.write("build.ninja", text.as_bytes());
    let build = |target: &str| Command::new("ninja").arg(target).current_dir(bench.directory()).output().unwrap();
    judge(&bench, |stem| format!("{stem}.sfi.a"), |stem| build(&format!("{stem}.sfi.a")));
    assert!(!build("both.sfi.a").status.success() && !bench.path("both.sfi.a").exists());
    let part = build("part.sfi.a");
    assert!(part.status.success(), "{}", said(&part));
    bench.run(&["verify", "part.sfi.a"], 0);
}

#[test]
fn meson_rewrites_or_leaves_no_output() {
    let bench = rewritable();
    std::fs::create_dir(bench.path("sfi")).unwrap();
    std::fs::copy(integration("meson.build"), bench.path("sfi/meson.build")).unwrap();
    let project = |options: &str, archives: &[&str]| {
        let mut text = format!(
            "project('p', 'c')\nsfi_verify_options = ['--policy', meson.current_source_dir() / 'policy.toml']\n{options}\n\
             subdir('sfi')\n"
        );
        for name in archives {
            let (stem, kind) = name.split_once('.').unwrap();
            let output = format!("{stem}-{kind}.sfi.a");
            text += &format!("custom_target('{output}', input: '{name}', output: '{output}', command: sfi_plugin)\n");
        }
        text
    };
    let inputs = ["plain.a", "refused.a", "unwanted.a", "plain.o", "refused.o", "unwanted.o", "both.a"];
    let path = format!("{}:{}", std::path::Path::new(SFI).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let meson = |arguments: &[&str]| {
        Command::new("meson").args(arguments).env("PATH", &path).current_dir(bench.directory()).output().unwrap()
    };
    bench.write("meson.build", project("", &inputs).as_bytes());
    let set_up = meson(&["setup", "build"]);
    assert!(set_up.status.success(), "{}", said(&set_up));
    let build = |target: &str| {
        let mut ninja = Command::new("ninja");
        ninja.args(["-C", "build", target]).env("PATH", &path).current_dir(bench.directory()).output().unwrap()
    };
    for kind in ["a", "o"] {
        let output = |stem: &str| format!("{stem}-{kind}.sfi.a");
        judge(&bench, |stem| format!("build/{}", output(stem)), |stem| build(&output(stem)));
    }
    assert!(!build("both-a.sfi.a").status.success() && !bench.path("build/both-a.sfi.a").exists());
    bench.write("meson.build", project("sfi_rewrite_options = ['--skip-refused']", &inputs).as_bytes());
    let part = build("both-a.sfi.a");
    assert!(part.status.success(), "{}", said(&part));
    bench.run(&["verify", "build/both-a.sfi.a"], 0);
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
        // Two files of one name.
        "sfi_plugin(name = \"twice\", srcs = [\"plugin.o\", \"//other:plugin.o\"], sfi = \"//tools:sfi\")\n".to_owned(),
        rule("sfi_verify", "both", ":twice", ""),
    ];
    std::fs::create_dir(bench.path("other")).unwrap();
    bench.write("other/BUILD", b"exports_files([\"plugin.o\"])");
    bench.assemble("other/plugin.o", UNSAFE);
    bench.write("BUILD", rules.concat().as_bytes());
    let build = |target: &str| {
        let mut bazel = Command::new("bazel");
        bazel.args(["--batch", "build", target]).env("TEST_TMPDIR", bench.path("bazel"));
        bazel.current_dir(bench.directory()).output().unwrap()
    };
    for (target, is_built) in [("accepted", true), ("refused", false), ("again", true), ("both", true), ("made", false)]
    {
        let built = build(target);
        assert_eq!(built.status.success(), is_built, "{}", said(&built));
        assert_eq!(said(&built).contains("SFI-S01"), target == "refused", "{}", said(&built));
    }
    bench.run(&["verify", "--mode", "full", "bazel-bin/full/plugin.o"], 0);
    assert!(!bench.path("bazel-bin/made/plugin.o").exists());
    bench.run(&["verify", "bazel-bin/twice/plugin.o", "bazel-bin/twice/2/plugin.o"], 0);
    let symbols = |path: &str| succeed(Command::new("nm").arg(path).current_dir(bench.directory()));
    assert!(symbols("bazel-bin/twice/plugin.o").contains(" T set"));
    assert!(!symbols("bazel-bin/twice/2/plugin.o").contains(" T set"));
    assert!(bench.path("bazel-bin/both/2/plugin.o.sarif").exists());
}

/// Actions are functions of their inputs: a build in another folder takes all of them from a cache.
#[test]
fn bazel_finds_each_file_in_a_cache() {
    let bench = Bench::new();
    std::fs::copy(integration("sfi.bzl"), bench.path("sfi.bzl")).unwrap();
    bench.assemble("a.o", UNSAFE);
    bench.assemble("b.o", SAFE);
    std::fs::create_dir(bench.path("tools")).unwrap();
    std::os::unix::fs::symlink(SFI, bench.path("tools/sfi")).unwrap();
    bench.write("tools/BUILD", b"exports_files([\"sfi\"])");
    bench.write("WORKSPACE", b"");
    let rules = "load(\"//:sfi.bzl\", \"sfi_plugin\", \"sfi_verify\")\n\
        sfi_plugin(name = \"made\", srcs = [\"a.o\"], sfi = \"//tools:sfi\")\n\
        sfi_verify(name = \"judged\", srcs = [\":made\", \"b.o\"], sfi = \"//tools:sfi\")\n";
    bench.write("BUILD", rules.as_bytes());
    let cache = format!("--disk_cache={}", bench.path("cache").display());
    // Returns the number of actions that the cache answered, and the report on `a.o`.
    let build = |base: &str, more: &[&str]| {
        let mut bazel = Command::new("bazel");
        bazel.args(["--batch", "build", "//:judged"]).args(more).env("TEST_TMPDIR", bench.path(base));
        let built = bazel.current_dir(bench.directory()).output().unwrap();
        assert!(built.status.success(), "{}", said(&built));
        let hits = said(&built).lines().find_map(|line| {
            let (before, _) = line.split_once(" remote cache hit").or_else(|| line.split_once(" disk cache hit"))?;
            before.rsplit(' ').next()?.parse::<u32>().ok()
        });
        (hits.unwrap_or(0), std::fs::read(bench.path("bazel-bin/judged/a.o.sarif")).unwrap())
    };
    // Five actions: rewriting, two verdicts and the copy of `a.o`, and the verdict of `b.o`.
    let (hits, report) = build("one", &[&cache[..]]);
    assert_eq!(hits, 0);
    assert_eq!(build("two", &[&cache[..]]), (5, report.clone()));
    // Without a cache another folder gives the same report.
    assert_eq!(build("three", &[]), (0, report));
    // Only the file that changed is judged again.
    bench.assemble("b.o", &format!("{SAFE}\tret\n"));
    assert_eq!(build("four", &[&cache[..]]).0, 4);
}
