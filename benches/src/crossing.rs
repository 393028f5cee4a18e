//! Null calls there and back: the cost of a crossing, compared with the machine's other calls.

use crate::objects::Names;
use crate::{Measured, objects};
use anyhow::Context;
use rustix::fd::OwnedFd;
use sfi_loader::{DomainSpec, Import, Trust, TypedFn, World};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Calls in one round of an operation that takes nanoseconds.
const FAST: u32 = 50_000;
/// Calls in one round of an operation that takes microseconds.
const SLOW: u32 = 500;

/// Names of the crossings between domains, by trust level and by the state that both sides' text
/// names. These decide the state that the gate saves. Only servers of the first column do without
/// GS.
#[rustfmt::skip]
const LEVELS: [[&str; 5]; 3] = [
    ["mutual_distrust_no_gs", "mutual_distrust", "mutual_distrust_integer", "mutual_distrust_integer_float", "mutual_distrust_x87"],
    ["trusted_server_no_gs", "trusted_server", "trusted_server_integer", "trusted_server_integer_float", "trusted_server_x87"],
    ["trusted_both_no_gs", "trusted_both", "trusted_both_integer", "trusted_both_integer_float", "trusted_both_x87"],
];
/// Names of all other operations.
const OTHERS: [&str; 8] =
    ["call", "indirect_call", "getppid", "futex", "pipe", "unix_socket", "host_to_domain", "domain_to_host"];

/// Measures everything once in each round, interleaved, and returns the medians.
///
/// # Errors
/// If a world cannot be built or the system refuses threads, pipes or sockets.
pub fn measure(rounds: u32) -> anyhow::Result<Vec<Measured>> {
    let mut crossings = Crossings::new()?;
    let mut partners = Partners::start()?;
    let names: Vec<&str> = OTHERS.into_iter().chain(LEVELS.into_iter().flatten()).collect();
    let mut samples: Vec<Vec<f64>> = names.iter().map(|_| Vec::new()).collect();
    // The first round warms up and does not count.
    for round in 0..=rounds {
        let mut results = vec![
            time(FAST, || call(FAST))?,
            time(FAST, || indirect_call(FAST))?,
            time(FAST, || getppid(FAST))?,
            time(SLOW, || partners.futex(SLOW))?,
            time(SLOW, || partners.pipe(SLOW))?,
            time(SLOW, || partners.socket(SLOW))?,
            crossings.to_domain.time()?,
            time(FAST, || crossings.domain_to_host(FAST))?,
        ];
        for pair in &mut crossings.pairs {
            results.push(time(FAST, || pair.run(FAST))?);
        }
        for (result, samples) in results.into_iter().zip(&mut samples) {
            if round > 0 {
                samples.push(result);
            }
        }
    }
    Ok(names
        .into_iter()
        .zip(&mut samples)
        .map(|(name, samples)| Measured { name, nanoseconds: crate::median(samples) })
        .collect())
}

/// A host's typed calls of a null function.
#[derive(Debug)]
pub struct ToDomain {
    world: World,
    null: TypedFn<fn()>,
}

impl ToDomain {
    /// Builds the world.
    ///
    /// # Errors
    /// If the world cannot be built.
    pub fn new() -> anyhow::Result<Self> {
        let server = DomainSpec::new("server").object("server", objects::null(Names::Nothing)?);
        let world = World::builder().domain(server).build()?;
        let null = world.domain("server")?.export("null")?;
        Ok(Self { world, null })
    }

    /// Returns the nanoseconds of a call in one round.
    ///
    /// # Errors
    /// If a call fails.
    pub fn time(&mut self) -> anyhow::Result<f64> {
        time(FAST, || self.run(FAST))
    }

    fn run(&mut self, calls: u32) -> anyhow::Result<()> {
        for _ in 0..calls {
            self.null.call(&mut self.world, ())?;
        }
        Ok(())
    }
}

fn time(calls: u32, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_nanos() as f64 / f64::from(calls))
}

#[inline(never)]
extern "C" fn nothing() {
    black_box(());
}

fn indirect_call(calls: u32) -> anyhow::Result<()> {
    let function: extern "C" fn() = nothing;
    for _ in 0..calls {
        black_box(function)();
    }
    Ok(())
}

fn call(calls: u32) -> anyhow::Result<()> {
    for _ in 0..calls {
        nothing();
    }
    Ok(())
}

fn getppid(calls: u32) -> anyhow::Result<()> {
    for _ in 0..calls {
        black_box(rustix::process::getppid());
    }
    Ok(())
}

/// A client that calls a null function of a server.
struct Pair {
    world: World,
    repeat: TypedFn<fn(u32)>,
}

