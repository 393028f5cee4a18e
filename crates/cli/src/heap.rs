//! The leak check of `sfi run --heap-report`: the blocks that domains allocate and do not free.
//!
//! Calls of `malloc` and its like lead to host functions, which call the domain's own functions and
//! note block, size and the calls in progress. Those come from the control stack, so they are true.
//! The blocks are the domain's word. All records are bounded.

use sfi_contract::report::SHOWN;
use sfi_loader::manifest::{Grant, Manifest};
use sfi_loader::{Builder, CallPath, DomainSpec, HostCall, HostError, Import, Namer, Trust, World};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most blocks that are noted at a time. Further ones are counted.
const MOST_BLOCKS: usize = 1 << 20;
/// Most different places that are noted.
const MOST_PLACES: usize = 1 << 16;
/// Number of calls of a place that are printed.
const CALLS: usize = 12;

/// The functions that are watched, with their signatures.
const WATCHED: [(&str, &str); 5] = [
    ("malloc", "(int) -> int"),
    ("calloc", "(int, int) -> int"),
    ("realloc", "(int, int) -> int"),
    ("aligned_alloc", "(int, int) -> int"),
    ("free", "(int) -> void"),
];

/// A block of a domain.
#[derive(Clone, Copy)]
struct Block {
    bytes: u64,
    /// Number of its place.
    place: u32,
}

/// The blocks of one domain.
#[derive(Default)]
struct Record {
    blocks: HashMap<u64, Block>,
    places: HashMap<CallPath, u32>,
    bytes: u64,
    most: u64,
    allocations: u64,
    /// Allocations that were not noted, because there was no room.
    lost: u64,
    /// Frees of addresses that were no blocks.
    strange: u64,
}

impl Record {
    fn allocated(&mut self, path: CallPath, block: u64, bytes: u64) {
        if block == 0 {
            return;
        }
        // A function that calls another one of these, as `calloc` does, notes the same block again.
        let again = self.forget(block);
        self.allocations += u64::from(!again);
        let next = self.places.len();
        let place = match self.places.get(&path) {
            Some(place) => Some(*place),
            None if next < MOST_PLACES => Some(*self.places.entry(path).or_insert(next as u32)),
            None => None,
        };
        match place.filter(|_| self.blocks.len() < MOST_BLOCKS) {
            Some(place) => {
                self.blocks.insert(block, Block { bytes, place });
                self.bytes = self.bytes.saturating_add(bytes);
                self.most = self.most.max(self.bytes);
            }
            None => self.lost += 1,
        }
    }

    /// Forgets a block, and says whether there was one.
    fn forget(&mut self, block: u64) -> bool {
        let old = self.blocks.remove(&block);
        self.bytes = self.bytes.saturating_sub(old.map_or(0, |old| old.bytes));
        old.is_some()
    }

    fn freed(&mut self, block: u64) {
        if block != 0 && !self.forget(block) && self.lost == 0 {
            self.strange += 1;
        }
    }

    /// Returns the places with blocks: blocks, bytes and path, the largest first.
    fn left(&self) -> Vec<(u64, u64, &CallPath)> {
        let mut sums = vec![(0u64, 0u64); self.places.len()];
        for block in self.blocks.values() {
            let (blocks, bytes) = &mut sums[block.place as usize];
            (*blocks, *bytes) = (*blocks + 1, bytes.saturating_add(block.bytes));
        }
        let all = self.places.iter().map(|(path, place)| (sums[*place as usize], *place, path));
        let mut left: Vec<_> = all.filter(|((blocks, _), ..)| *blocks > 0).collect();
        left.sort_unstable_by_key(|((blocks, bytes), place, _)| (u64::MAX - bytes, u64::MAX - blocks, *place));
        left.into_iter().map(|((blocks, bytes), _, path)| (blocks, bytes, path)).collect()
    }
}

/// The blocks of a domain, shared with its host functions.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Record>>);

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a watched function. The domain's own function does the work.
    fn serve(&self, function: &str, cx: &mut HostCall<'_>) -> Result<u64, HostError> {
        let (first, second, path) = (cx.arg(0), cx.arg(1), cx.path());
        let missing = || HostError::new("the domain has no such function");
        let one = |cx: &mut HostCall<'_>| -> Result<u64, HostError> {
            let own = cx.wrapped::<fn(u64) -> u64>(function).ok_or_else(missing)?;
            Ok(own.call(cx, (first,))?)
        };
        let two = |cx: &mut HostCall<'_>| -> Result<u64, HostError> {
            let own = cx.wrapped::<fn(u64, u64) -> u64>(function).ok_or_else(missing)?;
            Ok(own.call(cx, (first, second))?)
        };
        let bytes = match function {
            "free" => {
                self.record().freed(first);
                return one(cx);
            }
            "malloc" => first,
            "calloc" => first.saturating_mul(second),
            _ => second,
        };
        let block = if function == "malloc" { one(cx)? } else { two(cx)? };
        let mut record = self.record();
        if function == "realloc" && block != 0 && block != first {
            record.freed(first);
        }
        record.allocated(path, block, bytes);
        Ok(block)
    }
}

