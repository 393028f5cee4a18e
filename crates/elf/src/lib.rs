//! The only trusted ELF reader. The loader uses its model too, so the verified object is the loaded
//! one.
//!
//! It reads 64-bit little-endian x86-64 relocatable objects (System V gABI, chapters *Object Files*
//! and *Sections*). It reads as much as it can and judges nothing: the verifier has rules about
//! structural oddities (`SFI-E01` to `SFI-E09`). An object that has no reading at all is
//! [`Unreadable`].
//!
//! Names of sections and symbols are printable, so that every user may print them. An object with
//! other names is [`Unreadable`].
//!
//! Nothing here panics. Time and memory are linear in the file's size. The bytes of a table bound
//! the table, the file bounds all tables together, and `NAME_BUDGET` times the file bounds the
//! names.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod archive;
pub mod resolve;

/// ELF's numbers by the names of its specifications, for the crates that use this model.
pub mod number {
    pub use goblin::elf::header::EM_X86_64;
    pub use goblin::elf::reloc::{
        R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_DTPOFF32, R_X86_64_DTPOFF64, R_X86_64_GOTOFF64,
        R_X86_64_GOTPC32, R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_GOTTPOFF, R_X86_64_NONE, R_X86_64_PC32,
        R_X86_64_PC64, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX, R_X86_64_SIZE32, R_X86_64_SIZE64, R_X86_64_TLSGD,
        R_X86_64_TLSLD, R_X86_64_TPOFF32, R_X86_64_TPOFF64,
    };
    pub use goblin::elf::section_header::{
        SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHF_GROUP, SHF_INFO_LINK, SHF_LINK_ORDER, SHF_MERGE, SHF_STRINGS,
        SHF_TLS, SHF_WRITE, SHN_COMMON, SHN_UNDEF, SHT_FINI_ARRAY, SHT_GROUP, SHT_INIT_ARRAY, SHT_NOBITS, SHT_NOTE,
        SHT_NULL, SHT_PREINIT_ARRAY, SHT_PROGBITS, SHT_REL, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX,
        SHT_X86_64_UNWIND, sht_to_str,
    };
    pub use goblin::elf::sym::{
        STB_GLOBAL, STB_GNU_UNIQUE, STB_LOCAL, STB_WEAK, STT_COMMON, STT_FILE, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE,
        STT_OBJECT, STT_SECTION, STT_TLS,
    };
    pub use goblin::elf64::header::SIZEOF_EHDR;

    /// A table of relative relocations in packed form (gABI, *Relative Relocation Table*).
    pub const SHT_RELR: u32 = 19;
    /// A table of relocations in packed form (LLVM, *CREL*).
    pub const SHT_CREL: u32 = 0x4000_0014;
    /// A section that a linker keeps (GNU).
    pub const SHF_GNU_RETAIN: u32 = 1 << 21;
    /// A section that may lie beyond 2 GiB (psABI 4.2.1).
    pub const SHF_X86_64_LARGE: u32 = 1 << 28;

    /// Returns the name of a relocation's type as readelf prints it.
    pub fn relocation_name(kind: u32) -> &'static str {
        goblin::elf::reloc::r_to_str(kind, EM_X86_64)
    }
}

use goblin::elf::{header, section_header as sh, sym};
use sfi_contract::foreign;
use sfi_contract::intermediate::{self, is_bitcode};
use sfi_contract::names::SLOTS_SECTION;
use sfi_contract::text::is_unprintable;

/// Bytes of symbol and section names that are handed out, in units of the file's size. Names may
/// share the bytes of a string table, so their sum may exceed the table. Without a bound it could
/// grow with the square of the file.
const NAME_BUDGET: usize = 16;

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
    /// `sh_offset`: the place of `data` in the file.
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
    /// The section's bytes. Empty for `SHT_NOBITS`, `SHT_NULL` and for a section that lies outside
    /// the file.
    pub data: &'a [u8],
    /// The entries of all `SHT_RELA` sections that apply to this section, by offset. Entries with
    /// one offset keep the file's order.
    pub relocations: Vec<Relocation>,
}

