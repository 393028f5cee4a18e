//! Both objects, and the new section that took the place of each original one.

use sfi_contract::{Anchor, Anchored};
use sfi_elf::number::{
    SHF_TLS, SHT_GROUP, SHT_NULL, SHT_PROGBITS, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX, STB_LOCAL,
    STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_TLS,
};
use sfi_elf::{Object, Place, Relocation, Section, Symbol};

/// The types `R_X86_64_*` that the validator tells apart.
pub(crate) mod kind {
    pub(crate) use sfi_elf::number::{
        R_X86_64_32 as WORD, R_X86_64_32S as SIGNED_WORD, R_X86_64_64 as ABSOLUTE, R_X86_64_DTPOFF32 as DTPOFF32,
        R_X86_64_DTPOFF64 as DTPOFF64, R_X86_64_GOTOFF64 as GOTOFF64, R_X86_64_GOTPC32 as GOTPC32,
        R_X86_64_GOTPCREL as GOTPCREL, R_X86_64_GOTPCRELX as GOTPCRELX, R_X86_64_GOTTPOFF as GOTTPOFF,
        R_X86_64_NONE as NONE, R_X86_64_PC32 as PC32, R_X86_64_PC64 as PC64, R_X86_64_PLT32 as PLT32,
        R_X86_64_REX_GOTPCRELX as REX_GOTPCRELX, R_X86_64_TLSGD as TLSGD, R_X86_64_TLSLD as TLSLD,
        R_X86_64_TPOFF32 as TPOFF32, R_X86_64_TPOFF64 as TPOFF64,
    };

    /// Says whether the field leads to an entry of the GOT.
    pub(crate) fn is_got(kind: u32) -> bool {
        matches!(kind, GOTPCREL | GOTPCRELX | REX_GOTPCRELX)
    }

    /// Says whether the field holds a distance from the thread pointer.
    pub(crate) fn is_thread(kind: u32) -> bool {
        matches!(kind, TPOFF32 | TPOFF64 | DTPOFF32 | DTPOFF64 | GOTTPOFF)
    }
}

/// A place that a relocation means, in terms of the new object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spot {
    /// A section of data of the new object, without the offset.
    Data(usize),
    /// Code, by section and offset in the new object.
    Code(usize, u64),
    /// A name that the linker resolves.
    Named(String),
    /// The entry of the GOT for a place, which is a spot and an offset.
    Got(Box<Spot>, i64),
    /// A thread local's distance from the thread pointer.
    Thread(Box<Spot>),
    /// The size of a name's object.
    Size(String),
    /// A number.
    Number,
}

/// Returns the place of the window whose offset a relocation means. Here its field holds the
/// place's symbolic number.
pub(crate) fn anchored(object: &Object<'_>, reloc: &Relocation) -> Option<Anchored> {
    let symbol = object.symbols.get(reloc.symbol).filter(|symbol| symbol.place == Place::Undefined)?;
    let anchor = Anchor::named(symbol.name).filter(|_| matches!(reloc.kind, kind::WORD | kind::SIGNED_WORD))?;
    Some(anchor.at(i32::try_from(reloc.addend).ok()?))
}

/// Says whether a symbol is a thread local, or stands for a section of them.
pub(crate) fn is_local(object: &Object<'_>, symbol: usize) -> bool {
    object.symbols.get(symbol).is_some_and(|symbol| match symbol.place {
        Place::Section(section) => object.sections[section].flags & u64::from(SHF_TLS) != 0,
        _ => symbol.kind == STT_TLS,
    })
}

/// Says whether the linker decides the meaning of a symbol.
pub(crate) fn is_open(symbol: &Symbol<'_>) -> bool {
    symbol.binding != STB_LOCAL || symbol.kind == STT_GNU_IFUNC
}

/// Says whether the linker may take another definition of the symbol.
pub(crate) fn is_weak(symbol: &Symbol<'_>) -> bool {
    symbol.binding == STB_WEAK
}

/// Says whether a function begins at the symbol's place.
pub(crate) fn is_function(symbol: &Symbol<'_>) -> bool {
    matches!(symbol.kind, STT_FUNC | STT_GNU_IFUNC)
}

/// Says whether a resolver chooses the meaning of the symbol.
pub(crate) fn is_indirect(symbol: &Symbol<'_>) -> bool {
    symbol.kind == STT_GNU_IFUNC
}

/// The original and the new object.
pub(crate) struct Pair<'a> {
    pub old: Object<'a>,
    pub new: Object<'a>,
    /// The new section of each original one.
    pub new_of: Vec<Option<usize>>,
    /// New sections that hold data from the original text.
    pub carved: Vec<usize>,
}

/// Says whether the section holds one of the file's own tables.
fn is_table(section: &Section<'_>) -> bool {
    matches!(section.kind, SHT_NULL | SHT_SYMTAB | SHT_STRTAB | SHT_RELA | SHT_SYMTAB_SHNDX)
}

/// Says whether a rewrite may leave the section out: it describes the old code, or is for tools.
pub(crate) fn may_go(section: &Section<'_>) -> bool {
    !section.is_allocated()
        || section.name == ".eh_frame"
        || section.name.starts_with(".gcc_except_table")
        || section.kind == SHT_GROUP
}

