//! The words of the stream, one after the other, through all stages: general registers only.

use crate::asm::{Alu, Asm, Gpr, Memory, Rm, Shift};
use crate::options::{Features, Options, Sink};
use crate::pipe::{Tail, Width};
use crate::plan::{Kind, Plan};
use crate::registers::{Home, Id, Registers, SINK, SOURCE};
use crate::role::Role;
use sfi_contract::Mode;

/// A value together with the number of its bytes.
type Word = (Id, Width);

/// The state of the emission of scalar code.
#[derive(Debug)]
pub(crate) struct Scalar<'a, 'p> {
    pub(crate) asm: Asm,
    pub(crate) plan: &'a Plan<'p>,
    pub(crate) registers: Registers,
    /// The place of each persistent register.
    pub(crate) homes: Vec<Home>,
    /// The place of each cipher's pointer into its key stream.
    pub(crate) pointers: Vec<Home>,
    /// The instructions that the processor has.
    pub(crate) features: Features,
    /// The words leave the loop by a store.
    pub(crate) stores: bool,
    /// Parts of words that wait for the rest, for each stage.
    held: Vec<Option<(Id, usize)>>,
    /// Bytes of the key streams that the block has used.
    cipher_at: Vec<i32>,
    source_at: i32,
    sink_at: i32,
}

impl<'a, 'p> Scalar<'a, 'p> {
    pub(crate) fn new(plan: &'a Plan<'p>, options: &Options) -> Scalar<'a, 'p> {
        let mut registers = Registers::new(options.mode == Mode::Full, options.budget);
        let pointers = (0..plan.ciphers).map(|_| registers.pin()).collect();
        let homes = plan.stages.iter().flat_map(|stage| stage.pipe.keeps.iter().map(move |_| stage.kind));
        // The cipher has its registers in its own state.
        let homes = homes.map(|kind| match kind {
            Kind::Cipher(_) => Home::Slot(i32::MAX),
            _ => registers.pin(),
        });
        let homes = homes.collect();
        let held = plan.stages.iter().map(|_| None).collect();
        let cipher_at = vec![0; plan.ciphers];
        let (features, stores) = (options.features, options.sink == Sink::Store);
        let mut asm = Asm::new();
        if options.budget {
            asm.with_budget();
        }
        let (source_at, sink_at) = (0, 0);
        Scalar { asm, plan, registers, homes, pointers, features, stores, held, cipher_at, source_at, sink_at }
    }

    /// Emits the way of so many source bytes through all stages. With `ends` they are the last ones
    /// of the stream. Returns the bytes that were stored.
    pub(crate) fn block(&mut self, bytes: usize, ends: bool) -> i32 {
        (self.source_at, self.sink_at) = (0, 0);
        self.cipher_at.fill(0);
        let most = self.load_width();
        let mut left = bytes;
        while left > 0 {
            let width = Width::from_bytes(left.min(most.bytes()));
            self.asm.role(Role::Load);
            let (id, register) = self.registers.make(&mut self.asm, width);
            let place = self.registers.load_from(SOURCE, self.source_at);
            self.asm.extend(width, register, Rm::Mem(place));
            self.registers.unlock();
            self.source_at += width.bytes() as i32;
            left -= width.bytes();
            self.push(0, (id, width));
        }
        for stage in 0..self.plan.stages.len() {
            if let Some((id, bytes)) = self.held[stage].take() {
                assert!(ends, "a block is a multiple of the unit");
                self.last(stage, id, bytes);
            }
        }
        self.registers.clear();
        self.sink_at
    }

    /// Returns the bytes of a cipher's key stream that the last block used.
    pub(crate) fn cipher_used(&self, cipher: usize) -> i32 {
        self.cipher_at[cipher]
    }

    /// Returns the width of loads: all stages before the first one that cuts words take it.
    fn load_width(&self) -> Width {
        let mut least = Width::W8;
        for stage in &self.plan.stages {
            least = least.max(stage.pipe.input);
            if !stage.accepts(Width::W64) && !stage.pipe.is_tap() {
                return least;
            }
        }
        Width::W64
    }

