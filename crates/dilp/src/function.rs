//! The function around the loops: its beginning, its end, and the order of its parts.

use crate::asm::{Alu, Asm, Condition, Label, Length, MOVQ_TO, Memory, Op, PUNPCKLQDQ, R15, RAX, RCX, Rm, Shift};
use crate::chacha;
use crate::options::Options;
use crate::pipe::{Action, Body, Width};
use crate::plan::{COUNTER, Kind, Plan};
use crate::registers::{Home, LEFT, PRESERVED, Registers, SINK, SOURCE};
use crate::role::Role;
use crate::scalar::Scalar;
use crate::steps::polynomial;
use crate::vector::Vectors;

/// A composition's code.
pub(crate) struct Function {
    pub(crate) code: Vec<u8>,
    pub(crate) roles: Vec<(u32, Role)>,
    pub(crate) is_vector: bool,
}

/// The places of a cipher in the frame.
#[derive(Clone, Copy)]
struct Cipher {
    /// Number of its first register in the composition.
    first: usize,
    state: i32,
    buffer: i32,
    /// Bytes of key stream that it needs for a chunk.
    size: i32,
}

/// The parts of the function that its beginning and its end share.
struct Builder<'a, 'p> {
    scalar: Scalar<'a, 'p>,
    options: &'a Options,
    ciphers: Vec<Cipher>,
    /// Source bytes of a chunk: those between two fills of the key streams.
    chunk: usize,
    /// The function that makes key stream.
    stream: Option<Label>,
    /// Places in the frame: the pointer to the registers, the first destination, the bytes after
    /// the chunk.
    pointer_at: i32,
    sink_at: i32,
    rest_at: i32,
}

/// Emits a composition.
pub(crate) fn emit(plan: &Plan<'_>, options: &Options) -> Function {
    let mut builder = Builder::new(plan, options);
    let mut vectors = options
        .features
        .avx2
        .then(|| Vectors::new(plan, builder.scalar.homes.clone(), options.features.pclmul))
        .flatten();
    let end = builder.scalar.asm.label();
    builder.scalar.asm.charge();
    builder.reset_pointers();
    builder.loops(vectors.as_mut(), end);
    builder.tails(end);
    builder.scalar.asm.bind(end);
    builder.exit(vectors.is_some())
}

impl<'a, 'p> Builder<'a, 'p> {
    fn new(plan: &'a Plan<'p>, options: &'a Options) -> Builder<'a, 'p> {
        let mut scalar = Scalar::new(plan, options);
        let avx2 = options.features.avx2;
        let [pointer_at, sink_at, rest_at] = [(); 3].map(|()| scalar.registers.reserve(8));
        let ciphers = || plan.stages.iter().filter(|stage| stage.pipe.body == Body::ChaCha20);
        let least = ciphers().map(|stage| stage.rate).min().unwrap_or(0).min(0);
        let chunk = (chacha::BLOCK * chacha::blocks(avx2)) << -least;
        let ciphers = ciphers().map(|stage| {
            let size = Plan::scale(chunk, stage.rate) as i32;
            let state = scalar.registers.reserve(chacha::state_size(avx2));
            Cipher { first: stage.first, state, buffer: scalar.registers.reserve(size), size }
        });
        let ciphers: Vec<Cipher> = ciphers.collect();
        let stream = (!ciphers.is_empty()).then(|| scalar.asm.label());
        Builder { scalar, options, ciphers, chunk, stream, pointer_at, sink_at, rest_at }
    }

    /// Emits all loops over whole units.
    fn loops(&mut self, vectors: Option<&mut Vectors<'_, '_>>, end: Label) {
        let unit = self.scalar.plan.unit;
        let word = unit.max(8);
        let cost = self.cost(word);
        match vectors {
            Some(vectors) => {
                self.vector_loops(vectors);
                self.steps(&[word, unit], Some(vectors.bytes()));
            }
            None => {
                let word = if cost <= 160 { word } else { unit };
                let cost = self.cost(word);
                let main = if cost <= 25 {
                    4 * word
                } else if cost <= 50 {
                    2 * word
                } else {
                    word
                };
                let all = [main.min(32.max(word)), word, unit];
                if self.ciphers.is_empty() {
                    self.products();
                    self.steps(&all, None);
                } else {
                    self.chunks(&all, end);
                }
            }
        }
    }

