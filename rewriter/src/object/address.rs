//! Phase 3: every place that names the address of code, so that it can become the address of a
//! dispatch slot.
//!
//! In code these are `lea f(%rip)` with or without a relocation, `movabs $f`, and GOT loads. In
//! data they are 64-bit pointers and the entries of PC32 switch tables. An entry's addend mixes the
//! target with the entry's distance from the table's base. The base is the place that code names.

use crate::object::decode::{Code, Dest, Flow, InsnIndex, InsnSet, SymbolNumber};
use crate::object::read::{Place, Reloc, SectionIndex};
use crate::object::through::{Program, Ways};
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt};
use iced_x86::{Instruction, Mnemonic, Register};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

/// The new form of a data relocation against code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataRef {
    pub dest: Dest,
    /// Number added to the slot's address: an entry's distance from its table's base.
    pub addend: i64,
    /// It is a pointer that any code may read, and no entry of a switch table.
    pub pointer: bool,
}

/// All places where code is named as data.
pub(crate) struct Addresses {
    /// Instructions whose operand is a code address (`lea`, `movabs`).
    pub operands: HashMap<InsnIndex, Dest>,
    /// Data relocations by (section, index of the relocation).
    pub data: HashMap<(SectionIndex, usize), DataRef>,
    /// Instructions whose address is taken, by a pointer or by a switch table.
    pub taken: InsnSet,
    /// Instructions that a pointer names.
    pub pointed: InsnSet,
    /// Switch tables.
    pub tables: Vec<Table>,
}

/// A switch table: of PC32 entries, or of pointers that only jumps read.
pub(crate) struct Table {
    /// Its first place.
    pub section: SectionIndex,
    pub base: u64,
    /// Instructions that name it.
    pub names: Vec<InsnIndex>,
    /// The targets of its entries, in their order.
    pub targets: Vec<InsnIndex>,
    /// The entries are distances to places of this object. They begin at the base and have no gaps.
    pub dense: bool,
}

impl Addresses {
    /// Says whether an instruction's operand is the address of another one.
    pub(crate) fn is_operand(&self, code: &Code<'_, '_>, target: InsnIndex) -> bool {
        self.operands.values().any(|dest| insn_of(code, *dest) == Some(target))
    }

    /// Adds an entry to the table at `base`: its target, and its distance from the base if it has
    /// 32 bits. If that is not the `last` table, a new one begins.
    fn add_entry(
        &mut self,
        last: &mut Option<u64>,
        (section, base): (SectionIndex, u64),
        (dest, distance): (Dest, Option<i64>),
        code: &Code<'_, '_>,
        names: impl FnOnce() -> Vec<InsnIndex>,
    ) {
        let Some(target) = insn_of(code, dest) else { return };
        let here = matches!(dest, Dest::Insn(_));
        match self.tables.last_mut().filter(|_| *last == Some(base)) {
            Some(table) => {
                table.dense &= here && distance == Some(4 * table.targets.len() as i64);
                table.targets.push(target);
            }
            None => {
                let dense = here && distance == Some(0);
                self.tables.push(Table { section, base, names: names(), targets: vec![target], dense });
                *last = Some(base);
            }
        }
    }
}

/// Returns the trap that stands for an entry that `by` never takes. See [`Code::never_reached`].
fn never_reached(code: &Code<'_, '_>, by: InsnIndex, reloc: &Reloc, bias: i64) -> Option<Dest> {
    let symbol = &code.object.symbols[reloc.symbol];
    let Place::Section(text) = symbol.place else { return None };
    code.never_reached(by, text, symbol.value.wrapping_add_signed(bias)).map(Dest::Insn)
}

/// Switch tables of 64-bit pointers, as code for a fixed place has them (`jmp *table(,%r,8)`). Only
/// jumps name such a table, so no program reads and keeps its pointers.
struct WideTables {
    /// Runs of adjacent pointers to code, by start. Each has its end, and the tables in the run
    /// with the jumps that name them.
    runs: BTreeMap<u64, (u64, BTreeMap<u64, Vec<InsnIndex>>)>,
}

