//! `sfi verify`

use crate::document;
use crate::gate::check::{Job, check};
use crate::gate::known::Known;
use crate::gate::policy::Policy;
use crate::gate::source::Source;
use crate::gate::{Outcome, attest, human, json, sarif};
use crate::render::visible;
use anyhow::Context;
use sfi_contract::Mode;
use sfi_verifier::Options;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Check that objects obey the sandbox contract.
///
/// Every object, and every member of an archive, is checked on its own. Every violation is listed
/// with its code, place, function and instruction. The verifier trusts nothing that the object says
/// about itself. `sfi explain CODE` says more about a code.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi verify plugin.sfi.o
  sfi verify --mode full codec.a plugin.o
  sfi verify --format json plugin.o | jq '.objects[].violations[].rule'
  sfi verify --sarif plugin.sarif plugin.o
  sfi verify --policy policy.toml --attest plugin.intoto.json plugin.o
  sfi verify --since last.sarif --sarif now.sarif plugin.o
  sfi verify --stats --json codec.a | jq .stats.mb_per_s

A policy file, all of it optional:
  modes = [\"full\", \"write\"]           # accepted; the first is the default
  instructions = { rdtsc = true, cpuid = false }   # without: no rdtsc, but cpuid
  imports = { allow = [\"host_*\"] }      # what no given object defines
  limits = { text = 1048576, data = 1048576, object = 4194304 }   # bytes

A baseline, for --baseline; names may hold `*`:
  [[known]]
  rule = \"SFI-S01\"
  object = \"libold.a(*)\"
  function = \"set\"                     # optional
  reason = \"vendor mends it in 2.1\"
  expires = 2027-01-31                 # the last day

Exit codes:
  0  everything is safe, and as the policy wants it, or known
  1  something is refused
  2  an input could not be read, or nothing was checked")]
pub struct Args {
    /// Relocatable objects (.o) and archives (.a).
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The confinement: stores and jumps (write), loads too (full). Default: the policy's first
    /// mode, else write.
    #[arg(long, value_name = "write|full|match")]
    mode: Option<Mode>,
    /// Hold the objects to the rules of budgeted text (SFI-B04 to SFI-B07).
    #[arg(long)]
    budget: bool,
    /// Accept `rdtsc` (with a policy, its `instructions.rdtsc` decides).
    #[arg(long)]
    clock: bool,
    /// Refuse `cpuid`.
    #[arg(long)]
    no_identity: bool,
    /// Check the objects against a policy, too.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The form of the verdict. JSON and SARIF go to the standard output, as one document.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: Format,
    /// As --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Fail for new findings only: those of the baseline do not count. Objects with them still do
    /// not run.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Fail for new findings only: those of an earlier run's SARIF do not count.
    #[arg(long, value_name = "SARIF")]
    since: Option<PathBuf>,
    /// Write an in-toto statement (not signed) about the inputs and the verdict.
    #[arg(long, value_name = "FILE")]
    attest: Option<PathBuf>,
    /// Write the verdict as SARIF to a file, besides the form that is printed.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// SARIF: the folder that paths are relative to, usually that of the repository. Default: the
    /// working directory.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// SARIF: where the documentation is published (`cargo xtask book`). Each rule then links to
    /// its place there.
    #[arg(long, value_name = "URL")]
    site: Option<String>,
    /// Print text bytes, instructions, seconds, and megabytes of text per second.
    #[arg(long)]
    stats: bool,
}

/// Forms of the verdict.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Human,
    /// One document in a form of its own.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let policy = args.policy.as_deref().map(Policy::read).transpose()?;
    let epoch = if args.attest.is_some() { attest::epoch()? } else { None };
    let preferred = policy.as_ref().and_then(Policy::preferred_mode);
    let mode = args.mode.or(preferred).unwrap_or_default();
    let options = Options {
        mode,
        clock: args.clock || policy.is_some(),
        identity: !args.no_identity,
        budget: args.budget,
        ..Options::default()
    };

    let mut outcomes = Vec::new();
    let mut sources = Vec::new();
    for path in &args.inputs {
        match Source::open(path, args.attest.is_some()) {
            Ok(source) => sources.push(source),
            Err(error) => outcomes.push(Outcome {
                path: path.display().to_string(),
                member: None,
                sha256: None,
                result: Err(format!("{error:#}")),
            }),
        }
    }
    let mut known = Known::default();
    args.baseline.as_deref().map_or(Ok(()), |path| known.add_baseline(path))?;
    args.since.as_deref().map_or(Ok(()), |path| known.add_earlier(path))?;
    let start = Instant::now();
    outcomes.extend(check(&sources, &Job { options, policy: policy.as_ref(), hash: args.attest.is_some() }));
    let seconds = start.elapsed().as_secs_f64();
    known.mark(&mut outcomes);
    for advice in known.advice() {
        anstream::eprintln!("note: {}", visible(&advice));
    }

    let sarif = || -> anyhow::Result<serde_json::Value> {
        sarif::document(&outcomes, args.root.as_deref(), args.site.as_deref())
    };
    if let Some(path) = &args.sarif {
        write_to(path, &sarif()?)?;
    }
    let stats = args.stats.then(|| Totals::new(&outcomes, seconds));
    match if args.json { Format::Json } else { args.format } {
        Format::Human => {
            human::print(&outcomes)?;
            if let Some(totals) = stats {
                totals.print(&mut anstream::stdout().lock())?;
            }
        }
        Format::Json => {
            let mut document = json::document(mode, &outcomes);
            if let Some(totals) = stats {
                document["stats"] = totals.json();
            }
            document::write(&document)?;
        }
        Format::Sarif => {
            document::write(&sarif()?)?;
            if let Some(totals) = stats {
                totals.print(&mut anstream::stderr().lock())?;
            }
        }
    }
    if let Some(path) = &args.attest {
        let archives = attest::archives(&sources);
        let circumstances =
            attest::Circumstances { options: &options, policy: policy.as_ref(), archives: &archives, epoch };
        write_to(path, &attest::statement(&outcomes, &circumstances)?)?;
    }
    Ok(exit_code(&outcomes))
}

fn write_to(path: &Path, document: &serde_json::Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    if outcomes.iter().any(|o| o.result.is_err()) {
        ExitCode::from(2)
    } else if outcomes.iter().all(Outcome::is_as_known) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

/// Totals over all inputs. Only objects that could be read add to bytes and instructions.
struct Totals {
    objects: usize,
    text_bytes: u64,
    instructions: u64,
    seconds: f64,
}

impl Totals {
    fn new(outcomes: &[Outcome], seconds: f64) -> Totals {
        let verdicts = || outcomes.iter().filter_map(|o| o.result.as_ref().ok());
        Totals {
            objects: outcomes.len(),
            text_bytes: verdicts().map(|v| v.text_bytes).sum(),
            instructions: verdicts().map(|v| v.instructions).sum(),
            seconds,
        }
    }

    /// Returns millions of bytes of text per second.
    fn mb_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.text_bytes as f64 / 1e6 / self.seconds } else { 0.0 }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (text, instructions, seconds) = (self.text_bytes, self.instructions, self.seconds);
        let speed = self.mb_per_s();
        writeln!(out, "{text} bytes of text, {instructions} instructions, {seconds:.3} s, {speed:.0} MB/s")
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "objects": self.objects,
            "text_bytes": self.text_bytes,
            "instructions": self.instructions,
            "seconds": self.seconds,
            "mb_per_s": self.mb_per_s(),
            "threads": rayon::current_num_threads(),
        })
    }
}
