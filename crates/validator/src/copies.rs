//! Copies from the end, between `std` and `cld`. The new code has loops for them.

use crate::code::{Flow, Index, Insn};
use crate::difference::{Difference, unproved, wrong};
use crate::sets::{self, RCX, RDI, RSI, Set};
use crate::value::Node;
use crate::walk::{Block, Stand, Walk};
use iced_x86::Mnemonic;

impl Walk<'_, '_, '_> {
    /// Compares the code from `std` to `cld`. Copies that run from the end became loops.
    pub(crate) fn backwards(
        &mut self,
        at: Index,
        stand: &mut Stand,
        block: &mut Block,
    ) -> Result<Option<Index>, Difference> {
        let context = self.context;
        let mut next = at;
        loop {
            let Some(here) = context.old.text.next(next) else { return unproved("the direction flag stays set") };
            next = here;
            let insn = &context.old.text.insns[here];
            let effects = self.graph.effects[here];
            match insn.ins.mnemonic() {
                Mnemonic::Cld => return Ok(context.old.text.next(here)),
                Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq
                    if insn.ins.is_string_instruction() =>
                {
                    let lost = self.copy(here, stand)?;
                    let before = stand.facts.clone();
                    self.step_facts(here, stand);
                    self.note(here, &before, stand, effects, lost, block);
                }
                _ if insn.is_nop() => {}
                _ if context.old.flow[here] == Flow::Next && !self.graph.label[here] => {
                    self.plain(here, stand, block)?;
                }
                _ => return unproved("the direction flag is set for something other than copies"),
            }
        }
    }

    /// Compares a copy that became a loop:
    ///
    /// ```text
    ///    jrcxz 2f ; [spill]
    /// 1: load ; [check] ; store ; lea -n(%rsi),%rsi ; lea -n(%rdi),%rdi
    ///    lea -1(%rcx),%rcx ; jrcxz 2f ; jmp 1b
    /// 2: [give back]
    /// ```
    fn copy(&mut self, at: Index, stand: &mut Stand) -> Result<Set, Difference> {
        let context = self.context;
        let kept = context.old.kept[at];
        let size = match context.old.text.insns[at].ins.mnemonic() {
            Mnemonic::Movsb => 1,
            Mnemonic::Movsw => 2,
            Mnemonic::Movsd => 4,
            _ => 8,
        };
        let (old, mut new) = self.begin(stand, kept, false)?;
        let skip = self.run_to_branch(&mut new, stand, None)?;
        let facts = stand.facts.clone();
        let mut lost = self.compare(&old, &new, &facts, kept, &mut stand.delta)?;
        let section = stand.place.0;
        let (behind, entry) = self.branch_of_both(&skip);
        let back = *self.new_insn((section, self.before(section, behind)?))?;
        let mut again = *self.new_insn((section, self.before(section, back.offset())?))?;
        if again.ins.mnemonic() == Mnemonic::Jmp {
            // In the long form the branch stands before two jumps.
            let inner = self.before(section, again.offset())?;
            again = *self.new_insn((section, self.before(section, inner)?))?;
        }
        let head = back.ins.near_branch_target();
        let loops = skip.ins.mnemonic() == Mnemonic::Jrcxz
            && again.ins.mnemonic() == Mnemonic::Jrcxz
            && self.branch_of_both(&again) == (behind, back.offset())
            && back.ins.mnemonic() == Mnemonic::Jmp
            && (entry..again.offset()).contains(&head);
        if !loops {
            return wrong("a copy from the end became something else");
        }
        stand.place.1 = entry;
        self.run_to(&mut new, stand, (section, head))?;
        let load = *self.new_insn((section, head))?;
        let word = load.ins.op0_register();
        let number = sets::number(word).filter(|n| ![RCX, RSI, RDI].contains(n));
        let Some(number) = number.filter(|_| word.size() as i64 == size) else { return unproved("a copy's register") };
        new.registers[number] = self.values.junk();
        // Compares one round, from any state that earlier rounds leave.
        let mut round = new.clone();
        self.run_to(&mut round, stand, (section, again.offset()))?;
        let source = self.values.id(Node::Load(0, new.registers[RSI], size as u32));
        let source = self.values.bits(source, 0, size as u8 * 8);
        let target = new.registers[RDI];
        let stored = [(target, size as u32, source)];
        let mut moved = new.registers;
        moved[number] = round.registers[number];
        for (register, by) in [(RSI, size), (RDI, size), (RCX, 1)] {
            moved[register] = self.values.plus(moved[register], -by);
        }
        let cells = new.cells.iter().all(|cell| round.cells.contains(cell));
        if round.stores != stored || round.registers != moved || !cells || round.slot != new.slot {
            return wrong("a copy from the end does something else");
        }
        if round.flags != new.flags {
            new.flags = std::array::from_fn(|_| self.values.junk());
        }
        // After the loop the register that carried the words holds the last one, unless it is given
        // back.
        new.registers[number] = self.values.junk();
        stand.place.1 = behind;
        let end = (section, u64::from(context.until[at]));
        self.run_to(&mut new, stand, end)?;
        lost |= self.compare(&old, &new, &facts, kept, &mut stand.delta)?;
        Ok(lost)
    }

    /// Returns the targets of a short branch: if it is taken, and if not. Its long form is `jrcxz
    /// 1f ; jmp 2f ; 1: jmp TARGET ; 2:`.
    fn branch_of_both(&self, branch: &Insn) -> (u64, u64) {
        let jump = |offset: u64| {
            let found = self.context.new.at(branch.section as usize, offset)?;
            Some(&self.context.new.insns[found]).filter(|insn| insn.ins.mnemonic() == Mnemonic::Jmp)
        };
        let taken = branch.ins.near_branch_target();
        let long = jump(branch.end()).filter(|over| over.end() == taken).and_then(|over| {
            let target = jump(taken)?;
            (over.ins.near_branch_target() == target.end()).then(|| (target.ins.near_branch_target(), target.end()))
        });
        long.unwrap_or((taken, branch.end()))
    }

    /// Returns the offset of the new instruction that ends at an offset.
    pub(crate) fn before(&self, section: usize, offset: u64) -> Result<u64, Difference> {
        let ends = |start: &u64| {
            self.context.new.at(section, *start).is_some_and(|at| self.context.new.insns[at].end() == offset)
        };
        match (offset.saturating_sub(15)..offset).find(ends) {
            Some(start) => Ok(start),
            None => wrong("a copy from the end leads to no instruction"),
        }
    }
}
