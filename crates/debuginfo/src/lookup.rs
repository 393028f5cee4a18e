//! The way from addresses to frames. One pass over the units serves all addresses.

use crate::fuel::{Exhausted, Fuel};
use crate::ranges;
use crate::sections::{Reader, Sections};
use crate::units::{Cache, UNIT};
use gimli::{Attribute, AttributeValue, DebugInfoOffset, Dwarf, EntriesRaw, SectionId, Unit, UnitOffset};
use sfi_contract::text::clean;

/// A function that was running at a place, with its line there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The linker's name of the function, or else the source's.
    pub function: Option<String>,
    /// Path, joined with the directory of the compilation.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u64>,
    /// Column, from 1.
    pub column: Option<u64>,
}

impl std::fmt::Display for Frame {
    /// Writes `file:line`, as far as it is known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}"),
            (Some(file), None) => f.write_str(file),
            _ => f.write_str("??"),
        }
    }
}

/// Valid lines and columns. No file has larger ones, and readers of a report expect at most 31
/// bits.
const NUMBERS: std::ops::RangeInclusive<u64> = 1..=i32::MAX as u64;

/// Length of the longest chain of calls that were inlined into one place.
const DEEPEST: usize = 32;
/// Length of the longest chain of entries that name each other.
const LONGEST: usize = 8;
/// Length of the longest name in the string sections. The search for the end of longer ones would
/// be repeated and costly.
const LONGEST_STRING: usize = 64 << 10;

/// The findings about an address so far.
#[derive(Default)]
struct Found {
    row: Option<Row>,
    /// The function and the calls that were inlined into it, outermost first.
    chain: Vec<Call>,
}

#[derive(Clone, Default)]
struct Row {
    file: Option<String>,
    line: u64,
    column: u64,
}

struct Call {
    function: Option<String>,
    /// The place of the call, if it was inlined.
    from: Row,
}

/// Returns the frames of each address, innermost first. Addresses that the fuel does not reach have
/// none.
pub fn lookup(sections: &Sections<'_>, addresses: &[u64], fuel: &mut Fuel) -> Vec<Vec<Frame>> {
    let mut wanted: Vec<u64> = addresses.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let mut found: Vec<Found> = wanted.iter().map(|_| Found::default()).collect();
    let sane = [SectionId::DebugStr, SectionId::DebugLineStr]
        .into_iter()
        .all(|id| sections.get(id).split(|byte| *byte == 0).all(|string| string.len() <= LONGEST_STRING));
    if sane && !wanted.is_empty() {
        let dwarf = sections.dwarf();
        let mut search = Search { dwarf: &dwarf, cache: Cache::default(), fuel, wanted: &wanted, found: &mut found };
        // If the fuel runs out, the findings so far are the answer.
        let _ = search.all();
    }
    addresses
        .iter()
        .map(|address| wanted.binary_search(address).map_or_else(|_| Vec::new(), |index| frames(&found[index])))
        .collect()
}

fn frames(found: &Found) -> Vec<Frame> {
    let mut place = found.row.clone().unwrap_or_default();
    let frame = |function: Option<String>, place: Row| Frame {
        function,
        file: place.file,
        line: Some(place.line).filter(|line| NUMBERS.contains(line)),
        column: Some(place.column).filter(|column| NUMBERS.contains(column)),
    };
    let mut frames = Vec::new();
    for call in found.chain.iter().rev() {
        frames.push(frame(call.function.clone(), std::mem::replace(&mut place, call.from.clone())));
    }
    if frames.is_empty() && found.row.is_some() {
        frames.push(frame(None, place));
    }
    frames
}

/// The attributes of a function's entry.
#[derive(Default)]
struct FoundFunction<'s> {
    name: Option<AttributeValue<Reader<'s>>>,
    linkage_name: Option<AttributeValue<Reader<'s>>>,
    origin: Option<AttributeValue<Reader<'s>>>,
    low: Option<AttributeValue<Reader<'s>>>,
    high: Option<AttributeValue<Reader<'s>>>,
    ranges: Option<AttributeValue<Reader<'s>>>,
    call_file: u64,
    call_line: u64,
    call_column: u64,
}

impl<'s> FoundFunction<'s> {
    fn take(&mut self, attribute: &Attribute<Reader<'s>>) {
        let number = || attribute.udata_value().unwrap_or(0);
        match attribute.name() {
            gimli::DW_AT_name => self.name = Some(attribute.value()),
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => self.linkage_name = Some(attribute.value()),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => self.origin = Some(attribute.value()),
            gimli::DW_AT_low_pc => self.low = Some(attribute.value()),
            gimli::DW_AT_high_pc => self.high = Some(attribute.value()),
            gimli::DW_AT_ranges => self.ranges = Some(attribute.value()),
            gimli::DW_AT_call_line => self.call_line = number(),
            gimli::DW_AT_call_column => self.call_column = number(),
            gimli::DW_AT_call_file => {
                self.call_file = match attribute.value() {
                    AttributeValue::FileIndex(index) => index,
                    _ => number(),
                };
            }
            _ => {}
        }
    }
}

