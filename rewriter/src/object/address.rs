//! Phase 3: every place that names the address of code, so that it can become the address of a dispatch slot.
//!
//! In code: `lea f(%rip)` with or without a relocation, `movabs $f`, GOT loads. In data: 64-bit pointers, and the entries of PC32
//! switch tables, whose addends mix the target with the entry's distance from the table's base; the base is the place that code names.

use crate::object::decode::{Code, Dest, InsnIndex};
use crate::object::read::{Place, Reloc, SectionIndex};
use crate::refusal::{Reason, Refusal};
use iced_x86::{Mnemonic, Register};
use object::elf;
use std::collections::{BTreeSet, HashMap};

/// What a data relocation against code becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRef {
    pub dest: Dest,
    /// Added to the slot's address: an entry's distance from its table's base.
    pub addend: i64,
    /// A pointer, not an entry of a PC32 table.
    pub pointer: bool,
}

/// All places where code is named as data.
pub struct Addresses {
    /// Instructions whose operand is a code address (`lea`, `movabs`).
    pub operands: HashMap<InsnIndex, Dest>,
    /// Data relocations by (section, index of the relocation).
    pub data: HashMap<(SectionIndex, usize), DataRef>,
    /// Instructions whose address is taken, by a pointer or by a switch table.
    pub taken: Vec<bool>,
    /// Instructions that a pointer names.
    pub pointed: Vec<bool>,
    /// Switch tables.
    pub tables: Vec<Table>,
}

/// A switch table of PC32 entries.
pub struct Table {
    /// Instructions that name it.
    pub names: Vec<InsnIndex>,
    /// Where its entries lead, in their order.
    pub targets: Vec<InsnIndex>,
}

/// Whether a section holds exception tables. They are written anew, beside the frames.
pub fn is_exception_table(name: &[u8]) -> bool {
    name.starts_with(b".gcc_except_table")
}

/// Sections that are not carried over: their contents describe the old code.
pub fn is_dropped(name: &[u8]) -> bool {
    name == b".eh_frame"
        || is_exception_table(name)
        || name.starts_with(b".debug_")
        || name.starts_with(b".llvm")
        || name == b".stack_sizes"
        // A mark for the linker (Qt): nothing reads it, and it asks for offsets into a GOT.
        || name == b".qtversion"
}

/// Finds every code address.
///
/// # Errors
/// [`Reason::CodeAddress`] where an address does not name an instruction or a table's base is not known,
/// [`Reason::DataInText`] where code reads text, [`Reason::Relocation`] for relocation types that cannot name code.
pub fn find(code: &Code<'_, '_>) -> Result<Addresses, Vec<Refusal>> {
    let mut found = Addresses {
        operands: HashMap::new(),
        data: HashMap::new(),
        taken: vec![false; code.insns.len()],
        pointed: vec![false; code.insns.len()],
        tables: Vec::new(),
    };
    let mut refusals = Vec::new();
    let mut named = HashMap::<SectionIndex, BTreeSet<(u64, InsnIndex)>>::new();
    for index in 0..code.insns.len() {
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
            found.taken[insn] = true;
            found.pointed[insn] |= pointer;
        }
    }
    if refusals.is_empty() { Ok(found) } else { Err(refusals) }
}

/// The instruction a destination names, if it lies in this object.
pub fn insn_of(code: &Code<'_, '_>, dest: Dest) -> Option<InsnIndex> {
    match dest {
        Dest::Insn(insn) => Some(insn),
        Dest::Symbol(symbol) => match code.object.symbols[symbol].place {
            Place::Section(section) if !code.object.symbols[symbol].is_indirect() => {
                code.at(section, code.object.symbols[symbol].value)
            }
            _ => None,
        },
    }
}

/// The code that `symbol + bias` names: the symbol itself if it is preemptible, else the instruction.
fn code_dest(code: &Code<'_, '_>, reloc: &Reloc, bias: i64) -> Option<Dest> {
    let symbol = &code.object.symbols[reloc.symbol];
    let Place::Section(section) = symbol.place else { return None };
    if bias == 0 && symbol.is_open() {
        return Some(Dest::Symbol(reloc.symbol));
    }
    if symbol.is_indirect() {
        return None;
    }
    code.at(section, symbol.value.wrapping_add_signed(bias)).map(Dest::Insn)
}

