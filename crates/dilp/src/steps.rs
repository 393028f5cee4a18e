//! The steps of a pipe as instructions on general registers.

use crate::asm::{Alu, Asm, Condition, Gpr, Length, MOVQ_FROM, MOVQ_TO, PCLMULQDQ, Rm, SHIFT64, Shift, Vector};
use crate::pipe::{Action, MAX_LOCALS, Operand, Step, Target, Width};
use crate::plan::Kind;
use crate::registers::Id;
use crate::scalar::Scalar;

/// The values of a pipe's temporary registers while it is applied to a word.
struct Locals {
    word: Option<Id>,
    locals: [Option<Id>; MAX_LOCALS],
    out: Option<Id>,
}

/// An operand, ready for an instruction.
#[derive(Clone, Copy)]
enum Argument {
    /// A value, and whether it ends here.
    Value(Id, bool),
    /// A persistent register, by its number in the composition.
    Keep(usize),
    Number(u64),
}

/// The vector register for products, and those with the constants of the polynomials.
const SCRATCH: Vector = 0;
pub(crate) const IEEE: Vector = 1;
pub(crate) const CASTAGNOLI: Vector = 2;

impl Scalar<'_, '_> {
    /// Applies the steps of a stage to a word of any width that it takes.
    pub(crate) fn steps(&mut self, stage: usize, (id, width): (Id, Width)) -> Id {
        let info = &self.plan.stages[stage];
        let is_tap = info.pipe.is_tap();
        let mut locals = Locals { word: Some(id), locals: [None; MAX_LOCALS], out: None };
        for (step, dies) in info.pipe.steps().iter().zip(&info.dies) {
            let mut step = *step;
            if info.kind != Kind::Steps {
                step.width = width;
            }
            self.one(stage, &step, *dies, &mut locals);
        }
        let out = if is_tap { locals.word.take() } else { locals.out };
        let rest = locals.locals.into_iter().chain([locals.word]);
        rest.flatten().for_each(|id| self.registers.end(id));
        out.expect("a pipe passes or writes a word")
    }

    fn argument(&self, stage: usize, operand: Operand, dies: bool, width: Width, locals: &mut Locals) -> Argument {
        let info = &self.plan.stages[stage];
        let value = match operand {
            Operand::In => &mut locals.word,
            Operand::Local(local) => &mut locals.locals[local],
            Operand::Keep(keep) => return Argument::Keep(info.first + keep),
            Operand::Number(number) => return Argument::Number(replicate(number, info.pipe.input, info.kind, width)),
        };
        let id = value.expect("a register that is read has a value");
        if dies {
            *value = None;
        }
        Argument::Value(id, dies)
    }

    fn one(&mut self, stage: usize, step: &Step, dies: [bool; 2], locals: &mut Locals) {
        let info = &self.plan.stages[stage];
        let (action, width) = (step.action, step.width);
        let mut a = self.argument(stage, step.a, dies[0], width, locals);
        let mut b = match action.is_unary() {
            true => Argument::Number(0),
            false => self.argument(stage, step.b, dies[1], width, locals),
        };
        let target = match step.target {
            Target::Keep(keep) => Some(info.first + keep),
            _ => None,
        };
        let is_target = |argument| matches!((argument, target), (Argument::Keep(keep), Some(target)) if keep == target);
        let ends = |argument| matches!(argument, Argument::Value(_, true));
        let better = is_target(b) || ends(b) && !ends(a) && !is_target(a) || matches!(a, Argument::Number(_));
        if action.is_symmetric() && better {
            std::mem::swap(&mut a, &mut b);
        }
        // The register of a CRC has 32 bits, whatever the word has.
        let own = if action.is_crc() { Width::W32 } else { width };
        let gauge = if matches!(info.kind, Kind::Lanes(_)) { info.pipe.input } else { width };
        if let (true, Some(keep)) = (is_target(a) && !is_target(b), target) {
            let kept = self.keep_width(keep);
            let (register, temporary) = self.home_register(self.homes[keep], Width::W64);
            if kept > own {
                self.asm.extend(own, register, Rm::Reg(register));
            }
            self.operate(action, width, gauge, register, b);
            return self.leave_home(self.homes[keep], register, temporary);
        }
        let result = self.fresh(a, own);
        let register = self.registers.get(&mut self.asm, result);
        self.operate(action, width, gauge, register, b);
        match step.target {
            Target::Keep(_) => {
                let register = self.registers.get(&mut self.asm, result);
                self.leave_home(self.homes[target.expect("it is a persistent register")], register, Some(result));
            }
            Target::Out => self.replace(&mut locals.out, result),
            Target::Local(local) => self.replace(&mut locals.locals[local], result),
        }
    }

