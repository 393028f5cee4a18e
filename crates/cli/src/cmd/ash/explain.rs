//! `sfi ash explain`

use crate::cmd::ash::load::{engine, manifest};
use crate::render::visible;
use sfi_ash::back::ring::ring;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the decision tree of a manifest's filters, what each handler may do, and the loops of its
/// pipes.
///
/// The handlers are verified and linked as for a run.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi ash explain handlers.toml

Exit codes:
  0  shown
  2  an error: the manifest, an object that the verifier refuses")]
pub struct Args {
    /// The manifest of handlers.
    manifest: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let manifest = manifest(&args.manifest)?;
    let directory = args.manifest.parent().unwrap_or(Path::new(""));
    let (_, ring, _) = ring(1, 2048)?;
    let engine = engine(&manifest, directory, ring)?;
    print!("{}", visible_lines(&engine.tree()));
    for (name, _) in engine.counts() {
        let spec = engine.handler(name).expect("a handler of the engine").spec();
        println!("\n{}: owner {}, mode {}", visible(name), visible(&spec.owner), spec.mode);
        let sees = if spec.private { "its own messages only" } else { "all messages of the back end" };
        println!("  sees        {sees}");
        println!("  state       {} bytes, copied before each message", spec.state);
        println!("  segment     {} bytes, written by trusted calls", spec.segment);
        println!("  buffer      {} bytes, never restored", spec.buffer);
        match spec.budget {
            Some(most) => println!("  budget      {most} instructions for a message"),
            None => println!("  time        {:?} for a message", spec.time),
        }
        if let Some(faults) = spec.faults {
            println!("  faults      {faults}, then no more messages");
        }
        for (number, to) in spec.destinations.iter().enumerate() {
            println!("  sends       {number}: {}:{}", to.ip, to.port);
        }
        for (number, (transfer, pipes)) in spec.loops()?.transfers().iter().zip(&spec.pipes).enumerate() {
            let names: Vec<String> = pipes.iter().map(|pipe| visible(pipe.name())).collect();
            println!("  loop        {number}: {}, {} bytes of text", names.join(" | "), transfer.code().len());
            print!("{}", visible_lines(&transfer.listing()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn visible_lines(text: &str) -> String {
    text.lines().map(|line| visible(line) + "\n").collect()
}