    /// Sends a word into a stage.
    fn push(&mut self, stage: usize, (id, width): Word) {
        let Some(info) = self.plan.stages.get(stage) else { return self.sink((id, width)) };
        if info.accepts(width) {
            return self.whole(stage, (id, width));
        }
        // Words wider than the stage takes are cut to its widest.
        let piece = match info.kind {
            Kind::Lanes(most) => most,
            _ => info.pipe.input,
        };
        if width < info.pipe.input {
            self.gather(stage, (id, width));
        } else if info.pipe.is_tap() {
            let copy = self.registers.copy(&mut self.asm, id, width);
            self.cut(stage, (copy, width), piece, false);
            self.push(stage + 1, (id, width));
        } else {
            self.cut(stage, (id, width), piece, true);
        }
    }

    /// Cuts a word into pieces for a stage.
    fn cut(&mut self, stage: usize, (id, width): Word, piece: Width, passes: bool) {
        let count = width.bytes() / piece.bytes();
        for number in 0..count {
            self.asm.role(Role::Convert(stage as u8));
            let part = if number + 1 == count { id } else { self.registers.copy(&mut self.asm, id, piece) };
            if number + 1 < count {
                let register = self.registers.get(&mut self.asm, id);
                self.asm.shift(Shift::Shr, width, register, piece.bits() as u8);
                self.registers.unlock();
            } else {
                self.registers.set_width(id, piece);
            }
            if passes {
                self.whole(stage, (part, piece));
            } else {
                let out = self.apply(stage, (part, piece));
                self.registers.end(out);
            }
        }
    }

    /// Collects words until they fill one of the stage's gauge.
    fn gather(&mut self, stage: usize, (id, width): Word) {
        let info = &self.plan.stages[stage];
        self.asm.role(Role::Convert(stage as u8));
        let is_tap = info.pipe.is_tap();
        let part = if is_tap { self.registers.copy(&mut self.asm, id, width) } else { id };
        let (all, bytes) = match self.held[stage].take() {
            None => (part, 0),
            Some((held, bytes)) => {
                self.join(held, part, bytes);
                (held, bytes)
            }
        };
        let (bytes, gauge) = (bytes + width.bytes(), info.pipe.input);
        if bytes < gauge.bytes() {
            self.held[stage] = Some((all, bytes));
        } else if is_tap {
            self.registers.set_width(all, gauge);
            let out = self.apply(stage, (all, gauge));
            self.registers.end(out);
        } else {
            self.registers.set_width(all, gauge);
            self.whole(stage, (all, gauge));
        }
        if is_tap {
            self.push(stage + 1, (id, width));
        }
    }

    /// Puts a part above the bytes that are there.
    fn join(&mut self, held: Id, part: Id, bytes: usize) {
        let register = self.registers.get(&mut self.asm, part);
        self.asm.shift(Shift::Shl, Width::W64, register, 8 * bytes as u8);
        let to = self.registers.get(&mut self.asm, held);
        self.asm.alu(Alu::Or, Width::W64, to, register);
        self.registers.set_width(held, Width::W64);
        self.registers.unlock();
        self.registers.end(part);
    }

    /// Applies a stage to a word that it takes, and sends the result on.
    fn whole(&mut self, stage: usize, (id, width): Word) {
        let out = self.apply(stage, (id, width));
        let info = &self.plan.stages[stage];
        let width = if info.pipe.input == info.pipe.output { width } else { info.pipe.output };
        self.push(stage + 1, (out, width));
    }

    /// Ends the stream at a stage that holds a part of a word.
    fn last(&mut self, stage: usize, id: Id, bytes: usize) {
        let pipe = self.plan.stages[stage].pipe;
        if pipe.is_tap() {
            let out = if pipe.tail == Tail::Pass { id } else { self.apply(stage, (id, pipe.input)) };
            self.registers.end(out);
            return;
        }
        let (out, real) = match pipe.tail {
            Tail::Pass => (id, bytes),
            Tail::Pad => {
                let real = (bytes * pipe.output.bytes()).div_ceil(pipe.input.bytes());
                (self.apply(stage, (id, pipe.input)), real)
            }
        };
        self.pieces(stage + 1, out, real);
    }

