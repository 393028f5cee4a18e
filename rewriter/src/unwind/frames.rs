//! Reads `.eh_frame`: for every function its exception table, its personality, and for each call
//! the places where the frame saved registers.
//!
//! Source: Linux Standard Base Core 5.0, section 10.6; DWARF 5, section 6.4.

use crate::object::read::{Object, Place, SectionIndex, SymbolIndex};
use foldhash::{HashMap, HashMapExt};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, Operation, Pointer, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection,
};
use object::elf;
use std::ops::Range;

/// A place that the unwind tables name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Section(SectionIndex, u64),
    Symbol(SymbolIndex, u64),
}

/// A personality routine, or a pointer to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Personality {
    pub spot: Spot,
    pub indirect: bool,
}

/// DWARF column of rsp. The other columns are in [`SAVED`].
pub(crate) const SP: u8 = 7;
/// DWARF columns of the registers that a callee preserves: rbx, rbp, r12 to r15.
pub(crate) const SAVED: [u8; 6] = [3, 6, 12, 13, 14, 15];

/// The rule for the canonical frame address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cfa {
    /// DWARF column.
    pub register: u8,
    pub offset: i32,
    /// The address is the word at the sum, not the sum itself.
    pub load: bool,
}

/// The place of a register's old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Saved {
    /// It is still in the register.
    Same,
    /// At this distance from the canonical frame address.
    AtCfa(i32),
    /// At this distance from the frame's rbp.
    AtRbp(i32),
    /// On the control stack: the number of the word above the function's return address, from 0.
    Word(u8),
}

/// The frame address and the places of the old registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub cfa: Cfa,
    /// Places in the order of [`SAVED`].
    pub saved: [Saved; 6],
    /// Number of registers that the function has on the control stack.
    pub words: u8,
    /// Bytes of stack arguments that a landing pad no longer finds.
    pub arguments: u32,
}

/// The number of a row among all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowIndex(u32);

/// A range of a function with one row.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Offsets in the section. Those of instructions fit.
    start: u32,
    end: u32,
    row: RowIndex,
}

/// All frames of an object.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub all: Vec<Frame>,
    stretches: Vec<Stretch>,
    /// The rows without repetition: functions have few different ones.
    kinds: Vec<Row>,
}

impl Frames {
    /// Returns the row of a frame at an offset of its section.
    pub(crate) fn row(&self, frame: &Frame, offset: u64) -> Option<&Row> {
        let stretches = &self.stretches[frame.stretches.clone()];
        // They ascend.
        let before = stretches.partition_point(|stretch| u64::from(stretch.start) <= offset).checked_sub(1)?;
        let stretch = &stretches[before];
        (offset < u64::from(stretch.end)).then(|| self.get(stretch.row))
    }

    pub(crate) fn get(&self, row: RowIndex) -> &Row {
        &self.kinds[row.0 as usize]
    }

    /// Adds a row, which is none of the others.
    pub(crate) fn add(&mut self, row: Row) -> RowIndex {
        self.kinds.push(row);
        RowIndex(self.kinds.len() as u32 - 1)
    }
}

/// One function, or a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub section: SectionIndex,
    pub start: u64,
    pub end: u64,
    /// The rows that could be understood: indices into [`Frames::stretches`].
    stretches: Range<usize>,
    pub lsda: Option<Spot>,
    pub personality: Option<Personality>,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Addresses that stand for places while pointers are decoded. Sections follow each other. Symbols
/// that other objects may define have addresses of their own.
struct Addresses {
    sections: Vec<u64>,
    sizes: Vec<u64>,
}

const FIRST_SECTION: u64 = 0x1000_0000;
const FIRST_SYMBOL: u64 = 0x5000_0000;
/// Room around each, so that no two places share an address.
const ROOM: u64 = 0x100;

impl Addresses {
    fn new(object: &Object<'_>) -> Self {
        let mut next = FIRST_SECTION;
        let mut sections = Vec::with_capacity(object.sections.len());
        for section in &object.sections {
            sections.push(next);
            next = next.saturating_add((section.size.saturating_add(ROOM) / ROOM * ROOM).saturating_add(ROOM));
        }
        Addresses { sections, sizes: object.sections.iter().map(|s| s.size).collect() }
    }