    fn replace(&mut self, place: &mut Option<Id>, value: Id) {
        if let Some(old) = place.replace(value) {
            self.registers.end(old);
        }
    }

    /// Returns the width of a persistent register's contents.
    fn keep_width(&self, keep: usize) -> Width {
        let stage = self.plan.stages.iter().rfind(|stage| stage.first <= keep && !stage.pipe.keeps.is_empty());
        let stage = stage.expect("each register belongs to a stage");
        match stage.kind {
            Kind::Lanes(_) => Width::W64,
            _ => stage.pipe.keeps[keep - stage.first].width,
        }
    }

    /// Returns a value of its own with an operand's contents, cut to a width.
    fn fresh(&mut self, argument: Argument, width: Width) -> Id {
        match argument {
            Argument::Value(id, true) => {
                self.registers.cut(&mut self.asm, id, width);
                self.registers.set_width(id, width);
                id
            }
            Argument::Value(id, false) => {
                let copy = self.registers.copy(&mut self.asm, id, width);
                self.registers.set_width(copy, width);
                copy
            }
            Argument::Keep(keep) => {
                let (from, temporary) = self.home_register(self.homes[keep], Width::W64);
                if let Some(id) = temporary {
                    self.asm.extend(width, from, Rm::Reg(from));
                    self.registers.set_width(id, width);
                    self.registers.unlock();
                    return id;
                }
                let (id, to) = self.registers.make(&mut self.asm, width);
                self.asm.extend(width, to, Rm::Reg(from));
                self.registers.unlock();
                id
            }
            Argument::Number(number) => {
                let (id, to) = self.registers.make(&mut self.asm, width);
                self.asm.number(to, number & width.mask());
                self.registers.unlock();
                id
            }
        }
    }

    /// Emits `register = action register b`.
    fn operate(&mut self, action: Action, width: Width, gauge: Width, register: Gpr, b: Argument) {
        match action {
            Action::Move => {}
            Action::Not => self.asm.not(width, register),
            Action::Swap => {
                self.asm.swap(width, register);
                if width > gauge {
                    self.asm.shift(Shift::Rol, width, register, gauge.bits() as u8);
                }
            }
            Action::Shl | Action::Shr | Action::Rol | Action::Ror => {
                let Argument::Number(bits) = b else { unreachable!("shifts are by numbers") };
                self.asm.shift(shift(action), width, register, bits as u8);
            }
            _ => self.two(action, width, register, b),
        }
        self.registers.unlock();
        if !action.is_unary()
            && let Argument::Value(id, true) = b
        {
            self.registers.end(id);
        }
    }

    fn two(&mut self, action: Action, width: Width, register: Gpr, b: Argument) {
        if let (Some(alu), Argument::Number(number)) = (alu(action), b)
            && Asm::fits(width, number)
        {
            self.asm.alu_number(alu, width, register, number);
            return self.after(action, width, register);
        }
        let (other, temporary) = match b {
            Argument::Value(id, _) => (self.registers.get(&mut self.asm, id), None),
            Argument::Keep(keep) => self.home_register(self.homes[keep], Width::W64),
            Argument::Number(number) => {
                let (id, to) = self.registers.make(&mut self.asm, width);
                self.asm.number(to, number);
                (to, Some(id))
            }
        };
        match (action, alu(action)) {
            (_, Some(alu)) => {
                self.asm.alu(alu, width, register, other);
                self.after(action, width, register);
            }
            (Action::Mul, _) if width == Width::W8 => {
                self.asm.multiply(Width::W32, register, other);
                self.asm.extend(Width::W8, register, Rm::Reg(register));
            }
            (Action::Mul, _) => self.asm.multiply(width, register, other),
            _ => self.crc(action, width, register, other),
        }
        temporary.into_iter().for_each(|id| self.registers.end(id));
    }

    /// Emits what follows the arithmetic.
    fn after(&mut self, action: Action, width: Width, register: Gpr) {
        match action {
            Action::Ones => self.asm.alu_number(Alu::Adc, width, register, 0),
            Action::Less => self.asm.set(Condition::Below, register),
            Action::Equal => self.asm.set(Condition::Equal, register),
            _ => {}
        }
    }

