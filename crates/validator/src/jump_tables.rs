//! Switch tables: those of 64-bit pointers that only jumps read, as code for a fixed place has them
//! (`jmp *table(,%r,8)`), and the bases of those of 32-bit distances. No code keeps an entry of the
//! former as a pointer to a function.

use crate::code::{Flow, Index, Old};
use crate::object::{is_open, kind, may_go};
use foldhash::HashSet;
use iced_x86::{Mnemonic, Register};
use sfi_elf::{Place, Relocation};
use std::collections::BTreeMap;

/// The tables of an object.
#[derive(Default)]
pub(crate) struct JumpTables {
    /// Places of their entries.
    pub entries: HashSet<(usize, i64)>,
    /// Their first places, with an instruction that names each.
    pub bases: BTreeMap<(usize, i64), Index>,
}

impl JumpTables {
    /// Finds runs of adjacent pointers to code that only jumps name.
    pub(crate) fn find(old: &Old<'_, '_>) -> JumpTables {
        let object = &old.pair.old;
        let mut named: BTreeMap<(usize, i64), Option<Index>> = BTreeMap::new();
        for (at, insn) in old.text.insns.iter().enumerate() {
            for place in [insn.displacement, insn.immediate].into_iter().filter_map(|n| any_place(old, at, n)) {
                let by = (base(old, at) == Some(place)).then_some(at);
                let known = named.entry(place).or_insert(by);
                *known = known.and(by);
            }
        }
        let data = object.sections.iter().filter(|s| s.is_allocated() && !s.is_executable() && !may_go(s));
        let pointers = data.flat_map(|s| &s.relocations).filter_map(|r| data_place(old, r, 0));
        let open = object.symbols.iter().filter(|s| is_open(s)).filter_map(|s| match s.place {
            Place::Section(section) => Some((section, s.value as i64)),
            _ => None,
        });
        named.extend(pointers.chain(open).map(|place| (place, None)));
        let mut tables = JumpTables::default();
        for (section, contents) in object.sections.iter().enumerate().filter(|(_, s)| !s.is_executable()) {
            let code = |r: &&Relocation| r.kind == kind::ABSOLUTE && old.pair.old_code(r.symbol).is_some();
            let mut offsets: Vec<i64> = contents.relocations.iter().filter(code).map(|r| r.offset as i64).collect();
            offsets.sort_unstable();
            for run in offsets.chunk_by(|a, b| a.wrapping_add(8) == *b) {
                let (Some(&start), Some(&last)) = (run.first(), run.last()) else { continue };
                let inside = || named.range((section, start)..(section, last.saturating_add(8)));
                if let Some((&(_, first), _)) = inside().next()
                    && inside().all(|(_, by)| by.is_some())
                {
                    tables.entries.extend(run.iter().filter(|at| **at >= first).map(|at| (section, *at)));
                    tables.bases.extend(inside().filter_map(|(place, by)| Some((*place, (*by)?))));
                }
            }
        }
        tables
    }

    /// Returns an instruction that names the table of an entry.
    pub(crate) fn by(&self, entry: (usize, i64)) -> Option<Index> {
        let base = self.bases.range(..=entry).next_back().filter(|_| self.entries.contains(&entry))?;
        Some(*base.1)
    }
}

/// Returns the table that an instruction reads for a jump: `jmp *table(,%r,8)`, or `mov
/// table(,%r,8),%r` followed by the jump.
pub(crate) fn base(old: &Old<'_, '_>, at: Index) -> Option<(usize, i64)> {
    let register = old.text.insns[at].ins.op0_register();
    let next = || old.text.next(at).filter(|next| old.flow[*next] == Flow::JumpIndirect);
    let jumps = || next().is_some_and(|next| old.text.insns[next].ins.op0_register() == register);
    read(old, at).filter(|_| old.flow[at] == Flow::JumpIndirect || jumps())
}

/// Returns the table from which an instruction reads an entry. The jump may be far away, if a
/// compiler joined the jumps of a function.
pub(crate) fn read(old: &Old<'_, '_>, at: Index) -> Option<(usize, i64)> {
    let insn = &old.text.insns[at];
    let ins = &insn.ins;
    let indexed = ins.memory_base() == Register::None && ins.memory_index_scale() == 8;
    let loads = ins.mnemonic() == Mnemonic::Mov && ins.op0_register().is_gpr64();
    let reads = indexed && (old.flow[at] == Flow::JumpIndirect || loads);
    any_place(old, at, insn.displacement.filter(|_| reads))
}

/// Returns the place of data that a field of an instruction names.
fn any_place(old: &Old<'_, '_>, at: Index, field: Option<u32>) -> Option<(usize, i64)> {
    let insn = &old.text.insns[at];
    let relative = insn.ins.is_ip_rel_memory_operand() && field == insn.displacement;
    data_place(old, old.relocation(at, field)?, if relative { insn.behind() } else { 0 })
}

fn data_place(old: &Old<'_, '_>, reloc: &Relocation, more: i64) -> Option<(usize, i64)> {
    let symbol = old.pair.old.symbols.get(reloc.symbol)?;
    match symbol.place {
        Place::Section(section) if !old.pair.old.sections[section].is_executable() => {
            Some((section, (symbol.value as i64).wrapping_add(reloc.addend).wrapping_add(more)))
        }
        _ => None,
    }
}

/// A table's base, and an instruction that names it.
type Base = (i64, Index);

/// Returns the base of the table that holds a PC32 entry, out of the places that code names up to
/// there, and the entry's instruction if it leads to one. Code may also name an entry as the place
/// before an array that counts from 1. That one leads nowhere as the base.
pub(crate) fn base_of(
    old: &Old<'_, '_>,
    names: impl DoubleEndedIterator<Item = Base>,
    offset: i64,
    (text, target): (usize, u64),
) -> Option<(Base, Option<Index>)> {
    let mut first = None;
    for (base, by) in names.rev() {
        let target = target.wrapping_add_signed(base - offset);
        let to = old.never_reached(by, text, target).or_else(|| old.text.at(text, target));
        if to.is_some() {
            return Some(((base, by), to));
        }
        first = first.or(Some(((base, by), None)));
    }
    first
}
