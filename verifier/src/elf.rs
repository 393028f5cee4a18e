//! The one trusted ELF reader. The loader uses this model too, so that what is checked is what is loaded.
//!
//! Reads 64-bit little-endian x86-64 relocatable objects (System V gABI, chapters *Object Files* and *Sections*).
//! It reads what it can and judges nothing: structural oddities are rules (`SFI-E01` to `SFI-E07`), reported by
//! [`crate::verify`]. Only what has no reading at all is [`Unreadable`].
//!
//! Nothing here panics. Time and memory are linear in the file's size: every table is bounded by the bytes that hold
//! it, tables together by the file, and the names handed out by `NAME_BUDGET` times the file.

use goblin::elf::{header, reloc, section_header as sh, sym};
use goblin::elf64::{header::Header, reloc::Rela, section_header::SectionHeader as RawSection, sym::Sym as RawSymbol};
use scroll::ctx::{SizeWith, TryFromCtx};
use scroll::{Endian, LE, Pread};

/// Bytes of symbol and section names handed out, in units of the file's size. Names may share the bytes of a string
/// table, so their sum may exceed it; without a bound it could grow with the square of the file.
const NAME_BUDGET: usize = 16;

/// `EM_X86_64`, the only machine read here.
const MACHINE: u16 = header::EM_X86_64;

/// A relocatable object. Index 0 of `sections` and `symbols` is the null entry, as in ELF.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    /// All section headers in file order.
    pub sections: Vec<Section<'a>>,
    /// The symbol table. Empty if the object has none.
    pub symbols: Vec<Symbol<'a>>,
    /// The section groups whose tables have whole entries.
    pub groups: Vec<Group>,
}

/// One section.
#[derive(Clone, Debug, Default)]
pub struct Section<'a> {
    /// Name in the section header string table.
    pub name: &'a str,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`: 0 in a relocatable object.
    pub address: u64,
    /// `sh_offset`: where `data` begins in the file.
    pub offset: u64,
    /// `sh_addralign`, bytes.
    pub align: u64,
    /// `sh_size`, bytes.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_entsize`, bytes.
    pub entry_size: u64,
    /// The section's bytes. Empty for `SHT_NOBITS`, `SHT_NULL` and for a section that lies outside the file.
    pub data: &'a [u8],
    /// The entries of all `SHT_RELA` sections that apply to this section, in file order.
    pub relocations: Vec<Relocation>,
}

/// One symbol.
#[derive(Clone, Debug)]
pub struct Symbol<'a> {
    /// Name; empty for section symbols.
    pub name: &'a str,
    /// `st_value`: offset in its section, or alignment if common.
    pub value: u64,
    /// `st_size`, bytes.
    pub size: u64,
    /// `STB_*`.
    pub binding: u8,
    /// `STT_*`.
    pub kind: u8,
    /// `STV_*`.
    pub visibility: u8,
    /// The bits of `st_other` that are not the visibility.
    pub other: u8,
    /// Where it is defined.
    pub place: Place,
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not in this object.
    Undefined,
    /// `SHN_ABS`.
    Absolute,
    /// `SHN_COMMON`.
    Common,
    /// In the section of this index, which exists.
    Section(usize),
    /// Any other section index, reserved or out of range. Refused by [`crate::verify`] (`SFI-E04`).
    Reserved(u32),
}

/// One relocation with addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset in the section it applies to, bytes.
    pub offset: u64,
    /// `R_X86_64_*`.
    pub kind: u32,
    /// Index of the symbol. It may be out of range until [`crate::verify`] accepts the object (`SFI-E05`).
    pub symbol: usize,
    /// Addend.
    pub addend: i64,
}

/// One section group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Index of the signature symbol. It may be out of range until [`crate::verify`] accepts the object (`SFI-E06`).
    pub signature: usize,
    /// `GRP_COMDAT`: of the groups with one signature only one is kept.
    pub comdat: bool,
    /// Indices of the member sections; the same caution as for `signature`.
    pub members: Vec<usize>,
}

/// The bytes are not an object that this reader understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

fn unreadable<T>(why: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable(why.into()))
}

impl Section<'_> {
    /// `SHF_ALLOC`: part of the domain's memory.
    pub fn is_allocated(&self) -> bool {
        self.flags & u64::from(sh::SHF_ALLOC) != 0
    }

    /// `SHF_EXECINSTR`: text.
    pub fn is_executable(&self) -> bool {
        self.flags & u64::from(sh::SHF_EXECINSTR) != 0
    }

    /// Has bytes in the file.
    pub fn has_file_bytes(&self) -> bool {
        self.kind != sh::SHT_NOBITS && self.kind != sh::SHT_NULL
    }
}

