//! Switches that compare their index, in place of a jump by a table.
//!
//! The original program loads an entry, adds the table's base, and jumps. The new one has none of
//! that, and searches for the index where the original jumps:
//!
//! ```text
//! movslq (%b,%i,4),%t
//! add %b,%t
//! jmp *%t                 cmp $3,%i32 ; je 1f ; jb 2f ; jmp 3f
//! ```
//!
//! From the load to the jump nobody may use `%t` or change `%i`. Then the search must lead each
//! index of the table to the place that its entry means.

use crate::alike::RegisterPlace;
use crate::arrays::entries;
use crate::code::{Index, Insn};
use crate::difference::{Difference, unproved, wrong};
use crate::facts::Fact;
use crate::object::Spot;
use crate::sets::{self, number, whole};
use crate::unread::Search;
use crate::walk::{Block, Edge, Op, Slotted, Stand, Walk, Way};
use iced_x86::{FlowControl, Mnemonic, OpKind};
use std::ops::Range;

/// Most instructions before the first comparison.
const LEAD: usize = 8;
/// Most steps of a search along all its ways.
const STEPS: usize = 1 << 14;

/// A part of a search.
struct Part {
    /// The place of its code.
    at: u64,
    /// The indexes that come there: the first one, and the one behind the last.
    from: u32,
    to: u32,
    /// The number with which the index was compared last.
    compared: Option<u32>,
}

impl Walk<'_, '_, '_> {
    /// Begins such a switch, if the new code has no load of its entry.
    pub(crate) fn begins_search(
        &mut self,
        at: Index,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<bool, Difference> {
        let ins = &self.context.old.text.insns[at].ins;
        let registers = [ins.memory_base(), ins.memory_index(), ins.op0_register()].map(number);
        let [Some(base), Some(index), Some(target)] = registers else { return Ok(false) };
        let Fact::Address(section, table) = stand.facts.registers[base] else { return Ok(false) };
        let table = (section as usize, table);
        if index == base || self.graph.base(table.0, table.1).is_none() {
            return Ok(false);
        }
        let before = stand.facts.clone();
        self.step_facts(at, stand);
        let mut effects = self.graph.effects[at];
        effects.reads &= !whole(base);
        self.note(at, &before, stand, effects, 0, block);
        stand.slotted = Some(Slotted { register: target, base, summed: false, search: Some(Search { index, table }) });
        Ok(true)
    }

    /// Compares the jump of such a switch.
    pub(crate) fn search(
        &mut self,
        at: Index,
        search: Search,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<bool, Difference> {
        let context = self.context;
        let kept = context.old.kept[at];
        let RegisterPlace::Register(place) = kept.place(search.index) else {
            return unproved("the index of a switch is in memory");
        };
        let (old, mut new) = self.begin(stand, kept, false)?;
        // The data stack's pointer may move before the search.
        let end = u64::from(context.until[at]);
        for _ in 0..LEAD {
            if stand.place.1 >= end {
                break;
            }
            let insn = *self.new_insn(stand.place)?;
            if insn.ins.flow_control() != FlowControl::Next || compared(&insn, place).is_some() {
                break;
            }
            self.execute(&mut new, &insn)?;
            stand.place.1 = insn.end();
        }
        let facts = stand.facts.clone();
        let lost = self.compare(&old, &new, &facts, kept, &mut stand.delta)? | sets::ALL_FLAGS;
        let Some(targets) = self.graph.jumps.get(&at).filter(|targets| !targets.tail).cloned() else {
            return unproved("the targets of a switch are not known");
        };
        self.searches.jumps.insert(at);
        self.searches.tables.insert(search.table);
        let entries = entries(context, self.graph, search.table)?;
        self.leads_by(&entries, place, stand.place, end)?;
        block.ops.push(Op::Need(at, self.graph.effects[at].reads & !sets::ALL_FLAGS));
        let slotted = stand.slotted.take();
        let spent = slotted.map_or(0, |slotted| whole(slotted.register) | whole(slotted.base));
        let after = block.ops.len();
        for to in targets.inside {
            self.edge(Edge { from: at, to, lost, after, way: Way::Switch(spent) }, stand, block)?;
        }
        Ok(false)
    }

    /// Checks that a search for the index in a register leads each index to its entry's place.
    fn leads_by(
        &self,
        entries: &[Spot],
        register: usize,
        (section, begin): (usize, u64),
        end: u64,
    ) -> Result<(), Difference> {
        let mut parts = vec![Part { at: begin, from: 0, to: entries.len() as u32, compared: None }];
        for _ in 0..STEPS {
            let Some(part) = parts.pop() else { return Ok(()) };
            if part.from >= part.to {
                continue;
            }
            let leads = |there: u64, mut indexes: Range<u32>| match indexes
                .find(|index| entries[*index as usize] != Spot::Code(section, there))
            {
                Some(index) => wrong(format!("the switch leads elsewhere for the index {index}")),
                None => Ok(()),
            };
            if part.at >= end {
                leads(part.at, part.from..part.to)?;
                continue;
            }
            let insn = self.new_insn((section, part.at))?;
            if let Some(by) = compared(insn, register) {
                parts.push(Part { at: insn.end(), compared: Some(by), ..part });
                continue;
            }
            let Part { from, to, compared, .. } = part;
            let next = |from, to| Part { at: insn.end(), from, to, compared };
            // The indexes for which the branch is taken, and parts for those before and behind.
            let by = compared.map(|by| by.clamp(from, to));
            let taken = match (insn.ins.mnemonic(), by) {
                (Mnemonic::Jmp, _) => from..to,
                (Mnemonic::Je, Some(by)) if compared == Some(by) => by..to.min(by + 1),
                (Mnemonic::Je, Some(_)) => from..from,
                (Mnemonic::Jb, Some(by)) => from..by,
                (Mnemonic::Jae, Some(by)) => by..to,
                _ => return wrong("a switch became code that is no search for its index"),
            };
            if insn.immediate.is_some() || insn.displacement.is_some() {
                return wrong("a search for the index of a switch leads to another section");
            }
            parts.extend([next(from, taken.start), next(taken.end, to)]);
            let target = insn.ins.near_branch_target();
            if (insn.end()..end).contains(&target) {
                parts.push(Part { at: target, from: taken.start, to: taken.end, compared });
                continue;
            }
            leads(target, taken)?;
        }
        unproved("a search for the index of a switch is too long")
    }
}

/// Returns the number with which an instruction compares the low half of a register.
fn compared(insn: &Insn, register: usize) -> Option<u32> {
    let ins = &insn.ins;
    let compares = ins.mnemonic() == Mnemonic::Cmp
        && ins.op0_kind() == OpKind::Register
        && ins.op0_register().is_gpr32()
        && number(ins.op0_register()) == Some(register)
        && insn.immediate.is_none();
    ins.try_immediate(1).ok().filter(|_| compares).map(|by| by as u32)
}
