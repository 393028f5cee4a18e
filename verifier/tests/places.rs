//! The rules about branches, symbols and relocations: both outcomes of each.

mod support;

use sfi_contract::Mode::{Full, Write};
use sfi_contract::Rule;
use support::*;

#[test]
fn b01_branch_targets() {
    for code in [
        "eb fe",    // self
        "eb 00 c3", // next
        "90 eb fd", // back
        "e9 00 00 00 00 c3",
        "0f 84 00 00 00 00 c3",
        "74 00 c3",
        "e8 00 00 00 00 c3",
        "e2 fe",
        "e3 00 c3",
    ] {
        accept(code, Write);
    }
    for code in [
        "eb 00", // after the end
        "eb 7f c3",
        "eb fd",                   // before the start
        "eb 01 b8 0f 05 00 00 c3", // into the mov, at a syscall
        "eb ff c0 c0 01",          // into itself
        "e9 00 00 00 80 c3",
        "e8 fc ff ff 7f",
        "0f 84 01 00 00 00 b8 0f 05 00 00",
        "e2 01 b8 0f 05 00 00",
        "74 7f c3",
    ] {
        refuse(code, Write, Rule::BranchTarget);
    }
}

const RDI: &str = "89 ff 65 48 03 3c 25 00 f0 0f 00";
const RSI: &str = "89 f6 65 48 03 34 25 00 f0 0f 00";

#[test]
fn b02_branches_into_regions() {
    // jmp to the region's start, its second and its third instruction; the region begins at 2
    accept(&format!("eb 00 {RDI} aa"), Write);
    refuse(&format!("eb 02 {RDI} aa"), Write, Rule::BranchIntoRegion);
    refuse(&format!("eb 0b {RDI} aa"), Write, Rule::BranchIntoRegion);
    accept(&format!("eb 0c {RDI} aa c3"), Write);
    // In the middle of an instruction of it.
    refuse(&format!("eb 03 {RDI} aa"), Write, Rule::BranchIntoRegion);
    // Backwards.
    refuse(&format!("{RDI} aa eb fd"), Write, Rule::BranchIntoRegion);
    refuse(&format!("{RDI} aa eb f4"), Write, Rule::BranchIntoRegion);
    accept(&format!("{RDI} aa eb f2"), Write);
    // a call to the stos and one to the region's start
    refuse(&format!("{RDI} f3 48 ab e8 f8 ff ff ff"), Write, Rule::BranchIntoRegion);
    accept(&format!("{RDI} f3 48 ab e8 ed ff ff ff"), Write);
}

#[test]
fn b02_indirect_branches() {
    let region = "81 e0 f8 ff 0f 00 65 67 ff a0 00 00 10 00";
    accept(&format!("{region} eb f0"), Write);
    refuse(&format!("{region} eb f6"), Write, Rule::BranchIntoRegion);
    refuse(&format!("eb 06 {region}"), Write, Rule::BranchIntoRegion);
    refuse(&format!("eb 07 {region}"), Write, Rule::BranchIntoRegion); // skips the gs prefix
    accept(&format!("eb 00 {region}"), Write);
}

#[test]
fn b02_string_regions_of_mode_full() {
    let region = format!("{RSI} {RDI} a4");
    accept(&format!("eb 00 {region}"), Full);
    for distance in [2, 11, 13, 22] {
        refuse(&format!("eb {distance:02x} {region}"), Full, Rule::BranchIntoRegion);
    }
    // A mask that no string instruction follows is no region.
    accept(&format!("eb 02 {RDI} c3"), Write);
}

#[test]
fn e03_symbols_at_targets_only() {
    let code = format!("90 b8 0f 05 00 00 {RDI} aa c3");
    let bytes = hex(&code);
    let end = bytes.len() as u64;
    for value in 0..=end + 1 {
        let rules = rules(&Elf::text(&bytes).symbol(symbol("g", 1, value)), Write);
        let legal = [0, 1, 6, 18, end].contains(&value);
        assert_eq!(rules, if legal { vec![] } else { vec![Rule::SymbolTarget] }, "value {value}");
        // Section symbols with a value, locals, data symbols: all may become branch targets.
        for kind in [0, 1, 3] {
            let mut s = symbol("g", 1, value);
            (s.kind, s.binding) = (kind, LOCAL);
            assert_eq!(support::rules(&Elf::text(&bytes).symbol(s), Write).is_empty(), legal);
        }
    }
}

