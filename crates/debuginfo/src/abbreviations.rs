//! Tables of abbreviations, parsed once and paid for by their size: units may share them, and a hostile object may let each of many units
//! name a large one.

use crate::fuel::{Exhausted, Fuel};
use crate::sections::Reader;
use gimli::{Abbreviations, DebugAbbrevOffset, Reader as _, Section as _};
use std::collections::HashMap;
use std::sync::Arc;

/// Tables by offset.
#[derive(Default)]
pub struct Cache(HashMap<usize, Option<Arc<Abbreviations>>>);

impl Cache {
    /// The table at an offset, if it can be read.
    pub fn get(
        &mut self,
        dwarf: &gimli::Dwarf<Reader<'_>>,
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

/// How many codes and attributes a table has, up to its end or where it stops making sense.
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
    // The parser finds the same mistake.
    let _ = walk();
    count
}
