//! A simulated search: a domain loads from one window after the other until it finds one. Every
//! wrong guess ends the domain.

use super::odds::Search;
use anyhow::{Context, ensure};
use rand::Rng;
use rand::seq::SliceRandom;
use sfi_contract::layout::WINDOW_SIZE;
use sfi_loader::{CallError, DomainSpec, La57, TypedFn, World};
use std::time::{Duration, Instant};

/// Name of the domain that searches.
pub const SEARCHER: &str = "searcher";

/// The result of some searches.
#[derive(Debug)]
pub struct Outcome {
    /// Searches, each of which ended with a find.
    pub searches: u64,
    /// Guesses of all searches, with the finds.
    pub guesses: u64,
    /// Time of all guesses.
    pub time: Duration,
}

impl Outcome {
    /// Returns the mean number of guesses of a search.
    pub fn mean(&self) -> f64 {
        self.guesses as f64 / self.searches as f64
    }

    /// Returns the seconds that a guess takes: the fault, its report and the restart.
    pub fn delay(&self) -> f64 {
        self.time.as_secs_f64() / self.guesses as f64
    }

    /// Returns the distance of the observed mean from the formula's mean, in standard errors.
    pub fn standard_errors(&self, search: Search) -> f64 {
        (self.mean() - search.mean()) / (search.deviation() / (self.searches as f64).sqrt())
    }
}

/// Number of domains that can be found.
pub const DECOYS: u64 = 8;
/// Bytes of the heap of each of them: the longest run of its memory.
pub const RUN: u64 = 1 << 30;

/// Builds a world with one domain that searches and [`DECOYS`] others. The others are so large that
/// a search takes thousands of guesses and not thousands of millions.
pub fn world() -> anyhow::Result<World> {
    let idle = |name: &str| DomainSpec::new(name).memory(0).stack(4096).object("load.o", sfi_support::load_object());
    let mut builder = World::builder().la57(La57::Never).domain(idle(SEARCHER));
    for number in 0..DECOYS {
        builder = builder.domain(idle(&format!("decoy{number}")).memory(RUN));
    }
    Ok(builder.build()?)
}

/// Returns the odds of a search in that world.
pub fn odds(windows: u64) -> anyhow::Result<Search> {
    // The searcher knows its own window.
    Search::for_memory(windows - 1, RUN, DECOYS * RUN).context("there are no windows")
}

/// Searches `searches` times for a window that is not the searcher's own, each time in a random
/// order.
///
/// It tries one address for each length of the longest run, in all windows. Nothing in a window
/// lies at a known place, so no searcher can do better.
pub fn search(world: &mut World, searches: u64, random: &mut impl Rng) -> anyhow::Result<Outcome> {
    let windows = world.domain(SEARCHER)?.placement().windows;
    let load: TypedFn<fn(u64) -> u64> = world.domain(SEARCHER)?.export("load")?;
    let per_window = WINDOW_SIZE / RUN;
    let mut order: Vec<u64> = (per_window..per_window * (windows + 1)).filter(|n| n % per_window != 0).collect();
    let mut guesses = 0;
    let start = Instant::now();
    for _ in 0..searches {
        order.shuffle(random);
        let mut found = false;
        for number in &order {
            let address = number * RUN;
            if address & !(WINDOW_SIZE - 1) == world.domain(SEARCHER)?.secret_base() {
                continue;
            }
            guesses += 1;
            match load.call(world, (address,)) {
                Ok(_) => {
                    found = true;
                    break;
                }
                Err(CallError::Fault(_)) => world.restart(SEARCHER).context("the searcher is not restarted")?,
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(found, "{} addresses were tried and none is mapped", order.len());
    }
    Ok(Outcome { searches, guesses, time: start.elapsed() })
}
