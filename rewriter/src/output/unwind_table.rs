//! The unwind tables of the new code. Each section of code has one record, in a section named
//! [`SECTION`]. The loader puts the records one after the other.
//!
//! ```text
//! u64 base        slot of the code section's first instruction
//! u32 size        bytes of the record, a multiple of 8
//! u32 functions, calls, form of the rows: 1
//! functions       u64 personality   slot, or with the flag address of a word with it; 0: none
//!                 u32 exceptions    offset of the exception table in the record; 0: none
//!                 u32 start * 2 + flag
//! calls           u32 return        the place after the call, ascending; both offsets in code
//!                 u32 row           offset in the record
//!                 u32 function      index
//! rows            u8  register of the frame address: 0 rbx, 1 rbp, 2 r12, 3 r13, 4 r14,
//!                     5 the home of r15, 7 the data stack pointer
//!                 u8  1: the address is loaded from there
//!                 u8  bits: registers (0 to 5) that were saved
//!                 u8  bits: those of them that lie relative to rbp
//!                 u8  bits: those of them that lie on the control stack
//!                 u8  number of registers that the function has on the control stack
//!                 u16 0
//!                 i32 distance of the frame address
//!                 u32 bytes of arguments that a landing pad does not see
//!                 i32 distances of the saved registers, in order; on the control stack the
//!                     word's number above the function's return address, from 0
//! exception tables
//! ```

use crate::analysis::r15::kept::R15;
use crate::object::decode::{CodeMap, InsnIndex};
use crate::object::read::{Place, Symbol};
use crate::output::object::{Contents, NewReloc, NewSection};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Label, Target, old};
use crate::text::layout::Text;
use crate::text::originals::Originals;
use crate::unwind::frames::{Personality, Row, SAVED, SP, Saved, Spot};
use crate::unwind::lsda::{self, NewSite};
use crate::unwind::{Function, Unwind};
use foldhash::{HashMap, HashMapExt};
use iced_x86::Register;
use object::elf;
use sfi_contract::names::UNWIND_SECTION as SECTION;
use std::borrow::Cow;

/// Register number of the data stack pointer.
const DATA_STACK: u8 = 7;
const HEADER: usize = 24;
const FUNCTION: usize = 16;
const CALL: usize = 12;
/// The form of rows that this page describes. The unwinder skips records of other forms.
const FORM: usize = 1;

/// A row as it is written.
type NewRow = Vec<u8>;

/// Returns the number of a preserved register in the new rows.
fn number(register: Register) -> Option<usize> {
    use Register::{R12, R13, R14, R15, RBP, RBX};
    [RBX, RBP, R12, R13, R14, R15].into_iter().position(|r| r == register)
}

/// Translates a row for the new code, given the fate of r15 in the unit and whether its home is a
/// slot of the frame. Returns `None` if the new tables cannot express the row.
fn translate(row: &Row, (r15, slot): (Option<R15>, bool)) -> Option<NewRow> {
    const R15_COLUMN: usize = 5;
    // The new number of each column.
    let mut map = [0, 1, 2, 3, 4, R15_COLUMN];
    let mut free = None;
    match r15 {
        Some(R15::Renamed(to)) => {
            free = number(to);
            map[R15_COLUMN] = free?;
        }
        Some(R15::Exchanged(with)) => map.swap(R15_COLUMN, number(with)?),
        Some(R15::Home) | None => {}
    }
    let mut saved = [Saved::Same; 6];
    for (column, rule) in row.saved.into_iter().enumerate() {
        if rule != Saved::Same {
            // The unit did not use the register that replaces r15, so its row must not mention it.
            if Some(column) == free {
                return None;
            }
            saved[map[column]] = rule;
        }
    }
    if slot {
        // The slot holds the function's own r15 and not its caller's.
        saved[R15_COLUMN] = Saved::Same;
    }
    let register = match row.cfa.register {
        column if slot && column == SAVED[R15_COLUMN] => return None,
        SP => DATA_STACK,
        column => map[SAVED.iter().position(|c| *c == column)?] as u8,
    };
    let (mut mask, mut by_rbp, mut pushed) = (0u8, 0u8, 0u8);
    let mut bytes = Vec::with_capacity(4 * (4 + saved.len()));
    bytes.extend_from_slice(&[register, u8::from(row.cfa.load), mask, by_rbp, pushed, row.words, 0, 0]);
    bytes.extend_from_slice(&row.cfa.offset.to_le_bytes());
    bytes.extend_from_slice(&row.arguments.to_le_bytes());
    for (number, rule) in saved.into_iter().enumerate() {
        let distance = match rule {
            Saved::Same => continue,
            Saved::AtCfa(distance) => distance,
            Saved::AtRbp(distance) if map[1] == 1 => {
                by_rbp |= 1 << number;
                distance
            }
            Saved::AtRbp(_) => return None,
            Saved::Word(word) => {
                pushed |= 1 << number;
                i32::from(word)
            }
        };
        mask |= 1 << number;
        bytes.extend_from_slice(&distance.to_le_bytes());
    }
    (bytes[2], bytes[3], bytes[4]) = (mask, by_rbp, pushed);
    Some(bytes)
}