/// Says whether nothing can lead to a section: no relocation or symbol names it, and its name means
/// nothing to the linker or a program.
fn is_unreachable(object: &Object<'_>, index: usize) -> bool {
    let section = &object.sections[index];
    let own = |place: Place| place == Place::Section(index);
    let plain = section.kind == SHT_PROGBITS && section.name.starts_with('.') && !section.is_executable();
    let known = [".init", ".fini", ".ctors", ".dtors", ".preinit"].iter().any(|name| section.name.starts_with(name));
    let named = |r: &Relocation| object.symbols.get(r.symbol).is_none_or(|s| own(s.place));
    let from = |(at, s): (usize, &Section<'_>)| at != index && s.relocations.iter().any(named);
    let symbols = object.symbols.iter().any(|s| own(s.place) && !s.name.is_empty());
    plain && !known && !symbols && !object.sections.iter().enumerate().any(from)
}

/// Returns the name of a group's signature symbol.
fn signature<'a>(object: &Object<'a>, group: &Section<'a>) -> Option<&'a str> {
    object.symbols.get(group.info as usize).map(|symbol| symbol.name)
}

impl<'a> Pair<'a> {
    /// Reads both objects and pairs their sections, which come in one order. Groups are paired by
    /// their signatures, because a group may go and leave others of its name.
    pub(crate) fn read(old: &'a [u8], new: &'a [u8]) -> Result<Pair<'a>, String> {
        let parse = |bytes| sfi_elf::parse(bytes).map_err(|error| error.to_string());
        let (old, new) = (parse(old)?, parse(new)?);
        let mut new_of = vec![None; old.sections.len()];
        let mut groups = new.sections.iter().enumerate().filter(|(_, s)| s.kind == SHT_GROUP).collect::<Vec<_>>();
        for (index, section) in old.sections.iter().enumerate().filter(|(_, s)| s.kind == SHT_GROUP) {
            let named = signature(&old, section);
            let found = groups.iter().position(|(_, other)| signature(&new, other) == named);
            new_of[index] = found.map(|found| groups.remove(found).0);
        }
        let is_table = |s: &Section<'_>| is_table(s) || s.kind == SHT_GROUP;
        let mut next = 0;
        for (index, section) in old.sections.iter().enumerate().filter(|(_, s)| !is_table(s)) {
            let like = |s: &Section<'_>| {
                // Decompression clears SHF_COMPRESSED.
                s.name == section.name && s.kind == section.kind && s.flags == section.flags & !0x800
            };
            let found = (next..new.sections.len()).find(|&at| !is_table(&new.sections[at]));
            match found.filter(|&at| like(&new.sections[at])) {
                Some(at) => {
                    new_of[index] = Some(at);
                    next = at + 1;
                }
                None if may_go(section) || is_unreachable(&old, index) => {}
                None => return Err(format!("section {} is not in the new object", section.name)),
            }
        }
        let ours = |s: &Section<'_>| s.name == sfi_contract::names::UNWIND_SECTION || s.is_slot_array();
        let carved = (next..new.sections.len()).filter(|&at| {
            let section = &new.sections[at];
            !is_table(section) && section.is_allocated() && !ours(section)
        });
        let carved: Vec<usize> = carved.collect();
        if let Some(&at) = carved.iter().find(|&&at| new.sections[at].name != ".rodata") {
            return Err(format!("section {} is not in the original object", new.sections[at].name));
        }
        Ok(Pair { old, new, new_of, carved })
    }

    /// Returns the place in code of a symbol of the original object, if it has one.
    pub(crate) fn old_code(&self, symbol: usize) -> Option<(usize, u64)> {
        let symbol = self.old.symbols.get(symbol)?;
        match symbol.place {
            Place::Section(section) if self.old.sections[section].is_executable() => Some((section, symbol.value)),
            _ => None,
        }
    }
}

/// Returns the spot and offset of a symbol that is no code of the object. `section` gives the index
/// in the new object of a section.
pub(crate) fn spot_of(
    object: &Object<'_>,
    symbol: usize,
    section: impl Fn(usize) -> Option<usize>,
) -> Option<(Spot, i64)> {
    let symbol = object.symbols.get(symbol)?;
    Some(match symbol.place {
        _ if is_open(symbol) => (Spot::Named(symbol.name.to_owned()), 0),
        Place::Section(index) => (Spot::Data(section(index)?), symbol.value as i64),
        Place::Absolute => (Spot::Number, symbol.value as i64),
        Place::Undefined if symbol.name.is_empty() => (Spot::Number, 0),
        _ => (Spot::Named(symbol.name.to_owned()), 0),
    })
}

/// Returns the relocations of a section in a range of offsets.
pub(crate) fn relocations<'s>(
    section: &'s Section<'_>,
    from: u64,
    to: u64,
) -> impl Iterator<Item = (usize, &'s Relocation)> {
    let first = section.relocations.partition_point(|r| r.offset < from);
    section.relocations.iter().enumerate().skip(first).take_while(move |(_, r)| r.offset < to)
}
