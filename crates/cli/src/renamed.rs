//! Renaming of an object's undefined names.

use anyhow::Context;
use goblin::elf::Elf;
use sfi_verifier::elf::number::{SHN_UNDEF, SHT_SYMTAB, STB_LOCAL};

/// Size of a symbol in bytes. Its first four hold the offset of its name.
const SYMBOL: usize = 24;
/// Offsets in a section header: `sh_offset`, `sh_size`.
const OFFSET: usize = 24;
const SIZE: usize = 32;

/// Returns the object with other names for undefined symbols, if `meaning` has one. The table of
/// names moves to the end of the file.
///
/// # Errors
/// The bytes are no object.
pub fn renamed(bytes: &[u8], meaning: impl Fn(&str) -> Option<String>) -> anyhow::Result<Vec<u8>> {
    let elf = Elf::parse(bytes)?;
    let Some(table) = elf.section_headers.iter().find(|s| s.sh_type == SHT_SYMTAB) else { return Ok(bytes.to_vec()) };
    let wanted = elf.syms.iter().enumerate();
    let wanted = wanted.filter(|(_, s)| s.st_shndx == SHN_UNDEF as usize && s.st_bind() != STB_LOCAL);
    let renames: Vec<(usize, String)> =
        wanted.filter_map(|(index, s)| Some((index, meaning(elf.strtab.get_at(s.st_name)?)?))).collect();
    if renames.is_empty() {
        return Ok(bytes.to_vec());
    }
    let strings = elf.section_headers.get(table.sh_link as usize).context("the symbols have no names")?;
    let range = strings.file_range().context("the symbols have no names")?;
    let mut names = bytes.get(range).context("the names lie outside the file")?.to_vec();
    let mut out = bytes.to_vec();
    for (index, name) in renames {
        let at = table.sh_offset as usize + index * SYMBOL;
        put(&mut out, at, &u32::try_from(names.len())?.to_le_bytes())?;
        names.extend(name.bytes().chain([0]));
    }
    let header = elf.header.e_shoff as usize + table.sh_link as usize * usize::from(elf.header.e_shentsize);
    let end = out.len() as u64;
    put(&mut out, header + OFFSET, &end.to_le_bytes())?;
    put(&mut out, header + SIZE, &(names.len() as u64).to_le_bytes())?;
    out.extend(names);
    Ok(out)
}

fn put(bytes: &mut [u8], at: usize, word: &[u8]) -> anyhow::Result<()> {
    bytes.get_mut(at..at + word.len()).context("a table lies outside the file")?.copy_from_slice(word);
    Ok(())
}
