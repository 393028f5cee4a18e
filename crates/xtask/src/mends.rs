//! `cargo xtask mutants --mends`

use crate::planted::{Mistake, mistakes, plant};
use crate::setup::cargo;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The switch that each crate of the copy gets. Tests pass it on to the programs that they start.
const SWITCH: &str = "
/// Says whether a mend is undone.
pub(crate) fn planted(number: usize) -> bool {
    static PLANTED: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let planted = || std::env::var(\"SFI_MEND_OFF\").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    *PLANTED.get_or_init(planted) == number
}
";

/// The variable that chooses the mend which is undone.
const CHOICE: &str = "SFI_MEND_OFF";

/// Seconds after which the tests of one suite are ended. Some mends keep the host from waiting.
const PATIENCE: &str = "240";

/// The mends of one crate.
struct Part {
    /// Folder of the sources.
    sources: &'static str,
    /// The mends, each as the mistake that it mended.
    list: &'static str,
    /// The suites that may notice. The fastest is first.
    suites: &'static [Suite],
}

/// Tests of one crate.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Suite {
    package: &'static str,
    /// Folder of the crate, in which its tests run.
    folder: &'static str,
    /// Arguments of `cargo test` that choose programs with tests.
    programs: &'static [&'static str],
    /// Parts of names of the tests that run. Empty for all.
    tests: &'static [&'static str],
}

const fn suite(package: &'static str, folder: &'static str, programs: &'static [&'static str]) -> Suite {
    Suite { package, folder, programs, tests: &[] }
}

const fn command(programs: &'static [&'static str], tests: &'static [&'static str]) -> Suite {
    Suite { tests, ..suite("sfi-cli", "crates/cli", programs) }
}

const GATE: Suite = command(&["--test", "gate"], &[]);
const ARCHIVES: Suite = command(&["--test", "archives"], &[]);
const LINKING: Suite = suite("sfi-loader", "loader", &["--test", "linking"]);
const IMAGES: Suite = suite("sfi-loader", "loader", &["--test", "images"]);
const CALLS: Suite = suite("sfi-loader", "loader", &["--test", "bindings", "--test", "names", "--test", "copied_once"]);
const LINKS: Suite = suite(
    "sfi-loader",
    "loader",
    &["--test", "undone", "--test", "exits", "--test", "link_hostile", "--test", "link_open", "--test", "gs_base"],
);

const LIVES: Suite = suite(
    "sfi-loader",
    "loader",
    &["--test", "interrupts", "--test", "lanes_reload", "--test", "time", "--test", "secrets"],
);

/// The parts whose mends no other task leaves out.
const PARTS: &[Part] = &[
    Part {
        sources: "crates/contract/src",
        list: include_str!("../planted/contract.txt"),
        suites: &[suite("sfi-contract", "crates/contract", &["--lib"])],
    },
    Part {
        sources: "crates/debuginfo/src",
        list: include_str!("../planted/debuginfo.txt"),
        suites: &[suite("sfi-debuginfo", "crates/debuginfo", &["--lib", "--test", "*"]), GATE],
    },
    Part {
        sources: "crates/elf/src",
        list: include_str!("../planted/elf.txt"),
        suites: &[
            suite("sfi-elf", "crates/elf", &["--lib", "--test", "*"]),
            ARCHIVES,
            suite("sfi-verifier", "verifier", &["--test", "robust", "--test", "structure"]),
            GATE,
            LINKING,
        ],
    },
    Part {
        sources: "verifier/src",
        list: include_str!("../planted/verifier.txt"),
        suites: &[suite(
            "sfi-verifier",
            "verifier",
            &["--test", "final_text", "--test", "instructions", "--test", "based", "--test", "false_based"],
        )],
    },
    Part {
        sources: "crates/cli/src",
        list: include_str!("../planted/cli.txt"),
        suites: &[
            command(&["--bin", "sfi"], &[]),
            GATE,
            ARCHIVES,
            command(&["--test", "output"], &[]),
            command(&["--test", "damaged"], &[]),
        ],
    },
    Part {
        sources: "loader/src",
        list: include_str!("../planted/loader.txt"),
        suites: &[IMAGES, CALLS, LINKS, LIVES, ARCHIVES, LINKING, GATE],
    },
    Part {
        sources: "crates/capi/src",
        list: include_str!("../planted/capi.txt"),
        suites: &[suite("sfi-capi", "crates/capi", &["--test", "attack", "--test", "nested"])],
    },
    Part {
        sources: "crates/arbitration/src",
        list: include_str!("../planted/arbitration.txt"),
        suites: &[
            suite("sfi-arbitration", "crates/arbitration", &["--lib", "--test", "*"]),
            command(&["--test", "programs"], &["refused", "policies", "manifests"]),
            command(&["--test", "arbitration"], &["bounded", "ends_every_wait", "resolution", "file_size"]),
            command(&["--test", "arbitration"], &["hostile_values", "start_where", "set_up"]),
        ],
    },
];

