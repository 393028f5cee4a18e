//! A small ELF writer. It can write objects that no assembler would.
#![allow(dead_code)]

use sfi_contract::matching::Pattern;
use sfi_contract::{Anchors, Mode, Rule, names};
use sfi_verifier::{Options, Report, verify};

pub const PROGBITS: u32 = 1;
pub const SYMTAB: u32 = 2;
pub const STRTAB: u32 = 3;
pub const RELA: u32 = 4;
pub const NOBITS: u32 = 8;
pub const REL: u32 = 9;
pub const GROUP: u32 = 17;
pub const W: u64 = 1;
pub const A: u64 = 2;
pub const X: u64 = 4;

pub const FUNC: u8 = 2;
pub const LOCAL: u8 = 0;
pub const GLOBAL: u8 = 1;

pub const R_64: u32 = 1;
pub const R_PC32: u32 = 2;
pub const R_PLT32: u32 = 4;
pub const R_32: u32 = 10;
pub const R_32S: u32 = 11;
pub const R_PC64: u32 = 24;

#[derive(Clone)]
pub struct Section {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub data: Vec<u8>,
    /// `sh_offset`, if it differs from the place of the data.
    pub offset: Option<u64>,
    /// `sh_size`, if it differs from the data's size.
    pub size: Option<u64>,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry_size: u64,
}

#[derive(Clone)]
pub struct Symbol {
    pub name: &'static str,
    pub kind: u8,
    pub binding: u8,
    pub other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

pub fn section(name: &str, kind: u32, flags: u64, data: Vec<u8>) -> Section {
    Section {
        name: name.into(),
        kind,
        flags,
        address: 0,
        data,
        offset: None,
        size: None,
        link: 0,
        info: 0,
        align: 1,
        entry_size: 0,
    }
}

pub fn symbol(name: &'static str, section: u16, value: u64) -> Symbol {
    Symbol { name, kind: FUNC, binding: GLOBAL, other: 0, section, value, size: 0 }
}

/// Sections 1.. are `sections`. The symbol table, its strings and the section names follow.
#[derive(Clone, Default)]
pub struct Elf {
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
}

pub const TEXT: usize = 0;

impl Elf {
    /// Returns an object with one executable section, number 1, and a symbol `f` at its start.
    pub fn text(bytes: &[u8]) -> Elf {
        Elf { sections: vec![section(".text", PROGBITS, A | X, bytes.to_vec())], symbols: vec![symbol("f", 1, 0)] }
    }

    /// Adds a section and returns its index.
    pub fn add(&mut self, section: Section) -> u16 {
        self.sections.push(section);
        self.sections.len() as u16
    }

    pub fn symbol(mut self, symbol: Symbol) -> Elf {
        self.symbols.push(symbol);
        self
    }

    /// Adds a relocation table for a section: offset, type, symbol, addend.
    pub fn relocations(mut self, target: u32, entries: &[(u64, u32, u32, i64)]) -> Elf {
        let mut data = Vec::new();
        for (offset, kind, symbol, addend) in entries {
            data.extend_from_slice(&offset.to_le_bytes());
            data.extend_from_slice(&(u64::from(*symbol) << 32 | u64::from(*kind)).to_le_bytes());
            data.extend_from_slice(&addend.to_le_bytes());
        }
        let mut table = section(&format!(".rela{target}"), RELA, 0, data);
        (table.info, table.entry_size, table.link) = (target, 24, u32::MAX);
        self.sections.push(table);
        self
    }

    /// Adds relocations that name the places of [`Anchors::EXAMPLE`] wherever an executable section
    /// holds their numbers and no relocation covers them: so texts can be written as they run.
    fn with_places(&self) -> Elf {
        let mut elf = self.clone();
        for target in 1..=self.sections.len() as u32 {
            let text = &self.sections[target as usize - 1];
            if text.flags & X == 0 {
                continue;
            }
            let tables = self.sections.iter().filter(|s| s.kind == RELA && s.info == target);
            let taken: Vec<u64> = tables
                .flat_map(|s| s.data.chunks_exact(24).map(|r| u64::from_le_bytes(r[..8].try_into().unwrap())))
                .collect();
            let mut found = Vec::new();
            for (at, field) in text.data.windows(4).enumerate() {
                let number = u32::from_le_bytes(field.try_into().unwrap());
                let (name, addend) = match number {
                    0xf_f000..0xf_f900 => (names::HEADER, number - 0xf_f000),
                    0x10_0000 => (names::DISPATCH, 0),
                    0x30_0f00..0x30_1000 => (names::TCB, number - 0x30_0000),
                    _ => continue,
                };
                if taken.iter().all(|other| other.abs_diff(at as u64) >= 4) {
                    let index = elf.symbols.iter().position(|s| s.name == name && s.section == 0);
                    let index = index.unwrap_or_else(|| {
                        elf.symbols.push(Symbol { kind: 0, ..symbol(name, 0, 0) });
                        elf.symbols.len() - 1
                    });
                    found.push((at as u64, R_32, index as u32 + 1, i64::from(addend)));
                }
            }
            elf.add_relocations(target, &found);
        }
        elf
    }

    /// Puts relocations into a section's table.
    fn add_relocations(&mut self, target: u32, entries: &[(u64, u32, u32, i64)]) {
        if entries.is_empty() {
            return;
        }
        let mut new = std::mem::take(self).relocations(target, entries);
        let table = new.sections.pop().unwrap();
        match new.sections.iter_mut().find(|s| s.kind == RELA && s.info == target) {
            Some(old) => old.data.extend(table.data),
            None => new.sections.push(table),
        }
        *self = new;
    }