/// Returns the rules that a text breaks with one relocation against symbol 2, which is undefined.
fn relocated(code: &str, offset: u64, kind: u32, addend: i64) -> Vec<Rule> {
    let elf = Elf::text(&hex(code)).symbol(symbol("g", 0, 0)).relocations(1, &[(offset, kind, 2, addend)]);
    rules(&elf, Write)
}

#[test]
fn b03_relocated_branches() {
    for (code, offset) in [("e8 00 00 00 00", 1), ("e9 00 00 00 00", 1), ("0f 84 00 00 00 00", 2)] {
        assert_eq!(relocated(code, offset, R_PLT32, -4), []);
        for addend in [0, -3, -5, 4, i64::MIN] {
            assert_eq!(relocated(code, offset, R_PLT32, addend), [Rule::BranchRelocation]);
        }
        for kind in [R_PC32, R_32, 9, 41, 42] {
            assert_eq!(relocated(code, offset, kind, -4), [Rule::BranchRelocation], "type {kind}");
        }
    }
    // The bytes under a relocation do not count.
    assert_eq!(relocated("e8 01 00 00 00", 1, R_PLT32, -4), []);
    // Short branches have no field for a relocation.
    assert_eq!(relocated("90 90 90 74 fe", 4, 15, 0), [Rule::RelocationType]);
    // The symbol that the relocation names.
    let against = |section: u16, kind: u8, symbol_index: u32| {
        let mut elf = Elf::text(&hex("e8 00 00 00 00"));
        elf.add(support::section(".data", PROGBITS, A | W, vec![0; 8]));
        let mut s = symbol("g", section, 0);
        (s.kind, s.binding) = (kind, LOCAL);
        rules(&elf.symbol(s).relocations(1, &[(1, R_PLT32, symbol_index, -4)]), Write)
    };
    assert_eq!(against(0, 0, 2), []);
    assert_eq!(against(1, 2, 2), []);
    assert_eq!(against(1, 3, 2), []); // the section symbol of text
    assert_eq!(against(2, 1, 2), [Rule::BranchRelocation]); // data
    assert_eq!(against(0xfff1, 0, 2), [Rule::BranchRelocation]); // absolute
    assert_eq!(against(0xfff2, 1, 2), [Rule::BranchRelocation]); // common
    assert_eq!(against(0, 0, 0), [Rule::BranchRelocation]); // no symbol
    assert_eq!(against(0, 0, 77), [Rule::RelocationTable, Rule::BranchRelocation]); // out of range
}

#[test]
fn r01_fields() {
    // mov $imm32,%eax; movabs; mov disp(%rip),%rax; movl $imm,disp(%rip) with gs
    assert_eq!(relocated("b8 00 00 00 00", 1, R_32, 0), []);
    assert_eq!(relocated("48 b8 00 00 00 00 00 00 00 00", 2, R_64, 0), []);
    assert_eq!(relocated("48 8b 05 00 00 00 00", 3, R_PC32, -4), []);
    for offset in [4, 8] {
        assert_eq!(relocated("65 67 c7 05 00 00 00 00 00 00 00 00", offset, R_PC32, -8), []);
    }
    for offset in [0, 1, 2, 3, 5, 6, 7] {
        assert_eq!(
            relocated("65 67 c7 05 00 00 00 00 00 00 00 00", offset, R_PC32, -8),
            [Rule::RelocationField],
            "offset {offset}"
        );
    }
    // width: 8 bytes over a 4-byte field, 4 over 8
    assert_eq!(relocated("90 b8 00 00 00 00 90 90 90 90", 2, R_64, 0), [Rule::RelocationField]);
    assert_eq!(relocated("48 b8 00 00 00 00 00 00 00 00", 2, R_32, 0), [Rule::RelocationField]);
    assert_eq!(relocated("48 b8 00 00 00 00 00 00 00 00", 6, R_32, 0), [Rule::RelocationField]);
    // an 8-bit displacement or immediate, padding, an instruction without fields, over two
    // instructions
    assert_eq!(relocated("48 8b 47 08 90 90 90", 3, R_32, 0), [Rule::RelocationField]);
    assert_eq!(relocated("48 83 c0 08 90 90 90", 3, R_32, 0), [Rule::RelocationField]);
    assert_eq!(relocated("90 90 90 90 90", 0, R_32, 0), [Rule::RelocationField]);
    assert_eq!(relocated("0f 1f 80 00 00 00 00", 3, R_32, 0), []); // a nop's displacement is one
    assert_eq!(relocated("b8 00 00 00 00 b8 00 00 00 00", 4, R_32, 0), [Rule::RelocationField]);
    // At and past the end.
    assert_eq!(relocated("b8 00 00 00 00", 2, R_32, 0), [Rule::RelocationTable, Rule::RelocationField]);
    assert_eq!(relocated("b8 00 00 00 00", 5, R_32, 0), [Rule::RelocationTable]);
    assert_eq!(relocated("b8 00 00 00 00", 5, 99, 0), [Rule::RelocationTable]); // of no known type
    assert_eq!(relocated("b8 00 00 00 00", u64::MAX, R_32, 0), [Rule::RelocationTable]);
    assert_eq!(relocated("b8 00 00 00 00", u64::MAX - 3, R_32, 0), [Rule::RelocationTable]);
}