/// Returns the labels to which the records' relocations refer.
pub(crate) fn needs(unwind: &Unwind, code: &CodeMap<'_, '_>) -> Vec<Label> {
    let mut labels: Vec<Label> = unwind.landings().map(|(_, landing)| old(landing.pad)).collect();
    for function in &unwind.functions {
        if let Some(Personality { spot: Spot::Section(section, offset), .. }) = function.frame.personality {
            labels.extend(code.at(section, offset).map(old));
        }
    }
    for (index, section) in code.sections.iter().enumerate() {
        if !unwind.calls(section.first..section.end).is_empty() {
            labels.push(Label::Start(index as u32));
        }
    }
    labels
}

/// Makes the record of a code section, if it needs one. `r15` returns the fate of r15 at an
/// instruction, and whether r15 lives in a slot. `symbol` returns numbers in the new symbol table.
pub(crate) fn emit<'a>(
    unwind: &Unwind,
    code: &Originals<'_, 'a>,
    r15: impl Fn(InsnIndex) -> (Option<R15>, bool),
    index: usize,
    text: &Text,
    symbol: impl Fn(Target) -> usize,
) -> Result<Option<NewSection<'a>>, Refusal> {
    let section = &code.sections[index];
    let places = |at: InsnIndex| (0..).map_while(move |number| text.labels.get(&Label::After(at, number)).copied());
    let known = unwind.calls(section.first..section.end);
    let calls: Vec<Call> =
        known.iter().flat_map(|&(at, function)| places(at).map(move |behind| Call { at, function, behind })).collect();
    let mut functions: Vec<usize> = calls.iter().map(|call| call.function).collect();
    functions.sort_unstable();
    functions.dedup();
    let (rows, entries) = rows(unwind, code, &calls, r15)?;
    if entries.is_empty() {
        return Ok(None);
    }
    let body = HEADER + functions.len() * FUNCTION + entries.len() * CALL;
    let mut tail = Vec::new();
    let mut row_offsets = Vec::new();
    for row in rows {
        row_offsets.push((body + tail.len()) as u32);
        tail.extend_from_slice(&row);
    }
    let mut relocs = vec![reloc(0, elf::R_X86_64_64.0, symbol(Target::Label(Label::Start(index as u32))), 0)];
    let mut heads = Vec::new();
    for (number, &function) in functions.iter().enumerate() {
        let Function { frame, table } = &unwind.functions[function];
        let mut flag = 0;
        if let Some(personality) = frame.personality {
            flag = u32::from(personality.indirect);
            let (target, addend) = target_of(code, personality.spot).ok_or_else(|| {
                let detail = "no symbol leads to the personality";
                code.refuse_offset(frame.section, frame.start, Reason::ExceptionTables, detail)
            })?;
            relocs.push(reloc((HEADER + number * FUNCTION) as u64, elf::R_X86_64_64.0, symbol(target), addend));
        }
        let mut exceptions = 0;
        if let Some(table) = table {
            exceptions = body + tail.len();
            let (bytes, pads) = lsda::write(&table.lsda, sites(unwind, &calls, function, &table.lsda, code));
            for (offset, pad) in pads {
                let target = symbol(Target::Label(old(pad)));
                relocs.push(reloc(exceptions as u64 + offset, elf::R_X86_64_64.0, target, 0));
            }
            tail.extend_from_slice(&bytes);
            // Actions and types are copied, with distances in place of short addresses. A type that
            // catches everything is 0 in both.
            let kind = |kind| match kind {
                _ if !table.lsda.has_narrow_types() => kind,
                k if [elf::R_X86_64_32.0, elf::R_X86_64_32S.0].contains(&k) => elf::R_X86_64_PC32.0,
                k => k,
            };
            let from = table.lsda.actions;
            let old_section = &code.object.sections[table.section];
            // Relocations ascend.
            let first = old_section.relocs.partition_point(|r| r.offset < from);
            for r in old_section.relocs[first..].iter().take_while(|r| r.offset < table.end) {
                let target = symbol(Target::Symbol(r.symbol as u32));
                if target == 0 && r.symbol != 0 {
                    let detail = "the type lies in a section that is not carried over";
                    return Err(code.refuse_offset(table.section, r.offset, Reason::ExceptionTables, detail));
                }
                relocs.push(reloc((body + tail.len()) as u64 + r.offset - from, kind(r.kind), target, r.addend));
            }
            tail.extend_from_slice(&old_section.data[from as usize..table.end as usize]);
            // The unwinder reads rows and tables by words.
            tail.resize((body + tail.len()).next_multiple_of(4) - body, 0);
        }
        let start = code.at(frame.section, frame.start).and_then(|insn| text.labels.get(&old(insn))).copied();
        heads.push((exceptions as u32, start.unwrap_or(0) * 2 + flag));
    }
    let size = (body + tail.len()).next_multiple_of(8);
    let mut bytes = vec![0; 8];
    for word in [size, functions.len(), entries.len(), FORM] {
        bytes.extend_from_slice(&(word as u32).to_le_bytes());
    }
    for (exceptions, start) in heads {
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&exceptions.to_le_bytes());
        bytes.extend_from_slice(&start.to_le_bytes());
    }
    for (offset, row, function) in entries {
        let function = functions.binary_search(&function).expect("the functions of all entries are listed");
        for word in [offset, row_offsets[row], function as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&tail);
    bytes.resize(size, 0);
    relocs.sort_by_key(|r| r.offset);
    Ok(Some(NewSection {
        name: Cow::Borrowed(SECTION.as_bytes()),
        kind: elf::SHT_PROGBITS.0,
        flags: elf::SHF_ALLOC.0 | (code.object.sections[section.section].flags & elf::SHF_GROUP.0),
        align: 8,
        entsize: 0,
        link: 0,
        size: bytes.len() as u64,
        contents: Contents::Data(Cow::Owned(bytes)),
        relocs,
    }))
}