struct Search<'x, 's> {
    dwarf: &'x Dwarf<Reader<'s>>,
    cache: Cache,
    fuel: &'x mut Fuel,
    /// The addresses, sorted.
    wanted: &'x [u64],
    found: &'x mut [Found],
}

impl<'s> Search<'_, 's> {
    fn all(&mut self) -> Result<(), Exhausted> {
        let mut headers = self.dwarf.units();
        // No unit can be found after a malformed header.
        while let Ok(Some(header)) = headers.next() {
            if let Some(unit) = self.cache.unit(self.dwarf, header, self.fuel)? {
                self.one(&unit)?;
            }
        }
        Ok(())
    }

    fn one(&mut self, unit: &Unit<Reader<'s>>) -> Result<(), Exhausted> {
        let mut any = false;
        let mut inside = false;
        if let Ok(mut ranges) = ranges::unit_ranges(self.dwarf, unit) {
            while let Ok(Some(range)) = ranges.next() {
                self.fuel.spend(1)?;
                any = true;
                inside |= !within(self.wanted, range).is_empty();
            }
        }
        if inside || !any {
            self.rows(unit)?;
            self.functions(unit)?;
        }
        Ok(())
    }

    /// Runs the line program. Each row holds for the addresses up to the next.
    fn rows(&mut self, unit: &Unit<Reader<'s>>) -> Result<(), Exhausted> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut rows = program.rows();
        let mut last: Option<(u64, u64, u64, u64)> = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            self.fuel.spend(1)?;
            if let Some((start, file, line, column)) = last {
                for index in within(self.wanted, gimli::Range { begin: start, end: row.address() }) {
                    self.fuel.spend(1)?;
                    if self.found[index].row.is_none() {
                        let file = self.file_name(unit, file)?;
                        self.found[index].row = Some(Row { file, line, column });
                    }
                }
            }
            let column = match row.column() {
                gimli::ColumnType::LeftEdge => 0,
                gimli::ColumnType::Column(column) => column.get(),
            };
            let line = row.line().map_or(0, std::num::NonZeroU64::get);
            last = (!row.end_sequence()).then_some((row.address(), row.file_index(), line, column));
        }
        Ok(())
    }

    /// Walks the tree of functions. A function inside another one's entry was inlined into it.
    fn functions(&mut self, unit: &Unit<Reader<'s>>) -> Result<(), Exhausted> {
        let Ok(mut entries) = unit.entries_raw(None) else { return Ok(()) };
        while !entries.is_empty() {
            self.fuel.spend(1)?;
            let Ok(abbreviation) = entries.read_abbreviation() else { break };
            let Some(abbreviation) = abbreviation else { continue };
            let attributes = abbreviation.attributes();
            self.fuel.spend(attributes.len() as u64)?;
            let inlined = abbreviation.tag() == gimli::DW_TAG_inlined_subroutine;
            if !inlined && abbreviation.tag() != gimli::DW_TAG_subprogram {
                if entries.skip_attributes(attributes).is_err() {
                    break;
                }
                continue;
            }
            let Ok(entry) = read(&mut entries, attributes) else { break };
            let hits = self.containing(unit, &entry)?;
            if hits.is_empty() {
                continue;
            }
            let function = self.name(unit, &entry, LONGEST)?;
            let file = if inlined { self.file_name(unit, entry.call_file)? } else { None };
            let from = Row { file, line: entry.call_line, column: entry.call_column };
            for index in hits {
                let chain = &mut self.found[index].chain;
                if !inlined {
                    chain.clear();
                }
                if chain.len() < DEEPEST {
                    chain.push(Call { function: function.clone(), from: from.clone() });
                }
            }
        }
        Ok(())
    }

    /// Returns the wanted addresses in a function's ranges.
    fn containing(&mut self, unit: &Unit<Reader<'s>>, entry: &FoundFunction<'s>) -> Result<Vec<usize>, Exhausted> {
        if let Some(ranges) = entry.ranges
            && let Ok(Some(mut ranges)) = ranges::listed(self.dwarf, unit, ranges)
        {
            let mut all = Vec::new();
            while let Ok(Some(range)) = ranges.next() {
                self.fuel.spend(1)?;
                all.extend(within(self.wanted, range));
            }
            self.fuel.spend(all.len() as u64)?;
            all.sort_unstable();
            all.dedup();
            return Ok(all);
        }
        let low = entry.low.and_then(|low| self.dwarf.attr_address(unit, low).ok().flatten());
        let Some((begin, high)) = low.zip(entry.high) else { return Ok(Vec::new()) };
        let end = match self.dwarf.attr_address(unit, high) {
            Ok(Some(end)) => Some(end),
            _ => high.udata_value().and_then(|size| begin.checked_add(size)),
        };
        Ok(end.map_or(Vec::new(), |end| within(self.wanted, gimli::Range { begin, end }).collect()))
    }

    fn file_name(&mut self, unit: &Unit<Reader<'s>>, index: u64) -> Result<Option<String>, Exhausted> {
        let Some(path) = path(self.dwarf, unit, index) else { return Ok(None) };
        self.fuel.spend(1 + path.len() as u64 / 8)?;
        Ok(Some(clean(&path)))
    }

    /// Returns a function's name. Another entry may hold it.
    fn name(
        &mut self,
        unit: &Unit<Reader<'s>>,
        entry: &FoundFunction<'s>,
        left: usize,
    ) -> Result<Option<String>, Exhausted> {
        self.fuel.spend(UNIT)?;
        let string = |value| self.dwarf.attr_string(unit, value).ok().map(|name| clean(name.slice()));
        if let Some(name) = entry.linkage_name.and_then(string) {
            return Ok(Some(name));
        }
        let deeper = match entry.origin {
            Some(AttributeValue::UnitRef(offset)) if left > 0 => self.name_at(unit, offset, left - 1)?,
            Some(AttributeValue::DebugInfoRef(offset)) if left > 0 => self.name_elsewhere(unit, offset, left - 1)?,
            _ => None,
        };
        Ok(deeper.or_else(|| {
            entry.name.and_then(|value| self.dwarf.attr_string(unit, value).ok()).map(|n| clean(n.slice()))
        }))
    }

    fn name_at(&mut self, unit: &Unit<Reader<'s>>, at: UnitOffset, left: usize) -> Result<Option<String>, Exhausted> {
        let Ok(mut entries) = unit.entries_raw(Some(at)) else { return Ok(None) };
        let Ok(Some(abbreviation)) = entries.read_abbreviation() else { return Ok(None) };
        self.fuel.spend(abbreviation.attributes().len() as u64)?;
        match read(&mut entries, abbreviation.attributes()) {
            Ok(entry) => self.name(unit, &entry, left),
            Err(_) => Ok(None),
        }
    }

    /// Returns the name of an entry of any unit.
    fn name_elsewhere(
        &mut self,
        unit: &Unit<Reader<'s>>,
        at: DebugInfoOffset,
        left: usize,
    ) -> Result<Option<String>, Exhausted> {
        if let Some(at) = at.to_unit_offset(&unit.header) {
            return self.name_at(unit, at, left);
        }
        let mut headers = self.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            self.fuel.spend(1)?;
            if let Some(at) = at.to_unit_offset(&header) {
                return match self.cache.unit(self.dwarf, header, self.fuel)? {
                    Some(other) => self.name_at(&other, at, left),
                    None => Ok(None),
                };
            }
        }
        Ok(None)
    }
}

