//! `cargo run --release -p sfi-benches --example limits [rounds]` prints how late calls end that
//! overstay a limit of time, and the costs of calls with and without limits. Needs gcc.

use anyhow::{Context, ensure};
use sfi_benches::compile::rewritten;
use sfi_contract::Mode;
use sfi_loader::{CallError, DomainSpec, FaultKind, Limits, TypedFn, World};
use std::time::{Duration, Instant};

/// Calls of a round.
const CALLS: u32 = 20_000;
/// Calls that overstay in a round, for each limit.
const LATE: usize = 20;
/// The limits.
const LIMITS: [Duration; 3] = [Duration::from_micros(100), Duration::from_millis(1), Duration::from_millis(10)];
const SOURCE: &str = "void null(void) {}\nvoid spin(void) { for (;;) __asm__ volatile(\"\"); }\n";

type Nullary = TypedFn<fn() -> u64>;

struct Plain {
    world: World,
    null: Nullary,
    spin: Nullary,
}

impl Plain {
    /// Builds a world, with a limit or without any.
    fn new(object: &[u8], limit: Option<Duration>) -> anyhow::Result<Self> {
        let builder = World::builder().domain(DomainSpec::new("app").object("app.o", object.to_vec()));
        let builder = limit.into_iter().fold(builder, |builder, limit| builder.time_limit(limit));
        let world = builder.build()?;
        let domain = world.domain("app")?;
        let (null, spin) = (domain.export("null")?, domain.export("spin")?);
        Ok(Self { world, null, spin })
    }

    /// Returns the nanoseconds of a call, with a limit of its own or without.
    fn call(&mut self, own: Option<Duration>) -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..CALLS {
            match own {
                Some(limit) => self.null.call_within(&mut self.world, Limits::wall(limit), ())?,
                None => self.null.call(&mut self.world, ())?,
            };
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(CALLS))
    }

    /// Returns the microseconds from a limit to the end of a call that overstays it.
    fn overstay(&mut self, limit: Duration) -> anyhow::Result<f64> {
        let start = Instant::now();
        let ended = self.spin.call_within(&mut self.world, Limits::wall(limit), ());
        let late = start.elapsed().checked_sub(limit).context("a call ended early")?;
        let is_over = matches!(&ended, Err(CallError::Fault(fault)) if fault.kind == FaultKind::TimeLimit);
        ensure!(is_over, "not ended by the limit: {ended:?}");
        self.world.restart("app")?;
        Ok(late.as_nanos() as f64 / 1e3)
    }
}

fn main() -> anyhow::Result<()> {
    let rounds: u32 = std::env::args().nth(1).map_or(Ok(21), |n| n.parse())?;
    let object = rewritten("app.c", SOURCE, Mode::Write, false)?;
    let (mut free, mut limited) = (Plain::new(&object, None)?, Plain::new(&object, Some(Duration::from_secs(10)))?);
    let names = ["call, no limits", "call, the world's limit", "call_within"];
    let (mut calls, mut late) = (names.map(|_| Vec::new()), LIMITS.map(|_| Vec::new()));
    // The first round warms up and does not count.
    for round in 0..=rounds {
        let times = [free.call(None)?, limited.call(None)?, limited.call(Some(Duration::from_secs(5)))?];
        for (samples, time) in calls.iter_mut().zip(times) {
            samples.extend((round > 0).then_some(time));
        }
        for (samples, limit) in late.iter_mut().zip(LIMITS) {
            for _ in 0..LATE {
                let time = limited.overstay(limit)?;
                samples.extend((round > 0).then_some(time));
            }
        }
    }
    for (name, samples) in names.iter().zip(&mut calls) {
        println!("{name:<28} {:>8.1} ns", sfi_benches::median(samples));
    }
    for (limit, samples) in LIMITS.iter().zip(&mut late) {
        let median = sfi_benches::median(samples);
        let most = |share: usize| samples[(samples.len() * share / 1000).min(samples.len() - 1)];
        println!("late for {limit:>8.1?}: {median:>8.1} us, 99% {:>8.1}, most {:>8.1}", most(990), most(1000));
    }
    Ok(())
}
