//! Moves data between instructions, as in hand-written assembly, to sections of its own.
//!
//! Function symbols, direct branches and fall-through reach all code. A run of bytes that they do
//! not reach is data if the program reads bytes of it. It reads by a rip-relative operand, or
//! through a register that a `lea` of one of its places has filled. A run that only a `lea` names
//! is not taken, because it may be code. An object that branches indirectly is not carved for this
//! reason. The new sections are copies of the runs. Instructions and relocations that named places
//! of a run then name the copy.
//!
//! Loops that count down name a place before their table: `lea table-8(%rip)`. If a `lea` names a
//! place inside an instruction, a little before a run, and reads through it, the copy begins there.

use crate::object::reached::{At, Insns};
use crate::object::read::{Object, Place, Reloc, Section, SectionIndex, Symbol, SymbolIndex};
use crate::object::through::{Follower, Program, Ways};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes between a place that stands for a table and the table.
const LEAD: u64 = 64;

/// Returns the object with its data moved out of text. `None` if the move cannot be proved right,
/// or nothing moves.
pub(crate) fn carve<'a>(object: &Object<'a>) -> Option<Object<'a>> {
    let reached = Reached::find(object)?;
    let named = Named::find(object, &reached)?;
    let mut carved = object.clone();
    let mut moved = BTreeMap::new();
    for (index, section) in object.sections.iter().enumerate().filter(|(_, s)| s.is_code()) {
        let mut last = 0;
        for (start, end) in reached.gaps(index, section) {
            let lead = (index, last.max(start.saturating_sub(LEAD)));
            let before = named.before.range(lead..(index, start)).next().map(|at| at.1);
            last = end;
            if before.is_none() && named.read.range((index, start)..(index, end)).next().is_none() {
                // Nothing reads this run: it is padding, or text that nothing names. A place that
                // is only named may be code.
                if named.other.range((index, start)..(index, end)).next().is_some() {
                    return None;
                }
                if is_padding(&section.data[start as usize..end as usize]) {
                    continue;
                }
            }
            let first = first_byte(before.unwrap_or(start), section);
            let (copy, symbol) = copy(&mut carved, index, first, (start, end));
            moved.insert((index, before.unwrap_or(start)), Move { start, end, first, copy, symbol });
        }
    }
    if moved.is_empty() {
        return None;
    }
    Moves(moved).redirect(object, &reached, &mut carved)?;
    Some(carved)
}

/// Returns the offset where the copy of a run begins: a multiple of the section's alignment.
fn first_byte(start: u64, section: &Section<'_>) -> u64 {
    start & !(section.align.max(1) - 1)
}

/// Adds a section with a copy of the bytes from `first` to the end of a run. `first` is a multiple
/// of the old section's alignment, so the copy's places stay aligned.
fn copy<'a>(
    carved: &mut Object<'a>,
    index: SectionIndex,
    first: u64,
    (start, end): (u64, u64),
) -> (SectionIndex, SymbolIndex) {
    let text = &mut carved.sections[index];
    text.gaps.push((start, end));
    let data: &'a [u8] = text.data;
    let inside = |r: &Reloc| (start..end).contains(&r.offset);
    let relocs = text.relocs.iter().filter(|r| inside(r)).map(|r| Reloc { offset: r.offset - first, ..*r }).collect();
    text.relocs.retain(|r| !inside(r));
    let section = Section {
        name: b".rodata",
        kind: elf::SHT_PROGBITS.0,
        flags: elf::SHF_ALLOC.0,
        align: text.align,
        entsize: 0,
        link: 0,
        info: 0,
        size: end - first,
        data: &data[first as usize..end as usize],
        relocs,
        gaps: Vec::new(),
    };
    carved.sections.push(section);
    let section = carved.sections.len() - 1;
    carved.symbols.push(Symbol {
        name: b"",
        value: 0,
        size: 0,
        bind: elf::STB_LOCAL.0,
        kind: elf::STT_SECTION.0,
        other: 0,
        place: Place::Section(section),
    });
    (section, carved.symbols.len() - 1)
}

fn is_padding(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    while decoder.can_decode() {
        let ins = decoder.decode();
        if !matches!(ins.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2) {
            return false;
        }
    }
    true
}

