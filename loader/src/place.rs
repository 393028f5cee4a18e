//! Where in the window each part goes: a random page, unmapped space around it.

use crate::error::BuildError;
use crate::layout::{Layout, Part};
use crate::spec::DomainSpec;
use crate::window::{draw, pages};
use rand_chacha::ChaCha20Rng;
use sfi_contract::layout::{IMAGE_HIGH, PAGE_SIZE, SEGMENTS_LOW, TP_OFFSET, WINDOW_SIZE};

/// Unmapped bytes below the data stack, so that large frames hit them.
pub const STACK_GUARD: u64 = 1 << 20;
/// Unmapped bytes around everything else.
const GUARD: u64 = 64 << 10;
/// Largest offset that shared regions may reach: text anywhere below [`IMAGE_HIGH`] reaches them by rip-relative addressing.
const REGIONS_HIGH: u64 = 0x8000_0000;

/// Taken ranges of a window. Ranges include their guards.
#[derive(Clone, Debug, Default)]
pub struct Map {
    taken: Vec<(u64, u64)>,
}

impl Map {
    /// Draws a page-aligned place for `length` bytes with `before` unmapped bytes below, uniformly among all that are free.
    fn place(&mut self, rng: &mut ChaCha20Rng, length: u64, align: u64, before: u64, high: u64) -> Option<u64> {
        let align = align.max(PAGE_SIZE);
        let mut choices = Vec::new();
        let mut total = 0;
        let mut low = SEGMENTS_LOW;
        self.taken.sort_unstable();
        for (start, end) in self.taken.iter().copied().chain([(high, high)]) {
            let first = low.checked_add(before)?.next_multiple_of(align);
            let stop = start.min(high);
            if let Some(room) = stop.checked_sub(first).and_then(|r| r.checked_sub(length.checked_add(GUARD)?)) {
                let count = room / align + 1;
                choices.push((first, count));
                total += count;
            }
            low = low.max(end);
        }
        if total == 0 {
            return None;
        }
        let mut chosen = draw(rng, total);
        for (first, count) in choices {
            if chosen < count {
                let at = first + chosen * align;
                self.taken.push((at - before, at + length + GUARD));
                return Some(at);
            }
            chosen -= count;
        }
        None
    }
}

/// Places the shared regions, which lie at the same offset of every window. `lengths` in whole pages.
pub fn place_regions(rng: &mut ChaCha20Rng, lengths: &[u64]) -> Result<(Map, Vec<u64>), BuildError> {
    let mut map = Map::default();
    let mut offsets = Vec::new();
    for length in lengths {
        let at = map.place(rng, *length, PAGE_SIZE, GUARD, REGIONS_HIGH);
        offsets.push(at.ok_or_else(|| BuildError::Spec("the shared regions do not fit a window".into()))?);
    }
    Ok((map, offsets))
}

/// Window offsets of a domain's parts.
#[derive(Clone, Debug)]
pub struct Places {
    /// By [`Part`].
    pub parts: [u64; 4],
    /// Start of the heap; its length in whole pages.
    pub heap: (u64, u64),
    /// Start of the data stack; its length in whole pages.
    pub stack: (u64, u64),
}

impl Places {
    /// Window offset of a spot.
    pub fn of(&self, spot: crate::layout::Spot) -> u64 {
        self.parts[spot.part as usize] + spot.offset
    }
}

/// Places a domain around the shared regions.
pub fn place(rng: &mut ChaCha20Rng, spec: &DomainSpec, layout: &Layout, regions: &Map) -> Result<Places, BuildError> {
    let full = |what: &str| BuildError::Spec(format!("domain `{}`: the {what} does not fit the window", spec.name));
    let mut map = regions.clone();
    let mut parts = [0; 4];
    for part in [Part::Text, Part::Constants, Part::Data] {
        let p = part as usize;
        if layout.sizes[p] > 0 {
            let length = pages(layout.sizes[p]);
            parts[p] = map.place(rng, length, layout.aligns[p], GUARD, IMAGE_HIGH).ok_or_else(|| full("image"))?;
        }
    }
    parts[Part::Locals as usize] = TP_OFFSET - layout.sizes[Part::Locals as usize];
    let heap_length = checked_pages(spec.memory).ok_or_else(|| full("heap"))?;
    let stack_length = checked_pages(spec.stack.max(4 * PAGE_SIZE)).ok_or_else(|| full("data stack"))?;
    let heap = if heap_length == 0 {
        SEGMENTS_LOW
    } else {
        map.place(rng, heap_length, PAGE_SIZE, GUARD, WINDOW_SIZE).ok_or_else(|| full("heap"))?
    };
    let stack = map.place(rng, stack_length, PAGE_SIZE, STACK_GUARD, WINDOW_SIZE).ok_or_else(|| full("data stack"))?;
    Ok(Places { parts, heap: (heap, heap_length), stack: (stack, stack_length) })
}

fn checked_pages(bytes: u64) -> Option<u64> {
    (bytes < WINDOW_SIZE).then(|| pages(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn places_do_not_overlap_and_a_full_window_is_an_error() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let mut map = Map::default();
        let mut ranges = Vec::new();
        while let Some(at) = map.place(&mut rng, 200 << 20, PAGE_SIZE, GUARD, WINDOW_SIZE) {
            assert!(at >= SEGMENTS_LOW + GUARD && at + (200 << 20) + GUARD <= WINDOW_SIZE && at % PAGE_SIZE == 0);
            assert!(ranges.iter().all(|r: &u64| r.abs_diff(at) >= (200 << 20) + GUARD));
            ranges.push(at);
        }
        assert!(ranges.len() >= 8, "{}", ranges.len());
        assert!(map.place(&mut rng, 5 << 30, PAGE_SIZE, GUARD, WINDOW_SIZE).is_none());
        assert!(map.place(&mut rng, u64::MAX, PAGE_SIZE, GUARD, WINDOW_SIZE).is_none());
        assert!(map.place(&mut rng, 4096, PAGE_SIZE, GUARD, WINDOW_SIZE).is_some());
    }
}
