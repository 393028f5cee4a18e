//! Traps after calls that are not to return, and at padding that is not to be reached: the original
//! code after it belongs to other paths only.

use crate::code::{Flow, Index, Insn, Old, falls_through};
use crate::difference::{Difference, unproved, wrong};
use crate::endless;
use crate::walk::{Stand, Walk};
use iced_x86::Code as Opcode;

impl Walk<'_, '_, '_> {
    /// Checks the trap of the new code after a call. It may stand where the original program goes
    /// on only if the call does not return.
    pub(crate) fn stops(&self, call: Index, stand: &Stand) -> Result<(), Difference> {
        // A label of padding has a charge of a budget.
        let (section, offset) = stand.place;
        let trap = (section, offset + self.context.charge(stand.place).unwrap_or(0));
        if self.new_insn(trap)?.ins.code() != Opcode::Ud2 {
            return wrong("the trap after a call does not follow it");
        }
        let old = &self.context.old;
        if endless::calls(old, call) || old.ends_before_cold_part(call) {
            return Ok(());
        }
        let last = self.last_padding(call);
        let Some(behind) = old.text.next(last) else { return self.falls_off(last, stand) };
        match self.graph.facts.get(&behind) {
            Some(known) if !known.has_stack_of(&stand.facts, behind) => Ok(()),
            Some(_) => wrong("the new code stops after a call that may return"),
            None => unproved("the new code stops after a call that may return"),
        }
    }

    /// Checks the way from a call to a label that other code reaches with another stack. No trap
    /// stands there, so the call may return. The label's code must be right for both.
    pub(crate) fn goes_on(&self, label: Index, stand: &Stand) -> Result<(), Difference> {
        let (old, facts) = (&self.context.old, &stand.facts);
        let known = self.graph.facts.get(&label);
        let there = known.map_or(0, |known| self.saves.saved(self.saves.body(label), known));
        if self.saves.saved(stand.body, facts) != there {
            return wrong("control comes from a call to code with other words on the control stack");
        }
        let traps = old.is_trap(label) || old.flow[label] == Flow::Stop;
        if self.graph.entry[label] && facts.height() != Some(0) && !traps {
            return wrong("control comes from a call into a function with something on the stack");
        }
        Ok(())
    }

    /// Checks the new code of the place behind a section, to which compilers branch where they know
    /// that no path leads. It is a trap.
    pub(crate) fn traps_behind(&self, behind: Index) -> Result<(), Difference> {
        let (section, offset) = self.context.old.place[behind];
        let place = (section as usize, u64::from(offset));
        let trap = (place.0, place.1 + self.context.charge(place).unwrap_or(0));
        if self.new_insn(trap)?.ins.code() == Opcode::Ud2 {
            return Ok(());
        }
        wrong("the new code goes on where the original section ends")
    }

    /// Checks that a block may end after an instruction: control does not go on there, or leaves
    /// the section.
    pub(crate) fn ends(&self, at: Index, stand: &Stand) -> Result<(), Difference> {
        let old = &self.context.old;
        if !falls_through(old.flow[at]) || self.graph.is_endless(old, at) {
            return Ok(());
        }
        // The call of a thread local's address may belong to it.
        self.falls_off(old.text.next(at).unwrap_or(at), stand)
    }

    /// Checks that a section ends after an instruction behind which the trace has none. Free Pascal
    /// has zeros there, behind a call that does not return. The new code ends there too, or stops.
    fn falls_off(&self, last: Index, stand: &Stand) -> Result<(), Difference> {
        let old = &self.context.old;
        let insn = &old.text.insns[last];
        let rest = old.pair.old.sections[insn.section as usize].data.get(insn.end() as usize..).unwrap_or(&[]);
        let calls = matches!(old.flow[last], Flow::Call(_) | Flow::CallIndirect);
        let ended = rest.is_empty() || (calls && rest.iter().all(|byte| *byte == 0));
        if !ended {
            return wrong("the trace leaves out the code behind an instruction");
        }
        if self.stops_at(stand.place) { Ok(()) } else { wrong("the new code goes on where the original section ends") }
    }

    /// Says whether the new code stops at a place, or ends there: the loader puts a trap behind
    /// each section. Padding may come first.
    fn stops_at(&self, (section, offset): (usize, u64)) -> bool {
        let insn = |at: &u64| self.context.new.insn_at(section, *at);
        let padding = std::iter::successors(Some(offset), |at| insn(at).filter(|i| i.is_nop()).map(Insn::end));
        let end = padding.last().unwrap_or(offset);
        match insn(&end) {
            Some(insn) => matches!(insn.ins.code(), Opcode::Ud2 | Opcode::Int3),
            None => end == self.context.pair.new.sections[section].data.len() as u64,
        }
    }

    /// Returns the last instruction of a call's padding, or the call. A function may begin with an
    /// instruction that does nothing.
    fn last_padding(&self, call: Index) -> Index {
        let text = &self.context.old.text;
        let pads = |next: &Index| text.insns[*next].is_nop() && !self.graph.entry[*next];
        std::iter::successors(Some(call), |last| text.next(*last).filter(pads)).last().unwrap_or(call)
    }
}

impl Old<'_, '_> {
    /// Says whether the unlikely part of a function begins after a call.
    fn ends_before_cold_part(&self, call: Index) -> bool {
        let insn = &self.text.insns[call];
        self.begins_cold_part(insn.section as usize, insn.end())
    }
}
