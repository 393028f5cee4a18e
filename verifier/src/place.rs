//! The rules about the targets of branches and symbols. They need the whole map of a text.

use crate::elf::{Object, Place};
use crate::report::Findings;
use crate::sweep::Map;
use sfi_contract::Rule;

/// Checks rules `SFI-B01` and `SFI-B02`: a direct branch without a relocation reaches a legal
/// target of its own section.
pub(crate) fn check_branches(bytes: &[u8], map: &Map, findings: &mut Findings) {
    for branch in &map.branches {
        if !map.targets.contains(branch.target) {
            let (rule, why) = if map.inside_region(branch.target) {
                (Rule::BranchIntoRegion, "after the first instruction of an unsafe region")
            } else if branch.target >= bytes.len() as u64 {
                (Rule::BranchTarget, "outside the section")
            } else {
                (Rule::BranchTarget, "not at an instruction boundary")
            };
            findings.add_instruction(rule, bytes, 0, branch.at, &format!("the target {:#x} is {why}", branch.target));
        }
    }
}

/// Checks rules `SFI-E03` and `SFI-C03`: every symbol that is defined in text is at a legal target,
/// or at the section's end, and no register is saved there. `maps` is sorted by section.
pub(crate) fn check_symbols(object: &Object<'_>, maps: &[Map], findings: &mut Findings) {
    for (index, symbol) in object.symbols.iter().enumerate() {
        let Place::Section(section) = symbol.place else { continue };
        if !object.sections[section].is_executable() {
            continue;
        }
        let map = maps.binary_search_by_key(&section, |map| map.section).ok().map(|i| &maps[i]);
        let legal =
            map.is_some_and(|map| map.targets.contains(symbol.value)) || symbol.value == object.sections[section].size;
        if !legal {
            findings.section = Some(section);
            let inside = map.is_some_and(|map| map.inside_region(symbol.value));
            let why = if inside { "inside an unsafe region" } else { "not at an instruction boundary" };
            findings.add(Rule::SymbolTarget, symbol.value, format!("symbol {index} `{}` is {why}", symbol.name));
        } else if map.is_some_and(|map| map.saves.depth(symbol.value) != 0) {
            findings.section = Some(section);
            let detail = format!("symbol {index} `{}` is where words are saved", symbol.name);
            findings.add(Rule::StackDepth, symbol.value, detail);
        }
    }
}
