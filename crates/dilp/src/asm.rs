//! An encoder for the few forms of instructions that compositions consist of.
//!
//! Prefixes stand in the order that the contract wants: 65 and 67, then 66, F2 or F3, then REX.

use crate::pipe::Width;
use crate::role::Role;

/// A general register, by its number.
pub(crate) type Gpr = u8;
pub(crate) const RAX: Gpr = 0;
pub(crate) const RCX: Gpr = 1;
pub(crate) const RDX: Gpr = 2;
pub(crate) const RSI: Gpr = 6;
pub(crate) const RDI: Gpr = 7;
pub(crate) const R15: Gpr = 15;

/// A vector register, by its number.
pub(crate) type Vector = u8;

/// The condition codes that compositions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
}

/// A place in memory: a base register and a distance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) base: Gpr,
    pub(crate) distance: i32,
    /// The access has the GS override and 32-bit address size.
    pub(crate) confined: bool,
}

/// A register or a place in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rm {
    Reg(u8),
    Mem(Memory),
}

/// A place in the code that branches lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// The arithmetic of the first opcode map, by its number in the ModRM byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add = 0,
    Or = 1,
    Adc = 2,
    Sbb = 3,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Shifts by a number, by their number in the ModRM byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Rol = 0,
    Ror = 1,
    Shl = 4,
    Shr = 5,
}

/// Code that grows.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    pub(crate) code: Vec<u8>,
    /// The places where another role begins.
    pub(crate) roles: Vec<(u32, Role)>,
    /// The place of each label, `usize::MAX` until it is known.
    labels: Vec<usize>,
    /// The places of distances to labels.
    fixes: Vec<(usize, Label)>,
    /// Instructions since the last charge.
    pub(crate) count: u32,
    /// With a budget: where charges lead that cannot be paid.
    trap: Option<Label>,
    /// The place of the last charge's amount.
    charge: Option<usize>,
}

impl Asm {
    pub(crate) fn new() -> Asm {
        Asm { code: Vec::with_capacity(2048), ..Asm::default() }
    }

    /// Begins the code of a role.
    pub(crate) fn role(&mut self, role: Role) {
        if self.roles.last().is_none_or(|(_, last)| *last != role) {
            self.roles.push((self.code.len() as u32, role));
        }
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(usize::MAX);
        Label(self.labels.len() - 1)
    }

    /// Makes each label a charge of a budget ([`sfi_contract`], rule 14 of the contract).
    pub(crate) fn with_budget(&mut self) {
        self.trap = Some(self.label());
    }

