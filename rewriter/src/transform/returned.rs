//! Reads of a function's own return address (`__builtin_return_address(0)`), which lies on the
//! control stack. The word of the data stack where the original program has it is free. New code
//! puts the return address there before a read, and the read stays as it is, even one of a part of
//! the word.
//!
//! A function that the host or another domain called has no return address in its domain. It reads
//! 0.

use super::Transform;
use super::scratch::spill_place;
use crate::analysis::depth::{Height, State};
use crate::analysis::regs::bit;
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, LoaderSymbol, Target};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Register};

/// Registers that the stubs change.
const CHANGED: [Register; 4] = [Register::RAX, Register::RDI, Register::R10, Register::R11];
/// Spill places of these registers.
const CHANGED_SLOTS: [u64; 4] = [0, 1, 2, 3];
/// Spill place of the flags.
const FLAGS_SLOT: u64 = 9;
/// `jb`
const BELOW: Branch = Branch::Condition(2);

impl Transform<'_, '_, '_> {
    /// Puts the return address into its word:
    ///
    /// ```text
    /// call __sfi_depth ; mov %rax,%rdi ; xor %eax,%eax ; sub $2,%rdi ; jb 1f ; call __sfi_return
    /// 1: mov %rax,%gs:place
    /// ```
    ///
    /// The last address that `__sfi_depth` counts is that of its own call. The function's is the
    /// one before.
    pub(super) fn lay_return_address(&mut self) -> Result<(), Refusal> {
        if !self.facts.graph.far.receivers(self.facts.graph.unit[self.at]).is_empty() {
            return Err(self.refuse(Reason::ReturnAddress, "read in a function that also receives far jumps"));
        }
        let place = self.return_place(self.facts.states[self.at])?;
        let dead = self.dead();
        let kept = |register: &Register| dead & bit(*register) == 0;
        let saved: Vec<(Register, u64)> =
            CHANGED.into_iter().zip(CHANGED_SLOTS).filter(|(register, _)| kept(register)).collect();
        let flags = self.flags_live();
        if flags {
            self.save_flags(FLAGS_SLOT)?;
        }
        for (register, slot) in &saved {
            self.store_fixed(spill_place(*slot), *register)?;
        }
        let entry = self.out.new_label();
        self.out.branch(Branch::Call, Target::Loader(LoaderSymbol::Depth));
        self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, Register::RDI, Register::RAX))?;
        self.put_new(Instruction::with2(Opcode::Xor_r32_rm32, Register::EAX, Register::EAX))?;
        self.put_new(Instruction::with2(Opcode::Sub_rm64_imm8, Register::RDI, 2))?;
        self.out.branch(BELOW, entry);
        self.out.branch(Branch::Call, Target::Loader(LoaderSymbol::Return));
        self.out.label(entry);
        self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, place, Register::RAX))?;
        for (register, slot) in saved {
            self.load_fixed(register, spill_place(slot))?;
        }
        if flags {
            self.restore_flags(FLAGS_SLOT)?;
        }
        Ok(())
    }

    /// Returns the place of the return address in the original program, for a store.
    pub(super) fn return_place(&self, state: State) -> Result<MemoryOperand, Refusal> {
        match (state.rsp, state.rbp) {
            (Height::Known(height), _) => Ok(self.slot_for_store(height)),
            (_, Height::Known(height)) => {
                Ok(MemoryOperand::new(Register::EBP, Register::None, 1, height, 1, false, Register::GS))
            }
            _ => Err(self.refuse(Reason::ReturnAddress, "the return address, and the frame's place is not known")),
        }
    }
}
