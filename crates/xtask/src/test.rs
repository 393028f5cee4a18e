//! `cargo xtask test`

use crate::postgres;
use crate::python;
use crate::setup::{self, cargo};
use crate::sources;
use crate::steps::Steps;
use std::process::{Command, ExitCode};

/// Checks a change as CI does: format, lints, documentation, all tests. All steps run. The last
/// line is `N passed, N failed`.
#[derive(clap::Args)]
pub struct Args {
    /// Run the tests of one package only, without the other steps
    #[arg(long, short)]
    package: Option<String>,
}

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    setup::ensure(setup::POSTGRES)?;
    sources::ensure()?;
    setup::components()?;
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(cargo());
        command.args(arguments);
        command
    };
    let mut steps = Steps::default();
    if let Some(package) = &args.package {
        steps.tests("cargo test", cargo(&["test", "--no-fail-fast", "-p"]).arg(package))?;
        return Ok(steps.finish());
    }
    steps.whole("cargo fmt", &mut cargo(&["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    steps.whole("cargo clippy", &mut cargo(&clippy))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    steps.whole("cargo doc", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    // A build of one package may choose other features of its dependencies, and so build all anew.
    steps.tests("cargo test", tests.env("SFI_BINARY", sources::directory()?.with_file_name("debug").join("sfi")))?;
    let planted = ["xtask", "mutants", "--rewriter", "--no-table"];
    steps.whole("mistakes planted in the rewriter", &mut cargo(&planted))?;
    match postgres::tests("dev") {
        Ok(mut tests) => steps.tests("the extension for PostgreSQL", &mut tests)?,
        Err(error) => steps.failed("the extension for PostgreSQL", &error),
    }
    match python::Environment::ensure("dev") {
        Ok(environment) => {
            for types in &mut environment.types() {
                steps.whole("the types of the package for Python", types)?;
            }
            steps.tests("the package for Python", &mut environment.tests())?;
            match environment.fleet_tests() {
                Ok(mut tests) => steps.tests("the fleet", &mut tests)?,
                Err(error) => steps.failed("the fleet", &error),
            }
        }
        Err(error) => steps.failed("the package for Python", &error),
    }
    Ok(steps.finish())
}
