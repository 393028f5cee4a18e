//! The rules about the container, and unreadable files.

mod support;

use sfi_contract::Mode::Write;
use sfi_contract::Rule;
use sfi_verifier::elf::{self, Place};
use sfi_verifier::verify;
use support::*;

fn plain() -> Elf {
    Elf::text(&hex("c3"))
}

#[track_caller]
fn broken(elf: &Elf, rule: Rule) {
    assert_eq!(rules(elf, Write), [rule]);
}

#[track_caller]
fn fine(elf: &Elf) {
    assert_eq!(rules(elf, Write), []);
}

#[test]
fn unreadable_files() {
    let good = plain().build();
    assert!(verify(&good, &options(Write)).unwrap().is_safe());
    // Every prefix of a file is refused or read, never a panic.
    for length in 0..good.len() {
        let _ = verify(&good[..length], &options(Write));
    }
    assert!(verify(&[], &options(Write)).is_err());
    assert!(verify(&good[..63], &options(Write)).is_err());
    let with = |offset: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        verify(&file, &options(Write)).err().map(|e| e.to_string())
    };
    for (offset, bytes) in [
        (0, &[0x7e][..]),    // magic
        (4, &[1]),           // 32 bits
        (5, &[2]),           // big endian
        (6, &[0]),           // version
        (16, &[2]),          // an executable
        (16, &[3]),          // a shared object
        (18, &[3]),          // i386
        (20, &[9]),          // version
        (40, &[0; 8]),       // no section headers
        (40, &[0xff; 8]),    // outside the file
        (58, &[63]),         // entry size
        (60, &[0xff, 0xfe]), // more headers than there are
        (60, &[0, 0]),       // the count is in section 0, and is 0
        (62, &[0xfe, 0x0f]), // no section names
    ] {
        assert!(with(offset, bytes).is_some(), "offset {offset}");
    }
}

#[test]
fn counts_that_claim_more_than_the_file_are_unreadable() {
    // 2^32 sections by section 0
    let mut file = plain().build();
    let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    file[60..62].fill(0);
    file[table + 32..table + 40].copy_from_slice(&(1u64 << 32).to_le_bytes());
    assert!(verify(&file, &options(Write)).is_err());
    // 2^32 relocations
    let mut elf = plain().relocations(1, &[]);
    elf.sections[1].size = Some(24 << 32);
    broken(&elf, Rule::SectionBounds);
}

#[test]
fn overlapping_tables_cost_no_more_than_the_file() {
    // A thousand relocation tables that all claim one megabyte.
    let mut elf = plain();
    elf.add(section(".blob", PROGBITS, 0, vec![0; 1 << 20]));
    let at = 64 + 1;
    for _ in 0..1000 {
        let mut table = section(".rela", RELA, 0, Vec::new());
        (table.offset, table.size, table.info, table.entry_size) = (Some(at), Some(1 << 20), 1, 24);
        elf.add(table);
    }
    let error = verify(&elf.build(), &options(Write)).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    // A thousand executable sections over one megabyte: not all are decoded.
    let mut elf = Elf { sections: vec![section(".blob", PROGBITS, 0, vec![0x90; 1 << 20])], symbols: vec![] };
    for _ in 0..1000 {
        let mut text = section(".text", PROGBITS, A | X, Vec::new());
        (text.offset, text.size) = (Some(64), Some(1 << 20));
        elf.add(text);
    }
    let bytes = elf.build();
    let report = verify(&bytes, &options(Write)).unwrap();
    assert!(report.text_bytes <= bytes.len() as u64);
    assert_eq!(rules_of(&report), [Rule::SectionBounds]);
}

#[test]
fn names_cost_no_more_than_a_multiple_of_the_file() {
    let mut elf = plain();
    elf.symbols = vec![symbol("f", 1, 0); 2000];
    let long = Box::leak("x".repeat(1 << 20).into_boxed_str());
    elf.symbols[0].name = long;
    let mut file = elf.build();
    // All symbols take the long name: 2 GB in a file of 1 MB.
    let parsed = elf::parse(&file).unwrap();
    let symtab = parsed.sections.iter().find(|s| s.kind == SYMTAB).unwrap().offset as usize;
    drop(parsed);
    for i in 1..=2000 {
        file[symtab + i * 24..symtab + i * 24 + 4].copy_from_slice(&1u32.to_le_bytes());
    }
    assert!(elf::parse(&file).is_err());
}

