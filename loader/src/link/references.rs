//! The targets of relocations, the words of the GOT that they need, and the symbols without a
//! definition. Nothing has an offset yet.

use crate::link::error::{LinkError, Mention};
use crate::link::select::Input;
use crate::link::symbols::{Symbols, Target};
use crate::spec::DomainSpec;
use foldhash::{HashSet, HashSetExt};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use sfi_verifier::elf::Relocation;
use sfi_verifier::elf::number::{
    R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};
use std::collections::BTreeMap;

/// Says whether a relocation's field leads to a word of the GOT.
pub(crate) fn needs_got(kind: u32) -> bool {
    matches!(kind, R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX)
}

/// Lists the relocations of all sections that become memory of their own: object, section,
/// relocation and target. There are many, and the closures of `for_each` are faster here than the
/// body of a loop, which leaves the nested lists at each step.
pub(crate) fn relocations<'l>(
    inputs: &'l [Input<'_>],
    symbols: &'l Symbols<'_>,
) -> impl Iterator<Item = (usize, usize, &'l Relocation, Target)> {
    inputs.iter().enumerate().flat_map(move |(input, from)| {
        let live = &symbols.live[input];
        let memory = from.object.sections.iter().enumerate().filter(move |(s, of)| live[*s] && !of.is_slot_array());
        memory.flat_map(move |(section, s)| {
            s.relocations
                .iter()
                .filter(|r| r.kind != R_X86_64_NONE)
                .map(move |r| (input, section, r, target(symbols, input, r)))
        })
    })
}

/// Returns the target of a relocation of an object.
#[inline(always)]
fn target(symbols: &Symbols<'_>, input: usize, r: &Relocation) -> Target {
    match r.symbol {
        0 => Target::Absolute(0),
        index => symbols.targets[input].get(index).copied().unwrap_or(Target::Undefined),
    }
}

/// Lists the arrays of dispatch slots: object, section, and the target and addend of each word.
pub(crate) fn slot_arrays<'l>(
    inputs: &'l [Input<'_>],
    symbols: &'l Symbols<'_>,
) -> impl Iterator<Item = (usize, usize, impl Iterator<Item = (Target, i64)> + use<'l>)> {
    inputs.iter().enumerate().flat_map(move |(input, from)| {
        let sections = from.object.sections.iter().enumerate();
        sections.filter(move |(s, of)| symbols.live[input][*s] && of.is_slot_array()).map(move |(section, s)| {
            (input, section, s.relocations.iter().map(move |r| (target(symbols, input, r), r.addend)))
        })
    })
}

/// The content of a word of the GOT: a symbol's address and an addend.
pub(crate) type GotEntry = (Target, i64);

/// Returns the GOT's word that a relocation's field leads to. `lea` says whether [`Leas`] has the
/// field.
pub(crate) fn got_entry(r: &Relocation, target: Target, lea: bool) -> Option<GotEntry> {
    match r.kind {
        kind if needs_got(kind) => Some((target, 0)),
        // The instruction ends with the field, 4 bytes after the field's start.
        R_X86_64_PC32 if lea => Some((target, r.addend.wrapping_add(4))),
        _ => None,
    }
}

/// Lists the words of the GOT, each once.
pub(crate) fn got_entries(inputs: &[Input<'_>], symbols: &Symbols<'_>, leas: &Leas) -> Vec<GotEntry> {
    let mut seen = HashSet::new();
    relocations(inputs, symbols)
        .filter_map(|(input, section, r, target)| got_entry(r, target, leas.contains(&(input, section, r.offset))))
        .filter(|entry| seen.insert(*entry))
        .collect()
}

/// Object, section and offset of the displacements of `lea X(%rip),%r64` for an X in a shared
/// region. Such a `lea` gives a common address, which no displacement reaches. So it becomes a
/// `mov` from a word of the GOT.
pub(crate) type Leas = HashSet<(usize, usize, u64)>;

/// Finds the displacements of [`Leas`]. A verified section decodes from its start.
pub(crate) fn region_leas(inputs: &[Input<'_>], symbols: &Symbols<'_>) -> Leas {
    let is_region = |target: &Target| matches!(target, Target::Region { .. });
    let to_region = |(input, section, r, target): (usize, usize, &Relocation, Target)| {
        let code = inputs[input].object.sections[section].is_executable();
        let found = code && r.kind == R_X86_64_PC32 && is_region(&target);
        found.then_some((input, section, r.offset))
    };
    if !symbols.targets.iter().flatten().any(is_region) {
        return Leas::new();
    }
    let mut leas: Leas = relocations(inputs, symbols).filter_map(to_region).collect();
    let sections: HashSet<(usize, usize)> = leas.iter().map(|(input, section, _)| (*input, *section)).collect();
    let mut found = Leas::new();
    for (input, section) in sections {
        let mut decoder = Decoder::new(64, inputs[input].object.sections[section].data, DecoderOptions::NONE);
        let mut ins = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut ins);
            if ins.code() == Code::Lea_r64_m && ins.memory_base() == Register::RIP {
                let field = decoder.get_constant_offsets(&ins).displacement_offset() as u64;
                found.insert((input, section, ins.ip() + field));
            }
        }
    }
    leas.retain(|lea| found.contains(lea));
    leas
}

/// Says whether a relocation takes a code symbol's address. A branch does not.
pub(crate) fn takes_address(kind: u32) -> bool {
    kind != R_X86_64_PLT32
}

/// Reports all undefined symbols that relocations need, in one error.
pub(crate) fn check_undefined(spec: &DomainSpec, inputs: &[Input<'_>], symbols: &Symbols<'_>) -> Result<(), LinkError> {
    let mut missing: BTreeMap<String, &str> = BTreeMap::new();
    let undefined = relocations(inputs, symbols).filter(|(_, _, _, target)| *target == Target::Undefined);
    undefined.for_each(|(input, _, r, _)| {
        let name = inputs[input].object.symbols.get(r.symbol).map_or("?", |s| s.name);
        missing.entry(name.to_owned()).or_insert(&inputs[input].name);
    });
    if missing.is_empty() {
        return Ok(());
    }
    let symbols = missing.into_iter().map(|(name, file)| Mention::new(name, [file.to_owned()])).collect();
    Err(LinkError::Undefined { domain: spec.name.clone(), symbols })
}
