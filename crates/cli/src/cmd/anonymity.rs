//! `sfi anonymity`

use crate::anonymity::odds::{Search, duration};
use crate::anonymity::search::{self, Outcome, SEARCHER};
use crate::anonymity::{host, penalty};
use crate::document;
use anyhow::{Context, ensure};
use sfi_contract::layout::WINDOW_SIZE;
use sfi_loader::manifest::{Clock, Manifest};
use sfi_loader::{AddressSpace, DomainRef, La57, Mode, PlacementReport, World};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Tell how long a domain has to search for another one's memory, and search for real.
///
/// In mode write a domain's loads are not confined. A domain cannot read other domains only because
/// it does not know where they are (Yarvin et al. section 2). Nothing in a window is at a known
/// place, so a search tries one address for each length of the longest run of the others' memory. V
/// is the number of these addresses, and M the number of them that are mapped. D is the delay that
/// a wrong guess costs: the fault, its report, the restart, and the penalty that the embedder
/// imposes. The time to breach is the time after which a search has succeeded with a probability of
/// one half.
///
/// The simulation searches a world of its own by loads that fault. Its domains are so large that it
/// ends in seconds. It uses 47 bits of address even if the manifest asks for 56 (`la57`), which
/// would take 512 times as long. In mode full there is nothing to search, because loads cannot
/// leave the window.
///
/// Without a manifest the command prints the paper's table: times to breach for an address space of
/// --address-bits bits, with segments of one size that lie anywhere in it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sfi anonymity domains.toml
  sfi anonymity domains.toml --penalty 1 --searches 100 --json
  sfi anonymity --address-bits 64 --segment 8K --memory 16M,256M,2G,16G

Exit codes:
  0  the simulation agrees with the formula within 99.9%
  1  it does not
  2  an error")]
pub struct Args {
    /// The manifest.
    #[arg(value_name = "MANIFEST", required_unless_present = "address_bits")]
    manifest: Option<PathBuf>,
    /// Delay that the embedder adds to every fault, in seconds. Default: the least that a domain
    /// which can search pays to its owner for each of many faults, or 0 if it has no owner.
    #[arg(long, value_name = "SECONDS", value_parser = super::run::parse_seconds)]
    penalty: Option<Duration>,
    /// Number of searches of the simulation. Default: about three seconds of them, at least eight.
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    searches: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// For the paper's table: bits of an address.
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(13..=64), conflicts_with_all = ["manifest", "penalty", "searches", "json"])]
    address_bits: Option<u32>,
    /// For the paper's table: size of a segment.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "4K", requires = "address_bits")]
    segment: u64,
    /// For the paper's table: sizes of the memory to find.
    #[arg(long, value_name = "BYTES,...", value_parser = parse_size, value_delimiter = ',', default_value = "16M,256M,2G,16G", requires = "address_bits")]
    memory: Vec<u64>,
}

/// Roughly the number of seconds that the simulation may take.
const PATIENCE: f64 = 3.0;
/// The least number of searches whose mean says anything.
const FEW: u64 = 8;
/// Number of standard errors that one run of two searches in thirty thousand exceeds. Guesses have
/// a long tail, so the mean of few searches is far from normal.
const FAR: f64 = 6.0;
/// Sizes of memory in the table: one domain each, with a heap of this size.
const TABLE: [u64; 5] = [1 << 20, 16 << 20, 128 << 20, 256 << 20, 1 << 30];
/// Delays in the paper's table.
const DELAYS: [f64; 3] = [1.0, 1e-3, 1e-6];

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(bits) = args.address_bits {
        return papers_table(bits, args.segment, &args.memory);
    }
    let path = args.manifest.as_deref().context("no manifest")?;
    let manifest = Manifest::load(path)?;
    let world = load(&manifest, path.parent().unwrap_or(Path::new("")))?;
    let names: Vec<String> = world.domains().map(str::to_owned).collect();
    let domains = names.iter().map(|name| Ok(world.domain(name)?)).collect::<anyhow::Result<Vec<_>>>()?;
    let placements: Vec<PlacementReport> = domains.iter().map(DomainRef::placement).collect();
    let windows: Vec<_> = domains.iter().map(|d| d.secret_base()..d.secret_base() + WINDOW_SIZE).collect();
    let host = host::search(&windows);
    drop(world);
    let mut simulated = search::world()?;
    let four = simulated.domain(SEARCHER)?.placement().windows;
    let five = match manifest.placement.la57 {
        La57::Never => false,
        La57::IfAvailable => AddressSpace::Five.available(),
        La57::Always => true,
    };
    let space = if five { AddressSpace::Five } else { AddressSpace::Four };
    let mut random = rand::rng();
    let odds = search::odds(four)?;
    let searches = match args.searches {
        Some(searches) => searches,
        None => {
            let trial = search::search(&mut simulated, 2, &mut random)?;
            ((PATIENCE / (trial.delay() * odds.mean())) as u64).max(FEW)
        }
    };
    let outcome = search::search(&mut simulated, searches, &mut random)?;
    let penalty = args.penalty.unwrap_or_else(|| penalty::of(&manifest)).as_secs_f64();
    let report = Report { space, odds, others: Others::of(&placements), host, outcome, penalty, manifest: &manifest };
    if args.json {
        document::print(report.json())?;
    } else {
        report.print();
    }
    Ok(if report.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the manifest's domains. Its host functions do nothing, because only initialisers run.
fn load(manifest: &Manifest, directory: &Path) -> anyhow::Result<World> {
    let mut builder = manifest.build(World::builder(), directory)?.la57(La57::Never);
    let mut names: Vec<&String> =
        manifest.domains.values().flat_map(|d| d.imports.values()).filter_map(|g| g.host.as_ref()).collect();
    names.sort();
    names.dedup();
    for name in names {
        builder = builder.host_fn(name.clone(), |_| Ok(0));
    }
    Ok(builder.build()?)
}

/// Parses a size in bytes, with K, M or G.
fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, 1 << (10 * (1 + "KMG".find(&text[digits.len()..]).unwrap_or(0)))),
        None => (text, 1),
    };
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|size| *size > 0);
    size.ok_or_else(|| "not a size such as 8K, 16M or 2G".to_owned())
}

