//! The rules about the object as a container: sections, symbols, relocation tables, groups
//! (`SFI-E01` to `SFI-E09`).

use crate::elf::number::relocation_name;
use crate::elf::{Object, Place, Relocation, Section, Symbol, number as n, words};
use crate::relocation::{data_width, text_width};
use crate::report::Findings;
use sfi_contract::layout::WINDOW_SIZE;
use sfi_contract::{Rule, intermediate};

/// Largest alignment that a section or common symbol may ask for: a huge page. Bytes.
const MAX_ALIGN: u64 = 2 << 20;
/// Largest alignment of text: a page. The loader fills the padding of text and the verifier decodes
/// it, so a small object with a large alignment would cost gigabytes. Bytes.
const MAX_TEXT_ALIGN: u64 = 4096;

/// Flags that an executable section may have.
const TEXT_FLAGS: u64 = (n::SHF_ALLOC | n::SHF_EXECINSTR | n::SHF_GROUP | n::SHF_GNU_RETAIN) as u64;
/// Flags that an allocated section of data may have.
const DATA_FLAGS: u64 = (n::SHF_ALLOC
    | n::SHF_WRITE
    | n::SHF_MERGE
    | n::SHF_STRINGS
    | n::SHF_INFO_LINK
    | n::SHF_LINK_ORDER
    | n::SHF_GROUP
    | n::SHF_TLS
    | n::SHF_GNU_RETAIN
    | n::SHF_X86_64_LARGE) as u64;

/// Applies every rule of this module.
pub(crate) fn check(object: &Object<'_>, file_size: u64, findings: &mut Findings) {
    for (index, section) in object.sections.iter().enumerate() {
        findings.section = Some(index);
        check_bounds(section, file_size, findings);
        check_executable(section, findings);
        check_kind(index, section, findings);
        if intermediate::is_section(section.name.as_bytes()) {
            findings.add(Rule::IntermediateCode, 0, "a linker may compile it");
        }
    }
    check_overlap(object, findings);
    findings.section = None;
    check_symbols(object, findings);
    check_relocation_tables(object, findings);
    check_relocations(object, findings);
    check_groups(object, findings);
    findings.section = None;
}

/// Checks rule `SFI-E01`: the section lies in the file and fits into a window.
fn check_bounds(section: &Section<'_>, file_size: u64, findings: &mut Findings) {
    let inside = section.offset.checked_add(section.size).is_some_and(|end| end <= file_size);
    if section.has_file_bytes() && !inside {
        findings.add(Rule::SectionBounds, 0, format!("{:#x} bytes at {:#x} of the file", section.size, section.offset));
    } else if section.is_allocated() && section.size >= WINDOW_SIZE {
        findings.add(Rule::SectionBounds, 0, format!("{:#x} bytes do not fit into a window", section.size));
    }
}

/// Checks rule `SFI-E01`: no byte of the file belongs to two sections, or to a section and the ELF
/// header.
fn check_overlap(object: &Object<'_>, findings: &mut Findings) {
    let mut ranges: Vec<(u64, u64, usize)> = object
        .sections
        .iter()
        .enumerate()
        .filter(|(_, s)| s.has_file_bytes() && s.size != 0)
        .map(|(i, s)| (s.offset, s.offset.saturating_add(s.size), i))
        .collect();
    ranges.push((0, n::SIZEOF_EHDR as u64, 0));
    ranges.sort_unstable();
    let mut end = 0;
    let mut before = 0;
    for (start, stop, index) in ranges {
        if start < end {
            findings.section = Some(index);
            let other = object.sections.get(before).map_or("", |s| s.name);
            let other = if before == 0 { "the ELF header".to_owned() } else { format!("`{other}`") };
            findings.add(Rule::SectionBounds, 0, format!("shares bytes of the file with {other}"));
        }
        if stop > end {
            (end, before) = (stop, index);
        }
    }
}

/// Checks rule `SFI-E02`: an executable section is text and nothing else.
fn check_executable(section: &Section<'_>, findings: &mut Findings) {
    if !section.is_executable() {
        return;
    }
    let why = if section.kind != n::SHT_PROGBITS {
        format!("executable, but of type {}", n::sht_to_str(section.kind))
    } else if !section.is_allocated() {
        "executable, but not allocated".to_owned()
    } else if section.flags & u64::from(n::SHF_WRITE) != 0 {
        "executable and writable".to_owned()
    } else if section.flags & !TEXT_FLAGS != 0 {
        format!("executable, with the flags {:#x} beside", section.flags & !TEXT_FLAGS)
    } else {
        return;
    };
    findings.add(Rule::ExecutableData, 0, why);
}