    fn of(&self, object: &Object<'_>, symbol: SymbolIndex) -> u64 {
        let s = &object.symbols[symbol];
        match s.place {
            Place::Section(section) if s.is_local() => self.sections[section].wrapping_add(s.value),
            _ => FIRST_SYMBOL + ROOM * symbol as u64,
        }
    }

    fn spot(&self, address: u64) -> Option<Spot> {
        if address >= FIRST_SYMBOL {
            let symbol = (address - FIRST_SYMBOL) / ROOM;
            return Some(Spot::Symbol(symbol as usize, (address - FIRST_SYMBOL) % ROOM));
        }
        let section = self.sections.partition_point(|start| *start <= address).checked_sub(1)?;
        let offset = address - self.sections[section];
        (offset <= self.sizes[section]).then_some(Spot::Section(section, offset))
    }
}

/// Most bytes of common instructions that all frames together may repeat. It is far beyond the
/// output of compilers.
const REPEATED: usize = 200_000_000;

/// Reads all frames. Returns `None` if a table is malformed, because its meaning is then unknown.
pub(crate) fn read(object: &Object<'_>) -> Option<Frames> {
    let addresses = Addresses::new(object);
    if addresses.sections.last().is_some_and(|last| *last >= FIRST_SYMBOL) {
        return None;
    }
    let mut frames = Frames::default();
    let mut known = HashMap::new();
    for (index, section) in object.sections.iter().enumerate() {
        if section.name != b".eh_frame" || !section.is_alloc() || section.data.is_empty() {
            continue;
        }
        let bytes = relocated(object, &addresses, index)?;
        read_section(object, &addresses, (index, &bytes), &mut frames, &mut known)?;
    }
    // No instruction may be in two frames.
    let mut ranges: Vec<_> = frames.all.iter().map(|f| (f.section, f.start, f.end)).collect();
    ranges.sort_unstable();
    let apart = ranges.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1);
    apart.then_some(frames)
}

fn relocated(object: &Object<'_>, addresses: &Addresses, index: SectionIndex) -> Option<Vec<u8>> {
    let section = &object.sections[index];
    let mut bytes = section.data.to_vec();
    for reloc in &section.relocs {
        let target = addresses.of(object, reloc.symbol).wrapping_add_signed(reloc.addend);
        let place = addresses.sections[index].wrapping_add(reloc.offset);
        let at = usize::try_from(reloc.offset).ok()?;
        let kind = reloc.kind;
        if kind == elf::R_X86_64_64.0 {
            field(&mut bytes, at, 8)?.copy_from_slice(&target.to_le_bytes());
        } else if kind == elf::R_X86_64_PC64.0 {
            field(&mut bytes, at, 8)?.copy_from_slice(&target.wrapping_sub(place).to_le_bytes());
        } else if [elf::R_X86_64_PC32.0, elf::R_X86_64_PLT32.0].contains(&kind) {
            field(&mut bytes, at, 4)?.copy_from_slice(&(target.wrapping_sub(place) as u32).to_le_bytes());
        } else if [elf::R_X86_64_32.0, elf::R_X86_64_32S.0].contains(&kind) {
            field(&mut bytes, at, 4)?.copy_from_slice(&(target as u32).to_le_bytes());
        } else if kind != elf::R_X86_64_NONE.0 {
            return None;
        }
    }
    Some(bytes)
}

fn field(bytes: &mut [u8], at: usize, size: usize) -> Option<&mut [u8]> {
    bytes.get_mut(at..)?.get_mut(..size)
}