impl Pair {
    fn new(trust: Trust, names: Names) -> anyhow::Result<Self> {
        let import = Import::domain("server", "null").signature("() -> void").trust(trust);
        let world = World::builder()
            .domain(DomainSpec::new("client").object("client", objects::repeat("null", names)?).import("null", import))
            .domain(DomainSpec::new("server").object("server", objects::null(names)?))
            .build()?;
        let repeat = world.domain("client")?.export("repeat")?;
        Ok(Self { world, repeat })
    }

    fn run(&mut self, calls: u32) -> anyhow::Result<()> {
        Ok(self.repeat.call(&mut self.world, (calls,))?)
    }
}

/// Worlds for all kinds of crossing.
struct Crossings {
    /// In the order of [`LEVELS`].
    pairs: Vec<Pair>,
    to_host: Pair,
    to_domain: ToDomain,
}

impl Crossings {
    fn new() -> anyhow::Result<Self> {
        let mut pairs = Vec::new();
        for trust in Trust::ALL {
            for names in Names::ALL {
                pairs.push(Pair::new(trust, names)?);
            }
        }
        let client = DomainSpec::new("client").object("client", objects::repeat("null", Names::Nothing)?);
        let world = World::builder()
            .domain(client.import("null", Import::host("null").signature("() -> void")))
            .host_fn("null", |_| Ok(0))
            .build()?;
        let repeat = world.domain("client")?.export("repeat")?;
        Ok(Self { pairs, to_host: Pair { world, repeat }, to_domain: ToDomain::new()? })
    }

    fn domain_to_host(&mut self, calls: u32) -> anyhow::Result<()> {
        self.to_host.run(calls)
    }
}

/// Threads that answer. They end when their channel closes. The futex thread ends at [`END`].
struct Partners {
    turn: Arc<AtomicU32>,
    pipe: (OwnedFd, OwnedFd),
    socket: OwnedFd,
}

/// States of the futex word: the side whose turn it is.
const OURS: u32 = 0;
const THEIRS: u32 = 1;
const END: u32 = 2;

impl Partners {
    fn start() -> anyhow::Result<Self> {
        let turn = Arc::new(AtomicU32::new(OURS));
        let word = turn.clone();
        std::thread::spawn(move || {
            loop {
                wait_while(&word, OURS);
                if word.load(Ordering::Acquire) == END {
                    return;
                }
                hand_over(&word, OURS);
            }
        });
        let (their_read, our_write) = rustix::pipe::pipe()?;
        let (our_read, their_write) = rustix::pipe::pipe()?;
        std::thread::spawn(move || echo(&their_read, &their_write));
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        std::thread::spawn(move || echo(&theirs, &theirs));
        Ok(Self { turn, pipe: (our_read, our_write), socket: ours })
    }

    fn futex(&mut self, calls: u32) -> anyhow::Result<()> {
        for _ in 0..calls {
            hand_over(&self.turn, THEIRS);
            wait_while(&self.turn, THEIRS);
        }
        Ok(())
    }

    fn pipe(&mut self, calls: u32) -> anyhow::Result<()> {
        ping(&self.pipe.0, &self.pipe.1, calls)
    }

    fn socket(&mut self, calls: u32) -> anyhow::Result<()> {
        ping(&self.socket, &self.socket, calls)
    }
}

impl Drop for Partners {
    fn drop(&mut self) {
        hand_over(&self.turn, END);
    }
}

fn wait_while(word: &AtomicU32, value: u32) {
    use rustix::thread::futex;
    while word.load(Ordering::Acquire) == value {
        // An error means that the word changed or a signal came. The loop looks again.
        let _ = futex::wait(word, futex::Flags::PRIVATE, value, None);
    }
}

fn hand_over(word: &AtomicU32, value: u32) {
    use rustix::thread::futex;
    word.store(value, Ordering::Release);
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

fn ping(read: &OwnedFd, write: &OwnedFd, calls: u32) -> anyhow::Result<()> {
    let mut byte = [7];
    for _ in 0..calls {
        rustix::io::write(write, &byte).context("the partner is gone")?;
        rustix::io::read(read, &mut byte).context("the partner is gone")?;
    }
    Ok(())
}

fn echo(read: &OwnedFd, write: &OwnedFd) {
    let mut byte = [0];
    while matches!(rustix::io::read(read, &mut byte), Ok(1)) {
        if rustix::io::write(write, &byte).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn everything_is_measured() {
        let results = super::measure(1).unwrap();
        assert_eq!(results.len(), super::OTHERS.len() + super::LEVELS.as_flattened().len());
        assert!(results.iter().all(|r| r.nanoseconds > 0.0), "{results:?}");
    }
}