/// Writes a size for people.
fn size(bytes: u64) -> String {
    let unit = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")].into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// Prints the times to breach of segments that lie anywhere in an address space (Yarvin et al.,
/// table 1).
fn papers_table(bits: u32, segment: u64, memory: &[u64]) -> anyhow::Result<ExitCode> {
    let places = u64::try_from((1_u128 << bits) / u128::from(segment))?;
    println!("time to breach: {bits} bits of address, segments of {}", size(segment));
    println!("{:>10} {:>12} {:>12} {:>12}", "memory", "1 s", "1 ms", "1 µs");
    for bytes in memory {
        let targets = bytes / segment;
        ensure!((1..places).contains(&targets), "{} are no memory that such an address space can hide", size(*bytes));
        let guesses = Search { places, targets }.median() as f64;
        let cells = DELAYS.map(|delay| format!("{:>12}", duration(guesses * delay))).join(" ");
        println!("{:>10} {cells}", size(*bytes));
    }
    Ok(ExitCode::SUCCESS)
}

/// Processor time in seconds for one address that is looked at by speculation, without a fault.
/// docs/SECURITY.md has the method.
const LOOK: f64 = 20e-6;

/// The memory that a domain of the manifest may look for: that of all other domains.
#[derive(Clone, Copy, Default)]
struct Others {
    domains: u64,
    /// Bytes of all of them.
    mapped: u64,
    /// Bytes of the longest run in one of them.
    run: u64,
}

impl Others {
    /// Returns the others of the smallest domain, which has the most memory to find.
    fn of(placements: &[PlacementReport]) -> Others {
        let mut all: Vec<&PlacementReport> = placements.iter().collect();
        all.sort_by_key(|placement| placement.mapped);
        let others = all.get(1..).unwrap_or_default();
        Others {
            domains: others.len() as u64,
            mapped: others.iter().map(|placement| placement.mapped).sum(),
            run: others.iter().map(|placement| placement.run).max().unwrap_or(0),
        }
    }
}

struct Report<'a> {
    /// The address space in which the manifest's windows lie.
    space: AddressSpace,
    /// The odds of the simulated search.
    odds: Search,
    others: Others,
    host: Option<Search>,
    outcome: Outcome,
    penalty: f64,
    manifest: &'a Manifest,
}

