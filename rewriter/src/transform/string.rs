//! String instructions: `mov %edi,%edi ; add %gs:HEADER_BASE,%rdi ; rep stos` (rule SFI-S04).
//!
//! The region turns a pointer into a shared region into one into the domain's own window. If the
//! code needs the pointer afterwards, it gets its upper half back:
//!
//! ```text
//! mov %rdi,%gs:place ; mov %edi,%edi ; sub %rdi,%gs:place     before: the upper half
//! mov %edi,%edi ; add %gs:place,%rdi                          after
//! ```
//!
//! That changes the flags. If they are live, or if the check of mode match needs the whole pointer,
//! the code is `mov %rdi,%gs:place` before, and `mov %edi,%gs:place ; mov %gs:place,%rdi` after.
//! This load is slower: neither store holds all its bytes, so it waits until both are in the cache.

use super::Transform;
use super::scratch::{fixed, spill_place};
use crate::analysis::regs::{FLAGS, bit};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, ShortBranch};
use iced_x86::{Code as Opcode, Instruction, OpKind, Register};
use sfi_contract::layout::HEADER_BASE;

const FLAGS_SLOT: u64 = 9;
/// Spill places of rsi and rdi. They keep the upper halves.
const RSI_SLOT: u64 = 14;
const RDI_SLOT: u64 = 15;

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
        if store {
            self.stats.stores += 1;
        }
        if !mask_rdi && !mask_rsi {
            return self.put(&ins, &[]);
        }
        self.stats.strings += 1;
        let rsi = (mask_rsi, Register::ESI, Register::RSI, RSI_SLOT);
        let rdi = (mask_rdi, Register::EDI, Register::RDI, RDI_SLOT);
        let masked = || [rsi, rdi].into_iter().filter(|(masked, ..)| *masked);
        let after = self.facts.live.after[self.at];
        let kept = || masked().filter(|(_, _, whole, _)| after & bit(*whole) != 0);
        for (_, _, whole, slot) in kept() {
            self.store_fixed(spill_place(slot), whole)?;
        }
        let flags = self.flags_live();
        let sums = !flags && after & FLAGS == 0 && !self.matching();
        for (_, low, whole, slot) in kept().filter(|_| sums) {
            self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, low, low))?;
            self.put_new(Instruction::with2(Opcode::Sub_rm64_r64, fixed(spill_place(slot)), whole))?;
        }
        let writes_flags = effects.writes & FLAGS != 0;
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
        for (_, low, whole, slot) in kept() {
            let place = spill_place(slot);
            if sums {
                self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, low, low))?;
                self.put_new(Instruction::with2(Opcode::Add_r64_rm64, whole, fixed(place)))?;
                continue;
            }
            self.put_new(Instruction::with2(Opcode::Mov_rm32_r32, fixed(place), low))?;
            self.load_fixed(whole, place)?;
        }
        Ok(())
    }

    /// Emits `mov %e,%e ; add %gs:HEADER_BASE,%r`.
    fn mask(&mut self, low: Register, whole: Register) -> Result<(), Refusal> {
        self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, low, low))?;
        self.put_new(Instruction::with2(Opcode::Add_r64_rm64, whole, fixed(HEADER_BASE)))
    }
}
