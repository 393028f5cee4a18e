//! The second decoder's reading: yaxpeax-x86's operands, and its own tables of the operands that
//! each opcode reads and writes.

use crate::first::general;
use crate::reading::{Address, Reading, Register};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::{InstDecoder, Instruction, Opcode, Operand, RegSpec, register_class as class};

/// An instruction as the second decoder reads it.
pub(super) struct Second(Instruction);

impl Second {
    /// Decodes an instruction. It fails on bytes that do not decode, or that decode to more than
    /// there are. The caller needs no reason.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Second, ()> {
        InstDecoder::default().decode_slice(bytes).map(Second).map_err(|_| ())
    }

    pub(crate) fn length(&self) -> usize {
        self.0.len().to_const() as usize
    }

    pub(crate) fn opcode(&self) -> Opcode {
        self.0.opcode()
    }

    /// Says whether it is a gather. The decoder takes vector index 4 for no index, so
    /// [`crate::gaps`] reads gathers.
    pub(crate) fn is_gather(&self) -> bool {
        use Opcode::*;
        matches!(
            self.opcode(),
            VPGATHERDD | VPGATHERDQ | VPGATHERQD | VPGATHERQQ | VGATHERDPS | VGATHERDPD | VGATHERQPS | VGATHERQPD
        )
    }

    pub(crate) fn reading(&self) -> Result<Reading, &'static str> {
        let i = &self.0;
        let behavior = i.behavior();
        let mut reading = Reading::default();
        let mut operands = 0;
        for n in 0..i.operand_count() {
            let operand = i.operand(n);
            let written = behavior.operand_access(n).is_some_and(|access| access.is_write());
            if let Some(register) = register_operand(&operand) {
                let bit =
                    if n == 1 && errata::general_source(self.opcode()) { 1 << register.num() } else { bit(register) };
                reading.named |= bit;
                reading.written |= if written { bit } else { 0 };
            } else if let Some(mut address) = address(&operand) {
                address.gs = i.prefixes.gs();
                address.narrow = i.prefixes.address_size();
                for register in [address.base, address.index].into_iter().flatten() {
                    reading.named |= general(register);
                }
                let written = written && !errata::reads_only(self.opcode());
                reading.operand(operands, address, written);
                operands += 1;
            } else if is_branch(self.opcode()) {
                reading.branch = match operand {
                    Operand::ImmediateI8 { imm } => Some(imm.into()),
                    Operand::ImmediateI32 { imm } => Some(imm),
                    _ => None,
                };
            }
        }
        if operands > 2 {
            return Err("the second decoder reads three memory operands");
        }
        Ok(reading)
    }
}

fn is_branch(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::JMP | Opcode::CALL | Opcode::LOOP | Opcode::LOOPZ | Opcode::LOOPNZ | Opcode::JRCXZ)
        || opcode.is_jcc()
}

fn register_operand(operand: &Operand) -> Option<RegSpec> {
    match *operand {
        Operand::Register { reg }
        | Operand::RegisterMaskMerge { reg, .. }
        | Operand::RegisterMaskMergeSae { reg, .. }
        | Operand::RegisterMaskMergeSaeNoround { reg, .. } => Some(reg),
        _ => None,
    }
}

/// Returns the address of a memory operand. Its segment and address size come from the prefixes.
fn address(operand: &Operand) -> Option<Address> {
    use Operand as O;
    let (base, index, scale, displacement) = match *operand {
        O::AbsoluteU32 { addr } => (None, None, 1, addr as i32),
        O::AbsoluteU64 { addr } => (None, None, 1, addr as i32),
        O::MemDeref { base } | O::MemDerefMasked { base, .. } => (Some(base), None, 1, 0),
        O::Disp { base, disp } | O::DispMasked { base, disp, .. } => (Some(base), None, 1, disp),
        O::MemIndexScale { index, scale } | O::MemIndexScaleMasked { index, scale, .. } => {
            (None, Some(index), scale, 0)
        }
        O::MemIndexScaleDisp { index, scale, disp } | O::MemIndexScaleDispMasked { index, scale, disp, .. } => {
            (None, Some(index), scale, disp)
        }
        O::MemBaseIndexScale { base, index, scale } | O::MemBaseIndexScaleMasked { base, index, scale, .. } => {
            (Some(base), Some(index), scale, 0)
        }
        O::MemBaseIndexScaleDisp { base, index, scale, disp }
        | O::MemBaseIndexScaleDispMasked { base, index, scale, disp, .. } => (Some(base), Some(index), scale, disp),
        _ => return None,
    };
    Some(Address { base: base.map(part), index: index.map(part), scale, displacement, gs: false, narrow: false })
}

fn part(register: RegSpec) -> Register {
    match register.class() {
        class::Q => Register::Wide(register.num()),
        class::D => Register::Narrow(register.num()),
        class::RIP | class::EIP => Register::Ip,
        _ => Register::Vector(register.width(), register.num()),
    }
}

/// Returns the bit of a general register, or of the one that it is a part of. Without REX, byte
/// registers 4 to 7 are ah, ch, dh, bh.
fn bit(register: RegSpec) -> u16 {
    match register.class() {
        class::Q | class::D | class::W | class::RB => 1 << register.num(),
        class::B => 1 << (register.num() & 3),
        _ => 0,
    }
}

/// The errors of yaxpeax-x86 2.2 against the manual (SDM volume 2, the instructions' own pages).
/// The hardware test of the whole list holds each of these against a processor.
mod errata {
    use yaxpeax_x86::long_mode::Opcode;

    /// Says whether the decoder takes a memory operand that is only read for one that is written.
    pub(crate) fn reads_only(opcode: Opcode) -> bool {
        matches!(opcode, Opcode::FRSTOR | Opcode::CMPS | Opcode::SCAS)
    }

    /// Says whether the decoder takes the second operand, a general register, for an xmm register.
    /// Its number is right.
    pub(crate) fn general_source(opcode: Opcode) -> bool {
        matches!(opcode, Opcode::PINSRB | Opcode::PINSRD | Opcode::PINSRQ)
    }
}