    /// Emits the scalar loops inside the loop over chunks.
    fn chunks(&mut self, all: &[usize], end: Label) {
        let asm = &mut self.scalar.asm;
        asm.role(Role::Loop);
        asm.alu_number(Alu::Cmp, Width::W64, LEFT, 0);
        asm.jump_if(Condition::Equal, end);
        let (outer, last) = (asm.label(), asm.label());
        asm.bind(outer);
        self.fill();
        self.cut_chunk();
        self.products();
        self.steps(all, None);
        self.next_chunk(outer, last);
    }

    /// Emits the vector loop, and what it needs before and after.
    fn vector_loops(&mut self, vectors: &mut Vectors<'_, '_>) {
        let bytes = vectors.bytes();
        let asm = &mut self.scalar.asm;
        asm.role(Role::Loop);
        let (short, after) = (asm.label(), asm.label());
        asm.alu_number(Alu::Cmp, Width::W64, LEFT, bytes as u64);
        asm.jump_if(Condition::Below, short);
        vectors.begin(&mut self.scalar);
        let outer = self.scalar.asm.label();
        self.scalar.asm.bind(outer);
        if self.stream.is_some() {
            let saved = vectors.save(&mut self.scalar, chacha::CHANGED);
            self.fill();
            Vectors::restore(&mut self.scalar, &saved);
            self.cut_chunk();
        }
        self.repeat(bytes, |builder| {
            vectors.block(&mut builder.scalar);
            (bytes as i32, vec![bytes as i32; builder.ciphers.len()])
        });
        if self.stream.is_some() {
            let last = self.scalar.asm.label();
            self.next_chunk(outer, last);
        }
        self.products();
        vectors.end(&mut self.scalar);
        self.scalar.registers.clear();
        if self.stream.is_some() || vectors.has_crc() {
            self.scalar.asm.role(Role::Loop);
            self.scalar.asm.jump(after);
        }
        self.scalar.asm.bind(short);
        self.fill();
        self.products();
        self.scalar.asm.bind(after);
    }

    /// Emits scalar loops, each with fewer source bytes than the one before. `before` is the number
    /// of bytes that there are fewer of.
    fn steps(&mut self, all: &[usize], mut before: Option<usize>) {
        for &bytes in all {
            if before.is_some_and(|before| before <= bytes) {
                continue;
            }
            self.repeat(bytes, |builder| {
                let out = builder.scalar.block(bytes, false);
                let used = |cipher| builder.scalar.cipher_used(cipher);
                (out, (0..builder.ciphers.len()).map(used).collect())
            });
            before = Some(bytes);
        }
    }

    /// Emits a loop over so many source bytes at a time. The body returns the bytes that it stored
    /// and those of the key streams that it used.
    fn repeat(&mut self, bytes: usize, mut body: impl FnMut(&mut Self) -> (i32, Vec<i32>)) {
        let asm = &mut self.scalar.asm;
        let (top, done) = (asm.label(), asm.label());
        asm.role(Role::Loop);
        asm.alu_number(Alu::Sub, Width::W64, LEFT, bytes as u64);
        asm.jump_if(Condition::Below, done);
        asm.bind(top);
        let (stored, used) = body(self);
        self.advance(bytes, stored, &used);
        let asm = &mut self.scalar.asm;
        asm.alu_number(Alu::Sub, Width::W64, LEFT, bytes as u64);
        asm.jump_if(Condition::AboveOrEqual, top);
        asm.bind(done);
        asm.alu_number(Alu::Add, Width::W64, LEFT, bytes as u64);
    }

    fn advance(&mut self, bytes: usize, stored: i32, used: &[i32]) {
        let asm = &mut self.scalar.asm;
        asm.role(Role::Loop);
        asm.alu_number(Alu::Add, Width::W64, SOURCE, bytes as u64);
        asm.alu_number(Alu::Add, Width::W64, SINK, stored as u64);
        for (home, used) in self.scalar.pointers.iter().zip(used) {
            Registers::add_to(asm, *home, *used as u64);
        }
    }