/// Undoes each mend in a copy of the tree and writes `docs/MENDS.md`. Fails if no test notices.
pub(crate) fn run(root: &Path, tree: &Path, text: &str) -> anyhow::Result<ExitCode> {
    let mut all: Vec<(&Part, Mistake)> = Vec::new();
    for part in PARTS {
        let list = mistakes(part.list)?;
        plant(&tree.join(part.sources), &list, all.len() + 1, SWITCH)?;
        all.extend(list.into_iter().map(|mistake| (part, mistake)));
    }
    let wanted = |part: &Part, mistake: &Mistake| {
        mistake.words.contains(text) || format!("{}/{}", part.sources, mistake.file).contains(text)
    };
    let mut table = String::from(HEAD);
    let mut missed = Vec::new();
    let mut built: Vec<(Suite, Vec<PathBuf>)> = Vec::new();
    for (number, (part, mistake)) in all.iter().enumerate().filter(|(_, (part, mistake))| wanted(part, mistake)) {
        let mut noticed = None;
        for suite in part.suites {
            if built.iter().all(|(known, _)| known != suite) {
                let programs = build(root, tree, suite)?;
                let failing = failing(tree, suite, &programs, 0)?;
                ensure!(failing.is_none(), "without a mistake a test of {} fails already: {failing:?}", suite.package);
                built.push((*suite, programs));
            }
            let programs = built.iter().find(|(known, _)| known == suite).map_or(&[][..], |(_, programs)| programs);
            noticed = failing(tree, suite, programs, number + 1)?;
            if noticed.is_some() {
                break;
            }
        }
        let by = noticed.as_deref().map_or("NOBODY".to_owned(), |test| format!("`{test}`"));
        let row = format!("| {}/{} | {} | {by} |\n", part.sources, mistake.file, mistake.words);
        print!("{row}");
        table += &row;
        if noticed.is_none() {
            missed.push(mistake.words);
        }
    }
    ensure!(missed.is_empty(), "no test notices: {missed:#?}");
    if text.is_empty() {
        std::fs::write(root.join("docs/MENDS.md"), table)?;
    }
    Ok(ExitCode::SUCCESS)
}

const HEAD: &str = "\
# Mends and the tests that hold them

Written by `cargo xtask mutants --mends`. Each row undoes one mend of a security mistake, or one
guard, and runs the tests that may notice, until one fails. [MUTANTS.md](MUTANTS.md) does so for the
rules of the verifier.

| file | mistake | noticed by |
| --- | --- | --- |
";

/// Builds the programs of a suite. Returns their paths.
fn build(root: &Path, tree: &Path, suite: &Suite) -> anyhow::Result<Vec<PathBuf>> {
    let mut command = Command::new(cargo());
    command.args(["test", "--no-run", "-p", suite.package]).args(suite.programs).current_dir(tree);
    // A condition or a value with its choice has brackets that it does not need.
    let output = command.env("CARGO_TARGET_DIR", root.join("target/mutants/target")).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the tree with mistakes does not compile: {text}");
    let programs = text.lines().filter(|line| line.trim_start().starts_with("Executable"));
    let programs = programs.filter_map(|line| Some(tree.join(line.rsplit_once('(')?.1.trim_end_matches(')'))));
    let programs: Vec<PathBuf> = programs.collect();
    ensure!(!programs.is_empty(), "no tests of {}", suite.package);
    Ok(programs)
}

/// Returns the first test of a suite that fails when a mend is undone.
fn failing(tree: &Path, suite: &Suite, programs: &[PathBuf], number: usize) -> anyhow::Result<Option<String>> {
    for program in programs {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", PATIENCE]).arg(program).args(suite.tests);
        let folder = tree.join(suite.folder);
        command.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder).env(CHOICE, number.to_string());
        let output = command.output().context("timeout is needed")?;
        if output.status.success() {
            continue;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut names = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... FAILED"));
        if let Some((name, _)) = names.next() {
            return Ok(Some(name.trim().to_owned()));
        }
        // The tests wait for ever, or their process ends.
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        return Ok(Some(format!("{name}: {}", output.status)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::PARTS;
    use crate::planted::{find, mistakes};
    use std::path::Path;

    #[test]
    fn every_mend_has_its_place_in_the_sources() {
        let mut gone = Vec::new();
        for part in PARTS {
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(part.sources);
            for mistake in mistakes(part.list).expect("the list is well-formed") {
                let source = std::fs::read_to_string(sources.join(mistake.file)).expect(mistake.file);
                if find(&source, &mistake).is_none() {
                    gone.push(format!("{}: {}", mistake.file, mistake.words));
                }
            }
        }
        assert!(gone.is_empty(), "{}", gone.join("\n"));
    }
}
