//! Phase 10: the tables of the new object. Sections are kept, text is replaced, and symbols and
//! relocations move.

use crate::analysis::arrays::Arrays;
use crate::analysis::pads::Pads;
use crate::analysis::r15::kept::Homes;
use crate::analysis::r15::slot::Slots;
use crate::analysis::trees::Trees;
use crate::debug::{DebugReloc, DebugSection, DebugTarget};
use crate::object::address::{Addresses, is_dropped};
use crate::object::decode::{CodeMap, InsnIndex, PerInsn};
use crate::object::read::{Place, SectionIndex, SymbolIndex};
use crate::output::object::{Contents, NewObject, NewPlace, NewReloc, NewSection, NewSymbol};
use crate::output::unwind_table;
use crate::refusal::{Reason, Refusal};
use crate::text::emit::address_of;
use crate::text::emit::{Label, LoaderSymbol, Target, old};
use crate::text::layout::{Text, TextReloc};
use crate::text::originals::Originals;
use crate::unwind::Unwind;
use foldhash::{HashMap, HashMapExt};
use object::elf;
use sfi_contract::names::{LABEL_PREFIX, NOTE_SECTION, SLOTS_SECTION};
use sfi_contract::{Mode, intermediate, note::Note};
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Relocation types that data of a domain may have.
const DATA_RELOCATIONS: [u32; 10] = [
    elf::R_X86_64_64.0,
    elf::R_X86_64_PC64.0,
    elf::R_X86_64_DTPOFF64.0,
    elf::R_X86_64_TPOFF64.0,
    elf::R_X86_64_PC32.0,
    elf::R_X86_64_PLT32.0,
    elf::R_X86_64_32.0,
    elf::R_X86_64_32S.0,
    elf::R_X86_64_GOTPCREL.0,
    elf::R_X86_64_TPOFF32.0,
];

/// The inputs of the unwind tables.
pub(crate) struct Exceptions<'x> {
    pub unwind: &'x Unwind,
    /// Unit of each instruction.
    pub units: &'x PerInsn<u32>,
    pub r15: &'x Homes,
    pub slots: &'x Slots,
}

