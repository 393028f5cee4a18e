//! The loop on words of 256 bits. Each pipe works on the lanes of its gauge, so no word is cut.
//!
//! Registers from 15 down hold constants and sums for the whole loop. Those from 0 on hold the word
//! and temporary values.

use crate::asm::{BROADCASTQ, Length, MOVDQU_LOAD, MOVDQU_STORE, MOVQ_TO, Memory, PXOR, R15, RAX, Rm, Vector};
use crate::chacha;
use crate::lanes::{self, Constant};
use crate::pipe::{Action, MAX_LOCALS, Operand, Step, Target, Width};
use crate::plan::{Kind, Plan};
use crate::registers::{Home, Registers, SINK, SOURCE};
use crate::role::Role;
use crate::scalar::Scalar;

/// A stage and its registers.
#[derive(Debug)]
pub(crate) enum Stage {
    Nothing,
    Cipher(usize),
    /// Two sums of 64-bit lanes: of all bits modulo `2^64`, and of the upper halves.
    Ones([Vector; 2]),
    /// Four remainders and the constant that moves them on.
    Crc(Action, [Vector; 4], Vector),
    /// The sums of steps, by the number of the step.
    Steps(Vec<(usize, Vector)>),
}

/// The vector part of a composition.
#[derive(Debug)]
pub(crate) struct Vectors<'a, 'p> {
    pub(crate) plan: &'a Plan<'p>,
    pub(crate) homes: Vec<Home>,
    pub(crate) stages: Vec<Stage>,
    constants: Vec<(Constant, Vector)>,
    /// The lowest register that is in use for the whole loop.
    low: Vector,
    /// Registers that are free for the word and temporary values.
    free: u16,
    bytes: usize,
}

impl<'a, 'p> Vectors<'a, 'p> {
    /// Returns the vector part, `None` if some pipe allows none or if the registers are too few.
    pub(crate) fn new(plan: &'a Plan<'p>, homes: Vec<Home>, pclmul: bool) -> Option<Vectors<'a, 'p>> {
        let steps: usize = plan.stages.iter().map(|stage| stage.pipe.steps().len()).sum();
        let bytes = if steps > 16 { 64 } else { 128 };
        let stages = Vec::with_capacity(plan.stages.len());
        let mut vectors = Vectors { plan, homes, stages, constants: Vec::new(), low: 16, free: 0, bytes };
        let mut temporary = 3;
        for (number, stage) in plan.stages.iter().enumerate() {
            if stage.rate != 0 || stage.pipe.input != stage.pipe.output {
                return None;
            }
            let prepared = vectors.prepare(number, pclmul)?;
            vectors.stages.push(prepared);
            temporary = temporary.max(stage.pipe.locals.len() as u8 + 5);
        }
        if vectors.low < temporary {
            return None;
        }
        vectors.free = ((1_u32 << vectors.low) - 1) as u16;
        Some(vectors)
    }

    fn pin(&mut self) -> Option<Vector> {
        self.low = self.low.checked_sub(1)?;
        Some(self.low)
    }

    /// Asks for a constant.
    fn constant(&mut self, constant: Constant) -> Option<Vector> {
        if let Some((_, register)) = self.constants.iter().find(|(other, _)| *other == constant) {
            return Some(*register);
        }
        let register = self.pin()?;
        self.constants.push((constant, register));
        Some(register)
    }

    /// Returns the register of a constant that was asked for.
    pub(crate) fn held(&self, constant: Constant) -> Vector {
        let found = self.constants.iter().find(|(other, _)| *other == constant);
        found.expect("each constant was asked for").1
    }

    fn prepare(&mut self, number: usize, pclmul: bool) -> Option<Stage> {
        let stage = &self.plan.stages[number];
        Some(match stage.kind {
            Kind::Nothing => Stage::Nothing,
            Kind::Cipher(cipher) => Stage::Cipher(cipher),
            Kind::Ones => Stage::Ones([self.pin()?, self.pin()?]),
            Kind::Crc(action) if pclmul => {
                let sums = [self.pin()?, self.pin()?, self.pin()?, self.pin()?];
                Stage::Crc(action, sums, self.pin()?)
            }
            Kind::Crc(_) => return None,
            Kind::Lanes(_) | Kind::Steps => {
                let mut sums = Vec::new();
                for (at, step) in stage.pipe.steps().iter().enumerate() {
                    if self.prepare_step(number, step)? {
                        sums.push((at, self.pin()?));
                    }
                }
                Stage::Steps(sums)
            }
        })
    }