/// Reads an object.
///
/// # Errors
/// [`Unreadable`] if the bytes are not an ELF64 x86-64 relocatable, or if a table that the model needs (headers, string
/// tables, the symbol table) cannot be read.
pub fn parse(bytes: &[u8]) -> Result<Object<'_>, Unreadable> {
    let header = read_header(bytes)?;
    let raw = read_section_headers(bytes, &header)?;
    let mut names = Names { budget: bytes.len().saturating_mul(NAME_BUDGET) };
    let mut sections = read_sections(bytes, &header, &raw, &mut names)?;
    let mut budget = bytes.len();
    let symbols = read_symbols(&sections, &mut names, &mut budget)?;
    read_relocations(&mut sections, &mut budget)?;
    let groups = read_groups(&sections, &mut budget)?;
    Ok(Object { sections, symbols, groups })
}

fn read_header(bytes: &[u8]) -> Result<Header, Unreadable> {
    if !bytes.starts_with(header::ELFMAG) {
        return unreadable("not an ELF file");
    }
    let header: Header = bytes.pread_with(0, LE).map_err(|_| Unreadable("the ELF header is cut short".into()))?;
    let ident = &header.e_ident;
    if ident[header::EI_CLASS] != header::ELFCLASS64 || ident[header::EI_DATA] != header::ELFDATA2LSB {
        return unreadable("not a 64-bit little-endian ELF file");
    }
    if header.e_machine != MACHINE {
        return unreadable(format!("machine {} is not x86-64", header.e_machine));
    }
    if header.e_type != header::ET_REL {
        return unreadable(format!("ELF type {} is not a relocatable object (`.o`)", header.e_type));
    }
    if ident[header::EI_VERSION] != header::EV_CURRENT || header.e_version != u32::from(header::EV_CURRENT) {
        return unreadable("unknown ELF version");
    }
    Ok(header)
}

fn read_section_headers(bytes: &[u8], header: &Header) -> Result<Vec<RawSection>, Unreadable> {
    let entry = RawSection::size_with(&LE);
    if usize::from(header.e_shentsize) != entry {
        return unreadable("section headers have an unknown size");
    }
    let Some(table) = usize::try_from(header.e_shoff).ok().filter(|o| *o != 0).and_then(|o| bytes.get(o..)) else {
        return unreadable("no section header table");
    };
    let count = match header.e_shnum {
        // The count does not fit: section 0 holds it (gABI, chapter Sections, Extended numbering).
        0 => table.pread_with::<RawSection>(0, LE).map_or(0, |first| first.sh_size),
        count => u64::from(count),
    };
    match usize::try_from(count).ok().and_then(|count| count.checked_mul(entry)).and_then(|size| table.get(..size)) {
        Some(table) if !table.is_empty() => entries(table),
        _ => unreadable("the section header table lies outside the file"),
    }
}

/// A table of fixed-size entries. A rest shorter than an entry is left out.
fn entries<'a, T>(table: &'a [u8]) -> Result<Vec<T>, Unreadable>
where
    T: TryFromCtx<'a, Endian, Error = scroll::Error> + SizeWith<Endian>,
{
    let size = T::size_with(&LE);
    table
        .chunks_exact(size)
        .map(|entry| T::try_from_ctx(entry, LE).map(|(value, _)| value))
        .collect::<Result<_, _>>()
        .map_err(|error| Unreadable(format!("a table entry cannot be read: {error}")))
}

fn read_sections<'a>(
    bytes: &'a [u8],
    header: &Header,
    raw: &[RawSection],
    names: &mut Names,
) -> Result<Vec<Section<'a>>, Unreadable> {
    let data = |s: &RawSection| -> &'a [u8] {
        if s.sh_type == sh::SHT_NOBITS || s.sh_type == sh::SHT_NULL {
            return &[];
        }
        let range = usize::try_from(s.sh_offset).ok().zip(usize::try_from(s.sh_size).ok());
        range.and_then(|(start, size)| bytes.get(start..start.checked_add(size)?)).unwrap_or(&[])
    };
    let strings_index = match u32::from(header.e_shstrndx) {
        sh::SHN_XINDEX => raw.first().map_or(0, |first| first.sh_link),
        index => index,
    };
    let strings = match raw.get(strings_index as usize) {
        Some(s) if s.sh_type == sh::SHT_STRTAB => data(s),
        _ => return unreadable("no section header string table"),
    };
    raw.iter()
        .enumerate()
        .map(|(index, s)| {
            Ok(Section {
                name: if index == 0 { "" } else { names.get(strings, s.sh_name)? },
                kind: s.sh_type,
                flags: s.sh_flags,
                address: s.sh_addr,
                offset: s.sh_offset,
                align: s.sh_addralign,
                size: s.sh_size,
                link: s.sh_link,
                info: s.sh_info,
                entry_size: s.sh_entsize,
                data: data(s),
                relocations: Vec::new(),
            })
        })
        .collect()
}

