//! Switches that jump by an array of dispatch slots, in place of a table of distances. Those that
//! compare (see [`crate::searches`]) begin and end here, too.
//!
//! The original program loads an entry, adds the table's base, and jumps. The new one computes a
//! slot of the array by the same index where the original loads the entry:
//!
//! ```text
//! movslq (%b,%i,4),%t     lea ARRAY(,%i,8),%t32
//! add %b,%t
//! jmp *%t                 and $0xffff8,%t32 ; jmp *%gs:__sfi_dispatch(%t32)
//! ```
//!
//! The slot leads to the place that entry and base mean, if array and table agree entry by entry.
//! So both registers are pointers to one place, from the sum on. Until the jump nobody else may use
//! them. After it, a function may return with them. The new code does not read `%b`, so it may
//! leave out the table's address, as long as nobody else reads it.

use crate::alike::RegisterPlace;
use crate::code::{Flow, Index, Insn};
use crate::context::Context;
use crate::difference::{Difference, unproved, wrong};
use crate::facts::Fact;
use crate::graph::Graph;
use crate::object::{Spot, kind, relocations};
use crate::sets::{self, Effects, number, whole};
use crate::tables;
use crate::walk::{Block, Op, Slotted, Stand, Walk};
use iced_x86::{Code as Opcode, Instruction, Mnemonic, OpKind, Register};
use sfi_elf::{Place, Relocation};

impl Walk<'_, '_, '_> {
    /// Compares an instruction that is part of such a switch. Says whether its new code is not the
    /// usual one.
    pub(crate) fn is_switch(&mut self, at: Index, stand: &mut Stand, block: &mut Block) -> Result<bool, Difference> {
        let context = self.context;
        let ins = &context.old.text.insns[at].ins;
        let effects = self.graph.effects[at];
        let Some(Slotted { register, base, summed, search }) = stand.slotted else {
            return self.begins_switch(at, stand, block);
        };
        let own = |op: u32| ins.op_kind(op) == OpKind::Register && number(ins.op_register(op)) == Some(register);
        if summed && context.old.flow[at] == Flow::JumpIndirect && own(0) {
            // No function gets the target of a switch, or the address of its table.
            block.ops.push(Op::Forget(whole(register)));
            block.ops.push(Op::Untaken(whole(base)));
            return Ok(false);
        }
        let adds = matches!(ins.code(), Opcode::Add_r64_rm64 | Opcode::Add_rm64_r64);
        if !summed && adds && own(0) && !own(1) {
            let named = ins.op1_kind() == OpKind::Register && number(ins.op1_register()) == Some(base);
            let same = match (stand.facts.registers[register], stand.facts.registers[base]) {
                (Fact::Entry(section, table), Fact::Address(of, base)) => (section, table) == (of, base),
                _ => false,
            };
            if !named || !same {
                return wrong("something else than the base is added to an entry that became a slot");
            }
            if stand.place.1 != u64::from(context.until[at]) {
                return wrong("the new program adds something to a slot");
            }
            let before = stand.facts.clone();
            self.step_facts(at, stand);
            let effects = Effects { reads: effects.reads & !whole(base), ..effects };
            self.note(at, &before, stand, effects, sets::ALL_FLAGS, block);
            stand.slotted = Some(Slotted { register, base, summed: true, search });
            return Ok(true);
        }
        let index = search.map_or(0, |search| 1 << search.index);
        let uses = (effects.named | effects.changes) & 1 << register != 0 || effects.changes & index != 0;
        if uses || context.old.flow[at] != Flow::Next {
            return wrong("the original program uses the entry of a switch, which became a slot");
        }
        Ok(false)
    }

    /// Compares a load of an entry, if the new code has none of it.
    fn begins_switch(&mut self, at: Index, stand: &mut Stand, block: &mut Block) -> Result<bool, Difference> {
        let insn = &self.context.old.text.insns[at];
        if !is_load(insn) {
            return Ok(false);
        }
        let base = number(insn.ins.memory_base()).map(|base| stand.facts.registers[base]);
        let begins = match self.context.has_code(at) {
            true => self.loads_slot(at, stand, block)?,
            false => self.begins_search(at, stand, block)?,
        };
        let searches = stand.slotted.is_some_and(|slotted| slotted.search.is_some());
        if let Some(Fact::Address(section, table)) = base.filter(|_| !searches) {
            self.searches.loaded.insert((section as usize, table));
        }
        Ok(begins)
    }

    /// Compares a load of an entry, if the new code computes a slot.
    fn loads_slot(&mut self, at: Index, stand: &mut Stand, block: &mut Block) -> Result<bool, Difference> {
        let context = self.context;
        let (insn, kept) = (&context.old.text.insns[at], context.old.kept[at]);
        let ins = &insn.ins;
        let Some(new) = context.new.insn_at(stand.place.0, stand.place.1) else {
            return Ok(false);
        };
        let Some(array) = named_array(context, new) else { return Ok(false) };
        let registers = [ins.memory_base(), ins.memory_index(), ins.op0_register()].map(number);
        let [Some(base), Some(index), Some(target)] = registers else { return Ok(false) };
        let there = |old: usize, new: Register| kept.place(old) == place(new);
        if !is_slot(&new.ins) || !there(index, new.ins.memory_index()) || !there(target, new.ins.op0_register()) {
            return wrong("the slot of a switch has another index or goes elsewhere");
        }
        let Fact::Address(section, table) = stand.facts.registers[base] else {
            return unproved("the table of a switch is not known");
        };
        if !self.is_last(at, new) {
            return wrong("the new code changes the slot of a switch");
        }
        compare(context, self.graph, (section as usize, table), array)?;
        stand.place.1 = new.end();
        let before = stand.facts.clone();
        self.step_facts(at, stand);
        let mut effects = self.graph.effects[at];
        if index != base {
            effects.reads &= !whole(base);
        }
        self.note(at, &before, stand, effects, 0, block);
        stand.slotted = Some(Slotted { register: target, base, summed: false, search: None });
        Ok(true)
    }

    /// Checks that the new program keeps a slot until its jump. `ops` are those of the last
    /// instruction, and `arrives` says that a label follows it.
    pub(crate) fn keeps_slot(&self, stand: &Stand, ops: &[Op], arrives: bool) -> Result<(), Difference> {
        let Some(Slotted { register, search, .. }) = stand.slotted else { return Ok(()) };
        let kept = whole(register) | search.map_or(0, |search| whole(search.index));
        let loses = |op: &Op| matches!(op, Op::Lose(_, set) if set & kept != 0);
        match arrives || ops.iter().any(loses) {
            true => wrong("the new program loses the slot of a switch"),
            false => Ok(()),
        }
    }
}

