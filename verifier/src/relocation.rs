//! Relocations over text (System V psABI x86-64, section 4.4).

use crate::elf::number::{self as r, relocation_name};
use crate::elf::{Object, Place, Relocation};
use crate::facts::{Facts, Field};
use sfi_contract::{Anchor, Anchored, Rule};

/// Returns the number of bytes that a relocation type writes, for the types that may patch text.
pub(crate) fn text_width(kind: u32) -> Option<u64> {
    match kind {
        r::R_X86_64_64 | r::R_X86_64_PC64 | r::R_X86_64_DTPOFF64 => Some(8),
        r::R_X86_64_PC32
        | r::R_X86_64_PLT32
        | r::R_X86_64_32
        | r::R_X86_64_32S
        | r::R_X86_64_GOTPCREL
        | r::R_X86_64_GOTPCRELX
        | r::R_X86_64_REX_GOTPCRELX
        | r::R_X86_64_TPOFF32
        | r::R_X86_64_DTPOFF32 => Some(4),
        _ => None,
    }
}

/// Returns the number of bytes that a relocation type writes, for the types that may patch
/// allocated data.
pub(crate) fn data_width(kind: u32) -> Option<u64> {
    match kind {
        r::R_X86_64_TPOFF64 => Some(8),
        r::R_X86_64_GOTPCRELX | r::R_X86_64_REX_GOTPCRELX => None,
        kind => text_width(kind),
    }
}

/// Returns the place whose window offset the loader will write: `R_X86_64_32` or `R_X86_64_32S`
/// against the undefined symbol of an anchor. Such an offset is below 2 GiB, so both types write
/// the same number.
pub(crate) fn place(relocation: &Relocation, object: &Object<'_>) -> Option<Anchored> {
    let symbol = object.symbols.get(relocation.symbol).filter(|symbol| symbol.place == Place::Undefined)?;
    let fits = matches!(relocation.kind, r::R_X86_64_32 | r::R_X86_64_32S);
    let addend = i32::try_from(relocation.addend).ok()?;
    Anchor::named(symbol.name).filter(|_| fits).map(|anchor| anchor.at(addend))
}

/// A broken rule about a relocation, and its description.
type Fault = (Rule, String);

/// Checks all rules about a relocation that begins in the instruction at `at`. Returns the field
/// that it covers.
pub(crate) fn check(relocation: &Relocation, at: u64, facts: &Facts, object: &Object<'_>) -> Result<Field, Fault> {
    let width = check_type(relocation)?;
    let field = check_field(relocation, width, at, facts)?;
    match facts.is_branch() {
        true => check_branch(relocation, object)?,
        false => check_not_branch(relocation)?,
    }
    Ok(field)
}

/// Checks rule `SFI-R02`: the type may patch text. Returns its width in bytes.
fn check_type(relocation: &Relocation) -> Result<u64, Fault> {
    text_width(relocation.kind).ok_or_else(|| {
        (
            Rule::RelocationType,
            format!("type {} ({}) may not patch text", relocation.kind, relocation_name(relocation.kind)),
        )
    })
}

/// Checks rule `SFI-R01`: the relocation covers exactly the displacement or the immediate of the
/// instruction at `at`.
fn check_field(relocation: &Relocation, width: u64, at: u64, facts: &Facts) -> Result<Field, Fault> {
    let covers =
        |field: &Field| field.size as u64 == width && relocation.offset == at.wrapping_add(field.offset as u64);
    [facts.displacement(), facts.immediate()].into_iter().find(covers).ok_or_else(|| {
        let detail = format!("{} covers no whole displacement or immediate", relocation_name(relocation.kind));
        (Rule::RelocationField, detail)
    })
}

/// Checks rule `SFI-B03`: a branch's relocation is PLT32 with addend -4 against a symbol that is,
/// or may become, a place in text.
fn check_branch(relocation: &Relocation, object: &Object<'_>) -> Result<(), Fault> {
    let fault = |detail: String| Err((Rule::BranchRelocation, detail));
    if relocation.kind != r::R_X86_64_PLT32 {
        return fault(format!("the type is {}", relocation_name(relocation.kind)));
    }
    if relocation.addend != -4 {
        return fault(format!("the addend is {}, not -4", relocation.addend));
    }
    match object.symbols.get(relocation.symbol) {
        Some(symbol) if relocation.symbol != 0 => match symbol.place {
            Place::Undefined => Ok(()),
            Place::Section(index) if object.sections[index].is_executable() => Ok(()),
            _ => fault(format!("`{}` is not in text", symbol.name)),
        },
        _ => fault("there is no symbol".into()),
    }
}

/// Checks rule `SFI-R02`: only a branch has a PLT32.
fn check_not_branch(relocation: &Relocation) -> Result<(), Fault> {
    if relocation.kind == r::R_X86_64_PLT32 {
        return Err((Rule::RelocationType, "R_X86_64_PLT32 on an instruction that is no branch".into()));
    }
    Ok(())
}