    /// Emits the last bytes: a case for each number below the unit.
    fn tails(&mut self, end: Label) {
        let unit = self.scalar.plan.unit;
        if unit == 1 {
            return;
        }
        let asm = &mut self.scalar.asm;
        asm.role(Role::Loop);
        asm.alu_number(Alu::Cmp, Width::W64, LEFT, 0);
        asm.jump_if(Condition::Equal, end);
        for bytes in 1..unit {
            let next = self.scalar.asm.label();
            if bytes + 1 < unit {
                self.scalar.asm.role(Role::Loop);
                self.scalar.asm.alu_number(Alu::Cmp, Width::W64, LEFT, bytes as u64);
                self.scalar.asm.jump_if(Condition::NotEqual, next);
            }
            let stored = self.scalar.block(bytes, true);
            let used: Vec<i32> = (0..self.ciphers.len()).map(|cipher| self.scalar.cipher_used(cipher)).collect();
            self.advance(0, stored, &used);
            if bytes + 1 < unit {
                self.scalar.asm.jump(end);
            }
            self.scalar.asm.bind(next);
        }
    }

    /// Estimates the instructions for so many source bytes.
    fn cost(&self, bytes: usize) -> usize {
        let mut cost = 2;
        for stage in &self.scalar.plan.stages {
            let input = Plan::scale(bytes, stage.rate);
            let words = match stage.kind {
                Kind::Steps => input / stage.pipe.input.bytes(),
                _ => input.div_ceil(8),
            };
            let each: usize = stage.pipe.steps().iter().map(|step| self.step_cost(step.action, step.width)).sum();
            cost += words * (each + usize::from(stage.kind == Kind::Steps) * 2);
        }
        cost
    }

    fn step_cost(&self, action: Action, width: Width) -> usize {
        let features = self.options.features;
        match action {
            Action::Crc32c if features.sse42 => 1,
            Action::Crc32 | Action::Crc32c if features.pclmul => 9,
            Action::Crc32 | Action::Crc32c => 4 * width.bits() as usize,
            _ => 2,
        }
    }

    /// Points each cipher to the end of its buffer: no key stream is there.
    fn reset_pointers(&mut self) {
        for number in 0..self.ciphers.len() {
            let Cipher { buffer, size, .. } = self.ciphers[number];
            self.point(number, buffer + size);
        }
    }

    fn point(&mut self, cipher: usize, distance: i32) {
        let asm = &mut self.scalar.asm;
        asm.role(Role::Stream);
        match self.scalar.pointers[cipher] {
            Home::Reg(register) => asm.lea(register, R15, distance),
            Home::Slot(slot) => {
                asm.lea(RAX, R15, distance);
                asm.store(Width::W64, Registers::slot(slot), RAX);
            }
        }
    }

    /// Fills the buffers of all ciphers. It changes rax, rcx, r8, r9 and vector registers.
    fn fill(&mut self) {
        let Some(stream) = self.stream else { return };
        let pass = (chacha::BLOCK * chacha::blocks(self.options.features.avx2)) as i32;
        for number in 0..self.ciphers.len() {
            let Cipher { state, buffer, size, .. } = self.ciphers[number];
            let asm = &mut self.scalar.asm;
            asm.role(Role::Stream);
            asm.lea(chacha::STATE, R15, state);
            asm.lea(chacha::BUFFER, R15, buffer);
            asm.number(chacha::PASSES, (size / pass) as u64);
            asm.call(stream);
            self.point(number, buffer);
        }
    }

    /// Leaves the bytes of a chunk, and keeps the number of those after it.
    fn cut_chunk(&mut self) {
        let rest = Registers::slot(self.rest_at);
        let asm = &mut self.scalar.asm;
        asm.role(Role::Loop);
        let (whole, known) = (asm.label(), asm.label());
        asm.extend(Width::W64, RAX, Rm::Reg(LEFT));
        asm.alu_number(Alu::Sub, Width::W64, RAX, self.chunk as u64);
        asm.jump_if(Condition::AboveOrEqual, whole);
        asm.number(RAX, 0);
        asm.jump(known);
        asm.bind(whole);
        asm.number(LEFT, self.chunk as u64);
        asm.bind(known);
        asm.store(Width::W64, rest, RAX);
    }

    /// Goes on with the bytes after the chunk, if there are any.
    fn next_chunk(&mut self, outer: Label, last: Label) {
        let rest = self.scalar.registers.load_from(R15, self.rest_at);
        let asm = &mut self.scalar.asm;
        asm.role(Role::Loop);
        asm.extend(Width::W64, RAX, Rm::Mem(rest));
        asm.alu_number(Alu::Cmp, Width::W64, RAX, 0);
        asm.jump_if(Condition::Equal, last);
        asm.extend(Width::W64, LEFT, Rm::Reg(RAX));
        asm.jump(outer);
        asm.bind(last);
    }

