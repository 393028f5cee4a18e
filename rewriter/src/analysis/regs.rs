//! Phase 5: the registers and flags that each instruction of the original code reads and writes.

use crate::object::decode::{Code, InsnIndex, PerInsn};
use crate::object::forms::{FormIndex, is_nop};
use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};
use std::cell::RefCell;
use std::ops::Index;

/// A set of general registers (bits 0-15 by number) and flags (bits [`FLAG_SHIFT`]..).
pub(crate) type Set = u32;

const FLAG_SHIFT: u32 = 16;
/// OF, SF, ZF, AF, CF, PF.
pub(crate) const FLAGS: Set =
    (RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF) << FLAG_SHIFT;
/// CF alone.
pub(crate) const CARRY: Set = flag(RflagsBits::CF);
/// The number of vector registers that a variadic call finds in %al. It has its own bit, because
/// masking a slot's address in rax keeps it.
pub(crate) const VECTOR_COUNT: Set = 1 << 30;
/// A set of parts of general registers: bits 0-15 for their low bytes, bits 16-31 for the rest.
pub(crate) type Parts = u32;

/// Returns both parts of registers.
pub(crate) const fn whole(registers: Set) -> Parts {
    (registers & GPRS) | (registers & GPRS) << 16
}

/// All general registers.
pub(crate) const GPRS: Set = 0xffff;

/// Returns the set that holds a general register of any width. Other registers give the empty set.
pub(crate) fn bit(register: Register) -> Set {
    if register.is_gpr() { 1 << (register.full_register() as u32 - Register::RAX as u32) } else { 0 }
}

/// Returns the set of the flags that iced gives as bits.
pub(crate) const fn flag(bits: u32) -> Set {
    bits << FLAG_SHIFT
}

/// Returns the set of several registers.
pub(crate) fn bits(registers: &[Register]) -> Set {
    registers.iter().map(|r| bit(*r)).fold(0, |a, b| a | b)
}

/// Returns the registers that a callee preserves.
pub(crate) fn callee_saved() -> Set {
    use Register::*;
    bits(&[RBX, RBP, R12, R13, R14, R15, RSP])
}

/// Returns the registers that carry arguments (r10 is the static chain), and the count.
pub(crate) fn arguments() -> Set {
    use Register::*;
    bits(&[RDI, RSI, RDX, RCX, R8, R9, R10, RSP]) | VECTOR_COUNT
}

/// Returns the registers that carry results.
pub(crate) fn results() -> Set {
    bits(&[Register::RAX, Register::RDX])
}

/// The effects of one instruction on registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Registers and flags that are read before they are written.
    pub uses: Set,
    /// Registers and flags that are surely and wholly overwritten.
    pub kills: Set,
    /// Parts of registers that are read. A write of a part reads nothing.
    pub reads: Parts,
    /// Parts of registers that are surely overwritten.
    pub covers: Parts,
    /// Registers and flags that are written in any way.
    pub writes: Set,
    /// The instruction writes memory, explicitly or implicitly.
    pub memory_write: bool,
    /// The instruction reads memory.
    pub memory_read: bool,
}

/// The effects of all instructions.
pub(crate) struct AllEffects {
    /// The form of each instruction.
    forms: PerInsn<FormIndex>,
    /// The effects of each form.
    effects: Vec<Effects>,
}

impl AllEffects {
    /// Gives an instruction the effects of the form that took the place of its own.
    pub(crate) fn replace(&mut self, code: &Code<'_, '_>, at: InsnIndex) {
        let form = code.insns[at].form;
        // New forms have the next numbers.
        debug_assert!(usize::from(form) <= self.effects.len());
        if usize::from(form) == self.effects.len() {
            self.effects.push(of(code.ins(at)));
        }
        self.forms[at] = form;
    }
}

impl Index<InsnIndex> for AllEffects {
    type Output = Effects;

    #[inline]
    fn index(&self, at: InsnIndex) -> &Effects {
        &self.effects[usize::from(self.forms[at])]
    }
}

/// Returns the effects of every instruction.
pub(crate) fn effects(code: &Code<'_, '_>) -> AllEffects {
    let effects = KNOWN.with_borrow_mut(|known| code.forms.iter().map(|form| known.effects(form)).collect());
    AllEffects { forms: code.insns.iter().map(|insn| insn.form).collect(), effects }
}

/// Returns the effects of an instruction.
pub(crate) fn of(ins: &Instruction) -> Effects {
    KNOWN.with_borrow_mut(|known| known.effects(ins))
}

