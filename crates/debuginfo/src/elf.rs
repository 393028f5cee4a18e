//! Debug information of an object that the verifier's reader has read.

use crate::{Fuel, Malformed, Meaning, Raw, Reloc, Sections, lookup::Frame};
use sfi_verifier::elf::number::{SHF_COMPRESSED, SHF_GROUP};
use sfi_verifier::elf::{Object, Place};

/// Returns the debug sections of an object.
///
/// # Errors
/// [`Malformed`] as for [`Sections::gather`].
pub fn sections_of<'a>(object: &Object<'a>) -> Result<Sections<'a>, Malformed> {
    let raw = object.sections.iter().filter(|s| !s.is_allocated() && s.name.starts_with(".debug_")).map(|s| Raw {
        name: s.name.as_bytes(),
        data: s.data,
        compressed: s.flags & u64::from(SHF_COMPRESSED) != 0,
        grouped: s.flags & u64::from(SHF_GROUP) != 0,
        relocations: s
            .relocations
            .iter()
            .map(|r| Reloc { offset: r.offset, kind: r.kind, symbol: r.symbol, addend: r.addend })
            .collect(),
    });
    Sections::gather(raw, |symbol| {
        let symbol = object.symbols.get(symbol)?;
        Some(match symbol.place {
            Place::Section(section) if object.sections.get(section)?.is_executable() => {
                Meaning::Code { section, offset: symbol.value }
            }
            _ => Meaning::Other(symbol.value),
        })
    })
}

/// Looks up places of an object, given as section and offset. Returns the frames of each, innermost
/// first, or none for places without debug information.
pub fn lookup_in(object: &Object<'_>, places: &[(usize, u64)]) -> Vec<Vec<Frame>> {
    let addresses: Vec<u64> = places.iter().map(|(section, offset)| crate::address(*section, *offset)).collect();
    match sections_of(object) {
        Ok(sections) if !sections.is_empty() => crate::lookup(&sections, &addresses, &mut Fuel::default()),
        _ => vec![Vec::new(); places.len()],
    }
}