/// One symbol.
#[derive(Clone, Debug)]
pub struct Symbol<'a> {
    /// Name. Empty for section symbols.
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
    /// The place of its definition.
    pub place: Place,
}

/// The place of a symbol's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not in this object.
    Undefined,
    /// `SHN_ABS`.
    Absolute,
    /// `SHN_COMMON`.
    Common,
    /// In the section with this index. The section exists.
    Section(usize),
    /// Any other section index, reserved or out of range. The verifier refuses it (`SFI-E04`).
    Reserved(u32),
}

/// One relocation with addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset in the section that it applies to, bytes.
    pub offset: u64,
    /// `R_X86_64_*`.
    pub kind: u32,
    /// Index of the symbol. It may be out of range until the verifier accepts the object
    /// (`SFI-E05`).
    pub symbol: usize,
    /// Addend.
    pub addend: i64,
}

/// One section group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Index of the signature symbol. It may be out of range until the verifier accepts the object
    /// (`SFI-E06`).
    pub signature: usize,
    /// `GRP_COMDAT`: of the groups with one signature, the linker keeps one.
    pub comdat: bool,
    /// Indices of the member sections. They may be out of range until the verifier accepts the
    /// object.
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
    /// Says whether it is part of the domain's memory (`SHF_ALLOC`). An inactive section
    /// (`SHT_NULL`) is part of nothing.
    pub fn is_allocated(&self) -> bool {
        self.kind != sh::SHT_NULL && self.flags & u64::from(sh::SHF_ALLOC) != 0
    }

    /// Says whether it is text (`SHF_EXECINSTR`).
    pub fn is_executable(&self) -> bool {
        self.kind != sh::SHT_NULL && self.flags & u64::from(sh::SHF_EXECINSTR) != 0
    }

    /// Says whether it is an array of dispatch slots, which becomes no memory of its own.
    pub fn is_slot_array(&self) -> bool {
        self.name == SLOTS_SECTION
    }

    /// Says whether it has bytes in the file.
    pub fn has_file_bytes(&self) -> bool {
        self.kind != sh::SHT_NOBITS && self.kind != sh::SHT_NULL
    }
}

/// Reads an object.
///
/// # Errors
/// [`Unreadable`] if the bytes are not an ELF64 x86-64 relocatable, or if a table that the model
/// needs (headers, string tables, the symbol table) cannot be read.
pub fn parse(bytes: &[u8]) -> Result<Object<'_>, Unreadable> {
    let (table, strings) = read_header(bytes)?;
    let mut names = Names { budget: bytes.len().saturating_mul(NAME_BUDGET) };
    let mut sections = read_sections(bytes, table, strings, &mut names)?;
    let mut budget = bytes.len();
    let symbols = read_symbols(&sections, &mut names, &mut budget)?;
    read_relocations(&mut sections, &mut budget)?;
    let groups = read_groups(&sections, &mut budget)?;
    Ok(Object { sections, symbols, groups })
}

/// An entry of a table. It may be cut short.
#[derive(Clone, Copy)]
struct TableEntry<'a>(&'a [u8]);

impl TableEntry<'_> {
    /// Returns `N` bytes at an offset. Missing bytes count as 0.
    fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn u8(self, at: usize) -> u8 {
        u8::from_le_bytes(self.bytes(at))
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

/// Returns the entries of a table. A last piece shorter than an entry is left out.
fn entries<const SIZE: usize>(table: &[u8]) -> impl ExactSizeIterator<Item = TableEntry<'_>> {
    table.as_chunks::<SIZE>().0.iter().map(|entry| TableEntry(entry))
}

/// Sizes of the ELF header, a section header, a symbol and a relocation with addend. Bytes.
const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const RELA: usize = 24;

