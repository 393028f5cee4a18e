//! Mode match: a check before each store and each indirect branch (Wahbe et al. section 3.1, rule
//! SFI-M01).
//!
//! A check keeps every register, and keeps the flags where they hold a needed value. It has spill
//! places of its own.

use super::Transform;
use super::operand::{address_into, size_displacement};
use crate::analysis::regs::FLAGS;
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, Patch, ShortBranch};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Register};
use sfi_contract::Mode;
use sfi_contract::matching::{BRANCH, HEAD, Pattern, STORE, STORE_KEEPING_FLAGS};
use sfi_contract::policy::{self, Memory};

/// Spill places of the two registers that a store to thread locals needs.
const THREAD_SLOT: u64 = 2;

impl Transform<'_, '_, '_> {
    pub(super) fn matching(&self) -> bool {
        self.facts.mode == Mode::Match
    }

    /// Emits the check of an instruction that follows, if it stores to an address in registers.
    pub(super) fn check_store(&mut self, ins: &Instruction, patches: &[Patch]) -> Result<(), Refusal> {
        if !self.matching() {
            return Ok(());
        }
        let written = policy::lookup(ins.code()).map(|form| form.memory);
        if !matches!(written, Some(Memory::Store | Memory::Lockable)) || !names_register(ins) {
            return Ok(());
        }
        let live = (self.facts.live.before[self.at] | self.facts.live.after[self.at]) & FLAGS != 0;
        let displacement: Vec<Patch> = patches.iter().filter(|p| !p.immediate).copied().collect();
        let mut lea = address_into(ins, Register::RCX);
        size_displacement(&mut lea, !displacement.is_empty());
        self.check(&lea, &displacement, if live { &STORE_KEEPING_FLAGS } else { &STORE })
    }

    /// Emits the checks of a string instruction that stores: of its first byte and of its last.
    /// With `rep` and a count of 0 it stores nothing, and the checks are skipped. They may change
    /// the flags.
    pub(super) fn check_string(&mut self, ins: &Instruction) -> Result<(), Refusal> {
        if !self.matching() {
            return Ok(());
        }
        let (size, rep) = (ins.memory_size().size() as i64, ins.has_rep_prefix());
        let last = match rep {
            true => MemoryOperand::with_base_index_scale_displ_size(Register::RDI, Register::RCX, size as u32, -1, 1),
            false if size == 1 => MemoryOperand::with_base(Register::RDI),
            false => MemoryOperand::with_base_displ(Register::RDI, size - 1),
        };
        for end in [MemoryOperand::with_base(Register::RDI), last] {
            let behind = rep.then(|| self.out.new_label());
            if let Some(behind) = behind {
                self.out.branch(Branch::Short(ShortBranch::Jrcxz), behind);
            }
            self.check_address(end, &STORE)?;
            behind.into_iter().for_each(|behind| self.out.label(behind));
        }
        Ok(())
    }

    /// Emits the check of an indirect branch by a register. It may change the flags.
    pub(super) fn check_branch(&mut self, register: Register) -> Result<(), Refusal> {
        if self.matching() { self.check_address(MemoryOperand::with_base(register), &BRANCH) } else { Ok(()) }
    }

    fn check_address(&mut self, address: MemoryOperand, tail: &Pattern) -> Result<(), Refusal> {
        let lea = Instruction::with2(Opcode::Lea_r64_m, Register::RCX, address)
            .map_err(|error| self.refuse(Reason::NoSafeForm, error.to_string()))?;
        self.check(&lea, &[], tail)
    }

    fn check(&mut self, lea: &Instruction, patches: &[Patch], tail: &Pattern) -> Result<(), Refusal> {
        self.out.pattern(&HEAD);
        self.put(lea, patches)?;
        self.out.pattern(tail);
        Ok(())
    }

    /// Rewrites a store to `%fs:d(base,index,s)`. Its registers hold no address that a check could
    /// test, so the whole address is computed. Says whether the instruction was one.
    pub(super) fn matched_thread_store(
        &mut self,
        ins: &Instruction,
        patches: &[Patch],
        load: bool,
    ) -> Result<bool, Refusal> {
        if !self.matching() || !names_register(ins) {
            return Ok(false);
        }
        let [address, base] = [self.scratch(0, THREAD_SLOT)?, self.scratch(0, THREAD_SLOT + 1)?];
        let (displacement, immediate): (Vec<Patch>, Vec<Patch>) = patches.iter().partition(|p| !p.immediate);
        self.thread_address(ins, &displacement, address.register, base.register)?;
        let mut store = *ins;
        store.set_segment_prefix(Register::None);
        store.set_memory_base(address.register);
        store.set_memory_index(Register::None);
        store.set_memory_index_scale(1);
        store.set_memory_displacement64(0);
        self.put_memory(store, immediate, load, true)?;
        self.release(base)?;
        self.release(address)?;
        Ok(true)
    }
}

/// Says whether the address of the memory operand depends on a general register.
fn names_register(ins: &Instruction) -> bool {
    [ins.memory_base(), ins.memory_index()].iter().any(|register| register.is_gpr())
}