impl Report<'_> {
    fn agrees(&self) -> bool {
        self.outcome.standard_errors(self.odds).abs() < FAR
    }

    fn delay(&self) -> f64 {
        self.outcome.delay() + self.penalty
    }

    /// Returns the search of a domain of the manifest for all others.
    fn inside(&self, space: AddressSpace) -> Option<Search> {
        Search::for_memory(space.windows() - 1, self.others.run, self.others.mapped)
    }

    /// Returns the search for one domain with a heap of `bytes`.
    fn one(&self, bytes: u64) -> Option<Search> {
        Search::for_memory(self.space.windows() - 1, bytes, bytes)
    }

    fn free_loads(&self) -> Vec<&str> {
        let domains = self.manifest.domains.iter();
        domains.filter(|(_, d)| d.mode != Mode::Full).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the domains with free loads that ask for the processor's clock. With it they search
    /// by speculation, without a fault that counts.
    fn timed(&self) -> Vec<&str> {
        self.free_loads().into_iter().filter(|name| self.manifest.domains[*name].clock != Clock::No).collect()
    }

    fn print(&self) {
        let delay = self.delay();
        println!(
            "D  delay of a wrong guess        {} measured + {} penalty",
            duration(self.outcome.delay()),
            if self.penalty > 0.0 { duration(self.penalty) } else { "no".to_owned() }
        );
        println!("   windows' places               {}", self.space.windows() - 1);
        match self.inside(self.space) {
            Some(inside) => {
                println!("   other domains of the manifest {}", self.others.domains);
                println!(
                    "   their memory                  {}, at most {} in one run",
                    size(self.others.mapped),
                    size(self.others.run)
                );
                println!("V  addresses to try              {}", inside.places);
                println!("M  of them mapped                {}", inside.targets);
                println!("   guesses until a breach        {:.0} (mean), {} (median)", inside.mean(), inside.median());
                let first = 1.0 - inside.all_miss(1);
                println!("   breach by the first fault     {first:.1e} (all that a domain has that is not restarted)");
                println!("   time to breach                {}", duration(inside.median() as f64 * delay));
            }
            None => println!("   other domains of the manifest 0: nothing to find but the host"),
        }
        let here = if AddressSpace::Five.available() { "" } else { ", not on this machine" };
        for (bits, space, here) in [(47, AddressSpace::Four, ""), (56, AddressSpace::Five, here)] {
            let breach = self.inside(space).map(|s| s.median() as f64 * delay);
            let breach = breach.map_or_else(String::new, |time| format!(", time to breach {}", duration(time)));
            println!("   with {bits} bits of address       {} windows{breach}{here}", space.windows() - 1);
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
            let look = duration(LOOK);
            let time = self.inside(self.space).map(|s| duration(s.median() as f64 * LOOK));
            let time = time.map_or_else(String::new, |time| format!(", so {time} for memory that is in use"));
            println!("   without a single fault        {}: by speculation, with the clock", timed.join(", "));
            println!("                                 {look} of processor time an address (docs/SECURITY.md){time}");
        }
        println!("\ntime to breach by memory of one other domain, in one run, and delay");
        println!("{:>8} {:>12} {:>12} {:>12} {:>12}", "memory", "1 s", "1 ms", "1 µs", "here");
        for (bytes, search) in TABLE.iter().filter_map(|bytes| Some((bytes, self.one(*bytes)?))) {
            let guesses = search.median() as f64;
            let cells = DELAYS.iter().chain([&delay]).map(|d| format!("{:>12}", duration(guesses * d)));
            println!("{:>8} {}", size(*bytes), cells.collect::<Vec<_>>().join(" "));
        }
        let half = 1.96 * self.odds.deviation() / (self.outcome.searches as f64).sqrt();
        println!(
            "\nsimulation: {} searches for {} domains of {}, {} guesses in {}",
            self.outcome.searches,
            search::DECOYS,
            size(search::RUN),
            self.outcome.guesses,
            duration(self.outcome.time.as_secs_f64())
        );
        println!(
            "guesses until a breach: {:.0} seen, {:.0} ± {half:.0} expected (95%): {}",
            self.outcome.mean(),
            self.odds.mean(),
            if self.agrees() { "agrees" } else { "DISAGREES" }
        );
    }

    fn json(&self) -> serde_json::Value {
        let of = |search: Search| serde_json::json!({ "v": search.places, "m": search.targets, "first_guess": 1.0 - search.all_miss(1), "median_guesses": search.median(), "mean_guesses": search.mean(), "seconds": search.median() as f64 * self.delay() });
        let table = TABLE.map(|bytes| serde_json::json!({ "memory": bytes, "search": self.one(bytes).map(of) }));
        let spaces = [(47, AddressSpace::Four), (56, AddressSpace::Five)].map(|(bits, space)| {
            serde_json::json!({ "bits": bits, "available": space.available(), "windows": space.windows() - 1, "manifest": self.inside(space).map(of) })
        });
        serde_json::json!({
            "windows": self.space.windows() - 1,
            "spaces": spaces,
            "d": { "measured": self.outcome.delay(), "penalty": self.penalty },
            "others": { "domains": self.others.domains, "mapped": self.others.mapped, "run": self.others.run },
            "manifest": self.inside(self.space).map(of),
            "host": self.host.map(of),
            "can_search": self.free_loads(),
            "can_search_without_faults": self.timed(),
            "table": table,
            "simulation": {
                "v": self.odds.places,
                "m": self.odds.targets,
                "searches": self.outcome.searches,
                "guesses": self.outcome.guesses,
                "seconds": self.outcome.time.as_secs_f64(),
                "mean_guesses": self.outcome.mean(),
                "expected": self.odds.mean(),
                "standard_errors": self.outcome.standard_errors(self.odds),
                "agrees": self.agrees(),
            },
        })
    }
}