/// A run and its copy.
struct Move {
    start: u64,
    end: u64,
    /// The place of the copy's first byte.
    first: u64,
    /// The copy's section and its symbol.
    copy: SectionIndex,
    symbol: SymbolIndex,
}

/// The runs that were copied, by the first place that names each.
struct Moves(BTreeMap<At, Move>);

impl Moves {
    /// Returns the new place of a place in a run: section, its symbol, offset.
    fn place(&self, at: At) -> Option<(SectionIndex, SymbolIndex, u64)> {
        self.place_or_before(at)
            .filter(|(moved, _)| moved.start <= at.1)
            .map(|(moved, at)| (moved.copy, moved.symbol, at))
    }

    /// Returns the run of a place in it or shortly before it, and the place in the copy.
    fn place_or_before(&self, at: At) -> Option<(&Move, u64)> {
        let (&(section, _), moved) = self.0.range(..=at).next_back()?;
        (section == at.0 && at.1 < moved.end).then(|| (moved, at.1 - moved.first))
    }

    /// Redirects everything that named a place of a run to the copy.
    fn redirect(&self, object: &Object<'_>, reached: &Reached, carved: &mut Object<'_>) -> Option<()> {
        for symbol in &mut carved.symbols {
            if let Place::Section(section) = symbol.place
                && symbol.kind != elf::STT_SECTION.0
                && let Some((copy, _, offset)) = self.place((section, symbol.value))
            {
                (symbol.place, symbol.value) = (Place::Section(copy), offset);
            }
        }
        // Redirects operands that the assembler resolved.
        for ((section, offset), ins) in reached.insns.iter() {
            let Some((field, target)) = resolved_operand(object, section, offset, ins) else { continue };
            let inside = reached.insns.get((section, target)).is_none();
            if let Some((Move { symbol, .. }, place)) = self.place_or_before((section, target)).filter(|_| inside) {
                let symbol = *symbol;
                let behind_field = (offset + ins.len() as u64 - field) as i64;
                let kind = elf::R_X86_64_PC32.0;
                let reloc = Reloc { offset: field, kind, symbol, addend: place as i64 - behind_field };
                carved.sections[section].relocs.push(reloc);
            }
        }
        // Redirects relocations against the symbol of a text section.
        for index in 0..carved.sections.len() {
            let alloc =
                carved.sections[index].is_alloc() && !crate::object::address::is_dropped(carved.sections[index].name);
            for number in 0..carved.sections[index].relocs.len() {
                let reloc = carved.sections[index].relocs[number];
                let Some(symbol) = object.symbols.get(reloc.symbol).filter(|s| s.kind == elf::STT_SECTION.0) else {
                    continue;
                };
                let Place::Section(section) = symbol.place else { continue };
                if !object.sections[section].is_code() || !alloc {
                    continue;
                }
                let Some(bias) = reached.bias(object, index, &reloc) else { continue };
                let target = symbol.value.wrapping_add_signed(reloc.addend.wrapping_add(bias));
                if let Some((_, symbol, place)) = self.place((section, target)) {
                    if bias == 0 && reloc.kind != elf::R_X86_64_64.0 {
                        return None;
                    }
                    let new = &mut carved.sections[index].relocs[number];
                    (new.symbol, new.addend) = (symbol, place as i64 - bias);
                }
            }
            carved.sections[index].relocs.sort_by_key(|r| r.offset);
        }
        Some(())
    }
}

/// Returns the field and the target of a rip-relative operand that no relocation patches.
fn resolved_operand(object: &Object<'_>, section: SectionIndex, offset: u64, ins: &Instruction) -> Option<(u64, u64)> {
    if !ins.is_ip_rel_memory_operand() || relocs_in(&object.sections[section], offset, ins.len()).next().is_some() {
        return None;
    }
    let bytes = object.sections[section].data.get(offset as usize..)?;
    // The decoder gives the fields of its last instruction only, so it decodes this one again.
    let mut decoder = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE);
    let ins = decoder.decode();
    let field = offset + decoder.get_constant_offsets(&ins).displacement_offset() as u64;
    Some((field, ins.memory_displacement64()))
}

fn relocs_in<'s>(section: &'s Section<'_>, offset: u64, len: usize) -> impl Iterator<Item = &'s Reloc> {
    let first = section.relocs.partition_point(|r| r.offset < offset);
    section.relocs[first..].iter().take_while(move |r| r.offset < offset + len as u64)
}