/// Returns the section headers, and the index of the section with their names.
fn read_header(bytes: &[u8]) -> Result<(&[u8], u32), Unreadable> {
    if is_bitcode(bytes) {
        return unreadable(intermediate::BITCODE);
    }
    if let Some(other) = foreign::describe(bytes) {
        return unreadable(other);
    }
    let Some(header) = bytes.get(..HEADER).map(TableEntry) else { return unreadable("the ELF header is cut short") };
    if header.u8(header::EI_VERSION) != header::EV_CURRENT || header.u32(20) != u32::from(header::EV_CURRENT) {
        return unreadable("unknown ELF version");
    }
    let (start, size, count, names) = (header.u64(40), header.u16(58), header.u16(60), header.u16(62));
    if usize::from(size) != SECTION {
        return unreadable("section headers have an unknown size");
    }
    let Some(table) = usize::try_from(start).ok().filter(|o| *o != 0).and_then(|o| bytes.get(o..)) else {
        return unreadable("no section header table");
    };
    // Numbers that do not fit into 16 bits are in section 0 (gABI, chapter Sections, Extended
    // numbering).
    let first = TableEntry(table.get(..SECTION).unwrap_or_default());
    let count = if count == 0 { first.u64(32) } else { count.into() };
    let names = if u32::from(names) == sh::SHN_XINDEX { first.u32(40) } else { names.into() };
    match usize::try_from(count).ok().and_then(|n| n.checked_mul(SECTION)).and_then(|size| table.get(..size)) {
        Some(table) if !table.is_empty() => Ok((table, names)),
        _ => unreadable("the section header table lies outside the file"),
    }
}

fn read_sections<'a>(
    bytes: &'a [u8],
    table: &[u8],
    strings: u32,
    names: &mut Names,
) -> Result<Vec<Section<'a>>, Unreadable> {
    let data = |s: TableEntry<'_>| -> &'a [u8] {
        if matches!(s.u32(4), sh::SHT_NOBITS | sh::SHT_NULL) {
            return &[];
        }
        let range = usize::try_from(s.u64(24)).ok().zip(usize::try_from(s.u64(32)).ok());
        range.and_then(|(start, size)| bytes.get(start..start.checked_add(size)?)).unwrap_or(&[])
    };
    let strings = match entries::<SECTION>(table).nth(strings as usize) {
        Some(s) if s.u32(4) == sh::SHT_STRTAB => Strings::new(data(s)),
        _ => return unreadable("no section header string table"),
    };
    let mut sections = Vec::with_capacity(table.len() / SECTION);
    for s in entries::<SECTION>(table) {
        sections.push(Section {
            name: if sections.is_empty() { "" } else { names.get(strings, s.u32(0))? },
            kind: s.u32(4),
            flags: s.u64(8),
            address: s.u64(16),
            offset: s.u64(24),
            align: s.u64(48),
            size: s.u64(32),
            link: s.u32(40),
            info: s.u32(44),
            entry_size: s.u64(56),
            data: data(s),
            relocations: Vec::new(),
        });
    }
    Ok(sections)
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
    if table.entry_size != SYMBOL as u64 {
        return unreadable("symbols have an unknown size");
    }
    if table.size % table.entry_size != 0 {
        return unreadable("the symbol table does not consist of whole entries");
    }
    spend(budget, table.data)?;
    let strings = match sections.get(table.link as usize) {
        Some(s) if s.kind == sh::SHT_STRTAB => Strings::new(s.data),
        _ => return unreadable("the symbol table has no string table"),
    };
    // Section indices that do not fit into 16 bits (gABI, chapter Symbol Table, SHN_XINDEX).
    let wide = match sections.iter().find(|s| s.kind == sh::SHT_SYMTAB_SHNDX && s.link as usize == index) {
        Some(s) => {
            spend(budget, s.data)?;
            s.data.as_chunks::<4>().0
        }
        None => &[],
    };
    let mut symbols = Vec::with_capacity(table.data.len() / SYMBOL);
    for s in entries::<SYMBOL>(table.data) {
        let place = match s.u16(6).into() {
            sh::SHN_UNDEF => Place::Undefined,
            sh::SHN_ABS => Place::Absolute,
            sh::SHN_COMMON => Place::Common,
            sh::SHN_XINDEX => match wide.get(symbols.len()).map(|word| u32::from_le_bytes(*word)) {
                Some(index) if index != 0 && (index as usize) < sections.len() => Place::Section(index as usize),
                other => Place::Reserved(other.unwrap_or(sh::SHN_XINDEX)),
            },
            index if index < sh::SHN_LORESERVE && (index as usize) < sections.len() => Place::Section(index as usize),
            index => Place::Reserved(index),
        };
        let (info, other) = (s.u8(4), s.u8(5));
        symbols.push(Symbol {
            name: names.get(strings, s.u32(0))?,
            value: s.u64(8),
            size: s.u64(16),
            binding: sym::st_bind(info),
            kind: sym::st_type(info),
            visibility: sym::st_visibility(other),
            other: other & !3,
            place,
        });
    }
    Ok(symbols)
}

