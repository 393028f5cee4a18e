//! The new unwind records (`rewriter/src/output/unwind_table.rs` describes them) agree with the
//! original tables about each call: the place of the frame, the registers saved in it, and the
//! target of exceptions.

use crate::alike::RegisterPlace;
use crate::code::{Index, Kept};
use crate::context::Context;
use crate::difference::{Difference, unproved, wrong};
use crate::frames::{self, Frame, Named, Row, Rule, Table};
use crate::landings::Unwinding;
use crate::object::{Spot, kind};
use crate::saves::Saves;
use crate::sets::{PRESERVED, RSP};
use foldhash::{HashMap, HashMapExt};
use sfi_contract::names::UNWIND_SECTION;

const FUNCTIONS: usize = 24;
const FUNCTION: usize = 16;
const CALL: usize = 12;
/// The form of rows.
const FORM: u32 = 1;
/// Numbers in a row: the home of r15, and the data stack pointer.
const HOME: u8 = 5;
const STACK: u8 = 7;

/// The record of one section of new code.
struct Record<'a> {
    /// The record's section.
    section: usize,
    data: &'a [u8],
    /// Row and function of each call, by the offset after the call.
    calls: HashMap<u64, (usize, usize)>,
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

impl<'a> Record<'a> {
    fn read(section: usize, data: &'a [u8]) -> Option<Record<'a>> {
        let (functions, count) = (word(data, 12)? as usize, word(data, 16)? as usize);
        let mut calls = HashMap::new();
        let mut last = None;
        for call in 0..count {
            let at = FUNCTIONS + functions.checked_mul(FUNCTION)? + call * CALL;
            let [behind, row, function] = [word(data, at)?, word(data, at + 4)?, word(data, at + 8)?];
            // Programs search the calls, so they must be sorted.
            if last.is_some_and(|last| last >= behind) || function as usize >= functions {
                return None;
            }
            last = Some(behind);
            calls.insert(u64::from(behind), (row as usize, function as usize));
        }
        (word(data, 8)? as usize == data.len() && word(data, 20)? == FORM).then_some(Record { section, data, calls })
    }

    /// Returns the bytes of a row.
    fn row(&self, at: usize) -> Option<&'a [u8]> {
        let saved = self.data.get(at + 2)?.count_ones() as usize;
        self.data.get(at..)?.get(..16 + 4 * saved)
    }
}

/// Compares the records of both objects for each call. `returns`: calls with the new places after
/// them.
pub(crate) fn check(
    context: &Context<'_, '_>,
    unwinding: &Unwinding,
    saves: &Saves,
    returns: &[(Index, (usize, u64))],
) -> Vec<(Index, (usize, u64), Difference)> {
    Comparison { context, unwinding, saves }.run(returns)
}

/// Both objects.
struct Comparison<'x, 'p, 'a> {
    context: &'x Context<'p, 'a>,
    unwinding: &'x Unwinding,
    saves: &'x Saves,
}

impl Comparison<'_, '_, '_> {
    fn run(&self, returns: &[(Index, (usize, u64))]) -> Vec<(Index, (usize, u64), Difference)> {
        let context = self.context;
        let mut records: HashMap<usize, Option<Record<'_>>> = HashMap::new();
        let new = &context.pair.new;
        for (section, of) in new.sections.iter().enumerate().filter(|(_, s)| s.name == UNWIND_SECTION) {
            let base = of.relocations.iter().find(|r| r.offset == 0 && r.kind == kind::ABSOLUTE);
            let meant = base.and_then(|r| context.new_meaning(r.symbol, r.addend));
            if let Some((Spot::Code(text, 0), 0)) = meant {
                records.insert(text, Record::read(section, of.data));
            }
        }
        let mut found = Vec::new();
        for &(call, place) in returns {
            let one = || match records.get(&place.0) {
                Some(None) => wrong("the record of the code for the unwinder is malformed"),
                Some(Some(record)) => self.call(call, place, Some(record)),
                None => self.call(call, place, None),
            };
            if let Err(difference) = one() {
                found.push((call, place, difference));
            }
        }
        found
    }

    fn call(&self, call: Index, place: (usize, u64), record: Option<&Record<'_>>) -> Result<(), Difference> {
        let context = self.context;
        let insn = &context.old.text.insns[call];
        let frame = self.unwinding.frame(insn.section as usize, insn.offset());
        let row = frame.and_then(|frame| frame.row(insn.end()));
        let entry = record.and_then(|record| Some((record, *record.calls.get(&place.1)?)));
        let kept = context.old.kept[call];
        let expected = row.and_then(|row| translated(&self.saves.row(call, row)?, kept));
        match (frame, expected, entry) {
            // The tables have no row, so unwinding ends there.
            (_, None, None) => Ok(()),
            (_, Some(_), None) => match frame.and_then(|frame| frame.site(insn.offset())) {
                Some(site) if site.pad != 0 => wrong("the landing pad of the call is lost"),
                _ => wrong("the unwinder does not find the call's frame"),
            },
            (Some(frame), Some(expected), Some((record, (row, function)))) => {
                if record.row(row) != Some(&expected[..]) {
                    return wrong("the unwinder gets another frame at the call");
                }
                Handler { context, frame, record, function }.check(call, place)
            }
            (_, None, Some(_)) | (None, Some(_), Some(_)) => {
                wrong("the unwinder gets a frame where the original tables say none")
            }
        }
    }
}