    /// Sends the first bytes of a word on, in pieces.
    fn pieces(&mut self, stage: usize, id: Id, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let width = Width::from_bytes(left);
            left -= width.bytes();
            self.asm.role(Role::Convert(stage as u8 - 1));
            if left == 0 {
                self.registers.cut(&mut self.asm, id, width);
                return self.push(stage, (id, width));
            }
            let piece = self.registers.copy(&mut self.asm, id, width);
            let register = self.registers.get(&mut self.asm, id);
            self.asm.shift(Shift::Shr, Width::W64, register, width.bits() as u8);
            self.registers.unlock();
            self.push(stage, (piece, width));
        }
    }

    fn sink(&mut self, (id, width): Word) {
        if self.stores {
            self.asm.role(Role::Store);
            let register = self.registers.get(&mut self.asm, id);
            self.asm.store(width, Memory { base: SINK, distance: self.sink_at, confined: true }, register);
            self.registers.unlock();
        }
        self.sink_at += width.bytes() as i32;
        self.registers.end(id);
    }

    /// Applies a stage to a word, and returns the result.
    fn apply(&mut self, stage: usize, (id, width): Word) -> Id {
        let info = &self.plan.stages[stage];
        self.asm.role(Role::Pipe(stage as u8));
        match info.kind {
            Kind::Nothing => id,
            Kind::Cipher(cipher) => {
                self.cipher(cipher, (id, width));
                id
            }
            Kind::Ones => {
                self.ones(info.first, (id, width));
                id
            }
            Kind::Steps | Kind::Lanes(_) | Kind::Crc(_) => {
                let out = self.steps(stage, (id, width));
                self.registers.cut(&mut self.asm, out, if info.kind == Kind::Steps { info.pipe.output } else { width });
                out
            }
        }
    }

    fn cipher(&mut self, cipher: usize, (id, width): Word) {
        let register = self.registers.get(&mut self.asm, id);
        let (pointer, temporary) = self.home_register(self.pointers[cipher], Width::W64);
        let key = self.registers.load_from(pointer, self.cipher_at[cipher]);
        self.asm.alu_memory(Alu::Xor, width, register, key);
        // A value that was shorter is as wide as the key stream now.
        self.registers.set_width(id, width);
        self.registers.unlock();
        temporary.into_iter().for_each(|id| self.registers.end(id));
        self.cipher_at[cipher] += width.bytes() as i32;
    }

    /// Adds a word to a sum of 64 bits, which is folded at the end.
    fn ones(&mut self, keep: usize, (id, _): Word) {
        let register = self.registers.get(&mut self.asm, id);
        let (sum, temporary) = self.home_register(self.homes[keep], Width::W64);
        self.asm.alu(Alu::Add, Width::W64, sum, register);
        self.asm.alu_number(Alu::Adc, Width::W64, sum, 0);
        self.leave_home(self.homes[keep], sum, temporary);
    }

    /// Returns a register with the contents of a persistent register, and the value to end if it is
    /// a copy.
    pub(crate) fn home_register(&mut self, home: Home, width: Width) -> (Gpr, Option<Id>) {
        match home {
            Home::Reg(register) => (register, None),
            Home::Slot(slot) => {
                let (id, register) = self.registers.make(&mut self.asm, width);
                let place = self.registers.load_from(crate::asm::R15, slot);
                self.asm.extend(width, register, Rm::Mem(place));
                (register, Some(id))
            }
        }
    }

    /// Writes a changed register back to its home.
    pub(crate) fn leave_home(&mut self, home: Home, register: Gpr, temporary: Option<Id>) {
        match home {
            Home::Reg(to) if to != register => self.asm.extend(Width::W64, to, Rm::Reg(register)),
            Home::Reg(_) => {}
            Home::Slot(slot) => self.asm.store(Width::W64, Registers::slot(slot), register),
        }
        self.registers.unlock();
        temporary.into_iter().for_each(|id| self.registers.end(id));
    }
}
