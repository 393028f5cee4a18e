//! A linked domain: plain bytes and offsets for a window at 0, from which any number of instances
//! are made.
//!
//! Only some 64-bit words depend on a window's base: pointers in data and constants, the GOT, the
//! dispatch table, the header page, and rarely an immediate in text. The image lists them. All
//! other bytes are equal in every instance. So text without such words lies in a sealed memory file
//! that all instances map. Large data lies in another one, which they map copy-on-write.

use crate::fault::names::Names;
use crate::gate::depths::{Depths, ImageDepths};
use crate::link::image_form::{AnchorsForm, SavesForm, UsageForm};
use crate::vm::address::{HostAddress, WindowOffset};
use crate::vm::memory::{HEAP, Segment};
use crate::vm::sealed_file;
use crate::vm::window::{Protection, Word, pages};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use indexmap::IndexMap;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use sfi_contract::Anchors;
use sfi_contract::layout::PAGE_SIZE;
use sfi_contract::saves::Saves;
use sfi_verifier::{Checked, Usage};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The first place of a range, and the first place after it.
pub(crate) type Range = (WindowOffset, WindowOffset);

/// Facts about global symbols by name, in the order of the objects.
pub(crate) type ByName<T> = IndexMap<String, T, RandomState>;

/// The memory of a domain at its start, and the tables that the host keeps about the domain.
/// Offsets count from the window's base.
///
/// The serialised form has no files, and nothing that [`Image::store`] computes.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Image {
    /// The segments of the window, in order.
    pub segments: Vec<Segment>,
    /// The kernel's mappings of the window, without those of shared regions. Neighbouring zeroed
    /// segments with one protection are one mapping.
    #[serde(skip)]
    pub mappings: Vec<Mapping>,
    /// Writable ranges whose pages a reset gives back to the kernel.
    #[serde(skip)]
    pub discarded: Vec<Range>,
    /// Writable ranges that a reset zeroes in place: the rest of pages with small contents, and the
    /// data stack's top.
    #[serde(skip)]
    pub zeroed: Vec<Range>,
    /// The initial bytes of the window.
    pub contents: Vec<Content>,
    /// The sealed file that text is mapped from, if no word of it depends on the base.
    #[serde(skip)]
    pub text_file: Option<OwnedFd>,
    /// The sealed file that large data is mapped from.
    #[serde(skip)]
    pub data_file: Option<OwnedFd>,
    /// Offset of the first byte of text after the stubs, and the text's length in bytes.
    pub text: (WindowOffset, u64),
    /// Offsets of the anchors: header page, block of the dispatch table, TCB page.
    #[serde(with = "AnchorsForm")]
    pub anchors: Anchors,
    /// Offset of the dispatch table's slot 0.
    pub table: WindowOffset,
    /// Offset of the trap, which unused dispatch slots lead to.
    pub trap: WindowOffset,
    /// Offsets of all stubs: the fixed ones with the trap, those of imports, and those of IFUNCs.
    pub gateways: Vec<WindowOffset>,
    /// The dispatch table: the code offset of every used slot. Slot 0 is the trap.
    pub slots: Vec<WindowOffset>,
    /// The number of slots before those of arrays, which no pointer means.
    pub pointers: usize,
    /// The number of slots that are reserved for libraries, and the bytes from slot 0 to the first
    /// of them.
    pub reserved: (usize, u64),
    /// Window offsets of the slots of gateways that are bound at run time.
    pub spares: Vec<WindowOffset>,
    /// Names of places. Faults keep them when the image is gone.
    pub names: Arc<Names>,
    /// Offsets of global functions, by name.
    pub functions_by_name: ByName<WindowOffset>,
    /// Offsets of global variables, by name.
    pub variables: ByName<WindowOffset>,
    /// The common addresses of each region's first byte, and of the byte after the region, by the
    /// domain's symbols. Images with shared regions are not serialised.
    #[serde(skip)]
    pub regions: HashMap<String, HostAddress>,
    /// Code offsets of initialisers, in order.
    pub initialisers: Vec<WindowOffset>,
    /// Code offsets of finalisers, in order.
    pub finalisers: Vec<WindowOffset>,
    /// The bytes below the data stack that no store reaches, `[start, end)`.
    pub stack_guard: [WindowOffset; 2],
    /// The data stack, `[start, end)`.
    pub stack: [WindowOffset; 2],
    /// The parts that were placed: name, length in bytes, and the number of places in the window
    /// that each could have had.
    pub choices: Vec<(Cow<'static, str>, u64, u64)>,
    /// For each IFUNC the window offset of the dispatch slot that its stub jumps through, and the
    /// code offset of its resolver.
    pub indirects: Vec<(WindowOffset, WindowOffset)>,
    /// The verifier's facts about the state that the text uses.
    #[serde(with = "UsageForm")]
    pub usage: Usage,
    /// The places where registers are saved on the control stack, as the verifier found them in the
    /// text as it runs.
    #[serde(with = "SavesForm")]
    pub saves: Arc<Saves>,
    /// The same for gates and signal handlers, made once.
    #[serde(skip)]
    pub own_depths: OnceLock<ImageDepths>,
    /// Says whether some object names [`sfi_contract::names::CLIENT_STACK`].
    pub reads_client_stack: bool,
    /// Some object names [`sfi_contract::names::KEEP`].
    pub switches_fibers: bool,
    /// Some object names [`sfi_contract::names::KEEP`] or [`sfi_contract::names::CUT`].
    pub walks: bool,
    /// The locals of each thread, in a domain that may have more than one.
    pub thread_locals: Option<ThreadLocals>,
    /// The E-stacks of further lanes, in a domain that several may be in.
    #[serde(skip)]
    pub estacks: Vec<EStack>,
}

