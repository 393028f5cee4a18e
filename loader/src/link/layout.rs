//! The layout of a domain's image: a place in a part for each section, and the sizes of the parts.
//! The parts have no window offsets yet.

use crate::gate::stubs;
use crate::link::error::LinkError;
use crate::link::references::{self, GotEntry, Leas};
use crate::link::select::Input;
use crate::link::symbols::Symbols;
use crate::spec::DomainSpec;
use foldhash::{HashMap, HashMapExt};
use sfi_contract::layout::{IMAGE_HIGH, PAGE_SIZE, TLS_SIZE};
use sfi_verifier::elf::number::{SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_NOBITS};

/// Largest alignment of a section in bytes.
const MAX_ALIGN: u64 = 2 << 20;

/// Bytes of zeroed data and padding that a domain may have beyond the size of its heap.
const GROWTH: u64 = 16 << 20;

/// The parts of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Stubs and text, r-x.
    Text,
    /// Constants, tables of addresses and the GOT, r--.
    Constants,
    /// Data, bss and common blocks, rw-.
    Data,
    /// Thread locals, rw-.
    Locals,
}

impl Part {
    /// All parts.
    pub(crate) const ALL: [Part; 4] = [Part::Text, Part::Constants, Part::Data, Part::Locals];
}

/// A place in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    /// The part.
    pub part: Part,
    /// Offset in the part, bytes.
    pub offset: u64,
}

/// The sizes of the parts, and the places in them.
pub(crate) struct Layout {
    /// Spots of the sections, by object and section. An array of dispatch slots has none.
    pub sections: Vec<Vec<Option<Spot>>>,
    /// Spots of the common blocks.
    pub commons: Vec<Spot>,
    /// The words of the GOT, in order of their offsets.
    pub got: Vec<GotEntry>,
    /// See [`references::region_leas`].
    pub leas: Leas,
    /// The spot of the GOT.
    pub got_spot: Spot,
    /// Start and end of the sections that [`Symbols::bounds`] names.
    pub bounds: Vec<(Spot, Spot)>,
    /// Offset in [`Part::Text`] of the text after the stubs.
    pub text_start: u64,
    /// Offset of the first stub of an IFUNC in the text.
    pub indirects: u64,
    /// Bytes of each part that the files have, with the GOT. The bytes after them are zero.
    pub stored: [u64; 4],
    /// Sizes of the parts in bytes. That of [`Part::Locals`] is a multiple of its alignment.
    pub sizes: [u64; 4],
    /// Alignments of the parts in bytes.
    pub aligns: [u64; 4],
}

/// The order of sections in a part.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    part: Part,
    class: u8,
    name: Option<String>,
    priority: u64,
    input: usize,
    section: usize,
}

struct Cursor<'a> {
    domain: &'a str,
    sizes: [u64; 4],
    aligns: [u64; 4],
}

impl Cursor<'_> {
    /// Takes `size` bytes. Text gets at least one more byte, for the `int3` that ends each section.
    fn take(&mut self, part: Part, size: u64, align: u64, place: &dyn Fn() -> String) -> Result<Spot, LinkError> {
        let fail = |why: &str| LinkError::Place { domain: self.domain.to_owned(), place: place(), why: why.to_owned() };
        let align = align.max(1);
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(fail("alignment is not a power of two up to 2 MiB"));
        }
        let p = part as usize;
        let offset = self.sizes[p].next_multiple_of(align);
        let tail = u64::from(part == Part::Text);
        let end = offset.checked_add(size).and_then(|e| e.checked_add(tail)).filter(|e| *e < IMAGE_HIGH);
        self.sizes[p] = end.ok_or_else(|| fail("does not fit the image"))?;
        self.aligns[p] = self.aligns[p].max(align);
        Ok(Spot { part, offset })
    }
}

/// Lays out an image. Its text begins with `stubs` bytes of stubs.
pub(crate) fn lay_out(
    spec: &DomainSpec,
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    stubs: u64,
) -> Result<Layout, LinkError> {
    let mut keys = Vec::new();
    for (input, from) in inputs.iter().enumerate() {
        for (section, s) in from.object.sections.iter().enumerate() {
            if symbols.live[input][section] && !s.is_slot_array() {
                let key = key(s.name, s.flags, s.kind, input, section);
                if s.name.starts_with(".ctors") || s.name.starts_with(".dtors") {
                    let place = format!("{}: {}", from.name, s.name);
                    let why = "constructor lists of this kind are not supported; compile with .init_array".into();
                    return Err(LinkError::Place { domain: spec.name.clone(), place, why });
                }
                keys.push(key);
            }
        }
    }
    keys.sort();
    let indirects = stubs;
    let text_start = indirects + stubs::choices_size(symbols.indirects.len());
    let mut cursor = Cursor { domain: &spec.name, sizes: [text_start, 0, 0, 0], aligns: [64, 16, 16, 16] };
    let mut stored = [0; 4];
    let leas = references::region_leas(inputs, symbols);
    let got = references::got_entries(inputs, symbols, &leas);
    let got_spot = cursor.take(Part::Constants, 8 * got.len() as u64, 8, &|| "GOT".into())?;
    stored[Part::Constants as usize] = cursor.sizes[Part::Constants as usize];
    let mut sections: Vec<Vec<Option<Spot>>> = inputs.iter().map(|i| vec![None; i.object.sections.len()]).collect();
    for key in &keys {
        let s = &inputs[key.input].object.sections[key.section];
        let align = if key.part == Part::Text { s.align.max(16) } else { s.align };
        let spot = cursor.take(key.part, s.size, align, &|| format!("{}: {}", inputs[key.input].name, s.name))?;
        sections[key.input][key.section] = Some(spot);
        if !s.data.is_empty() {
            stored[key.part as usize] = spot.offset + s.data.len() as u64;
        }
    }
    let mut commons = Vec::new();
    for common in &symbols.commons {
        commons.push(cursor.take(Part::Data, common.size, common.align, &|| "common symbol".into())?);
    }
    let locals = Part::Locals as usize;
    cursor.sizes[locals] = cursor.sizes[locals].next_multiple_of(cursor.aligns[locals]);
    if cursor.sizes[locals] > TLS_SIZE || cursor.aligns[locals] > PAGE_SIZE {
        let why = "thread locals are larger than 1 MiB or aligned to more than a page".into();
        return Err(LinkError::Place { domain: spec.name.clone(), place: "thread locals".into(), why });
    }
    let made = cursor.sizes.iter().sum::<u64>() - text_start - 8 * got.len() as u64;
    check_growth(spec, inputs, symbols, made)?;
    let bounds = bounds(inputs, symbols, &sections, got_spot);
    let Cursor { sizes, aligns, .. } = cursor;
    Ok(Layout { sections, commons, got, leas, got_spot, bounds, text_start, indirects, stored, sizes, aligns })
}

