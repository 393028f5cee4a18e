//! Measures calls between two domains that pass a function, against the same call without one.
//! Prints the least and the median time of a call.

use anyhow::Context;
use sfi_loader::{DomainSpec, Import, TypedFn, World};
use sfi_rewriter::{Mode, Options};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Calls of each kind in a round.
const CALLS: u64 = 20_000;
const ROUNDS: usize = 7;

const CLIENT: &str = "
    extern long plain(long), passed(long (*)(long), long), called(long (*)(long), long);
    static long next(long x) { return x + 1; }
    long run_plain(long n) { long x = 0; while (n--) x = plain(x); return x; }
    long run_passed(long n) { long x = 0; while (n--) x = passed(next, x); return x; }
    long run_called(long n) { long x = 0; while (n--) x = called(next, x); return x; }
";
const SERVER: &str = "
    long plain(long x) { return x + 1; }
    long passed(long (*f)(long), long x) { return x + (f != 0); }
    long called(long (*f)(long), long x) { return f(x); }
";
/// The client's functions, and the signatures of the server's functions that they call.
const KINDS: [(&str, &str, &str); 3] = [
    ("run_plain", "plain", "(int) -> int"),
    ("run_passed", "passed", "(fn(int) -> int, int) -> int"),
    ("run_called", "called", "(fn(int) -> int, int) -> int"),
];

/// Compiles and rewrites a domain's source.
fn object(source: &str) -> anyhow::Result<Vec<u8>> {
    let path = std::env::temp_dir().join(format!("sfi-functions-{}.o", std::process::id()));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIC", "-c", "-x", "c", "-", "-o"]).arg(&path);
    let mut gcc = gcc.stdin(Stdio::piped()).spawn().context("cannot run gcc")?;
    gcc.stdin.take().context("no input of gcc")?.write_all(source.as_bytes())?;
    anyhow::ensure!(gcc.wait()?.success(), "gcc failed");
    let stock = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let output = sfi_rewriter::rewrite(&stock, &Options { mode: Mode::Write, ..Default::default() });
    Ok(output.map_err(|refusals| anyhow::anyhow!("{refusals:?}"))?.bytes)
}

fn main() -> anyhow::Result<()> {
    let mut client = DomainSpec::new("client").object("client.o", object(CLIENT)?);
    for (_, function, signature) in KINDS {
        client = client.import(function, Import::domain("server", function).signature(signature));
    }
    let server = DomainSpec::new("server").object("server.o", object(SERVER)?);
    let mut world = World::builder().domain(client).domain(server).build()?;
    let mut times: [Vec<f64>; 3] = Default::default();
    // The first round warms up and does not count.
    for round in 0..=ROUNDS {
        for ((run, ..), times) in KINDS.iter().zip(&mut times) {
            let run: TypedFn<fn(u64) -> u64> = world.domain("client")?.export(run)?;
            let start = Instant::now();
            let counted = run.call(&mut world, (CALLS,))?;
            let time = start.elapsed().as_nanos() as f64 / CALLS as f64;
            anyhow::ensure!(counted == CALLS, "{counted} calls of {CALLS} counted");
            if round > 0 {
                times.push(time);
            }
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    let plain = times[0][0];
    for ((run, _, signature), times) in KINDS.iter().zip(&times) {
        let (least, median) = (times[0], times[ROUNDS / 2]);
        println!("{run:<12}{signature:<30}{least:>10.1} ns {median:>10.1} ns {:>8.0}", least / plain);
    }
    Ok(())
}