/// The memory of one lane in a domain. All windows of the domain map it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EStack {
    /// The data stack.
    pub stack: [WindowOffset; 2],
    /// The thread locals' second place, which their addresses name.
    pub locals: WindowOffset,
}

/// The thread locals of a domain with threads. Code finds them at one place of the window, where
/// each thread's window maps its own. Their addresses name a second place, which all windows map.
#[derive(Serialize, Deserialize)]
pub(crate) struct ThreadLocals {
    /// The place that code names: whole pages, and the TCB page as the last one.
    pub place: WindowOffset,
    /// Length in bytes with the TCB page.
    pub length: u64,
    /// The first thread's second place. Those of other threads lie in the heap.
    pub second: WindowOffset,
    /// Bytes of thread locals, without the TCB page.
    pub size: u64,
    /// The initial bytes, at the place that code names.
    pub initial: Content,
}

/// The initial bytes of a range.
#[derive(Serialize, Deserialize)]
pub(crate) struct Content {
    /// Window offset.
    pub offset: WindowOffset,
    /// The bytes, for a window at 0. None if a file has them.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// The words of the range that depend on the base.
    pub words: Vec<Word>,
    /// Says whether the domain may write here.
    pub writable: bool,
    /// Says whether the range is mapped from a file.
    #[serde(skip)]
    pub stored: bool,
}

impl Content {
    /// Returns the range of the bytes.
    fn range(&self) -> Range {
        (self.offset, self.offset + self.bytes.len() as u64)
    }

    /// Returns the range of the bytes' pages.
    fn pages(&self) -> Range {
        let (start, end) = self.range();
        (start.page(), WindowOffset::new(pages(end.bytes())))
    }
}

/// Sorts ranges, and joins those that meet.
fn union(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut all: Vec<Range> = Vec::new();
    for (start, end) in ranges {
        match all.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

/// Returns the ranges without the bytes of others.
fn without(ranges: Vec<Range>, others: &[Range]) -> Vec<Range> {
    let mut rest = ranges;
    for (from, to) in others {
        let pieces = |(start, end): Range| [(start, end.min(*from)), (start.max(*to), end)];
        rest = rest.into_iter().flat_map(pieces).filter(|(start, end)| start < end).collect();
    }
    rest
}

/// A mapping of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its first place.
    pub offset: WindowOffset,
    /// Length in bytes.
    pub length: u64,
    /// The protection once the window is sealed.
    pub protection: Protection,
    /// The source of its pages.
    pub source: Source,
}

/// The source of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Zeroed memory of the instance.
    Zero,
    /// The text file, shared.
    Text,
    /// The data file from this offset on, copy-on-write.
    Data(u64),
    /// The domain's memory at this place: the first thread's locals, which have two places.
    Second(WindowOffset),
}