/// The heaps of a run.
#[derive(Default)]
pub struct Heaps {
    domains: Vec<(String, Shared)>,
    namer: Option<Namer>,
}

fn host_name(domain: &str, function: &str) -> String {
    format!("heap:{domain}:{function}")
}

impl Heaps {
    /// Watches the heap of a domain. The builder must offer the host functions.
    pub fn watch(&mut self, domain: &str, spec: DomainSpec) -> DomainSpec {
        self.domains.push((domain.to_owned(), Shared::default()));
        WATCHED.into_iter().fold(spec, |spec, (function, signature)| {
            let import = Import::host(host_name(domain, function)).signature(signature).on_fault(0);
            spec.import(function, import.wraps())
        })
    }

    /// Watches the heaps of all domains of a manifest, but not functions that it grants itself.
    pub fn watch_all(&mut self, manifest: &mut Manifest) {
        for (name, domain) in &mut manifest.domains {
            self.domains.push((name.clone(), Shared::default()));
            for (function, signature) in WATCHED {
                domain.imports.entry(function.to_owned()).or_insert_with(|| Grant {
                    host: Some(host_name(name, function)),
                    entry: None,
                    domain: None,
                    function: None,
                    interface: None,
                    signature: Some(signature.parse().expect("a signature")),
                    on_fault: 0,
                    trust: None::<Trust>,
                    overrides: true,
                    wraps: true,
                });
            }
        }
    }

    /// Adds the host functions.
    pub fn offer(&self, mut builder: Builder) -> Builder {
        for (domain, shared) in &self.domains {
            for (function, _) in WATCHED {
                let shared = shared.clone();
                builder = builder.host_fn(host_name(domain, function), move |cx| shared.serve(function, cx));
            }
        }
        builder
    }
}

/// Prints the report when it is dropped, at the end of a run however it ends.
pub struct Report(Option<Heaps>);

impl Report {
    /// Takes the names of the domains' places.
    pub fn new(heaps: Option<Heaps>, world: &World) -> Self {
        Self(heaps.map(|heaps| Heaps { namer: Some(world.namer()), ..heaps }))
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(heaps) = &self.0 {
            eprint!("{heaps}");
        }
    }
}

/// Returns a number with a word for what is counted.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for Heaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (domain, shared) in &self.domains {
            let record = shared.record();
            let left = record.left();
            let (blocks, bytes) = (counted(record.blocks.len() as u64, "block"), counted(record.bytes, "byte"));
            let all = counted(record.allocations, "allocation");
            let most = counted(record.most, "byte");
            let domain = sfi_contract::text::clean(domain.as_bytes());
            writeln!(f, "heap of `{domain}`: {blocks} not freed, {bytes}; {all}, at most {most} at a time")?;
            for (blocks, bytes, path) in left.iter().take(SHOWN) {
                writeln!(f, "  {} in {}, allocated by", counted(*bytes, "byte"), counted(*blocks, "block"))?;
                if let Some(namer) = &self.namer {
                    f.write_str(&calls(namer, path)?)?;
                }
            }
            if left.len() > SHOWN {
                writeln!(f, "  and {} more", counted((left.len() - SHOWN) as u64, "place"))?;
            }
            if record.lost > 0 {
                writeln!(f, "  {} beyond the limits of this report", counted(record.lost, "allocation"))?;
            }
            if record.strange > 0 {
                writeln!(f, "  {} of what is no block", counted(record.strange, "free"))?;
            }
        }
        Ok(())
    }
}

/// Returns the innermost calls of a path, one line each.
fn calls(namer: &Namer, path: &CallPath) -> Result<String, fmt::Error> {
    let mut backtrace = namer.backtrace(path);
    let outer = backtrace.frames.len().saturating_sub(CALLS) as u32;
    backtrace.frames.truncate(CALLS);
    backtrace.more = backtrace.more.saturating_add(outer);
    let mut text = String::new();
    for line in backtrace.to_string().lines() {
        writeln!(text, "  {line}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_bounded() {
        let mut record = Record::default();
        let path = CallPath::default();
        for block in 1..=MOST_BLOCKS as u64 + 10 {
            record.allocated(path.clone(), block, u64::MAX);
        }
        assert_eq!((record.blocks.len(), record.lost), (MOST_BLOCKS, 10));
        assert_eq!((record.bytes, record.most), (u64::MAX, u64::MAX));
        record.freed(1);
        record.freed(1);
        assert_eq!((record.blocks.len(), record.strange), (MOST_BLOCKS - 1, 0));
        assert_eq!(record.left().len(), 1);
    }

    #[test]
    fn a_block_counts_once() {
        let mut record = Record::default();
        record.allocated(CallPath::default(), 0, 8);
        record.allocated(CallPath::default(), 64, 8);
        record.allocated(CallPath::default(), 64, 24);
        assert_eq!((record.allocations, record.bytes), (1, 24));
        record.freed(64);
        record.freed(64);
        assert_eq!((record.bytes, record.most, record.strange), (0, 24, 1));
        assert!(record.left().is_empty());
    }
}
