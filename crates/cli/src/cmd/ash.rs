//! `sfi ash`

mod bench;
mod explain;
mod header;
mod load;
mod pcap;
mod run;

use std::process::ExitCode;

/// Run untrusted handlers of messages in the receive path.
///
/// A manifest says which handler wants which messages. Handlers run in domains. They look at a
/// message where it arrived, and commit or abort.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi ash run handlers.toml --udp 127.0.0.1:7777
  sfi ash run handlers.toml --pcap in.pcap --out out.pcap
  sfi ash explain handlers.toml
  sfi ash bench
  sfi ash header > ash.h

Exit codes:
  0  done
  2  an error")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Run(run::Args),
    Explain(explain::Args),
    Bench(bench::Args),
    Header(header::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Run(args) => run::run(&args),
        What::Explain(args) => explain::run(&args),
        What::Bench(args) => bench::run(&args),
        What::Header(_) => Ok(header::run()),
    }
}