/// Bytes at the data stack's top that stay resident over a reset. Every use of an instance touches
/// them, and zeroing them takes less time than losing them and faulting them in again.
const WARM_STACK: u64 = 2 * PAGE_SIZE;

/// Contents larger than this are mapped copy-on-write. Smaller ones are copied, which is faster
/// than the faults of a file's pages and leaves them in one mapping with their neighbours.
const COPY_LIMIT: usize = 64 << 10;

impl Image {
    /// Says whether a place lies in the verified text, and not in a stub or a library.
    pub(crate) fn has_text(&self, place: WindowOffset) -> bool {
        (self.text.0..self.text.0 + self.text.1).contains(&place)
    }

    /// Takes note of the second verification of its text.
    pub(crate) fn note(&mut self, checked: Checked) {
        self.usage = self.usage.union(checked.usage);
        (self.saves, self.own_depths) = (Arc::new(checked.saves), OnceLock::new());
    }

    /// Returns the depths of the text. It was verified.
    pub(crate) fn own_depths(&self) -> &ImageDepths {
        self.own_depths.get_or_init(|| ImageDepths::new(self.trap, self.text, &self.saves, self.walks))
    }

    /// Returns the depths of a domain without libraries.
    pub(crate) fn depths(&self) -> Depths {
        self.own_depths().view(self.trap)
    }

    /// Returns the length of the dispatch table in bytes: whole pages, with those that are reserved
    /// for libraries.
    pub(crate) fn table_size(&self) -> u64 {
        match self.reserved {
            (0, _) => pages(8 * self.slots.len() as u64),
            (slots, distance) => distance + 8 * slots as u64,
        }
    }

    /// Decides which contents come from files, and writes them there. The files are sealed, so they
    /// cannot be written again. The bytes also stay here until [`Image::forget`].
    pub(crate) fn store(&mut self) -> Result<(), rustix::io::Errno> {
        let text = self.text_start();
        let mut data: Vec<u8> = Vec::new();
        let mut sources = HashMap::new();
        for content in &mut self.contents {
            if Some(content.offset) == text {
                if content.words.is_empty() {
                    // An image that another process passed has its file.
                    if self.text_file.is_none() {
                        self.text_file = sealed_file::seal(c"text", &content.bytes, true)?;
                    }
                    content.stored = self.text_file.is_some();
                }
            } else if content.bytes.len() > COPY_LIMIT
                && content.offset == content.offset.page()
                // All memory of a domain with threads comes from its own file.
                && self.thread_locals.is_none()
            {
                sources.insert(content.offset, (data.len() as u64, pages(content.bytes.len() as u64)));
                data.extend_from_slice(&content.bytes);
                data.resize(pages(data.len() as u64) as usize, 0);
                content.stored = true;
            }
        }
        if !data.is_empty() {
            self.data_file = sealed_file::seal(c"data", &data, false)?;
        }
        self.mappings.clear();
        for s in self.segments.iter().filter(|s| !s.shared) {
            let mut add = |offset: WindowOffset, length: u64, source: Source| {
                let protection = s.protection;
                match self.mappings.last_mut() {
                    Some(last)
                        if source == Source::Zero
                            && last.source == source
                            && last.protection == protection
                            && last.offset + last.length == offset =>
                    {
                        last.length += length;
                    }
                    _ if length == 0 => {}
                    _ => self.mappings.push(Mapping { offset, length, protection, source }),
                }
            };
            let second = self.thread_locals.as_ref().filter(|locals| locals.place == s.start());
            if let Some(locals) = second {
                add(s.start(), s.length, Source::Second(locals.second));
            } else if Some(s.start()) == text && self.text_file.is_some() {
                add(s.start(), s.length, Source::Text);
            } else if let Some((at, length)) = sources.get(&s.start()) {
                add(s.start(), *length, Source::Data(*at));
                add(s.start() + *length, s.length - length, Source::Zero);
            } else {
                add(s.start(), s.length, Source::Zero);
            }
        }
        self.plan_reset();
        Ok(())
    }

