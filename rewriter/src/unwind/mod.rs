//! Exceptions: keeps the calls' entries in the compiler's unwind tables for the new code.
//!
//! Unwinding happens at calls only. There `delta` is 0: r15 has the value that rsp would have, and
//! everything on the data stack lies where it lay, unless the function saves registers on the
//! control stack (see `analysis/saves.rs`). So the rules for the frame's address and the saved
//! registers hold at the call's new return address, or follow. Return addresses themselves are on
//! the control stack, one word for each frame. If the rewriter keeps r15 in another register or its
//! home, the rules of both columns follow. `output/unwind_table.rs` describes the records for the
//! unwinder in the domain (`crates/support/src/unwind.c`).
//!
//! This unwinder takes the place of libgcc's. It asks `__sfi_return` for return addresses, runs the
//! personality and enters a landing pad through `__sfi_cut`. The dispatch slot of a landing pad
//! names it, and libstdc++'s personality takes the slot for its address. Edges from calls to their
//! landing pads are part of the flow graph. An exception that no frame of the crossing wants ends
//! in `std::terminate`: no exception passes a crossing.

pub(crate) mod frames;
pub(crate) mod lsda;

use crate::object::address::is_exception_table;
use crate::object::decode::{Code, Flow, InsnIndex};
use crate::refusal::{Reason, Refusal};
use foldhash::{HashMap, HashMapExt};
use frames::{Frame, Frames, Row, RowIndex, Spot};
use lsda::Lsda;
use std::ops::Range;

/// The unwinding of an object.
#[derive(Default)]
pub(crate) struct Unwind {
    pub functions: Vec<Function>,
    frames: Frames,
    /// Calls in order, with the function that each is in.
    calls: Vec<(InsnIndex, usize)>,
    landings: std::collections::BTreeMap<InsnIndex, Landing>,
    /// The rows of calls where the new frame is another one. Without a row unwinding ends there.
    moved: HashMap<InsnIndex, Option<RowIndex>>,
}

/// The target of an exception from a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landing {
    pub pad: InsnIndex,
    /// Bytes by which the stack pointer is lower at the call than at the pad.
    pub arguments: u32,
}

pub(crate) struct Function {
    pub frame: Frame,
    /// Most functions have none.
    pub table: Option<Box<Table>>,
}

/// An exception table, and the place where the next one begins.
pub(crate) struct Table {
    pub section: usize,
    pub lsda: Lsda,
    pub end: u64,
}

impl Unwind {
    /// Returns the landing pad of a call.
    pub(crate) fn landing(&self, call: InsnIndex) -> Option<Landing> {
        self.landings.get(&call).copied()
    }

    /// Returns all landing pads with their calls.
    pub(crate) fn landings(&self) -> impl Iterator<Item = (InsnIndex, Landing)> {
        self.landings.iter().map(|(call, landing)| (*call, *landing))
    }

    /// Gives calls the rows of their new frames, where these are other ones.
    pub(crate) fn move_frames(
        &mut self,
        code: &Code<'_, '_>,
        moves: impl Fn(InsnIndex) -> bool,
        new: impl Fn(InsnIndex, &Row) -> Option<Row>,
    ) {
        let mut known = HashMap::new();
        for &(call, function) in self.calls.iter().filter(|(call, _)| moves(*call)) {
            let row = self.row(call, function, code.insns[call].end()).and_then(|row| new(call, row));
            let index = row.map(|row| *known.entry(row).or_insert_with(|| self.frames.add(row)));
            self.moved.insert(call, index);
        }
    }

    /// Says whether the tables have an entry for a call.
    pub(crate) fn knows(&self, call: InsnIndex) -> bool {
        self.calls.binary_search_by_key(&call, |(at, _)| *at).is_ok()
    }

    /// Returns the calls in a range that the tables have entries for, each with the function that
    /// it is in.
    pub(crate) fn calls(&self, range: Range<InsnIndex>) -> &[(InsnIndex, usize)] {
        let [first, end] = [range.start, range.end].map(|to| self.calls.partition_point(|(at, _)| *at < to));
        &self.calls[first..end]
    }

    /// Returns the row of a function's call that ends at this offset.
    pub(crate) fn row(&self, call: InsnIndex, function: usize, end: u64) -> Option<&Row> {
        match self.moved.get(&call) {
            Some(index) => index.map(|index| self.frames.get(index)),
            None => self.frames.row(&self.functions[function].frame, end - 1),
        }
    }
}

