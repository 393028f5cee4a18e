//! Unwind tables of the original object: `.eh_frame` and the tables of landing pads.
//!
//! Sources: Linux Standard Base Core 5.0, section 10.6; "C++ ABI for Itanium: Exception Handling",
//! section 7.

use crate::object::kind;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, Operation, Pointer, Reader as _, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};
use sfi_elf::{Object, Place};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// DWARF columns of rbx, rbp, r12 to r15, and of the stack pointer.
const COLUMNS: [u16; 6] = [3, 6, 12, 13, 14, 15];
const STACK: u16 = 7;

/// The place of the caller's value of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// In the register.
    #[default]
    Same,
    /// At this distance from the frame's address.
    AtFrame(i32),
    /// At this distance from the address in rbp.
    AtRbp(i32),
    /// In the word of the control stack with this number: 0 follows the return address. Only the
    /// new program has such rules.
    Word(u8),
}

/// The facts about the frame in a range of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Offsets in the code.
    pub range: (u64, u64),
    /// Number of the register that the frame's address counts from: rsp or a preserved one.
    pub base: usize,
    pub distance: i32,
    /// The frame's address is the word at the sum, not the sum itself.
    pub loaded: bool,
    /// Rules of rbx, rbp, r12 to r15.
    pub rules: [Rule; 6],
    /// Number of words that the function has on the control stack.
    pub words: u8,
    /// Bytes of arguments that a landing pad no longer finds on the stack.
    pub arguments: u32,
}

/// A place that a table names: a symbol, or a section's beginning, and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Section(usize, u64),
    Symbol(usize, u64),
}

/// One call site of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub range: (u64, u64),
    /// Offset of the landing pad, 0 if there is none.
    pub pad: u64,
    pub action: u64,
}

/// A function's table of landing pads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub sites: Vec<Site>,
    /// Encoding of the type entries.
    pub encoding: u8,
    /// Offset of the actions in the section, and of the end of the types after them.
    pub actions: u64,
    pub types: u64,
}

/// A function with its rows.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The code: section and range.
    pub section: usize,
    pub range: (u64, u64),
    pub rows: Vec<Row>,
    /// The personality routine, and whether the frame names it by a pointer to it.
    pub personality: Option<(Named, bool)>,
    /// The table with its section, and the place where the next table begins.
    pub table: Option<(usize, Table, u64)>,
}

impl Frame {
    /// Returns the row of a call, given the offset after the call.
    pub(crate) fn row(&self, behind: u64) -> Option<&Row> {
        self.rows.iter().find(|row| row.range.0 < behind && behind <= row.range.1)
    }

    /// Returns the table's entry for a call at an offset.
    pub(crate) fn site(&self, offset: u64) -> Option<Site> {
        let sites = &self.table.as_ref()?.1.sites;
        sites.iter().copied().find(|site| site.range.0 <= offset && offset < site.range.1)
    }
}

/// Reads all frames. Returns `None` if a table is malformed.
pub(crate) fn read(object: &Object<'_>) -> Option<Vec<Frame>> {
    let mut frames = Vec::new();
    let addresses = Addresses::new(object);
    for (index, section) in object.sections.iter().enumerate() {
        if section.name == ".eh_frame" && section.is_allocated() && !section.data.is_empty() {
            read_section(object, &addresses, index, &mut frames)?;
        }
    }
    frames.sort_by_key(|frame| (frame.section, frame.range));
    Some(frames)
}

/// Addresses that sections and symbols get while pointers are decoded. Each has room around it.
struct Addresses {
    sections: Vec<u64>,
    symbols: u64,
}

const ROOM: u64 = 0x100;

impl Addresses {
    fn new(object: &Object<'_>) -> Addresses {
        let mut next = ROOM;
        let mut sections = Vec::new();
        for section in &object.sections {
            sections.push(next);
            next = next.saturating_add(section.size).saturating_add(2 * ROOM);
        }
        Addresses { sections, symbols: next }
    }

