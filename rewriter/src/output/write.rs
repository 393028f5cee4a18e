//! Phase 11: the bytes of the new object file.

use crate::output::object::{Contents, NewObject, NewPlace};
use object::Endianness;
use object::elf;
use object::write::elf::{FileHeader, Rel, SectionHeader, Sym, Writer};

/// Largest alignment of a section's place in the file. A section's own alignment is about memory.
/// In the file it would only cost padding, as much as a hostile object likes.
const MAX_FILE_ALIGN: u64 = 64;

/// The places of a section's parts in the file.
#[derive(Clone, Copy, Default)]
struct Placed {
    index: u32,
    offset: u64,
    rela: u32,
    rela_offset: u64,
}

/// Serialises an object.
///
/// # Errors
/// Fails if the object does not fit the format (more than 4 GiB of names, for example).
pub(crate) fn write(object: &NewObject<'_>) -> Result<Vec<u8>, object::write::Error> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut bytes);
    writer.reserve_file_header();
    let mut placed = vec![Placed::default(); object.sections.len()];
    let rela_names: Vec<Vec<u8>> = object.sections.iter().map(|s| [b".rela", &*s.name].concat()).collect();
    let mut names = Vec::with_capacity(object.sections.len());
    for (section, place) in object.sections.iter().zip(&mut placed) {
        place.index = writer.reserve_section_index().0;
        if !section.relocs.is_empty() {
            place.rela = writer.reserve_section_index().0;
        }
    }
    for (number, section) in object.sections.iter().enumerate() {
        let name = writer.add_section_name(&section.name);
        let rela = (!section.relocs.is_empty()).then(|| writer.add_section_name(&rela_names[number]));
        names.push((name, rela));
    }
    writer.reserve_null_symbol_index();
    let mut strings = Vec::with_capacity(object.symbols.len());
    for symbol in &object.symbols {
        let section = match symbol.place {
            NewPlace::Section(section) if section != 0 => {
                Some(object::write::elf::SectionIndex(placed[section - 1].index))
            }
            _ => None,
        };
        strings.push((!symbol.name.is_empty()).then(|| writer.add_string(&symbol.name)));
        writer.reserve_symbol_index(section);
    }
    let symtab = writer.reserve_symtab_section_index();
    if writer.symtab_shndx_needed() {
        writer.reserve_symtab_shndx_section_index();
    }
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();

    let group_words = |members: &[usize]| {
        let mut words = Vec::new();
        for member in members {
            let place: &Placed = &placed[member - 1];
            words.push(place.index);
            if place.rela != 0 {
                words.push(place.rela);
            }
        }
        words
    };
    let mut places = placed.clone();
    for (section, place) in object.sections.iter().zip(&mut places) {
        let size = match &section.contents {
            Contents::Data(data) => data.len() as u64,
            Contents::NoBits => 0,
            Contents::Group { members, .. } => 4 + 4 * group_words(members).len() as u64,
        };
        place.offset = writer.reserve(size, section.align.clamp(1, MAX_FILE_ALIGN));
    }
    writer.reserve_symtab();
    writer.reserve_symtab_shndx();
    for (section, place) in object.sections.iter().zip(&mut places) {
        if place.rela != 0 {
            place.rela_offset = writer.reserve(24 * section.relocs.len() as u64, 8);
        }
    }
    writer.reserve_strtab()?;
    writer.reserve_shstrtab()?;
    writer.reserve_section_headers();

    writer.write_file_header(&FileHeader {
        os_abi: os_abi(object),
        abi_version: 0,
        e_type: elf::ET_REL,
        e_machine: elf::EM_X86_64,
        e_entry: 0,
        e_flags: elf::FileFlags(object.flags),
    })?;
    for (section, place) in object.sections.iter().zip(&places) {
        writer.pad_until(place.offset);
        match &section.contents {
            Contents::Data(data) => writer.write(data),
            Contents::NoBits => {}
            Contents::Group { flags, members, .. } => {
                writer.write(&flags.to_le_bytes());
                for word in group_words(members) {
                    writer.write(&word.to_le_bytes());
                }
            }
        }
    }
    writer.write_null_symbol();
    for (symbol, string) in object.symbols.iter().zip(&strings) {
        let (section, shndx) = match symbol.place {
            NewPlace::Undefined => (None, elf::SHN_UNDEF),
            NewPlace::Absolute => (None, elf::SHN_ABS),
            NewPlace::Common => (None, elf::SHN_COMMON),
            NewPlace::Section(section) => (Some(places[section - 1].index), elf::SHN_UNDEF),
        };
        writer.write_symbol(&Sym {
            section,
            st_name: writer.string_offset(*string),
            st_info: elf::SymbolInfo((symbol.bind << 4) | (symbol.kind & 0xf)),
            st_other: elf::SymbolOther(symbol.other),
            st_shndx: shndx,
            st_value: symbol.value,
            st_size: symbol.size,
        });
    }
    writer.write_symtab_shndx();
    for (section, place) in object.sections.iter().zip(&places).filter(|(_, p)| p.rela != 0) {
        writer.pad_until(place.rela_offset);
        for reloc in &section.relocs {
            writer.write_relocation(
                true,
                &Rel {
                    r_offset: reloc.offset,
                    r_sym: reloc.symbol as u32,
                    r_type: elf::RelocationType(reloc.kind),
                    r_addend: reloc.addend,
                },
            );
        }
    }
    writer.write_strtab();
    writer.write_shstrtab();

    writer.write_null_section_header();
    for (number, (section, place)) in object.sections.iter().zip(&places).enumerate() {
        let (name, rela_name) = names[number];
        let group = section.flags & elf::SHF_GROUP.0;
        let (link, info, size) = match &section.contents {
            Contents::Group { signature, members, .. } => {
                (symtab.0, *signature as u32, 4 + 4 * group_words(members).len() as u64)
            }
            _ if section.link != 0 => (places[section.link - 1].index, 0, section.size),
            _ => (0, 0, section.size),
        };
        writer.write_section_header(&SectionHeader {
            sh_name: writer.section_name_offset(Some(name)),
            sh_type: elf::SectionType(section.kind),
            sh_flags: elf::SectionFlags(section.flags as _),
            sh_addr: 0,
            sh_offset: place.offset,
            sh_size: size,
            sh_link: link,
            sh_info: info,
            sh_addralign: section.align,
            sh_entsize: section.entsize,
        });
        if let Some(rela_name) = rela_name {
            writer.write_section_header(&SectionHeader {
                sh_name: writer.section_name_offset(Some(rela_name)),
                sh_type: elf::SHT_RELA,
                sh_flags: elf::SectionFlags((elf::SHF_INFO_LINK.0 | group) as _),
                sh_addr: 0,
                sh_offset: place.rela_offset,
                sh_size: 24 * section.relocs.len() as u64,
                sh_link: symtab.0,
                sh_info: place.index,
                sh_addralign: 8,
                sh_entsize: 24,
            });
        }
    }
    let locals = 1 + object.symbols.iter().filter(|s| s.bind == elf::STB_LOCAL.0).count() as u32;
    writer.write_symtab_section_header(locals);
    writer.write_symtab_shndx_section_header();
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Ok(bytes)
}

/// Returns the ABI mark. GNU's extensions need ELFOSABI_GNU, which assemblers set too: without it
/// binutils does not know them by name.
fn os_abi(object: &NewObject<'_>) -> elf::OsAbi {
    let unique = object.symbols.iter().any(|s| s.bind == elf::STB_GNU_UNIQUE.0);
    let retain = object.sections.iter().any(|s| s.flags & elf::SHF_GNU_RETAIN.0 != 0);
    let indirect = object.symbols.iter().any(|s| s.kind == elf::STT_GNU_IFUNC.0);
    if unique || retain || indirect { elf::ELFOSABI_GNU } else { elf::OsAbi(0) }
}