fn read_symbols<'a>(
    sections: &[Section<'a>],
    names: &mut Names,
    budget: &mut usize,
) -> Result<Vec<Symbol<'a>>, Unreadable> {
    let mut tables = sections.iter().enumerate().filter(|(_, s)| s.kind == sh::SHT_SYMTAB);
    let Some((index, table)) = tables.next() else {
        return Ok(Vec::new());
    };
    if tables.next().is_some() {
        return unreadable("more than one symbol table");
    }
    if table.entry_size != RawSymbol::size_with(&LE) as u64 {
        return unreadable("symbols have an unknown size");
    }
    if table.size % table.entry_size != 0 {
        return unreadable("the symbol table does not consist of whole entries");
    }
    spend(budget, table.data)?;
    let strings = match sections.get(table.link as usize) {
        Some(s) if s.kind == sh::SHT_STRTAB => s.data,
        _ => return unreadable("the symbol table has no string table"),
    };
    // Section indices that do not fit into 16 bits (gABI, chapter Symbol Table, SHN_XINDEX).
    let wide: Vec<u32> = match sections.iter().find(|s| s.kind == sh::SHT_SYMTAB_SHNDX && s.link as usize == index) {
        Some(s) => {
            spend(budget, s.data)?;
            words(s.data).collect()
        }
        None => Vec::new(),
    };
    let raw: Vec<RawSymbol> = entries(table.data)?;
    raw.iter()
        .enumerate()
        .map(|(i, s)| {
            let place = match u32::from(s.st_shndx) {
                sh::SHN_UNDEF => Place::Undefined,
                sh::SHN_ABS => Place::Absolute,
                sh::SHN_COMMON => Place::Common,
                sh::SHN_XINDEX => match wide.get(i) {
                    Some(&index) if index != 0 && (index as usize) < sections.len() => Place::Section(index as usize),
                    other => Place::Reserved(other.copied().unwrap_or(sh::SHN_XINDEX)),
                },
                index if index < sh::SHN_LORESERVE && (index as usize) < sections.len() => {
                    Place::Section(index as usize)
                }
                index => Place::Reserved(index),
            };
            Ok(Symbol {
                name: names.get(strings, s.st_name)?,
                value: s.st_value,
                size: s.st_size,
                binding: sym::st_bind(s.st_info),
                kind: sym::st_type(s.st_info),
                visibility: sym::st_visibility(s.st_other),
                other: s.st_other & !3,
                place,
            })
        })
        .collect()
}

/// Hands every `SHT_RELA` table to the section it applies to. Tables that name no section are left for the rule
/// `SFI-E05`.
fn read_relocations(sections: &mut [Section<'_>], budget: &mut usize) -> Result<(), Unreadable> {
    for index in 0..sections.len() {
        let table = &sections[index];
        let target = table.info as usize;
        if table.kind != sh::SHT_RELA || target >= sections.len() {
            continue;
        }
        spend(budget, table.data)?;
        let raw: Vec<Rela> = entries(table.data)?;
        sections[target].relocations.extend(raw.iter().map(|r| Relocation {
            offset: r.r_offset,
            kind: reloc::reloc64::r_type(r.r_info),
            symbol: reloc::reloc64::r_sym(r.r_info) as usize,
            addend: r.r_addend,
        }));
    }
    Ok(())
}

fn read_groups(sections: &[Section<'_>], budget: &mut usize) -> Result<Vec<Group>, Unreadable> {
    let mut groups = Vec::new();
    for section in sections.iter().filter(|s| s.kind == sh::SHT_GROUP) {
        spend(budget, section.data)?;
        let mut words = words(section.data);
        if let Some(flags) = words.next() {
            groups.push(Group {
                signature: section.info as usize,
                comdat: flags & 1 != 0,
                members: words.map(|word| word as usize).collect(),
            });
        }
    }
    Ok(groups)
}

/// The little-endian 32-bit words of a table.
pub(crate) fn words(data: &[u8]) -> impl Iterator<Item = u32> + '_ {
    data.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}

/// Tables that do not overlap are together no larger than the file; what claims more is refused before it costs memory.
fn spend(budget: &mut usize, table: &[u8]) -> Result<(), Unreadable> {
    match budget.checked_sub(table.len()) {
        Some(rest) => *budget = rest,
        None => return unreadable("tables overlap: together they are larger than the file"),
    }
    Ok(())
}

/// Reads names and counts their bytes.
struct Names {
    budget: usize,
}

impl Names {
    fn get<'a>(&mut self, strings: &'a [u8], offset: u32) -> Result<&'a str, Unreadable> {
        if offset == 0 {
            return Ok("");
        }
        let Some(tail) = strings.get(offset as usize..) else {
            return unreadable("a name lies outside its string table");
        };
        let Some(length) = tail.iter().take(self.budget).position(|b| *b == 0) else {
            return unreadable("a name has no end, or names overlap too much");
        };
        self.budget -= length;
        std::str::from_utf8(&tail[..length]).map_err(|_| Unreadable("a name is not UTF-8".into()))
    }
}
