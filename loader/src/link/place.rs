//! Places the parts in the window. Each goes to a random page with unmapped space around it, or all
//! go close together, for many domains.
//!
//! # Mappings
//!
//! `vm.max_map_count` (65,530) limits the mappings of a process. A scattered domain takes one for
//! each part, and one for each reservation between and around them: 13 to 17. A dense one takes 6:
//! `text`, `constants` to `dispatch table`, `data stack` to `heap`, and three reservations. It
//! takes 5 if the next window belongs to the process too, because reservations of neighbours meet
//! and become one mapping, and 2 more if the data stack finds no room beside the thread locals. The
//! loader leaves the host 512 mappings, and beyond that refuses with `SFI-M01`.
//!
//! # Offsets
//!
//! Nothing in a window lies at a fixed offset. Code names three places of its window by number: the
//! header page, the dispatch table and the TCB page. Objects have relocations there, and this
//! module draws the numbers for each domain. Text is relocated before it is verified, and the
//! verifier compares these fields with the domain's own numbers. The dispatch table lies at a
//! random page of a block of 1 MiB that is otherwise unmapped, because an indirect branch masks a
//! pointer's lower 20 bits. A dense domain is one cluster at a random multiple of 1 MiB: 12 bits
//! inside the window. Instances of one image share their offsets.

use crate::gate::stubs;
use crate::link::error::LinkError;
use crate::link::layout::{Layout, Part, Spot};
use crate::link::symbols::Target;
use crate::spec::{DomainSpec, Placement};
use crate::vm::address::WindowOffset;
use crate::vm::space::draw;
use crate::vm::window::pages;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;
use sfi_contract::Anchors;
use sfi_contract::layout::{DISPATCH_SIZE, IMAGE_HIGH, PAGE_SIZE, SEGMENTS_LOW, TCB_SIZE, TLS_SIZE, WINDOW_SIZE};
use std::collections::BTreeMap;

/// Unmapped bytes below the data stack. Large frames that overflow the stack end in them.
const STACK_GUARD: u64 = 1 << 20;
/// Unmapped bytes around every other part.
const GUARD: u64 = 64 << 10;
/// Bytes below a dense domain's data stack that count as its guard. Nothing writable lies in them.
const DENSE_STACK_GUARD: u64 = 512 << 10;
/// Largest end of a shared region. Text anywhere below [`IMAGE_HIGH`] reaches all lower offsets by
/// rip-relative addressing.
const REGIONS_HIGH: u64 = 0x8000_0000;

/// Taken ranges of a window, with their guards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// The end of each range by its start. Ranges are disjoint.
    taken: BTreeMap<u64, u64>,
}

/// Draws of [`Map::find`].
const ATTEMPTS: usize = 32;

impl Map {
    /// Draws a page-aligned place for `length` bytes with `before` unmapped bytes below, uniformly
    /// among all that are free.
    fn place(&mut self, rng: &mut ChaCha20Rng, length: u64, align: u64, before: u64, high: u64) -> Option<Drawn> {
        let align = align.max(PAGE_SIZE);
        let mut choices = Vec::new();
        let mut total = 0;
        let mut low = SEGMENTS_LOW;
        for (start, end) in self.taken.iter().map(|(start, end)| (*start, *end)).chain([(high, high)]) {
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
                self.taken.insert(at - before, at + length + GUARD);
                return Some(Drawn { at: WindowOffset::new(at), choices: total });
            }
            chosen -= count;
        }
        None
    }

    /// Returns the ranges of a live window that are taken: those of the shared regions, and these
    /// others, with guards.
    pub(crate) fn around(regions: &Map, others: impl Iterator<Item = (u64, u64)>) -> Map {
        let guarded = others.map(|(start, end)| (start.saturating_sub(GUARD), end + GUARD));
        let mut all: Vec<(u64, u64)> = guarded.chain(regions.taken.iter().map(|(start, end)| (*start, *end))).collect();
        all.sort_unstable();
        let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
        for (start, end) in all {
            match taken.last_entry() {
                Some(mut last) if start <= *last.get() => {
                    let joined = end.max(*last.get());
                    last.insert(joined);
                }
                _ => drop(taken.insert(start, end)),
            }
        }
        Map { taken }
    }

    /// Draws a place for a part of a library: `length` bytes with guards on both sides.
    pub(crate) fn take(&mut self, rng: &mut ChaCha20Rng, length: u64, align: u64) -> Option<WindowOffset> {
        let drawn = if align <= PAGE_SIZE { self.find(rng, length, GUARD, IMAGE_HIGH) } else { None };
        drawn.or_else(|| Some(self.place(rng, length, align, GUARD, IMAGE_HIGH)?.at))
    }

    /// Frees a place that [`Map::take`] gave.
    pub(crate) fn release(&mut self, at: WindowOffset) {
        self.taken.remove(&(at.bytes() - GUARD));
    }

    /// Draws a place as [`Map::place`] does, but looks at no other place than those that it draws.
    /// Each of the free ones is equally likely. Returns `None` if all draws met taken ranges.
    fn find(&mut self, rng: &mut ChaCha20Rng, length: u64, before: u64, high: u64) -> Option<WindowOffset> {
        let first = (SEGMENTS_LOW + before).next_multiple_of(PAGE_SIZE);
        let room = high.checked_sub(first)?.checked_sub(length.checked_add(GUARD)?)?;
        for _ in 0..ATTEMPTS {
            let at = first + draw(rng, room / PAGE_SIZE + 1) * PAGE_SIZE;
            let (start, end) = (at - before, at + length + GUARD);
            if self.taken.range(..end).next_back().is_none_or(|(_, taken)| *taken <= start) {
                self.taken.insert(start, end);
                return Some(WindowOffset::new(at));
            }
        }
        None
    }
}