impl WideTables {
    fn find(code: &Code<'_, '_>, section: SectionIndex, named: &BTreeSet<(u64, InsnIndex)>) -> WideTables {
        let mut runs = Vec::<(u64, u64)>::new();
        let relocs = &code.object.sections[section].relocs;
        let is_entry = |r: &&Reloc| r.kind == elf::R_X86_64_64.0 && code.is_code_symbol(r.symbol);
        for reloc in relocs.iter().filter(is_entry) {
            // A word whose end overflows lies in no section.
            let Some(behind) = reloc.offset.checked_add(8) else { continue };
            match runs.last_mut().filter(|(_, end)| *end == reloc.offset) {
                Some((_, end)) => *end = behind,
                None => runs.push((reloc.offset, behind)),
            }
        }
        let mut tables = BTreeMap::new();
        for (start, end) in runs {
            let inside = || named.range((start, InsnIndex::FIRST)..(end, InsnIndex::FIRST));
            let jumps = inside().next().is_some() && inside().all(|(_, by)| reads_for_jump(code, *by));
            if !jumps || is_named_by_data(code, section, start, end) {
                continue;
            }
            let mut bases = BTreeMap::<u64, Vec<InsnIndex>>::new();
            inside().for_each(|(base, by)| bases.entry(*base).or_default().push(*by));
            tables.insert(start, (end, bases));
        }
        WideTables { runs: tables }
    }

    /// Returns the table that an entry belongs to, and the jumps that name it.
    fn base(&self, offset: u64) -> Option<(u64, &[InsnIndex])> {
        let (_, (end, bases)) = self.runs.range(..=offset).next_back()?;
        let (base, names) = bases.range(..=offset).next_back().filter(|_| offset < *end)?;
        Some((*base, names))
    }
}

/// Says whether an instruction is `jmp *table(,%r,8)`, or `mov table(,%r,8),%r` followed by the
/// jump.
fn reads_for_jump(code: &Code<'_, '_>, at: InsnIndex) -> bool {
    let ins = code.ins(at);
    let indexed = ins.memory_base() == Register::None && ins.memory_index_scale() == 8;
    let next = code.insns.get(at.next()).filter(|next| next.section == code.insns[at].section);
    let jumps = || {
        next.is_some_and(|next| next.flow == Flow::JumpIndirect && code.form(next).op0_register() == ins.op0_register())
    };
    let loads = ins.mnemonic() == Mnemonic::Mov && ins.op0_register().is_gpr64();
    indexed && (code.insns[at].flow == Flow::JumpIndirect || (loads && jumps()))
}

/// Says whether data or another object may name a place between two offsets of a section.
pub(crate) fn is_named_by_data(code: &Code<'_, '_>, section: SectionIndex, start: u64, end: u64) -> bool {
    let inside = |at: u64| (start..end).contains(&at);
    let object = code.object;
    let open = object.symbols.iter().any(|s| s.place == Place::Section(section) && s.is_open() && inside(s.value));
    let data = object.sections.iter().filter(|s| s.is_alloc() && !s.is_code() && !is_dropped(s.name));
    let names = |reloc: &Reloc| {
        let symbol = &object.symbols[reloc.symbol];
        symbol.place == Place::Section(section) && inside(symbol.value.wrapping_add_signed(reloc.addend))
    };
    open || data.flat_map(|section| &section.relocs).any(names)
}

/// Says whether a section holds exception tables. The rewriter writes them anew, beside the frames.
pub(crate) fn is_exception_table(name: &[u8]) -> bool {
    name.starts_with(b".gcc_except_table")
}

/// Says whether a section is not carried over, because its contents describe the old code.
pub(crate) fn is_dropped(name: &[u8]) -> bool {
    name == b".eh_frame"
        || is_exception_table(name)
        || name.starts_with(b".debug_")
        || name.starts_with(b".llvm")
        || name == b".stack_sizes"
        // A mark for the linker (Qt). No code reads it, and it asks for offsets into a GOT.
        || name == b".qtversion"
}

/// Finds every code address.
///
/// # Errors
/// [`Reason::CodeAddress`] if an address names no instruction or a table's base is not known,
/// [`Reason::DataInText`] if code reads text, [`Reason::Relocation`] for relocation types that
/// cannot name code.
pub(crate) fn find(code: &Code<'_, '_>) -> Result<Addresses, Vec<Refusal>> {
    let mut found = Addresses {
        operands: HashMap::new(),
        data: HashMap::new(),
        taken: code.no_insns(),
        pointed: code.no_insns(),
        tables: Vec::new(),
    };
    let mut refusals = Vec::new();
    let mut named = HashMap::<SectionIndex, BTreeSet<(u64, InsnIndex)>>::new();
    for index in code.indexes() {
        if let Err(refusal) = operand(code, index, &mut found, &mut named) {
            refusals.push(refusal);
        }
    }
    for (section, contents) in code.object.sections.iter().enumerate() {
        if contents.is_alloc() && code.section(section).is_none() && !is_dropped(contents.name) {
            let empty = BTreeSet::new();
            data_section(code, section, named.get(&section).unwrap_or(&empty), &mut found, &mut refusals);
        }
    }
    let operands = found.operands.values().map(|dest| (*dest, true));
    let data = found.data.values().map(|data| (data.dest, data.pointer));
    for (dest, pointer) in operands.chain(data) {
        if let Some(insn) = insn_of(code, dest) {
            found.taken.insert(insn);
            if pointer {
                found.pointed.insert(insn);
            }
        }
    }
    if refusals.is_empty() { Ok(found) } else { Err(refusals) }
}

