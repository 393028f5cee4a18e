//! Phase 8c of mode full: loads by the window's base in a register.
//!
//! ```text
//! mov %gs:8(%eax),%rax        mov %gs:__sfi_header,%r9 ; mov %eax,%edx ; mov 8(%r9,%rdx),%rax
//! ```
//!
//! Some processors take two cycles more for a load through GS. That counts where a load of a loop
//! waits for what it gave in the last round, as in a list. Elsewhere the further instructions cost
//! more than they gain. The load of the base waits for nothing.

use super::memory::is_high_byte;
use super::operand::size_displacement;
use super::scratch::{ORDER, fixed};
use crate::analysis::live::Liveness;
use crate::analysis::r15::like;
use crate::analysis::regs::{self, Effects, GPRS, Set, VECTOR_COUNT, bit};
use crate::text::emit::{Branch, Emitter, Item, NoEncoding};
use crate::text::layout::{branches, places};
use iced_x86::{Code as Opcode, FlowControl, Instruction, Register};
use sfi_contract::based::FARTHEST;
use sfi_contract::layout::HEADER_BASE;
use sfi_contract::policy::{self, Memory};
use std::collections::BTreeMap;
use std::ops::Range;

/// Most items of a loop. In a longer one a single load does not count.
const LONGEST: usize = 256;

/// Changes the loads of a section's loops that wait for themselves.
pub(crate) fn loads(emitter: &mut Emitter, live: &Liveness) -> Result<(), NoEncoding> {
    let mut changes = BTreeMap::new();
    for items in loops(emitter) {
        let body = Body::new(emitter, items);
        let waiting = body.items.clone().filter(|at| body.is_waiting(*at));
        changes.extend(waiting.filter_map(|load| Some((load, body.based(load, live)?))));
    }
    insert(emitter, &changes)
}

/// Puts the new code of loads in, and moves the marks with the code.
fn insert(emitter: &mut Emitter, changes: &BTreeMap<usize, [Instruction; 3]>) -> Result<(), NoEncoding> {
    if changes.is_empty() {
        return Ok(());
    }
    let old = std::mem::take(&mut emitter.items);
    let mut moved = Vec::with_capacity(old.len() + 1);
    for (at, item) in old.iter().enumerate() {
        moved.push(emitter.items.len() as u32);
        match changes.get(&at) {
            Some(new) => new.iter().try_for_each(|ins| emitter.insn(ins, &[]))?,
            None => emitter.items.push(*item),
        }
    }
    moved.push(emitter.items.len() as u32);
    emitter.moved(&moved);
    Ok(())
}

/// Returns the loops of a section: the items from a label to a jump back to it.
fn loops(emitter: &Emitter) -> Vec<Range<usize>> {
    let back = |(at, kind, to): (usize, Branch, Option<usize>)| {
        let to =
            to.filter(|to| matches!(kind, Branch::Jump | Branch::Condition(_)) && *to < at && at - to < LONGEST)?;
        Some(to..at + 1)
    };
    branches(emitter, &places(emitter)).into_iter().filter_map(back).collect()
}

/// An item that is one instruction.
struct Insn {
    ins: Instruction,
    effects: Effects,
}

impl Insn {
    /// Says whether control goes on behind it, and nowhere else.
    fn goes_on(&self) -> bool {
        self.ins.flow_control() == FlowControl::Next
    }
}

/// The items of a loop.
struct Body<'e> {
    emitter: &'e Emitter,
    items: Range<usize>,
    /// `None` for other items than single instructions.
    insns: Vec<Option<Insn>>,
}

