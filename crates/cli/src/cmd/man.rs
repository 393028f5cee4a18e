//! `sfi man`

use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write manual pages: `sfi.1` and one page for each subcommand.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi man /usr/local/share/man/man1     then: man sfi-verify

Exit codes:
  0  written
  2  a file could not be written")]
pub struct Args {
    /// The folder. It is made if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args, command: clap::Command) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), folder)
        .with_context(|| format!("{}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
