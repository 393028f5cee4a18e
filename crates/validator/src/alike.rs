//! The common case: one new instruction does the original one's work, with its operands at their
//! present places.

use crate::code::{Insn, Kept};
use crate::context::{Context, has_memory};
use crate::sets::{Effects, R15, RSP, number};
use iced_x86::{Mnemonic, OpKind, Register};
use sfi_contract::layout::TCB;
use sfi_debuginfo::map::Keeping;

/// The place of an original register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterPlace {
    Register(usize),
    /// The home of r15.
    Home,
}

impl Kept {
    /// Returns the place of an original register other than rsp.
    pub(crate) fn place(self, register: usize) -> RegisterPlace {
        match (self.how, register) {
            (Keeping::Home, R15) => RegisterPlace::Home,
            (Keeping::Renamed(to) | Keeping::Exchanged(to), R15) => RegisterPlace::Register(usize::from(to)),
            (Keeping::Renamed(to) | Keeping::Exchanged(to), other) if other == usize::from(to) => RegisterPlace::Home,
            (_, other) => RegisterPlace::Register(other),
        }
    }

    /// Returns the original register that lives in the home.
    pub(crate) fn homed(self) -> usize {
        match self.how {
            Keeping::Home => R15,
            Keeping::Renamed(to) | Keeping::Exchanged(to) => usize::from(to),
        }
    }

    /// Returns the original registers that do not live where callers and callees expect them.
    pub(crate) fn moved(self) -> u32 {
        match (self.how, self.slot) {
            (Keeping::Home, None) => 0,
            _ => 1 << R15 | 1 << self.homed(),
        }
    }
}

/// Says whether one new instruction does the original one's work.
pub(crate) fn alike(
    context: &Context<'_, '_>,
    kept: Kept,
    delta: i64,
    effects: &Effects,
    old: &Insn,
    new: &Insn,
) -> bool {
    let (a, b) = (&old.ins, &new.ins);
    // The stack pointer itself, the home and strings take the long way.
    if a.code() != b.code() || a.is_string_instruction() || a.is_stack_instruction() || implicit(kept, effects, old) {
        return false;
    }
    let same = a.has_lock_prefix() == b.has_lock_prefix()
        && a.op_mask() == b.op_mask()
        && a.zeroing_masking() == b.zeroing_masking()
        && a.rounding_control() == b.rounding_control()
        && a.suppress_all_exceptions() == b.suppress_all_exceptions()
        && a.is_broadcast() == b.is_broadcast();
    if !same || reaches_beyond(a.mnemonic(), has_memory(a), a.op1_kind()) {
        return false;
    }
    let fields = old.displacement.is_some()
        || old.immediate.is_some()
        || new.displacement.is_some()
        || new.immediate.is_some()
        || a.is_ip_rel_memory_operand();
    if fields {
        let (Some(mine), Some(other)) = (context.meanings(false, old), context.meanings(true, new)) else {
            return false;
        };
        let thread = a.segment_prefix() == Register::FS;
        let shifted = |meaning: Option<(crate::object::Spot, i64)>| {
            meaning.map(|(spot, at)| (spot, if thread { at.wrapping_add(TCB.symbolic() as i64) } else { at }))
        };
        if shifted(mine.0) != other.0 || mine.1 != other.1 {
            return false;
        }
        let initial = context.old_reloc_kind(old) == Some(crate::object::kind::GOTTPOFF);
        if initial {
            return false;
        }
    }
    (0..a.op_count()).all(|op| {
        a.op_kind(op) == b.op_kind(op)
            && match a.op_kind(op) {
                OpKind::Register => register(kept, a.op_register(op), b.op_register(op)),
                OpKind::Memory => memory(kept, delta, old, new),
                OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16 => false,
                _ => old.immediate.is_some() || a.immediate(op) == b.immediate(op),
            }
    })
}

