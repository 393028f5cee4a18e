//! Compositions in a domain, and random pipes.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod random;

use anyhow::Context;
use sfi_contract::Mode;
use sfi_dilp::{Features, Transfer, object};
use sfi_loader::{DomainSpec, TypedFn, World};
use sfi_verifier::{Options, verify};

/// The form of a transfer.
pub type Call = TypedFn<fn(u64, u64, u64, u64) -> u64>;
/// The form of the function that finds one.
pub type Find = TypedFn<fn(u64, u64, u64, u64, u64) -> u64>;
/// The modes that compositions have.
pub const MODES: [Mode; 2] = [Mode::Write, Mode::Full];
/// Bytes of each of the three parts of the heap: source, destination, registers.
pub const PART: u64 = 1 << 18;

/// Returns the sets of extensions to test: all subsets of those of this processor that matter.
pub fn features() -> Vec<Features> {
    let own = Features::detect();
    let all = [
        Features::NONE,
        Features { pclmul: true, ..Features::NONE },
        Features { avx2: true, ..Features::NONE },
        Features { sse42: true, ..Features::NONE },
        Features { avx2: true, pclmul: true, sse42: false },
        Features::ALL,
    ];
    let fits = |f: &Features| f.avx2 <= own.avx2 && f.pclmul <= own.pclmul && f.sse42 <= own.sse42;
    all.into_iter().filter(fits).collect()
}

/// Checks that the verifier accepts an object.
pub fn accept(mode: Mode, bytes: &[u8]) -> anyhow::Result<()> {
    let options = Options { mode, ..Options::default() };
    let report = verify(bytes, &options)?;
    anyhow::ensure!(report.violations.is_empty(), "mode {mode}: {:?}", report.violations);
    Ok(())
}

/// A domain with compositions.
pub struct Domain {
    pub world: World,
    /// The address of the heap.
    heap: u64,
}

impl Domain {
    /// Verifies and loads compositions.
    pub fn new<'t>(mode: Mode, transfers: impl IntoIterator<Item = &'t Transfer>) -> anyhow::Result<Domain> {
        Domain::with(mode, object(mode, transfers)?)
    }

    /// Verifies and loads an object.
    pub fn with(mode: Mode, object: Vec<u8>) -> anyhow::Result<Domain> {
        accept(mode, &object)?;
        let spec = DomainSpec::new("dilp").mode(mode).memory(4 * PART).object("dilp.o", object);
        let mut world = World::builder().domain(spec).build().context("the world")?;
        let heap = world.memory("dilp")?.heap().start;
        Ok(Domain { world, heap })
    }

    /// Returns the addresses of source, destination and registers.
    pub fn places(&self) -> [u64; 3] {
        [0, 1, 2].map(|part| self.heap + part * PART + 64)
    }

    /// Sends a source through a composition. `shifts` are the distances of source and destination
    /// from a multiple of 64. The destination has guards around it.
    pub fn run(
        &mut self,
        name: &str,
        shifts: [u64; 2],
        registers: &mut [u64],
        source: &[u8],
        expected: usize,
    ) -> anyhow::Result<Vec<u8>> {
        const GUARD: usize = 64;
        let [from, to, kept] = self.places();
        let (from, to) = (from + shifts[0], to + shifts[1]);
        let words: Vec<u8> = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut memory = self.world.memory("dilp")?;
        memory.write(from, source)?;
        memory.write(to - GUARD as u64, &vec![0xa5; expected + 2 * GUARD])?;
        memory.write(kept, &words)?;
        let function: Call = self.world.domain("dilp")?.export(name)?;
        let stored = function.call(&mut self.world, (to, from, source.len() as u64, kept))?;
        anyhow::ensure!(stored == expected as u64, "{stored} bytes stored, not {expected}");
        let memory = self.world.memory("dilp")?;
        let words = memory.read(kept, words.len())?;
        for (register, word) in registers.iter_mut().zip(words.chunks(8)) {
            *register = u64::from_le_bytes(word.try_into()?);
        }
        let out = memory.read(to - GUARD as u64, expected + 2 * GUARD)?;
        let guards = out[..GUARD].iter().chain(&out[GUARD + expected..]);
        anyhow::ensure!(guards.into_iter().all(|byte| *byte == 0xa5), "a byte beside the destination changed");
        anyhow::ensure!(memory.read(from, source.len())? == source, "the source changed");
        Ok(out[GUARD..GUARD + expected].to_vec())
    }
}