/// Checks rule `SFI-E07`: an allocated section has a known type, flags, alignment and address.
fn check_kind(index: usize, section: &Section<'_>, findings: &mut Findings) {
    let mut add = |detail: String| findings.add(Rule::SectionKind, 0, detail);
    if (index == 0) != (section.kind == n::SHT_NULL) {
        add("section 0, and no other, is the null section".into());
    }
    if !section.is_allocated() {
        return;
    }
    let known = matches!(
        section.kind,
        n::SHT_PROGBITS
            | n::SHT_NOBITS
            | n::SHT_NOTE
            | n::SHT_INIT_ARRAY
            | n::SHT_FINI_ARRAY
            | n::SHT_PREINIT_ARRAY
            | n::SHT_X86_64_UNWIND
    );
    if !known {
        add(format!("an allocated section of type {:#x}", section.kind));
    }
    if !section.is_executable() && section.flags & !DATA_FLAGS != 0 {
        add(format!("an allocated section with the flags {:#x}", section.flags & !DATA_FLAGS));
    }
    let largest = if section.is_executable() { MAX_TEXT_ALIGN } else { MAX_ALIGN };
    if section.align > largest || section.align > 1 && !section.align.is_power_of_two() {
        add(format!("an alignment of {:#x}", section.align));
    }
    if section.address != 0 {
        add(format!("an address, {:#x}, in a relocatable object", section.address));
    }
}

/// Checks rule `SFI-E04`: symbols have known types, bindings and places.
fn check_symbols(object: &Object<'_>, findings: &mut Findings) {
    let in_text = |symbol: &Symbol<'_>| match symbol.place {
        Place::Section(section) => object.sections[section].is_executable(),
        _ => false,
    };
    for (index, symbol) in object.symbols.iter().enumerate() {
        let mut refuse = |why: String| {
            findings.section = None;
            findings.add(Rule::SymbolKind, 0, format!("symbol {index} `{}` {why}", symbol.name));
        };
        if index == 0 {
            let words = symbol.value | symbol.size;
            let bytes = symbol.kind | symbol.binding | symbol.visibility | symbol.other;
            if symbol.place != Place::Undefined || !symbol.name.is_empty() || words != 0 || bytes != 0 {
                refuse("is not the null symbol".into());
            }
            continue;
        }
        match symbol.kind {
            n::STT_NOTYPE | n::STT_OBJECT | n::STT_FUNC => {}
            n::STT_SECTION | n::STT_FILE | n::STT_COMMON | n::STT_TLS => {}
            // The loader calls an IFUNC's resolver in the sealed domain, like any other code of the
            // domain.
            n::STT_GNU_IFUNC if in_text(symbol) => {}
            n::STT_GNU_IFUNC => refuse("is an IFUNC without a resolver in text".into()),
            kind => refuse(format!("has the type {kind}")),
        }
        if !matches!(symbol.binding, n::STB_LOCAL | n::STB_GLOBAL | n::STB_WEAK | n::STB_GNU_UNIQUE) {
            refuse(format!("has the binding {}", symbol.binding));
        }
        if symbol.other != 0 {
            refuse(format!("has st_other bits {:#x}", symbol.other));
        }
        match symbol.place {
            Place::Undefined | Place::Absolute => {}
            Place::Common => {
                let align = symbol.value;
                if align > MAX_ALIGN || align > 1 && !align.is_power_of_two() || symbol.size >= WINDOW_SIZE {
                    refuse(format!("is common with size {:#x} and alignment {align:#x}", symbol.size));
                }
            }
            Place::Section(section) => {
                let section = &object.sections[section];
                // In text, rule `SFI-E03` checks the place.
                if symbol.value > section.size && !section.is_executable() {
                    refuse(format!("lies at {:#x}, after the end of `{}`", symbol.value, section.name));
                }
                if symbol.kind == n::STT_TLS && section.flags & u64::from(n::SHF_TLS) == 0 {
                    refuse(format!("is thread-local, but `{}` is not", section.name));
                }
                if symbol.kind == n::STT_FILE {
                    refuse("is a file name with a place".into());
                }
            }
            Place::Reserved(index) => refuse(format!("has the section index {index:#x}")),
        }
    }
}