    fn of(&self, object: &Object<'_>, symbol: usize) -> Option<u64> {
        let of = object.symbols.get(symbol)?;
        Some(match of.place {
            Place::Section(section) if !crate::object::is_open(of) => self.sections[section].wrapping_add(of.value),
            _ => self.symbols + ROOM * symbol as u64,
        })
    }

    fn named(&self, address: u64) -> Option<Named> {
        if let Some(behind) = address.checked_sub(self.symbols) {
            return Some(Named::Symbol((behind / ROOM) as usize, behind % ROOM));
        }
        let section = self.sections.partition_point(|start| *start <= address).checked_sub(1)?;
        Some(Named::Section(section, address - self.sections[section]))
    }
}

/// Returns the place of the object that a name means.
fn place(object: &Object<'_>, named: Named) -> Option<(usize, u64)> {
    match named {
        Named::Section(section, offset) => Some((section, offset)),
        Named::Symbol(symbol, more) => match object.symbols.get(symbol)?.place {
            Place::Section(section) => Some((section, object.symbols[symbol].value.wrapping_add(more))),
            _ => None,
        },
    }
}

fn relocated(object: &Object<'_>, addresses: &Addresses, index: usize) -> Option<Vec<u8>> {
    let section = &object.sections[index];
    let mut bytes = section.data.to_vec();
    for reloc in &section.relocations {
        let target = addresses.of(object, reloc.symbol)?.wrapping_add_signed(reloc.addend);
        let here = addresses.sections[index] + reloc.offset;
        let (value, size) = match reloc.kind {
            kind::NONE => continue,
            kind::ABSOLUTE => (target, 8),
            kind::PC64 => (target.wrapping_sub(here), 8),
            kind::PC32 | kind::PLT32 => (target.wrapping_sub(here), 4),
            kind::WORD | kind::SIGNED_WORD => (target, 4),
            _ => return None,
        };
        // Distances of more than 32 bits would lose their upper half.
        let fits = size == 8 || i32::try_from(value as i64).is_ok();
        let at = usize::try_from(reloc.offset).ok().filter(|_| fits)?;
        bytes.get_mut(at..)?.get_mut(..size)?.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Some(bytes)
}

fn read_section(object: &Object<'_>, addresses: &Addresses, index: usize, frames: &mut Vec<Frame>) -> Option<()> {
    let bytes = relocated(object, addresses, index)?;
    let mut eh = EhFrame::new(&bytes, LittleEndian);
    eh.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(addresses.sections[index]);
    let mut entries = eh.entries(&bases);
    let mut context = UnwindContext::new();
    let first = frames.len();
    let mut starts = Vec::new();
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).ok()?;
        let start = fde.initial_address();
        let (section, from) = place(object, addresses.named(start)?)?;
        let spot = |pointer: Pointer| match pointer {
            Pointer::Direct(address) => Some((addresses.named(address)?, false)),
            Pointer::Indirect(address) => Some((addresses.named(address)?, true)),
        };
        let real = |(spot, _): &(Named, bool)| !matches!(spot, Named::Section(at, _) if *at == index);
        let personality = fde.personality().and_then(spot).filter(real);
        let lsda = fde.lsda().and_then(spot).filter(real).and_then(|(spot, _)| place(object, spot));
        let mut rows = Vec::new();
        let mut table = fde.rows(&eh, &bases, &mut context).ok()?;
        while let Some(row) = table.next_row().ok()? {
            rows.extend(read_row(&eh, row, from.wrapping_sub(start)));
        }
        starts.push(lsda);
        let range = (from, from.saturating_add(fde.len()));
        frames.push(Frame { section, range, rows, personality, table: None });
    }
    for (frame, start) in frames[first..].iter_mut().zip(&starts) {
        let Some((section, at)) = *start else { continue };
        let data = object.sections[section].data;
        let next = starts.iter().flatten().filter(|(s, other)| *s == section && *other > at).map(|(_, at)| *at).min();
        let end = next.unwrap_or(data.len() as u64);
        frame.table = Some((section, read_table(data, at, frame.range.0)?, end));
    }
    Some(())
}

