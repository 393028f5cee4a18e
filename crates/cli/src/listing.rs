//! The code of an object, instruction by instruction, with notes about each.

use crate::objects::functions;
use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use sfi_contract::layout::{DISPATCH, DISPATCH_MASK, HEADER_BASE};
use sfi_contract::{Anchor, Anchored};
use sfi_debuginfo::map::{self, MapEntry};
use sfi_verifier::elf::{Object, Place, Relocation, Section};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The purpose of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Part of an unsafe region.
    Region,
    /// A store that GS and a 32-bit address confine.
    Store,
    /// Moves the data stack.
    Stack,
    /// Reads or writes the TCB page or thread locals.
    Tcb,
    /// Uses the control stack.
    Control,
}

impl Note {
    /// Returns the purpose in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Note::Region => "region",
            Note::Store => "store",
            Note::Stack => "stack",
            Note::Tcb => "tcb",
            Note::Control => "control",
        }
    }
}

/// An instruction with its notes.
pub struct Line<'a> {
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset of the original instruction that this one stands for.
    pub original: Option<u64>,
    /// Says whether the rewriter inserted the instruction.
    pub inserted: bool,
    /// Symbols at this place.
    pub labels: Vec<&'a str>,
    /// Says whether its address is taken, so that the loader gives it a slot.
    pub slot: bool,
    /// File and line of the source.
    pub source: Option<String>,
    pub text: String,
    /// Symbol and addend of the relocation that patches the instruction.
    pub relocation: Option<String>,
    pub notes: Vec<Note>,
}

/// A section, or a function of it.
pub struct Listing<'a> {
    pub section: &'a str,
    /// Says whether the object has a map, which tells inserted instructions from original ones.
    pub mapped: bool,
    pub lines: Vec<Line<'a>>,
}

impl<'a> Listing<'a> {
    /// Lists the sections of code of an object, or only one function.
    pub fn of(object: &Object<'a>, function: Option<&str>) -> Vec<Listing<'a>> {
        let slots = slots(object);
        let maps = maps(object);
        let mut all = Vec::new();
        for (index, section) in object.sections.iter().enumerate() {
            if !section.is_executable() || section.data.is_empty() {
                continue;
            }
            let labels = functions(object, index);
            let relocations: BTreeMap<u64, &Relocation> = section.relocations.iter().map(|r| (r.offset, r)).collect();
            let range = match function {
                None => 0..section.data.len() as u64,
                Some(name) => {
                    let Some(at) = labels.iter().position(|(_, label)| *label == name) else { continue };
                    let end = labels.get(at + 1).map_or(section.data.len() as u64, |(next, _)| *next);
                    labels[at].0..end
                }
            };
            let map = maps.iter().find(|(of, _)| *of == index).map(|(_, entries)| entries.as_slice());
            let mut lines = decode(object, section, range, map);
            for line in &mut lines {
                line.slot = slots.contains(&(index, line.offset));
                let patch = relocations.range(line.offset..line.offset + line.length).next();
                line.relocation = patch.and_then(|(_, relocation)| target(object, relocation));
                let label = labels.binary_search_by_key(&line.offset, |(offset, _)| *offset);
                line.labels = label.map_or(Vec::new(), |at| vec![labels[at].1]);
            }
            let places: Vec<(usize, u64)> = lines.iter().map(|line| (index, line.offset)).collect();
            for (line, frames) in lines.iter_mut().zip(sfi_debuginfo::lookup_in(object, &places)) {
                line.source = frames.first().filter(|f| f.line.is_some()).map(ToString::to_string);
            }
            all.push(Listing { section: section.name, mapped: map.is_some(), lines });
        }
        all
    }
}

/// Returns the places of code whose address a relocation takes.
fn slots(object: &Object<'_>) -> BTreeSet<(usize, u64)> {
    /// `R_X86_64_PLT32`, the relocation of branches.
    const BRANCH: u32 = 4;
    let relocations = object.sections.iter().filter(|s| s.is_allocated()).flat_map(|s| &s.relocations);
    relocations
        .filter(|r| r.kind != BRANCH)
        .filter_map(|r| object.symbols.get(r.symbol))
        .filter_map(|symbol| match symbol.place {
            Place::Section(section) if object.sections.get(section)?.is_executable() => Some((section, symbol.value)),
            _ => None,
        })
        .collect()
}

/// Returns the map of each section, if the rewriter left one.
fn maps(object: &Object<'_>) -> Vec<(usize, Vec<MapEntry>)> {
    let Some(section) = object.sections.iter().find(|s| s.name == map::SECTION && !s.is_allocated()) else {
        return Vec::new();
    };
    let section_of = |field: u64| {
        let relocation = section.relocations.iter().find(|r| r.offset == field)?;
        match object.symbols.get(relocation.symbol)?.place {
            Place::Section(section) => Some(section),
            _ => None,
        }
    };
    map::decode(section.data).into_iter().filter_map(|(field, entries)| Some((section_of(field)?, entries))).collect()
}

/// Writes the target of a relocation for people.
fn target(object: &Object<'_>, relocation: &Relocation) -> Option<String> {
    let symbol = object.symbols.get(relocation.symbol)?;
    let name = match symbol.place {
        Place::Section(index) if symbol.name.is_empty() => object.sections.get(index)?.name,
        _ => symbol.name,
    };
    let plain = relocation.addend == 0 || relocation.addend == -4;
    Some(if plain { name.to_owned() } else { format!("{name}{:+}", relocation.addend) })
}

/// Returns the place in the window whose offset the loader will write into the field at `offset`.
fn anchored(object: &Object<'_>, section: &Section<'_>, offset: u64) -> Option<Anchored> {
    let relocations = &section.relocations;
    let relocation = &relocations[relocations.binary_search_by_key(&offset, |relocation| relocation.offset).ok()?];
    let anchor = Anchor::named(object.symbols.get(relocation.symbol)?.name)?;
    Some(anchor.at(i32::try_from(relocation.addend).ok()?))
}

/// Decodes a range of a section and notes everything that needs no symbols.
fn decode<'a>(
    object: &Object<'_>,
    section: &Section<'a>,
    range: Range<u64>,
    map: Option<&[MapEntry]>,
) -> Vec<Line<'a>> {
    let data = &section.data[range.start as usize..range.end as usize];
    let mut decoder = Decoder::with_ip(64, data, range.start, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    formatter.options_mut().set_uppercase_hex(false);
    let mut factory = InstructionInfoFactory::new();
    let mut lines: Vec<Line<'a>> = Vec::new();
    let mut instructions: Vec<Instruction> = Vec::new();
    while decoder.can_decode() {
        let mut ins = decoder.decode();
        let mut text = String::new();
        formatter.format(&ins, &mut text);
        let field = decoder.get_constant_offsets(&ins).displacement_offset() as u64;
        if let Some(place) = anchored(object, section, ins.ip() + field).filter(|_| field != 0) {
            ins.set_memory_displacement64(place.symbolic());
        }
        let offset = ins.ip();
        // The entry of the map that the instruction belongs to.
        let entry = map.and_then(|map| map[..map.partition_point(|e| e.new <= offset)].last());
        let original = entry.filter(|e| e.main == Some(offset - e.new)).map(|e| e.old);
        lines.push(Line {
            offset,
            length: ins.len() as u64,
            original,
            inserted: map.is_some() && original.is_none(),
            labels: Vec::new(),
            slot: false,
            source: None,
            text,
            relocation: None,
            notes: notes(&ins, &mut factory),
        });
        instructions.push(ins);
        for back in 1..=region(&instructions) {
            let at = lines.len() - back;
            lines[at].notes.retain(|note| *note != Note::Tcb);
            if !lines[at].notes.contains(&Note::Region) {
                lines[at].notes.insert(0, Note::Region);
            }
        }
    }
    lines
}

