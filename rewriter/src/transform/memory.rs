//! Memory operands. The data stack takes the place of rsp, and GS that of FS. The sandbox itself is
//! `%gs:` with 32-bit registers.

use super::operand::{address_into, size_displacement};
use super::{SP, Transform};
use crate::analysis::r15::like;
use crate::analysis::regs::bit;
use crate::object::address::is_got;
use crate::refusal::{Reason, Refusal};
use crate::text::emit::{Patch, address_of, tag_of};
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use object::elf;
use sfi_contract::layout::{HEADER_BASE, TCB};
use sfi_contract::policy;

/// The spill place of a high byte's address (see [`Transform::scratch`]).
const HIGH_BYTE_SLOT: u64 = 7;

impl Transform<'_, '_, '_> {
    /// Emits an instruction and translates its explicit memory operand, if it has one. `load` and
    /// `store` say whether the instruction reads or writes there.
    pub(super) fn put_operand(&mut self, ins: Instruction, load: bool, store: bool) -> Result<(), Refusal> {
        let mut patches = self.immediate_patch(&ins)?;
        let has_memory = (0..ins.op_count()).any(|op| ins.op_kind(op) == OpKind::Memory);
        if !has_memory {
            return self.put(&ins, &patches);
        }
        if let Some(reloc) = self.narrow_displacement(&ins) {
            return self.put_narrow(ins, reloc, patches, (load, store));
        }
        patches.extend(self.displacement_patch(&ins)?);
        self.put_memory(ins, patches, load, store)
    }

    /// Emits an instruction with a memory operand that the original code did not have, so no
    /// relocation applies.
    pub(super) fn put_plain(&mut self, ins: Instruction, load: bool, store: bool) -> Result<(), Refusal> {
        self.put_memory(ins, Vec::new(), load, store)
    }

    pub(super) fn put_memory(
        &mut self,
        mut ins: Instruction,
        patches: Vec<Patch>,
        load: bool,
        store: bool,
    ) -> Result<(), Refusal> {
        let accesses = ins.mnemonic() != Mnemonic::Lea;
        let (load, store) = (load && accesses, store && accesses);
        if ins.segment_prefix() == Register::GS {
            return Err(self.refuse(Reason::NoSafeForm, "the GS segment is the sandbox's own"));
        }
        let thread = ins.segment_prefix() == Register::FS;
        if !accesses {
            ins.set_segment_prefix(Register::None);
        }
        if ins.memory_base() == Register::ESP {
            return Err(self.refuse(Reason::StackPointerUse, "32-bit address of the stack"));
        }
        if ins.memory_base() == Register::RSP {
            ins.set_memory_base(SP);
            let displ = (ins.memory_displacement64() as i64).wrapping_sub(self.delta());
            ins.set_memory_displacement64(displ as u64);
        }
        if store {
            self.stats.stores += 1;
        }
        if store && thread && self.matched_thread_store(&ins, &patches, load)? {
            return Ok(());
        }
        // A 32-bit address has no upper half, so only confinement leads it into the window.
        let half = ins.memory_base().is_gpr32() || ins.memory_index().is_gpr32();
        let outside = half || self.full() && ins.memory_base() != Register::RIP;
        let confined_load = load && (is_silent(&ins) || outside);
        // The loader chooses the address, and the verifier checks it in the final text (rule
        // SFI-T04).
        let chosen = ins.memory_base() == Register::RIP && patches.iter().any(|p| !p.immediate);
        if store && !chosen || confined_load || thread && accesses {
            confine(&mut ins, thread && patches.iter().all(|p| p.immediate));
        }
        size_displacement(&mut ins, patches.iter().any(|p| !p.immediate));
        if is_high_byte(&ins) && needs_rex(&ins) {
            return self.put_high_byte(ins, &patches);
        }
        self.put(&ins, &patches)
    }

    /// Emits an instruction that names `%ah`-`%dh` and an address that needs REX, which have no
    /// encoding together. The address goes through a low register.
    fn put_high_byte(&mut self, mut ins: Instruction, patches: &[Patch]) -> Result<(), Refusal> {
        use Register::*;
        let low = [RAX, RCX, RDX, RBX, RSI, RDI, RBP].into_iter().map(bit).fold(0, |a, b| a | b);
        let scratch = self.scratch(!low, HIGH_BYTE_SLOT)?;
        if bit(scratch.register) & low == 0 {
            return Err(self.refuse(Reason::NoSafeForm, "no low register for a high byte's address"));
        }
        let lea = address_into(&ins, scratch.register);
        let (displacement, immediate): (Vec<Patch>, Vec<Patch>) = patches.iter().partition(|p| !p.immediate);
        self.put(&lea, &displacement)?;
        ins.set_memory_base(like(Register::EAX, scratch.register));
        ins.set_memory_index(Register::None);
        ins.set_memory_displacement64(0);
        ins.set_memory_displ_size(0);
        ins.set_segment_prefix(Register::GS);
        self.put(&ins, &immediate)?;
        self.release(scratch)
    }

    /// Emits code for the whole address of the operand `%fs:d(base,index,s)`:
    ///
    /// ```text
    /// lea TCB+d(base,index,s),%to ; mov %gs:HEADER_BASE,%base ; lea (%to,%base),%to
    /// ```
    pub(super) fn thread_address(
        &mut self,
        ins: &Instruction,
        displacement: &[Patch],
        to: Register,
        base: Register,
    ) -> Result<(), Refusal> {
        let mut lea = address_into(ins, to);
        if displacement.is_empty() {
            lea.set_memory_displacement64(ins.memory_displacement64().wrapping_add(TCB.symbolic()));
        }
        size_displacement(&mut lea, !displacement.is_empty());
        self.put(&lea, displacement)?;
        self.load_fixed(base, HEADER_BASE)?;
        let sum = MemoryOperand::with_base_index(to, base);
        self.put_new(Instruction::with2(Opcode::Lea_r64_m, to, sum))
    }

    /// Returns the patch for the relocation of the current instruction's immediate.
    fn immediate_patch(&self, ins: &Instruction) -> Result<Vec<Patch>, Refusal> {
        let insn = &self.facts.code.insns[self.at];
        let Some(reloc) = self.facts.code.imm_reloc(insn) else { return Ok(Vec::new()) };
        // A transformed instruction (push turned mov) may have lost its immediate.
        if !(0..ins.op_count()).any(|op| is_immediate(ins.op_kind(op))) {
            return Ok(Vec::new());
        }
        let (target, absolute) = self.target(reloc.symbol, reloc.addend);
        let (kind, addend) = match reloc.kind {
            // The GOT's address is 0 (see `object::got_base`).
            k if [elf::R_X86_64_64.0, elf::R_X86_64_GOTOFF64.0].contains(&k) => (elf::R_X86_64_64.0, absolute),
            k if [elf::R_X86_64_TPOFF32.0, elf::R_X86_64_SIZE32.0, elf::R_X86_64_SIZE64.0].contains(&k) => {
                (k, reloc.addend)
            }
            k if k == elf::R_X86_64_DTPOFF32.0 => (elf::R_X86_64_TPOFF32.0, reloc.addend),
            k if k == elf::R_X86_64_DTPOFF64.0 => (elf::R_X86_64_TPOFF64.0, reloc.addend),
            // The value is a number and no address of the window: `narrow` takes those.
            k if [elf::R_X86_64_32.0, elf::R_X86_64_32S.0].contains(&k) => (k, reloc.addend),
            k => return Err(self.refuse(Reason::Relocation, format!("relocation type {k} on an immediate"))),
        };
        Ok(vec![Patch { immediate: true, kind, target, addend }])
    }

    /// Returns the patch for the relocation of the current instruction's displacement.
    pub(super) fn displacement_patch(&self, ins: &Instruction) -> Result<Option<Patch>, Refusal> {
        let insn = &self.facts.code.insns[self.at];
        let Some(reloc) = self.facts.code.disp_reloc(insn) else {
            // The assembler may have resolved `lea f(%rip)` itself.
            return Ok(self.facts.addresses.operands.get(&self.at).filter(|_| ins.is_ip_rel_memory_operand()).map(
                |dest| Patch {
                    immediate: false,
                    kind: elf::R_X86_64_PC32.0,
                    target: address_of(self.facts.pads, *dest),
                    addend: tag_of(self.facts.pads, *dest),
                },
            ));
        };
        let relative = ins.is_ip_rel_memory_operand();
        let behind_field = insn.behind_displacement();
        let (target, relative_addend) = self.target(reloc.symbol, reloc.addend.wrapping_add(behind_field));
        // Relative to GS, a thread local's offset counts from the window's base and not from the
        // thread pointer.
        let thread = ins.segment_prefix() == Register::FS;
        let local = if thread { elf::R_X86_64_32S.0 } else { elf::R_X86_64_TPOFF32.0 };
        let (kind, addend) = match reloc.kind {
            k if relative && [elf::R_X86_64_PC32.0, elf::R_X86_64_PLT32.0].contains(&k) => {
                (elf::R_X86_64_PC32.0, relative_addend)
            }
            k if relative && is_got(k) => {
                let kind = if ins.mnemonic() == Mnemonic::Mov { k } else { elf::R_X86_64_GOTPCREL.0 };
                (kind, reloc.addend.wrapping_add(behind_field))
            }
            k if !relative && [elf::R_X86_64_TPOFF32.0, elf::R_X86_64_DTPOFF32.0].contains(&k) => (local, reloc.addend),
            k => return Err(self.refuse(Reason::Relocation, format!("relocation type {k} on a displacement"))),
        };
        Ok(Some(Patch { immediate: false, kind, target, addend }))
    }
}

