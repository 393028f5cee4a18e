//! Phase 1: the object file as plain tables.
//!
//! Source: System V ABI chapter 4 (Object Files), x86-64 psABI section 4.

use crate::refusal::{Reason, Refusal};
use object::elf;
use object::endian::LittleEndian as LE;
use object::read::elf::{FileHeader, SectionHeader, Sym as _};
use sfi_contract::text::clean;
use sfi_contract::{foreign, intermediate};

/// Index into [`Object::sections`]. It is the index in the file.
pub(crate) type SectionIndex = usize;
/// Index into [`Object::symbols`]. It is the index in the file.
pub(crate) type SymbolIndex = usize;

/// Largest alignment of text. The contract accepts no larger one (SFI-E07), and no code depends on
/// one.
const MAX_TEXT_ALIGN: u64 = 4096;
/// The section of common blocks of the medium code model (psABI, `SHN_X86_64_LCOMMON`). A window is
/// small, so they are common blocks like others.
const LARGE_COMMON: elf::SymbolSection = elf::SymbolSection(0xff02);

/// A relocatable object.
#[derive(Clone)]
pub(crate) struct Object<'a> {
    /// `e_flags`.
    pub flags: u32,
    /// Sections by index. Section 0 is the null section.
    pub sections: Vec<Section<'a>>,
    /// Symbols by index. Symbol 0 is the null symbol.
    pub symbols: Vec<Symbol<'a>>,
}

/// A section and the relocations that apply to it.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub name: &'a [u8],
    pub kind: u32,
    pub flags: u64,
    /// 0 or a power of two, of text at most [`MAX_TEXT_ALIGN`].
    pub align: u64,
    pub entsize: u64,
    pub link: u32,
    pub info: u32,
    /// Size in memory. It differs from `data.len()` for NOBITS.
    pub size: u64,
    pub data: &'a [u8],
    /// Relocations, sorted by offset.
    pub relocs: Vec<Reloc>,
    /// Runs of text that are data and were copied elsewhere (see `carve`), ascending.
    pub gaps: Vec<(u64, u64)>,
}

impl Section<'_> {
    /// Says whether the section holds instructions that will run.
    pub(crate) fn is_code(&self) -> bool {
        self.kind == elf::SHT_PROGBITS.0 && self.flags & elf::SHF_EXECINSTR.0 != 0 && self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Says whether the section is loaded.
    pub(crate) fn is_alloc(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Returns the name for messages.
    pub(crate) fn display_name(&self) -> String {
        clean(self.name)
    }
}

/// The place of a symbol's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Undefined,
    Absolute,
    Common,
    Section(SectionIndex),
}

/// A symbol table entry.
#[derive(Clone)]
pub(crate) struct Symbol<'a> {
    pub name: &'a [u8],
    pub value: u64,
    pub size: u64,
    pub bind: u8,
    pub kind: u8,
    pub other: u8,
    pub place: Place,
}

impl Symbol<'_> {
    /// Returns the offset after the symbol's code or data, or the largest number if its size
    /// overflows.
    pub(crate) fn end(&self) -> u64 {
        self.value.saturating_add(self.size)
    }

    /// Says whether other objects do not see the symbol. They may preempt symbols that they see.
    pub(crate) fn is_local(&self) -> bool {
        self.bind == elf::STB_LOCAL.0
    }

    /// Says whether the place is a resolver's. The name then means the function that the resolver
    /// chooses.
    pub(crate) fn is_indirect(&self) -> bool {
        self.kind == elf::STT_GNU_IFUNC.0
    }

    /// Says whether a linker decides the meaning of the name: it may be preempted, or a resolver
    /// chooses.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_local() || self.is_indirect()
    }

    /// Says whether the linker may take another definition of the symbol.
    pub(crate) fn is_weak(&self) -> bool {
        self.bind == elf::STB_WEAK.0
    }

    /// Says whether a function begins at the symbol's place.
    pub(crate) fn is_function(&self) -> bool {
        self.kind == elf::STT_FUNC.0 || self.is_indirect()
    }
}

/// A relocation with addend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reloc {
    pub offset: u64,
    pub kind: u32,
    pub symbol: SymbolIndex,
    pub addend: i64,
}

fn broken(detail: impl std::fmt::Display) -> Refusal {
    Refusal { detail: detail.to_string(), ..Refusal::of_object(Reason::NotRelocatable) }
}