fn read<'s>(
    entries: &mut EntriesRaw<'_, Reader<'s>>,
    attributes: &[gimli::AttributeSpecification],
) -> gimli::Result<FoundFunction<'s>> {
    let mut entry = FoundFunction::default();
    for specification in attributes {
        entry.take(&entries.read_attribute(*specification)?);
    }
    Ok(entry)
}

/// Returns the indices of the sorted numbers in a range.
fn within(sorted: &[u64], range: gimli::Range) -> std::ops::Range<usize> {
    let start = sorted.partition_point(|at| *at < range.begin);
    let end = sorted.partition_point(|at| *at < range.end);
    start..end.max(start)
}

/// Returns the path of a file of the unit's line program.
fn path(dwarf: &Dwarf<Reader<'_>>, unit: &Unit<Reader<'_>>, index: u64) -> Option<Vec<u8>> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let mut path = Vec::new();
    let mut join = |part: &[u8]| {
        if part.starts_with(b"/") {
            path.clear();
        } else if !path.is_empty() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    };
    if let Some(directory) = unit.comp_dir {
        join(directory.slice());
    }
    // Directory 0 is the compilation's own. Before version 5 it is not in the table.
    if (file.directory_index() != 0 || header.version() >= 5)
        && let Some(directory) = file.directory(header).and_then(|value| dwarf.attr_string(unit, value).ok())
    {
        join(directory.slice());
    }
    join(dwarf.attr_string(unit, file.path_name()).ok()?.slice());
    Some(path)
}
