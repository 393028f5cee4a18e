//! Stores of the bytes that a mask selects, at an address that no operand names (`maskmovdqu`). No
//! form of it is on the positive list, so each byte is tested and stored by itself. A wider store
//! would also write the bytes between, which another thread may change.

use super::Transform;
use crate::analysis::r15::like;
use crate::analysis::regs::bit;
use crate::refusal::{Reason, Refusal};
use crate::text::emit::Branch;
use iced_x86::{Code as Opcode, Instruction, MemoryOperand, OpKind, Register};

/// Bytes of a vector.
const BYTES: u32 = 16;
/// Spill place of the mask.
const MASK_SLOT: u64 = 0;
/// Spill places of the flags.
const FLAGS_SLOT: u64 = 9;
/// `jae`
const NO_CARRY: Branch = Branch::Condition(3);

impl Transform<'_, '_, '_> {
    /// Rewrites `maskmovdqu %mask,%value`. Says whether the instruction was one.
    ///
    /// ```text
    /// pmovmskb %mask,%t
    ///    bt $0,%t ; jae 1f ; pextrb $0,%value,%gs:(%edi)
    /// 1: bt $1,%t ; jae 2f ; pextrb $1,%value,%gs:1(%edi)
    /// 2: ...
    /// ```
    pub(super) fn masked_store(&mut self, ins: Instruction) -> Result<bool, Refusal> {
        let (gather, store) = match ins.code() {
            Opcode::Maskmovdqu_rDI_xmm_xmm => (Opcode::Pmovmskb_r32_xmm, Opcode::Pextrb_r32m8_xmm_imm8),
            Opcode::VEX_Vmaskmovdqu_rDI_xmm_xmm => (Opcode::VEX_Vpmovmskb_r32_xmm, Opcode::VEX_Vpextrb_r32m8_xmm_imm8),
            _ => return Ok(false),
        };
        if ins.op0_kind() != OpKind::MemorySegRDI || ins.segment_prefix() != Register::None {
            return Err(self.refuse(Reason::NoSafeForm, "masked store with a segment or 32-bit addresses"));
        }
        if self.matching() {
            return Err(self.refuse(Reason::NoSafeForm, "a masked store has no check of its segment"));
        }
        let (value, mask) = (ins.op1_register(), ins.op2_register());
        let flags = self.flags_live();
        if flags {
            self.save_flags(FLAGS_SLOT)?;
        }
        let scratch = self.scratch(bit(Register::RDI), MASK_SLOT)?;
        let selected = like(Register::EAX, scratch.register);
        self.put_new(Instruction::with2(gather, selected, mask))?;
        for byte in 0..BYTES {
            self.put_new(Instruction::with2(Opcode::Bt_rm32_imm8, selected, byte))?;
            let over = self.out.new_label();
            self.out.branch(NO_CARRY, over);
            let place = MemoryOperand::with_base_displ(Register::RDI, byte.into());
            let stored = Instruction::with3(store, place, value, byte);
            let stored = stored.map_err(|error| self.refuse(Reason::NoSafeForm, error.to_string()))?;
            self.put_plain(stored, false, true)?;
            self.out.label(over);
        }
        self.release(scratch)?;
        if flags {
            self.restore_flags(FLAGS_SLOT)?;
        }
        Ok(true)
    }
}