impl Program for Code<'_, '_> {
    type Place = InsnIndex;

    fn insn(&self, at: InsnIndex) -> Option<&Instruction> {
        self.insns.get(at).map(|insn| self.form(insn))
    }

    fn ways(&self, at: InsnIndex) -> Option<Ways<InsnIndex>> {
        let insn = &self.insns[at];
        let next = at.next();
        let behind = self.insns.get(next).is_some_and(|other| other.section == insn.section && !self.is_trap(next));
        let next = behind.then_some(next);
        let call = matches!(insn.flow, Flow::Call(_) | Flow::CallIndirect);
        let (target, next) = match insn.flow {
            Flow::Next | Flow::CallIndirect => (None, next),
            Flow::Call(dest) | Flow::Branch(dest) => (insn_of(self, dest), next),
            Flow::Jump(dest) => (insn_of(self, dest), None),
            Flow::JumpIndirect | Flow::Return | Flow::Stop => (None, None),
        };
        Some(Ways { target, next, call })
    }
}

/// Returns the instruction that a destination names, if it lies in this object.
pub(crate) fn insn_of(code: &Code<'_, '_>, dest: Dest) -> Option<InsnIndex> {
    match dest {
        Dest::Insn(insn) => Some(insn),
        Dest::Symbol(symbol) => match code.object.symbols[symbol.index()].place {
            Place::Section(section) if !code.object.symbols[symbol.index()].is_indirect() => {
                code.at(section, code.object.symbols[symbol.index()].value)
            }
            _ => None,
        },
    }
}

impl Code<'_, '_> {
    /// Says whether a branch to a place only comes to the trap behind a section. If the place is
    /// that of a function without code, and the function is weak or in a group, the linker may take
    /// another definition.
    pub(crate) fn only_traps(&self, dest: Dest) -> bool {
        let Some(to) = insn_of(self, dest).filter(|to| self.is_trap(*to)) else { return false };
        let grouped = self.object.sections[self.insns[to].section as usize].flags & elf::SHF_GROUP.0 != 0;
        match dest {
            Dest::Insn(_) => true,
            Dest::Symbol(symbol) => !grouped && !self.object.symbols[symbol.index()].is_weak(),
        }
    }
}

/// Returns the code that `symbol + bias` names: the symbol itself if it is preemptible, or else the
/// instruction.
fn code_dest(code: &Code<'_, '_>, reloc: &Reloc, bias: i64) -> Option<Dest> {
    let symbol = &code.object.symbols[reloc.symbol];
    let Place::Section(section) = symbol.place else { return None };
    if bias == 0 && symbol.is_open() {
        return Some(Dest::Symbol(SymbolNumber::new(reloc.symbol)));
    }
    if symbol.is_indirect() {
        return None;
    }
    code.at(section, symbol.value.wrapping_add_signed(bias)).map(Dest::Insn)
}

/// Notes the code and data that an instruction's operand names.
fn operand(
    code: &Code<'_, '_>,
    index: InsnIndex,
    found: &mut Addresses,
    named: &mut HashMap<SectionIndex, BTreeSet<(u64, InsnIndex)>>,
) -> Result<(), Refusal> {
    let (insn, ins) = (&code.insns[index], code.ins(index));
    let is_lea = ins.mnemonic() == Mnemonic::Lea;
    let rip = ins.memory_base() == Register::RIP;
    if let Some(reloc) = code.disp_reloc(insn) {
        if ins.is_call_near() || ins.is_jmp_short_or_near() || ins.is_jcc_short_or_near() {
            return Ok(());
        }
        let behind_field = insn.behind_displacement();
        let bias = if rip { reloc.addend.wrapping_add(behind_field) } else { reloc.addend };
        let symbol = &code.object.symbols[reloc.symbol];
        if code.is_code_symbol(reloc.symbol) {
            let kind = reloc.kind;
            if is_lea && rip && [elf::R_X86_64_PC32.0, elf::R_X86_64_PLT32.0].contains(&kind) {
                let dest = code_dest(code, reloc, bias)
                    .ok_or_else(|| code.refuse(index, Reason::CodeAddress, "the address is not an instruction's"))?;
                found.operands.insert(index, dest);
            } else if is_got(kind) {
                // The GOT entry holds the slot, and code that loads it may call it.
                if let Some(insn) = insn_of(code, Dest::Symbol(SymbolNumber::new(reloc.symbol))) {
                    found.taken.insert(insn);
                    found.pointed.insert(insn);
                }
            } else {
                return Err(code.refuse(index, Reason::DataInText, "the operand lies in text"));
            }
        } else if let Place::Section(section) = symbol.place {
            named.entry(section).or_default().insert((symbol.value.wrapping_add_signed(bias), index));
        }
    } else if rip {
        if !is_lea {
            return Err(code.refuse(index, Reason::DataInText, "the operand lies in text"));
        }
        let target = code.placed(index).memory_displacement64();
        let dest = code
            .at(insn.section as usize, target)
            .ok_or_else(|| code.refuse(index, Reason::CodeAddress, "the address is not an instruction's"))?;
        found.operands.insert(index, Dest::Insn(dest));
    }
    if let Some(reloc) = code.imm_reloc(insn)
        && code.is_code_symbol(reloc.symbol)
        && !matches!(insn.flow, Flow::Call(_) | Flow::Jump(_) | Flow::Branch(_))
    {
        let dest = code_dest(code, reloc, reloc.addend)
            .filter(|_| [elf::R_X86_64_64.0, elf::R_X86_64_32.0, elf::R_X86_64_32S.0].contains(&reloc.kind))
            .ok_or_else(|| code.refuse(index, Reason::CodeAddress, "the address is not an instruction's"))?;
        found.operands.insert(index, dest);
    }
    Ok(())
}

