//! What the relocations refer to: their targets, the words of the GOT that they need, and the
//! symbols that nobody defines. No offsets yet.

use crate::link::error::LinkError;
use crate::link::select::Input;
use crate::link::symbols::{Symbols, Target};
use crate::spec::DomainSpec;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use sfi_verifier::elf::Relocation;
use sfi_verifier::elf::number::{
    R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};
use std::collections::{BTreeMap, HashSet};

/// Says whether a relocation's field leads to a word of the GOT.
pub(crate) fn needs_got(kind: u32) -> bool {
    matches!(kind, R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX)
}

/// Every relocation of every section that becomes memory, with what it refers to.
pub(crate) fn relocations<'l>(
    inputs: &'l [Input<'_>],
    symbols: &'l Symbols<'_>,
) -> impl Iterator<Item = (usize, usize, &'l Relocation, Target)> {
    inputs.iter().enumerate().flat_map(move |(input, from)| {
        let live = &symbols.live[input];
        from.object.sections.iter().enumerate().filter(move |(s, _)| live[*s]).flat_map(move |(section, s)| {
            s.relocations.iter().filter(|r| r.kind != R_X86_64_NONE).map(move |r| {
                let target = match r.symbol {
                    0 => Target::Absolute(0),
                    index => symbols.targets[input].get(index).copied().unwrap_or(Target::Undefined),
                };
                (input, section, r, target)
            })
        })
    })
}

/// The content of a word of the GOT: a symbol's address and an addend.
pub(crate) type GotEntry = (Target, i64);

/// The GOT's word that a relocation's field leads to.
pub(crate) fn got_entry(r: &Relocation, target: Target, lea: bool) -> Option<GotEntry> {
    match r.kind {
        kind if needs_got(kind) => Some((target, 0)),
        // The instruction ends behind the field.
        R_X86_64_PC32 if lea => Some((target, r.addend.wrapping_add(4))),
        _ => None,
    }
}

/// What the GOT holds.
pub(crate) fn got_entries(inputs: &[Input<'_>], symbols: &Symbols<'_>, leas: &Leas) -> Vec<GotEntry> {
    let mut seen = HashSet::new();
    relocations(inputs, symbols)
        .filter_map(|(input, section, r, target)| got_entry(r, target, leas.contains(&(input, section, r.offset))))
        .filter(|entry| seen.insert(*entry))
        .collect()
}

/// Object, section and offset of the displacements of `lea X(%rip),%r64` where X is in a shared
/// region. What they give is a common address, which no displacement reaches: each becomes `mov`
/// from a word of the GOT.
pub(crate) type Leas = HashSet<(usize, usize, u64)>;

/// Finds them. A verified section decodes from its start.
pub(crate) fn region_leas(inputs: &[Input<'_>], symbols: &Symbols<'_>) -> Leas {
    let to_region = |(input, section, r, target): (usize, usize, &Relocation, Target)| {
        let code = inputs[input].object.sections[section].is_executable();
        let found = code && r.kind == R_X86_64_PC32 && matches!(target, Target::Region { .. });
        found.then_some((input, section, r.offset))
    };
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

/// Whether a relocation takes a code symbol's address (a branch does not).
pub(crate) fn takes_address(kind: u32) -> bool {
    kind != R_X86_64_PLT32
}

/// Every symbol that a relocation needs and nobody defines, in one error.
pub(crate) fn check_undefined(spec: &DomainSpec, inputs: &[Input<'_>], symbols: &Symbols<'_>) -> Result<(), LinkError> {
    let mut missing: BTreeMap<String, &str> = BTreeMap::new();
    for (input, _, r, target) in relocations(inputs, symbols) {
        if target == Target::Undefined {
            let name = inputs[input].object.symbols.get(r.symbol).map_or("?", |s| s.name);
            missing.entry(name.to_owned()).or_insert(&inputs[input].name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let symbols = missing.into_iter().map(|(name, file)| format!("{name} (used in {file})")).collect();
    Err(LinkError::Undefined { domain: spec.name.clone(), symbols })
}
