//! `cargo xtask dist`

mod base;
mod build;
mod pack;
mod publish;

use crate::python::Environment;
use crate::{deny, msrv, setup, tools};
use base::{Dist, headline};
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes a release of the last commit: packages for crates.io, programs, a .deb, a wheel, a
/// bill of materials, checksums.
///
/// The crates are packaged and built as `cargo publish --dry-run` does, and the command is
/// installed from the packages alone, without a network. Programs and files are made twice, in two
/// folders, and must be the same bytes.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the release
    #[arg(long, default_value = "target/dist", value_name = "DIR")]
    out: PathBuf,
    /// Do not package the crates and install from the packages
    #[arg(long)]
    no_publish: bool,
    /// Build once, and do not compare
    #[arg(long)]
    once: bool,
}

const TOOLS: [tools::Tool; 2] = [("cargo-deb", "3.8.0"), ("cargo-cyclonedx", "0.5.9")];

/// Runs the task.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    setup::ensure(setup::BASE)?;
    let dist = Dist::begin(&args.out)?;
    let tools = tools::ensure(&dist.root, &TOOLS)?;
    headline("licences, sources and versions of dependencies");
    deny::check(&dist.root, false)?;
    headline("the oldest Rust");
    msrv::check(&dist.root)?;
    if !args.no_publish {
        publish::check(&dist)?;
    }
    let python = Environment::tools()?;
    let (built, again) = build::builds(&dist, &python, args.once)?;
    pack::files(&dist, &built, &tools, &dist.out)?;
    if let Some(again) = again {
        headline("the files of the other build");
        let files = again.folder.join("files");
        pack::files(&dist, &again, &tools, &files)?;
        base::compare(&dist.out, &files)?;
    }
    pack::wheel(&dist, &built, &python)?;
    pack::checksums(&dist)?;
    println!("\nThe release of {} is in {}:\n{}", dist.version, dist.out.display(), base::sizes(&dist.out)?);
    Ok(ExitCode::SUCCESS)
}