    /// Asks for the constants of a step. Returns `None` if it has no vector form, and otherwise
    /// whether it is a sum.
    fn prepare_step(&mut self, number: usize, step: &Step) -> Option<bool> {
        let stage = &self.plan.stages[number];
        let (gauge, first) = (stage.pipe.input, stage.first);
        let is_sum = matches!(step.target, Target::Keep(_));
        if is_sum {
            lanes::sum(stage.pipe, step).then_some(())?;
            if step.width != gauge {
                self.constant(Constant::Repeat(0))?;
            }
        } else if !lanes::has_form(step.action, step.width, gauge) {
            return None;
        }
        match step.action {
            Action::Not => {
                self.constant(Constant::Repeat(u64::MAX))?;
            }
            Action::Equal => {
                self.constant(Constant::Repeat(crate::steps::lanes(1, gauge)))?;
            }
            Action::Swap if gauge > Width::W8 => {
                self.constant(lanes::swap(gauge))?;
            }
            _ => {}
        }
        let skip = usize::from(is_sum);
        let count = if step.action.is_unary() || step.action.is_shift() { 1 } else { 2 };
        for operand in [step.a, step.b].into_iter().take(count).skip(skip) {
            self.operand_constant(operand, gauge, first).map_or(Some(0), |constant| self.constant(constant))?;
        }
        Some(is_sum)
    }

    /// Returns the constant that an operand is, if it is one.
    fn operand_constant(&self, operand: Operand, gauge: Width, first: usize) -> Option<Constant> {
        match operand {
            Operand::Number(number) => Some(Constant::Repeat(crate::steps::lanes(number, gauge))),
            Operand::Keep(keep) => Some(Constant::Keep(first + keep, gauge)),
            Operand::In | Operand::Local(_) => None,
        }
    }