    /// Loads the constants of the polynomials that scalar code needs. It changes rax.
    fn products(&mut self) {
        let features = self.options.features;
        let uses = |action: Action| {
            let steps = self.scalar.plan.stages.iter().flat_map(|stage| stage.pipe.steps());
            steps.into_iter().any(|step| step.action == action)
        };
        let needed = [
            (Action::Crc32, features.pclmul && uses(Action::Crc32)),
            (Action::Crc32c, features.pclmul && !features.sse42 && uses(Action::Crc32c)),
        ];
        let length = self.scalar.xmm();
        for (action, _) in needed.into_iter().filter(|(_, needed)| *needed) {
            let (polynomial, register) = polynomial(action);
            let asm = &mut self.scalar.asm;
            asm.role(Role::Entry);
            for (to, half) in [(register, crate::crc::inverse(polynomial)), (0, crate::crc::divisor(polynomial))] {
                asm.number(RAX, half);
                asm.vector2(MOVQ_TO, length, to, Rm::Reg(RAX));
            }
            asm.vector3(PUNPCKLQDQ, length, register, register, Rm::Reg(0));
        }
    }

    /// Ends the function and puts its beginning before it.
    fn exit(mut self, is_vector: bool) -> Function {
        let used = self.scalar.registers.used;
        let preserved = PRESERVED.into_iter().filter(|register| used & 1 << register != 0);
        let saves: Vec<(u8, i32)> = preserved.map(|register| (register, self.scalar.registers.reserve(8))).collect();
        let frame = self.scalar.registers.frame();
        self.scalar.asm.role(Role::Exit);
        self.export();
        let registers = &self.scalar.registers;
        let (sink, loads) = (registers.load_from(R15, self.sink_at), |at| registers.load_from(R15, at));
        let asm = &mut self.scalar.asm;
        asm.extend(Width::W64, RAX, Rm::Reg(SINK));
        asm.alu_memory(Alu::Sub, Width::W64, RAX, sink);
        for (register, at) in &saves {
            asm.extend(Width::W64, *register, Rm::Mem(loads(*at)));
        }
        let wide = is_vector || self.stream.is_some() && self.options.features.avx2;
        if wide {
            asm.vex(Op(0, 1, 0x77, false), Length::Xmm, 0, 0, Rm::Reg(0));
            // It has no ModRM byte.
            asm.code.pop();
        }
        asm.lea(R15, R15, frame);
        asm.ret();
        if let Some(stream) = self.stream {
            let confined = self.options.mode == sfi_contract::Mode::Full;
            chacha::function(asm, stream, self.options.features.avx2, confined);
        }
        asm.end();
        asm.resolve();
        let start = self.entry(frame, &saves);
        let (body, shift) = (&self.scalar.asm, start.code.len() as u32);
        let mut roles = start.roles.clone();
        roles.extend(body.roles.iter().map(|(at, role)| (at + shift, *role)));
        Function { code: [&*start.code, &*body.code].concat(), roles, is_vector }
    }

    /// Returns the function's beginning.
    fn entry(&self, frame: i32, saves: &[(u8, i32)]) -> Asm {
        let mut asm = Asm::new();
        asm.role(Role::Entry);
        if self.options.budget {
            asm.with_budget();
            asm.charge();
        }
        asm.lea(R15, R15, -frame);
        for (register, at) in saves {
            asm.store(Width::W64, Registers::slot(*at), *register);
        }
        asm.store(Width::W64, Registers::slot(self.pointer_at), RCX);
        asm.store(Width::W64, Registers::slot(self.sink_at), SINK);
        for stage in self.scalar.plan.stages.iter().filter(|stage| stage.pipe.body != Body::ChaCha20) {
            for (number, keep) in stage.pipe.keeps.iter().enumerate() {
                let place = self.scalar.registers.load_from(RCX, 8 * (stage.first + number) as i32);
                let home = self.scalar.homes[stage.first + number];
                let register = if let Home::Reg(register) = home { register } else { RAX };
                asm.extend(keep.width, register, Rm::Mem(place));
                if let (Kind::Lanes(_), true) = (stage.kind, keep.width < Width::W64) {
                    asm.number(8, u64::MAX / keep.width.mask());
                    asm.multiply(Width::W64, register, 8);
                }
                if let Home::Slot(slot) = home {
                    asm.store(Width::W64, Registers::slot(slot), register);
                }
            }
        }
        self.ciphers.iter().for_each(|cipher| self.import_cipher(&mut asm, *cipher));
        asm.end_before(&self.scalar.asm);
        asm
    }

