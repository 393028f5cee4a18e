//! Copies and integrated loops: tables III and IV of the paper, in a domain of mode write.

use super::{Row, Table, median_of};
use crate::compile::gcc;
use anyhow::ensure;
use sfi_contract::Mode;
use sfi_dilp::{Catalog, Features, Options, builtin};
use sfi_loader::{DomainSpec, TypedFn, World};
use std::time::Instant;

/// Bytes of a message.
const BYTES: u64 = 4096;
/// Messages of a sample that the caches do not hold: three times 64 MiB.
const MANY: u64 = 16 << 10;
/// Rounds of a sample with one message, which the caches hold.
const ROUNDS: u64 = 256;
/// The sources: the passes and loops by hand, and their runs over many messages.
const SOURCES: [(&str, &str); 2] = [("dilp.c", include_str!("dilp.c")), ("memory.c", include_str!("memory.c"))];

type Call = TypedFn<fn(u64, u64, u64, u64) -> u64>;

struct Loops {
    world: World,
    heap: u64,
}

impl Loops {
    fn new() -> anyhow::Result<Self> {
        let features = Features::detect();
        let flags: &[&str] = if features.avx2 { &["-mavx2", "-DVECTOR"] } else { &[] };
        let stock = gcc(&SOURCES, flags)?;
        let options = sfi_rewriter::Options { mode: Mode::Write, ..Default::default() };
        let driver = sfi_rewriter::rewrite(&stock, &options);
        let driver = driver.map_err(|refusals| anyhow::anyhow!("the loops are refused: {}", refusals[0]))?.bytes;
        let mut catalog = Catalog::new(Options::new(Mode::Write));
        for line in ["copy | checksum", "copy | checksum | swap32"] {
            catalog.add(&builtin::chain(line)?)?;
        }
        let spec = DomainSpec::new("d").mode(Mode::Write).memory((3 * MANY + 1) * BYTES);
        let spec = spec.object("driver.o", driver).object("dilp.o", catalog.object()?);
        let mut world = World::builder().domain(spec).build()?;
        let mut memory = world.memory("d")?;
        let heap = memory.heap().start;
        let pattern: Vec<u8> = (0..BYTES as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for message in 0..3 * MANY {
            memory.write(heap + message * BYTES, &pattern)?;
        }
        Ok(Self { world, heap })
    }

    fn call(&mut self, name: &str, rounds: u64, count: u64) -> anyhow::Result<u64> {
        let call: Call = self.world.domain("d")?.export(&format!("many_{name}"))?;
        Ok(call.call(&mut self.world, (rounds, count, self.heap, BYTES))?)
    }

    /// Checks that ways of one task leave the same sum and the same bytes.
    fn agree(&mut self, names: &[&str]) -> anyhow::Result<()> {
        let mut first = None;
        for name in names {
            let sum = self.call(name, 1, 1)?;
            let found = (sum, self.world.memory("d")?.read(self.heap + BYTES, BYTES as usize)?);
            ensure!(*first.get_or_insert_with(|| found.clone()) == found, "{name} differs from {}", names[0]);
        }
        Ok(())
    }

    /// Returns the bytes for each nanosecond.
    fn sample(&mut self, name: &str, rounds: u64, count: u64) -> anyhow::Result<f64> {
        let start = Instant::now();
        self.call(name, rounds, count)?;
        Ok((rounds * count * BYTES) as f64 / start.elapsed().as_nanos() as f64)
    }

    /// Measures functions, one message that the caches hold or many that they do not, interleaved.
    fn row(&mut self, name: &str, functions: &[&str], cached: bool, rounds: u32) -> anyhow::Result<Row> {
        let (times, count) = if cached { (ROUNDS, 1) } else { (1, MANY) };
        let mut samples = vec![Vec::new(); functions.len()];
        // The first round warms up and does not count.
        for round in 0..=rounds {
            for (function, samples) in functions.iter().zip(&mut samples) {
                let rate = self.sample(function, times, count)?;
                samples.extend((round > 0).then_some(rate));
            }
        }
        let name = format!("{name}, {}", if cached { "cached" } else { "uncached" });
        Ok(Row { name, values: samples.into_iter().map(median_of).collect() })
    }
}

/// The ways of a task: its passes, and its loops by hand and composed.
const TASKS: [(&str, [&str; 3]); 2] = [
    ("copy, sum", ["separate_sum", "fused_sum", "dilp_sum"]),
    ("copy, sum, swap", ["separate_swap", "fused_swap", "dilp_swap"]),
];

/// Measures copies and loops.
pub(super) fn measure(rounds: u32) -> anyhow::Result<[Table; 2]> {
    let mut loops = Loops::new()?;
    let mut copies = Vec::new();
    for cached in [true, false] {
        copies.push(loops.row("copies", &["copy", "two_copies"], cached, rounds)?);
    }
    let mut rows = Vec::new();
    for (task, ways) in TASKS {
        loops.agree(&ways)?;
        for cached in [true, false] {
            rows.push(loops.row(task, &ways, cached, rounds)?);
        }
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let copies = Table {
        name: "copies",
        title: "Copies of 4,096 bytes".into(),
        unit: "bytes/ns",
        columns: names(&["one copy", "two copies"]),
        rows: copies,
    };
    let loops = Table {
        name: "loops",
        title: "Passes over 4,096 bytes, and loops that integrate them".into(),
        unit: "bytes/ns",
        columns: names(&["separate", "C integrated", "DILP"]),
        rows,
    };
    Ok([copies, loops])
}