/// Checks rule `SFI-E05` for the tables: known form, known target, one table for each target.
fn check_relocation_tables(object: &Object<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for (index, table) in object.sections.iter().enumerate() {
        findings.section = Some(index);
        let mut add = |detail: &str| findings.add(Rule::RelocationTable, 0, detail);
        match table.kind {
            n::SHT_REL | n::SHT_RELR | n::SHT_CREL => add("relocations without addends, or packed ones"),
            n::SHT_RELA => {
                seen.resize(object.sections.len(), false);
                if table.entry_size != 24 || table.size % 24 != 0 {
                    add("the table does not consist of whole entries");
                }
                if table.is_allocated() {
                    add("the table is allocated");
                }
                if !names_symbols(object, table) {
                    add("the table names no symbol table");
                }
                match object.sections.get(table.info as usize).filter(|_| table.info != 0) {
                    None => add("the table applies to no section"),
                    Some(target) if !target.has_file_bytes() => add("the table applies to a section without bytes"),
                    Some(target)
                        if matches!(target.kind, n::SHT_RELA | n::SHT_SYMTAB | n::SHT_STRTAB | n::SHT_GROUP) =>
                    {
                        add("the table applies to a table");
                    }
                    Some(_) if std::mem::replace(&mut seen[table.info as usize], true) => {
                        add("another table applies to the same section");
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
}

/// Says whether the table's link leads to a symbol table.
fn names_symbols(object: &Object<'_>, table: &Section<'_>) -> bool {
    object.sections.get(table.link as usize).is_some_and(|s| s.kind == n::SHT_SYMTAB)
}

/// Checks rule `SFI-E05` for the entries.
fn check_relocations(object: &Object<'_>, findings: &mut Findings) {
    for (index, section) in object.sections.iter().enumerate() {
        findings.section = Some(index);
        let mut add = |offset: u64, detail: String| findings.add(Rule::RelocationTable, offset, detail);
        let mut before = (0, 0);
        for relocation in &section.relocations {
            let Relocation { offset, kind, symbol, .. } = *relocation;
            if symbol >= object.symbols.len().max(1) {
                add(offset, format!("the relocation names symbol {symbol}, which is not there"));
            }
            let width = match section.is_executable() {
                _ if !section.is_allocated() => continue,
                // Rule `SFI-R02` decides which types may patch text.
                true => text_width(kind).or(Some(1)),
                false => data_width(kind),
            };
            match width.map(|width| offset.checked_add(width)) {
                Some(Some(end)) if end <= section.size => {
                    if offset < before.1 {
                        add(offset, format!("the relocation overlaps the one at {:#x}", before.0));
                    }
                    before = (offset, end);
                }
                Some(_) => add(offset, "the relocation lies outside its section".into()),
                None => add(offset, format!("type {kind} ({}) may not patch data", relocation_name(kind))),
            }
        }
    }
}

/// Checks rule `SFI-E06`: groups have a signature and valid members.
fn check_groups(object: &Object<'_>, findings: &mut Findings) {
    let mut owner = Vec::new();
    for (index, group) in object.sections.iter().enumerate().filter(|(_, s)| s.kind == n::SHT_GROUP) {
        findings.section = Some(index);
        owner.resize(object.sections.len(), 0);
        let mut add = |offset: usize, detail: String| findings.add(Rule::GroupTable, offset as u64, detail);
        if group.is_allocated() {
            add(0, "the group is allocated".into());
        }
        if group.data.is_empty() || group.data.len() % 4 != 0 {
            add(0, "the table does not consist of whole entries".into());
        }
        if !names_symbols(object, group) {
            add(0, "the group names no symbol table".into());
        }
        if group.info == 0 || group.info as usize >= object.symbols.len() {
            add(0, format!("the signature is symbol {}, which is not there", group.info));
        }
        for (position, word) in words(group.data).enumerate() {
            let member = word as usize;
            let offset = position * 4;
            if position == 0 {
                if word > 1 {
                    add(offset, format!("the flags are {word:#x}"));
                }
                continue;
            }
            match object.sections.get(member).filter(|_| member != 0) {
                None => add(offset, format!("member {member} is not there")),
                Some(section) if matches!(section.kind, n::SHT_GROUP | n::SHT_SYMTAB | n::SHT_STRTAB) => {
                    add(offset, format!("member {member} `{}` is a table", section.name));
                }
                Some(section) if owner[member] != 0 => {
                    let (name, first) = (section.name, owner[member]);
                    add(offset, format!("member {member} `{name}` is already in the group of section {first}"));
                }
                Some(_) => owner[member] = index,
            }
        }
    }
}
