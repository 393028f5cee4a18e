//! String instructions.
//!
//! One that runs once is a move and steps of its pointers. The direction flag is clear, because
//! code between `std` and `cld` has its own form (`absent`):
//!
//! ```text
//! movsb    movzbl (%rsi),%s ; mov %s,%gs:(%edi) ; lea 1(%rsi),%rsi ; lea 1(%rdi),%rdi
//! stosb    mov %al,%gs:(%edi) ; lea 1(%rdi),%rdi
//! lodsb    mov %gs:(%esi),%al ; lea 1(%rsi),%rsi
//! ```
//!
//! Others, with `rep`, have `mov %edi,%edi ; add %gs:HEADER_BASE,%rdi ; rep stos` (rule SFI-S04).
//! This region turns a pointer into a shared region into one into the domain's own window. If the
//! code needs the pointer afterwards, it gets its upper half back, from a dead register or a word:
//!
//! ```text
//! mov %rdi,%s ; mov %edi,%edi ; sub %rdi,%s                   before: the upper half
//! mov %edi,%edi ; add %s,%rdi                                 after
//! ```
//!
//! A copy or fill that runs zero times skips all of it (`jrcxz`), and with it the slow start of the
//! instruction itself: musl's `memcpy` has one for up to seven bytes.
//!
//! The sums change the flags. If they are live, or if the check of mode match needs the whole
//! pointer, the code is `mov %rdi,%gs:place` before, and `mov %edi,%gs:place ; mov %gs:place,%rdi`
//! after. This load is slower: neither store holds all its bytes, so it waits until both are in the
//! cache.

use super::Transform;
use super::scratch::{fixed, spill_place};
use crate::analysis::r15::like;
use crate::analysis::regs::{FLAGS, bit};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, ShortBranch};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, OpKind, Register};
use sfi_contract::layout::HEADER_BASE;

const FLAGS_SLOT: u64 = 9;
/// Spill places of rsi and rdi. They keep the upper halves.
const RSI_SLOT: u64 = 14;
const RDI_SLOT: u64 = 15;
/// The spill place of the register through which a word moves.
const WORD_SLOT: u64 = 0;

/// The bytes that a string instruction moves at once.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Bytes.
    pub size: i64,
    /// The part of rax that holds it.
    pub register: Register,
    pub load: Opcode,
    /// Loads it with zeros above, so that the register's old value does not matter.
    fresh: Opcode,
    pub store: Opcode,
}

/// Returns the unit of a string instruction.
pub(super) fn unit(ins: &Instruction) -> Unit {
    use Opcode::*;
    let (size, register, load, fresh, store) = match ins.memory_size().size() {
        1 => (1, Register::AL, Mov_r8_rm8, Movzx_r32_rm8, Mov_rm8_r8),
        2 => (2, Register::AX, Mov_r16_rm16, Movzx_r32_rm16, Mov_rm16_r16),
        4 => (4, Register::EAX, Mov_r32_rm32, Mov_r32_rm32, Mov_rm32_r32),
        _ => (8, Register::RAX, Mov_r64_rm64, Mov_r64_rm64, Mov_rm64_r64),
    };
    Unit { size, register, load, fresh, store }
}

/// Says whether a string instruction moves its word and does nothing else.
fn moves(ins: &Instruction) -> bool {
    use iced_x86::Mnemonic::*;
    matches!(
        ins.mnemonic(),
        Movsb | Movsw | Movsd | Movsq | Stosb | Stosw | Stosd | Stosq | Lodsb | Lodsw | Lodsd | Lodsq
    )
}

