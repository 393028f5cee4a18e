//! Copies from the end, between `std` and `cld`: loops in the new code.

use crate::code::{Flow, Index, Insn};
use crate::control::{unproved, wrong};
use crate::sets::{self, Set};
use crate::walk::{Block, Difference, Op, Stand, Walk};
use iced_x86::{Mnemonic, OpKind, Register};

impl Walk<'_, '_, '_> {
    /// From `std` to `cld`: copies that run from the end are loops.
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
                    block.ops.push(Op::Need(here, effects.reads));
                    block.ops.push(Op::Gain(effects.writes));
                    if lost != 0 {
                        block.ops.push(Op::Lose(here, lost));
                    }
                    self.step_facts(here, stand);
                }
                _ if insn.is_nop() => {}
                _ if context.old.flow[here] == Flow::Next && !self.graph.label[here] => {
                    self.plain(here, stand, block)?;
                }
                _ => return unproved("the direction flag is set for something other than copies"),
            }
        }
    }

    /// `jrcxz 2f ; [spill] 1: load ; store ; lea -n(%rsi),%rsi ; lea -n(%rdi),%rdi ; lea -1(%rcx),%rcx ; jrcxz 2f ; jmp 1b ; 2:`
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
        let first = self.run_to_branch(&mut new, stand, None)?;
        let facts = stand.facts.clone();
        let mut lost = self.compare(&old, &new, &facts, kept, &mut stand.delta)?;
        let section = stand.place.0;
        let mut insns = vec![first];
        for _ in 0..7 {
            let last = insns[insns.len() - 1];
            insns.push(*self.new_insn((section, last.end()))?);
        }
        let [skip, load, store, source, target, count, again, back] = insns[..] else { return unproved("a copy") };
        let step = |insn: &Insn, register: Register, by: i64| {
            insn.ins.mnemonic() == Mnemonic::Lea
                && insn.ins.op0_register() == register
                && insn.ins.memory_base() == register
                && insn.ins.memory_index() == Register::None
                && insn.ins.memory_displacement64() as i64 == -by
        };
        let word = load.ins.op0_register();
        let moves = load.ins.mnemonic() == Mnemonic::Mov
            && store.ins.mnemonic() == Mnemonic::Mov
            && load.ins.op0_kind() == OpKind::Register
            && load.ins.op1_kind() == OpKind::Memory
            && store.ins.op0_kind() == OpKind::Memory
            && store.ins.op1_register() == word
            && word.size() as i64 == size
            && load.ins.memory_base().full_register() == Register::RSI
            && store.ins.memory_base().full_register() == Register::RDI
            && [load, store]
                .iter()
                .all(|i| i.ins.memory_index() == Register::None && i.ins.memory_displacement64() == 0);
        let loops = skip.ins.mnemonic() == Mnemonic::Jrcxz
            && again.ins.mnemonic() == Mnemonic::Jrcxz
            && back.ins.mnemonic() == Mnemonic::Jmp
            && back.ins.near_branch_target() == load.offset()
            && skip.ins.near_branch_target() == back.end()
            && again.ins.near_branch_target() == back.end();
        let steps =
            step(&source, Register::RSI, size) && step(&target, Register::RDI, size) && step(&count, Register::RCX, 1);
        let free = ![1, 6, 7].contains(&sets::number(word).unwrap_or(1));
        if !moves || !loops || !steps || !free {
            return wrong("a copy from the end became something else");
        }
        // Behind the loop the register that carried the words holds one, unless it is given back.
        let junk = self.values.junk();
        new.write(&mut self.values, word.full_register(), junk);
        stand.place.1 = back.end();
        let end = (section, u64::from(context.until[at]));
        self.run_to(&mut new, stand, end)?;
        lost |= self.compare(&old, &new, &facts, kept, &mut stand.delta)?;
        Ok(lost)
    }
}