fn read_section(
    object: &Object<'_>,
    addresses: &Addresses,
    (index, bytes): (SectionIndex, &[u8]),
    frames: &mut Frames,
    known: &mut HashMap<Row, RowIndex>,
) -> Option<()> {
    let mut table = EhFrame::new(bytes, LittleEndian);
    table.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(addresses.sections[index]);
    let mut entries = table.entries(&bases);
    let mut context = UnwindContext::new();
    let mut left = REPEATED;
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).ok()?;
        left = left.checked_sub(fde.cie().entry_len())?;
        let (section, start) = match addresses.spot(fde.initial_address())? {
            Spot::Section(section, offset) => (section, offset),
            Spot::Symbol(symbol, more) => match object.symbols.get(symbol)?.place {
                Place::Section(section) => (section, object.symbols[symbol].value.wrapping_add(more)),
                _ => return None,
            },
        };
        let spot = |pointer| match pointer {
            Pointer::Direct(address) | Pointer::Indirect(address) => addresses.spot(address),
        };
        // A null pointer is decoded relative to its own place.
        let real = |spot: &Spot| !matches!(spot, Spot::Section(section, _) if *section == index);
        let personality = fde.personality().and_then(|pointer| {
            let indirect = matches!(pointer, Pointer::Indirect(_));
            spot(pointer).filter(real).map(|spot| Personality { spot, indirect })
        });
        let lsda = fde.lsda().and_then(spot).filter(real);
        let first = frames.stretches.len();
        let base = fde.initial_address();
        let mut rows = fde.rows(&table, &bases, &mut context).ok()?;
        while let Some(row) = rows.next_row().ok()? {
            let (from, to) = (row.start_address().wrapping_sub(base), row.end_address().wrapping_sub(base));
            let Some(cfa) = cfa(&table, row.cfa()) else { continue };
            let mut saved = [Saved::Same; 6];
            let mut understood = true;
            for (register, rule) in row.registers() {
                let Some(at) = SAVED.iter().position(|r| u16::from(*r) == register.0) else { continue };
                match saved_at(&table, rule) {
                    Some(place) => saved[at] = place,
                    None => understood = false,
                }
            }
            if understood {
                let arguments = row.saved_args_size() as u32;
                let [start, end] = [from, to].map(|at| u32::try_from(start.saturating_add(at)).unwrap_or(u32::MAX));
                let row = Row { cfa, saved, words: 0, arguments };
                let row = *known.entry(row).or_insert_with(|| frames.add(row));
                frames.stretches.push(Stretch { start, end, row });
            }
        }
        let (end, stretches) = (start.saturating_add(fde.len()), first..frames.stretches.len());
        frames.all.push(Frame { section, start, end, stretches, lsda, personality });
    }
    Some(())
}

fn column(register: Register) -> Option<u8> {
    let column = u8::try_from(register.0).ok()?;
    (column == SP || SAVED.contains(&column)).then_some(column)
}

fn cfa(table: &EhFrame<Slice<'_>>, rule: &CfaRule<usize>) -> Option<Cfa> {
    match rule {
        CfaRule::RegisterAndOffset { register, offset } => {
            Some(Cfa { register: column(*register)?, offset: i32::try_from(*offset).ok()?, load: false })
        }
        CfaRule::Expression(expression) => {
            let (register, offset, load) = expression_of(table, expression)?;
            load.then_some(Cfa { register: column(register)?, offset, load })
        }
    }
}

fn saved_at(table: &EhFrame<Slice<'_>>, rule: &RegisterRule<usize>) -> Option<Saved> {
    match rule {
        RegisterRule::Undefined | RegisterRule::SameValue => Some(Saved::Same),
        RegisterRule::Offset(offset) => Some(Saved::AtCfa(i32::try_from(*offset).ok()?)),
        RegisterRule::Expression(expression) => match expression_of(table, expression)? {
            (Register(6), offset, false) => Some(Saved::AtRbp(offset)),
            _ => None,
        },
        _ => None,
    }
}

/// Reads `DW_OP_bregN offset`, with or without `DW_OP_deref` after it.
fn expression_of(table: &EhFrame<Slice<'_>>, expression: &UnwindExpression<usize>) -> Option<(Register, i32, bool)> {
    let expression = expression.get(table).ok()?;
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut operations = expression.operations(encoding);
    let Operation::RegisterOffset { register, offset, .. } = operations.next().ok()?? else { return None };
    let load = match operations.next().ok()? {
        None => false,
        Some(Operation::Deref { size: 8, space: false, .. }) if operations.next().ok()?.is_none() => true,
        Some(_) => return None,
    };
    Some((register, i32::try_from(offset).ok()?, load))
}
