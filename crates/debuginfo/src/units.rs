//! Units, with a price for the tables that they name. Units may share tables, so a hostile object
//! may let many units name one large table. Each table of abbreviations is parsed once.

use crate::fuel::{Exhausted, Fuel};
use crate::sections::Reader;
use gimli::{Abbreviations, AttributeValue, DebugAbbrevOffset, Dwarf, Reader as _, Section as _, Unit, UnitHeader};
use std::collections::HashMap;
use std::sync::Arc;

/// Price of a unit without its tables. Each unit may cost the reading of strings of that length.
pub(crate) const UNIT: u64 = 2000;

/// Tables of abbreviations by offset.
#[derive(Default)]
pub struct Cache(HashMap<usize, Option<Arc<Abbreviations>>>);

impl Cache {
    /// Reads a unit's root. Returns `None` if it describes no code or cannot be read.
    ///
    /// # Errors
    /// [`Exhausted`] if the fuel does not suffice.
    pub fn unit<'s>(
        &mut self,
        dwarf: &Dwarf<Reader<'s>>,
        header: UnitHeader<Reader<'s>>,
        fuel: &mut Fuel,
    ) -> Result<Option<Unit<Reader<'s>>>, Exhausted> {
        fuel.spend(UNIT)?;
        if matches!(header.type_(), gimli::UnitType::Type { .. } | gimli::UnitType::SplitType { .. }) {
            return Ok(None);
        }
        let Some(abbreviations) = self.get(dwarf, header.debug_abbrev_offset(), fuel)? else {
            return Ok(None);
        };
        if let Ok(mut entries) = header.entries_raw(&abbreviations, None)
            && let Ok(Some(root)) = entries.read_abbreviation()
        {
            // The attributes are read three times: here, by `Unit` and for the unit's ranges.
            fuel.spend(3 * root.attributes().len() as u64)?;
            for specification in root.attributes() {
                let Ok(attribute) = entries.read_attribute(*specification) else { return Ok(None) };
                if let AttributeValue::DebugLineRef(offset) = attribute.value()
                    && attribute.name() == gimli::DW_AT_stmt_list
                {
                    let mut program = *dwarf.debug_line.reader();
                    let length = program.skip(offset.0).and_then(|()| program.read_initial_length());
                    let length = length.map_or(0, |(length, _)| length.min(program.len()));
                    fuel.spend(1 + length as u64 / 8)?;
                }
            }
        }
        Ok(Unit::new_with_abbreviations(dwarf, header, abbreviations).ok())
    }

    /// Returns the table at an offset, if it can be read.
    fn get(
        &mut self,
        dwarf: &Dwarf<Reader<'_>>,
        offset: DebugAbbrevOffset,
        fuel: &mut Fuel,
    ) -> Result<Option<Arc<Abbreviations>>, Exhausted> {
        fuel.spend(1)?;
        if let Some(known) = self.0.get(&offset.0) {
            return Ok(known.clone());
        }
        let reader = *dwarf.debug_abbrev.reader();
        let mut rest = reader;
        let whole = rest.skip(offset.0).is_ok();
        fuel.spend(if whole { size(rest) } else { 1 })?;
        let parsed = dwarf.debug_abbrev.abbreviations(offset).ok().map(Arc::new);
        self.0.insert(offset.0, parsed.clone());
        Ok(parsed)
    }
}

/// Counts the codes and attributes of a table, up to its end or its first malformed entry.
fn size(mut table: Reader<'_>) -> u64 {
    let mut count = 1;
    let mut walk = || -> gimli::Result<()> {
        while table.read_uleb128()? != 0 {
            table.read_uleb128()?;
            table.read_u8()?;
            loop {
                count += 1;
                let name = table.read_uleb128()?;
                let form = table.read_uleb128()?;
                if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                    table.read_sleb128()?;
                }
                if name == 0 && form == 0 {
                    break;
                }
            }
        }
        Ok(())
    };
    // The parser finds such a mistake again.
    let _ = walk();
    count
}