/// Says whether an instruction is `movslq (%base,%index,4),%register`.
fn is_load(insn: &Insn) -> bool {
    let ins = &insn.ins;
    ins.mnemonic() == Mnemonic::Movsxd
        && ins.op0_register().is_gpr64()
        && ins.op1_kind() == OpKind::Memory
        && ins.memory_base().is_gpr64()
        && ins.memory_index().is_gpr64()
        && ins.memory_index_scale() == 4
        && ins.memory_displacement64() == 0
        && insn.displacement.is_none()
        && !matches!(ins.segment_prefix(), Register::FS | Register::GS)
}

/// Says whether an instruction is `lea ARRAY(,%index,8),%register32`.
fn is_slot(ins: &Instruction) -> bool {
    ins.code() == Opcode::Lea_r32_m
        && ins.memory_base() == Register::None
        && ins.memory_index().is_gpr64()
        && ins.memory_index_scale() == 8
}

fn place(register: Register) -> RegisterPlace {
    number(register).map_or(RegisterPlace::Home, RegisterPlace::Register)
}

/// Returns the array that a displacement of the new code names: section and offset.
fn named_array(context: &Context<'_, '_>, insn: &Insn) -> Option<(usize, i64)> {
    let new = &context.pair.new;
    let reloc = new.sections.get(insn.section as usize)?.relocations.get(insn.displacement? as usize)?;
    let symbol = new.symbols.get(reloc.symbol)?;
    match symbol.place {
        Place::Section(section) if new.sections[section].is_slot_array() && reloc.kind == kind::SIGNED_WORD => {
            Some((section, (symbol.value as i64).wrapping_add(reloc.addend)))
        }
        _ => None,
    }
}

/// Returns the relocation at an offset of a section.
fn relocation<'s>(section: &'s sfi_elf::Section<'_>, offset: i64) -> Option<&'s Relocation> {
    let offset = u64::try_from(offset).ok()?;
    relocations(section, offset, offset.checked_add(1)?).next().map(|(_, reloc)| reloc)
}

/// Returns the places to which the entries of a table lead, to its end.
pub(crate) fn entries(
    context: &Context<'_, '_>,
    graph: &Graph,
    (section, table): (usize, i64),
) -> Result<Vec<Spot>, Difference> {
    let old = &context.pair.old.sections[section];
    let mut entries = Vec::new();
    loop {
        let distance = 4 * entries.len() as i64;
        let Some((_, by)) = graph.base(section, table + distance).filter(|(base, _)| *base == table) else { break };
        match relocation(old, table + distance).and_then(|r| tables::entry(context, r, (distance, by))) {
            Some((spot, 0)) => entries.push(spot),
            _ => return unproved("an entry of a switch table is not understood"),
        }
    }
    if entries.is_empty() { unproved("the entries of a switch table are not known") } else { Ok(entries) }
}

/// Compares an array with a table, entry by entry, to the end of the table.
fn compare(
    context: &Context<'_, '_>,
    graph: &Graph,
    table: (usize, i64),
    (array, first): (usize, i64),
) -> Result<(), Difference> {
    let new = &context.pair.new.sections[array];
    for (count, entry) in (0..).zip(entries(context, graph, table)?) {
        let word = relocation(new, first + 8 * count).filter(|r| r.kind == kind::ABSOLUTE && r.addend == 0);
        // A landing pad is another place than its label.
        if word.and_then(|r| context.new_place(r.symbol)) != Some(entry) {
            let base = table.1;
            return wrong(format!(
                "entry {count} of the switch table at {base:#x} leads elsewhere in its array of slots"
            ));
        }
    }
    Ok(())
}
