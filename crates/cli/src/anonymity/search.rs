//! The search itself: a domain that loads from one window after the other until it finds one, and
//! dies at every wrong guess.

use super::odds::Search;
use anyhow::{Context, ensure};
use rand::Rng;
use rand::seq::SliceRandom;
use sfi_contract::layout::{HEADER_BASE, WINDOW_SIZE};
use sfi_loader::{CallError, TypedFn, World};
use std::time::{Duration, Instant};

/// The searching domain. The name is reserved in the world that is searched.
pub const SEARCHER: &str = "searcher";

/// What was seen.
#[derive(Debug)]
pub struct Outcome {
    /// Searches that ended with a find.
    pub searches: u64,
    /// Guesses of all searches, the finds included.
    pub guesses: u64,
    /// Time of all guesses.
    pub time: Duration,
}

impl Outcome {
    /// Mean number of guesses.
    pub fn mean(&self) -> f64 {
        self.guesses as f64 / self.searches as f64
    }

    /// What a wrong guess takes: the fault, its report and the restart.
    pub fn delay(&self) -> f64 {
        self.time.as_secs_f64() / self.guesses as f64
    }

    /// How far from the formula's mean the observed mean lies, in standard errors.
    pub fn standard_errors(&self, search: Search) -> f64 {
        (self.mean() - search.mean()) / (search.deviation() / (self.searches as f64).sqrt())
    }
}

/// Searches `searches` times for a window that is not the searcher's own, in a random order each
/// time.
///
/// The place that is tried in a window is the header page: it is mapped in every window, at the
/// same offset, so this is the best that a searcher can do.
pub fn search(world: &mut World, searches: u64, random: &mut impl Rng) -> anyhow::Result<Outcome> {
    let windows = world.domain(SEARCHER)?.placement().windows;
    let load: TypedFn<fn(u64) -> u64> = world.domain(SEARCHER)?.export("load")?;
    let mut order: Vec<u64> = (1..=windows).collect();
    let mut guesses = 0;
    let start = Instant::now();
    for _ in 0..searches {
        order.shuffle(random);
        let mut found = false;
        for window in &order {
            if window * WINDOW_SIZE == world.domain(SEARCHER)?.secret_base() {
                continue;
            }
            guesses += 1;
            let address = window * WINDOW_SIZE + HEADER_BASE;
            match load.call(world, (address,)) {
                Ok(_) => {
                    found = true;
                    break;
                }
                Err(CallError::Fault(_)) => world.restart(SEARCHER).context("the searcher is not restarted")?,
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(found, "{} windows were tried and none is mapped", order.len());
    }
    Ok(Outcome { searches, guesses, time: start.elapsed() })
}
