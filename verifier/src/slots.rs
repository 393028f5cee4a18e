//! Arrays of dispatch slots (rule `SFI-E09`). The loader puts their words into the dispatch table,
//! and the check of the final text judges each slot (`SFI-T02`).

use crate::elf::{Object, Place, Relocation, Section, number as n};
use crate::report::Findings;
use sfi_contract::Rule;

/// Flags of an array. A group may have one, too.
const FLAGS: u64 = n::SHF_ALLOC as u64;

/// Applies the rule to all arrays, and to everything that names one.
pub(crate) fn check(object: &Object<'_>, findings: &mut Findings) {
    for (index, section) in object.sections.iter().enumerate() {
        findings.section = Some(index);
        if section.is_slot_array() {
            check_form(section, findings);
            check_words(object, section, findings);
        }
        if section.is_allocated() {
            check_names(object, section, findings);
        }
    }
    findings.section = None;
    for (index, symbol) in object.symbols.iter().enumerate().filter(|(_, s)| s.binding != n::STB_LOCAL) {
        if array(object, index).is_some() {
            findings.add(Rule::SlotArray, 0, format!("symbol `{}` is not local", symbol.name));
        }
    }
}

/// Returns the array that a symbol names.
fn array<'o, 'a>(object: &'o Object<'a>, symbol: usize) -> Option<&'o Section<'a>> {
    match object.symbols.get(symbol)?.place {
        Place::Section(section) => object.sections.get(section).filter(|s| s.is_slot_array()),
        _ => None,
    }
}

fn check_form(section: &Section<'_>, findings: &mut Findings) {
    let mut refuse = |why: String| findings.add(Rule::SlotArray, 0, why);
    if section.kind != n::SHT_PROGBITS {
        refuse(format!("the array has the type {:#x}", section.kind));
    }
    if section.flags & !u64::from(n::SHF_GROUP) != FLAGS {
        refuse(format!("the array has the flags {:#x}", section.flags));
    }
    if !section.size.is_multiple_of(8) {
        refuse(format!("{:#x} bytes are no whole words", section.size));
    }
}

/// Checks that each word has one relocation, to a place in text.
fn check_words(object: &Object<'_>, section: &Section<'_>, findings: &mut Findings) {
    let mut at = 0;
    for relocation in &section.relocations {
        if relocation.offset != at {
            break;
        }
        if let Some(why) = no_place(object, relocation) {
            findings.add(Rule::SlotArray, at, why);
        }
        at += 8;
    }
    if section.relocations.len() as u64 != section.size / 8 || at != section.size {
        findings.add(Rule::SlotArray, at, "each word of the array needs one relocation, and nothing else has one");
    }
}

/// Returns the reason why a relocation leads to no place in text of this object.
fn no_place(object: &Object<'_>, relocation: &Relocation) -> Option<String> {
    if relocation.kind != n::R_X86_64_64 {
        return Some(format!("the type is {}", n::relocation_name(relocation.kind)));
    }
    let symbol = object.symbols.get(relocation.symbol)?;
    let place = symbol.value.wrapping_add_signed(relocation.addend);
    let inside = match symbol.place {
        Place::Section(section) => object.sections[section].is_executable() && place < object.sections[section].size,
        _ => false,
    };
    let fixed = symbol.binding == n::STB_LOCAL && symbol.kind != n::STT_GNU_IFUNC;
    (!inside || !fixed).then(|| format!("`{}`+{:#x} is no local place in text", symbol.name, relocation.addend))
}

/// Checks that only displacements in text name words of arrays.
fn check_names(object: &Object<'_>, section: &Section<'_>, findings: &mut Findings) {
    for relocation in &section.relocations {
        let Some(array) = array(object, relocation.symbol) else { continue };
        let word = object.symbols[relocation.symbol].value.wrapping_add_signed(relocation.addend);
        let why = if !section.is_executable() {
            "data names an array of slots".to_owned()
        } else if relocation.kind != n::R_X86_64_32S {
            format!("{} names an array of slots", n::relocation_name(relocation.kind))
        } else if word >= array.size || !word.is_multiple_of(8) {
            format!("{word:#x} is no word of the array")
        } else {
            continue;
        };
        findings.add(Rule::SlotArray, relocation.offset, why);
    }
}
