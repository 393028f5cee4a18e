//! `cargo xtask mutants`

use crate::setup::{self, cargo};
use crate::{mends, planted};
use anyhow::{Context, ensure};
use sfi_contract::Rule;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Leaves out each rule of the verifier in turn and lists the tests that notice.
///
/// Works on a copy of the tree under `target/mutants`. There the one place that records violations
/// drops those of the rule that an environment variable names. Writes `docs/MUTANTS.md`. Fails if
/// no test notices that a rule is missing.
#[derive(clap::Args)]
pub struct Args {
    /// Only these rules; the table is not written then
    #[arg(value_name = "RULE")]
    rules: Vec<String>,
    /// Plant mistakes in the rewriter instead, one after the other, and say whether the validator
    /// or the verifier notices; writes `docs/PLANTED.md`
    #[arg(long, conflicts_with = "rules")]
    rewriter: bool,
    /// Undo mends of security mistakes instead, one after the other, and name a test that notices;
    /// writes `docs/MENDS.md`. With a text only those whose file or words hold it, and no table
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with_all = ["rules", "rewriter"])]
    mends: Option<String>,
    /// Only each Nth mistake in the rewriter; the table is not written then
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rewriter")]
    each: usize,
    /// Do not write the table of mistakes in the rewriter
    #[arg(long, requires = "rewriter")]
    no_table: bool,
}

/// The file that records every violation.
const FILE: &str = "verifier/src/report.rs";
/// The line before which violations are dropped.
const ANCHOR: &str = "        if self.list.len() >= MAX_VIOLATIONS {";
/// The code that drops them. It is one line, because a test bounds the lines of the verifier.
const DROP: &str = "        if std::env::var(\"SFI_RULE_OFF\").is_ok_and(|off| off == rule.id()) { return }\n";
/// The suites about the verifier alone, and about the verifier on real files.
const SUITES: [&[&str]; 3] =
    [&["-p", "sfi-verifier"], &["-p", "sfi-tests", "--test", "hostile"], &["-p", "sfi-cli", "--test", "gate"]];

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    let root = setup::root()?;
    let tree = root.join("target/mutants/tree");
    copy(&root, &tree)?;
    if args.rewriter {
        return planted::run(&root, &tree, args.each.max(1), !args.no_table && args.each <= 1);
    }
    if let Some(text) = &args.mends {
        return mends::run(&root, &tree, text);
    }
    let file = tree.join(FILE);
    let source = std::fs::read_to_string(&file)?;
    ensure!(
        source.matches(ANCHOR).count() == 1,
        "{FILE} has changed: look for the place where violations are recorded"
    );
    std::fs::write(&file, source.replace(ANCHOR, &format!("{DROP}{ANCHOR}")))?;

    let whole = failing(&root, &tree, None)?;
    ensure!(whole.is_empty(), "without a mutation these tests fail already: {whole:?}");
    let wanted = |rule: &&Rule| args.rules.is_empty() || args.rules.iter().any(|r| r == rule.id());
    let mut table = String::from(HEAD);
    let mut survivors = Vec::new();
    for rule in Rule::ALL.iter().filter(wanted) {
        let killers = failing(&root, &tree, Some(*rule))?;
        let first: Vec<String> = killers.iter().take(3).map(|k| format!("`{k}`")).collect();
        let row = format!("| {} | {} | {} | {} |\n", rule.id(), rule.title(), killers.len(), first.join(", "));
        print!("{row}");
        table += &row;
        if killers.is_empty() {
            survivors.push(rule.id());
        }
    }
    ensure!(survivors.is_empty(), "no test notices that these rules are missing: {survivors:?}");
    if args.rules.is_empty() {
        std::fs::write(root.join("docs/MUTANTS.md"), table)?;
    }
    Ok(ExitCode::SUCCESS)
}

const HEAD: &str = "\
# Rules and the tests that hold them

Written by `cargo xtask mutants`. It leaves out one rule of the verifier at a time and runs the
verifier's own tests, those on hostile objects and those of the gate. The third column counts the
tests that fail then. The fourth names the first three of them.

| rule | violation | tests that fail without it | among them |
| --- | --- | --- | --- |
";

/// Copies the tracked files.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let list = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().context("git is needed")?;
    ensure!(list.status.success(), "git ls-files: {}", list.status);
    for name in list.stdout.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let name: PathBuf = std::str::from_utf8(name)?.into();
        let to = tree.join(&name);
        std::fs::create_dir_all(to.parent().context("a folder")?)?;
        let bytes = std::fs::read(root.join(&name))?;
        // An unchanged file keeps its time, so a second run builds little.
        if std::fs::read(&to).ok().as_deref() != Some(&bytes) {
            std::fs::write(to, bytes)?;
        }
    }
    Ok(())
}

/// Returns the names of the tests that fail when a rule is left out.
fn failing(root: &Path, tree: &Path, off: Option<Rule>) -> anyhow::Result<BTreeSet<String>> {
    let mut failed = BTreeSet::new();
    for suite in SUITES {
        let mut command = Command::new(cargo());
        command.args(["test", "--quiet", "--no-fail-fast"]).args(suite).args(["--", "--format", "pretty"]);
        command.current_dir(tree).env("CARGO_TARGET_DIR", root.join("target/mutants/target"));
        // The fuzzer of the two decoders holds no rule, so it runs as briefly as possible.
        command.env("SFI_SECOND_SECONDS", "1");
        if let Some(rule) = off {
            command.env("SFI_RULE_OFF", rule.id());
        }
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let before = failed.len();
        for line in text.lines().filter_map(|l| l.strip_prefix("test ")).filter(|l| !l.starts_with("result: ")) {
            if let Some((name, _)) = line.split_once(" ... FAILED").or_else(|| line.split_once(" FAILED")) {
                failed.insert(name.trim().trim_end_matches(" ...").to_owned());
            }
        }
        ensure!(
            output.status.success() || failed.len() > before,
            "{suite:?} does not run: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(failed)
}