#[test]
fn the_model_says_what_the_file_says() {
    let mut elf = plain().symbol(symbol("u", 0, 0)).symbol(symbol("c", 0xfff2, 8));
    elf.add(section(".data", PROGBITS, A | W, vec![1, 2, 3, 4, 5, 6, 7, 8]));
    let elf = elf.relocations(2, &[(0, R_64, 2, -7)]).group(&[1, 1, 2], 1);
    let bytes = elf.build();
    let object = elf::parse(&bytes).unwrap();
    assert_eq!(object.sections[1].name, ".text");
    assert_eq!(object.sections[2].data, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(object.sections[2].relocations, [elf::Relocation { offset: 0, kind: R_64, symbol: 2, addend: -7 }]);
    let places: Vec<Place> = object.symbols.iter().map(|s| s.place).collect();
    assert_eq!(places, [Place::Undefined, Place::Section(1), Place::Undefined, Place::Common]);
    assert_eq!(object.symbols[1].name, "f");
    assert_eq!((object.groups[0].comdat, object.groups[0].signature), (true, 1));
    assert_eq!(object.groups[0].members, [1, 2]);
}

#[test]
fn e01_section_bounds() {
    let mut elf = plain();
    elf.sections[TEXT].size = Some(1 << 40);
    assert!(rules(&elf, Write).contains(&Rule::SectionBounds));
    elf.sections[TEXT].size = Some(u64::MAX);
    assert!(rules(&elf, Write).contains(&Rule::SectionBounds));
    // .bss as large as a window
    let mut elf = plain();
    let mut bss = section(".bss", NOBITS, A | W, Vec::new());
    bss.size = Some(1 << 32);
    elf.add(bss.clone());
    broken(&elf, Rule::SectionBounds);
    elf.sections[1].size = Some(1 << 30);
    fine(&elf);
    // two sections over the same bytes
    let mut elf = plain();
    elf.add(section(".rodata", PROGBITS, A, vec![0; 8]));
    elf.sections[1].offset = Some(64);
    broken(&elf, Rule::SectionBounds);
    // one over the ELF header
    elf.sections[1].offset = Some(0);
    broken(&elf, Rule::SectionBounds);
}

#[test]
fn e02_executable_sections() {
    for flags in [X, A | X | W, A | X | 0x10, A | X | 0x400, A | X | 0x800, A | X | 0x8000_0000] {
        let mut elf = plain();
        elf.sections[TEXT].flags = flags;
        broken(&elf, Rule::ExecutableData);
    }
    for kind in [NOBITS, 7, 14] {
        let mut elf = plain();
        elf.symbols.clear();
        elf.sections[TEXT].kind = kind;
        broken(&elf, Rule::ExecutableData);
    }
    // An executable stack is a non-allocated executable section.
    let mut elf = plain();
    elf.add(section(".note.GNU-stack", PROGBITS, X, vec![]));
    broken(&elf, Rule::ExecutableData);
    elf.sections[1].flags = 0;
    fine(&elf);
    // An executable section is decoded whatever its name is.
    let mut elf = plain();
    elf.add(section(".rodata", PROGBITS, A | X, hex("0f 05")));
    broken(&elf, Rule::System);
    elf.sections[1].flags = A;
    fine(&elf);
}

#[test]
fn e04_symbols() {
    let with = |change: &dyn Fn(&mut Symbol)| {
        let mut s = symbol("g", 1, 0);
        change(&mut s);
        rules(&plain().symbol(s), Write)
    };
    assert_eq!(with(&|_| {}), []);
    for kind in [7, 13, 15] {
        assert_eq!(with(&|s| s.kind = kind), [Rule::SymbolKind]);
    }
    // An IFUNC's resolver is a place in text like any other.
    const IFUNC: u8 = 10;
    assert_eq!(with(&|s| s.kind = IFUNC), []);
    assert_eq!(with(&|s| (s.kind, s.value) = (IFUNC, 2)), [Rule::SymbolTarget]);
    for section in [0, 0xfff1, 0xfff2] {
        assert_eq!(with(&|s| (s.kind, s.section) = (IFUNC, section)), [Rule::SymbolKind], "{section:#x}");
    }
    for binding in [3, 11, 15] {
        assert_eq!(with(&|s| s.binding = binding), [Rule::SymbolKind]);
    }
    assert_eq!(with(&|s| s.other = 3), []); // STV_PROTECTED
    assert_eq!(with(&|s| s.other = 4), [Rule::SymbolKind]);
    for section in [200, 0xff00, 0xff02, 0xfff3, 0xffff] {
        assert_eq!(with(&|s| s.section = section), [Rule::SymbolKind], "{section:#x}");
    }
    // An absolute symbol is no place, local or global.
    assert_eq!(with(&|s| s.section = 0xfff1), []);
    assert_eq!(with(&|s| (s.section, s.binding) = (0xfff1, LOCAL)), []);
    assert_eq!(with(&|s| s.kind = 6), [Rule::SymbolKind]); // thread-local in text
    assert_eq!(with(&|s| (s.section, s.value) = (0xfff2, 16)), []);
    assert_eq!(with(&|s| (s.section, s.value) = (0xfff2, 17)), [Rule::SymbolKind]);
    assert_eq!(with(&|s| (s.section, s.value) = (0xfff2, 1 << 40)), [Rule::SymbolKind]);
    // past the end of data
    let mut elf = plain();
    elf.add(section(".data", PROGBITS, A | W, vec![0; 8]));
    assert_eq!(rules(&elf.clone().symbol(symbol("d", 2, 8)), Write), []);
    assert_eq!(rules(&elf.clone().symbol(symbol("d", 2, 9)), Write), [Rule::SymbolKind]);
    let resolver = Symbol { kind: IFUNC, ..symbol("d", 2, 0) };
    assert_eq!(rules(&elf.symbol(resolver), Write), [Rule::SymbolKind]);
}

#[test]
fn the_model_has_relocations_by_offset() {
    let bytes = plain().relocations(1, &[(9, 1, 1, 0), (3, 2, 1, 0), (9, 3, 1, 0), (3, 4, 1, 0)]).build();
    let object = elf::parse(&bytes).unwrap();
    let order: Vec<_> = object.sections[1].relocations.iter().map(|r| (r.offset, r.kind)).collect();
    assert_eq!(order, [(3, 2), (3, 4), (9, 1), (9, 3)]);
}

#[test]
fn e05_relocation_tables() {
    let data = || {
        let mut elf = plain().symbol(symbol("u", 0, 0));
        elf.add(section(".data", PROGBITS, A | W, vec![0; 16]));
        elf
    };
    fine(&data().relocations(2, &[(0, R_64, 1, 0), (8, R_64, 2, 0)]));
    fine(&data().relocations(2, &[(8, R_64, 1, 0), (0, R_PC32, 2, 0), (4, R_32, 2, 0)]));
    for (what, entries) in [
        ("overlap", &[(0, R_64, 1, 0), (4, R_64, 1, 0)][..]),
        ("twice", &[(0, R_64, 1, 0), (0, R_64, 1, 0)]),
        ("unsorted overlap", &[(8, R_64, 1, 0), (5, R_32, 1, 0)]),
        ("over the end", &[(9, R_64, 1, 0)]),
        ("after the end", &[(1 << 40, R_64, 1, 0)]),
        ("wraps", &[(u64::MAX, R_64, 1, 0)]),
        ("no such symbol", &[(0, R_64, 3, 0)]),
        ("copy", &[(0, 5, 1, 0)]),
        ("relative", &[(0, 8, 1, 0)]),
        ("irelative", &[(0, 37, 1, 0)]),
        ("none", &[(0, 0, 1, 0)]),
        ("unknown", &[(0, 200, 1, 0)]),
    ] {
        assert_eq!(rules(&data().relocations(2, entries), Write), [Rule::RelocationTable], "{what}");
    }
    // in text
    let elf = Elf::text(&hex("48 b8 00 00 00 00 00 00 00 00"));
    broken(&elf.relocations(1, &[(2, R_64, 1, 0), (2, R_64, 1, 0)]), Rule::RelocationTable);
    // two tables for one section; a table for none, for a table, for .bss
    broken(&data().relocations(2, &[]).relocations(2, &[]), Rule::RelocationTable);
    broken(&data().relocations(0, &[]), Rule::RelocationTable);
    broken(&data().relocations(99, &[]), Rule::RelocationTable);
    broken(&data().relocations(3, &[]), Rule::RelocationTable);
    let mut elf = data();
    elf.sections[1].kind = NOBITS;
    broken(&elf.relocations(2, &[]), Rule::RelocationTable);
    // form
    let change = |change: &dyn Fn(&mut Section)| {
        let mut elf = data().relocations(2, &[]);
        change(elf.sections.last_mut().unwrap());
        rules(&elf, Write)
    };
    assert_eq!(change(&|_| {}), []);
    assert_eq!(change(&|s| s.entry_size = 16), [Rule::RelocationTable]);
    assert_eq!(change(&|s| s.data = vec![0; 25]), [Rule::RelocationTable]);
    assert_eq!(change(&|s| s.link = 0), [Rule::RelocationTable]);
    assert_eq!(change(&|s| s.kind = REL), [Rule::RelocationTable]);
    assert_eq!(change(&|s| s.kind = 19), [Rule::RelocationTable]);
    assert_eq!(change(&|s| s.flags = A), [Rule::RelocationTable, Rule::SectionKind]);
}

#[test]
fn e06_groups() {
    let elf = || {
        let mut elf = plain();
        elf.add(section(".text.g", PROGBITS, A | X | 0x200, hex("c3")));
        elf.add(section(".data", PROGBITS, A | W, vec![0; 8]));
        elf
    };
    fine(&elf().group(&[1, 2], 1));
    fine(&elf().group(&[0, 2], 1).group(&[1, 3], 1));
    for words in [&[2, 2][..], &[1, 2, 2], &[1, 0], &[1, 99], &[1, 4], &[1, 5], &[]] {
        assert_eq!(rules(&elf().group(words, 1), Write), [Rule::GroupTable], "{words:?}");
    }
    broken(&elf().group(&[1, 2], 0), Rule::GroupTable);
    broken(&elf().group(&[1, 2], 99), Rule::GroupTable);
    broken(&elf().group(&[1, 2], 1).group(&[1, 2], 1), Rule::GroupTable);
    let mut odd = elf().group(&[1, 2], 1);
    odd.sections.last_mut().unwrap().data.push(0);
    broken(&odd, Rule::GroupTable);
    let mut odd = elf().group(&[1, 2], 1);
    odd.sections.last_mut().unwrap().link = 1;
    broken(&odd, Rule::GroupTable);
}

#[test]
fn e07_section_kinds() {
    let with = |change: &dyn Fn(&mut Section)| {
        let mut elf = plain();
        let mut data = section(".data", PROGBITS, A | W, vec![0; 8]);
        change(&mut data);
        elf.add(data);
        rules(&elf, Write)
    };
    for kind in [1, 7, 8, 14, 15, 16, 0x7000_0001] {
        assert_eq!(with(&|s| s.kind = kind), [], "type {kind}");
    }
    for kind in [5, 6, 11, 0x6fff_fff6, u32::MAX] {
        assert_eq!(with(&|s| s.kind = kind), [Rule::SectionKind], "type {kind}");
        assert_eq!(with(&|s| (s.kind, s.flags) = (kind, 0)), [], "type {kind}, not allocated");
    }
    for flags in [0x800, 1 << 30, 1 << 40] {
        assert_eq!(with(&|s| s.flags |= flags), [Rule::SectionKind]);
    }
    for align in [0, 1, 4096, 2 << 20] {
        assert_eq!(with(&|s| s.align = align), []);
    }
    for align in [3, 4 << 20, u64::MAX] {
        assert_eq!(with(&|s| s.align = align), [Rule::SectionKind]);
    }
    assert_eq!(with(&|s| s.address = 4096), [Rule::SectionKind]);
}

/// The model and the rule agree about an inactive section: it is part of nothing, and only section
/// 0 may be one.
#[test]
fn inactive_sections_are_refused_and_not_loaded() {
    for flags in [0, A, A | W, A | W | 0x10 | 0x800 | 0x8000_0000, A | 0x400, A | X, X] {
        for (size, align) in [(0, 1), (0x10, 3), (0x2000, 1 << 20), (u64::MAX, 16)] {
            let mut elf = plain();
            let mut null = section("nul", 0, flags, Vec::new());
            (null.size, null.align) = (Some(size), align);
            elf.add(null);
            broken(&elf, Rule::SectionKind);
            let bytes = elf.build();
            let object = elf::parse(&bytes).unwrap();
            let null = object.sections.iter().find(|s| s.name == "nul").unwrap();
            assert!(!null.is_allocated() && !null.is_executable(), "flags {flags:#x}");
        }
    }
    // Section 0 may hold the number of sections in its size. It is never memory.
    let mut file = plain().build();
    let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    file[table + 8..table + 16].copy_from_slice(&(A | X).to_le_bytes());
    file[table + 32..table + 40].copy_from_slice(&0x1000u64.to_le_bytes());
    assert!(!elf::parse(&file).unwrap().sections[0].is_allocated());
}

#[test]
fn e08_intermediate_code() {
    for name in [".gnu.lto_.opts", ".gnu.lto_f.0.5b3e", ".gnu.offload_lto_.decls", ".llvm.lto", ".llvmbc"] {
        let mut elf = plain();
        elf.add(section(name, PROGBITS, 0x8000_0000, vec![1, 2, 3]));
        broken(&elf, Rule::IntermediateCode);
    }
    for name in [".gnu.lto", ".llvmbc2", ".gnu.debuglto_.debug_info"] {
        let mut elf = plain();
        elf.add(section(name, PROGBITS, 0, vec![1]));
        fine(&elf);
    }
    for bitcode in [&b"BC\xc0\xde\x35\x14"[..], b"\xde\xc0\x17\x0b\0\0\0\0"] {
        let error = verify(bitcode, &options(Write)).err().unwrap().to_string();
        assert!(error.contains("LLVM bitcode") && error.contains("without -flto"), "{error}");
    }
}

#[test]
fn names_that_a_terminal_would_obey_are_unreadable() {
    for name in ["a\u{1b}[31m", "a\nb", "\u{7f}", "a\u{202e}b", "\u{9b}2J"] {
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        let mut named = symbol("", 1, 0);
        named.name = name;
        assert!(verify(&plain().symbol(named).build(), &options(Write)).is_err(), "{name:?}");
        let mut elf = plain();
        elf.add(section(name, PROGBITS, 0, vec![1]));
        assert!(verify(&elf.build(), &options(Write)).is_err(), "{name:?}");
    }
    let mut umlaut = symbol("", 1, 0);
    umlaut.name = "gr\u{f6}\u{df}e";
    fine(&plain().symbol(umlaut));
}

/// More sections than 16 bits can number. The count, the string index and the symbols' sections are
/// then in wider fields.
#[test]
fn extended_numbering_is_read() {
    let mut elf = Elf { sections: Vec::new(), symbols: vec![symbol("f", 0xffff, 0)] };
    for _ in 0..66_000 {
        elf.add(section("", PROGBITS, 0, Vec::new()));
    }
    let text = elf.sections.len() as u32 + 1;
    elf.add(section(".text", PROGBITS, A | X, hex("c3 06")));
    let wide = [0, text].iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut table = section(".symtab_shndx", 18, 0, wide);
    table.link = u32::MAX;
    elf.add(table);
    let mut file = elf.build();
    let header = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    let count = (file.len() - header) / 64;
    file[60..62].fill(0);
    file[62..64].fill(0xff);
    file[header + 32..header + 40].copy_from_slice(&(count as u64).to_le_bytes());
    file[header + 40..header + 44].copy_from_slice(&(count as u32 - 1).to_le_bytes());
    let report = verify(&file, &options(Write)).unwrap();
    assert_eq!(report.object.symbols[1].place, Place::Section(text as usize));
    assert_eq!(rules_of(&report), [Rule::Undecodable]);
    assert_eq!(report.violations[0].function.as_deref(), Some("f+0x1"));
    // A wide index that names no section.
    let at = report.object.sections.iter().find(|s| s.kind == 18).unwrap().offset as usize;
    drop(report);
    file[at + 4..at + 8].copy_from_slice(&(count as u32).to_le_bytes());
    let report = verify(&file, &options(Write)).unwrap();
    assert_eq!(rules_of(&report), [Rule::SymbolKind, Rule::Undecodable]);
}

/// Text with an array of slots, which a `lea` names. The array, its words and the displacement may
/// be changed.
fn with_slots(array: Section, words: &[(u64, u32, u32, i64)], name: (u64, u32, u32, i64)) -> Elf {
    // lea 0(,%rdi,8),%esi ; and $0xffff8,%esi ; jmp *%gs:__sfi_dispatch(%esi) ; ret
    let mut elf = Elf::text(&hex("8d34fd0000000081e6f8ff0f006567ffa600000000c3"));
    let index = elf.add(array);
    let mut data = section("data", PROGBITS, A | W, vec![0; 8]);
    data.align = 8;
    let data = elf.add(data);
    let anchor = symbol(sfi_contract::names::DISPATCH, 0, 0);
    let local = |name, section, value| Symbol { binding: LOCAL, kind: 0, ..symbol(name, section, value) };
    // Symbol 1 is `f`, which is global.
    elf.symbol(local("place", 1, 21))
        .symbol(local("slots", index, 0))
        .symbol(local("data", data, 0))
        .symbol(Symbol { kind: 0, ..anchor })
        .relocations(index.into(), words)
        .relocations(1, &[name, (17, R_32S, 5, 0)])
}

#[test]
fn e09_slot_arrays() {
    let (place, slots, data, open) = (2, 3, 4, 1);
    let array = |size, flags| section(".sfi.slots", PROGBITS, flags, vec![0; size]);
    let words = [(0, R_64, place, 0), (8, R_64, place, -21)];
    let name = (3, R_32S, slots, 8);
    fine(&with_slots(array(16, A), &words, name));
    fine(&with_slots(array(0, A), &[], (3, R_32S, data, 0)));
    for flags in [A | W, A | 0x10, A | 0x400, 0] {
        let rules = rules(&with_slots(array(16, flags), &words, name), Write);
        assert!(rules.contains(&Rule::SlotArray), "flags {flags:#x}: {rules:?}");
    }
    for (size, words) in [
        (16, &words[..1]),
        (16, &words[1..]),
        (24, &words[..]),
        (20, &words[..]),
        (16, &[(0, R_64, place, 0), (8, R_PC64, place, 0)]),
        (16, &[(0, R_64, place, 0), (8, R_64, place, 1)]),
        (16, &[(0, R_64, place, 0), (8, R_64, place, -22)]),
        (16, &[(0, R_64, place, 0), (8, R_64, data, 0)]),
        (16, &[(0, R_64, place, 0), (8, R_64, open, 0)]),
        (16, &[(0, R_64, place, 0), (8, R_64, 0, 0)]),
    ] {
        broken(&with_slots(array(size, A), words, name), Rule::SlotArray);
    }
    for name in [(3, R_32S, slots, 16), (3, R_32S, slots, -8), (3, R_32S, slots, 4), (3, R_32, slots, 0)] {
        broken(&with_slots(array(16, A), &words, name), Rule::SlotArray);
    }
}
