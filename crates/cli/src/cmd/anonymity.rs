//! `sfi anonymity`

use crate::anonymity::odds::{Search, duration};
use crate::anonymity::search::{self, Outcome, SEARCHER};
use crate::anonymity::{host, penalty};
use anyhow::ensure;
use sfi_contract::layout::WINDOW_SIZE;
use sfi_loader::manifest::Manifest;
use sfi_loader::{AddressSpace, DomainSpec, La57, Mode, World};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Says how long a domain would have to search for another one's memory, and tries.
///
/// In mode write a domain's loads are not confined: what keeps it from reading other domains is
/// that it does not know where they are (Yarvin et al. section 2). V is the number of places that a
/// window may have, M the number of windows that are not the searcher's, D the delay that a wrong
/// guess costs: the fault, its report, the restart, and the penalty that the embedder imposes. The
/// time to breach is the time after which a search has succeeded with a probability of one half.
/// The simulation loads the manifest's domains and beside them one that searches, by loads that
/// fault; it does so in 47 bits of address also where the manifest asks for 56 (`la57`), which
/// would take 512 times as long. In mode full there is nothing to search: loads cannot leave the
/// window.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi anonymity domains.toml
  sfi anonymity domains.toml --penalty 1 --searches 100 --json

Exit codes:
  0  the simulation agrees with the formula within 99.9%
  1  it does not
  2  an error")]
pub struct Args {
    /// The manifest.
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,
    /// Delay that the embedder adds to every fault, in seconds. Default: what the manifest's owners
    /// pay for each of many faults, the domain that pays least among those that can search; nothing
    /// if it has no owner.
    #[arg(long, value_name = "SECONDS", value_parser = super::run::parse_seconds)]
    penalty: Option<Duration>,
    /// Searches of the simulation. Default: as many as take about three seconds, at least eight.
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    searches: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Seconds that the simulation may take, roughly.
const PATIENCE: f64 = 3.0;
/// Searches that tell something.
const FEW: u64 = 8;
/// Standard errors that one run in a thousand exceeds.
const FAR: f64 = 3.29;
/// Numbers of domains of the table.
const TABLE: [u64; 5] = [1, 10, 100, 1000, 10_000];
/// Delays of the paper's table.
const DELAYS: [f64; 3] = [1.0, 1e-3, 1e-6];

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let manifest = Manifest::load(&args.manifest)?;
    ensure!(
        !manifest.domains.contains_key(SEARCHER),
        "a domain is called `{SEARCHER}`; the simulation needs that name"
    );
    let mut world = world(&manifest, args.manifest.parent().unwrap_or(Path::new("")))?;
    let placement = world.domain(SEARCHER)?.placement();
    // Its own window is no news to the searcher.
    let search = Search { places: placement.windows - 1, targets: manifest.domains.len() as u64 };
    let five = match manifest.placement.la57 {
        La57::Never => false,
        La57::IfAvailable => AddressSpace::Five.available(),
        La57::Always => true,
    };
    let places = if five { AddressSpace::Five.windows() - 1 } else { search.places };
    let mut random = rand::rng();
    let searches = match args.searches {
        Some(searches) => searches,
        None => {
            let trial = search::search(&mut world, 2, &mut random)?;
            ((PATIENCE / (trial.delay() * search.mean())) as u64).max(FEW)
        }
    };
    let outcome = search::search(&mut world, searches, &mut random)?;
    let names: Vec<String> = world.domains().map(str::to_owned).collect();
    let base = |name: &String| world.domain(name).map(|d| d.secret_base());
    let windows = names.iter().map(|n| Ok(base(n)?..base(n)? + WINDOW_SIZE)).collect::<anyhow::Result<Vec<_>>>()?;
    let host = host::search(&windows);
    let penalty = args.penalty.unwrap_or_else(|| penalty::of(&manifest)).as_secs_f64();
    let report = Report { places, search, host, outcome, penalty, manifest: &manifest };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report.json())?);
    } else {
        report.print();
    }
    Ok(if report.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The manifest's domains, and the one that searches. Host functions do nothing: nothing of the
/// manifest is called but initialisers.
fn world(manifest: &Manifest, directory: &Path) -> anyhow::Result<World> {
    let mut builder = manifest.build(World::builder(), directory)?.la57(La57::Never);
    let mut names: Vec<&String> =
        manifest.domains.values().flat_map(|d| d.imports.values()).filter_map(|g| g.host.as_ref()).collect();
    names.sort();
    names.dedup();
    for name in names {
        builder = builder.host_fn(name.clone(), |_| Ok(0));
    }
    let searcher = DomainSpec::new(SEARCHER).memory(0).stack(4096).object("searcher.o", sfi_support::load_object());
    Ok(builder.domain(searcher).build()?)
}

/// What a domain with the processor's clock can do, as docs/SECURITY.md has measured it.
const SPECULATION: &str =
    "with the clock, windows are found by speculation in some 2 s of processor time (docs/SECURITY.md)";

struct Report<'a> {
    /// Of a window, as the manifest has it.
    places: u64,
    /// That of the simulation.
    search: Search,
    host: Option<Search>,
    outcome: Outcome,
    penalty: f64,
    manifest: &'a Manifest,
}

