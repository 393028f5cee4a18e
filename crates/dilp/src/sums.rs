//! The steps of vectors, and the beginnings and ends of sums.

use crate::asm::{
    Alu, Asm, Gpr, Length, MOVQ_FROM, MOVQ_TO, Op, PADDQ, PAND, PCLMULQDQ, POR, PSADBW, PXOR, RAX, Rm, SHIFT64, Shift,
    Vector,
};
use crate::crc::negative_power;
use crate::lanes::{Constant, arithmetic, halves, load_fold, lower, move_on, shift, swap, upper, zero};
use crate::pipe::{Action, Operand, Step, Target, Width};
use crate::role::Role;
use crate::scalar::Scalar;
use crate::steps::polynomial;
use crate::vector::{Stage, Vectors};

fn alu(action: Action) -> Alu {
    match action {
        Action::Add => Alu::Add,
        Action::Or => Alu::Or,
        Action::And => Alu::And,
        _ => Alu::Xor,
    }
}

impl Vectors<'_, '_> {
    /// Emits `to = action a b` on the lanes of a gauge.
    pub(crate) fn compute(&mut self, scalar: &mut Scalar<'_, '_>, step: &Step, gauge: Width, [to, a, b]: [Vector; 3]) {
        let asm = &mut scalar.asm;
        let op = arithmetic(step.action, gauge);
        let three = |asm: &mut Asm, b| asm.vector3(op, Length::Ymm, to, a, Rm::Reg(b));
        match step.action {
            Action::Not => three(asm, self.held(Constant::Repeat(u64::MAX))),
            Action::Swap if gauge > Width::W8 => three(asm, self.held(swap(gauge))),
            Action::Swap => asm.vector3(POR, Length::Ymm, to, a, Rm::Reg(a)),
            Action::Equal => {
                three(asm, b);
                let one = self.held(Constant::Repeat(crate::steps::lanes(1, gauge)));
                asm.vector3(PAND, Length::Ymm, to, to, Rm::Reg(one));
            }
            Action::Shl | Action::Shr | Action::Rol | Action::Ror => {
                let Operand::Number(bits) = step.b else { unreachable!("shifts are by numbers") };
                let scratch = self.take();
                shift(asm, step.action, gauge, [to, a, scratch], bits as u8);
                self.give(scratch);
            }
            _ => three(asm, b),
        }
    }

    /// Emits `sum = action sum b`.
    pub(crate) fn sum(&mut self, scalar: &mut Scalar<'_, '_>, step: &Step, gauge: Width, sum: Vector, b: Vector) {
        let asm = &mut scalar.asm;
        if step.width == gauge {
            return asm.vector3(arithmetic(step.action, gauge), Length::Ymm, sum, sum, Rm::Reg(b));
        }
        let (scratch, zero) = (self.take(), self.held(Constant::Repeat(0)));
        if gauge == Width::W32 {
            halves(asm, b, scratch, zero, [sum, sum]);
        } else {
            asm.vector3(PSADBW, Length::Ymm, scratch, b, Rm::Reg(zero));
            asm.vector3(PADDQ, Length::Ymm, sum, sum, Rm::Reg(scratch));
        }
        self.give(scratch);
    }

    /// Starts the remainders. The CRC so far becomes a remainder that, moved on by 64 bytes, is
    /// that CRC at the first bytes.
    pub(crate) fn begin_crc(
        &self,
        scalar: &mut Scalar<'_, '_>,
        action: Action,
        sums: &[Vector; 4],
        fold: Vector,
        keep: usize,
    ) {
        load_fold(&mut scalar.asm, action, fold, 512);
        sums[1..].iter().for_each(|sum| zero(&mut scalar.asm, *sum));
        self.load_home(scalar, keep);
        let asm = &mut scalar.asm;
        asm.vector2(MOVQ_TO, Length::Xmm, sums[0], Rm::Reg(RAX));
        asm.number(RAX, u64::from(negative_power(polynomial(action).0, 481)));
        asm.vector2(MOVQ_TO, Length::Xmm, 0, Rm::Reg(RAX));
        asm.vector3(PCLMULQDQ, Length::Xmm, sums[0], sums[0], Rm::Reg(0));
        asm.immediate(0x00);
    }

