//! Measures worlds that two threads enter at once, as ratios that compare rounds of one moment:
//!
//! - a null call between domains in a lane, against one in a world of one thread;
//! - the work of two threads against that of one: natively, in two domains of one world, in one
//!   domain with two E-stacks, and in two worlds.
//!
//! Prints the median of the rounds' ratios, and the least and the greatest.

use anyhow::Context;
use sfi_loader::{DomainSpec, Import, LaneFn, Lanes, TypedFn, World};
use sfi_rewriter::{Mode, Options};
use std::ffi::CString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const CALLS: u64 = 100_000;
const ROUNDS: usize = 41;
/// Insertions and look-ups of one thread in a round.
const STEPS: u64 = 400_000;

const CLIENT: &str = "extern long null(void); long run(long n) { while (n--) null(); return 0; }";
const SERVER: &str = "long null(void) { return 0; }";
/// A hash table with open addressing for each of two threads.
const TABLE: &str = "
    static unsigned long all[2][1 << 14];
    unsigned long table(unsigned long n, unsigned long which) {
        unsigned long *keys = all[which & 1], x = 88172645463325252ul + which, found = 0;
        for (unsigned long i = 0; i < 1 << 14; i++) keys[i] = 0;
        while (n--) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            unsigned long key = (x & 8191) + 1, at = key * 0x9e3779b97f4a7c15ul >> 50;
            while (keys[at] && keys[at] != key) at = (at + 1) & 16383;
            found += keys[at] == key;
            keys[at] = key;
        }
        return found;
    }
";

/// Functions of the domains.
type Run = fn(u64) -> u64;
type Work = fn(u64, u64) -> u64;
type Table = extern "C" fn(u64, u64) -> u64;

/// Compiles a source.
fn compile(source: &str, path: &Path, flags: &[&str]) -> anyhow::Result<()> {
    let mut gcc = Command::new("gcc");
    // A loop that zeroes the table must not become a call of `memset`.
    gcc.args(["-O2", "-fPIC", "-fno-tree-loop-distribute-patterns", "-x", "c", "-", "-o"]).arg(path).args(flags);
    let mut gcc = gcc.stdin(Stdio::piped()).spawn().context("cannot run gcc")?;
    gcc.stdin.take().context("no input of gcc")?.write_all(source.as_bytes())?;
    anyhow::ensure!(gcc.wait()?.success(), "gcc failed");
    Ok(())
}

/// Compiles and rewrites a domain's source.
fn object(source: &str, directory: &Path) -> anyhow::Result<Vec<u8>> {
    let path = directory.join("domain.o");
    compile(source, &path, &["-c"])?;
    let output = sfi_rewriter::rewrite(&std::fs::read(&path)?, &Options { mode: Mode::Write, ..Default::default() });
    Ok(output.map_err(|refusals| anyhow::anyhow!("{refusals:?}"))?.bytes)
}

/// Loads the native table.
fn native(directory: &Path) -> anyhow::Result<Table> {
    let path: PathBuf = directory.join("table.so");
    compile(TABLE, &path, &["-shared"])?;
    let name = CString::new(path.to_str().context("a path")?)?;
    // SAFETY: the library was just made and runs no code when it is loaded. Its function has this
    // type, and it stays loaded.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
        anyhow::ensure!(!library.is_null(), "cannot load the native table");
        let found = libc::dlsym(library, c"table".as_ptr());
        anyhow::ensure!(!found.is_null(), "no function `table`");
        Ok(std::mem::transmute::<*mut libc::c_void, Table>(found))
    }
}

/// Seconds that something takes.
fn time(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_secs_f64()
}

/// Seconds of two threads that do both at once.
fn both(first: impl FnOnce() + Send, second: impl FnOnce() + Send) -> f64 {
    time(|| {
        std::thread::scope(|scope| {
            scope.spawn(first);
            second();
        });
    })
}

fn report(what: &str, ratios: &mut [f64]) {
    ratios.sort_by(f64::total_cmp);
    let [least, middle, most] = [0, ratios.len() / 2, ratios.len() - 1].map(|i| ratios[i]);
    println!("{what}: {middle:.3} ({least:.3} to {most:.3})");
}