/// A drawn place, and the number of places that it was drawn from.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    at: WindowOffset,
    choices: u64,
}

/// Places shared regions of these lengths, each at one offset of every window. Returns the taken
/// ranges and the offsets.
pub(crate) fn place_regions(rng: &mut ChaCha20Rng, lengths: &[u64]) -> Result<(Map, Vec<WindowOffset>), LinkError> {
    let all = lengths.iter().try_fold(0u64, |all, length| all.checked_add(length + 2 * GUARD));
    // Too many are refused before the first one is placed.
    if all.is_none_or(|all| all > REGIONS_HIGH - SEGMENTS_LOW) {
        return Err(LinkError::Regions);
    }
    let mut map = Map::default();
    let mut place = |length: u64| {
        let found = map.find(rng, length, GUARD, REGIONS_HIGH);
        found.or_else(|| Some(map.place(rng, length, PAGE_SIZE, GUARD, REGIONS_HIGH)?.at))
    };
    let offsets = lengths.iter().map(|length| place(*length).ok_or(LinkError::Regions)).collect::<Result<_, _>>()?;
    Ok((map, offsets))
}

/// Window offsets of a domain's parts.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Of the parts, by [`Part`].
    pub parts: [WindowOffset; 4],
    /// Of the domain's stubs.
    pub stubs: WindowOffset,
    /// Of the anchors: header page, block of the dispatch table, TCB page.
    pub anchors: Anchors,
    /// Decides at which page of its block the dispatch table begins: see [`Places::table`]. 0 is
    /// the block's first page.
    table: u64,
    /// Start of the heap, and its length in whole pages.
    pub heap: (WindowOffset, u64),
    /// Start of the data stack, and its length in whole pages.
    pub stack: (WindowOffset, u64),
    /// Start of the bytes below the data stack that no store reaches.
    pub stack_guard: WindowOffset,
    /// A domain with threads: the second place of the first thread's locals and TCB page. The first
    /// one is at the anchor, where each thread finds its own.
    pub first_thread: Option<WindowOffset>,
    /// The E-stacks of further lanes: data stack and thread locals.
    pub estacks: Vec<WindowOffset>,
    /// The parts that were placed: name, length in bytes, and the number of places in the window
    /// that each could have had.
    pub choices: Vec<(&'static str, u64, u64)>,
}