    /// Writes a cipher's state: the constants, the key, and a row with the counter for each block.
    fn import_cipher(&self, asm: &mut Asm, cipher: Cipher) {
        let at = |distance| Registers::slot(cipher.state + distance);
        for (number, word) in (0..).zip(chacha::CONSTANTS) {
            asm.number(RAX, u64::from(word));
            asm.store(Width::W32, at(4 * number), RAX);
        }
        for number in 0..12 {
            let place = self.scalar.registers.load_from(RCX, 8 * (cipher.first as i32 + number));
            asm.extend(Width::W32, RAX, Rm::Mem(place));
            let rows = if number < 8 { 1 } else { chacha::blocks(self.options.features.avx2) as i32 };
            for row in 0..rows {
                if number == COUNTER as i32 && row > 0 {
                    asm.alu_number(Alu::Add, Width::W32, RAX, 1);
                }
                asm.store(Width::W32, at(16 + 4 * number + 16 * row), RAX);
            }
        }
    }

    /// Folds the sums, and writes the registers that the pipes change.
    fn export(&mut self) {
        let pointer = self.scalar.registers.load_from(R15, self.pointer_at);
        self.scalar.asm.extend(Width::W64, RCX, Rm::Mem(pointer));
        let plan = self.scalar.plan;
        for (number, stage) in plan.stages.iter().enumerate() {
            if let Kind::Cipher(cipher) = stage.kind {
                self.export_cipher(cipher);
                continue;
            }
            for (keep, info) in stage.pipe.keeps.iter().enumerate() {
                if !plan.is_written(number, keep) {
                    continue;
                }
                let place = Memory { base: RCX, distance: 8 * (stage.first + keep) as i32, confined: true };
                let register = match self.scalar.homes[stage.first + keep] {
                    Home::Reg(register) => register,
                    Home::Slot(slot) => {
                        let slot = self.scalar.registers.load_from(R15, slot);
                        self.scalar.asm.extend(Width::W64, RAX, Rm::Mem(slot));
                        RAX
                    }
                };
                if stage.kind == Kind::Ones {
                    fold(&mut self.scalar.asm, register, info.width);
                }
                self.scalar.asm.store(Width::W64, place, register);
            }
        }
    }

    /// Writes the number of the block after the last one that was used. A pass makes blocks that
    /// nothing uses.
    fn export_cipher(&mut self, number: usize) {
        let Cipher { first, state, buffer, size } = self.ciphers[number];
        let (counter, slot) = {
            let registers = &self.scalar.registers;
            (registers.load_from(R15, state + chacha::COUNTER_AT), |slot| registers.load_from(R15, slot))
        };
        let pointer = match self.scalar.pointers[number] {
            Home::Reg(register) => Rm::Reg(register),
            Home::Slot(at) => Rm::Mem(slot(at)),
        };
        let asm = &mut self.scalar.asm;
        asm.extend(Width::W64, RAX, pointer);
        asm.lea(8, R15, buffer);
        asm.alu(Alu::Sub, Width::W64, RAX, 8);
        asm.alu_number(Alu::Add, Width::W64, RAX, chacha::BLOCK as u64 - 1);
        asm.shift(Shift::Shr, Width::W64, RAX, 6);
        asm.alu_memory(Alu::Add, Width::W32, RAX, counter);
        asm.alu_number(Alu::Sub, Width::W32, RAX, size as u64 / chacha::BLOCK as u64);
        let place = Memory { base: RCX, distance: 8 * (first + COUNTER) as i32, confined: true };
        asm.store(Width::W64, place, RAX);
    }
}

/// Folds a sum of 64 bits to a width. It changes r8.
fn fold(asm: &mut Asm, register: u8, width: Width) {
    for half in [Width::W32, Width::W16, Width::W8].into_iter().filter(|half| *half >= width) {
        asm.extend(Width::W64, 8, Rm::Reg(register));
        asm.shift(Shift::Shr, Width::W64, 8, half.bits() as u8);
        asm.alu(Alu::Add, half, register, 8);
        asm.alu_number(Alu::Adc, half, register, 0);
        asm.extend(half, register, Rm::Reg(register));
    }
}