impl Report<'_> {
    fn agrees(&self) -> bool {
        self.outcome.standard_errors(self.search).abs() < FAR
    }

    fn delay(&self) -> f64 {
        self.outcome.delay() + self.penalty
    }

    /// The search that a domain of the manifest has before it: for all others.
    fn inside(&self, places: u64) -> Option<Search> {
        let others = self.search.targets.checked_sub(1).filter(|others| *others > 0)?;
        Some(Search { places, targets: others })
    }

    fn free_loads(&self) -> Vec<&str> {
        let domains = self.manifest.domains.iter();
        domains.filter(|(_, d)| d.mode != Mode::Full).map(|(name, _)| name.as_str()).collect()
    }

    /// Those of them that ask for the processor's clock: with it they search by speculation, and no
    /// fault is counted.
    fn timed(&self) -> Vec<&str> {
        self.free_loads().into_iter().filter(|name| self.manifest.domains[*name].clock).collect()
    }

    fn print(&self) {
        let delay = self.delay();
        println!("V  places of a window            {}", self.places);
        println!(
            "D  delay of a wrong guess        {} measured + {} penalty",
            duration(self.outcome.delay()),
            if self.penalty > 0.0 { duration(self.penalty) } else { "no".to_owned() }
        );
        match self.inside(self.places) {
            Some(inside) => {
                println!("M  other domains of the manifest {}", inside.targets);
                println!("   guesses until a breach        {:.0} (mean), {} (median)", inside.mean(), inside.median());
                let first = 1.0 - inside.all_miss(1);
                println!("   breach by the first fault     {first:.1e} (all that a domain has that is not restarted)");
                println!("   time to breach                {}", duration(inside.median() as f64 * delay));
            }
            None => println!("M  other domains of the manifest 0: nothing to find but the host"),
        }
        let here = if AddressSpace::Five.available() { "" } else { ", not on this machine" };
        for (bits, space, here) in [(47, AddressSpace::Four, ""), (56, AddressSpace::Five, here)] {
            let places = space.windows() - 1;
            let breach = self.inside(places).map(|s| s.median() as f64 * delay);
            let breach = breach.map_or_else(String::new, |time| format!(", time to breach {}", duration(time)));
            println!("   V with {bits} bits of address     {places}{breach}{here}");
        }
        if let Some(host) = self.host {
            println!(
                "   host memory                   {} places, {} guesses (median), {}",
                host.places,
                host.median(),
                duration(host.median() as f64 * delay)
            );
        }
        let free = self.free_loads();
        let names = if free.is_empty() { "none: all loads are confined".to_owned() } else { free.join(", ") };
        println!("   domains that can search       {names}");
        let timed = self.timed();
        if !timed.is_empty() {
            println!("   without a single fault         {}: {SPECULATION}", timed.join(", "));
        }
        println!("\ntime to breach by number of other domains and delay");
        println!("{:>8} {:>12} {:>12} {:>12} {:>12}", "M", "1 s", "1 ms", "1 µs", "here");
        for targets in TABLE {
            let guesses = Search { places: self.places, targets }.median() as f64;
            let cells = DELAYS.iter().chain([&delay]).map(|d| format!("{:>12}", duration(guesses * d)));
            println!("{targets:>8} {}", cells.collect::<Vec<_>>().join(" "));
        }
        let half = 1.96 * self.search.deviation() / (self.outcome.searches as f64).sqrt();
        println!(
            "\nsimulation: {} searches for {} domains, {} guesses in {}",
            self.outcome.searches,
            self.search.targets,
            self.outcome.guesses,
            duration(self.outcome.time.as_secs_f64())
        );
        println!(
            "guesses until a breach: {:.0} seen, {:.0} ± {half:.0} expected (95%): {}",
            self.outcome.mean(),
            self.search.mean(),
            if self.agrees() { "agrees" } else { "DISAGREES" }
        );
    }

    fn json(&self) -> serde_json::Value {
        let table = TABLE.map(|targets| {
            let search = Search { places: self.places, targets };
            serde_json::json!({ "m": targets, "median_guesses": search.median(), "mean_guesses": search.mean(), "seconds": search.median() as f64 * self.delay() })
        });
        let inside = |places: u64| {
            self.inside(places).map(|s| {
                serde_json::json!({ "m": s.targets, "first_guess": 1.0 - s.all_miss(1), "median_guesses": s.median(), "mean_guesses": s.mean(), "seconds": s.median() as f64 * self.delay() })
            })
        };
        let spaces = [(47, AddressSpace::Four), (56, AddressSpace::Five)].map(|(bits, space)| {
            let places = space.windows() - 1;
            serde_json::json!({ "bits": bits, "available": space.available(), "v": places, "manifest": inside(places) })
        });
        serde_json::json!({
            "v": self.places,
            "spaces": spaces,
            "d": { "measured": self.outcome.delay(), "penalty": self.penalty },
            "manifest": inside(self.places),
            "host": self.host.map(|s| serde_json::json!({ "v": s.places, "median_guesses": s.median(), "seconds": s.median() as f64 * self.delay() })),
            "can_search": self.free_loads(),
            "can_search_without_faults": self.timed(),
            "table": table,
            "simulation": {
                "v": self.search.places,
                "m": self.search.targets,
                "searches": self.outcome.searches,
                "guesses": self.outcome.guesses,
                "seconds": self.outcome.time.as_secs_f64(),
                "mean_guesses": self.outcome.mean(),
                "expected": self.search.mean(),
                "standard_errors": self.outcome.standard_errors(self.search),
                "agrees": self.agrees(),
            },
        })
    }
}
