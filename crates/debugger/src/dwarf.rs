//! Debug information of a domain's objects, joined and relocated to the places where the code runs,
//! as a linker would do it.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex, elf};
use sfi_loader::RaisedObject;
use std::collections::{BTreeMap, HashMap};

/// The sections that consumers of DWARF read.
const SECTIONS: [&str; 13] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_loc",
    ".debug_loclists",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
];

/// Debug sections by name.
pub(crate) type Sections = BTreeMap<&'static str, Vec<u8>>;

/// Joins the debug information of objects. An object that cannot be read is left out.
pub(crate) fn join<'a>(objects: impl Iterator<Item = RaisedObject<'a>>) -> Sections {
    let mut all = Sections::new();
    for object in objects {
        if let Some(own) = read(&object, &all) {
            for (name, bytes) in own {
                all.entry(name).or_default().extend_from_slice(&bytes);
            }
        }
    }
    all
}

/// Returns an object's debug sections, which will follow those of `before`.
fn read(from: &RaisedObject<'_>, before: &Sections) -> Option<Sections> {
    let file: ElfFile64 = ElfFile64::parse(from.file()).ok()?;
    let mut own = Sections::new();
    // The address of each section: that of code, or the offset of debug information in the joined
    // section.
    let mut bases: HashMap<SectionIndex, u64> = HashMap::new();
    for section in file.sections() {
        let name = section.name().ok().and_then(|name| SECTIONS.iter().find(|known| **known == name).copied());
        match name {
            // A section of that name in a group may stand twice. No compiler of rewritten code
            // does that.
            Some(name) if own.contains_key(name) => return None,
            Some(name) => {
                bases.insert(section.index(), before.get(name).map_or(0, |bytes| bytes.len() as u64));
                own.insert(name, section.uncompressed_data().ok()?.into_owned());
            }
            None => {
                let address = from.address(section.index().0);
                bases.extend(address.map(|address| (section.index(), address)));
            }
        }
    }
    for section in file.sections() {
        let Some(bytes) = section.name().ok().and_then(|name| own.get_mut(name)) else { continue };
        for (at, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(symbol).ok()?;
            // A section that was not loaded has no place. Its addresses become 0.
            let base = symbol.section_index().and_then(|section| bases.get(&section).copied());
            let value =
                base.map_or(0, |base| base.wrapping_add(symbol.address()).wrapping_add_signed(relocation.addend()));
            let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
            let size = match r_type {
                elf::R_X86_64_64 => 8,
                elf::R_X86_64_32 => 4,
                _ => return None,
            };
            let start = usize::try_from(at).ok()?;
            bytes.get_mut(start..start.checked_add(size)?)?.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    Some(own)
}