/// Says whether an instruction reaches memory beyond its operand: a bit test of memory by a
/// register, or `xlat`.
fn reaches_beyond(mnemonic: Mnemonic, memory: bool, second: OpKind) -> bool {
    let test = matches!(mnemonic, Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
    test && memory && second == OpKind::Register || mnemonic == Mnemonic::Xlatb
}

/// Says whether the instruction uses a register that moved without naming it in an operand, or the
/// stack pointer other than in an address.
fn implicit(kept: Kept, effects: &Effects, insn: &Insn) -> bool {
    let mut explicit = 0u32;
    let ins = &insn.ins;
    for op in (0..ins.op_count()).filter(|op| ins.op_kind(*op) == OpKind::Register) {
        match number(ins.op_register(op)) {
            Some(RSP) => return true,
            Some(at) => explicit |= 1 << at,
            None => {}
        }
    }
    for register in [ins.memory_base(), ins.memory_index()] {
        explicit |= number(register).map_or(0, |at| 1 << at);
    }
    let moved = if kept.how == Keeping::Home { 1 << R15 } else { kept.moved() };
    effects.named & !explicit & (moved | 1 << RSP) != 0
}

fn register(kept: Kept, old: Register, new: Register) -> bool {
    match number(old) {
        None => old == new,
        Some(at) => match kept.place(at) {
            RegisterPlace::Register(to) => {
                number(new) == Some(to) && old.size() == new.size() && high(old) == high(new)
            }
            RegisterPlace::Home => false,
        },
    }
}

fn high(register: Register) -> bool {
    crate::sets::is_high(register)
}

fn memory(kept: Kept, delta: i64, old: &Insn, new: &Insn) -> bool {
    let (a, b) = (&old.ins, &new.ins);
    let lea = a.mnemonic() == Mnemonic::Lea;
    let thread = a.segment_prefix() == Register::FS && !lea;
    let confined = b.segment_prefix() == Register::GS;
    let foreign = |r: Register| matches!(r, Register::FS | Register::GS);
    if (foreign(a.segment_prefix()) && !thread) || (thread && !confined) || b.segment_prefix() == Register::FS {
        return false;
    }
    if lea && confined || a.memory_size() != b.memory_size() {
        return false;
    }
    let mut distance = a.memory_displacement64();
    let part = |mine: Register, other: Register, base: bool| -> bool {
        if mine == Register::None || other == Register::None {
            return mine == other;
        }
        if mine == Register::RIP {
            return other == Register::RIP || (other == Register::EIP && confined);
        }
        let Some(at) = number(mine) else { return mine == other };
        let to = match kept.place(at) {
            _ if at == RSP => {
                if !base {
                    return false;
                }
                R15
            }
            RegisterPlace::Register(to) => to,
            RegisterPlace::Home => return false,
        };
        let size = if confined { 4 } else { mine.size() };
        number(other) == Some(to) && other.size() == size && (mine.size() == 8 || mine.size() == size)
    };
    if !part(a.memory_base(), b.memory_base(), true) || !part(a.memory_index(), b.memory_index(), false) {
        return false;
    }
    if a.memory_index() != Register::None && a.memory_index_scale() != b.memory_index_scale() {
        return false;
    }
    if old.displacement.is_some() || a.is_ip_rel_memory_operand() {
        return true;
    }
    if number(a.memory_base()) == Some(RSP) {
        distance = distance.wrapping_sub(delta as u64);
    }
    if thread {
        distance = distance.wrapping_add(TCB.symbolic());
    }
    let other = b.memory_displacement64();
    if confined && !thread { distance as u32 == other as u32 } else { distance == other }
}

impl Context<'_, '_> {
    /// Returns the type of the relocation on the displacement of an original instruction.
    pub(crate) fn old_reloc_kind(&self, insn: &Insn) -> Option<u32> {
        let section = &self.pair.old.sections[insn.section as usize];
        section.relocations.get(insn.displacement? as usize).map(|r| r.kind)
    }
}
