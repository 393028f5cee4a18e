//! Instructions of features that a domain does not have. The new code behaves as the processor may
//! without them.
//!
//! - Transactions: `xbegin` may abort at once and for no reason (SDM volume 1, 16.3.5), so here it
//!   always does. Then no code runs inside a transaction: `xtest` says so, `xabort` does nothing
//!   and `xend` faults (`Flow::Stop`).
//! - Shadow stacks: `rdssp` does nothing where they are off, and `incssp` is undefined.
//! - Flushes of caches and prefetches change nothing but times, so they are dropped.
//! - `xgetbv`: the header page holds its answer.
//! - `femms` is AMD's variant of `emms`, which may leave the registers' contents undefined, so
//!   `emms` replaces it.
//! - `std` and `cld` are dropped if every string instruction between them is a `rep movs`. These
//!   become loops that copy from the end.

use super::Transform;
use super::string::{Unit, unit};
use crate::analysis::r15::like;
use crate::analysis::regs::bit;
use crate::object::decode::{Dest, Flow};
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Branch, ShortBranch};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, Register, RflagsBits};
use sfi_contract::layout::HEADER_FEATURES;
use sfi_contract::policy;

impl Transform<'_, '_, '_> {
    /// Rewrites `xbegin` as `mov $0,%eax ; jmp fallback`: the transaction aborted, without a reason
    /// and without the hint to try again. Flags survive.
    pub(super) fn abort_transaction(&mut self, dest: Dest) -> Result<(), Refusal> {
        self.put_new(Instruction::with2(Opcode::Mov_r32_imm32, Register::EAX, 0u32))?;
        self.jump(dest)
    }

    /// Rewrites an instruction of an absent feature. Says whether it was one.
    pub(super) fn absent_feature(&mut self, ins: Instruction) -> Result<bool, Refusal> {
        match ins.mnemonic() {
            Mnemonic::Xtest => {
                // cmp %eax,%eax sets the flags as xtest does outside a transaction, except for PF.
                if self.facts.live.after[self.at] & crate::analysis::regs::flag(RflagsBits::PF) != 0 {
                    return Err(self.refuse(Reason::NoSafeForm, "the parity of xtest is needed"));
                }
                self.put_new(Instruction::with2(Opcode::Cmp_rm32_r32, Register::EAX, Register::EAX))?;
            }
            Mnemonic::Xabort | Mnemonic::Rdsspd | Mnemonic::Rdsspq => {}
            // Caches are coherent, so a flush changes no value.
            Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb => {}
            // A processor may ignore a hint.
            _ if policy::refusal::is_silent(ins.code()) => {}
            Mnemonic::Xgetbv => {
                let low = self.fixed_for_load(HEADER_FEATURES);
                let high = self.fixed_for_load(HEADER_FEATURES.plus(4));
                self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, Register::EAX, low))?;
                self.put_new(Instruction::with2(Opcode::Mov_r32_rm32, Register::EDX, high))?;
            }
            Mnemonic::Femms => self.put(&Instruction::with(Opcode::Emms), &[])?,
            Mnemonic::Std => self.backwards()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Handles `std`. Straight code must lead from it to a `cld`, and the string instructions
    /// between them must be copies. They will run from the end.
    fn backwards(&mut self) -> Result<(), Refusal> {
        let (code, graph) = (self.facts.code, self.facts.graph);
        let mut at = self.at;
        loop {
            let next = graph.next(at).filter(|&n| !graph.label[n] && code.insns[n].flow == Flow::Next);
            let known = next.filter(|&n| {
                let ins = code.ins(n);
                !ins.is_string_instruction() || backward_copy(ins).is_some()
            });
            at = known.ok_or_else(|| {
                self.refuse(Reason::NoSafeForm, "the direction flag is set for something other than copies")
            })?;
            if code.ins(at).mnemonic() == Mnemonic::Cld {
                self.absorbed.insert(at);
                return Ok(());
            }
            if code.ins(at).is_string_instruction() {
                self.backward.insert(at);
            }
        }
    }

    /// Rewrites a `rep movs` between `std` and `cld`:
    ///
    /// ```text
    ///    jrcxz 2f
    /// 1: mov (%rsi),%s ; mov %s,%gs:(%edi) ; lea -n(%rsi),%rsi ; lea -n(%rdi),%rdi
    ///    lea -1(%rcx),%rcx ; jrcxz 2f ; jmp 1b
    /// 2:
    /// ```
    pub(super) fn copy_backwards(&mut self, movs: &Instruction) -> Result<(), Refusal> {
        let Some(Unit { size, register, load, store, .. }) = backward_copy(movs) else {
            return Err(self.refuse(Reason::NoSafeForm, "the direction flag is set for something other than copies"));
        };
        let scratch = self.scratch(bit(Register::RSI) | bit(Register::RDI) | bit(Register::RCX), 0)?;
        let value = like(register, scratch.register);
        if self.facts.budget {
            return Err(self.refuse(Reason::NoSafeForm, "a copy from the end has no charge of a budget"));
        }
        let (top, end) = (self.out.new_label(), self.out.new_label());
        let step = |pointer, by: i64| {
            Instruction::with2(Opcode::Lea_r64_m, pointer, MemoryOperand::with_base_displ(pointer, -by))
        };
        let error = |e: iced_x86::IcedError| self.facts.code.refuse(self.at, Reason::NoSafeForm, e.to_string());
        let load = Instruction::with2(load, value, MemoryOperand::with_base(Register::RSI)).map_err(error)?;
        let store = Instruction::with2(store, MemoryOperand::with_base(Register::RDI), value).map_err(error)?;
        self.out.branch(Branch::Short(ShortBranch::Jrcxz), end);
        self.out.label(top);
        self.put_plain(load, true, false)?;
        self.put_plain(store, false, true)?;
        self.put_new(step(Register::RSI, size))?;
        self.put_new(step(Register::RDI, size))?;
        self.put_new(step(Register::RCX, 1))?;
        self.out.branch(Branch::Short(ShortBranch::Jrcxz), end);
        self.out.branch(Branch::Jump, top);
        self.out.label(end);
        self.release(scratch)
    }
}

/// Returns what a `rep movs` without prefixes copies at once.
fn backward_copy(movs: &Instruction) -> Option<Unit> {
    let plain = movs.has_rep_prefix()
        && movs.op1_kind() == iced_x86::OpKind::MemorySegRSI
        && movs.segment_prefix() == Register::None;
    let copies = matches!(movs.mnemonic(), Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq);
    (plain && copies).then(|| unit(movs))
}