/// Says whether an instruction is `syscall`. It writes rcx and r11, as few others do.
#[inline]
pub(crate) fn is_syscall(code: &Code<'_, '_>, at: InsnIndex, effects: &AllEffects) -> bool {
    let written = bit(Register::RCX) | bit(Register::R11);
    effects[at].writes & written == written && code.ins(at).mnemonic() == Mnemonic::Syscall
}

/// The power of two of the instructions whose effects a thread keeps.
const KNOWN_BITS: u32 = 13;

thread_local! {
    /// Effects do not depend on the object, and objects of one archive have many instructions in
    /// common.
    static KNOWN: RefCell<Known> = RefCell::new(Known::new(KNOWN_BITS));
}

/// The effects of the last instructions.
struct Known {
    factory: InstructionInfoFactory,
    /// Forms without target and displacement, with their effects.
    last: Vec<Option<(Instruction, Effects)>>,
    bits: u32,
}

impl Known {
    /// Knows nothing yet. Has room for two to the power of `bits` instructions.
    fn new(bits: u32) -> Known {
        Known { factory: InstructionInfoFactory::new(), last: vec![None; 1 << bits], bits }
    }

    /// Returns the effects of an instruction.
    fn effects(&mut self, ins: &Instruction) -> Effects {
        let mut form = *ins;
        if form.op0_kind() == OpKind::NearBranch64 {
            form.set_near_branch64(0);
        }
        // Without an address the displacement may be a second immediate.
        if form.memory_base() != Register::None || form.memory_index() != Register::None {
            form.set_memory_displacement64(0);
        }
        if ignores_value(&form) {
            form.set_immediate32(0);
        }
        let hash = [form.op1_register(), form.memory_base(), form.memory_index()]
            .into_iter()
            .fold(form.code() as usize * 131 + form.op0_register() as usize, |hash, register| {
                hash.wrapping_mul(31).wrapping_add(register as usize)
            });
        // The upper bits of the product depend on all bits of the hash.
        let mixed = (hash as u32).wrapping_mul(0x9e37_79b1);
        let place = (u64::from(mixed) >> (32 - self.bits)) as usize;
        match self.last[place] {
            Some((same, effects)) if same == form => effects,
            _ => {
                let effects = one(&mut self.factory, ins);
                self.last[place] = Some((form, effects));
                effects
            }
        }
    }
}

/// Says whether an instruction has the same effects with every value of its immediate.
fn ignores_value(ins: &Instruction) -> bool {
    let number = |op| {
        matches!(
            ins.op_kind(op),
            OpKind::Immediate8
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32
                | OpKind::Immediate32to64
        )
    };
    use Mnemonic::{Add, And, Cmp, Mov, Sub, Test};
    matches!(ins.mnemonic(), Add | And | Cmp | Mov | Sub | Test) && number(1)
}