/// Assembles the new object's tables. `texts` are in the order of [`CodeMap::sections`].
///
/// # Errors
/// [`Reason::Relocation`] where a kept section refers to one that is not kept.
pub(crate) fn assemble<'a>(
    code: &Originals<'_, 'a>,
    addresses: &Addresses,
    (pads, trees, arrays): (&Pads, &Trees, &Arrays),
    texts: Vec<Text>,
    debug: Vec<DebugSection>,
    exceptions: &Exceptions<'_>,
    (mode, budget): (Mode, bool),
) -> Result<NewObject<'a>, Vec<Refusal>> {
    let object = code.object;
    let keep: Vec<bool> = (0..object.sections.len()).map(|index| is_kept(code, index)).collect();
    let mut section_map = vec![0usize; object.sections.len()];
    let mut count = 0;
    for (index, _) in keep.iter().enumerate().filter(|(_, keep)| **keep) {
        count += 1;
        section_map[index] = count;
    }
    let mut symbols = Symbols::new(code, &texts, &section_map);
    for text in &texts {
        for reloc in &text.relocs {
            symbols.need(reloc.target);
        }
    }
    let stays = |section: SectionIndex, number: usize| {
        let offset = object.sections[section].relocs[number].offset;
        !trees.leaves_out(section, offset)
    };
    for (_, data) in addresses.data.iter().filter(|((section, number), _)| stays(*section, *number)) {
        symbols.need(address_of(pads, data.dest));
    }
    let words: Vec<Target> = arrays.words.iter().map(|at| old(*at).into()).collect();
    words.iter().for_each(|target| symbols.need(*target));
    // The note, the arrays of slots and the debug sections come after the kept ones.
    let behind = count + 2 + usize::from(!words.is_empty());
    if !words.is_empty() {
        symbols.sections.insert(count + 2);
    }
    let debug_index: Vec<(&'static str, usize)> =
        debug.iter().enumerate().map(|(number, section)| (section.name, behind + number)).collect();
    for section in &debug {
        symbols.need_sections(section, &debug_index);
    }
    for label in unwind_table::needs(exceptions.unwind, code) {
        symbols.need(Target::Label(label));
    }
    let (table, mut numbers) = symbols.finish();
    numbers.arrays = numbers.sections.get(&(count + 2)).copied().unwrap_or(0);

    let mut refusals = Vec::new();
    // The unwind tables come last, each in the group of its code.
    let mut unwind_tables = Vec::new();
    let mut beside = HashMap::new();
    for (index, text) in texts.iter().enumerate() {
        let r15 = |at: InsnIndex| {
            let unit = exceptions.units[at];
            (exceptions.r15[unit], exceptions.slots.depth(unit).is_some())
        };
        match unwind_table::emit(exceptions.unwind, code, r15, index, text, |target| numbers.of_target(target)) {
            Ok(Some(table)) => {
                beside.insert(code.sections[index].section, behind + debug.len() + unwind_tables.len());
                unwind_tables.push(table);
            }
            Ok(None) => {}
            Err(refusal) => refusals.push(refusal),
        }
    }
    let mut texts: HashMap<SectionIndex, Text> = code.sections.iter().map(|s| s.section).zip(texts).collect();
    let mut sections = Vec::with_capacity(count + 1);
    for (index, section) in object.sections.iter().enumerate().filter(|(index, _)| keep[*index]) {
        let mut new = NewSection {
            name: Cow::Borrowed(section.name),
            kind: section.kind,
            flags: section.flags & !elf::SHF_COMPRESSED.0,
            align: section.align,
            entsize: section.entsize,
            link: if section.flags & elf::SHF_LINK_ORDER.0 != 0 { section_map[section.link as usize] } else { 0 },
            size: section.size,
            contents: Contents::NoBits,
            relocs: Vec::new(),
        };
        if let Some(text) = texts.remove(&index) {
            new.size = text.bytes.len() as u64;
            new.relocs = text.relocs.iter().map(|r| text_reloc(&numbers, r)).collect();
            new.contents = Contents::Data(Cow::Owned(text.bytes));
        } else if section.kind == elf::SHT_GROUP.0 {
            let words: Vec<u32> =
                section.data.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
            let old = || words.iter().skip(1).map(|&m| m as usize);
            let members = old().filter_map(|m| section_map.get(m).copied()).filter(|m| *m != 0);
            let members = members.chain(old().filter_map(|m| beside.get(&m).copied()));
            new.contents = Contents::Group {
                flags: words.first().copied().unwrap_or(0),
                signature: numbers.of_symbol(section.info as usize),
                members: members.collect(),
            };
        } else {
            if section.kind != elf::SHT_NOBITS.0 {
                new.contents = Contents::Data(Cow::Borrowed(section.data));
            }
            for (number, reloc) in section.relocs.iter().enumerate().filter(|(number, _)| stays(index, *number)) {
                if let Some(data) = addresses.data.get(&(index, number)) {
                    new.relocs.push(NewReloc {
                        offset: reloc.offset,
                        kind: reloc.kind,
                        symbol: numbers.of_target(address_of(pads, data.dest)),
                        addend: data.addend,
                    });
                    continue;
                }
                if section.is_alloc() && !DATA_RELOCATIONS.contains(&reloc.kind) {
                    let detail =
                        format!("relocation type {} in data: a domain has nothing that it could mean", reloc.kind);
                    refusals.push(code.refuse_offset(index, reloc.offset, Reason::Relocation, detail));
                }
                let symbol = numbers.of_symbol(reloc.symbol);
                if symbol == 0 && reloc.symbol != 0 {
                    let detail = "the relocation refers to a section that is not carried over";
                    refusals.push(code.refuse_offset(index, reloc.offset, Reason::Relocation, detail));
                }
                new.relocs.push(NewReloc { offset: reloc.offset, kind: reloc.kind, symbol, addend: reloc.addend });
            }
        }
        sections.push(new);
    }
    sections.push(NewSection {
        name: Cow::Borrowed(NOTE_SECTION.as_bytes()),
        kind: elf::SHT_NOTE.0,
        flags: 0,
        align: 4,
        entsize: 0,
        link: 0,
        size: 20,
        contents: Contents::Data(Cow::Owned(Note::new(mode, budget).encode())),
        relocs: Vec::new(),
    });
    if !words.is_empty() {
        sections.push(slot_arrays(&words, &numbers));
    }
    sections.extend(debug.into_iter().map(|section| debug_section(section, &numbers, &section_map, &debug_index)));
    sections.extend(unwind_tables);
    if refusals.is_empty() { Ok(NewObject { flags: object.flags, sections, symbols: table }) } else { Err(refusals) }
}

