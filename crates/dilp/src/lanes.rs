//! Operations on the lanes of vectors.

use crate::asm::{
    Asm, BLENDD, EXTRACTI128, Length, MOVQ_TO, Op, PADDD, PADDQ, PAND, PCLMULQDQ, POR, PSHUFB, PUNPCKLQDQ, PXOR, RAX,
    Rm, SHIFT16, SHIFT32, SHIFT64, Vector,
};
use crate::crc::power;
use crate::pipe::{Action, Operand, Pipe, Step, Target, Width};
use crate::steps::polynomial;

/// A value that a register holds for the whole loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    /// 64 bits, repeated.
    Repeat(u64),
    /// 128 bits, repeated.
    Mask(u64, u64),
    /// A persistent register, by its number in the composition, in lanes of a width.
    Keep(usize, Width),
}

/// Clears a register.
pub(crate) fn zero(asm: &mut Asm, register: Vector) {
    asm.vector3(PXOR, Length::Xmm, register, register, Rm::Reg(register));
}

/// Copies the upper half of a register.
pub(crate) fn upper(asm: &mut Asm, to: Vector, from: Vector) {
    asm.vector2(EXTRACTI128, Length::Ymm, from, Rm::Reg(to));
    asm.immediate(1);
}

/// Says whether a step without a persistent target has a vector form.
pub(crate) fn has_form(action: Action, width: Width, gauge: Width) -> bool {
    use Action::{Add, And, Equal, Move, Mul, Not, Or, Rol, Ror, Shl, Shr, Sub, Swap, Xor};
    width == gauge
        && match action {
            Move | Add | Sub | And | Or | Xor | Not | Swap | Equal => true,
            Shl | Shr | Rol | Ror => gauge > Width::W8,
            Mul => matches!(gauge, Width::W16 | Width::W32),
            Action::Ones | Action::Less | Action::Crc32 | Action::Crc32c => false,
        }
}

/// Says whether a step is a sum over all words in any order.
pub(crate) fn sum(pipe: &Pipe, step: &Step) -> bool {
    let Target::Keep(keep) = step.target else { return false };
    let own = Operand::Keep(keep);
    let readers = pipe.steps().iter().flat_map(|step| [step.a, step.b]).filter(|operand| *operand == own).count();
    let writers = pipe.steps().iter().filter(|other| other.target == step.target).count();
    let same = step.width == pipe.input && pipe.keeps[keep].width == pipe.input;
    let wide = step.width == Width::W64 && pipe.keeps[keep].width == Width::W64 && step.b == Operand::In;
    let action = match step.action {
        Action::Add => same || wide && matches!(pipe.input, Width::W8 | Width::W32),
        Action::Xor | Action::Or | Action::And => same,
        _ => false,
    };
    pipe.is_commutative && action && (readers, writers) == (1, 1) && step.a == own
}

/// Returns the mask that reverses the bytes of each lane.
pub(crate) fn swap(gauge: Width) -> Constant {
    let low = match gauge {
        Width::W8 => 0x0706_0504_0302_0100,
        Width::W16 => 0x0607_0405_0203_0001,
        Width::W32 => 0x0405_0607_0001_0203,
        Width::W64 => 0x0001_0203_0405_0607,
    };
    Constant::Mask(low, low + 0x0808_0808_0808_0808)
}

/// Adds the lower and the upper halves of 64-bit lanes to sums.
pub(crate) fn halves(asm: &mut Asm, word: Vector, scratch: Vector, zero: Vector, [low, high]: [Vector; 2]) {
    asm.vector_shift(SHIFT64, 2, Length::Ymm, scratch, word, 32);
    asm.vector3(PADDQ, Length::Ymm, high, high, Rm::Reg(scratch));
    asm.vector3(BLENDD, Length::Ymm, scratch, word, Rm::Reg(zero));
    asm.immediate(0xaa);
    asm.vector3(PADDQ, Length::Ymm, low, low, Rm::Reg(scratch));
}

/// Adds 64-bit lanes, modulo `2^64`, and their upper halves to sums. That of the lower halves is
/// the difference, see [`lower`].
pub(crate) fn whole(asm: &mut Asm, word: Vector, scratch: Vector, [all, high]: [Vector; 2]) {
    asm.vector_shift(SHIFT64, 2, Length::Ymm, scratch, word, 32);
    asm.vector3(PADDQ, Length::Ymm, all, all, Rm::Reg(word));
    asm.vector3(PADDQ, Length::Ymm, high, high, Rm::Reg(scratch));
}

