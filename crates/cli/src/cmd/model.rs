//! `sfi model`

mod figure;
mod formula;
mod svg;
mod text;

use crate::cmd::bench::number::round;
use crate::cmd::run;
use crate::document;
use anyhow::{Context, bail, ensure};
use formula::{Model, Other, Run};
use serde_json::json;
use sfi_benches::crossing;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say when isolation in domains takes less time than another mechanism.
///
/// The formula is that of Wahbe et al., section 5.4: savings = (1 - r) t_c - h t_d. h is the
/// overhead of code in domains, and r the cost of a crossing relative to the other mechanism's. t_c
/// and t_d are the shares of time in crossings and in distrusted code, with t_d = 1 - t_c as in the
/// paper's examples, and half of that in figure 6.
///
/// With --profile it runs the entry point of a manifest, counts its crossings and the processor
/// time in its domains, and says whether isolating pays against each mechanism. The counters make
/// crossings slower, so the run takes longer than without.
///
/// Draws figures 5, 6 and 7 of the paper. Their costs are those of docs/RESULTS.md, or of this
/// machine with --measure.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  taskset -c 1 sfi model --measure
  sfi model --overhead 0.043 --crossing 1110 --against pipe=204720
  sfi model --against futex,wasm=20:0.45 --svg model.svg
  sfi model --measure --profile domains.toml -- input.gz
  sfi model --measure --json | jq '.against[].break_even'

Exit codes:
  0  drawn
  2  a wrong argument, a measurement could not be made, or the run of --profile failed")]
pub struct Args {
    /// Measure the crossings of this machine, as `sfi bench crossing` does.
    #[arg(long)]
    measure: bool,
    /// Overhead of code in domains over native code: 0.028 is 2.8%, that of mode write in
    /// docs/RESULTS.md.
    #[arg(long, default_value_t = 0.028, value_name = "H", value_parser = overhead)]
    overhead: f64,
    /// Cost of a crossing between domains, there and back, nanoseconds.
    #[arg(long, value_name = "NS", conflicts_with = "measure", value_parser = cost)]
    crossing: Option<f64>,
    /// Mechanisms to compare with: pipe, socket, futex (a process that waits), trap (a system call,
    /// less than any crossing of address spaces), or any other one as NAME=NS[:OVERHEAD], with the
    /// overhead of its code. `wasm` needs its numbers, because it depends on the engine.
    #[arg(long, default_value = "pipe,futex,trap", value_delimiter = ',', value_name = "NAME[=NS[:OVERHEAD]]")]
    against: Vec<String>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "svg")]
    json: bool,
    /// Write the figures to an SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Run a manifest, and judge its crossings.
    #[arg(long, value_name = "MANIFEST", conflicts_with = "svg")]
    profile: Option<PathBuf>,
    /// Arguments for the domains of --profile.
    #[arg(last = true, requires = "profile")]
    args: Vec<OsString>,
}

/// Rounds of a measurement.
const ROUNDS: u32 = 21;

/// The crossing that stands for domains: between two of them that do not trust each other.
const CROSSING: &str = "mutual_distrust";

/// Mechanisms with the names of their measurements, and their costs in docs/RESULTS.md.
const KNOWN: [(&str, &str, f64); 5] = [
    ("domains", CROSSING, 11.9),
    ("pipe", "pipe", 1787.0),
    ("socket", "unix_socket", 3388.0),
    ("futex", "futex", 1515.0),
    ("trap", "getppid", 77.0),
];

fn positive(text: &str, least: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number.is_finite() && number >= least { Ok(number) } else { Err(format!("`{text}` is not {least} or more")) }
}

fn overhead(text: &str) -> Result<f64, String> {
    positive(text, 0.0)
}

fn cost(text: &str) -> Result<f64, String> {
    positive(text, 0.001)
}