impl Transform<'_, '_, '_> {
    pub(super) fn string(&mut self, ins: Instruction) -> Result<(), Refusal> {
        if sfi_contract::policy::lookup(ins.code()).is_none() {
            return Err(self.refuse(Reason::NoSafeForm, "the instruction is not on the positive list"));
        }
        let kinds: Vec<OpKind> = (0..ins.op_count()).map(|op| ins.op_kind(op)).collect();
        let known = |k: &OpKind| matches!(k, OpKind::MemoryESRDI | OpKind::MemorySegRSI | OpKind::Register);
        if !kinds.iter().all(known) || ins.segment_prefix() != Register::None {
            return Err(self.refuse(Reason::NoSafeForm, "string instruction with a segment or 32-bit addresses"));
        }
        let effects = &self.facts.effects[self.at];
        let store = effects.memory_write;
        let mask_rdi = kinds.contains(&OpKind::MemoryESRDI) && (store || self.full());
        let mask_rsi = kinds.contains(&OpKind::MemorySegRSI) && self.full();
        let repeats = ins.has_rep_prefix() || ins.has_repne_prefix();
        // The charge of its count changes the flags, which it keeps if it runs zero times.
        let charged = self.facts.budget && repeats && self.flags_live();
        if !mask_rdi && !mask_rsi && !charged {
            return self.put(&ins, &[]);
        }
        if !repeats && moves(&ins) {
            return self.move_once(&kinds, unit(&ins));
        }
        if store {
            self.stats.stores += 1;
        }
        self.stats.strings += 1;
        let rsi = (mask_rsi, Register::ESI, Register::RSI, RSI_SLOT);
        let rdi = (mask_rdi, Register::EDI, Register::RDI, RDI_SLOT);
        let masked = || [rsi, rdi].into_iter().filter(|(masked, ..)| *masked);
        let after = self.facts.live.after[self.at];
        let none = (store && !self.matching() && !self.facts.budget).then(|| self.out.new_label());
        if let Some(none) = none {
            self.out.branch(Branch::Short(ShortBranch::Jrcxz), none);
        }
        let writes_flags = effects.writes & FLAGS != 0;
        let flags = self.flags_live() || (repeats && writes_flags && after & FLAGS != 0);
        let sums = !flags && after & FLAGS == 0 && !self.matching();
        let mut kept = Vec::new();
        for (_, low, whole, slot) in masked().filter(|(_, _, whole, _)| after & bit(*whole) != 0) {
            let spare = if sums { self.spare(0) } else { None };
            match spare {
                Some(spare) => self.put_new(Instruction::with2(Opcode::Mov_r64_rm64, spare.register, whole))?,
                None => self.store_fixed(spill_place(slot), whole)?,
            }
            kept.push((low, whole, slot, spare));
        }
        for (low, whole, slot, spare) in kept.iter().copied().filter(|_| sums) {
            self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, low, low))?;
            self.put_new(match spare {
                Some(spare) => Instruction::with2(Opcode::Sub_r64_rm64, spare.register, whole),
                None => Instruction::with2(Opcode::Sub_rm64_r64, fixed(spill_place(slot)), whole),
            })?;
        }
        // A compare or scan that runs zero times keeps the flags, and a jump skips it. One that
        // runs overwrites them.
        let skip = (flags && writes_flags).then(|| self.out.new_label());
        if let Some(skip) = skip {
            self.out.branch(Branch::Short(ShortBranch::Jrcxz), skip);
        } else if flags {
            self.save_flags(FLAGS_SLOT)?;
        }
        if store {
            self.check_string(&ins)?;
        }
        for (_, low, whole, _) in masked() {
            self.mask(low, whole)?;
        }
        self.put(&ins, &[])?;
        match skip {
            Some(skip) => self.out.label(skip),
            None if flags => self.restore_flags(FLAGS_SLOT)?,
            None => {}
        }
        for (low, whole, slot, spare) in kept {
            let place = spill_place(slot);
            if !sums {
                self.put_new(Instruction::with2(Opcode::Mov_rm32_r32, fixed(place), low))?;
                self.load_fixed(whole, place)?;
                continue;
            }
            self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, low, low))?;
            self.put_new(match spare {
                Some(spare) => Instruction::with2(Opcode::Add_r64_rm64, whole, spare.register),
                None => Instruction::with2(Opcode::Add_r64_rm64, whole, fixed(place)),
            })?;
            spare.map_or(Ok(()), |spare| self.release(spare))?;
        }
        none.into_iter().for_each(|none| self.out.label(none));
        Ok(())
    }

    /// Emits a string instruction that runs once. `kinds` are those of its operands.
    fn move_once(&mut self, kinds: &[OpKind], unit: Unit) -> Result<(), Refusal> {
        let pointer = |kind| match kind {
            OpKind::MemoryESRDI => Some(Register::RDI),
            OpKind::MemorySegRSI => Some(Register::RSI),
            _ => None,
        };
        let (to, from) = (pointer(kinds[0]), pointer(kinds[1]));
        let scratch = match (to, from) {
            (Some(_), Some(_)) => Some(self.scratch(0, WORD_SLOT)?),
            _ => None,
        };
        let word = scratch.map_or(unit.register, |scratch| like(unit.register, scratch.register));
        let load = from.map(|from| match scratch {
            Some(scratch) if unit.size < 4 => {
                let whole = like(Register::EAX, scratch.register);
                Instruction::with2(unit.fresh, whole, MemoryOperand::with_base(from))
            }
            _ => Instruction::with2(unit.load, word, MemoryOperand::with_base(from)),
        });
        let store = to.map(|to| Instruction::with2(unit.store, MemoryOperand::with_base(to), word));
        for (ins, loads) in [(load, true), (store, false)] {
            let Some(ins) = ins.transpose().map_err(|e| self.refuse(Reason::NoSafeForm, e.to_string()))? else {
                continue;
            };
            self.put_plain(ins, loads, !loads)?;
        }
        for pointer in [from, to].into_iter().flatten() {
            let next = MemoryOperand::with_base_displ(pointer, unit.size);
            self.put_new(Instruction::with2(Opcode::Lea_r64_m, pointer, next))?;
        }
        scratch.map_or(Ok(()), |scratch| self.release(scratch))
    }

    /// Emits `mov %e,%e ; add %gs:HEADER_BASE,%r`.
    fn mask(&mut self, low: Register, whole: Register) -> Result<(), Refusal> {
        self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, low, low))?;
        self.put_new(Instruction::with2(Opcode::Add_r64_rm64, whole, fixed(HEADER_BASE)))
    }
}