/// The instructions that control surely may reach.
struct Reached {
    insns: Insns,
}

impl Reached {
    /// Finds them. Returns `None` if control reaches bytes that are no instruction, overlapping
    /// instructions, or an indirect branch.
    fn find(object: &Object<'_>) -> Option<Reached> {
        let sizes = object.sections.iter().map(|section| if section.is_code() { section.data.len() } else { 0 });
        let mut reached = Reached { insns: Insns::new(sizes) };
        let mut work: Vec<At> = Vec::new();
        for symbol in &object.symbols {
            let Place::Section(section) = symbol.place else { continue };
            let starts = symbol.is_function() || (!symbol.is_local() && symbol.kind == elf::STT_NOTYPE.0);
            if starts && object.sections[section].is_code() {
                work.push((section, symbol.value));
            }
        }
        while let Some(at) = work.pop() {
            if reached.insns.get(at).is_some() {
                continue;
            }
            let (section, offset) = at;
            let bytes = object.sections[section].data.get(offset as usize..).filter(|b| !b.is_empty())?;
            let ins = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE).decode();
            if ins.is_invalid() || reached.overlaps(at, &ins) {
                return None;
            }
            reached.insns.insert(at, ins);
            let (target, next) = successors(object, section, offset, &ins)?;
            work.extend(target);
            work.extend(next);
        }
        Some(reached)
    }

    /// Says whether an instruction shares bytes with a reached one. A branch that skips a lock
    /// prefix is no overlap.
    fn overlaps(&self, (section, offset): At, ins: &Instruction) -> bool {
        let locked = |first: u64, other: &Instruction| other.has_lock_prefix() && first + 1 == offset;
        let before = self.insns.before((section, offset)).next();
        let into = before.is_some_and(|(first, other)| first + other.len() as u64 > offset && !locked(first, other));
        let behind = self.insns.range(section, offset + 1..offset + ins.len() as u64).next();
        into || behind.is_some_and(|(second, _)| !(ins.has_lock_prefix() && second == offset + 1))
    }

    /// Returns the place of the instruction that covers a place.
    fn covering(&self, (section, offset): At) -> Option<u64> {
        let (first, ins) = self.insns.before((section, offset + 1)).next()?;
        (first + ins.len() as u64 > offset).then_some(first)
    }

    /// Returns the runs of a section's bytes that no reached instruction covers.
    fn gaps(&self, index: SectionIndex, section: &Section<'_>) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut covered = 0;
        for (offset, ins) in self.insns.range(index, 0..u64::MAX) {
            if offset > covered {
                gaps.push((covered, offset));
            }
            covered = covered.max(offset + ins.len() as u64);
        }
        let end = section.data.len() as u64;
        if covered < end {
            gaps.push((covered, end));
        }
        gaps
    }

    /// Returns the difference between a relocation's addend and the offset of its target. For
    /// rip-relative operands it is the distance from the field to the instruction's end. `None` for
    /// branches.
    fn bias(&self, object: &Object<'_>, index: SectionIndex, reloc: &Reloc) -> Option<i64> {
        if object.sections.get(index).is_none_or(|s| !s.is_code()) {
            return Some(0);
        }
        match self.insns.before((index, reloc.offset + 1)).next() {
            Some((offset, ins)) if offset + ins.len() as u64 > reloc.offset => {
                let distance = (offset + ins.len() as u64 - reloc.offset) as i64;
                let branch = ins.op_count() > 0 && ins.op0_kind() == OpKind::NearBranch64;
                (!branch).then_some(if ins.is_ip_rel_memory_operand() { distance } else { 0 })
            }
            _ => Some(0),
        }
    }
}