/// Costs of crossings by name.
struct Costs(Vec<(&'static str, f64)>);

impl Costs {
    fn known() -> Self {
        Self(KNOWN.map(|(name, _, cost)| (name, cost)).into())
    }

    fn measured() -> anyhow::Result<Self> {
        let results = crossing::measure(ROUNDS)?;
        let find = |(name, measured, _)| {
            let found = results.iter().find(|result| result.name == measured);
            Ok((name, found.with_context(|| format!("{measured} was not measured"))?.nanoseconds))
        };
        Ok(Self(KNOWN.into_iter().map(find).collect::<anyhow::Result<_>>()?))
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, cost)| *cost)
    }

    /// Returns the mechanism that an argument names.
    fn parse(&self, text: &str) -> anyhow::Result<Other> {
        let (name, numbers) = text.split_once('=').map_or((text, None), |(name, numbers)| (name, Some(numbers)));
        ensure!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_ ".contains(c)),
            "`{text}`: the name is no name"
        );
        let Some(numbers) = numbers else {
            let crossing = self.of(name).filter(|_| name != "domains");
            let Some(crossing) = crossing else {
                bail!("the costs of `{name}` are not known: give them as {name}=NS or {name}=NS:OVERHEAD");
            };
            return Ok(Other { name: name.to_owned(), crossing, overhead: 0.0 });
        };
        let (crossing, more) = numbers.split_once(':').unwrap_or((numbers, "0"));
        let number = |value: Result<f64, String>| value.map_err(|why| anyhow::anyhow!("`{text}`: {why}"));
        Ok(Other { name: name.to_owned(), crossing: number(cost(crossing))?, overhead: number(overhead(more))? })
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let costs = if args.measure { Costs::measured()? } else { Costs::known() };
    let others = args.against.iter().map(|text| costs.parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let crossing = args.crossing.or_else(|| costs.of("domains")).context("no cost of a crossing")?;
    let all = Model { overhead: args.overhead, crossing, distrusted: 1.0 };
    let half = Model { distrusted: 0.5, ..all.clone() };
    if let Some(manifest) = &args.profile {
        let (_, profile) = run::profile(manifest, &args.args)?;
        ensure!(!profile.failed, "the entry point of `{}` failed", manifest.display());
        ensure!(profile.crossings > 0, "`{}` made no crossing", manifest.display());
        let run = Run::new(profile.crossings, profile.inside.as_nanos() as f64, profile.total.as_nanos() as f64, &all);
        return judge(args.json, &all, &run, &others);
    }
    if args.json {
        document::print(comparison(args.measure, &all, &half, &others))?;
        return Ok(ExitCode::SUCCESS);
    }
    let figures =
        [figure::region(5, &all, &others), figure::region(6, &half, &others), figure::crossings(&all, &others)];
    if let Some(path) = &args.svg {
        std::fs::write(path, svg::draw(&figures)).with_context(|| format!("cannot write `{}`", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    figures.iter().for_each(|figure| println!("{}", text::draw(figure)));
    table(&all, &half, &others);
    Ok(ExitCode::SUCCESS)
}

/// Prints the judgement about a run.
fn judge(json: bool, model: &Model, run: &Run, others: &[Other]) -> anyhow::Result<ExitCode> {
    let milliseconds = |nanoseconds: f64| nanoseconds / 1e6;
    if json {
        let against = |other: &Other| {
            json!({
                "name": other.name,
                "nanoseconds": round(other.crossing),
                "saved_ms": round(milliseconds(run.savings(model, other))),
                "pays": run.savings(model, other) > 0.0,
            })
        };
        document::print(json!({
            "crossings": run.crossings,
            "inside_ms": round(milliseconds(run.inside)),
            "total_ms": round(milliseconds(run.total)),
            "break_even_ns": round(run.break_even(model)),
            "against": others.iter().map(against).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (inside, total) = (milliseconds(run.inside), milliseconds(run.total));
    println!("{} crossings, {inside:.1} ms in domains, {total:.1} ms in all", run.crossings);
    println!("isolating pays against mechanisms whose crossing takes more than {:.1} ns", run.break_even(model));
    for other in others {
        let saved = run.savings(model, other);
        let verdict = if saved > 0.0 { "pays" } else { "does not pay" };
        let word = if saved > 0.0 { "less" } else { "more" };
        println!("{:<16}{verdict}: domains take {:.1} ms {word}", other.name, milliseconds(saved.abs()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes the share of crossings from which on domains take less time.
fn described(share: Option<f64>) -> String {
    match share {
        None => "never".to_owned(),
        Some(0.0) => "always".to_owned(),
        Some(share) => format!("{:.2}%", share * 100.0),
    }
}

fn table(all: &Model, half: &Model, others: &[Other]) {
    println!("domains: {:.1} ns a crossing, code takes {:.1}% longer", all.crossing, all.overhead * 100.0);
    println!("{:<16}{:>12}{:>10}{:>22}{:>18}", "against", "ns", "r", "pays from, figure 5", "figure 6");
    for other in others {
        let r = all.ratio(other);
        let of = |model: &Model| described(model.break_even(r, other.overhead));
        println!("{:<16}{:>12.1}{:>10.4}{:>22}{:>18}", other.name, other.crossing, r, of(all), of(half));
    }
}

fn comparison(measured: bool, all: &Model, half: &Model, others: &[Other]) -> serde_json::Value {
    let exact = |value: f64| (value * 1e6).round() / 1e6;
    let against = |other: &Other| {
        let r = all.ratio(other);
        let of = |model: &Model| model.break_even(r, other.overhead).map(exact);
        json!({
            "name": other.name,
            "nanoseconds": round(other.crossing),
            "overhead": other.overhead,
            "r": exact(r),
            "break_even": { "all_distrusted": of(all), "half_distrusted": of(half) },
        })
    };
    json!({
        "measured": measured,
        "overhead": all.overhead,
        "nanoseconds": round(all.crossing),
        "against": others.iter().map(against).collect::<Vec<_>>(),
    })
}