    /// Puts a label here. With a budget a charge follows it, because branches lead to charges only.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0] = self.code.len();
        self.charge();
    }

    /// Emits `sub $AMOUNT,%r14 ; jb TRAP` if there is a budget.
    pub(crate) fn charge(&mut self) {
        let Some(trap) = self.trap else { return };
        self.settle();
        self.code.extend_from_slice(&[0x49, 0x81, 0xee, 0, 0, 0, 0]);
        self.charge = Some(self.code.len() - 4);
        self.code.extend_from_slice(&[0x0f, 0x82]);
        self.distance(trap);
        self.count = 2;
    }

    /// Writes the last charge's amount: the number of instructions up to here.
    fn settle(&mut self) {
        if let Some(at) = self.charge.take() {
            self.code[at..at + 4].copy_from_slice(&self.count.to_le_bytes());
        }
    }

    /// Ends code with a budget by the trap.
    pub(crate) fn end(&mut self) {
        self.settle();
        if let Some(trap) = self.trap {
            self.labels[trap.0] = self.code.len();
            self.code.push(0xcc);
        }
    }

    /// Writes the distances of all branches.
    pub(crate) fn resolve(&mut self) {
        for (at, label) in &self.fixes {
            let distance = self.labels[label.0] as i64 - (*at as i64 + 4);
            self.code[*at..*at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
    }

    /// Ends code with a budget that other code follows: the trap is that code's.
    pub(crate) fn end_before(&mut self, next: &Asm) {
        self.settle();
        if let Some(trap) = self.trap {
            self.labels[trap.0] = self.code.len() + next.code.len() - 1;
            self.resolve();
        }
    }

    fn distance(&mut self, label: Label) {
        self.fixes.push((self.code.len(), label));
        self.code.extend_from_slice(&[0; 4]);
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.count += 1;
        self.code.push(0xe9);
        self.distance(label);
    }

    pub(crate) fn jump_if(&mut self, condition: Condition, label: Label) {
        self.count += 1;
        let at = self.labels[label.0];
        let back = at.wrapping_sub(self.code.len() + 2) as isize;
        if at != usize::MAX && back >= -128 {
            self.code.extend_from_slice(&[0x70 | condition as u8, back as u8]);
            return;
        }
        self.code.extend_from_slice(&[0x0f, 0x80 | condition as u8]);
        self.distance(label);
    }

    /// Emits a jump to a place so many bytes before the code's start.
    pub(crate) fn jump_before(&mut self, bytes: usize) {
        self.count += 1;
        let distance = -(bytes as i64 + self.code.len() as i64 + 5);
        self.code.push(0xe9);
        self.code.extend_from_slice(&(distance as i32).to_le_bytes());
    }

    pub(crate) fn call(&mut self, label: Label) {
        self.count += 1;
        self.code.push(0xe8);
        self.distance(label);
    }

    pub(crate) fn ret(&mut self) {
        self.count += 1;
        self.code.push(0xc3);
    }

    fn modrm(&mut self, reg: u8, rm: Rm) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(rm) => self.code.push(0xc0 | reg | rm & 7),
            Rm::Mem(Memory { base, distance, .. }) => {
                let short = i8::try_from(distance);
                let mode = match short {
                    Ok(0) if base & 7 != 5 => 0x00,
                    Ok(_) => 0x40,
                    Err(_) => 0x80,
                };
                self.code.push(mode | reg | base & 7);
                if base & 7 == 4 {
                    self.code.push(0x24);
                }
                match (mode, short) {
                    (0x40, Ok(short)) => self.code.push(short as u8),
                    (0x80, _) => self.code.extend_from_slice(&distance.to_le_bytes()),
                    _ => {}
                }
            }
        }
    }

    fn confine(&mut self, rm: Rm) {
        if let Rm::Mem(Memory { confined: true, .. }) = rm {
            self.code.extend_from_slice(&[0x65, 0x67]);
        }
    }

    /// Emits an instruction with a ModRM byte. `prefix` is 66, F2, F3 or 0. `byte` says that the
    /// register operands are bytes, so that sil and dil need an empty REX.
    pub(crate) fn form(&mut self, prefix: u8, opcode: &[u8], wide: bool, byte: bool, reg: u8, rm: Rm) {
        self.count += 1;
        self.confine(rm);
        if prefix != 0 {
            self.code.push(prefix);
        }
        let base = match rm {
            Rm::Reg(rm) => rm,
            Rm::Mem(memory) => memory.base,
        };
        let rex = u8::from(wide) << 3 | (reg >> 3) << 2 | base >> 3;
        let low = |register: u8| (4..8).contains(&register);
        let empty = byte && (low(reg) || matches!(rm, Rm::Reg(rm) if low(rm)));
        if rex != 0 || empty {
            self.code.push(0x40 | rex);
        }
        self.code.extend_from_slice(opcode);
        self.modrm(reg, rm);
    }

    /// Emits an instruction of a width whose opcode for bytes is one less.
    fn sized(&mut self, width: Width, opcode: u8, reg: u8, rm: Rm) {
        let prefix = if width == Width::W16 { 0x66 } else { 0 };
        let opcode = if width == Width::W8 { opcode - 1 } else { opcode };
        self.form(prefix, &[opcode], width == Width::W64, width == Width::W8, reg, rm);
    }

    pub(crate) fn alu(&mut self, action: Alu, width: Width, to: Gpr, from: Gpr) {
        self.sized(width, (action as u8) << 3 | 1, from, Rm::Reg(to));
    }

    /// Emits `to = to action [place]`.
    pub(crate) fn alu_memory(&mut self, action: Alu, width: Width, to: Gpr, from: Memory) {
        self.sized(width, (action as u8) << 3 | 3, to, Rm::Mem(from));
    }

    /// Says whether the number fits the instruction's field.
    pub(crate) fn fits(width: Width, number: u64) -> bool {
        width != Width::W64 || i32::try_from(number as i64).is_ok()
    }

    /// Emits an action with a number that [`Asm::fits`].
    pub(crate) fn alu_number(&mut self, action: Alu, width: Width, to: Gpr, number: u64) {
        let signed = match width {
            Width::W8 => i64::from(number as i8),
            Width::W16 => i64::from(number as i16),
            Width::W32 => i64::from(number as i32),
            Width::W64 => number as i64,
        };
        match i8::try_from(signed) {
            Ok(short) => {
                let opcode = if width == Width::W8 { 0x81 } else { 0x83 };
                self.sized(width, opcode, action as u8, Rm::Reg(to));
                self.code.push(short as u8);
            }
            Err(_) => {
                self.sized(width, 0x81, action as u8, Rm::Reg(to));
                let bytes = if width == Width::W16 { 2 } else { 4 };
                self.code.extend_from_slice(&signed.to_le_bytes()[..bytes]);
            }
        }
    }

    pub(crate) fn shift(&mut self, action: Shift, width: Width, to: Gpr, bits: u8) {
        self.sized(width, 0xc1, action as u8, Rm::Reg(to));
        self.code.push(bits);
    }

    pub(crate) fn not(&mut self, width: Width, to: Gpr) {
        self.sized(width, 0xf7, 2, Rm::Reg(to));
    }

    /// Emits a product. Bytes have none.
    pub(crate) fn multiply(&mut self, width: Width, to: Gpr, from: Gpr) {
        let prefix = if width == Width::W16 { 0x66 } else { 0 };
        self.form(prefix, &[0x0f, 0xaf], width == Width::W64, false, to, Rm::Reg(from));
    }

    pub(crate) fn swap(&mut self, width: Width, to: Gpr) {
        match width {
            Width::W8 => {}
            Width::W16 => self.shift(Shift::Rol, Width::W16, to, 8),
            Width::W32 | Width::W64 => {
                self.count += 1;
                let rex = u8::from(width == Width::W64) << 3 | to >> 3;
                if rex != 0 {
                    self.code.push(0x40 | rex);
                }
                self.code.extend_from_slice(&[0x0f, 0xc8 | to & 7]);
            }
        }
    }

    /// Emits a copy that clears the bits above the width.
    pub(crate) fn extend(&mut self, width: Width, to: Gpr, from: Rm) {
        match width {
            Width::W8 => self.form(0, &[0x0f, 0xb6], false, matches!(from, Rm::Reg(_)), to, from),
            Width::W16 => self.form(0, &[0x0f, 0xb7], false, false, to, from),
            Width::W32 | Width::W64 => self.form(0, &[0x8b], width == Width::W64, false, to, from),
        }
    }

    pub(crate) fn store(&mut self, width: Width, to: Memory, from: Gpr) {
        self.sized(width, 0x89, from, Rm::Mem(to));
    }

    /// Emits a number, extended with zeros.
    pub(crate) fn number(&mut self, to: Gpr, number: u64) {
        self.count += 1;
        match u32::try_from(number) {
            Ok(short) => {
                if to > 7 {
                    self.code.push(0x41);
                }
                self.code.push(0xb8 | to & 7);
                self.code.extend_from_slice(&short.to_le_bytes());
            }
            Err(_) => {
                self.code.extend_from_slice(&[0x48 | to >> 3, 0xb8 | to & 7]);
                self.code.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Emits `lea`. The address is not accessed, so it has no override.
    pub(crate) fn lea(&mut self, to: Gpr, base: Gpr, distance: i32) {
        self.form(0, &[0x8d], true, false, to, Rm::Mem(Memory { base, distance, confined: false }));
    }

    /// Sets a register to 0 or 1 by a condition.
    pub(crate) fn set(&mut self, condition: Condition, to: Gpr) {
        self.form(0, &[0x0f, 0x90 | condition as u8], false, true, 0, Rm::Reg(to));
        self.extend(Width::W8, to, Rm::Reg(to));
    }

    /// Emits the instruction for CRC-32C. It clears the upper half of the register.
    pub(crate) fn crc32c(&mut self, width: Width, to: Gpr, from: Gpr) {
        if width == Width::W16 {
            self.code.push(0x66);
        }
        let opcode = if width == Width::W8 { 0xf0 } else { 0xf1 };
        self.form(0xf2, &[0x0f, 0x38, opcode], width == Width::W64, width == Width::W8, to, Rm::Reg(from));
    }
}

/// An instruction on vectors: the prefix (1 is 66, 2 is F3, 3 is F2), the opcode map, the opcode,
/// and the bit W.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op(pub(crate) u8, pub(crate) u8, pub(crate) u8, pub(crate) bool);

/// The length of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// xmm in the encoding without VEX.
    Legacy,
    /// xmm.
    Xmm,
    /// ymm.
    Ymm,
}

impl Asm {
    /// Emits an instruction with VEX. `second` is the middle operand, 0 if there is none.
    pub(crate) fn vex(&mut self, op: Op, length: Length, reg: u8, second: u8, rm: Rm) {
        let Op(prefix, map, opcode, wide) = op;
        self.count += 1;
        self.confine(rm);
        let base = match rm {
            Rm::Reg(rm) => rm,
            Rm::Mem(memory) => memory.base,
        };
        let last = !second << 3 & 0x78 | u8::from(length == Length::Ymm) << 2 | prefix;
        let reg_bit = u8::from(reg < 8) << 7;
        if base < 8 && map == 1 && !wide {
            self.code.extend_from_slice(&[0xc5, reg_bit | last, opcode]);
        } else {
            let first = reg_bit | 0x40 | u8::from(base < 8) << 5 | map;
            self.code.extend_from_slice(&[0xc4, first, u8::from(wide) << 7 | last, opcode]);
        }
        self.modrm(reg, rm);
    }

    /// Emits an instruction on vectors with two operands.
    pub(crate) fn vector2(&mut self, op: Op, length: Length, reg: u8, rm: Rm) {
        if length != Length::Legacy {
            return self.vex(op, length, reg, 0, rm);
        }
        let Op(prefix, map, opcode, wide) = op;
        let prefix = [0, 0x66, 0xf3, 0xf2][usize::from(prefix)];
        match map {
            1 => self.form(prefix, &[0x0f, opcode], wide, false, reg, rm),
            2 => self.form(prefix, &[0x0f, 0x38, opcode], wide, false, reg, rm),
            _ => self.form(prefix, &[0x0f, 0x3a, opcode], wide, false, reg, rm),
        }
    }

    /// Emits `to = first op second`. Without VEX, `to` must not be `second` unless it is `first`.
    pub(crate) fn vector3(&mut self, op: Op, length: Length, to: Vector, first: Vector, second: Rm) {
        if length != Length::Legacy {
            return self.vex(op, length, to, first, second);
        }
        if to != first {
            self.vector2(MOVDQA, length, to, Rm::Reg(first));
        }
        self.vector2(op, length, to, second);
    }

    /// Emits `to = from shifted`. `group` is the number in the ModRM byte.
    pub(crate) fn vector_shift(&mut self, op: Op, group: u8, length: Length, to: Vector, from: Vector, bits: u8) {
        if length == Length::Legacy {
            if to != from {
                self.vector2(MOVDQA, length, to, Rm::Reg(from));
            }
            self.vector2(op, length, group, Rm::Reg(to));
        } else {
            self.vex(op, length, group, to, Rm::Reg(from));
        }
        self.code.push(bits);
    }

    /// Emits a byte: the immediate operand of the last instruction.
    pub(crate) fn immediate(&mut self, byte: u8) {
        self.code.push(byte);
    }
}

pub(crate) const MOVDQA: Op = Op(1, 1, 0x6f, false);
pub(crate) const MOVDQU_LOAD: Op = Op(2, 1, 0x6f, false);
pub(crate) const MOVDQU_STORE: Op = Op(2, 1, 0x7f, false);
/// `movq` of a general register to a vector.
pub(crate) const MOVQ_TO: Op = Op(1, 1, 0x6e, true);
/// `movq` of a vector to a general register.
pub(crate) const MOVQ_FROM: Op = Op(1, 1, 0x7e, true);
pub(crate) const PUNPCKLQDQ: Op = Op(1, 1, 0x6c, false);
pub(crate) const PCLMULQDQ: Op = Op(1, 3, 0x44, false);
pub(crate) const PXOR: Op = Op(1, 1, 0xef, false);
pub(crate) const POR: Op = Op(1, 1, 0xeb, false);
pub(crate) const PAND: Op = Op(1, 1, 0xdb, false);
pub(crate) const PADDD: Op = Op(1, 1, 0xfe, false);
pub(crate) const PADDQ: Op = Op(1, 1, 0xd4, false);
pub(crate) const PSHUFD: Op = Op(1, 1, 0x70, false);
pub(crate) const PSHUFB: Op = Op(1, 2, 0x00, false);
pub(crate) const PSADBW: Op = Op(1, 1, 0xf6, false);
pub(crate) const BLENDD: Op = Op(1, 3, 0x02, false);
pub(crate) const BROADCASTQ: Op = Op(1, 2, 0x59, false);
pub(crate) const BROADCASTI128: Op = Op(1, 2, 0x5a, false);
pub(crate) const PERM2I128: Op = Op(1, 3, 0x46, false);
pub(crate) const EXTRACTI128: Op = Op(1, 3, 0x39, false);
/// Shifts of 32-bit lanes: group 6 shifts to the left, group 2 to the right.
pub(crate) const SHIFT32: Op = Op(1, 1, 0x72, false);
/// Shifts of 64-bit lanes, and of the whole vector by bytes (group 3 to the right).
pub(crate) const SHIFT64: Op = Op(1, 1, 0x73, false);
/// Shifts of 16-bit lanes.
pub(crate) const SHIFT16: Op = Op(1, 1, 0x71, false);

impl Asm {
    /// Emits `[place] += number`, 64 bits wide.
    pub(crate) fn add_to_memory(&mut self, place: Memory, number: i32) {
        self.form(0, &[0x81], true, false, 0, Rm::Mem(place));
        self.code.extend_from_slice(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};

    fn text(emit: impl FnOnce(&mut Asm)) -> String {
        let mut asm = Asm::new();
        emit(&mut asm);
        let mut text = String::new();
        let mut decoder = Decoder::new(64, &asm.code, DecoderOptions::NONE);
        GasFormatter::new().format(&decoder.decode(), &mut text);
        assert!(!decoder.can_decode(), "{text} is not the whole code {:x?}", asm.code);
        text
    }

    fn at(base: Gpr, distance: i32, confined: bool) -> Memory {
        Memory { base, distance, confined }
    }

    #[test]
    fn places_in_memory() {
        let load = |place| text(|asm| asm.extend(Width::W64, RAX, Rm::Mem(place)));
        assert_eq!(load(at(RSI, 0, false)), "mov (%rsi),%rax");
        assert_eq!(load(at(5, 0, false)), "mov (%rbp),%rax");
        assert_eq!(load(at(13, 0, true)), "mov %gs:(%r13d),%rax");
        assert_eq!(load(at(12, -1, true)), "mov %gs:-1(%r12d),%rax");
        assert_eq!(load(at(4, 0x80, false)), "mov 0x80(%rsp),%rax");
        assert_eq!(load(at(R15, -0x80, false)), "mov -0x80(%r15),%rax");
    }

    #[test]
    fn registers_of_each_width() {
        let add = |width, to, from| text(|asm| asm.alu(Alu::Add, width, to, from));
        assert_eq!(add(Width::W8, RDI, RAX), "add %al,%dil");
        assert_eq!(add(Width::W8, RAX, 5), "add %bpl,%al");
        assert_eq!(add(Width::W16, 8, 9), "add %r9w,%r8w");
        assert_eq!(add(Width::W64, 14, RCX), "add %rcx,%r14");
        let store = |width| text(|asm| asm.store(width, at(RDI, 4, true), RSI));
        assert_eq!(store(Width::W8), "mov %sil,%gs:4(%edi)");
        assert_eq!(store(Width::W16), "mov %si,%gs:4(%edi)");
        assert_eq!(text(|asm| asm.extend(Width::W8, 9, Rm::Reg(RDI))), "movzbl %dil,%r9d");
        assert_eq!(text(|asm| asm.crc32c(Width::W16, 9, 10)), "crc32 %r10w,%r9d");
        assert_eq!(text(|asm| asm.swap(Width::W64, 9)), "bswap %r9");
    }

    #[test]
    fn numbers_take_the_shortest_field() {
        let and = |width, number| text(|asm| asm.alu_number(Alu::And, width, RCX, number));
        assert_eq!(and(Width::W8, 0x80), "and $0x80,%cl");
        assert_eq!(and(Width::W16, 0xfff0), "and $0xFFF0,%cx");
        assert_eq!(and(Width::W16, 0x1234), "and $0x1234,%cx");
        assert_eq!(and(Width::W32, 0x8000_0000), "and $0x80000000,%ecx");
        assert_eq!(and(Width::W64, u64::MAX), "and $0xFFFFFFFFFFFFFFFF,%rcx");
        assert!(Asm::fits(Width::W64, (-5_i64) as u64) && !Asm::fits(Width::W64, 0x8000_0000));
        assert_eq!(text(|asm| asm.number(9, 1 << 32)), "movabs $0x100000000,%r9");
        assert_eq!(text(|asm| asm.number(9, 5)), "mov $5,%r9d");
    }

    #[test]
    fn vectors_of_each_length() {
        let xor = |length| text(|asm| asm.vector3(PXOR, length, 3, 3, Rm::Reg(9)));
        assert_eq!(xor(Length::Legacy), "pxor %xmm9,%xmm3");
        assert_eq!(xor(Length::Xmm), "vpxor %xmm9,%xmm3,%xmm3");
        assert_eq!(xor(Length::Ymm), "vpxor %ymm9,%ymm3,%ymm3");
        let place = Rm::Mem(at(9, 32, true));
        let load = text(|asm| asm.vector2(MOVDQU_LOAD, Length::Ymm, 12, place));
        assert_eq!(load, "vmovdqu %gs:0x20(%r9d),%ymm12");
        assert_eq!(text(|asm| asm.vector2(MOVQ_TO, Length::Legacy, 9, Rm::Reg(10))), "movq %r10,%xmm9");
        assert_eq!(text(|asm| asm.vector_shift(SHIFT32, 2, Length::Ymm, 1, 9, 7)), "vpsrld $7,%ymm9,%ymm1");
    }
}
