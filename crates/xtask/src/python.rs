//! `cargo xtask python` and `cargo xtask fleet`

use crate::setup::{self, target};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Builds the package for Python, installs it in an environment of its own below `target`, and
/// tests it.
#[derive(clap::Args)]
pub struct Args {}

/// Rewrites and verifies the static archives of Debian packages over the workers of a Ray cluster.
/// Without packages it tests that on packages of its own.
#[derive(clap::Args)]
pub struct FleetArgs {
    /// Build the package for Python without optimisation
    #[arg(long)]
    dev: bool,
    /// Arguments of integrations/ray/fleet.py: --out DIR and packages
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// The packages of the environment.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "pytest==9.2.0", "mypy==2.4.1"];
/// The packages of a cluster.
const CLUSTER: [&str; 2] = ["ray==2.60.0", "pyarrow==26.0.1"];

/// An environment of Python that has the package.
pub struct Environment {
    root: PathBuf,
    programs: PathBuf,
}

impl Environment {
    /// Makes the environment, without the package.
    pub fn tools() -> anyhow::Result<Self> {
        setup::ensure(setup::PYTHON)?;
        let root = setup::root()?;
        let folder = target(&root).join("python");
        let programs = folder.join("bin");
        if !programs.join("pip").exists() {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        }
        let this = Self { root, programs };
        this.install(&TOOLS)?;
        Ok(this)
    }

    /// Makes the environment, and builds the package with a profile of Cargo.
    pub fn ensure(profile: &str) -> anyhow::Result<Self> {
        let this = Self::tools()?;
        let mut install = this.program("pip");
        install.args(["install", "--quiet", "--no-build-isolation", "--no-deps"]).arg(this.root.join(PACKAGE));
        // The packages of the workspace's check are not built again.
        install
            .env("MATURIN_PEP517_ARGS", format!("--profile {profile} --locked --features unified"))
            .env("CARGO_TARGET_DIR", target(&this.root));
        // `cargo xtask` runs within Cargo, whose variables are not for another Cargo.
        run(install.env_remove("CARGO_MANIFEST_DIR").env("PATH", this.path()?))?;
        Ok(this)
    }

    /// Returns the command that builds a wheel of the package in a copy of the sources.
    pub fn build_wheel(&self, sources: &Path) -> anyhow::Result<Command> {
        let mut build = self.program("maturin");
        build.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(sources.join(PACKAGE).join("Cargo.toml"));
        build.env_remove("CARGO_MANIFEST_DIR").env("PATH", self.path()?);
        Ok(build)
    }

    /// Installs a wheel, and runs the package's tests with it.
    pub fn try_wheel(&self, wheel: &Path) -> anyhow::Result<()> {
        let mut install = self.program("pip");
        run(install.args(["install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]).arg(wheel))?;
        run(&mut self.tests())
    }

    fn install(&self, packages: &[&str]) -> anyhow::Result<()> {
        run(self.program("pip").args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))
    }

    /// Returns a search path that begins with the environment's programs.
    fn path(&self) -> anyhow::Result<std::ffi::OsString> {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.programs.clone()].into_iter().chain(std::env::split_paths(&old));
        std::env::join_paths(all).context("PATH cannot be set")
    }

    fn program(&self, name: &str) -> Command {
        Command::new(self.programs.join(name))
    }

    /// Returns the command that runs the tests of a folder.
    fn pytest(&self, folder: &str) -> Command {
        let mut command = self.program("pytest");
        command.args(["--quiet", "-p", "no:cacheprovider"]).current_dir(self.root.join(folder));
        command
    }

    /// Returns the command that runs the package's tests.
    pub fn tests(&self) -> Command {
        self.pytest(PACKAGE)
    }

    /// Returns the commands that check the package's types, and that they are those of the
    /// extension module.
    pub fn types(&self) -> [Command; 2] {
        let folder = self.root.join(PACKAGE);
        let mut mypy = self.program("mypy");
        mypy.args(["--strict", "tests", "examples"]).current_dir(&folder);
        let mut stubs = self.program("stubtest");
        stubs.args(["sfi", "--ignore-disjoint-bases"]).current_dir(&folder);
        [mypy, stubs]
    }

    /// Returns the command that tests the fleet.
    pub fn fleet_tests(&self) -> anyhow::Result<Command> {
        self.install(&CLUSTER)?;
        Ok(self.pytest(FLEET))
    }
}

const PACKAGE: &str = "integrations/python";
const FLEET: &str = "integrations/ray";

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

fn code(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the task `python`.
pub fn run_tests(_: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    let environment = Environment::ensure("dev")?;
    environment.types().iter_mut().try_for_each(run)?;
    code(&mut environment.tests())
}

/// Runs the task `fleet`.
pub fn run_fleet(args: &FleetArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    let environment = Environment::ensure(if args.dev { "dev" } else { "release" })?;
    let mut tests = environment.fleet_tests()?;
    if args.arguments.is_empty() {
        return code(&mut tests);
    }
    code(environment.program("python").arg(environment.root.join(FLEET).join("fleet.py")).args(&args.arguments))
}