/// Reads an object.
///
/// # Errors
/// [`Reason::NotRelocatable`] if the file is anything but a well-formed ELF64 x86-64 relocatable.
pub(crate) fn read(bytes: &[u8]) -> Result<Object<'_>, Refusal> {
    if intermediate::is_bitcode(bytes) {
        let detail = intermediate::BITCODE.to_owned();
        return Err(Refusal { detail, ..Refusal::of_object(Reason::IntermediateCode) });
    }
    if let Some(other) = foreign::describe(bytes) {
        return Err(broken(other));
    }
    let header = elf::FileHeader64::<LE>::parse(bytes).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    let table = header.sections(endian, bytes).map_err(broken)?;
    let mut sections = Vec::with_capacity(table.len());
    let mut left = bytes.len();
    for (index, section) in table.enumerate() {
        let name = if index.0 == 0 { &[][..] } else { table.section_name(endian, section).map_err(broken)? };
        let mut data = section.data(endian, bytes).map_err(broken)?;
        if section.sh_type(endian) == elf::SHT_NULL {
            data = &[];
        }
        let mut align = section.sh_addralign(endian);
        if align & align.wrapping_sub(1) != 0 {
            return Err(broken(format!("section {} has the alignment {align:#x}", index.0)));
        }
        let text = elf::SHF_EXECINSTR.0 | elf::SHF_ALLOC.0;
        if section.sh_flags(endian).0 & text == text {
            align = align.min(MAX_TEXT_ALIGN);
        }
        // Every section is copied, and a small file must not become a large one.
        left = left.checked_sub(data.len()).ok_or_else(|| broken("sections overlap in the file"))?;
        sections.push(Section {
            name,
            kind: section.sh_type(endian).0,
            flags: section.sh_flags(endian).0,
            align,
            entsize: section.sh_entsize(endian),
            link: section.sh_link(endian),
            info: section.sh_info(endian),
            size: section.sh_size(endian),
            data,
            relocs: Vec::new(),
            gaps: Vec::new(),
        });
    }

    let symtab = table.symbols(endian, bytes, elf::SHT_SYMTAB).map_err(broken)?;
    let mut symbols = Vec::with_capacity(symtab.len());
    for (index, symbol) in symtab.enumerate() {
        let place = match symbol.st_shndx(endian) {
            elf::SHN_UNDEF => Place::Undefined,
            elf::SHN_ABS => Place::Absolute,
            elf::SHN_COMMON | LARGE_COMMON => Place::Common,
            _ => match symtab.symbol_section(endian, symbol, index).map_err(broken)? {
                Some(section) if section.0 < sections.len() => Place::Section(section.0),
                _ => return Err(broken(format!("symbol {} has a bad section index", index.0))),
            },
        };
        symbols.push(Symbol {
            name: symtab.symbol_name(endian, symbol).map_err(broken)?,
            value: symbol.st_value(endian),
            size: symbol.st_size(endian),
            bind: symbol.st_bind().0,
            kind: symbol.st_type().0,
            other: symbol.st_other().0,
            place,
        });
    }

    for section in table.iter() {
        if section.sh_type(endian) == elf::SHT_REL {
            return Err(broken("SHT_REL relocations do not occur on x86-64"));
        }
        let Some((relas, _)) = section.rela(endian, bytes).map_err(broken)? else { continue };
        let target = section.sh_info(endian) as usize;
        if target == 0 || target >= sections.len() {
            return Err(broken("relocation section without a target"));
        }
        for rela in relas {
            let reloc = Reloc {
                offset: rela.r_offset.get(endian),
                kind: rela.r_type(endian, false).0,
                symbol: rela.r_sym(endian, false) as usize,
                addend: rela.r_addend.get(endian),
            };
            if reloc.symbol >= symbols.len() {
                return Err(broken("relocation with a bad symbol index"));
            }
            sections[target].relocs.push(reloc);
        }
        sections[target].relocs.sort_by_key(|r| r.offset);
    }
    if sections.iter().any(|s| s.kind == elf::SHT_GROUP.0 && s.info as usize >= symbols.len()) {
        return Err(broken("section group with a bad signature"));
    }
    Ok(Object { flags: header.e_flags(endian).0, sections, symbols })
}
