//! The addresses of an entry.
//!
//! gimli (0.34) adds up their numbers without a check. The sums of a hostile object may overflow,
//! and a host that is built with overflow checks would panic. So this module checks the sums first.

use crate::sections::Reader;
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, Error, RangeIter, Reader as _, Result, RngListIter, Section as _,
    Unit,
};

/// Returns the ranges of an entry by `DW_AT_low_pc`, `DW_AT_high_pc` and `DW_AT_ranges`.
///
/// # Errors
/// gimli's errors, and an error for addresses past the last one.
pub fn ranges<'s>(
    dwarf: &Dwarf<Reader<'s>>,
    unit: &Unit<Reader<'s>>,
    entry: &DebuggingInformationEntry<Reader<'s>>,
) -> Result<RangeIter<Reader<'s>>> {
    // If an attribute comes twice, the largest value is checked, so gimli may take either.
    let (mut low, mut size) = (0u64, 0);
    for attribute in entry.attrs() {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, value) => low = low.max(dwarf.attr_address(unit, value)?.unwrap_or(0)),
            (gimli::DW_AT_high_pc, AttributeValue::Udata(value)) => size = size.max(value),
            (gimli::DW_AT_ranges, value) => check_index(dwarf, unit, value)?,
            _ => {}
        }
    }
    low.checked_add(size).ok_or(Error::AddressOverflow)?;
    dwarf.die_ranges(unit, entry)
}

/// Returns the ranges of a unit.
pub(crate) fn unit_ranges<'s>(dwarf: &Dwarf<Reader<'s>>, unit: &Unit<Reader<'s>>) -> Result<RangeIter<Reader<'s>>> {
    let mut entries = unit.entries();
    entries.next_dfs()?;
    ranges(dwarf, unit, entries.current().ok_or(Error::MissingUnitDie)?)
}

/// Returns the ranges that an attribute's value lists, `None` if it names no list.
pub(crate) fn listed<'s>(
    dwarf: &Dwarf<Reader<'s>>,
    unit: &Unit<Reader<'s>>,
    value: AttributeValue<Reader<'s>>,
) -> Result<Option<RngListIter<Reader<'s>>>> {
    check_index(dwarf, unit, value)?;
    dwarf.attr_ranges(unit, value)
}

/// Checks the place of the list that an index names. The place is `DW_AT_rnglists_base` plus an
/// offset, which may have 64 bits (DWARF 5, section 7.28).
fn check_index<'s>(
    dwarf: &Dwarf<Reader<'s>>,
    unit: &Unit<Reader<'s>>,
    value: AttributeValue<Reader<'s>>,
) -> Result<()> {
    let AttributeValue::DebugRngListsIndex(index) = value else { return Ok(()) };
    let (format, base) = (unit.encoding().format, unit.rnglists_base.0);
    let mut offsets = *dwarf.ranges.debug_rnglists().reader();
    offsets.skip(base)?;
    offsets.skip(index.0.checked_mul(format.word_size().into()).ok_or(Error::UnsupportedOffset)?)?;
    base.checked_add(offsets.read_offset(format)?).ok_or(Error::UnsupportedOffset)?;
    Ok(())
}