/// A call that the old tables know.
struct Call {
    at: InsnIndex,
    /// Its function's number.
    function: usize,
    /// The offset to which it returns in the new text.
    behind: u32,
}

/// A call that has a row: the offset of its return, the row's index, and the function's.
type CallRow = (u32, usize, usize);

/// Returns the rows without repetition, and the calls that have one.
fn rows(
    unwind: &Unwind,
    code: &Originals<'_, '_>,
    calls: &[Call],
    r15: impl Fn(InsnIndex) -> (Option<R15>, bool),
) -> Result<(Vec<NewRow>, Vec<CallRow>), Refusal> {
    let mut rows: Vec<NewRow> = Vec::new();
    let mut known: HashMap<NewRow, usize> = HashMap::new();
    let mut entries = Vec::new();
    // Neighbours often have one row.
    let mut last = None;
    for &Call { at, function, behind } in calls {
        let old = unwind.row(at, function, code.insns[at].end()).map(|row| (row, r15(at)));
        let number = match last {
            Some((before, number)) if before == old => number,
            _ => old.and_then(|(row, r15)| translate(row, r15)).map(|row| {
                *known.entry(row).or_insert_with_key(|row| {
                    rows.push(row.clone());
                    rows.len() - 1
                })
            }),
        };
        last = Some((old, number));
        let Some(number) = number else {
            if unwind.landing(at).is_some() {
                let detail = "the call's frame cannot be described for the new code";
                return Err(code.refuse(at, Reason::ExceptionTables, detail));
            }
            continue;
        };
        entries.push((behind, number, function));
    }
    Ok((rows, entries))
}

/// Returns the call sites of a function: one for a run of calls that share landing pad and action.
fn sites(
    unwind: &Unwind,
    calls: &[Call],
    function: usize,
    lsda: &lsda::Lsda,
    code: &Originals<'_, '_>,
) -> Vec<NewSite<InsnIndex>> {
    let mut sites: Vec<NewSite<InsnIndex>> = Vec::new();
    let mut last = None;
    for &Call { at, behind, .. } in calls.iter().filter(|call| call.function == function) {
        let offset = u64::from(code.insns[at].offset);
        let Some(old) = lsda.sites.iter().find(|site| site.start <= offset && offset < site.end) else {
            last = None;
            continue;
        };
        let behind = u64::from(behind);
        match sites.last_mut() {
            Some(site) if last == Some((old.pad, old.action)) => site.length = behind - site.start,
            _ => {
                let pad = unwind.landing(at).map(|landing| landing.pad);
                sites.push(NewSite { start: behind - 1, length: 1, pad, action: old.action });
            }
        }
        last = Some((old.pad, old.action));
    }
    sites
}

/// Returns a symbol and the distance to a place from it. A damaged table may name no symbol.
fn target_of(code: &CodeMap<'_, '_>, spot: Spot) -> Option<(Target, i64)> {
    let (section, offset) = match spot {
        Spot::Symbol(symbol, more) => {
            return code.object.symbols.get(symbol).map(|_| (Target::Symbol(symbol as u32), more as i64));
        }
        Spot::Section(section, offset) => (section, offset),
    };
    if let Some(insn) = code.at(section, offset) {
        return Some((Target::Label(old(insn)), 0));
    }
    let near = |s: &Symbol<'_>| s.is_local() && s.place == Place::Section(section);
    let symbol = code.object.symbols.iter().position(near)?;
    Some((Target::Symbol(symbol as u32), offset.wrapping_sub(code.object.symbols[symbol].value) as i64))
}

fn reloc(offset: u64, kind: u32, symbol: usize, addend: i64) -> NewReloc {
    NewReloc { offset, kind, symbol, addend }
}
