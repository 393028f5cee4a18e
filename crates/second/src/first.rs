//! The first decoder's reading: iced-x86's operands, and the written operands by the positive list.

use crate::reading::{Address, Reading, Register};
use iced_x86::{Instruction, Mnemonic, OpKind, Register as R};
use sfi_contract::policy::{Class, Form, Memory, general as gpr};

/// An instruction as the rules saw it.
pub struct First<'a> {
    /// The first decoder's instruction.
    pub instruction: &'a Instruction,
    /// Its form on the positive list.
    pub form: &'static Form,
    /// The general registers that it writes, by the rules' reading.
    pub written: u16,
    /// The rules took it for a string instruction that writes through rdi.
    pub string_store: bool,
}

impl First<'_> {
    pub(super) fn mnemonic(&self) -> Mnemonic {
        self.instruction.mnemonic()
    }

    pub(super) fn reading(&self) -> Reading {
        let i = self.instruction;
        let mut reading = Reading { written: self.written, ..Reading::default() };
        let mut operands = 0;
        for n in 0..i.op_count() {
            let address = match i.op_kind(n) {
                OpKind::Register => {
                    reading.named |= gpr(i.op_register(n));
                    continue;
                }
                // `xlat`: rbx and al are no ModRM operand. To the second decoder they are no
                // operands at all.
                OpKind::Memory if self.form.class == Class::Table => continue,
                OpKind::Memory => self.address(),
                OpKind::MemoryESRDI => string(R::RDI),
                OpKind::MemorySegRSI => string(R::RSI),
                _ => continue,
            };
            for register in [address.base, address.index].into_iter().flatten() {
                reading.named |= general(register);
            }
            let written = match self.form.memory {
                Memory::Store | Memory::Lockable => i.op_kind(n) == OpKind::Memory,
                _ => self.string_store && i.op_kind(n) == OpKind::MemoryESRDI,
            };
            reading.operand(operands, address, written);
            operands += 1;
        }
        if self.form.class == Class::Branch {
            reading.branch = Some(i.near_branch64().wrapping_sub(i.next_ip()) as i32);
        }
        reading
    }

    fn address(&self) -> Address {
        let i = self.instruction;
        let (base, index) = (register(i.memory_base()), register(i.memory_index()));
        let mut displacement = i.memory_displacement64();
        if base == Some(Register::Ip) {
            displacement = displacement.wrapping_sub(i.next_ip());
        }
        let narrow = match (i.memory_base(), index) {
            (R::EIP, _) | (_, Some(Register::Narrow(_))) => true,
            (R::None, _) => i.memory_displ_size() == 4,
            (_, _) => matches!(base, Some(Register::Narrow(_))),
        };
        let scale = if index.is_some() { i.memory_index_scale() as u8 } else { 1 };
        Address { base, index, scale, displacement: displacement as i32, gs: i.memory_segment() == R::GS, narrow }
    }
}

fn string(base: R) -> Address {
    Address { base: register(base), index: None, scale: 1, displacement: 0, gs: false, narrow: false }
}

fn register(register: R) -> Option<Register> {
    let number = |first: R| (register as u32 - first as u32) as u8;
    match register {
        R::None => None,
        R::RIP | R::EIP => Some(Register::Ip),
        _ if register.is_gpr64() => Some(Register::Wide(number(R::RAX))),
        _ if register.is_gpr32() => Some(Register::Narrow(number(R::EAX))),
        _ => Some(Register::Vector(register.size() as u8, register.number() as u8)),
    }
}

/// Returns the bit of a general register.
pub(super) fn general(register: Register) -> u16 {
    match register {
        Register::Wide(n) | Register::Narrow(n) => 1 << n,
        Register::Ip | Register::Vector(..) => 0,
    }
}