/// Says whether a relocation loads from the GOT.
pub(crate) fn is_got(kind: u32) -> bool {
    [elf::R_X86_64_GOTPCREL.0, elf::R_X86_64_GOTPCRELX.0, elf::R_X86_64_REX_GOTPCRELX.0].contains(&kind)
}

fn data_section(
    code: &Code<'_, '_>,
    section: SectionIndex,
    named: &BTreeSet<(u64, InsnIndex)>,
    found: &mut Addresses,
    refusals: &mut Vec<Refusal>,
) {
    let relocs = &code.object.sections[section].relocs;
    // `run` is the run of adjacent PC32 entries that the current one continues. `last` is the base
    // of the last table.
    let mut last = None;
    let mut run = None::<(u64, u64)>;
    let wide = WideTables::find(code, section, named);
    for (index, reloc) in relocs.iter().enumerate() {
        if !code.is_code_symbol(reloc.symbol) {
            continue;
        }
        let refuse = |detail: &str| code.refuse_offset(section, reloc.offset, Reason::CodeAddress, detail);
        if reloc.kind == elf::R_X86_64_64.0 {
            let base = wide.base(reloc.offset);
            let trap = base.and_then(|(_, names)| never_reached(code, names[0], reloc, reloc.addend));
            match trap.or_else(|| code_dest(code, reloc, reloc.addend)) {
                Some(dest) => {
                    found.data.insert((section, index), DataRef { dest, addend: 0, pointer: base.is_none() });
                    if let Some((base, names)) = base {
                        found.add_entry(&mut last, (section, base), (dest, None), code, || names.to_vec());
                    }
                }
                None => refusals.push(refuse("the pointer does not lead to an instruction")),
            }
        } else if reloc.kind == elf::R_X86_64_PC32.0 {
            let start = match run {
                Some((start, end)) if end == reloc.offset => start,
                _ => reloc.offset,
            };
            run = Some((start, reloc.offset.wrapping_add(4)));
            let names = named.range((start, InsnIndex::FIRST)..=(reloc.offset, InsnIndex::LAST));
            if names.clone().next().is_none() {
                refusals.push(refuse("no instruction names the base of this switch table"));
                continue;
            }
            // The place before an array that counts from 1 may be an entry of the table before it.
            let entry = names.rev().find_map(|&(base, by)| {
                let distance = (reloc.offset - base) as i64;
                let bias = reloc.addend.wrapping_sub(distance);
                let dest = never_reached(code, by, reloc, bias).or_else(|| code_dest(code, reloc, bias))?;
                Some((base, distance, dest))
            });
            match entry {
                Some((base, distance, dest)) => {
                    found.data.insert((section, index), DataRef { dest, addend: distance, pointer: false });
                    let names =
                        || named.range((base, InsnIndex::FIRST)..=(base, InsnIndex::LAST)).map(|(_, by)| *by).collect();
                    found.add_entry(&mut last, (section, base), (dest, Some(distance)), code, names);
                }
                None => refusals.push(refuse("the entry of a switch table does not lead to an instruction")),
            }
        } else {
            let (reason, detail) = match reloc.kind {
                kind if kind == elf::R_X86_64_PC64.0 => {
                    (Reason::LargeModel, "a distance to code in 64 bits, as in a switch table".to_owned())
                }
                kind => (Reason::Relocation, format!("relocation type {kind} against code in data")),
            };
            refusals.push(code.refuse_offset(section, reloc.offset, reason, detail));
        }
    }
}
