//! Values of attributes, old and new, and the reason for dropping them.

use crate::object::read::SectionIndex;
use gimli::Reader as _;
use gimli::write::Address;
use sfi_debuginfo::{Fuel, Reader};

/// The reason why the output has no debug information.
pub(super) type Dropped = String;

pub(super) fn dropped(why: impl std::fmt::Display) -> Dropped {
    why.to_string()
}

/// Returns the address of an offset in a section of the new code.
pub(super) fn address(section: SectionIndex, offset: u64) -> Address {
    Address::Symbol { symbol: section, addend: offset as i64 }
}

/// Returns the bytes of a string attribute up to the first zero byte. They cost fuel, because many
/// attributes may name one long string. The next to spend fuel notices that it is used up.
pub(super) fn string(
    dwarf: &gimli::Dwarf<Reader<'_>>,
    unit: &gimli::Unit<Reader<'_>>,
    value: gimli::AttributeValue<Reader<'_>>,
    fuel: &mut Fuel,
) -> Option<Vec<u8>> {
    let bytes = dwarf.attr_string(unit, value).ok()?;
    fuel.spend(bytes.len() as u64).ok()?;
    let string: Vec<u8> = bytes.slice().iter().copied().take_while(|byte| *byte != 0).collect();
    (!string.is_empty()).then_some(string)
}