impl Places {
    /// Returns the places of a library's parts, in a domain with these stubs and anchors.
    pub(crate) fn of_library(parts: [WindowOffset; 4], stubs: WindowOffset, anchors: Anchors) -> Self {
        let none = (WindowOffset::ZERO, 0);
        Self {
            parts,
            stubs,
            anchors,
            table: 0,
            heap: none,
            stack: none,
            stack_guard: WindowOffset::ZERO,
            first_thread: None,
            estacks: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// Returns the window offset of a spot.
    pub(crate) fn of(&self, spot: Spot) -> WindowOffset {
        self.parts[spot.part as usize] + spot.offset
    }

    /// Returns the window offset of a code symbol: a place in an executable section, or a gateway.
    /// `layout` is the one that these places belong to.
    pub(crate) fn code(&self, target: Target, layout: &Layout) -> Option<WindowOffset> {
        match target {
            Target::Section { input, section, offset } => {
                let spot = layout.sections[input][section].filter(|s| s.part == Part::Text)?;
                Some(self.of(spot) + offset)
            }
            Target::Import(index) => Some(self.stubs + stubs::import(index)),
            Target::Stub(offset) => Some(self.stubs + offset),
            Target::Choice(index) => {
                Some(self.parts[Part::Text as usize] + layout.indirects + stubs::CHOICE * index as u64)
            }
            Target::Outside { offset, code: true } => Some(offset),
            _ => None,
        }
    }

    /// Returns the place of the first thread's locals at the anchor: whole pages, up to the end of
    /// the TCB page.
    pub(crate) fn locals(&self) -> (WindowOffset, u64) {
        let start = self.parts[Part::Locals as usize].page();
        (start, self.anchors.tcb + TCB_SIZE - start.bytes())
    }

    /// Returns the place that the first thread's pointer means: the second one, which all threads
    /// see, or the only one.
    pub(crate) fn thread_pointer(&self) -> WindowOffset {
        let tcb = WindowOffset::new(self.anchors.tcb);
        self.first_thread.map_or(tcb, |second| second + (tcb - self.locals().0))
    }

    /// Returns the window offset of a dispatch table of `length` bytes: any page of its block that
    /// leaves room for the table.
    pub(crate) fn table(&self, length: u64) -> WindowOffset {
        let free = DISPATCH_SIZE.saturating_sub(pages(length)) / PAGE_SIZE;
        WindowOffset::new(self.anchors.dispatch + self.table % (free + 1) * PAGE_SIZE)
    }
}

/// Sizes of the parts in whole pages, and their alignments.
struct Sizes {
    parts: [u64; 4],
    aligns: [u64; 4],
    heap: u64,
    stack: u64,
}

impl Sizes {
    fn new(spec: &DomainSpec, layout: &Layout) -> Option<Sizes> {
        let parts = layout.sizes.map(pages);
        let aligns = layout.aligns.map(|align| align.max(PAGE_SIZE));
        let (heap, stack) = (checked_pages(spec.memory)?, checked_pages(spec.stack.max(4 * PAGE_SIZE))?);
        Some(Sizes { parts, aligns, heap, stack })
    }

    fn of(&self, part: Part) -> (u64, u64) {
        (self.parts[part as usize], self.aligns[part as usize])
    }
}

/// Places a domain around the shared regions.
pub(crate) fn place(
    rng: &mut ChaCha20Rng,
    spec: &DomainSpec,
    layout: &Layout,
    regions: &Map,
) -> Result<Places, LinkError> {
    let full = |what: &str| LinkError::NoRoom { domain: spec.name.clone(), part: what.to_owned() };
    let sizes = Sizes::new(spec, layout).ok_or_else(|| full("heap and data stack"))?;
    let mut map = regions.clone();
    let placed = match spec.placement {
        Placement::Dense => dense(rng, &sizes, &mut map),
        Placement::Scattered => scattered(rng, &sizes, &mut map),
    };
    let mut places = placed.map_err(full)?;
    let locals = layout.sizes[Part::Locals as usize];
    places.parts[Part::Locals as usize] = WindowOffset::new(places.anchors.tcb - locals);
    if spec.has_threads() {
        let length = sizes.of(Part::Locals).0 + TCB_SIZE;
        let place =
            map.place(rng, length, PAGE_SIZE, GUARD, IMAGE_HIGH).ok_or_else(|| full("first thread's locals"))?;
        places.choices.push(("first thread's locals", length, place.choices));
        places.first_thread = Some(place.at);
        let length = sizes.stack + length;
        for _ in 1..spec.lanes {
            let place = map.place(rng, length, PAGE_SIZE, STACK_GUARD, WINDOW_SIZE).ok_or_else(|| full("E-stack"))?;
            places.choices.push(("E-stack", length, place.choices));
            places.estacks.push(place.at);
        }
    }
    Ok(places)
}

/// Places every part at a random page of its own.
fn scattered(rng: &mut ChaCha20Rng, sizes: &Sizes, map: &mut Map) -> Result<Places, &'static str> {
    let mut choices = Vec::new();
    let mut put = |name: &'static str, (length, align): (u64, u64), before: u64, high: u64| {
        let place = map.place(rng, length, align, before, high)?;
        choices.push((name, length, place.choices));
        Some(place.at)
    };
    let mut parts = [WindowOffset::ZERO; 4];
    for (part, name) in [(Part::Constants, "constants"), (Part::Text, "text"), (Part::Data, "data")] {
        if sizes.of(part).0 > 0 {
            parts[part as usize] = put(name, sizes.of(part), GUARD, IMAGE_HIGH).ok_or("image")?;
        }
    }
    let page = (PAGE_SIZE, PAGE_SIZE);
    let dispatch = put("dispatch table", (DISPATCH_SIZE, DISPATCH_SIZE), 0, IMAGE_HIGH).ok_or("dispatch table")?;
    let header = put("header page", page, 0, IMAGE_HIGH).ok_or("header page")?;
    let locals = sizes.of(Part::Locals).0;
    let tcb = put("thread locals", (locals + TCB_SIZE, PAGE_SIZE), GUARD, IMAGE_HIGH).ok_or("thread locals")? + locals;
    let heap = match sizes.heap {
        0 => WindowOffset::new(SEGMENTS_LOW),
        length => put("heap", (length, PAGE_SIZE), GUARD, WINDOW_SIZE).ok_or("heap")?,
    };
    let stack = put("data stack", (sizes.stack, PAGE_SIZE), STACK_GUARD, WINDOW_SIZE).ok_or("data stack")?;
    Ok(Places {
        parts,
        stubs: parts[Part::Text as usize],
        anchors: Anchors { header: header.bytes(), dispatch: dispatch.bytes(), tcb: tcb.bytes() },
        table: rng.next_u64(),
        heap: (heap, sizes.heap),
        stack: (stack, sizes.stack),
        stack_guard: stack - STACK_GUARD,
        first_thread: None,
        estacks: Vec::new(),
        choices,
    })
}