/// Gives the entries of every `SHT_RELA` table to the section that it applies to. Rule `SFI-E05`
/// judges tables that name no section.
fn read_relocations(sections: &mut [Section<'_>], budget: &mut usize) -> Result<(), Unreadable> {
    for index in 0..sections.len() {
        let table = &sections[index];
        let data = table.data;
        let target = table.info as usize;
        if table.kind != sh::SHT_RELA || target >= sections.len() {
            continue;
        }
        spend(budget, data)?;
        sections[target].relocations.extend(entries::<RELA>(data).map(|r| Relocation {
            offset: r.u64(0),
            kind: r.u32(8),
            symbol: r.u32(12) as usize,
            addend: r.u64(16) as i64,
        }));
    }
    for Section { relocations, .. } in sections {
        if !relocations.is_sorted_by_key(|r| r.offset) {
            relocations.sort_by_key(|r| r.offset);
        }
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

/// Returns the little-endian 32-bit words of a table.
pub fn words(data: &[u8]) -> impl Iterator<Item = u32> + '_ {
    data.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}

/// Takes a table's size off the budget. Tables that do not overlap are together no larger than the
/// file. Tables that claim more are refused before they cost memory.
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

/// A table of names.
#[derive(Clone, Copy)]
struct Strings<'a> {
    bytes: &'a [u8],
    /// The bytes as text, if all are printable ASCII. This is the common case, and one pass finds
    /// it for all names.
    text: Option<&'a str>,
}

impl<'a> Strings<'a> {
    fn new(bytes: &'a [u8]) -> Strings<'a> {
        let plain = bytes.iter().fold(true, |all, b| all & (matches!(b, b' '..=b'~') | (*b == 0)));
        Strings { bytes, text: std::str::from_utf8(bytes).ok().filter(|_| plain) }
    }
}

impl Names {
    fn get<'a>(&mut self, strings: Strings<'a>, offset: u32) -> Result<&'a str, Unreadable> {
        if offset == 0 {
            return Ok("");
        }
        let start = offset as usize;
        let Some(tail) = strings.bytes.get(start..) else {
            return unreadable("a name lies outside its string table");
        };
        let length = memchr::memchr(0, tail);
        let Some((length, rest)) = length.and_then(|length| Some((length, self.budget.checked_sub(length)?))) else {
            return unreadable("a name has no end, or names overlap too much");
        };
        self.budget = rest;
        let name = match strings.text {
            Some(text) => text.get(start..start + length),
            None => std::str::from_utf8(&tail[..length]).ok().filter(|name| !name.contains(is_unprintable)),
        };
        name.ok_or_else(|| Unreadable("a name is not UTF-8, or holds control characters".into()))
    }
}
