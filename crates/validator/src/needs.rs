//! The needs of an instruction, and its results. A register or flag whose value matters to it must
//! be the same in both programs.

use crate::code::{Flow, Index};
use crate::facts::{Facts, is_callers};
use crate::sets::{self, Effects, PRESERVED, RAX, RCX, RSP, Set, whole};
use crate::walk::{Block, Op, Stand, Walk};
use iced_x86::{Mnemonic, OpKind};

/// ZF in a set.
const ZERO_FLAG: Set = 1 << (32 + 3);

impl Walk<'_, '_, '_> {
    /// Adds the effects of an instruction that both programs have executed on validity. `before`:
    /// the facts before it.
    pub(crate) fn note(
        &self,
        at: Index,
        before: &Facts,
        stand: &Stand,
        effects: Effects,
        lost: Set,
        block: &mut Block,
    ) {
        let ins = &self.context.old.text.insns[at].ins;
        let registers = (ins.op0_kind() == OpKind::Register
            && ins.op1_kind() == OpKind::Register
            && ins.op1_register().size() >= 4)
            .then(|| sets::number(ins.op0_register()).zip(sets::number(ins.op1_register())))
            .flatten()
            .filter(|(to, from)| *to != RSP && *from != RSP);
        let bitwise = matches!(ins.mnemonic(), Mnemonic::Or | Mnemonic::And | Mnemonic::Xor);
        let mut needed = self.needed(at, before, effects.reads);
        let (mut effects, mut lost) = (effects, lost);
        if self.surely_runs(at) {
            effects.writes |= sets::flags(ins.rflags_modified());
        }
        if let Some(unset) = self.unset(at, before) {
            needed &= !whole(unset);
            effects.writes |= whole(unset);
            // The zero flag tells whether the source is zero.
            lost &= !(whole(unset) | ZERO_FLAG);
        }
        let taken = PRESERVED.iter().filter(|r| needed & (1 << **r) != 0 && is_callers(before, **r));
        let taken = taken.fold(0, |set, r| set | 1 << r);
        if taken != 0 {
            block.ops.push(Op::Take(taken));
        }
        let (op, gained) = match registers {
            Some((to, from)) if ins.mnemonic() == Mnemonic::Mov => (Op::Copy { at, from, to }, 0),
            Some((to, from)) if bitwise && to != from => (Op::Mix { at, needed, from, to }, 0),
            _ => (Op::Need(at, needed), effects.writes & !lost),
        };
        let gain = Op::Gain(gained | count(effects.writes, stand));
        block.ops.extend([op, gain].into_iter().filter(|op| !matches!(op, Op::Need(_, 0) | Op::Gain(0))));
        if lost != 0 {
            block.ops.push(Op::Wrote(effects.writes & lost));
            if effects.writes & lost & whole(RAX) != 0 && !stand.facts.count {
                block.ops.push(Op::Untaken(sets::COUNT));
            }
            block.ops.push(Op::Lose(at, lost));
        }
        // Compilers make a truth value in the low byte, and nobody knows the caller's value in the
        // rest.
        for register in PRESERVED {
            let low = effects.writes & whole(register) == 1 << register;
            if low && is_callers(before, register) {
                block.ops.push(Op::Forget(sets::rest(register)));
            }
        }
    }

    /// Returns the register that `bsf` or `bsr` leaves alone if its source is zero, if it holds the
    /// caller's value. No code reads the register then.
    fn unset(&self, at: Index, facts: &Facts) -> Option<usize> {
        let ins = &self.context.old.text.insns[at].ins;
        let scans = matches!(ins.mnemonic(), Mnemonic::Bsf | Mnemonic::Bsr);
        let register = sets::number(ins.op0_register()).filter(|r| scans && PRESERVED.contains(r))?;
        (sets::number(ins.op1_register()) != Some(register) && is_callers(facts, register)).then_some(register)
    }

    /// Says whether the leaf that `cpuid` is asked for has no subleaves. Then ecx does not matter.
    fn has_no_subleaf(&self, at: Index) -> bool {
        const LEAVES: [u64; 8] = [0, 1, 2, 3, 5, 0xa, 0x15, 0x16];
        self.constant(at, RAX).is_some_and(|leaf| {
            let leaf = leaf & 0xffff_ffff;
            LEAVES.contains(&leaf) || (0x8000_0000..=0x8000_000a).contains(&leaf)
        })
    }

    /// Says whether a string instruction with `rep` surely runs once or more, so that its flags are
    /// those of a comparison.
    fn surely_runs(&self, at: Index) -> bool {
        let ins = &self.context.old.text.insns[at].ins;
        let repeats = ins.is_string_instruction() && (ins.has_rep_prefix() || ins.has_repne_prefix());
        // With 32-bit addresses ecx is the count.
        repeats && self.constant(at, RCX).is_some_and(|count| count & 0xffff_ffff != 0)
    }

    /// Returns the number that a `mov` gave a register before an instruction that control reaches
    /// only from there.
    fn constant(&self, at: Index, register: usize) -> Option<u64> {
        let insns = &self.context.old.text.insns;
        let mut here = at;
        loop {
            let before = here.wrapping_sub(1);
            let insn = insns.get(before).filter(|_| self.context.old.text.next(before) == Some(here))?;
            if self.graph.label[here] || self.context.old.flow[before] != Flow::Next {
                return None;
            }
            here = before;
            if self.graph.effects[here].changes & 1 << register != 0 {
                let ins = &insn.ins;
                let whole = ins.mnemonic() == Mnemonic::Mov && ins.op0_register().size() >= 4;
                return ins.try_immediate(1).ok().filter(|_| whole && insn.immediate.is_none());
            }
        }
    }

    /// Returns the registers whose values matter to an instruction. A push that only moves the
    /// stack pointer, and the save of a preserved register, need no value.
    fn needed(&self, at: Index, facts: &Facts, reads: Set) -> Set {
        let ins = &self.context.old.text.insns[at].ins;
        if ins.mnemonic() == Mnemonic::Cpuid && self.has_no_subleaf(at) {
            return reads & !whole(1);
        }
        let register = match ins.mnemonic() {
            Mnemonic::Push if ins.op0_kind() == OpKind::Register => sets::number(ins.op0_register()),
            Mnemonic::Mov if ins.op0_kind() == OpKind::Memory && ins.op1_kind() == OpKind::Register => {
                sets::number(ins.op1_register())
            }
            _ => None,
        };
        match register {
            Some(register) if PRESERVED.contains(&register) && is_callers(facts, register) => reads & !whole(register),
            Some(register) if ins.mnemonic() == Mnemonic::Push && !PRESERVED.contains(&register) => {
                if self.graph.is_popped(at, register) { reads } else { reads & !whole(register) }
            }
            _ => reads,
        }
    }
}

/// Returns the mark of a count, if one may be written.
fn count(writes: Set, stand: &Stand) -> Set {
    if writes & whole(RAX) != 0 && stand.facts.count { sets::COUNT } else { 0 }
}
