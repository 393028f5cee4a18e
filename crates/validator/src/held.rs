//! Copies of the register that lives in r15's home, in registers whose own values the new program
//! lost. Along a straight line the new program may work on such a copy, and give the home its value
//! after the last instruction that changes it.

use crate::alike::RegisterPlace;
use crate::code::Kept;
use crate::machine::Machine;
use crate::sets::{Effects, RSP, Set, numbers, rest, whole};
use crate::value::{Id, Values};
use sfi_contract::layout::TCB_R15;

/// The copies between two instructions.
#[derive(Clone, Copy, Default)]
pub(crate) struct Held {
    /// Registers of the new program, as bits by number.
    registers: u32,
    /// The home has another value.
    pub stale: bool,
    of: Kept,
}

impl Held {
    /// Says whether an instruction leaves the copies alone, if the new program does the same with
    /// its registers.
    pub(crate) fn survives(&self, effects: &Effects, kept: Kept) -> bool {
        let held = |register| match kept.place(register) {
            RegisterPlace::Register(to) => self.registers & 1 << to != 0,
            RegisterPlace::Home => false,
        };
        self.registers == 0 || self.of == kept && !numbers(effects.changes).any(held)
    }

    /// Gives the new program its copies before an instruction.
    pub(crate) fn give(&self, values: &mut Values, kept: Kept, old: &Machine, new: &mut Machine) {
        if self.stale {
            let junk = values.junk();
            match &mut new.slot {
                Some((_, content)) => *content = junk,
                None => new.cells = vec![(TCB_R15.symbolic(), junk)],
            }
        }
        if self.of == kept {
            for register in numbers(self.registers) {
                new.registers[register] = old.registers[kept.homed()];
            }
        }
    }
}

/// Finds the copies after an instruction. `lost`: what the new program lost. Returns them, and the
/// same set, but of the register that lives in the home only what its copies lost, too.
pub(crate) fn find(values: &mut Values, (old, new): (&Machine, &Machine), kept: Kept, lost: Set) -> (Held, Set) {
    let homed = kept.homed();
    let value = old.registers[homed];
    let missing = lost & whole(homed);
    let mut holding = |own: bool, test: &mut dyn FnMut(&mut Values, Id) -> bool| -> u32 {
        let overwritten = |register: &usize| lost & whole(*register) == whole(*register);
        let place = |register| match kept.place(register) {
            RegisterPlace::Register(to) if test(values, new.registers[to]) => 1 << to,
            _ => 0,
        };
        (0..16).filter(|register| *register != RSP && (own || overwritten(register))).map(place).fold(0, |a, b| a | b)
    };
    let mut exact = holding(false, &mut |_, held| held == value);
    if exact == 0 && missing != 0 {
        // Its own value may be the same, such as an address on the stack. From now on it counts as
        // overwritten.
        exact = holding(true, &mut |_, held| held == value);
    }
    let same_byte = &mut |values: &mut Values, held| values.bits(held, 0, 8) == values.bits(value, 0, 8);
    let (registers, copied) = match exact {
        // The low byte is all that counts where code writes a byte of a register it never wrote.
        // The rest is lost.
        0 if missing == whole(homed) => (holding(false, same_byte), rest(homed)),
        _ => (exact, 0),
    };
    let stale = registers != 0 && missing != 0;
    let held = Held { registers, stale, of: kept };
    (held, if stale { lost & !whole(homed) | copied } else { lost })
}