    /// Emits the division of a word by a CRC's polynomial.
    pub(crate) fn crc(&mut self, action: Action, width: Width, register: Gpr, word: Gpr) {
        let (polynomial, constants) = polynomial(action);
        if action == Action::Crc32c && self.features.sse42 {
            self.asm.crc32c(width, register, word);
        } else if self.features.pclmul {
            self.multiplied(width, constants, register, word);
        } else {
            self.bit_by_bit(width, polynomial, register, word);
        }
    }

    /// Divides a word by two products without carries (see [`crate::crc::inverse`]).
    fn multiplied(&mut self, width: Width, constants: Vector, register: Gpr, word: Gpr) {
        let length = self.xmm();
        let (id, place) = self.registers.make(&mut self.asm, Width::W64);
        self.asm.extend(Width::W64, place, Rm::Reg(word));
        self.asm.alu(Alu::Xor, Width::W64, place, register);
        let bits = width.bits() as u8;
        if bits < 64 {
            self.asm.shift(Shift::Shl, Width::W64, place, 64 - bits);
        }
        self.asm.vector2(MOVQ_TO, length, SCRATCH, Rm::Reg(place));
        for halves in [0x00, 0x10] {
            self.asm.vector3(PCLMULQDQ, length, SCRATCH, SCRATCH, Rm::Reg(constants));
            self.asm.immediate(halves);
        }
        self.asm.vector_shift(SHIFT64, 3, length, SCRATCH, SCRATCH, 8);
        if bits >= 32 {
            self.asm.vector2(MOVQ_FROM, length, SCRATCH, Rm::Reg(register));
        } else {
            self.asm.vector2(MOVQ_FROM, length, SCRATCH, Rm::Reg(place));
            self.asm.shift(Shift::Shr, Width::W32, register, bits);
            self.asm.alu(Alu::Xor, Width::W32, register, place);
        }
        self.registers.end(id);
    }

    fn bit_by_bit(&mut self, width: Width, polynomial: u32, register: Gpr, word: Gpr) {
        let (id, mask) = self.registers.make(&mut self.asm, Width::W64);
        self.asm.extend(width, mask, Rm::Reg(word));
        self.asm.alu(Alu::Xor, Width::W64, register, mask);
        for _ in 0..width.bits() {
            self.asm.shift(Shift::Shr, Width::W64, register, 1);
            self.asm.alu(Alu::Sbb, Width::W32, mask, mask);
            self.asm.alu_number(Alu::And, Width::W32, mask, u64::from(polynomial));
            self.asm.alu(Alu::Xor, Width::W64, register, mask);
        }
        self.registers.end(id);
    }

    /// Returns the encoding of instructions on xmm registers.
    pub(crate) fn xmm(&self) -> Length {
        if self.features.avx2 { Length::Xmm } else { Length::Legacy }
    }
}

/// Returns a number for words of several lanes.
fn replicate(number: u64, gauge: Width, kind: Kind, width: Width) -> u64 {
    match kind {
        Kind::Lanes(_) => lanes(number, gauge) & width.mask(),
        _ => number,
    }
}

/// Returns a word with a number in each of its lanes.
pub(crate) fn lanes(number: u64, gauge: Width) -> u64 {
    (number & gauge.mask()) * (u64::MAX / gauge.mask())
}

/// Returns a CRC's polynomial, and the register with its constants.
pub(crate) fn polynomial(action: Action) -> (u32, Vector) {
    match action {
        Action::Crc32c => (crate::crc::CASTAGNOLI, CASTAGNOLI),
        _ => (crate::crc::IEEE, IEEE),
    }
}

fn shift(action: Action) -> Shift {
    match action {
        Action::Shl => Shift::Shl,
        Action::Shr => Shift::Shr,
        Action::Rol => Shift::Rol,
        _ => Shift::Ror,
    }
}

fn alu(action: Action) -> Option<Alu> {
    Some(match action {
        Action::Add | Action::Ones => Alu::Add,
        Action::Sub => Alu::Sub,
        Action::And => Alu::And,
        Action::Or => Alu::Or,
        Action::Xor => Alu::Xor,
        Action::Less | Action::Equal => Alu::Cmp,
        _ => return None,
    })
}
