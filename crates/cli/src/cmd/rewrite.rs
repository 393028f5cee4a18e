//! `sfi rewrite`

use crate::document;
use crate::input::{self, Input};
use crate::members::{Failures, notes, rewrite_members, write_output};
use crate::stats::{self, Counted};
use anyhow::Context;
use sfi_build::archive;
use sfi_rewriter::{Mode, Options, Reason};
use sfi_validator::{Failure, Validation};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rewrite objects and archives so that they obey the sandbox contract.
///
/// An object gives an object, an archive gives an archive with its members in their order. Equal
/// inputs give equal outputs. Code that cannot be rewritten is refused with object, function,
/// offset, instruction and reason. Then no output file is written.
///
/// The output is proved to do what the input does. A difference is an internal error: it is shown
/// with both listings, and no output file is written. Undecided places are noted.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi rewrite plugin.o                      writes plugin.sfi.o
  sfi rewrite -o codec.a /usr/lib/x86_64-linux-gnu/libz.a
  sfi rewrite --mode full -o out/ a.o b.o   writes out/a.o and out/b.o
  sfi rewrite --stats --json -o codec.a libz.a | jq .total.r15

Exit codes:
  0  everything was rewritten, or left out as --skip-refused asks
  1  something was refused or does not do what the input does; with --validate=strict also if that
     is unproved
  2  an input could not be read or is no relocatable object, or the output could not be written")]
pub struct Args {
    /// Relocatable objects (.o) and archives (.a).
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Confine stores and jumps (write), loads too (full), or trap at the offending store (match).
    #[arg(long, default_value = "write", value_name = "write|full|match")]
    mode: Mode,
    /// Add charges of a budget of instructions, before loops and functions. The code must leave r14
    /// free, as `gcc -ffixed-r14` does. Not in mode match.
    #[arg(long)]
    budget: bool,
    /// Save registers in the functions' frames, not on the control stack: slower calls and more
    /// text. For garbage collectors that search the stack for pointers.
    #[arg(long)]
    no_saves: bool,
    /// Output file, or a directory if there are several inputs. Default: INPUT with `.sfi` before
    /// its extension.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Errors beside refusals: only differences (differences), or all unproved places (strict).
    #[arg(
        long,
        value_name = "differences|strict",
        num_args = 0..=1,
        require_equals = true,
        default_value = "differences",
        default_missing_value = "strict"
    )]
    validate: Validation,
    /// Write the output without a proof, in half the time.
    #[arg(long, conflicts_with = "validate")]
    no_validate: bool,
    /// Leave refused members out of an archive instead of refusing the archive, unless no member
    /// would be left. They are warnings then.
    #[arg(long)]
    skip_refused: bool,
    /// Print the rewriter's counts: for each object, and for all.
    #[arg(long)]
    stats: bool,
    /// With --stats: print them as one JSON document.
    #[arg(long, requires = "stats")]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let directory = args.output.as_deref().is_some_and(|out| args.inputs.len() > 1 || out.is_dir());
    if directory && let Some(out) = &args.output {
        std::fs::create_dir_all(out).with_context(|| format!("cannot create the directory `{}`", out.display()))?;
    }
    let mut worst = Outcome::Clean;
    let mut counted = Vec::new();
    let mut failures = Failures::default();
    for path in &args.inputs {
        let out = match &args.output {
            Some(out) if directory => out.join(path.file_name().context("input has no file name")?),
            Some(out) => out.clone(),
            None => default_output(path),
        };
        worst = worst.max(one(path, &out, &args, &mut counted, &mut failures)?);
    }
    if args.json {
        document::print(stats::document(&counted))?;
    } else if args.stats {
        stats::print(&mut std::io::stdout().lock(), &counted)?;
    }
    Ok(ExitCode::from(worst as u8))
}

/// The result of a run. Its discriminant is the exit code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Clean = 0,
    Refused = 1,
    Unreadable = 2,
}

/// Returns `plugin.sfi.o` for `plugin.o`.
fn default_output(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("sfi.{}", extension.to_string_lossy())),
        None => path.with_extension("sfi"),
    }
}

/// Says whether the input has no code that could be rewritten.
fn is_unreadable(failure: &Failure) -> bool {
    let Failure::Refused(refusals) = failure else { return false };
    refusals.iter().any(|r| matches!(r.reason, Reason::NotRelocatable | Reason::IntermediateCode))
}

/// Rewrites one input.
fn one(
    path: &Path,
    out: &Path,
    args: &Args,
    counted: &mut Vec<Counted>,
    failures: &mut Failures,
) -> anyhow::Result<Outcome> {
    let options = Options { mode: args.mode, budget: args.budget, saves: !args.no_saves };
    let validation = if args.no_validate { Validation::Skip } else { args.validate };
    let (bytes, objects, outcome) = match input::read(path)? {
        Input::Object(bytes) => match sfi_validator::rewrite(&bytes, &options, validation) {
            Ok(checked) => {
                let shown = path.display().to_string();
                notes(&shown, &checked);
                (checked.output.bytes, vec![(shown, checked.output.stats)], Outcome::Clean)
            }
            Err(failure) => {
                failures.left_out = false;
                failures.add(&path.display().to_string(), &failure);
                failures.finish();
                return Ok(if is_unreadable(&failure) { Outcome::Unreadable } else { Outcome::Refused });
            }
        },
        Input::Archive(bytes) => {
            let members = input::members(path, &bytes)?;
            let results = rewrite_members(&members, &options, validation);
            let mut kept = Vec::new();
            let mut stats = Vec::new();
            let mut differs = false;
            failures.left_out = args.skip_refused;
            for ((name, _), result) in members.iter().zip(results) {
                let shown = input::member_name(path, name);
                match result {
                    Ok(checked) => {
                        notes(&shown, &checked);
                        stats.push((shown, checked.output.stats));
                        kept.push((name.clone(), checked.output.bytes));
                    }
                    Err(failure) => {
                        failures.add(&shown, &failure);
                        differs |= matches!(failure, Failure::NotProved(_));
                    }
                }
            }
            failures.finish();
            if differs {
                return Ok(Outcome::Refused);
            }
            let (refused, all) = (members.len() - kept.len(), members.len());
            let counted = format!("{}: {refused} of {all} members are", path.display());
            match args.skip_refused {
                _ if refused == 0 => {}
                true if refused < all => eprintln!("warning: {counted} left out"),
                true => {
                    eprintln!("error: {counted} refused, so nothing is written");
                    return Ok(Outcome::Refused);
                }
                false => {
                    eprintln!("error: {counted} refused, so nothing is written; --skip-refused leaves them out");
                    return Ok(Outcome::Refused);
                }
            }
            (archive(&kept)?, stats, Outcome::Clean)
        }
    };
    write_output(out, &bytes, 0o644)?;
    counted.push(Counted { path: path.display().to_string(), objects });
    Ok(outcome)
}