/// Returns the row that the new code must have, given the places of registers. `None` if there is
/// none.
fn translated(row: &Row, kept: Kept) -> Option<Vec<u8>> {
    let place = |register: usize| match kept.place(register) {
        RegisterPlace::Register(to) => PRESERVED.iter().position(|r| *r == to).filter(|at| *at < usize::from(HOME)),
        RegisterPlace::Home => Some(usize::from(HOME)),
    };
    let mut rules = [Rule::Same; 6];
    for (at, rule) in row.rules.iter().enumerate().filter(|(_, rule)| **rule != Rule::Same) {
        let to = place(PRESERVED[at])?;
        // Both registers would be restored to one place. But the code nearby names only one of
        // them.
        if rules[to] != Rule::Same {
            return None;
        }
        rules[to] = *rule;
    }
    let base = match row.base {
        RSP => STACK,
        register if kept.slot.is_some() && register == kept.homed() => return None,
        register => place(register)? as u8,
    };
    // A register in a slot of the frame was not saved. The caller's value is elsewhere.
    if kept.slot.is_some() {
        rules[usize::from(HOME)] = Rule::Same;
    }
    let (mut saved, mut by_rbp, mut on_control, mut distances) = (0u8, 0u8, 0u8, Vec::new());
    for (at, rule) in rules.into_iter().enumerate() {
        let distance = match rule {
            Rule::Same => continue,
            Rule::AtFrame(distance) => distance,
            Rule::AtRbp(distance) => {
                // The new code's rbp must be the original's.
                by_rbp |= 1 << at;
                (kept.place(crate::sets::RBP) == RegisterPlace::Register(crate::sets::RBP)).then_some(distance)?
            }
            Rule::Word(word) => {
                on_control |= 1 << at;
                i32::from(word)
            }
        };
        saved |= 1 << at;
        distances.extend_from_slice(&distance.to_le_bytes());
    }
    let mut bytes = vec![base, u8::from(row.loaded), saved, by_rbp, on_control, row.words, 0, 0];
    bytes.extend_from_slice(&row.distance.to_le_bytes());
    bytes.extend_from_slice(&row.arguments.to_le_bytes());
    bytes.extend_from_slice(&distances);
    Some(bytes)
}

/// Both programs' tables for exceptions in one function.
struct Handler<'x, 'p, 'a> {
    context: &'x Context<'p, 'a>,
    frame: &'x Frame,
    record: &'x Record<'a>,
    function: usize,
}

