//! Sets of registers and flags as bits, and the reads and writes of an original instruction as such
//! sets.

use crate::code::{Insn, Text};
use foldhash::{HashMap, HashMapExt};
use iced_x86::RflagsBits;
use iced_x86::{Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register};
use std::ops::Index;

/// Bits 0 to 15: the low bytes of the general registers, by number. Bits 16 to 31: the rest of
/// them. Bits 32 to 37: flags in the order of [`FLAGS`].
pub(crate) type Set = u64;

/// The flags that code computes.
pub(crate) const FLAGS: [u32; 6] =
    [RflagsBits::CF, RflagsBits::PF, RflagsBits::AF, RflagsBits::ZF, RflagsBits::SF, RflagsBits::OF];
pub(crate) const ALL_FLAGS: Set = 0x3f << 32;
/// The flags for a result that is zero or negative. They follow from all of its bytes.
pub(crate) const OF_ALL_BYTES: Set = 0x18 << 32;
pub(crate) const ALL: Set = ALL_FLAGS | 0xffff_ffff;

/// Mark: %al is written, and may hold the number of vector registers that a variadic call passes.
pub(crate) const COUNT: Set = 1 << 40;

pub(crate) const RAX: usize = 0;
pub(crate) const RCX: usize = 1;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;
pub(crate) const R11: usize = 11;
pub(crate) const R15: usize = 15;
/// Registers that functions preserve: rbx, rbp, r12 to r15.
pub(crate) const PRESERVED: [usize; 6] = [3, 5, 12, 13, 14, 15];
/// Registers that carry arguments, the static chain among them.
pub(crate) const ARGUMENTS: [usize; 7] = [7, 6, 2, 1, 8, 9, 10];
/// Registers that carry results.
pub(crate) const RESULTS: [usize; 2] = [0, 2];

/// Returns the number of a general register of any width.
pub(crate) fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register() as usize - Register::RAX as usize)
}

/// Says whether a register is one of ah, ch, dh, bh.
pub(crate) fn is_high(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// Returns the set of a register without its low byte.
pub(crate) const fn rest(number: usize) -> Set {
    0x1_0000 << number
}

/// Returns the set of a whole register.
pub(crate) const fn whole(number: usize) -> Set {
    0x1_0001 << number
}

/// Returns the numbers of the registers in a set of bits by number.
pub(crate) fn numbers(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (lowest < 32).then_some(lowest)
    })
}

/// Returns the set of several whole registers.
pub(crate) fn wholes(numbers: &[usize]) -> Set {
    numbers.iter().map(|n| whole(*n)).fold(0, |a, b| a | b)
}

/// Returns the set of the flags that iced gives as bits.
pub(crate) fn flags(bits: u32) -> Set {
    FLAGS.iter().enumerate().filter(|(_, flag)| bits & **flag != 0).map(|(n, _)| 1 << (32 + n)).fold(0, |a, b| a | b)
}

/// The reads and writes of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Effects {
    pub reads: Set,
    /// Bits that are surely overwritten.
    pub writes: Set,
    /// General registers that may be changed, as bits by number.
    pub changes: u32,
    /// Registers named in any way, as bits by number.
    pub named: u32,
    pub loads: bool,
    pub stores: bool,
}

/// The effects of each instruction. Equal ones are stored once.
pub(crate) struct AllEffects {
    /// Index into `kinds`.
    of: Vec<u32>,
    kinds: Vec<Effects>,
}

impl AllEffects {
    pub(crate) fn of(text: &Text) -> AllEffects {
        let mut factory = InstructionInfoFactory::new();
        let mut known: HashMap<Effects, u32> = HashMap::new();
        let mut kinds = Vec::new();
        let number = |insn: &Insn| {
            let effects = if insn.is_nop() { Effects::default() } else { effects(&mut factory, &insn.ins) };
            *known.entry(effects).or_insert_with(|| {
                kinds.push(effects);
                kinds.len() as u32 - 1
            })
        };
        AllEffects { of: text.insns.iter().map(number).collect(), kinds }
    }
}

impl Index<usize> for AllEffects {
    type Output = Effects;

    fn index(&self, at: usize) -> &Effects {
        &self.kinds[self.of[at] as usize]
    }
}