    /// A section group.
    pub fn group(mut self, words: &[u32], signature: u32) -> Elf {
        let data = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut table = section(".group", GROUP, 0, data);
        (table.info, table.entry_size, table.link) = (signature, 4, u32::MAX);
        self.sections.push(table);
        self
    }

    pub fn build(&self) -> Vec<u8> {
        self.with_places().write()
    }

    fn write(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut symbols = vec![0; 24];
        for s in &self.symbols {
            symbols.extend_from_slice(&(strings.len() as u32).to_le_bytes());
            symbols.extend_from_slice(&[s.binding << 4 | s.kind, s.other]);
            symbols.extend_from_slice(&s.section.to_le_bytes());
            symbols.extend_from_slice(&s.value.to_le_bytes());
            symbols.extend_from_slice(&s.size.to_le_bytes());
            strings.extend_from_slice(s.name.as_bytes());
            strings.push(0);
        }
        let mut sections = vec![section("", 0, 0, Vec::new())];
        sections.extend(self.sections.iter().cloned());
        let symtab = sections.len() as u32;
        let mut table = section(".symtab", SYMTAB, 0, symbols);
        (table.link, table.entry_size, table.info) = (symtab + 1, 24, 1);
        sections.push(table);
        sections.push(section(".strtab", STRTAB, 0, strings));
        sections.push(section(".shstrtab", STRTAB, 0, Vec::new()));
        for s in &mut sections {
            if s.link == u32::MAX {
                s.link = symtab;
            }
        }
        let mut names = Vec::new();
        let offsets: Vec<u32> = sections
            .iter()
            .map(|s| {
                let at = names.len() as u32;
                names.extend_from_slice(s.name.as_bytes());
                names.push(0);
                at
            })
            .collect();
        sections.last_mut().unwrap().data = names;

        let mut file = vec![0; 64];
        let mut headers = Vec::new();
        for (s, name) in sections.iter().zip(offsets) {
            let at = file.len() as u64;
            if s.kind != NOBITS {
                file.extend_from_slice(&s.data);
            }
            headers.extend_from_slice(&name.to_le_bytes());
            headers.extend_from_slice(&s.kind.to_le_bytes());
            for word in [s.flags, s.address, s.offset.unwrap_or(at), s.size.unwrap_or(s.data.len() as u64)] {
                headers.extend_from_slice(&word.to_le_bytes());
            }
            headers.extend_from_slice(&s.link.to_le_bytes());
            headers.extend_from_slice(&s.info.to_le_bytes());
            headers.extend_from_slice(&s.align.to_le_bytes());
            headers.extend_from_slice(&s.entry_size.to_le_bytes());
        }
        let table = file.len() as u64;
        file.extend_from_slice(&headers);
        file[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
        file[16..18].copy_from_slice(&1u16.to_le_bytes()); // ET_REL
        file[18..20].copy_from_slice(&62u16.to_le_bytes()); // EM_X86_64
        file[20..24].copy_from_slice(&1u32.to_le_bytes());
        file[40..48].copy_from_slice(&table.to_le_bytes());
        file[52..54].copy_from_slice(&64u16.to_le_bytes());
        file[58..60].copy_from_slice(&64u16.to_le_bytes());
        file[60..62].copy_from_slice(&(sections.len() as u16).to_le_bytes());
        file[62..64].copy_from_slice(&(sections.len() as u16 - 1).to_le_bytes());
        file
    }
}

/// The bytes of a pattern in a domain with [`Anchors::EXAMPLE`].
pub fn filled(pattern: &Pattern) -> Vec<u8> {
    let mut bytes = pattern.bytes.to_vec();
    for (at, place) in pattern.fields {
        bytes[*at..at + 4].copy_from_slice(&(Anchors::EXAMPLE.offset(*place) as u32).to_le_bytes());
    }
    bytes
}

/// Bytes from hexadecimal digits; spaces and `|` separate.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub fn options(mode: Mode) -> Options {
    Options { mode, ..Options::default() }
}

/// Returns the rules that an object breaks, in order, each once.
pub fn rules(elf: &Elf, mode: Mode) -> Vec<Rule> {
    let bytes = elf.build();
    let report = verify(&bytes, &options(mode)).expect("readable");
    rules_of(&report)
}

pub fn rules_of(report: &Report<'_>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = report.violations.iter().map(|v| v.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Returns the rules that a text breaks.
pub fn text(code: &str, mode: Mode) -> Vec<Rule> {
    rules(&Elf::text(&hex(code)), mode)
}

/// Asserts that the text is accepted in this mode.
#[track_caller]
pub fn accept(code: &str, mode: Mode) {
    let bytes = Elf::text(&hex(code)).build();
    let report = verify(&bytes, &options(mode)).expect("readable");
    assert!(report.violations.is_empty(), "`{code}` in mode {mode}: {:#?}", report.violations);
}

/// Asserts that the text breaks exactly this rule in this mode.
#[track_caller]
pub fn refuse(code: &str, mode: Mode, rule: Rule) {
    assert_eq!(text(code, mode), [rule], "`{code}` in mode {mode}");
}

/// `mov %edi,%edi` and `add %gs:__sfi_header,%rdi`: the way to a string instruction's destination.
pub const RDI: &str = "89 ff 65 48 03 3c 25 00 f0 0f 00";
/// `mov %esi,%esi` and `add %gs:__sfi_header,%rsi`: the way to its source.
pub const RSI: &str = "89 f6 65 48 03 34 25 00 f0 0f 00";