/// Returns the target of a direct branch, and the instruction after it. `None` for indirect
/// branches.
fn successors(
    object: &Object<'_>,
    section: SectionIndex,
    offset: u64,
    ins: &Instruction,
) -> Option<(Option<At>, Option<At>)> {
    let next = Some((section, offset + ins.len() as u64));
    let target = || -> Option<At> {
        match relocs_in(&object.sections[section], offset, ins.len()).next() {
            Some(reloc) => {
                let symbol = &object.symbols[reloc.symbol];
                let Place::Section(section) = symbol.place else { return None };
                let code = object.sections[section].is_code() && !symbol.is_indirect();
                code.then(|| (section, symbol.value.wrapping_add_signed(reloc.addend.wrapping_add(4))))
            }
            None => Some((section, ins.near_branch_target())),
        }
    };
    let got = || {
        let mut relocs = relocs_in(&object.sections[section], offset, ins.len());
        ins.is_ip_rel_memory_operand() && relocs.any(|r| crate::object::address::is_got(r.kind))
    };
    match ins.flow_control() {
        FlowControl::Next if ins.mnemonic() == Mnemonic::Hlt => Some((None, None)),
        FlowControl::Next | FlowControl::Interrupt => Some((None, next)),
        FlowControl::UnconditionalBranch => Some((target(), None)),
        FlowControl::ConditionalBranch | FlowControl::Call if ins.op0_kind() == OpKind::NearBranch64 => {
            Some((target(), next))
        }
        FlowControl::Return | FlowControl::Exception => Some((None, None)),
        // Through the GOT: a call, or a tail call, of another object's function.
        FlowControl::IndirectCall if got() => Some((None, next)),
        FlowControl::IndirectBranch if got() => Some((None, None)),
        _ => None,
    }
}

/// The places that code or data names, other than instructions that are reached.
struct Named {
    /// Places outside the reached code whose bytes are read.
    read: BTreeSet<At>,
    /// Places inside reached instructions through which bytes are read.
    before: BTreeSet<At>,
    /// All others.
    other: BTreeSet<At>,
}

impl Named {
    /// Finds them. Returns `None` if code reads through the address of an instruction: nobody knows
    /// whether it means the instruction or a table near it.
    fn find(object: &Object<'_>, reached: &Reached) -> Option<Named> {
        let mut named = Named { read: BTreeSet::new(), before: BTreeSet::new(), other: BTreeSet::new() };
        let mut follower = Follower::new();
        for ((section, offset), ins) in reached.insns.iter() {
            let Some((_, target)) = resolved_operand(object, section, offset, ins) else { continue };
            let lea = ins.mnemonic() == Mnemonic::Lea;
            let read =
                !lea || !follower.reads_through(&(object, reached), (section, offset), ins.op0_register()).is_empty();
            let at = (section, target);
            match (reached.covering(at), read) {
                (None, true) => named.read.insert(at),
                (None, false) => named.other.insert(at),
                (Some(first), true) if first == at.1 && lea => return None,
                (Some(first), true) if first != at.1 && lea => named.before.insert(at),
                _ => continue,
            };
        }
        for symbol in &object.symbols {
            let Place::Section(section) = symbol.place else { continue };
            let at = (section, symbol.value);
            if object.sections[section].is_code() && reached.insns.get(at).is_none() {
                match symbol.kind {
                    k if k == elf::STT_OBJECT.0 => named.read.insert(at),
                    // Local labels and sections tell nothing, but their uses do.
                    _ => continue,
                };
            }
        }
        for (index, section) in object.sections.iter().enumerate() {
            if !section.is_alloc() || crate::object::address::is_dropped(section.name) {
                continue;
            }
            for reloc in &section.relocs {
                let symbol = &object.symbols[reloc.symbol];
                let Place::Section(text) = symbol.place else { continue };
                if !object.sections[text].is_code() {
                    continue;
                }
                let Some(bias) = reached.bias(object, index, reloc) else { continue };
                let at = (text, symbol.value.wrapping_add_signed(reloc.addend.wrapping_add(bias)));
                if reached.insns.get(at).is_none() && !named.read.contains(&at) {
                    named.other.insert(at);
                }
            }
        }
        named.other.retain(|at| !named.read.contains(at));
        Some(named)
    }
}

impl Program for (&Object<'_>, &Reached) {
    type Place = At;

    fn insn(&self, at: At) -> Option<&Instruction> {
        self.1.insns.get(at)
    }

    fn ways(&self, at: At) -> Option<Ways<At>> {
        let ins = self.insn(at)?;
        let (target, next) = successors(self.0, at.0, at.1, ins)?;
        let call = matches!(ins.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        Some(Ways { target, next, call })
    }
}