impl Handler<'_, '_, '_> {
    /// Returns the target of a relocation of the record.
    fn meaning(&self, offset: u64) -> Option<(Spot, i64)> {
        let relocations = &self.context.pair.new.sections[self.record.section].relocations;
        let reloc = relocations.iter().find(|r| r.offset == offset && r.kind == kind::ABSOLUTE)?;
        self.context.new_meaning(reloc.symbol, reloc.addend)
    }

    fn check(&self, call: Index, place: (usize, u64)) -> Result<(), Difference> {
        let at = FUNCTIONS + self.function * FUNCTION;
        let [exceptions, start] = [word(self.record.data, at + 8), word(self.record.data, at + 12)];
        let (Some(exceptions), Some(start)) = (exceptions, start) else { return wrong("a record is cut off") };
        let entry = self.context.old.text.at(self.frame.section, self.frame.range.0);
        let begin = entry.map_or(0, |entry| self.context.old.place[entry].1);
        if start >> 1 != begin {
            return wrong("the unwinder takes the call for one of another function");
        }
        let meant = self.meaning(at as u64);
        match &self.frame.personality {
            None if meant.is_none() => {}
            Some((named, indirect)) => {
                let (symbol, more) = match *named {
                    Named::Symbol(symbol, more) => (Some(symbol), more),
                    Named::Section(section, offset) => (self.context.section_symbol(section), offset),
                };
                let wanted = symbol.and_then(|symbol| self.context.old_meaning(symbol, more as i64));
                if wanted.is_none() || wanted != meant || (start & 1 != 0) != *indirect {
                    return wrong("the call's frame has another personality");
                }
            }
            None => return wrong("the call's frame has a personality of its own"),
        }
        let site = self.frame.site(self.context.old.text.insns[call].offset());
        let Some((section, table, end)) = &self.frame.table else {
            return if exceptions == 0 { Ok(()) } else { wrong("a table of landing pads is new") };
        };
        let new = frames::read_table(self.record.data, u64::from(exceptions), 0).filter(|_| exceptions != 0);
        let Some(new) = new else { return wrong("a table of landing pads is lost") };
        let inside = place.1.wrapping_sub(1);
        // The personality reads the sites in order.
        let sorted = new.sites.windows(2).all(|pair| pair[0].range.1 <= pair[1].range.0);
        let found = new.sites.iter().position(|other| other.range.0 <= inside && inside < other.range.1);
        match (site, found.map(|number| (number, new.sites[number]))) {
            _ if !sorted => return wrong("the call sites of a function are not in order"),
            (None, None) => {}
            (Some(site), Some((number, other))) if site.action == other.action => {
                let pad = self.pad(&new, number, exceptions);
                let wanted = match site.pad {
                    0 => None,
                    pad => match self.context.old.text.at(self.frame.section, pad) {
                        Some(pad) => Some(self.context.spot(pad)),
                        None => return unproved("a landing pad is no instruction"),
                    },
                };
                if pad != wanted {
                    return wrong("the call has another landing pad");
                }
            }
            _ => return wrong("the call has another action for exceptions"),
        }
        self.actions((*section, table, *end), &new)
    }

    /// Returns the target of a call site's landing pad in the new table.
    fn pad(&self, new: &Table, number: usize, exceptions: u32) -> Option<Spot> {
        // The sites end where the actions begin. Each site is three words and the action.
        let mut at = new.actions;
        for site in new.sites[number..].iter().rev() {
            let action = (64 - (site.action | 1).leading_zeros()).div_ceil(7);
            at = at.checked_sub(24 + u64::from(action))?;
        }
        debug_assert!(at > u64::from(exceptions));
        let relocations = &self.context.pair.new.sections[self.record.section].relocations;
        let reloc = relocations.iter().find(|r| r.offset == at + 16 && r.kind == kind::ABSOLUTE)?;
        let of = self.context.pair.new.symbols.get(reloc.symbol)?;
        match of.place {
            sfi_elf::Place::Section(section) => Some(Spot::Code(section, of.value.wrapping_add_signed(reloc.addend))),
            _ => None,
        }
    }

    /// Checks that actions and types are as they were.
    fn actions(&self, (section, table, end): (usize, &Table, u64), new: &Table) -> Result<(), Difference> {
        let pair = self.context.pair;
        let old_section = &pair.old.sections[section];
        let length = end - table.actions;
        let bytes = |data: &'_ [u8], from: u64| {
            data.get(from as usize..).and_then(|d| d.get(..length as usize).map(<[u8]>::to_vec))
        };
        // Addresses of 32 bits become distances of 32 bits, and 0 stays 0.
        let short = matches!((table.encoding, new.encoding), (0x03 | 0x0b, 0x1b));
        let alike = |old: u32, new: u32| {
            if short { matches!(old, kind::WORD | kind::SIGNED_WORD) && new == kind::PC32 } else { old == new }
        };
        let same = bytes(old_section.data, table.actions) == bytes(self.record.data, new.actions)
            && (short || table.encoding == new.encoding)
            && table.types - table.actions == new.types - new.actions;
        if !same {
            return wrong("the actions for exceptions of a function are other ones");
        }
        let inside = |from: u64| move |offset: &u64| (from..from + length).contains(offset);
        let others = &pair.new.sections[self.record.section].relocations;
        let count = others.iter().filter(|r| inside(new.actions)(&r.offset)).count();
        let mut mine = 0;
        for reloc in old_section.relocations.iter().filter(|r| inside(table.actions)(&r.offset)) {
            mine += 1;
            let at = reloc.offset - table.actions + new.actions;
            let other = others.iter().find(|r| r.offset == at && alike(reloc.kind, r.kind));
            let old = self.context.old_meaning(reloc.symbol, reloc.addend);
            let meant = other.and_then(|r| self.context.new_meaning(r.symbol, r.addend));
            if old.is_none() || old != meant {
                return wrong("a type for exceptions is another one");
            }
        }
        if mine == count { Ok(()) } else { wrong("a type for exceptions is new") }
    }
}