/// Returns the reads and writes of an instruction. The stack pointer is left out, because the facts
/// follow it.
pub(crate) fn effects(factory: &mut InstructionInfoFactory, ins: &Instruction) -> Effects {
    let info = factory.info_options(ins, InstructionInfoOptions::NONE);
    let mut out = Effects::default();
    for used in info.used_registers() {
        let Some(number) = number(used.register()) else { continue };
        out.named |= 1 << number;
        if number == RSP {
            continue;
        }
        let register = used.register();
        let (low, rest) = (1 << number, rest(number));
        let read = match register.size() {
            1 if is_high(register) => rest,
            1 => low,
            _ => low | rest,
        };
        let write = match register.size() {
            1 if is_high(register) => 0,
            1 | 2 => low,
            _ => low | rest,
        };
        if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess) {
            out.changes |= 1 << number;
        }
        match used.access() {
            OpAccess::Read | OpAccess::CondRead => out.reads |= read,
            OpAccess::Write => out.writes |= write,
            OpAccess::ReadWrite => {
                out.reads |= read;
                out.writes |= write;
            }
            OpAccess::CondWrite | OpAccess::ReadCondWrite => out.reads |= read,
            _ => {}
        }
    }
    for memory in info.used_memory() {
        use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
        out.loads |= matches!(memory.access(), Read | CondRead | ReadWrite | ReadCondWrite);
        out.stores |= matches!(memory.access(), Write | CondWrite | ReadWrite | ReadCondWrite);
    }
    let same = ins.op_count() == 2
        && ins.op0_kind() == OpKind::Register
        && ins.op1_kind() == OpKind::Register
        && ins.op0_register() == ins.op1_register();
    if same
        && matches!(ins.mnemonic(), Mnemonic::Xor | Mnemonic::Sub | Mnemonic::Sbb)
        && let Some(number) = number(ins.op0_register())
    {
        out.reads &= !whole(number);
    }
    if gives_constant(ins)
        && ins.op0_kind() == OpKind::Register
        && let Some(number) = number(ins.op0_register())
    {
        out.reads &= !whole(number);
    }
    out.reads |= flags(ins.rflags_read());
    if !keeps_flags(ins) {
        out.writes |= flags(ins.rflags_modified());
    }
    out
}

/// Says whether an instruction gives all ones, or zero, for any value of its first operand.
pub(crate) fn gives_constant(ins: &Instruction) -> bool {
    match (ins.mnemonic(), ins.try_immediate(1)) {
        (Mnemonic::Or, Ok(value)) => value as i32 == -1,
        (Mnemonic::And, Ok(value)) => value == 0,
        _ => false,
    }
}

/// Says whether an instruction may leave the flags that it writes as they were: shifts by a count
/// of zero, strings without length.
pub(crate) fn keeps_flags(ins: &Instruction) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    let shift = matches!(ins.mnemonic(), Shl | Shr | Sar | Sal | Rol | Ror | Rcl | Rcr | Shld | Shrd);
    let last = ins.op_count().saturating_sub(1);
    // The processor takes six bits of the count for eight bytes, else five.
    let eight_bytes = ins.op0_register().size() == 8 || ins.memory_size().size() == 8;
    let mask = if eight_bytes { 63 } else { 31 };
    let by_some = shift && ins.try_immediate(last).is_ok_and(|count| count & mask != 0);
    (shift && !by_some) || (ins.is_string_instruction() && (ins.has_rep_prefix() || ins.has_repne_prefix()))
}

/// Returns the names of the registers and flags in a set.
pub(crate) fn names(set: Set) -> String {
    const NAMES: [&str; 16] =
        ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    const FLAG_NAMES: [&str; 6] = ["CF", "PF", "AF", "ZF", "SF", "OF"];
    let registers = (0..16).filter(|n| set & whole(*n) != 0).map(|n| NAMES[n]);
    let flags = (0..6).filter(|n| set & (1 << (32 + n)) != 0).map(|n| FLAG_NAMES[n]);
    registers.chain(flags).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::keeps_flags;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn counts_of_shifts_are_masked_by_the_operand_size() {
        let cases: [(&[u8], bool); 6] = [
            (&[0x48, 0xc1, 0xe8, 0x20], false),       // shr $32, %rax
            (&[0xc1, 0xe8, 0x20], true),              // shr $32, %eax
            (&[0x48, 0xc1, 0x2f, 0x20], false),       // shrq $32, (%rdi)
            (&[0x48, 0xc1, 0xe8, 0x40], true),        // shr $64, %rax
            (&[0x48, 0xd3, 0xe8], true),              // shr %cl, %rax
            (&[0x48, 0x0f, 0xa4, 0xc2, 0x20], false), // shld $32, %rax, %rdx
        ];
        for (bytes, kept) in cases {
            let ins = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
            assert_eq!(keeps_flags(&ins), kept, "{bytes:x?}");
        }
    }
}