/// Places the parts in two runs of mappings around the dispatch table's block, which lies at a
/// random multiple of its size. Parts that do not fit go to random pages:
///
/// ```text
/// unmapped
///           r-x  text
///           r--  constants
///           r--  header page
/// block     r--  dispatch table
/// unmapped
/// + 1 MiB   rw-  data stack
///           rw-  thread locals
///           rw-  TCB page
/// + 2 MiB   rw-  data
///           rw-  heap
/// unmapped
/// ```
fn dense(rng: &mut ChaCha20Rng, sizes: &Sizes, map: &mut Map) -> Result<Places, &'static str> {
    let room = |part: Part| if sizes.of(part).0 == 0 { 0 } else { sizes.of(part).0 + sizes.of(part).1 };
    let below = (room(Part::Text) + room(Part::Constants) + PAGE_SIZE).next_multiple_of(DISPATCH_SIZE);
    let above = DISPATCH_SIZE + TLS_SIZE + TCB_SIZE + room(Part::Data);
    let mut draw = |heap: u64| map.place(rng, below + above + heap, DISPATCH_SIZE, 0, IMAGE_HIGH);
    let (cluster, heap_within) = match draw(sizes.heap) {
        Some(place) => (place, true),
        None => (draw(0).ok_or("image")?, false),
    };
    let dispatch = cluster.at.bytes() + below;
    let (header, tcb) = (dispatch - PAGE_SIZE, dispatch + DISPATCH_SIZE + TLS_SIZE);
    let mut choices =
        vec![("header page", PAGE_SIZE, cluster.choices), ("dispatch table", DISPATCH_SIZE, cluster.choices)];
    let (mut low, mut high) = (header, tcb + TCB_SIZE);
    let mut parts = [WindowOffset::ZERO; 4];
    for (part, name) in [(Part::Constants, "constants"), (Part::Text, "text"), (Part::Data, "data")] {
        let (length, align) = sizes.of(part);
        if length == 0 {
            continue;
        }
        let at = if part == Part::Data { high.next_multiple_of(align) } else { (low - length) & !(align - 1) };
        if part == Part::Data {
            high = at + length
        } else {
            low = at
        }
        parts[part as usize] = WindowOffset::new(at);
        choices.push((name, length, cluster.choices));
    }
    let locals = tcb - sizes.of(Part::Locals).0;
    choices.push(("thread locals", tcb + TCB_SIZE - locals, cluster.choices));
    let mut elsewhere = |length: u64, guard: u64| map.place(rng, length, PAGE_SIZE, guard, WINDOW_SIZE);
    let heap = match sizes.heap {
        0 => Drawn { at: WindowOffset::new(SEGMENTS_LOW), choices: 1 },
        _ if heap_within => Drawn { at: WindowOffset::new(high), ..cluster },
        length => elsewhere(length, GUARD).ok_or("heap")?,
    };
    if sizes.heap > 0 {
        choices.push(("heap", sizes.heap, heap.choices));
    }
    let below = locals.checked_sub(sizes.stack).filter(|at| *at >= dispatch + DISPATCH_SIZE);
    let (stack, guard) = match below {
        // At most pages of the dispatch table lie in this guard, and they are read-only.
        Some(at) => (Drawn { at: WindowOffset::new(at), ..cluster }, DENSE_STACK_GUARD),
        None => (elsewhere(sizes.stack, STACK_GUARD).ok_or("data stack")?, STACK_GUARD),
    };
    choices.push(("data stack", sizes.stack, stack.choices));
    Ok(Places {
        parts,
        stubs: parts[Part::Text as usize],
        anchors: Anchors { header, dispatch, tcb },
        table: 0,
        heap: (heap.at, sizes.heap),
        stack: (stack.at, sizes.stack),
        stack_guard: stack.at - guard,
        first_thread: None,
        estacks: Vec::new(),
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
        while let Some(Drawn { at, .. }) = map.place(&mut rng, 200 << 20, PAGE_SIZE, GUARD, WINDOW_SIZE) {
            let at = at.bytes();
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