/// Reads one row. Returns `None` if a rule is not understood.
fn read_row(eh: &EhFrame<Slice<'_>>, row: &gimli::UnwindTableRow<usize>, shift: u64) -> Option<Row> {
    let (base, distance, loaded) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => (number(*register)?, i32::try_from(*offset).ok()?, false),
        CfaRule::Expression(expression) => {
            let (register, distance, loaded) = expression_of(eh, expression)?;
            (number(register)?, distance, loaded)
        }
    };
    let mut rules = [Rule::Same; 6];
    for (register, rule) in row.registers() {
        let Some(column) = COLUMNS.iter().position(|column| *column == register.0) else { continue };
        rules[column] = match rule {
            RegisterRule::Undefined | RegisterRule::SameValue => Rule::Same,
            RegisterRule::Offset(offset) => Rule::AtFrame(i32::try_from(*offset).ok()?),
            RegisterRule::Expression(expression) => match expression_of(eh, expression)? {
                (Register(6), distance, false) => Rule::AtRbp(distance),
                _ => return None,
            },
            _ => return None,
        };
    }
    let range = (row.start_address().wrapping_add(shift), row.end_address().wrapping_add(shift));
    Some(Row { range, base, distance, loaded, rules, words: 0, arguments: row.saved_args_size() as u32 })
}

/// Returns the number of a register by its DWARF column: rsp and the preserved ones.
fn number(register: Register) -> Option<usize> {
    const NUMBERS: [usize; 6] = [3, 5, 12, 13, 14, 15];
    match register.0 {
        STACK => Some(crate::sets::RSP),
        column => COLUMNS.iter().position(|c| *c == column).map(|at| NUMBERS[at]),
    }
}

/// Reads `DW_OP_bregN distance`, with or without `DW_OP_deref` after it.
fn expression_of(eh: &EhFrame<Slice<'_>>, expression: &UnwindExpression<usize>) -> Option<(Register, i32, bool)> {
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut operations = expression.get(eh).ok()?.operations(encoding);
    let Operation::RegisterOffset { register, offset, .. } = operations.next().ok()?? else { return None };
    let loaded = match operations.next().ok()? {
        None => false,
        Some(Operation::Deref { size: 8, space: false, .. }) => operations.next().ok()?.is_none().then_some(true)?,
        Some(_) => return None,
    };
    Some((register, i32::try_from(offset).ok()?, loaded))
}

/// Reads a table of landing pads. `function`: the offset that its own offsets count from.
pub(crate) fn read_table(data: &[u8], at: u64, function: u64) -> Option<Table> {
    const OMIT: u8 = 0xff;
    let whole = Slice::new(data, LittleEndian);
    let mut rest = whole;
    rest.skip(usize::try_from(at).ok()?).ok()?;
    let here = |rest: &Slice<'_>| rest.offset_from(whole) as u64;
    // Pads count from the function, or from an address that is 0.
    let pads = match rest.read_u8().ok()? {
        OMIT => function,
        0 => rest.read_u64().ok().filter(|start| *start == 0)?,
        _ => return None,
    };
    let encoding = rest.read_u8().ok()?;
    let types = match encoding {
        OMIT => None,
        _ => {
            let distance = rest.read_uleb128().ok()?;
            Some(here(&rest).checked_add(distance)?)
        }
    };
    let form = rest.read_u8().ok()?;
    let length = rest.read_uleb128().ok()?;
    let actions = here(&rest).checked_add(length).filter(|end| *end <= data.len() as u64)?;
    let mut sites = Vec::new();
    while here(&rest) < actions {
        let mut next = || match form {
            0x01 => rest.read_uleb128().ok(),
            0x02 => rest.read_u16().ok().map(u64::from),
            0x03 => rest.read_u32().ok().map(u64::from),
            0x00 | 0x04 => rest.read_u64().ok(),
            _ => None,
        };
        let start = function.checked_add(next()?)?;
        let end = start.checked_add(next()?)?;
        let pad = match next()? {
            0 => 0,
            pad => pads.checked_add(pad)?,
        };
        sites.push(Site { range: (start, end), pad, action: rest.read_uleb128().ok()? });
    }
    Some(Table { sites, encoding, actions, types: types.unwrap_or(actions) })
}
