//! `cargo xtask deny`

use crate::{setup, tools};
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Checks the licences, the sources and the versions of all dependencies by deny.toml.
#[derive(clap::Args)]
pub struct Args {
    /// Also look them up in the database of known mistakes, which is fetched
    #[arg(long)]
    advisories: bool,
}

const TOOLS: [tools::Tool; 1] = [("cargo-deny", "0.20.2")];

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check(&setup::root()?, args.advisories)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs cargo-deny, which is installed below `target/tools` if it is missing.
///
/// # Errors
/// A dependency is not allowed, or the tool cannot be installed.
pub fn check(root: &Path, advisories: bool) -> anyhow::Result<()> {
    let mut deny = Command::new(tools::ensure(root, &TOOLS)?.join("cargo-deny"));
    deny.args(["--all-features", "--workspace", "check", "bans", "licenses", "sources"]);
    if advisories {
        deny.arg("advisories");
    }
    let status = deny.current_dir(root).status().context("cannot run cargo-deny")?;
    ensure!(status.success(), "deny.toml does not allow all dependencies, see above");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Args;
    use crate::{Task, setup};
    use clap::Parser;

    /// The workflow runs the task with the database, when dependencies change and each week.
    #[test]
    fn the_workflow_runs_the_task() {
        let path = setup::root().expect("the repository").join(".github/workflows/dependencies.yml");
        let workflow = std::fs::read_to_string(path).expect("the workflow");
        let line = workflow.lines().find_map(|line| line.trim().strip_prefix("- run: cargo xtask ")).expect("a step");
        let task = Task::try_parse_from(["xtask"].into_iter().chain(line.split(' '))).expect("a task");
        assert!(matches!(task, Task::Deny(Args { advisories: true })), "{line}");
        for when in ["schedule:", "pull_request:", "Cargo.lock", "deny.toml"] {
            assert!(workflow.contains(when), "{when}");
        }
    }
}