/// Checks that zeroed data and padding, which no file has bytes for, exceed the heap's size by at
/// most [`GROWTH`]. Otherwise a small object could take much memory.
fn check_growth(spec: &DomainSpec, inputs: &[Input<'_>], symbols: &Symbols<'_>, made: u64) -> Result<(), LinkError> {
    let sections = inputs.iter().zip(&symbols.live).flat_map(|(input, live)| input.object.sections.iter().zip(live));
    let given: u64 = sections.filter(|(_, live)| **live).map(|(s, _)| s.data.len() as u64).sum();
    let (grown, most) = (made.saturating_sub(given), spec.memory.saturating_add(GROWTH));
    if grown <= most {
        return Ok(());
    }
    let why = format!("{grown} bytes, and `memory` and {} MiB are {most}; give more `memory`", GROWTH >> 20);
    let place = "zeroed data and padding of the objects".into();
    Err(LinkError::Place { domain: spec.name.clone(), place, why })
}

/// Returns a section's place in the order. Sections whose name is a C identifier are adjacent if
/// they have one name, and so are arrays of initialisers, because symbols name their bounds.
fn key(name: &str, flags: u64, kind: u32, input: usize, section: usize) -> Key {
    let array = [".preinit_array", ".init_array", ".fini_array"]
        .into_iter()
        .find(|base| name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    let executable = flags & u64::from(SHF_EXECINSTR) != 0;
    let part = if executable {
        Part::Text
    } else if flags & u64::from(SHF_TLS) != 0 {
        Part::Locals
    } else if flags & u64::from(SHF_WRITE) == 0 || array.is_some() || name.starts_with(".data.rel.ro") {
        Part::Constants
    } else {
        Part::Data
    };
    let identifier =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && kind != SHT_NOBITS;
    let (class, group, priority) = match array {
        // Sections without a priority come after those with one (gABI; GNU ld's
        // SORT_BY_INIT_PRIORITY). Those of the support code may come later still.
        Some(base) => {
            let number = name[base.len()..].strip_prefix('.').and_then(|p| p.parse().ok());
            let priority = number.unwrap_or(u64::from(u32::MAX));
            (1, Some(base.to_owned()), priority)
        }
        None if identifier => (2, Some(name.to_owned()), 0),
        None if kind == SHT_NOBITS => (3, None, 0),
        None => (0, None, 0),
    };
    Key { part, class, name: group, priority, input, section }
}

/// Returns start and end of the sections with each name of [`Symbols::bounds`]. A name without
/// sections gets an empty range.
fn bounds(
    inputs: &[Input<'_>],
    symbols: &Symbols<'_>,
    sections: &[Vec<Option<Spot>>],
    empty: Spot,
) -> Vec<(Spot, Spot)> {
    let mut ranges: HashMap<&str, (Spot, Spot)> = HashMap::new();
    for (input, from) in inputs.iter().enumerate() {
        for (section, s) in from.object.sections.iter().enumerate() {
            let Some(spot) = sections[input][section] else { continue };
            let base = [".preinit_array", ".init_array", ".fini_array"].into_iter().find(|b| s.name.starts_with(b));
            let end = Spot { offset: spot.offset + s.size, ..spot };
            let range = ranges.entry(base.unwrap_or(s.name)).or_insert((spot, end));
            if range.0.part == spot.part {
                range.0.offset = range.0.offset.min(spot.offset);
                range.1.offset = range.1.offset.max(end.offset);
            }
        }
    }
    symbols.bounds.iter().map(|name| ranges.get(name.as_str()).copied().unwrap_or((empty, empty))).collect()
}

/// Finds the range of an array of initialisers or finalisers: its start, and its end in the part.
pub(crate) fn array_range(inputs: &[Input<'_>], layout: &Layout, base: &str) -> Option<(Spot, u64)> {
    let mut range: Option<(Spot, u64)> = None;
    for (input, from) in inputs.iter().enumerate() {
        for (section, s) in from.object.sections.iter().enumerate() {
            let Some(spot) = layout.sections[input][section] else { continue };
            let rest = s.name.strip_prefix(base);
            if !rest.is_some_and(|r| r.is_empty() || r.starts_with('.')) || spot.part != Part::Constants {
                continue;
            }
            let end = spot.offset + s.size;
            range = Some(match range {
                None => (spot, end),
                Some((first, last)) => (if first.offset < spot.offset { first } else { spot }, last.max(end)),
            });
        }
    }
    range
}