#[test]
fn r02_types() {
    // none, GOT32, COPY, JUMP_SLOT, RELATIVE, 16, PC16, 8, PC8, DTPMOD64, TLSGD, GOTTPOFF,
    // IRELATIVE, SIZE32, unknown
    for kind in [0, 3, 5, 7, 8, 12, 13, 14, 15, 16, 19, 22, 37, 32, 34, 35, 36, 43, 99, u32::MAX] {
        assert_eq!(relocated("b8 00 00 00 00", 1, kind, 0), [Rule::RelocationType], "type {kind}");
    }
    for kind in [2, 9, 10, 11, 21, 23, 41, 42] {
        assert_eq!(relocated("b8 00 00 00 00", 1, kind, 0), [], "type {kind}");
    }
    for kind in [1, 17, 24] {
        assert_eq!(relocated("48 b8 00 00 00 00 00 00 00 00", 2, kind, 0), [], "type {kind}");
    }
    // PLT32 means a branch
    assert_eq!(relocated("b8 00 00 00 00", 1, R_PLT32, -4), [Rule::RelocationType]);
    assert_eq!(relocated("48 8b 05 00 00 00 00", 3, R_PLT32, -4), [Rule::RelocationType]);
}

#[test]
fn r03_regions_are_not_relocated() {
    let branch = "81 e0 f8 ff 0f 00 65 67 ff a0 00 00 10 00";
    assert_eq!(relocated(branch, 2, R_32, 0), [Rule::RelocationGuard]); // the mask
    // The table, and the header, by other names.
    assert_eq!(relocated(branch, 10, R_32, 0), [Rule::IndirectBranch]);
    let string = format!("b8 00 00 00 00 {RDI} aa b8 00 00 00 00");
    assert_eq!(relocated(&string, 12, R_32, 0), [Rule::StringMask]);
    assert_eq!(relocated(&string, 1, R_32, 0), []); // before
    assert_eq!(relocated(&string, 18, R_32, 0), []); // after
    // The call of a region is no direct branch.
    let call = branch.replace("ff a0", "ff 90");
    assert_eq!(relocated(&call, 10, R_PLT32, -4), [Rule::IndirectBranch, Rule::RelocationType]);
}

#[test]
fn several_relocations_in_one_instruction() {
    let code = hex("65 67 c7 05 00 00 00 00 00 00 00 00 e8 00 00 00 00");
    let entries = [(13, R_PLT32, 2, -4), (8, R_32, 2, 0), (4, R_PC32, 2, -8)];
    let elf = Elf::text(&code).symbol(symbol("g", 0, 0)).relocations(1, &entries);
    assert_eq!(rules(&elf, Write), []);
}

#[test]
fn a_report_names_place_function_and_instruction() {
    let bytes = Elf::text(&hex("90 90 c3 90 48 89 07")).symbol(symbol("g", 1, 3)).build();
    let report = sfi_verifier::verify(&bytes, &options(Write)).unwrap();
    let [violation] = report.violations.as_slice() else { panic!("{:?}", report.violations) };
    assert_eq!(violation.rule, Rule::StoreSegment);
    assert_eq!((violation.section, violation.offset), (Some(1), 4));
    assert_eq!(violation.section_name.as_deref(), Some(".text"));
    assert_eq!(violation.function.as_deref(), Some("g+0x1"));
    assert_eq!(violation.instruction.as_deref(), Some("mov %rax, (%rdi)"));
    assert_eq!((report.text_bytes, report.instructions), (7, 5));
    assert!(!report.is_safe());
}

#[test]
fn violations_are_counted_beyond_the_limit() {
    let count = sfi_verifier::MAX_VIOLATIONS + 1234;
    let bytes = Elf::text(&vec![0x9c; count]).build();
    let report = sfi_verifier::verify(&bytes, &options(Write)).unwrap();
    assert_eq!(report.violations.len(), sfi_verifier::MAX_VIOLATIONS);
    assert_eq!(report.omitted, 1234);
}