    /// Returns the source bytes of a block.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Says whether some stage ends with products.
    pub(crate) fn has_crc(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Crc(..)))
    }

    /// Emits the loads of all constants and the starts of all sums. It changes rax, r8 and r9.
    pub(crate) fn begin(&self, scalar: &mut Scalar<'_, '_>) {
        scalar.asm.role(Role::Entry);
        for (constant, register) in &self.constants {
            self.load_constant(scalar, *constant, *register);
        }
        for (stage, info) in self.stages.iter().zip(&self.plan.stages) {
            match stage {
                Stage::Nothing | Stage::Cipher(_) => {}
                Stage::Ones(sums) => sums.iter().for_each(|sum| lanes::zero(&mut scalar.asm, *sum)),
                Stage::Crc(action, sums, fold) => self.begin_crc(scalar, *action, sums, *fold, info.first),
                Stage::Steps(sums) => {
                    for (step, sum) in sums {
                        let start = if info.pipe.steps()[*step].action == Action::And { u64::MAX } else { 0 };
                        self.load_constant(scalar, Constant::Repeat(start), *sum);
                    }
                }
            }
        }
    }

    fn load_constant(&self, scalar: &mut Scalar<'_, '_>, constant: Constant, register: Vector) {
        match constant {
            Constant::Repeat(0) => lanes::zero(&mut scalar.asm, register),
            Constant::Mask(low, high) => chacha::mask(&mut scalar.asm, register, 0, low, high),
            Constant::Repeat(number) => {
                scalar.asm.number(RAX, number);
                repeat(scalar, register);
            }
            Constant::Keep(keep, gauge) => {
                self.load_home(scalar, keep);
                scalar.asm.extend(gauge, RAX, Rm::Reg(RAX));
                if gauge < Width::W64 {
                    scalar.asm.number(8, u64::MAX / gauge.mask());
                    scalar.asm.multiply(Width::W64, RAX, 8);
                }
                repeat(scalar, register);
            }
        }
    }

    /// Copies a persistent register to rax.
    pub(crate) fn load_home(&self, scalar: &mut Scalar<'_, '_>, keep: usize) {
        let from = match self.homes[keep] {
            Home::Reg(register) => Rm::Reg(register),
            Home::Slot(slot) => Rm::Mem(scalar.registers.load_from(R15, slot)),
        };
        scalar.asm.extend(Width::W64, RAX, from);
    }

    /// Stores the registers below a number that the loop needs, and returns their places.
    pub(crate) fn save(&self, scalar: &mut Scalar<'_, '_>, below: Vector) -> Vec<(Vector, i32)> {
        let saved: Vec<_> = (self.low..below).map(|register| (register, scalar.registers.reserve(32))).collect();
        for (register, slot) in &saved {
            scalar.asm.vector2(MOVDQU_STORE, Length::Ymm, *register, Rm::Mem(Registers::slot(*slot)));
        }
        saved
    }

    /// Loads them again.
    pub(crate) fn restore(scalar: &mut Scalar<'_, '_>, saved: &[(Vector, i32)]) {
        for (register, slot) in saved {
            let slot = scalar.registers.load_from(R15, *slot);
            scalar.asm.vector2(MOVDQU_LOAD, Length::Ymm, *register, Rm::Mem(slot));
        }
    }

    pub(crate) fn take(&mut self) -> Vector {
        let register = self.free.trailing_zeros() as Vector;
        debug_assert!(register < self.low, "the registers were counted");
        self.free &= !(1 << register);
        register
    }

    pub(crate) fn give(&mut self, register: Vector) {
        self.free |= 1 << register;
    }

    /// Emits the way of a block through all stages.
    pub(crate) fn block(&mut self, scalar: &mut Scalar<'_, '_>) {
        for number in 0..self.bytes / 32 {
            let distance = 32 * number as i32;
            scalar.asm.role(Role::Load);
            let mut word = self.take();
            let source = scalar.registers.load_from(SOURCE, distance);
            scalar.asm.vector2(MOVDQU_LOAD, Length::Ymm, word, Rm::Mem(source));
            for stage in 0..self.stages.len() {
                scalar.asm.role(Role::Pipe(stage as u8));
                word = self.apply(scalar, stage, word, number);
            }
            if scalar.stores {
                scalar.asm.role(Role::Store);
                let place = Memory { base: SINK, distance, confined: true };
                scalar.asm.vector2(MOVDQU_STORE, Length::Ymm, word, Rm::Mem(place));
            }
            self.give(word);
        }
    }

    fn apply(&mut self, scalar: &mut Scalar<'_, '_>, stage: usize, word: Vector, number: usize) -> Vector {
        match self.stages[stage] {
            Stage::Nothing => word,
            Stage::Cipher(cipher) => {
                let (pointer, temporary) = scalar.home_register(scalar.pointers[cipher], Width::W64);
                let key = Rm::Mem(scalar.registers.load_from(pointer, 32 * number as i32));
                scalar.asm.vector3(PXOR, Length::Ymm, word, word, key);
                scalar.registers.unlock();
                temporary.into_iter().for_each(|id| scalar.registers.end(id));
                word
            }
            Stage::Ones(sums) => {
                let scratch = self.take();
                lanes::whole(&mut scalar.asm, word, scratch, sums);
                self.give(scratch);
                word
            }
            Stage::Crc(_, sums, fold) => {
                let scratch = [self.take(), self.take()];
                lanes::divide(&mut scalar.asm, word, scratch, fold, [sums[2 * number % 4], sums[2 * number % 4 + 1]]);
                scratch.into_iter().for_each(|register| self.give(register));
                word
            }
            Stage::Steps(_) => self.steps(scalar, stage, word),
        }
    }

    /// Emits the steps of a stage for a word, and returns the register of the result.
    fn steps(&mut self, scalar: &mut Scalar<'_, '_>, stage: usize, word: Vector) -> Vector {
        let info = &self.plan.stages[stage];
        let is_tap = info.pipe.is_tap();
        let mut locals = [None; MAX_LOCALS + 2];
        const OUT: usize = MAX_LOCALS + 1;
        locals[0] = Some(word);
        for (number, (step, dies)) in info.pipe.steps().iter().zip(&info.dies).enumerate() {
            let get = |vectors: &Self, operand| match operand {
                Operand::In => locals[0],
                Operand::Local(local) => locals[local + 1],
                _ => vectors.operand_constant(operand, info.pipe.input, info.first).map(|c| vectors.held(c)),
            };
            let single = step.action.is_unary() || step.action.is_shift();
            let b = if single { None } else { get(self, step.b) };
            if let Target::Keep(_) = step.target {
                let Stage::Steps(sums) = &self.stages[stage] else { unreachable!("the stage has steps") };
                let sum = sums.iter().find(|(at, _)| *at == number).expect("each sum has a register").1;
                let b = b.expect("a sum has two operands");
                self.sum(scalar, step, info.pipe.input, sum, b);
            } else {
                let a = get(self, step.a).expect("an operand has a register");
                let to = self.take();
                self.compute(scalar, step, info.pipe.input, [to, a, b.unwrap_or(a)]);
                let slot = if let Target::Local(local) = step.target { local + 1 } else { OUT };
                self.end_operands(step, *dies, &mut locals);
                if let Some(old) = locals[slot].replace(to) {
                    self.give(old);
                }
                continue;
            }
            self.end_operands(step, *dies, &mut locals);
        }
        let out = locals[if is_tap { 0 } else { OUT }].take().expect("a pipe passes or writes a word");
        locals.into_iter().flatten().for_each(|register| self.give(register));
        out
    }

    fn end_operands(&mut self, step: &Step, dies: [bool; 2], locals: &mut [Option<Vector>]) {
        for (operand, _) in [step.a, step.b].into_iter().zip(dies).filter(|(_, dies)| *dies) {
            let slot = if let Operand::Local(local) = operand { local + 1 } else { 0 };
            if let Some(register) = locals[slot].take() {
                self.give(register);
            }
        }
    }
}

/// Copies rax to all four parts of a register.
fn repeat(scalar: &mut Scalar<'_, '_>, register: Vector) {
    scalar.asm.vector2(MOVQ_TO, Length::Xmm, register, Rm::Reg(RAX));
    scalar.asm.vector2(BROADCASTQ, Length::Ymm, register, Rm::Reg(register));
}
