//! Tasks of the repository, such as `cargo xtask demo` and `cargo xtask test`.

#![forbid(unsafe_code)]

mod apt;
mod bench;
mod book;
mod coverage;
mod demo;
mod deny;
mod dist;
mod fuzz;
#[allow(dead_code, reason = "other programs include it, too, and use other parts")]
mod measured;
mod mends;
mod msrv;
mod mutants;
mod planted;
mod postgres;
mod programs;
mod python;
mod setup;
mod shell;
mod soak;
mod sources;
mod start;
mod steps;
mod suites;
mod test;
mod testsuite;
mod tools;

use clap::Parser;
use std::process::ExitCode;

/// Tasks of the repository. Each installs its needs: on Debian, as root, missing packages.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Runs the demo: stock zlib in one domain, a program in another, and a sabotaged zlib.
    Demo(demo::Args),
    /// Checks a change as CI does: format, lints, documentation, all tests.
    Test(test::Args),
    /// Runs the long suites: minutes to hours.
    Soak(soak::Args),
    /// Fuzzes all code that reads hostile bytes, guided by coverage.
    Fuzz(fuzz::Args),
    /// Leaves out each rule of the verifier in turn and lists the tests that notice.
    Mutants(mutants::Args),
    /// Measures how much of Debian's static archives can be rewritten.
    Coverage(coverage::Args),
    /// Measures speed and size of whole programs in domains.
    Bench(bench::Args),
    /// Builds and tests the extension for PostgreSQL on a server of its own.
    Postgres(postgres::Args),
    /// Builds, installs and tests the package for Python.
    Python(python::Args),
    /// Judges the static archives of packages on a Ray cluster, or tests that.
    Fleet(python::FleetArgs),
    /// Runs whole programs natively and in domains, and compares them.
    Programs(programs::Args),
    /// Runs other projects' own tests natively and in domains, and compares them.
    Suites(suites::Args),
    /// Makes a release: packages, programs, a .deb, a bill of materials, checksums.
    Dist(dist::Args),
    /// Checks licences, sources and known mistakes of dependencies.
    Deny(deny::Args),
    /// Compiles the workspace with the oldest Rust that Cargo.toml promises.
    Msrv,
    /// Makes the documentation site.
    Book(book::Args),
    /// Only fetches the sources of whole programs.
    Sources,
    /// Only installs, or names, the needs of the other tasks.
    Setup,
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Coverage(args) => coverage::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Postgres(args) => postgres::run(&args),
        Task::Python(args) => python::run_tests(&args),
        Task::Fleet(args) => python::run_fleet(&args),
        Task::Programs(args) => programs::run(&args),
        Task::Suites(args) => suites::run(&args),
        Task::Book(args) => book::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Deny(args) => deny::run(&args),
        Task::Msrv => msrv::run(),
        Task::Sources => setup::ensure(setup::BASE).and_then(|()| sources::ensure()).map(|()| ExitCode::SUCCESS),
        Task::Setup => setup::ensure(setup::BASE)
            .and_then(|()| setup::ensure(setup::POSTGRES))
            .and_then(|()| setup::ensure(setup::PYTHON))
            .and_then(|()| setup::components())
            .map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
