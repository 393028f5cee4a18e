//! Values that may be targets of a switch: the sum of a table's address and one of its entries.
//!
//! Entries have 4 bytes, so every value loaded from 4 bytes may be one. Every result of 64-bit code
//! on such a value may be a target. After a target was stored, every loaded value may be one. No
//! other value that is loaded, passed or returned is a target: compilers make a target where they
//! jump to it, and pass it to no function.

use crate::code::{Flow, Index, Old};
use crate::sets::{Effects, PRESERVED, Set, number, numbers};
use iced_x86::{Mnemonic, OpKind, Register};

/// Registers as bits by number.
type Registers = u16;

/// The registers that may hold entries or targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    entries: Registers,
    targets: Registers,
    /// A value that may be a target is in memory or in a vector register.
    stored: bool,
}

impl Sums {
    /// Adds the facts that hold on another way to the same place.
    pub(crate) fn join(&mut self, other: Sums) {
        self.entries |= other.entries;
        self.targets |= other.targets;
        self.stored |= other.stored;
    }

    /// Says whether the target of an indirect jump may be a sum.
    pub(crate) fn may_lead(&self, old: &Old<'_, '_>, jump: Index) -> bool {
        let ins = &old.text.insns[jump].ins;
        match number(ins.op0_register()).filter(|_| ins.op0_kind() == OpKind::Register) {
            Some(register) => (self.entries | self.targets) & 1 << register != 0,
            None => self.stored,
        }
    }

    /// Moves past an instruction.
    pub(crate) fn step(&mut self, old: &Old<'_, '_>, effects: &Effects, at: Index) {
        let ins = &old.text.insns[at].ins;
        match old.flow[at] {
            Flow::Call(_) | Flow::CallIndirect => {
                let kept = PRESERVED.iter().fold(0, |set, register| set | 1 << register);
                self.entries &= kept;
                self.targets &= kept;
                return;
            }
            Flow::Next => {}
            _ => return,
        }
        let lea = ins.mnemonic() == Mnemonic::Lea;
        let mut read = registers(effects.reads);
        if !lea {
            // A register that is only part of an address gives the result nothing.
            let named = |register: Register| {
                (0..ins.op_count()).any(|n| ins.op_kind(n) == OpKind::Register && ins.op_register(n) == register)
            };
            for register in [ins.memory_base(), ins.memory_index()] {
                if let Some(number) = number(register).filter(|_| !named(register)) {
                    read &= !(1 << number);
                }
            }
        }
        let (entry, target) = (read & self.entries != 0, read & self.targets != 0);
        let vector =
            (0..ins.op_count()).any(|n| ins.op_kind(n) == OpKind::Register && ins.op_register(n).is_vector_register());
        self.stored |= target && (effects.stores || vector);
        let word = effects.loads && ins.memory_size().size() <= 4;
        let back = self.stored && ((effects.loads && !word) || vector);
        let moves = matches!(ins.mnemonic(), Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Cdqe | Mnemonic::Cdq);
        // A result of 32 bits is no address, but may be added to one.
        let half = ins.op0_kind() == OpKind::Register && ins.op0_register().is_gpr32();
        for register in numbers(effects.changes) {
            let bit = 1 << register;
            let kept = registers(effects.writes) & bit == 0;
            if !kept {
                self.entries &= !bit;
                self.targets &= !bit;
            }
            if back || (target && !half) || (entry && !half && !moves) {
                self.targets |= bit;
            } else if word || entry || target {
                self.entries |= bit;
            }
        }
    }
}

/// Returns the registers of which a set has a part.
fn registers(set: Set) -> Registers {
    (set | set >> 16) as Registers
}
