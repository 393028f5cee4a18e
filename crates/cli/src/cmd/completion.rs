//! `sfi completion`

use std::io::Write;
use std::process::ExitCode;

/// Print a completion script for a shell.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi completion bash > ~/.local/share/bash-completion/completions/sfi
  sfi completion fish > ~/.config/fish/completions/sfi.fish
  sfi completion zsh > /usr/local/share/zsh/site-functions/_sfi

Exit codes:
  0  printed
  2  there is no such shell")]
pub struct Args {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Runs the subcommand.
pub fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "sfi", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
