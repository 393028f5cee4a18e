//! String instructions that are repeated: the region in which they stand, and the branches that
//! skip them if they run zero times.

use crate::code::Insn;
use crate::difference::{Difference, wrong};
use crate::machine::Machine;
use crate::sets;
use crate::walk::Walk;
use iced_x86::{Code as Opcode, Mnemonic, OpKind, Register};
use sfi_contract::layout::HEADER_BASE;

impl Walk<'_, '_, '_> {
    /// Steps over `mov %edi,%edi ; add %gs:HEADER_BASE,%rdi`, which leaves a pointer into the
    /// window as it was. Returns the offset after it.
    pub(crate) fn string_region(&mut self, new: &mut Machine, insn: &Insn) -> Result<u64, Difference> {
        let ins = &insn.ins;
        let same = ins.mnemonic() == Mnemonic::Mov
            && ins.op0_kind() == OpKind::Register
            && ins.op1_kind() == OpKind::Register
            && matches!(ins.op0_register(), Register::EDI | Register::ESI)
            && ins.op0_register() == ins.op1_register();
        if !same {
            return Ok(insn.end());
        }
        let next = *self.new_insn((insn.section as usize, insn.end()))?;
        let base = next.ins.code() == Opcode::Add_r64_rm64
            && next.ins.op0_register() == ins.op0_register().full_register()
            && next.ins.segment_prefix() == Register::GS
            && next.ins.memory_base() == Register::None
            && next.ins.memory_index() == Register::None
            && next.ins.memory_displacement64() == HEADER_BASE.symbolic();
        if !base {
            return Ok(insn.end());
        }
        new.flags = std::array::from_fn(|_| self.values.junk());
        // The upper half of the pointer may wait in a word of the TCB page or in a register.
        if let Some(at) = sets::number(ins.op0_register()) {
            let low = new.registers[at];
            let words = new.cells.iter().map(|(_, word)| *word).chain(new.registers);
            for upper in words.collect::<Vec<_>>() {
                let whole = self.values.sum(upper, low, 1, 0);
                if whole != low && self.values.bits(whole, 0, 32) == low {
                    new.registers[at] = whole;
                    break;
                }
            }
        }
        Ok(next.end())
    }

    /// Says whether a branch skips a string instruction that runs zero times: the instruction
    /// alone, which then keeps its pointers and the flags, or a whole stretch in which it is the
    /// only one. At the end of such a stretch the data stack pointer may move to its place at a
    /// label, on both ways.
    pub(crate) fn skips_string(&self, branch: &Insn, begin: (usize, u64), end: (usize, u64)) -> bool {
        let (section, over) = (branch.section as usize, branch.ins.near_branch_target());
        let mut at = branch.end();
        let mut strings = Vec::new();
        while at < over {
            let Some(insn) = self.context.new.insn_at(section, at) else {
                return false;
            };
            at = insn.end();
            if insn.ins.is_string_instruction() {
                strings.push(insn);
            }
        }
        let whole =
            begin == (section, branch.offset()) && end.0 == section && self.only_moves_stack(section, over, end.1);
        let repeats = |insn: &&Insn| insn.ins.has_rep_prefix() || insn.ins.has_repne_prefix();
        branch.ins.mnemonic() == Mnemonic::Jrcxz
            && at == over
            && matches!(strings[..], [string] if repeats(&string) && (whole || string.end() == over))
    }

    /// Says whether the new code between two offsets only moves the data stack pointer, by
    /// constants.
    fn only_moves_stack(&self, section: usize, from: u64, to: u64) -> bool {
        let mut at = from;
        while at < to {
            let Some(insn) = self.context.new.insn_at(section, at) else {
                return false;
            };
            let ins = &insn.ins;
            let moves = ins.code() == Opcode::Lea_r64_m
                && (ins.op0_register(), ins.memory_base()) == (Register::R15, Register::R15)
                && ins.memory_index() == Register::None;
            if !moves && !insn.is_nop() {
                return false;
            }
            at = insn.end();
        }
        at == to
    }

    /// Checks that skipped code changes nothing but flags, which are unknown then.
    pub(crate) fn unchanged(&mut self, new: &mut Machine, before: &Machine) -> Result<(), Difference> {
        if (new.registers, &new.stores, new.slot) != (before.registers, &before.stores, before.slot) {
            return wrong("a branch skips code that has an effect");
        }
        if new.flags != before.flags {
            new.flags = std::array::from_fn(|_| self.values.junk());
        }
        Ok(())
    }
}