impl<'e> Body<'e> {
    fn new(emitter: &'e Emitter, items: Range<usize>) -> Body<'e> {
        let insn = |item: usize| {
            let ins = emitter.instruction(item).filter(|ins| !ins.is_invalid())?;
            Some(Insn { ins, effects: regs::of(&ins) })
        };
        let insns = items.clone().map(insn).collect();
        Body { emitter, items, insns }
    }

    fn insn(&self, item: usize) -> Option<&Insn> {
        self.insns[item - self.items.start].as_ref()
    }

    /// Says whether an item is a load through GS whose address depends on what it gave in the last
    /// round. Takes all code of the loop to run in its order.
    fn is_waiting(&self, load: usize) -> bool {
        let Some(Insn { ins, effects }) = self.insn(load).filter(|_| self.is_load(load)) else { return false };
        let mut tainted = effects.writes & GPRS;
        for at in (load + 1..self.items.end).chain(self.items.start..load) {
            let Some(insn) = self.insn(at) else { continue };
            if tainted == 0 || !insn.goes_on() {
                return false;
            }
            let Effects { uses, writes, kills, .. } = insn.effects;
            tainted = if uses & tainted != 0 { tainted | writes & GPRS } else { tainted & !kills };
        }
        tainted & bit(ins.memory_base()) != 0
    }

    /// Says whether an item is a load from `%gs:d(%register)` that can take another address.
    fn is_load(&self, item: usize) -> bool {
        let Some(insn) = self.insn(item) else { return false };
        let Item::Bytes { fixups, .. } = self.emitter.items[item] else { return false };
        let ins = &insn.ins;
        ins.segment_prefix() == Register::GS
            && ins.memory_base().is_gpr32()
            && ins.memory_index() == Register::None
            && ins.memory_displacement64() <= FARTHEST
            && insn.goes_on()
            && !ins.has_op_mask()
            // A high byte has no encoding with registers that need REX.
            && !is_high_byte(ins)
            && self.emitter.fixups(fixups).is_empty()
            && policy::lookup(ins.code()).is_some_and(|form| form.memory == Memory::Load)
    }

    /// Returns the registers that are live before an item. New code has values in registers that
    /// hold none of the original program, but only along a straight line.
    fn live(&self, item: usize, live: &Liveness) -> Set {
        let goes_on = |at: &usize| self.insn(*at).is_some_and(Insn::goes_on);
        let end = (item..self.items.end).find(|at| !goes_on(at)).unwrap_or(self.items.end);
        let is_code =
            |at: &usize| matches!(self.emitter.items[*at], Item::Bytes { len: 1.., .. } | Item::Branch { .. });
        let served = |at: usize| self.emitter.marks.served(at as u32);
        let next = (end..self.emitter.items.len()).find(is_code).and_then(served);
        // Between two items of one instruction its scratch registers may be in use.
        let last = served(end - 1).filter(|last| next != Some(*last));
        let mut now = last.map_or(GPRS, |last| live.after[last]);
        for Insn { effects, .. } in (item..end).rev().filter_map(|at| self.insn(at)) {
            now = (now & !effects.kills) | effects.uses;
        }
        if now & VECTOR_COUNT != 0 { now | bit(Register::RAX) } else { now }
    }

    /// Returns the code of a load by the window's base in a register, if there are registers for
    /// the base and the offset:
    ///
    /// ```text
    /// mov %gs:__sfi_header,%base ; mov %address,%offset ; load d(%base,%offset)
    /// ```
    fn based(&self, load: usize, live: &Liveness) -> Option<[Instruction; 3]> {
        let Insn { ins, effects } = self.insn(load)?;
        let busy = self.live(load, live) | bit(Register::RSP) | bit(Register::R15);
        let mut free = ORDER.into_iter().filter(|register| busy & bit(*register) == 0);
        let base = free.next()?;
        // The address' own register does, too, if the result takes its place.
        let address = ins.memory_base().full_register();
        let own = || (effects.kills & bit(address) != 0).then_some(address);
        let offset = free.next().or_else(own)?;
        let first = Instruction::with2(Opcode::Mov_r64_rm64, base, fixed(HEADER_BASE)).ok()?;
        let second = Instruction::with2(Opcode::Mov_r32_rm32, like(Register::EAX, offset), ins.memory_base()).ok()?;
        let mut third = *ins;
        third.set_segment_prefix(Register::None);
        third.set_memory_base(base);
        third.set_memory_index(offset);
        third.set_memory_index_scale(1);
        size_displacement(&mut third, false);
        Some([first, second, third])
    }
}