/// Reads the unwind tables.
///
/// # Errors
/// [`Reason::ExceptionTables`] if an exception table, or the frame of a call in it, is not
/// understood. If a table without exceptions is not understood, it is left out, and unwinding ends
/// there.
pub(crate) fn collect(code: &Code<'_, '_>) -> Result<Unwind, Vec<Refusal>> {
    let object = code.object;
    let tables = object.sections.iter().enumerate().find(|(_, s)| is_exception_table(s.name) && s.size != 0);
    let Some(mut frames) = frames::read(object) else {
        return match tables {
            Some((section, _)) => Err(vec![code.refuse_offset(
                section,
                0,
                Reason::ExceptionTables,
                "the frames of .eh_frame are malformed",
            )]),
            None => Ok(Unwind::default()),
        };
    };
    let mut starts: Vec<(usize, u64)> =
        frames.all.iter().filter_map(|f| f.lsda).filter_map(|spot| table_at(code, spot)).collect();
    starts.sort_unstable();
    let all = std::mem::take(&mut frames.all);
    let mut unwind = Unwind { frames, ..Unwind::default() };
    let mut refusals = Vec::new();
    for frame in all {
        let Some(section) = code.section(frame.section) else { continue };
        let index = unwind.functions.len();
        let place = |offset: u64| code.place(section, offset);
        let calls = place(frame.start).until(place(frame.end));
        let calls = calls.filter(|&at| matches!(code.insns[at].flow, Flow::Call(_) | Flow::CallIndirect));
        unwind.calls.extend(calls.map(|at| (at, index)));
        let mut table = None;
        if let Some(spot) = frame.lsda {
            let found = table_at(code, spot).and_then(|(section, at)| {
                // Each table is written for its function. A table that many functions share would
                // be written as often.
                let first = starts.partition_point(|spot| *spot < (section, at));
                if starts.get(first + 1) == Some(&(section, at)) {
                    return None;
                }
                let data = object.sections[section].data;
                let next = starts.get(starts.partition_point(|spot| *spot <= (section, at)));
                let next = next.filter(|(other, _)| *other == section).map(|(_, start)| *start);
                let end = next.unwrap_or(data.len() as u64);
                let lsda = lsda::read(data.get(..usize::try_from(end).ok()?)?, at, frame.start)?;
                Some(Box::new(Table { section, lsda, end }))
            });
            if found.is_none() {
                let detail = "the table of this function is not understood";
                refusals.push(code.refuse_offset(frame.section, frame.start, Reason::ExceptionTables, detail));
            }
            table = found;
        }
        unwind.functions.push(Function { frame, table });
    }
    // Of entries that overlap the last one counts.
    unwind.calls.sort_unstable();
    unwind.calls.dedup_by(|next, known| {
        let same = next.0 == known.0;
        if same {
            *known = *next;
        }
        same
    });
    for &(at, function) in &unwind.calls {
        let Function { frame, table: Some(table) } = &unwind.functions[function] else { continue };
        let offset = u64::from(code.insns[at].offset);
        let Some(site) = table.lsda.sites.iter().find(|site| site.start <= offset && offset < site.end) else {
            continue;
        };
        let Some(pad) = site.pad else { continue };
        let landing = unwind.row(at, function, code.insns[at].end()).zip(code.at(frame.section, pad));
        match landing {
            Some((row, pad)) => {
                let landing = Landing { pad, arguments: row.arguments };
                unwind.landings.insert(at, landing);
            }
            None => {
                let detail = "the call's frame or landing pad is not understood";
                refusals.push(code.refuse(at, Reason::ExceptionTables, detail));
            }
        }
    }
    if refusals.is_empty() { Ok(unwind) } else { Err(refusals) }
}

fn table_at(code: &Code<'_, '_>, spot: Spot) -> Option<(usize, u64)> {
    match spot {
        Spot::Section(section, offset) => Some((section, offset)),
        Spot::Symbol(symbol, more) => match code.object.symbols.get(symbol)?.place {
            crate::object::read::Place::Section(section) => {
                Some((section, code.object.symbols[symbol].value.wrapping_add(more)))
            }
            _ => None,
        },
    }
}