fn notes(ins: &Instruction, factory: &mut InstructionInfoFactory) -> Vec<Note> {
    let mut notes = Vec::new();
    let writes = |access| {
        matches!(access, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
    };
    let info = factory.info(ins);
    let memory = (0..ins.op_count()).find(|op| ins.op_kind(*op) == OpKind::Memory);
    let gs = ins.segment_prefix() == Register::GS;
    let anchored = Anchored::from_symbolic(ins.memory_displacement64());
    if gs && anchored.is_some_and(|place| place.anchor == Anchor::Tcb) {
        notes.push(Note::Tcb);
    } else if gs && memory.is_some_and(|op| writes(info.op_access(op))) {
        notes.push(Note::Store);
    }
    if info.used_registers().iter().any(|r| r.register().full_register() == Register::R15 && writes(r.access())) {
        notes.push(Note::Stack);
    }
    if matches!(ins.mnemonic(), Mnemonic::Call | Mnemonic::Ret) {
        notes.push(Note::Control);
    }
    notes
}

/// Returns the number of instructions at the end that form an unsafe region (`docs/CONTRACT.md`,
/// rules 6 and 7), or 0.
fn region(all: &[Instruction]) -> usize {
    let Some((last, before)) = all.split_last() else { return 0 };
    let gs = |ins: &Instruction, place: Anchored| {
        ins.segment_prefix() == Register::GS && ins.memory_displacement64() == place.symbolic()
    };
    let indirect = last.op_count() == 1 && last.op0_kind() == OpKind::Memory && gs(last, DISPATCH);
    let mask = |ins: &Instruction| {
        ins.mnemonic() == Mnemonic::And && ins.op_count() == 2 && ins.immediate32() == DISPATCH_MASK
    };
    if indirect && before.last().is_some_and(mask) {
        return 2;
    }
    if !last.is_string_instruction() {
        return 0;
    }
    // mov %e,%e ; add %gs:__sfi_header,%r, once for each pointer.
    let rebase = |pair: &[Instruction]| {
        pair[0].mnemonic() == Mnemonic::Mov
            && pair[0].op0_kind() == OpKind::Register
            && pair[0].op1_kind() == OpKind::Register
            && pair[0].op0_register() == pair[0].op1_register()
            && pair[1].mnemonic() == Mnemonic::Add
            && gs(&pair[1], HEADER_BASE)
    };
    let pairs = before.rchunks_exact(2).take(2).take_while(|pair| rebase(pair)).count();
    if pairs == 0 { 0 } else { 1 + 2 * pairs }
}
