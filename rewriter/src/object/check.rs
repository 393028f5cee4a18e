//! Phase 1a: refuses objects that no later phase could express.

use crate::object::decode::Code;
use crate::object::read::{Object, Place, Section, Symbol};
use crate::refusal::{Reason, Refusal};
use object::elf;
use sfi_contract::intermediate;
use sfi_contract::names::NOTE_SECTION;
use sfi_contract::text::clean;

/// Refuses sections that no later phase could express.
pub(crate) fn sections(object: &Object<'_>) -> Result<(), Vec<Refusal>> {
    let mut refusals = Vec::new();
    let mut refuse = |reason, section: &Section<'_>, detail: &str| {
        refusals.push(Refusal {
            section: section.display_name(),
            detail: detail.to_owned(),
            ..Refusal::of_object(reason)
        });
    };
    if object.sections.iter().any(|s| s.name == NOTE_SECTION.as_bytes()) {
        return Err(vec![Refusal::of_object(Reason::Rewritten)]);
    }
    // LLVM's sections accompany machine code, however little it is.
    let for_gcc = object.sections.iter().any(|s| intermediate::is_gcc_section(s.name));
    if for_gcc && !object.sections.iter().any(|s| s.is_alloc() && s.size != 0) {
        return Err(vec![Refusal::of_object(Reason::IntermediateCode)]);
    }
    for section in &object.sections {
        let executable = section.flags & elf::SHF_EXECINSTR.0 != 0;
        if executable && !section.is_code() && section.size != 0 {
            refuse(Reason::DataInText, section, "an executable section is not ordinary program text");
        }
        if executable && section.flags & elf::SHF_WRITE.0 != 0 {
            refuse(Reason::DataInText, section, "an executable section is writable");
        }
        if executable && section.name == b".note.GNU-stack" {
            refuse(Reason::ExecutableStack, section, "");
        }
        if let Some((reason, detail)) = section.relocs.iter().filter(|_| section.is_code()).find_map(|r| model(r.kind))
        {
            refuse(reason, section, detail);
        }
    }
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

/// Returns the refusal of a relocation in text whose type tells how the object was compiled.
fn model(kind: u32) -> Option<(Reason, &'static str)> {
    const LARGE: [u32; 5] = [
        elf::R_X86_64_GOT64.0,
        elf::R_X86_64_GOTPC64.0,
        elf::R_X86_64_GOTPCREL64.0,
        elf::R_X86_64_GOTPLT64.0,
        elf::R_X86_64_PLTOFF64.0,
    ];
    const DESCRIPTORS: [u32; 2] = [elf::R_X86_64_GOTPC32_TLSDESC.0, elf::R_X86_64_TLSDESC_CALL.0];
    let descriptors = "descriptors of thread locals, as -mtls-dialect=gnu2 writes them: use -mtls-dialect=gnu";
    if LARGE.contains(&kind) {
        return Some((Reason::LargeModel, ""));
    }
    DESCRIPTORS.contains(&kind).then_some((Reason::ThreadLocal, descriptors))
}

/// Says whether a linker could compile a part of the object anew. The new object has no such part.
pub(crate) fn has_intermediate_code(object: &Object<'_>) -> bool {
    object.sections.iter().any(|s| intermediate::is_section(s.name))
}

/// Checks that every symbol in text names an instruction or the section's end.
pub(crate) fn symbols(code: &Code<'_, '_>) -> Result<(), Vec<Refusal>> {
    let mut refusals = Vec::new();
    for symbol in &code.object.symbols {
        let Place::Section(section) = symbol.place else { continue };
        if symbol.is_indirect() && code.at(section, symbol.value).is_none() {
            refusals.push(code.refuse_offset(section, symbol.value, Reason::IndirectFunction, name(symbol)));
            continue;
        }
        if code.section(section).is_none() {
            continue;
        }
        let at_end = symbol.value == code.object.sections[section].data.len() as u64;
        // Data that was moved away stood at the section's start.
        let gone = symbol.kind == elf::STT_SECTION.0 && !code.object.sections[section].gaps.is_empty();
        if code.at(section, symbol.value).is_none() && !at_end && !gone {
            let detail = format!("symbol `{}` is not at an instruction", name(symbol));
            refusals.push(code.refuse_offset(section, symbol.value, Reason::BranchTarget, detail));
        }
    }
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

fn name(symbol: &Symbol<'_>) -> String {
    clean(symbol.name)
}