/// Returns the section of the arrays of dispatch slots.
fn slot_arrays<'a>(words: &[Target], numbers: &Numbers) -> NewSection<'a> {
    let bytes = vec![0; 8 * words.len()];
    let reloc = |(number, target): (usize, &Target)| NewReloc {
        offset: 8 * number as u64,
        kind: elf::R_X86_64_64.0,
        symbol: numbers.of_target(*target),
        addend: 0,
    };
    NewSection {
        name: Cow::Borrowed(SLOTS_SECTION.as_bytes()),
        kind: elf::SHT_PROGBITS.0,
        flags: elf::SHF_ALLOC.0,
        align: 8,
        entsize: 0,
        link: 0,
        size: bytes.len() as u64,
        relocs: words.iter().enumerate().map(reloc).collect(),
        contents: Contents::Data(Cow::Owned(bytes)),
    }
}

fn text_reloc(numbers: &Numbers, reloc: &TextReloc) -> NewReloc {
    NewReloc { offset: reloc.offset, kind: reloc.kind, symbol: numbers.of_target(reloc.target), addend: reloc.addend }
}

/// Says whether a section is carried over. Sections that describe the old code are not, nor are
/// those that the writer makes itself.
fn is_kept(code: &CodeMap<'_, '_>, index: SectionIndex) -> bool {
    let section = &code.object.sections[index];
    let made_by_writer =
        [elf::SHT_NULL.0, elf::SHT_SYMTAB.0, elf::SHT_STRTAB.0, elf::SHT_RELA.0, elf::SHT_SYMTAB_SHNDX.0];
    if made_by_writer.contains(&section.kind) || is_dropped(section.name) || section.name == NOTE_SECTION.as_bytes() {
        return false;
    }
    // Nothing else refers to the intermediate code and its debug information.
    if intermediate::is_section(section.name) || section.name.starts_with(b".gnu.debuglto_") {
        return false;
    }
    if section.kind == elf::SHT_GROUP.0 {
        let members =
            section.data.chunks_exact(4).skip(1).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]) as usize);
        return members
            .into_iter()
            .any(|m| code.object.sections.get(m).is_some_and(|s| s.kind != elf::SHT_GROUP.0) && is_kept(code, m));
    }
    // Tables for tools that point into the code, such as probe descriptions, are left out.
    section.is_alloc() || section.relocs.is_empty()
}