fn null_calls(directory: &Path) -> anyhow::Result<()> {
    let (client, server) = (object(CLIENT, directory)?, object(SERVER, directory)?);
    let builder = |estacks: usize| {
        let import = Import::domain("server", "null").signature("() -> int");
        let client = DomainSpec::new("client").object("client.o", client.clone()).import("null", import);
        let server = DomainSpec::new("server").object("server.o", server.clone());
        World::builder().domain(client).domain(server.threads_exposing(estacks))
    };
    let mut world = builder(1).build()?;
    let plain: TypedFn<Run> = world.domain("client")?.export("run")?;
    let lanes = [builder(1).lanes(2)?, builder(2).lanes(2)?];
    let run = || LaneFn::<Run>::new("client", "run");
    let run = [run(), run()];
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for round in 0..=ROUNDS {
        let alone = time(|| drop(plain.call(&mut world, (CALLS,))));
        for ((lanes, run), ratios) in lanes.iter().zip(&run).zip(&mut ratios) {
            let mut lane = lanes.enter()?;
            let lane = time(|| drop(run.call(&mut lane, (CALLS,))));
            ratios.extend((round > 0).then_some(lane / alone));
        }
    }
    report("null call in a lane, one E-stack, to one without lanes", &mut ratios[0]);
    report("null call in a lane, two E-stacks, to one without lanes", &mut ratios[1]);
    Ok(())
}

fn call(lanes: &Lanes, table: &LaneFn<Work>, which: u64) {
    let found = lanes.enter().map(|mut lane| table.call(&mut lane, (STEPS, which)));
    assert!(matches!(found, Ok(Ok(_))), "{found:?}");
}

fn scaling(directory: &Path) -> anyhow::Result<()> {
    let native = native(directory)?;
    let bytes = object(TABLE, directory)?;
    let domain = |name: &str| DomainSpec::new(name).object("table.o", bytes.clone());
    let apart = World::builder().domain(domain("a")).domain(domain("b")).lanes(2)?;
    let shared = World::builder().domain(domain("a").threads_exposing(2)).lanes(2)?;
    let named = |name: &str| LaneFn::<Work>::new(name, "table");
    let [a, b, in_shared] = [named("a"), named("b"), named("a")];
    let mut worlds = [World::builder().domain(domain("a")).build()?, World::builder().domain(domain("a")).build()?];
    let tables = worlds.iter().map(|world| world.domain("a").and_then(|domain| domain.export("table")));
    let tables: Vec<TypedFn<Work>> = tables.collect::<Result<_, _>>()?;
    let mut ratios: [Vec<f64>; 4] = Default::default();
    for round in 0..=ROUNDS {
        let mut note = |kind: usize, one: f64, two: f64| {
            ratios[kind].extend((round > 0).then_some(2.0 * one / two));
        };
        let one = time(|| _ = native(STEPS, 0));
        note(0, one, both(|| _ = native(STEPS, 0), || _ = native(STEPS, 1)));
        let one = time(|| call(&apart, &a, 0));
        note(1, one, both(|| call(&apart, &a, 0), || call(&apart, &b, 1)));
        let one = time(|| call(&shared, &in_shared, 0));
        note(2, one, both(|| call(&shared, &in_shared, 0), || call(&shared, &in_shared, 1)));
        let [first, second] = &mut worlds;
        let one = time(|| drop(tables[0].call(first, (STEPS, 0))));
        let table = &tables;
        note(3, one, both(|| drop(table[0].call(first, (STEPS, 0))), || drop(table[1].call(second, (STEPS, 1)))));
    }
    let names = ["natively", "in two domains of one world", "in one domain with two E-stacks", "in two worlds"];
    for (name, ratios) in names.iter().zip(&mut ratios) {
        report(&format!("work of two threads to that of one, a hash table {name}"), ratios);
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    null_calls(directory.path())?;
    scaling(directory.path())
}
