//! Jumps into the frames of callers ([`crate::analysis::receive`]). The data stack follows with its
//! pointer, and the control stack is cut.
//!
//! The word of the frame where the original program has its return address is free. A function with
//! a receiver fills it at its entry: with the control stack's depth, and with the low half of the
//! word's own address. A stack pointer that belongs to another frame leads to a word without that
//! address, and the receiver stops the program.

use super::Transform;
use super::scratch::spill_place;
use crate::analysis::r15::like;
use crate::analysis::regs::{FLAGS, bit};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, LoaderSymbol, RECEIVER_TAG, Target, old};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Register};
use sfi_contract::Mode;

/// Registers that `__sfi_depth` changes, and their spill places.
const CHANGED: [(Register, u64); 3] = [(Register::RAX, 0), (Register::R10, 2), (Register::R11, 3)];
/// Registers that `__sfi_cut` changes, and their spill places.
const CUT_CHANGES: [(Register, u64); 4] =
    [(Register::RDI, 0), (Register::RSI, 1), (Register::R10, 2), (Register::R11, 3)];
/// `je` and `jne`
const EQUAL: Branch = Branch::Condition(4);
const UNEQUAL: Branch = Branch::Condition(5);

impl Transform<'_, '_, '_> {
    /// Notes the depth of the control stack, at a function's entry and before its first
    /// instruction:
    ///
    /// ```text
    /// call __sfi_depth ; lea -1(%rax),%eax ; mov %eax,%gs:WORD
    /// lea WORD,%eax ; mov %eax,%gs:WORD+4
    /// ```
    ///
    /// `__sfi_depth` counts the return address of its own call too, hence the -1.
    pub(super) fn lay_depth(&mut self) -> Result<(), Refusal> {
        let live = self.facts.live.before[self.at];
        let saved: Vec<(Register, u64)> = CHANGED
            .into_iter()
            .filter(|(register, _)| live & bit(*register) != 0 || *register == Register::RAX)
            .collect();
        if self.flags_live() {
            return Err(self.refuse(Reason::StackPointerUse, "flags are passed to a function that receives far jumps"));
        }
        for (register, slot) in &saved {
            self.store_fixed(spill_place(*slot), *register)?;
        }
        self.out.branch(Branch::Call, Target::Loader(LoaderSymbol::Depth));
        let less = MemoryOperand::with_base_displ(Register::RAX, -1);
        self.put_new(Instruction::with2(Opcode::Lea_r32_m, Register::EAX, less))?;
        let [depth, address] = [0, 4].map(|more| self.slot_for_store(more));
        self.put_new(Instruction::with2(Opcode::Mov_rm32_r32, depth, Register::EAX))?;
        let word = MemoryOperand::with_base_displ(super::SP, -self.delta());
        self.put_new(Instruction::with2(Opcode::Lea_r32_m, Register::EAX, word))?;
        self.put_new(Instruction::with2(Opcode::Mov_rm32_r32, address, Register::EAX))?;
        for (register, slot) in saved {
            self.load_fixed(register, spill_place(slot))?;
        }
        Ok(())
    }

    /// Removes the mark of a far jump's target. Stops the program if the target is no receiver's
    /// slot.
    ///
    /// ```text
    /// test $1,%r32 ; jne 1f ; ud2 ; 1: xor $1,%r64
    /// ```
    pub(super) fn untag(&mut self, register: Register) -> Result<(), Refusal> {
        let over = self.out.new_label();
        let low = like(Register::EAX, register);
        self.put_new(Instruction::with2(Opcode::Test_rm32_imm32, low, RECEIVER_TAG as i32))?;
        self.out.branch(UNEQUAL, over);
        self.put(&Instruction::with(Opcode::Ud2), &[])?;
        self.out.label(over);
        self.put_new(Instruction::with2(Opcode::Xor_rm64_imm8, register, RECEIVER_TAG as i32))
    }

    /// Emits a receiver's pad, where the stack pointer is the function's own again.
    ///
    /// ```text
    /// mov WORD+4,%esi ; lea WORD,%edi ; cmp %edi,%esi ; je 1f ; ud2
    /// 1: mov WORD,%edi ; lea 2f(%rip),%rsi ; jmp __sfi_cut
    /// 2: jmp LABEL
    /// ```
    ///
    /// The stub changes registers. Those that the label's code needs are stored before and loaded
    /// at 2, because the function's caller may keep values in them.
    pub(super) fn receive(&mut self) -> Result<(), Refusal> {
        let (at, facts) = (self.at, self.facts);
        if super::canonical(facts.graph, facts.states, at) != 0 {
            return Err(self.refuse(Reason::StackPointerUse, "a far jump arrives where nothing is on the stack"));
        }
        let live = facts.live.before[at];
        if live & FLAGS != 0 {
            return Err(self.refuse(Reason::StackPointerUse, "flags are needed where a far jump arrives"));
        }
        self.delta = Some(0);
        let word = self.return_place(facts.states[at])?;
        let (base, distance) = (like(Register::RAX, word.base), word.displacement);
        let part = |more: i64| match facts.mode {
            Mode::Full => MemoryOperand { displacement: distance + more, ..word },
            _ => MemoryOperand::with_base_displ(base, distance + more),
        };
        let (over, behind) = (self.out.new_label(), self.out.new_label());
        let saved = || CUT_CHANGES.into_iter().filter(|(register, _)| live & bit(*register) != 0);
        for (register, slot) in saved() {
            self.store_fixed(spill_place(slot), register)?;
        }
        self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, Register::ESI, part(4)))?;
        let place = MemoryOperand::with_base_displ(base, distance);
        self.put_new(Instruction::with2(Opcode::Lea_r32_m, Register::EDI, place))?;
        self.put_new(Instruction::with2(Opcode::Cmp_r32_rm32, Register::ESI, Register::EDI))?;
        self.out.branch(EQUAL, over);
        self.put(&Instruction::with(Opcode::Ud2), &[])?;
        self.out.label(over);
        self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, Register::EDI, part(0)))?;
        self.address_into(Register::RSI, behind, 0)?;
        self.out.branch(Branch::Jump, Target::Loader(LoaderSymbol::Cut));
        self.out.label(behind);
        for (register, slot) in saved() {
            self.load_fixed(register, spill_place(slot))?;
        }
        self.out.branch(Branch::Jump, old(at));
        self.delta = None;
        Ok(())
    }
}