    /// Emits the ends of all sums: they go to the persistent registers. It changes rax, r8 and
    /// vector registers below those of the loop, but not 1 and 2.
    pub(crate) fn end(&self, scalar: &mut Scalar<'_, '_>) {
        for (number, (stage, info)) in self.stages.iter().zip(&self.plan.stages).enumerate() {
            scalar.asm.role(Role::Pipe(number as u8));
            match stage {
                Stage::Nothing | Stage::Cipher(_) => {}
                Stage::Ones(sums) => self.end_ones(scalar, info.first, *sums),
                Stage::Crc(action, sums, fold) => self.end_crc(scalar, *action, *sums, *fold, info.first),
                Stage::Steps(sums) => {
                    for (step, sum) in sums {
                        self.end_sum(scalar, &info.pipe.steps()[*step], info.first, *sum);
                    }
                }
            }
        }
    }

    /// Joins the lanes of a sum into the lowest one, and copies it to a general register.
    fn join(asm: &mut Asm, op: Op, width: Width, sum: Vector, to: Gpr) {
        upper(asm, 0, sum);
        asm.vector3(op, Length::Xmm, sum, sum, Rm::Reg(0));
        let mut bytes = 8;
        while bytes >= width.bytes() {
            asm.vector_shift(SHIFT64, 3, Length::Xmm, 0, sum, bytes as u8);
            asm.vector3(op, Length::Xmm, sum, sum, Rm::Reg(0));
            bytes /= 2;
        }
        asm.vector2(MOVQ_FROM, Length::Xmm, sum, Rm::Reg(to));
    }

    fn end_sum(&self, scalar: &mut Scalar<'_, '_>, step: &Step, first: usize, sum: Vector) {
        let Target::Keep(keep) = step.target else { unreachable!("a sum has a register") };
        let (id, part) = scalar.registers.make(&mut scalar.asm, Width::W64);
        Self::join(&mut scalar.asm, arithmetic(step.action, step.width), step.width, sum, part);
        let home = scalar.homes[first + keep];
        let (register, temporary) = scalar.home_register(home, Width::W64);
        scalar.asm.alu(alu(step.action), step.width, register, part);
        scalar.leave_home(home, register, temporary);
        scalar.registers.end(id);
    }

    /// Adds `low + 2^32 high` modulo `2^64 - 1`.
    fn end_ones(&self, scalar: &mut Scalar<'_, '_>, keep: usize, sums: [Vector; 2]) {
        let home = scalar.homes[keep];
        lower(&mut scalar.asm, 0, sums);
        for (sum, turn) in sums.into_iter().zip([0, 32]) {
            let (id, part) = scalar.registers.make(&mut scalar.asm, Width::W64);
            Self::join(&mut scalar.asm, PADDQ, Width::W64, sum, part);
            if turn > 0 {
                scalar.asm.shift(Shift::Rol, Width::W64, part, turn);
            }
            let (register, temporary) = scalar.home_register(home, Width::W64);
            scalar.asm.alu(Alu::Add, Width::W64, register, part);
            scalar.asm.alu_number(Alu::Adc, Width::W64, register, 0);
            scalar.leave_home(home, register, temporary);
            scalar.registers.end(id);
        }
    }

    /// Moves the first remainders on to the last one. The CRC of its 16 bytes is the result.
    fn end_crc(&self, scalar: &mut Scalar<'_, '_>, action: Action, sums: [Vector; 4], fold: Vector, keep: usize) {
        let asm = &mut scalar.asm;
        load_fold(asm, action, fold, 128);
        for next in &sums[1..] {
            move_on(asm, sums[0], 0, fold);
            asm.vector3(PXOR, Length::Xmm, sums[0], sums[0], Rm::Reg(*next));
        }
        let home = scalar.homes[keep];
        let (id, part) = scalar.registers.make(&mut scalar.asm, Width::W64);
        let (register, temporary) = scalar.home_register(home, Width::W64);
        scalar.asm.number(register, 0);
        for _ in 0..2 {
            scalar.asm.vector2(MOVQ_FROM, Length::Xmm, sums[0], Rm::Reg(part));
            scalar.asm.vector_shift(SHIFT64, 3, Length::Xmm, sums[0], sums[0], 8);
            scalar.crc(action, Width::W64, register, part);
        }
        scalar.leave_home(home, register, temporary);
        scalar.registers.end(id);
    }
}