    /// Returns the first place of text, with the stubs.
    pub(crate) fn text_start(&self) -> Option<WindowOffset> {
        self.segments.iter().find(|s| s.protection == Protection::ReadExecute).map(Segment::start)
    }

    /// Returns the bytes of the text's segment.
    pub(crate) fn text_room(&self) -> u64 {
        self.segments.iter().find(|s| s.protection == Protection::ReadExecute).map_or(0, |text| text.length)
    }

    /// Takes the bytes of text away.
    pub(crate) fn take_text(&mut self) -> Vec<u8> {
        let start = self.text_start();
        let text = self.contents.iter_mut().find(|content| Some(content.offset) == start);
        text.map(|text| std::mem::take(&mut text.bytes)).unwrap_or_default()
    }

    /// Puts the bytes of text back.
    pub(crate) fn put_text(&mut self, bytes: Vec<u8>) {
        let start = self.text_start();
        if let Some(text) = self.contents.iter_mut().find(|content| Some(content.offset) == start) {
            text.bytes = bytes;
        }
    }

    /// Drops the bytes that files have.
    pub(crate) fn forget(&mut self) {
        self.contents.iter_mut().filter(|content| content.stored).for_each(|content| content.bytes = Vec::new());
    }

    /// Divides the writable memory into the ranges that a reset writes, zeroes and discards.
    fn plan_reset(&mut self) {
        let copied = |c: &&Content| c.writable && !c.stored;
        let mut warm: Vec<Range> = self.contents.iter().filter(copied).map(Content::pages).collect();
        let [low, high] = self.stack;
        warm.push((high - WARM_STACK.min(high - low), high));
        let writable = |m: &&Mapping| m.protection == Protection::ReadWrite;
        let mappings = self.mappings.iter().filter(writable).map(|m| (m.offset, m.offset + m.length)).collect();
        self.discarded = without(mappings, &warm);
        let bytes: Vec<Range> = self.contents.iter().filter(copied).map(Content::range).collect();
        self.zeroed = without(union(warm), &bytes);
    }

    /// Returns the number of the kernel's mappings of a window with this image, with those of
    /// reserved space. They are counted as if no neighbour shared one.
    pub(crate) fn mapping_count(&self) -> u64 {
        let regions = self.segments.iter().filter(|s| s.shared).map(|s| (s.start(), s.start() + s.length));
        let mut ranges: Vec<Range> = self.mappings.iter().map(|m| (m.offset, m.offset + m.length)).collect();
        ranges.extend(regions);
        ranges.sort_unstable();
        let holes = ranges.windows(2).filter(|pair| pair[0].1 < pair[1].0).count();
        (ranges.len() + holes + 2) as u64
    }

    /// Returns the heap.
    pub(crate) fn heap(&self) -> Option<std::ops::Range<WindowOffset>> {
        let heap = self.segments.iter().find(|segment| segment.name == HEAP)?;
        Some(heap.start()..WindowOffset::new(heap.end()))
    }

    /// Says whether all instances run the same pages of text.
    pub(crate) fn shares_text(&self) -> bool {
        self.text_file.is_some()
    }

    /// Returns the number of the slot at a window offset, if the table has one there.
    pub(crate) fn slot_at(&self, offset: WindowOffset) -> Option<usize> {
        let distance = offset.checked_sub(self.table).filter(|distance| distance.is_multiple_of(8))?;
        usize::try_from(distance / 8).ok().filter(|slot| *slot < self.slots.len())
    }

    /// Returns the offset of the dispatch slot that pointers to a global function mean, if it has
    /// one.
    pub(crate) fn pointer(&self, function: &str) -> Option<WindowOffset> {
        let code = self.functions_by_name.get(function)?;
        let slot = self.slots.iter().take(self.pointers).position(|held| held == code)?;
        Some(self.table + 8 * slot as u64)
    }

    /// Finds the function around an offset. Returns its name and the distance from its start.
    pub(crate) fn function(&self, offset: WindowOffset) -> Option<(String, u64)> {
        self.names.function(offset.bytes())
    }
}
