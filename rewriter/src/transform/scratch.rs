//! Scratch registers: a dead one, or one spilled to the TCB page. Also keeps the flags across
//! inserted arithmetic.

use super::Transform;
use crate::analysis::regs::{FLAGS, GPRS, Set, VECTOR_COUNT, bit};
use crate::refusal::Refusal;
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Register};
use sfi_contract::Anchored;
use sfi_contract::layout::{TCB_SCRATCH, TCB_SCRATCH_SLOTS};

/// A register that may be overwritten until it is released.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scratch {
    pub register: Register,
    spilled: Option<Anchored>,
}

/// Order of preference: call-clobbered registers first, and of these the ones without a REX prefix.
pub(super) const ORDER: [Register; 14] = {
    use Register::*;
    [RAX, RCX, RDX, RSI, RDI, R11, R10, R9, R8, RBX, RBP, R12, R13, R14]
};

/// Returns `%gs:place`, with 32-bit address size.
pub(super) fn fixed(place: Anchored) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, place.symbolic() as i64, 4, false, Register::GS)
}

/// Returns the word of the TCB page for the number of a spill place.
pub(super) fn spill_place(slot: u64) -> Anchored {
    TCB_SCRATCH.plus(8 * slot as i32)
}

impl Transform<'_, '_, '_> {
    /// Returns the general registers that the current instruction does not use and that hold no
    /// value for later, of the original code or in r15's place.
    pub(super) fn dead(&self) -> Set {
        self.unused() & !self.held.map_or(0, |held| bit(held.register))
    }

    /// Returns the same with a register in r15's place.
    fn unused(&self) -> Set {
        let (live, effects) = (self.facts.live, &self.facts.effects[self.at]);
        let mut busy = live.before[self.at] | live.after[self.at] | effects.uses | effects.writes;
        if busy & VECTOR_COUNT != 0 && self.facts.counts[self.at] {
            busy |= bit(Register::RAX);
        }
        GPRS & !busy & !bit(Register::RSP) & !bit(Register::R15) & !self.budget()
    }

    /// Takes a dead register outside `avoid`, if there is one.
    pub(super) fn spare(&mut self, avoid: Set) -> Option<Scratch> {
        let first = |set: Set| ORDER.into_iter().find(|r| set & !avoid & !self.busy & bit(*r) != 0);
        let register = first(self.dead()).or_else(|| first(self.unused()))?;
        self.held = self.held.filter(|held| held.register != register);
        self.busy |= bit(register);
        Some(Scratch { register, spilled: None })
    }

    /// Returns the register that holds the budget, if the text is budgeted.
    fn budget(&self) -> Set {
        if self.facts.budget { bit(sfi_contract::budget::REGISTER) } else { 0 }
    }

    /// Takes a register outside `avoid`. `slot` names the spill place to use if none is dead.
    pub(super) fn scratch(&mut self, avoid: Set, slot: u64) -> Result<Scratch, Refusal> {
        debug_assert!(slot < TCB_SCRATCH_SLOTS);
        let avoid = avoid | self.busy | self.budget();
        if let Some(spare) = self.spare(avoid) {
            return Ok(spare);
        }
        let effects = &self.facts.effects[self.at];
        let busy = effects.uses | effects.writes | avoid;
        let Some(register) = ORDER.into_iter().find(|r| busy & bit(*r) == 0) else {
            return Err(self.refuse(crate::Reason::NoSafeForm, "the instruction names every register"));
        };
        self.busy |= bit(register);
        self.stats.spills += 1;
        let place = spill_place(slot);
        self.store_fixed(place, register)?;
        Ok(Scratch { register, spilled: Some(place) })
    }

    /// Gives a scratch register its old value back.
    pub(super) fn release(&mut self, scratch: Scratch) -> Result<(), Refusal> {
        self.busy &= !bit(scratch.register);
        match scratch.spilled {
            Some(place) => self.load_fixed(scratch.register, place),
            None => Ok(()),
        }
    }

    /// Emits `mov %register,%gs:place`.
    pub(super) fn store_fixed(&mut self, place: Anchored, register: Register) -> Result<(), Refusal> {
        self.put_new(Instruction::with2(Opcode::Mov_rm64_r64, fixed(place), register))
    }

    /// Emits `mov %gs:place,%register`.
    pub(super) fn load_fixed(&mut self, register: Register, place: Anchored) -> Result<(), Refusal> {
        self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, register, self.fixed_for_load(place)))
    }

    /// Returns a fixed place as the operand of a load, which only mode full confines.
    pub(super) fn fixed_for_load(&self, place: Anchored) -> MemoryOperand {
        let size = if self.full() { 4 } else { 8 };
        MemoryOperand::new(Register::None, Register::None, 1, place.symbolic() as i64, size, false, Register::GS)
    }

    /// Says whether flags are live before the current instruction.
    pub(super) fn flags_live(&self) -> bool {
        self.facts.live.before[self.at] & FLAGS != 0
    }

    /// Saves the flags in two spill places from `slot` on. All registers keep their values.
    pub(super) fn save_flags(&mut self, slot: u64) -> Result<(), Refusal> {
        self.stats.flag_saves += 1;
        let place = spill_place(slot);
        self.store_fixed(place, Register::RAX)?;
        // lahf; seto %al
        self.put(&Instruction::with(Opcode::Lahf), &[])?;
        self.put_new(Instruction::with1(Opcode::Seto_rm8, Register::AL))?;
        self.store_fixed(place.plus(8), Register::RAX)?;
        self.load_fixed(Register::RAX, place)
    }

    /// Restores the flags that [`Transform::save_flags`] saved. All registers keep their values.
    pub(super) fn restore_flags(&mut self, slot: u64) -> Result<(), Refusal> {
        let place = spill_place(slot);
        self.store_fixed(place, Register::RAX)?;
        self.load_fixed(Register::RAX, place.plus(8))?;
        // add $0x7f,%al sets OF if al was 1; sahf leaves OF alone.
        self.put_new(Instruction::with2(Opcode::Add_AL_imm8, Register::AL, 0x7f))?;
        self.put(&Instruction::with(Opcode::Sahf), &[])?;
        self.load_fixed(Register::RAX, place)
    }
}
