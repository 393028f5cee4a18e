//! Compositions as a relocatable object.

use crate::error::ComposeError;
use crate::transfer::Transfer;
use object::elf;
use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};
use sfi_contract::note::Note;
use sfi_contract::{Mode, names};

/// Returns an object with the functions of some compositions, each under its name. The names must
/// differ, and all compositions must have been made for this mode.
///
/// # Errors
/// [`ComposeError::Object`] if the names or the sizes do not fit the format.
pub fn object<'t>(mode: Mode, transfers: impl IntoIterator<Item = &'t Transfer>) -> Result<Vec<u8>, ComposeError> {
    let transfers: Vec<&Transfer> = transfers.into_iter().collect();
    write(mode, &transfers).map_err(|error| ComposeError::Object(error.to_string()))
}

fn write(mode: Mode, transfers: &[&Transfer]) -> Result<Vec<u8>, object::write::Error> {
    let text: usize = transfers.iter().map(|transfer| transfer.code.len()).sum();
    let mut bytes = Vec::with_capacity(text + 1024 + 64 * transfers.len());
    let note = Note::new(mode, false).encode();
    let mut writer = Writer::new(object::Endianness::Little, true, &mut bytes);
    writer.reserve_file_header();
    let text_index = writer.reserve_section_index();
    let text_name = writer.add_section_name(b".text");
    let note_name = writer.add_section_name(names::NOTE_SECTION.as_bytes());
    let stack_name = writer.add_section_name(b".note.GNU-stack");
    writer.reserve_section_index();
    writer.reserve_section_index();
    writer.reserve_null_symbol_index();
    let strings: Vec<_> = transfers
        .iter()
        .map(|transfer| {
            writer.reserve_symbol_index(Some(text_index));
            writer.add_string(transfer.name.as_bytes())
        })
        .collect();
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    let text_at = writer.reserve(text as u64, 64);
    let note_at = writer.reserve(note.len() as u64, 4);
    writer.reserve_symtab();
    writer.reserve_strtab()?;
    writer.reserve_shstrtab()?;
    writer.reserve_section_headers();
    writer.write_file_header(&FileHeader {
        os_abi: elf::OsAbi(0),
        abi_version: 0,
        e_type: elf::ET_REL,
        e_machine: elf::EM_X86_64,
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    })?;
    writer.pad_until(text_at);
    transfers.iter().for_each(|transfer| writer.write(&transfer.code));
    writer.pad_until(note_at);
    writer.write(&note);
    writer.write_null_symbol();
    let mut value = 0;
    for (transfer, name) in transfers.iter().zip(&strings) {
        let size = transfer.code.len() as u64;
        writer.write_symbol(&Sym {
            section: Some(text_index.0),
            st_name: writer.string_offset(Some(*name)),
            st_info: elf::SymbolInfo(elf::STB_GLOBAL.0 << 4 | elf::STT_FUNC.0),
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SHN_UNDEF,
            st_value: value,
            st_size: size,
        });
        value += size;
    }
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    let sections = [
        (text_name, elf::SHT_PROGBITS, elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0, text_at, text, 64),
        (note_name, elf::SHT_NOTE, 0, note_at, note.len(), 4),
        (stack_name, elf::SHT_PROGBITS, 0, note_at, 0, 1),
    ];
    for (name, kind, flags, offset, size, align) in sections {
        writer.write_section_header(&SectionHeader {
            sh_name: writer.section_name_offset(Some(name)),
            sh_type: kind,
            sh_flags: elf::SectionFlags(flags as _),
            sh_addr: 0,
            sh_offset: offset,
            sh_size: size as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: align,
            sh_entsize: 0,
        });
    }
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Ok(bytes)
}
