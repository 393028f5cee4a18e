//! The cost of instances: fresh ones, pooled ones, ten thousand at once, and a process to compare
//! with.

use crate::far::{self, Order};
use crate::{Measured, fork, objects};
use anyhow::Context;
use sfi_loader::{DomainSpec, Instance, Placement, Pool, Template, TypedFn, World};
use std::time::{Duration, Instant};

/// Instances in one round of an operation that takes tens of microseconds.
const FRESH: u32 = 100;
/// Takes from a pool in one round.
const POOLED: u32 = 1000;
/// Pages of its heap that a tenant with work to do writes.
const DIRTY: u32 = 16;

/// The export `count` of an instance.
type Count = TypedFn<fn() -> u64>;

/// Returns the domain: it has a page of data that it changes, and a heap.
fn spec() -> anyhow::Result<DomainSpec> {
    Ok(DomainSpec::new("app").object("counter", objects::counter()?).placement(Placement::Dense).memory(16 << 20))
}

/// Measures everything once in each round, interleaved, and returns the medians.
///
/// # Errors
/// If a world cannot be built or the system refuses a process.
pub fn measure(rounds: u32) -> anyhow::Result<Vec<Measured>> {
    let template = Template::builder(spec()?).build()?;
    let pool = Pool::new(&template, 4)?;
    let mut world = World::builder().domain(spec()?).build()?;
    let names = [
        "fork_exit",
        "fresh_instance",
        "first_call",
        "discard",
        "fresh_world",
        "pooled_reset_and_take",
        "pooled_reset_and_take_16_pages",
    ];
    let mut samples = names.map(|_| Vec::new());
    // The first round warms up and does not count.
    for round in 0..=rounds {
        let start = Instant::now();
        for _ in 0..FRESH {
            fork::child_that_exits().context("fork")?;
        }
        let fork = start.elapsed() / FRESH;
        let [fresh, first, discard] = lives(&mut world)?;
        let start = Instant::now();
        let worlds = (0..FRESH).map(|_| template.instance()).collect::<Result<Vec<_>, _>>()?;
        let own = start.elapsed() / FRESH;
        drop(worlds);
        let results = [fork, fresh, first, discard, own, pooled(&pool, 0)?, pooled(&pool, DIRTY)?];
        for (result, samples) in results.into_iter().zip(&mut samples) {
            if round > 0 {
                samples.push(result.as_nanos() as f64);
            }
        }
    }
    let medians = names.into_iter().zip(&mut samples);
    Ok(medians.map(|(name, samples)| Measured { name, nanoseconds: crate::median(samples) }).collect())
}

/// Times making instances in one world, their first calls, and discarding them.
fn lives(world: &mut World) -> anyhow::Result<[Duration; 3]> {
    let start = Instant::now();
    let instances = (0..FRESH).map(|_| world.instantiate("app")).collect::<Result<Vec<_>, _>>()?;
    let fresh = start.elapsed() / FRESH;
    let functions = functions(world, &instances)?;
    let start = Instant::now();
    for function in &functions {
        function.call(world, ())?;
    }
    let first = start.elapsed() / FRESH;
    let start = Instant::now();
    for instance in instances {
        world.discard(instance)?;
    }
    Ok([fresh, first, start.elapsed() / FRESH])
}

fn functions(world: &World, instances: &[Instance]) -> anyhow::Result<Vec<Count>> {
    instances.iter().map(|instance| Ok(world.instance(*instance)?.export("count")?)).collect()
}

/// Times the switch from one tenant to the next: the end of one that wrote its data, its stack and
/// some pages of its heap, and the start of the next.
fn pooled(pool: &Pool, pages: u32) -> anyhow::Result<Duration> {
    let mut total = Duration::ZERO;
    let mut world = pool.take()?;
    for _ in 0..POOLED {
        let count: Count = world.domain("app")?.export("count")?;
        anyhow::ensure!(count.call(&mut *world, ())? == 1, "an instance was not reset");
        if pages > 0 {
            let touch: TypedFn<fn(u32)> = world.domain("app")?.export("touch")?;
            touch.call(&mut *world, (pages,))?;
        }
        let start = Instant::now();
        drop(world);
        world = pool.take()?;
        total += start.elapsed();
    }
    Ok(total / POOLED)
}

/// Many domains in one process.
#[derive(Clone, Debug)]
pub struct Many {
    /// Number of domains.
    pub domains: u32,
    /// Time to make one, microseconds.
    pub create: f64,
    /// Time of a call in nanoseconds, in random order over all domains. Median of the rounds.
    pub call: f64,
    /// The same of native functions at as many places, in the same run.
    pub native: far::Calls,
    /// Time to discard one, microseconds.
    pub discard: f64,
    /// Kernel mappings of one domain.
    pub mappings: f64,
    /// Resident bytes of one domain that was never called, with its share of shared pages.
    pub resident: f64,
    /// Bytes of page tables of one domain.
    pub page_tables: f64,
}

/// Makes `domains` live domains in this process and calls each of them in random order, `rounds`
/// times. Checks every result.
///
/// # Errors
/// The kernel does not allow this number of domains, or a result is wrong.
pub fn many(domains: u32, rounds: u32) -> anyhow::Result<Many> {
    let mut world = World::builder().domain(spec()?).build()?;
    let before = usage()?;
    let each = |duration: Duration, unit: f64| duration.as_nanos() as f64 / unit / f64::from(domains);
    let start = Instant::now();
    let instances = (0..domains).map(|_| world.instantiate("app")).collect::<Result<Vec<_>, _>>()?;
    let create = each(start.elapsed(), 1e3);
    let after = usage()?;
    let functions = functions(&world, &instances)?;
    let mut order = Order::new(instances.len());
    let mut samples = Vec::new();
    for round in 1..=u64::from(rounds) {
        order.shuffle();
        let start = Instant::now();
        for index in &order.numbers {
            anyhow::ensure!(functions[*index].call(&mut world, ())? == round, "a domain lost count");
        }
        samples.push(each(start.elapsed(), 1.0));
    }
    let start = Instant::now();
    for instance in instances {
        world.discard(instance)?;
    }
    let discard = each(start.elapsed(), 1e3);
    let per = |now: u64, then: u64| now.saturating_sub(then) as f64 / f64::from(domains);
    let [mappings, resident, page_tables] = [0, 1, 2].map(|i| per(after[i], before[i]));
    // The domains are gone: the kernel does not allow the mappings of both at one time.
    let (call, native) = (crate::median(&mut samples), far::calls(domains, rounds)?);
    Ok(Many { domains, create, call, native, discard, mappings, resident, page_tables })
}

/// Returns this process's mappings, resident bytes (shared ones by share) and bytes of page tables.
fn usage() -> anyhow::Result<[u64; 3]> {
    let bytes = |file: &str, key: &str| -> anyhow::Result<u64> {
        let text = std::fs::read_to_string(file)?;
        let line = text.lines().find(|l| l.starts_with(key)).with_context(|| format!("no {key} in {file}"))?;
        let value = line.split_whitespace().nth(1).with_context(|| format!("{key} without a value"))?;
        Ok(value.parse::<u64>()? << 10)
    };
    let mappings = std::fs::read_to_string("/proc/self/maps")?.lines().count() as u64;
    Ok([mappings, bytes("/proc/self/smaps_rollup", "Pss:")?, bytes("/proc/self/status", "VmPTE:")?])
}
