//! ELF files in memory that describe code at the place where it runs, as JIT compilers register
//! them: relocatable files whose section of code has an address.

use crate::dwarf::Sections;
use crate::{Function, frames};
use object::elf::{FileHeader64, SectionHeader64};
use object::read::elf::ElfFile64;
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, LittleEndian, Object as _, ObjectSection, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope, elf,
};
use sfi_loader::{GateCode, RaisedText};
use std::mem;
use std::ops::Range;

/// Describes a domain's text, which has these functions and this debug information.
pub(crate) fn domain(text: &RaisedText<'_>, functions: &[Function], mut sections: Sections) -> Vec<u8> {
    sections.insert(".debug_frame", frames::of_domain(text.addresses(), text.saves()));
    // `info symbol` prints the section's name, and so the domain's.
    let name = format!(".text.{}", text.domain());
    write(&name, text.addresses(), functions, sections)
}

/// Describes the gates.
pub(crate) fn gates(gates: &[GateCode]) -> Vec<u8> {
    let start = gates.iter().map(|gate| gate.addresses.start).min().unwrap_or(0);
    let end = gates.iter().map(|gate| gate.addresses.end).max().unwrap_or(0);
    // The functions have symbols in the program's own file.
    write(".text", start..end, &[], Sections::from([(".debug_frame", frames::of_gates(gates))]))
}

fn write(name: &str, text: Range<u64>, functions: &[Function], sections: Sections) -> Vec<u8> {
    let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let code = file.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::UninitializedData);
    let section = file.section_mut(code);
    section.flags = SectionFlags::Elf { sh_type: elf::SHT_NOBITS, sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR };
    file.append_section_bss(code, text.end - text.start, 1);
    for function in functions {
        file.add_symbol(Symbol {
            name: function.name.clone().into_bytes(),
            value: function.address - text.start,
            size: function.size,
            kind: SymbolKind::Text,
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(code),
            flags: SymbolFlags::None,
        });
    }
    for (section, bytes) in sections {
        let id = file.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Debug);
        file.set_section_data(id, bytes, 1);
    }
    let mut bytes = file.write().expect("sections and symbols of a file without relocations");
    place(&mut bytes, name, text.start);
    bytes
}

/// Gives the section of code its address.
fn place(bytes: &mut [u8], name: &str, address: u64) {
    // Fields of ELF's headers: gABI, chapters 4 and 5.
    const SECTIONS_AT: usize = mem::offset_of!(FileHeader64<LittleEndian>, e_shoff);
    const ADDRESS: usize = mem::offset_of!(SectionHeader64<LittleEndian>, sh_addr);
    let file: ElfFile64 = ElfFile64::parse(&*bytes).expect("it was just written");
    let index = file.section_by_name(name).expect("it was just written").index().0;
    let mut headers = [0; 8];
    headers.copy_from_slice(&bytes[SECTIONS_AT..][..8]);
    let header = u64::from_le_bytes(headers) as usize + index * mem::size_of::<SectionHeader64<LittleEndian>>();
    bytes[header + ADDRESS..][..8].copy_from_slice(&address.to_le_bytes());
}