/// Makes the sums of [`whole`] those of the lower and of the upper halves. Less than `2^32` lower
/// halves have a sum below `2^64`, so it is exact.
pub(crate) fn lower(asm: &mut Asm, scratch: Vector, [all, high]: [Vector; 2]) {
    asm.vector_shift(SHIFT64, 6, Length::Ymm, scratch, high, 32);
    asm.vector3(arithmetic(Action::Sub, Width::W64), Length::Ymm, all, all, Rm::Reg(scratch));
}

/// Moves two remainders on by 64 bytes, and adds the halves of a word to them.
pub(crate) fn divide(asm: &mut Asm, word: Vector, scratch: [Vector; 2], fold: Vector, sums: [Vector; 2]) {
    upper(asm, scratch[0], word);
    for (sum, half) in sums.into_iter().zip([word, scratch[0]]) {
        move_on(asm, sum, scratch[1], fold);
        asm.vector3(PXOR, Length::Xmm, sum, sum, Rm::Reg(half));
    }
}

pub(crate) fn move_on(asm: &mut Asm, sum: Vector, scratch: Vector, fold: Vector) {
    asm.vector3(PCLMULQDQ, Length::Xmm, scratch, sum, Rm::Reg(fold));
    asm.immediate(0x00);
    asm.vector3(PCLMULQDQ, Length::Xmm, sum, sum, Rm::Reg(fold));
    asm.immediate(0x11);
    asm.vector3(PXOR, Length::Xmm, sum, sum, Rm::Reg(scratch));
}

/// Loads the constant that moves a remainder on by some bits. In products of reflected numbers the
/// factor for the lower half is `x^(bits + 31)`, and that for the upper half `x^(bits - 33)`. It
/// changes rax and vector register 0.
pub(crate) fn load_fold(asm: &mut Asm, action: Action, to: Vector, bits: u32) {
    let (polynomial, _) = polynomial(action);
    for (register, power_of) in [(to, bits + 31), (0, bits - 33)] {
        asm.number(RAX, u64::from(power(polynomial, power_of)));
        asm.vector2(MOVQ_TO, Length::Xmm, register, Rm::Reg(RAX));
    }
    asm.vector3(PUNPCKLQDQ, Length::Xmm, to, to, Rm::Reg(0));
}

pub(crate) fn arithmetic(action: Action, gauge: Width) -> Op {
    let index = gauge as usize;
    match action {
        Action::Add => [Op(1, 1, 0xfc, false), Op(1, 1, 0xfd, false), PADDD, PADDQ][index],
        Action::Sub => Op(1, 1, 0xf8 + index as u8, false),
        Action::Mul if gauge == Width::W16 => Op(1, 1, 0xd5, false),
        Action::Mul => Op(1, 2, 0x40, false),
        Action::And => PAND,
        Action::Or | Action::Move => POR,
        Action::Equal if gauge == Width::W64 => Op(1, 2, 0x29, false),
        Action::Equal => Op(1, 1, 0x74 + index as u8, false),
        Action::Swap => PSHUFB,
        _ => PXOR,
    }
}

/// Emits a shift or a rotation of lanes.
pub(crate) fn shift(asm: &mut Asm, action: Action, gauge: Width, [to, from, scratch]: [Vector; 3], bits: u8) {
    let op = match gauge {
        Width::W16 => SHIFT16,
        Width::W32 => SHIFT32,
        _ => SHIFT64,
    };
    let (left, right, whole) = (6, 2, gauge.bits() as u8);
    match action {
        Action::Shl => asm.vector_shift(op, left, Length::Ymm, to, from, bits),
        Action::Shr => asm.vector_shift(op, right, Length::Ymm, to, from, bits),
        _ => {
            let bits = if action == Action::Rol { bits } else { (whole - bits) % whole };
            asm.vector_shift(op, left, Length::Ymm, scratch, from, bits);
            asm.vector_shift(op, right, Length::Ymm, to, from, whole - bits);
            asm.vector3(POR, Length::Ymm, to, to, Rm::Reg(scratch));
        }
    }
}
