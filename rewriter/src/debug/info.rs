//! Units, functions, and the functions that were inlined into them.

use super::line::Lines;
use super::places::{Places, Stretch};
use super::values::{Dropped, address, dropped, string};
use foldhash::{HashMap, HashMapExt};
use gimli::write::{
    AttributeValue as New, Dwarf as NewDwarf, LineProgram, Range, RangeList, StringTable, Unit as NewUnit, UnitEntryId,
};
use gimli::{AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, Encoding, Unit, UnitOffset};
use sfi_debuginfo::{Cache, Fuel, Reader};

type Die<'s> = DebuggingInformationEntry<Reader<'s>>;

/// Longest chain of entries that name each other.
const LONGEST: usize = 8;

/// Cost of each name in the header of a unit's line table. All units are in memory at once.
const NAME: u64 = 50;

/// Converts all units. Units without code are left out.
pub(super) fn convert(
    dwarf: &Dwarf<Reader<'_>>,
    places: &Places<'_, '_, '_>,
    fuel: &mut Fuel,
) -> Result<NewDwarf, Dropped> {
    let exhausted = |_| dropped("too many units");
    let mut units = Vec::new();
    let mut cache = Cache::default();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().map_err(dropped)? {
        if !matches!(header.type_(), gimli::UnitType::Type { .. } | gimli::UnitType::SplitType { .. }) {
            let unit = cache.unit(dwarf, header, fuel).map_err(exhausted)?;
            let unit = unit.ok_or_else(|| dropped("a unit cannot be read"))?;
            let names = unit.line_program.as_ref().map_or(0, |program| {
                program.header().file_names().len() + program.header().include_directories().len()
            });
            // The unit's name and directory become strings of the new line table.
            let own = unit.name.map_or(0, |name| name.len()) + unit.comp_dir.map_or(0, |name| name.len());
            fuel.spend(NAME * names as u64 + own as u64).map_err(exhausted)?;
            units.push(unit);
        }
    }
    let mut new = NewDwarf::new();
    for unit in &units {
        let version = if unit.encoding().version >= 5 { 5 } else { 4 };
        let encoding = Encoding { format: gimli::Format::Dwarf32, version, address_size: 8 };
        let mut lines = Lines::new(dwarf, unit, encoding, &mut new.line_strings);
        lines.convert(places, fuel)?;
        let mut out = NewUnit::new(encoding, LineProgram::none());
        let mut one = One {
            dwarf,
            units: &units,
            unit,
            places,
            fuel,
            out: &mut out,
            strings: &mut new.strings,
            lines,
            origins: HashMap::new(),
        };
        let any = one.functions()?;
        let covered = one.root()?;
        one.fuel.spend(1).map_err(exhausted)?;
        let Lines { program, .. } = one.lines;
        if any || covered {
            out.line_program = program;
            new.units.add(out);
        }
    }
    Ok(new)
}

/// A unit while it is converted.
struct One<'x, 's, 'p, 'o, 'a> {
    dwarf: &'x Dwarf<Reader<'s>>,
    units: &'x [Unit<Reader<'s>>],
    unit: &'x Unit<Reader<'s>>,
    places: &'x Places<'p, 'o, 'a>,
    fuel: &'x mut Fuel,
    out: &'x mut NewUnit,
    strings: &'x mut StringTable,
    lines: Lines<'x, 's>,
    /// Abstract entries of inlined functions, by the place of the original entry.
    origins: HashMap<usize, UnitEntryId>,
}

/// The names of a function.
#[derive(Default)]
struct Names {
    name: Option<Vec<u8>>,
    linkage_name: Option<Vec<u8>>,
}

