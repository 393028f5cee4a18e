//! Where in the window each part goes: a random page, unmapped space around it; or close together,
//! for many domains.

use crate::link::error::LinkError;
use crate::link::layout::{Layout, Part};
use crate::spec::{DomainSpec, Placement};
use crate::vm::space::draw;
use crate::vm::window::pages;
use rand_chacha::ChaCha20Rng;
use sfi_contract::layout::{
    HEADER_OFFSET, IMAGE_HIGH, LOW_UNMAPPED, PAGE_SIZE, SEGMENTS_LOW, TCB_SIZE, TLS_LOW, TP_OFFSET, WINDOW_SIZE,
};

/// Unmapped bytes below the data stack, so that large frames hit them.
const STACK_GUARD: u64 = 1 << 20;
/// Unmapped bytes around everything else.
const GUARD: u64 = 64 << 10;
/// The bytes below a dense domain's data stack that count as its guard: what is mapped below them
/// is read-only.
const DENSE_STACK_GUARD: u64 = 512 << 10;
/// Largest offset that shared regions may reach: text anywhere below [`IMAGE_HIGH`] reaches them by
/// rip-relative addressing.
const REGIONS_HIGH: u64 = 0x8000_0000;

/// Taken ranges of a window. Ranges include their guards.
#[derive(Clone, Debug, Default)]
pub struct Map {
    taken: Vec<(u64, u64)>,
}

impl Map {
    /// Draws a page-aligned place for `length` bytes with `before` unmapped bytes below, uniformly
    /// among all that are free.
    fn place(&mut self, rng: &mut ChaCha20Rng, length: u64, align: u64, before: u64, high: u64) -> Option<Place> {
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
                return Some(Place { at, choices: total });
            }
            chosen -= count;
        }
        None
    }

    /// Takes a fixed place if it is free.
    fn take(&mut self, at: u64, length: u64, high: u64) -> Option<Place> {
        let end = at.checked_add(length).filter(|end| *end <= high)?;
        if self.taken.iter().any(|(start, stop)| at < *stop && *start < end) {
            return None;
        }
        self.taken.push((at, end));
        Some(Place { at, choices: 1 })
    }
}

/// A place, and how many there were to draw from.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    choices: u64,
}

/// Places shared regions of these lengths, which lie at the same offset of every window: gives the
/// offsets.
pub(crate) fn place_regions(rng: &mut ChaCha20Rng, lengths: &[u64]) -> Result<(Map, Vec<u64>), LinkError> {
    let mut map = Map::default();
    let mut place = |length: &u64| map.place(rng, *length, PAGE_SIZE, GUARD, REGIONS_HIGH).map(|place| place.at);
    let offsets = lengths.iter().map(|length| place(length).ok_or(LinkError::Regions)).collect::<Result<_, _>>()?;
    Ok((map, offsets))
}

/// Window offsets of a domain's parts.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// By [`Part`].
    pub parts: [u64; 4],
    /// Start of the heap; its length in whole pages.
    pub heap: (u64, u64),
    /// Start of the data stack; its length in whole pages.
    pub stack: (u64, u64),
    /// Start of the bytes below the data stack that no store reaches.
    pub stack_guard: u64,
    /// What was placed: its name, length in bytes, and the number of places that it could have had
    /// in the window.
    pub choices: Vec<(&'static str, u64, u64)>,
}

impl Places {
    /// Window offset of a spot.
    pub(crate) fn of(&self, spot: crate::link::layout::Spot) -> u64 {
        self.parts[spot.part as usize] + spot.offset
    }
}

/// Places a domain around the shared regions. Dense: what fits lies at fixed places around the
/// contract's own, in two runs of mappings, and the rest at random ones:
///
/// ```text
///            text  constants  header  dispatch table        data stack  thread locals  TCB  data  heap
/// unmapped   r-x   r--        r--     r--         unmapped  rw-         rw-            rw-  rw-   rw-   unmapped
///      0x80000             0xff000  0x100000          0x200000 and above           0x300000
/// ```
pub(crate) fn place(
    rng: &mut ChaCha20Rng,
    spec: &DomainSpec,
    layout: &Layout,
    regions: &Map,
) -> Result<Places, LinkError> {
    let full = |what: &str| LinkError::NoRoom { domain: spec.name.clone(), part: what.to_owned() };
    let dense = spec.placement == Placement::Dense;
    let mut map = regions.clone();
    let mut parts = [0; 4];
    let mut choices = Vec::new();
    parts[Part::Locals as usize] = TP_OFFSET - layout.sizes[Part::Locals as usize];
    let size = |part: Part| pages(layout.sizes[part as usize]);
    // The fixed places that a dense domain tries: its image grows down from the header page, its
    // data up from the TCB.
    let mut low = HEADER_OFFSET;
    let mut high = TP_OFFSET + TCB_SIZE;
    for (part, name) in [(Part::Constants, "constants"), (Part::Text, "text"), (Part::Data, "data")] {
        let (length, align) = (size(part), layout.aligns[part as usize].max(PAGE_SIZE));
        if length == 0 {
            continue;
        }
        let fixed = if part == Part::Data { Some(high.next_multiple_of(align)) } else { low.checked_sub(length) };
        let fixed = fixed.filter(|at| dense && *at >= LOW_UNMAPPED && at.is_multiple_of(align));
        let place = fixed.and_then(|at| map.take(at, length, IMAGE_HIGH));
        if let Some(place) = place {
            if part == Part::Data { high = place.at + length } else { low = place.at }
        }
        let place = place.or_else(|| map.place(rng, length, align, GUARD, IMAGE_HIGH)).ok_or_else(|| full("image"))?;
        parts[part as usize] = place.at;
        choices.push((name, length, place.choices));
    }
    let heap_length = checked_pages(spec.memory).ok_or_else(|| full("heap"))?;
    let mut heap = SEGMENTS_LOW;
    if heap_length > 0 {
        let place = Some(high).filter(|_| dense).and_then(|at| map.take(at, heap_length, WINDOW_SIZE));
        let place = place.or_else(|| map.place(rng, heap_length, PAGE_SIZE, GUARD, WINDOW_SIZE));
        let place = place.ok_or_else(|| full("heap"))?;
        heap = place.at;
        choices.push(("heap", heap_length, place.choices));
    }
    let stack_length = checked_pages(spec.stack.max(4 * PAGE_SIZE)).ok_or_else(|| full("data stack"))?;
    let locals = parts[Part::Locals as usize] & !(PAGE_SIZE - 1);
    let below = locals.checked_sub(stack_length).filter(|at| dense && *at >= TLS_LOW);
    let (place, guard) = match below {
        // Nothing below it is writable.
        Some(at) => (Some(Place { at, choices: 1 }), DENSE_STACK_GUARD),
        None => (map.place(rng, stack_length, PAGE_SIZE, STACK_GUARD, WINDOW_SIZE), STACK_GUARD),
    };
    let stack = place.ok_or_else(|| full("data stack"))?;
    choices.push(("data stack", stack_length, stack.choices));
    Ok(Places {
        parts,
        heap: (heap, heap_length),
        stack: (stack.at, stack_length),
        stack_guard: stack.at - guard,
        choices,
    })
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
        while let Some(Place { at, .. }) = map.place(&mut rng, 200 << 20, PAGE_SIZE, GUARD, WINDOW_SIZE) {
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