fn one(factory: &mut InstructionInfoFactory, ins: &Instruction) -> Effects {
    if is_nop(ins) {
        return Effects::default();
    }
    let info = factory.info_options(ins, InstructionInfoOptions::NONE);
    let mut out = Effects::default();
    for used in info.used_registers() {
        let register = used.register();
        let bit = bit(register);
        if bit == 0 {
            continue;
        }
        let whole = register.is_gpr32() || register.is_gpr64();
        let high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
        let parts = match register.size() {
            1 if high => bit << 16,
            1 => bit,
            _ => self::whole(bit),
        };
        match used.access() {
            OpAccess::Read | OpAccess::CondRead => {
                out.uses |= bit;
                out.reads |= parts;
            }
            OpAccess::Write => {
                // A write of a word or of a high byte keeps some of the upper bytes.
                out.covers |= if whole { parts } else { parts & GPRS };
                if register.full_register() == Register::RAX && register != Register::AH {
                    out.kills |= VECTOR_COUNT;
                }
                out.writes |= bit;
                if whole {
                    out.kills |= bit;
                } else {
                    // A byte or word write keeps the rest.
                    out.uses |= bit;
                }
            }
            OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite => {
                out.writes |= bit;
                out.uses |= bit;
                out.reads |= parts;
            }
            _ => {}
        }
    }
    for memory in info.used_memory() {
        out.memory_read |= matches!(
            memory.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        out.memory_write |= matches!(
            memory.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
    }
    // `xor %eax,%eax` and `or $-1,%eax` read nothing.
    let zeroing = matches!(ins.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
        && ins.op_count() == 2
        && ins.op0_register() == ins.op1_register();
    let filling = ins.mnemonic() == Mnemonic::Or && ins.try_immediate(1).is_ok_and(|value| value as i32 == -1);
    if (zeroing || filling) && (ins.op0_register().is_gpr32() || ins.op0_register().is_gpr64()) {
        let register = bit(ins.op0_register());
        out.uses &= !register;
        out.reads &= !self::whole(register);
        out.covers |= self::whole(register);
        out.kills |= register;
        out.writes |= register;
        if register == self::bit(Register::RAX) {
            out.kills |= VECTOR_COUNT;
        }
    }
    out.uses |= (ins.rflags_read() << FLAG_SHIFT) & FLAGS;
    // A shift by a count of zero leaves the flags alone, and so does a string instruction that runs
    // zero times. The processor takes six bits of the count for eight bytes, else five.
    let eight_bytes = ins.op0_register().size() == 8 || ins.memory_size().size() == 8;
    let count = ins.try_immediate(ins.op_count().saturating_sub(1)).unwrap_or(0);
    let by_some = count & if eight_bytes { 63 } else { 31 } != 0;
    let maybe = !by_some
        && matches!(
            ins.mnemonic(),
            Mnemonic::Shl
                | Mnemonic::Shr
                | Mnemonic::Sar
                | Mnemonic::Sal
                | Mnemonic::Rol
                | Mnemonic::Ror
                | Mnemonic::Rcl
                | Mnemonic::Rcr
                | Mnemonic::Shld
                | Mnemonic::Shrd
        )
        || ins.has_rep_prefix()
        || ins.has_repne_prefix();
    let modified = (ins.rflags_modified() << FLAG_SHIFT) & FLAGS;
    out.writes |= modified;
    if !maybe {
        out.kills |= modified;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    /// Instructions that differ in one part, with and without other effects.
    const ALIKE: &[&[u8]] = &[
        &[0x48, 0x8b, 0x03],                   // mov (%rbx),%rax
        &[0x48, 0x8b, 0x43, 0x08],             // mov 8(%rbx),%rax
        &[0x48, 0x8b, 0x41, 0x08],             // mov 8(%rcx),%rax
        &[0x48, 0x89, 0x43, 0x08],             // mov %rax,8(%rbx)
        &[0xc1, 0xe0, 0x00],                   // shl $0,%eax
        &[0xc1, 0xe0, 0x01],                   // shl $1,%eax
        &[0x83, 0xc8, 0xff],                   // or $-1,%eax
        &[0x83, 0xc8, 0x01],                   // or $1,%eax
        &[0x31, 0xc0],                         // xor %eax,%eax
        &[0x31, 0xc8],                         // xor %ecx,%eax
        &[0xc8, 0x10, 0x00, 0x00],             // enter $16,$0
        &[0xc8, 0x10, 0x00, 0x01],             // enter $16,$1
        &[0xa4],                               // movsb
        &[0xf3, 0xa4],                         // rep movsb
        &[0x88, 0xe0],                         // mov %ah,%al
        &[0x88, 0xc4],                         // mov %al,%ah
        &[0x48, 0xb8, 1, 0, 0, 0, 0, 0, 0, 0], // movabs $1,%rax
        &[0x48, 0xb8, 2, 0, 0, 0, 0, 0, 0, 0], // movabs $2,%rax
        &[0x48, 0x8d, 0x04, 0x0b],             // lea (%rbx,%rcx),%rax
        &[0x48, 0x8d, 0x04, 0x1b],             // lea (%rbx,%rbx),%rax
        &[0x67, 0x8b, 0x03],                   // mov (%ebx),%eax
        &[0x74, 0x10],                         // je
        &[0x74, 0x20],                         // je
        &[0xe3, 0x10],                         // jrcxz
        &[0x90],                               // nop
        &[0x83, 0xe0, 0x00],                   // and $0,%eax
        &[0x83, 0xe0, 0x01],                   // and $1,%eax
        &[0x83, 0xe8, 0x01],                   // sub $1,%eax
        &[0xb8, 1, 0, 0, 0],                   // mov $1,%eax
        &[0xb8, 2, 0, 0, 0],                   // mov $2,%eax
    ];

    #[test]
    fn known_effects_are_those_of_the_instruction() {
        let insns: Vec<Instruction> =
            ALIKE.iter().map(|bytes| Decoder::new(64, bytes, DecoderOptions::NONE).decode()).collect();
        let mut factory = InstructionInfoFactory::new();
        let fresh: Vec<Effects> = insns.iter().map(|ins| one(&mut factory, ins)).collect();
        // Neighbours differ, but for displacements and values.
        assert_ne!(fresh[4], fresh[5]);
        assert_ne!(fresh[6], fresh[7]);
        assert_ne!(fresh[12], fresh[13]);
        for first in 0..insns.len() {
            for second in 0..insns.len() {
                // All instructions share one place.
                let mut known = Known::new(0);
                for at in [first, second, first] {
                    assert_eq!(known.effects(&insns[at]), fresh[at], "{} after {}", insns[at], insns[first]);
                }
            }
        }
    }
}