/// Returns the new section that a relocation of debug information means.
fn new_section(target: DebugTarget, section_map: &[usize], debug: &[(&'static str, usize)]) -> usize {
    match target {
        DebugTarget::Code(section) => section_map[section],
        DebugTarget::Debug(name) => debug.iter().find(|(other, _)| *other == name).map_or(0, |(_, index)| *index),
    }
}

fn debug_section<'a>(
    section: DebugSection,
    numbers: &Numbers,
    section_map: &[usize],
    debug: &[(&'static str, usize)],
) -> NewSection<'a> {
    let reloc = |r: &DebugReloc| NewReloc {
        offset: r.offset,
        kind: if r.size == 8 { elf::R_X86_64_64.0 } else { elf::R_X86_64_32.0 },
        symbol: numbers.sections[&new_section(r.target, section_map, debug)],
        addend: r.addend,
    };
    let strings = matches!(section.name, ".debug_str" | ".debug_line_str");
    NewSection {
        name: Cow::Borrowed(section.name.as_bytes()),
        kind: elf::SHT_PROGBITS.0,
        flags: if strings { elf::SHF_MERGE.0 | elf::SHF_STRINGS.0 } else { 0 },
        align: 1,
        entsize: u64::from(strings),
        link: 0,
        size: section.bytes.len() as u64,
        relocs: section.relocs.iter().map(reloc).collect(),
        contents: Contents::Data(Cow::Owned(section.bytes)),
    }
}

/// The new symbol table while it is made.
struct Symbols<'c, 'o, 'a> {
    code: &'c CodeMap<'o, 'a>,
    section_map: &'c [usize],
    texts: &'c [Text],
    /// New size of each code section.
    sizes: HashMap<SectionIndex, u64>,
    needed: Vec<Label>,
    number: HashMap<Label, usize>,
    /// Symbols of the loader that relocations refer to.
    loader: BTreeSet<LoaderSymbol>,
    /// New sections whose own symbol debug information needs.
    sections: BTreeSet<usize>,
}

/// Numbers of symbols in the new table.
struct Numbers {
    symbols: Vec<usize>,
    labels: HashMap<Label, usize>,
    loader: BTreeMap<LoaderSymbol, usize>,
    /// Symbols of new sections.
    sections: HashMap<usize, usize>,
    /// That of the section of arrays of slots.
    arrays: usize,
}

impl Numbers {
    fn of_symbol(&self, symbol: SymbolIndex) -> usize {
        self.symbols[symbol]
    }

    fn of_target(&self, target: Target) -> usize {
        match target {
            Target::Symbol(symbol) => self.of_symbol(symbol as usize),
            Target::Label(label) => self.labels[&label],
            Target::Loader(symbol) => self.loader[&symbol],
            Target::Arrays => self.arrays,
        }
    }
}

impl<'c, 'o, 'a> Symbols<'c, 'o, 'a> {
    fn new(code: &'c CodeMap<'o, 'a>, texts: &'c [Text], section_map: &'c [usize]) -> Self {
        let sizes = code.sections.iter().zip(texts).map(|(s, text)| (s.section, text.bytes.len() as u64)).collect();
        Symbols {
            code,
            section_map,
            texts,
            sizes,
            needed: Vec::new(),
            number: HashMap::new(),
            loader: BTreeSet::new(),
            sections: BTreeSet::new(),
        }
    }

    /// Notes that a relocation will refer to a target.
    fn need(&mut self, target: Target) {
        match target {
            Target::Label(label) => {
                if let Entry::Vacant(vacant) = self.number.entry(label) {
                    vacant.insert(0);
                    self.needed.push(label);
                }
            }
            Target::Loader(symbol) => _ = self.loader.insert(symbol),
            Target::Symbol(_) | Target::Arrays => {}
        }
    }

    /// Returns the place of a label: its new section, and the offset there.
    fn place(&self, label: Label) -> Option<(usize, u64)> {
        let own = match label {
            Label::Old(at) | Label::End(at) | Label::Pad(at) | Label::After(at, _) => Some(self.code.number_of(at)),
            Label::Start(section) => Some(section as usize),
            // Its name does not tell the section.
            Label::New(_) => None,
        };
        let number = own.or_else(|| self.texts.iter().position(|text| text.labels.contains_key(&label)))?;
        let offset = self.texts.get(number)?.labels.get(&label)?;
        Some((self.section_map[self.code.sections[number].section], u64::from(*offset)))
    }

    /// Returns the new offset of an old one that a symbol names. `end` says that it is the symbol's
    /// end.
    fn moved(&self, section: SectionIndex, offset: u64, end: bool) -> u64 {
        let Some(size) = self.sizes.get(&section) else { return offset };
        let Some(insn) = self.code.at(section, offset) else { return *size };
        let place = |label| self.place(label).map(|(_, offset)| offset);
        let end = if end { place(Label::End(insn)) } else { None };
        end.or_else(|| place(old(insn))).unwrap_or(*size)
    }

    fn finish(mut self) -> (Vec<NewSymbol<'a>>, Numbers) {
        let mut table = Vec::new();
        let mut symbols = vec![0; self.code.object.symbols.len()];
        self.copy(&mut table, &mut symbols, true);
        self.add_labels(&mut table, &symbols);
        let sections = self.add_sections(&mut table, &symbols);
        self.copy(&mut table, &mut symbols, false);
        let mut loader = BTreeMap::new();
        for symbol in self.loader {
            let name = symbol.name().as_bytes();
            let existing = self.code.object.symbols.iter().position(|s| s.name == name);
            let mut number = existing.map_or(0, |symbol| symbols[symbol]);
            if number == 0 {
                table.push(NewSymbol {
                    name: Cow::Borrowed(name),
                    value: 0,
                    size: 0,
                    bind: elf::STB_GLOBAL.0,
                    kind: elf::STT_NOTYPE.0,
                    other: 0,
                    place: NewPlace::Undefined,
                });
                number = table.len();
            }
            loader.insert(symbol, number);
        }
        (table, Numbers { symbols, labels: self.number, loader, sections, arrays: 0 })
    }

    /// Copies the local symbols, or all others.
    fn copy(&self, table: &mut Vec<NewSymbol<'a>>, symbols: &mut [usize], local: bool) {
        for (index, symbol) in
            self.code.object.symbols.iter().enumerate().skip(1).filter(|(_, s)| s.is_local() == local)
        {
            let (place, value, size) = match symbol.place {
                Place::Undefined => (NewPlace::Undefined, symbol.value, symbol.size),
                Place::Absolute => (NewPlace::Absolute, symbol.value, symbol.size),
                Place::Common => (NewPlace::Common, symbol.value, symbol.size),
                Place::Section(section) if self.section_map[section] != 0 => {
                    let value = self.moved(section, symbol.value, false);
                    let size = match symbol.size {
                        0 => 0,
                        _ => self.moved(section, symbol.end(), true).saturating_sub(value),
                    };
                    let size = if self.sizes.contains_key(&section) { size } else { symbol.size };
                    (NewPlace::Section(self.section_map[section]), value, size)
                }
                Place::Section(_) => continue,
            };
            table.push(NewSymbol {
                name: Cow::Borrowed(symbol.name),
                value,
                size,
                bind: symbol.bind,
                kind: symbol.kind,
                other: symbol.other,
                place,
            });
            symbols[index] = table.len();
        }
    }

    /// Notes the sections to which the relocations of a debug section refer.
    fn need_sections(&mut self, section: &DebugSection, debug: &[(&'static str, usize)]) {
        self.sections.extend(section.relocs.iter().map(|r| new_section(r.target, self.section_map, debug)));
    }

    /// Gives every needed section its symbol: the one it has, or a new one.
    fn add_sections(&self, table: &mut Vec<NewSymbol<'a>>, symbols: &[usize]) -> HashMap<usize, usize> {
        let mut own = HashMap::new();
        for (index, symbol) in self.code.object.symbols.iter().enumerate() {
            if let Place::Section(section) = symbol.place
                && symbol.kind == elf::STT_SECTION.0
                && symbol.value == 0
                && symbols[index] != 0
            {
                own.insert(self.section_map[section], symbols[index]);
            }
        }
        for &section in &self.sections {
            own.entry(section).or_insert_with(|| {
                table.push(NewSymbol {
                    name: Cow::Borrowed(b""),
                    value: 0,
                    size: 0,
                    bind: elf::STB_LOCAL.0,
                    kind: elf::STT_SECTION.0,
                    other: 0,
                    place: NewPlace::Section(section),
                });
                table.len()
            });
        }
        own
    }

    /// Gives every needed label a symbol: a local function symbol at the same place, or a new one.
    fn add_labels(&mut self, table: &mut Vec<NewSymbol<'a>>, symbols: &[usize]) {
        let mut functions = HashMap::<InsnIndex, usize>::new();
        for (index, symbol) in self.code.object.symbols.iter().enumerate() {
            if let Place::Section(section) = symbol.place
                && symbol.is_local()
                && symbol.kind == elf::STT_FUNC.0
                && let Some(insn) = self.code.at(section, symbol.value)
            {
                functions.entry(insn).or_insert(symbols[index]);
            }
        }
        self.needed.sort_unstable();
        for (count, label) in self.needed.iter().enumerate() {
            let existing = match label {
                Label::Old(insn) => functions.get(insn).copied(),
                _ => None,
            };
            let number = existing.unwrap_or_else(|| {
                let (section, value) = self.place(*label).unwrap_or((0, 0));
                table.push(NewSymbol {
                    name: Cow::Owned(format!("{LABEL_PREFIX}{count}").into_bytes()),
                    value,
                    size: 0,
                    bind: elf::STB_LOCAL.0,
                    kind: elf::STT_NOTYPE.0,
                    other: 0,
                    place: NewPlace::Section(section),
                });
                table.len()
            });
            self.number.insert(*label, number);
        }
    }
}