impl<'x, 's> One<'x, 's, '_, '_, '_> {
    /// Converts the unit's own entry. Says whether it has code.
    fn root(&mut self) -> Result<bool, Dropped> {
        let mut cursor = self.unit.entries_raw(None).map_err(dropped)?;
        let mut entry = Die::null();
        if !cursor.read_entry(&mut entry).map_err(dropped)? {
            return Err(dropped("a unit is empty"));
        }
        let root = self.out.root();
        for name in [gimli::DW_AT_producer, gimli::DW_AT_name, gimli::DW_AT_comp_dir] {
            if let Some(string) =
                entry.attr_value(name).and_then(|value| string(self.dwarf, self.unit, value, self.fuel))
            {
                self.out.get_mut(root).set(name, New::String(string));
            }
        }
        if let Some(AttributeValue::Language(language)) = entry.attr_value(gimli::DW_AT_language) {
            self.out.get_mut(root).set(gimli::DW_AT_language, New::Language(language));
        }
        let mut all = self.ranges(self.unit, &entry)?;
        all.extend(&self.lines.covered);
        // Ranges of the unit and of its line table mostly agree.
        all.sort_unstable();
        let mut merged: Vec<Stretch> = Vec::new();
        for stretch in all {
            match merged.last_mut() {
                Some(last) if last.section == stretch.section && stretch.begin <= last.end => {
                    last.end = last.end.max(stretch.end);
                }
                _ => merged.push(stretch),
            }
        }
        self.set_ranges(root, &merged);
        Ok(!merged.is_empty())
    }

    /// Copies the tree of functions. Says whether there are any.
    fn functions(&mut self) -> Result<bool, Dropped> {
        let unit = self.unit;
        let mut cursor = unit.entries_raw(None).map_err(dropped)?;
        let mut entry = Die::null();
        let mut around: Vec<(isize, UnitEntryId)> = Vec::new();
        let root = self.out.root();
        let mut any = false;
        while !cursor.is_empty() {
            self.fuel.spend(1).map_err(|_| dropped("too many entries"))?;
            if !cursor.read_entry(&mut entry).map_err(dropped)? {
                continue;
            }
            let inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
            while around.last().is_some_and(|(depth, _)| *depth >= entry.depth()) {
                around.pop();
            }
            if !inlined && entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let ranges = self.ranges(unit, &entry)?;
            if ranges.is_empty() {
                continue;
            }
            let parent = around.last().map(|(_, parent)| *parent);
            let new = match (inlined, parent) {
                (false, _) => self.out.add(root, gimli::DW_TAG_subprogram),
                (true, Some(parent)) => {
                    let Some(origin) = self.origin_of(&entry) else { continue };
                    let new = self.out.add(parent, gimli::DW_TAG_inlined_subroutine);
                    self.out.get_mut(new).set(gimli::DW_AT_abstract_origin, New::UnitRef(origin));
                    self.copy_place(
                        &entry,
                        new,
                        [gimli::DW_AT_call_file, gimli::DW_AT_call_line, gimli::DW_AT_call_column],
                    );
                    new
                }
                (true, None) => continue,
            };
            if !inlined {
                let names = self.names(unit, &entry, LONGEST);
                self.set_names(new, names);
                self.copy_declaration(unit, &entry, new, LONGEST);
            }
            self.set_ranges(new, &ranges);
            around.push((entry.depth(), new));
            any = true;
        }
        Ok(any)
    }

    /// Returns the new ranges of an entry's code.
    fn ranges(&mut self, unit: &Unit<Reader<'s>>, entry: &Die<'s>) -> Result<Vec<Stretch>, Dropped> {
        let mut all = Vec::new();
        let mut ranges = sfi_debuginfo::ranges(self.dwarf, unit, entry).map_err(dropped)?;
        while let Some(range) = ranges.next().map_err(dropped)? {
            self.fuel.spend(1).map_err(|_| dropped("too many ranges"))?;
            all.extend(self.places.stretch(range));
        }
        Ok(all)
    }

    fn set_ranges(&mut self, entry: UnitEntryId, ranges: &[Stretch]) {
        let value = match ranges {
            [] => return,
            [one] => {
                let low = New::Address(address(one.section, one.begin));
                self.out.get_mut(entry).set(gimli::DW_AT_low_pc, low);
                self.out.get_mut(entry).set(gimli::DW_AT_high_pc, New::Udata(one.end - one.begin));
                return;
            }
            many => {
                let mut list = Vec::new();
                let mut base = None;
                for stretch in many {
                    if base != Some(stretch.section) {
                        base = Some(stretch.section);
                        list.push(Range::BaseAddress { address: address(stretch.section, 0) });
                    }
                    list.push(Range::OffsetPair { begin: stretch.begin, end: stretch.end });
                }
                New::RangeListRef(self.out.ranges.add(RangeList(list)))
            }
        };
        self.out.get_mut(entry).set(gimli::DW_AT_ranges, value);
    }

    /// Returns the abstract entry of the inlined function.
    fn origin_of(&mut self, entry: &Die<'s>) -> Option<UnitEntryId> {
        let (unit, at) = self.follow(self.unit, entry.attr_value(gimli::DW_AT_abstract_origin)?)?;
        let place = at.to_debug_info_offset(&unit.header)?.0;
        if let Some(known) = self.origins.get(&place) {
            return Some(*known);
        }
        let origin = unit.entry(at).ok()?;
        let names = self.names(unit, &origin, LONGEST);
        let root = self.out.root();
        let new = self.out.add(root, gimli::DW_TAG_subprogram);
        self.set_names(new, names);
        self.copy_declaration(unit, &origin, new, LONGEST);
        self.out.get_mut(new).set(gimli::DW_AT_inline, New::Inline(gimli::DW_INL_inlined));
        self.origins.insert(place, new);
        Some(new)
    }

    /// Returns the entry that a reference means.
    fn follow(
        &self,
        unit: &'x Unit<Reader<'s>>,
        value: AttributeValue<Reader<'s>>,
    ) -> Option<(&'x Unit<Reader<'s>>, UnitOffset)> {
        match value {
            AttributeValue::UnitRef(at) => Some((unit, at)),
            AttributeValue::DebugInfoRef(at) => self.elsewhere(at),
            _ => None,
        }
    }

    fn elsewhere(&self, at: DebugInfoOffset) -> Option<(&'x Unit<Reader<'s>>, UnitOffset)> {
        let before = |unit: &Unit<Reader<'s>>| unit.header.debug_info_offset().is_some_and(|start| start.0 <= at.0);
        let behind = self.units.partition_point(before);
        let unit = &self.units[behind.checked_sub(1)?];
        Some((unit, at.to_unit_offset(&unit.header)?))
    }

    /// Returns the names of a function. Its declaration may have some of them.
    fn names(&mut self, unit: &'x Unit<Reader<'s>>, entry: &Die<'s>, left: usize) -> Names {
        let mut get = |name| entry.attr_value(name).and_then(|value| string(self.dwarf, unit, value, self.fuel));
        let mut names = Names {
            name: get(gimli::DW_AT_name),
            linkage_name: get(gimli::DW_AT_linkage_name).or_else(|| get(gimli::DW_AT_MIPS_linkage_name)),
        };
        if left > 0
            && let Some((unit, declaration)) = self.declaration(unit, entry)
        {
            let more = self.names(unit, &declaration, left - 1);
            names.name = names.name.or(more.name);
            names.linkage_name = names.linkage_name.or(more.linkage_name);
        }
        names
    }

    /// Returns the entry that an entry completes.
    fn declaration(&self, unit: &'x Unit<Reader<'s>>, entry: &Die<'s>) -> Option<(&'x Unit<Reader<'s>>, Die<'s>)> {
        let value =
            entry.attr_value(gimli::DW_AT_abstract_origin).or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
        let (unit, at) = self.follow(unit, value)?;
        Some((unit, unit.entry(at).ok()?))
    }

    fn set_names(&mut self, entry: UnitEntryId, names: Names) {
        let new = self.out.get_mut(entry);
        if let Some(name) = names.name {
            let id = self.strings.add(name);
            new.set(gimli::DW_AT_name, New::StringRef(id));
        }
        if let Some(name) = names.linkage_name {
            let id = self.strings.add(name);
            new.set(gimli::DW_AT_linkage_name, New::StringRef(id));
        }
    }

    /// Copies the place of a function's declaration, if this unit's files have it, and whether
    /// others see it.
    fn copy_declaration(&mut self, unit: &'x Unit<Reader<'s>>, entry: &Die<'s>, new: UnitEntryId, left: usize) {
        if !std::ptr::eq(unit, self.unit) {
            return;
        }
        if entry.attr_value(gimli::DW_AT_decl_line).is_none()
            && left > 0
            && let Some((unit, declaration)) = self.declaration(unit, entry)
        {
            return self.copy_declaration(unit, &declaration, new, left - 1);
        }
        self.copy_place(entry, new, [gimli::DW_AT_decl_file, gimli::DW_AT_decl_line, gimli::DW_AT_decl_column]);
        if let Some(AttributeValue::Flag(true)) = entry.attr_value(gimli::DW_AT_external) {
            self.out.get_mut(new).set(gimli::DW_AT_external, New::FlagPresent);
        }
    }

    /// Copies file, line and column.
    fn copy_place(&mut self, entry: &Die<'s>, new: UnitEntryId, names: [gimli::DwAt; 3]) {
        for name in names {
            let Some(value) = entry.attr_value(name) else { continue };
            let value = match (value, value.udata_value()) {
                (AttributeValue::FileIndex(index), _) => {
                    let Some(file) = self.lines.file(index, self.fuel) else { continue };
                    New::FileIndex(Some(file))
                }
                (_, Some(number)) => New::Udata(number),
                _ => continue,
            };
            self.out.get_mut(new).set(name, value);
        }
    }
}