/// Turns `d(base,index,s)` into `%gs:d(base32,index32,s)`, whose address is GS.base + zext32(..)
/// (rules SFI-S01, SFI-S02). `from_tcb` says that the displacement counts from the thread pointer.
/// A relocated one counts from the window's base.
fn confine(ins: &mut Instruction, from_tcb: bool) {
    ins.set_segment_prefix(Register::GS);
    if ins.memory_base() == Register::RIP {
        ins.set_memory_base(Register::EIP);
        ins.set_memory_displacement64(ins.memory_displacement64() & 0xffff_ffff);
    } else if ins.memory_base() != Register::None {
        ins.set_memory_base(like(Register::EAX, ins.memory_base()));
    }
    if ins.memory_index().is_gpr() {
        ins.set_memory_index(like(Register::EAX, ins.memory_index()));
    }
    if ins.memory_base() != Register::EIP {
        ins.set_memory_displacement64(i64::from(ins.memory_displacement64() as i32) as u64);
    }
    if from_tcb {
        ins.set_memory_displacement64(ins.memory_displacement64().wrapping_add(TCB.symbolic()));
    }
    if ins.memory_base() == Register::None && !ins.memory_index().is_gpr() {
        ins.set_memory_displ_size(4);
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// Says whether an instruction has a mask. A mask may leave out the access, and with it the fault,
/// so such a load is confined in every mode (rule SFI-L02).
fn is_silent(ins: &Instruction) -> bool {
    let masked = |form: &policy::Form| matches!(form.memory, policy::Memory::Masked | policy::Memory::Gather);
    ins.has_op_mask() || policy::lookup(ins.code()).is_some_and(masked)
}

pub(super) fn is_high_byte(ins: &Instruction) -> bool {
    (0..ins.op_count()).any(|op| {
        ins.op_kind(op) == OpKind::Register
            && matches!(ins.op_register(op), Register::AH | Register::BH | Register::CH | Register::DH)
    })
}

fn needs_rex(ins: &Instruction) -> bool {
    [ins.memory_base(), ins.memory_index()]
        .into_iter()
        .any(|r| r.is_gpr() && r.full_register() as u32 >= Register::R8 as u32)
}