fn operand(
    code: &Code<'_, '_>,
    index: InsnIndex,
    found: &mut Addresses,
    named: &mut HashMap<SectionIndex, BTreeSet<(u64, InsnIndex)>>,
) -> Result<(), Refusal> {
    let insn = &code.insns[index];
    let is_lea = insn.ins.mnemonic() == Mnemonic::Lea;
    let rip = insn.ins.memory_base() == Register::RIP;
    if let Some(reloc) = code.disp_reloc(insn) {
        if insn.ins.is_call_near() || insn.ins.is_jmp_short_or_near() || insn.ins.is_jcc_short_or_near() {
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
                // The GOT entry holds the slot; whoever loads it may call it.
                if let Some(insn) = insn_of(code, Dest::Symbol(reloc.symbol)) {
                    found.taken[insn] = true;
                    found.pointed[insn] = true;
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
        let target = insn.ins.memory_displacement64();
        let dest = code
            .at(insn.section as usize, target)
            .ok_or_else(|| code.refuse(index, Reason::CodeAddress, "the address is not an instruction's"))?;
        found.operands.insert(index, Dest::Insn(dest));
    }
    if let Some(reloc) = code.imm_reloc(insn)
        && code.is_code_symbol(reloc.symbol)
        && !matches!(
            insn.flow,
            crate::object::decode::Flow::Call(_)
                | crate::object::decode::Flow::Jump(_)
                | crate::object::decode::Flow::Branch(_)
        )
    {
        let dest = code_dest(code, reloc, reloc.addend)
            .filter(|_| [elf::R_X86_64_64.0, elf::R_X86_64_32.0, elf::R_X86_64_32S.0].contains(&reloc.kind))
            .ok_or_else(|| code.refuse(index, Reason::CodeAddress, "the address is not an instruction's"))?;
        found.operands.insert(index, dest);
    }
    Ok(())
}

/// Whether a relocation loads from the GOT.
pub fn is_got(kind: u32) -> bool {
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
    // Start of the run of adjacent PC32 entries that the current one continues, and the base of the
    // last table.
    let mut last = None;
    let mut run = None::<(u64, u64)>;
    for (index, reloc) in relocs.iter().enumerate() {
        if !code.is_code_symbol(reloc.symbol) {
            continue;
        }
        let refuse = |detail: &str| code.refuse_offset(section, reloc.offset, Reason::CodeAddress, detail);
        if reloc.kind == elf::R_X86_64_64.0 {
            match code_dest(code, reloc, reloc.addend) {
                Some(dest) => {
                    found.data.insert((section, index), DataRef { dest, addend: 0, pointer: true });
                }
                None => refusals.push(refuse("the pointer does not lead to an instruction")),
            }
        } else if reloc.kind == elf::R_X86_64_PC32.0 {
            let start = match run {
                Some((start, end)) if end == reloc.offset => start,
                _ => reloc.offset,
            };
            run = Some((start, reloc.offset.wrapping_add(4)));
            let names = named.range((start, 0)..=(reloc.offset, InsnIndex::MAX));
            let Some(&(base, by)) = names.last() else {
                refusals.push(refuse("no instruction names the base of this switch table"));
                continue;
            };
            let distance = (reloc.offset - base) as i64;
            let bias = reloc.addend.wrapping_sub(distance);
            let symbol = &code.object.symbols[reloc.symbol];
            let trap = match symbol.place {
                Place::Section(text) => code.never_reached(by, text, symbol.value.wrapping_add_signed(bias)),
                _ => None,
            };
            match trap.map(Dest::Insn).or_else(|| code_dest(code, reloc, bias)) {
                Some(dest) => {
                    found.data.insert((section, index), DataRef { dest, addend: distance, pointer: false });
                    if let Some(target) = insn_of(code, dest) {
                        match found.tables.last_mut().filter(|_| last == Some(base)) {
                            Some(table) => table.targets.push(target),
                            None => {
                                let names = named.range((base, 0)..=(base, InsnIndex::MAX)).map(|(_, by)| *by);
                                found.tables.push(Table { names: names.collect(), targets: vec![target] });
                                last = Some(base);
                            }
                        }
                    }
                }
                None => refusals.push(refuse("the entry of a switch table does not lead to an instruction")),
            }
        } else {
            refusals.push(code.refuse_offset(
                section,
                reloc.offset,
                Reason::Relocation,
                format!("relocation type {} against code in data", reloc.kind),
            ));
        }
    }
}
