//! The key stream of ChaCha20 (RFC 8439) as code: a function of the composition that fills a
//! buffer.
//!
//! A cipher's state in the frame has the rows a, b and c, and then a row d for each block that one
//! pass makes: these differ in their counters.

use crate::asm::{
    Alu, Asm, BROADCASTI128, Condition, Gpr, Label, Length, MOVDQU_LOAD, MOVDQU_STORE, MOVQ_TO, Memory, Op, PADDD,
    PERM2I128, POR, PSHUFB, PSHUFD, PUNPCKLQDQ, PXOR, RAX, RCX, Rm, SHIFT32, Vector,
};
use crate::pipe::Width;
use crate::role::Role;

/// The first row of the state.
pub(crate) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;
/// The distance of the counter of block 0 in the state.
pub(crate) const COUNTER_AT: i32 = 48;

/// The registers of the function: the state, the buffer, the number of passes, the rounds to go.
pub(crate) const STATE: Gpr = RAX;
pub(crate) const BUFFER: Gpr = RCX;
pub(crate) const PASSES: Gpr = 8;
const ROUNDS: Gpr = 9;

/// The vector registers from 0 on that the function changes.
pub(crate) const CHANGED: u8 = 12;
const ROTATE_16: Vector = 8;
const ROTATE_8: Vector = 9;

/// Returns the blocks that one pass makes.
pub(crate) fn blocks(avx2: bool) -> usize {
    if avx2 { 4 } else { 1 }
}

/// Returns the bytes of a cipher's state.
pub(crate) fn state_size(avx2: bool) -> i32 {
    48 + 16 * blocks(avx2) as i32
}

/// Emits the function.
pub(crate) fn function(asm: &mut Asm, entry: Label, avx2: bool, confined: bool) {
    asm.role(Role::Stream);
    asm.bind(entry);
    let mut stream = Stream { asm, avx2, confined };
    stream.constants();
    let top = stream.asm.label();
    stream.asm.bind(top);
    stream.load();
    stream.rounds();
    stream.finish();
    let asm = stream.asm;
    for block in 0..blocks(avx2) as i32 {
        let counter = Memory { base: STATE, distance: COUNTER_AT + 16 * block, confined: true };
        asm.form(0, &[0x83], false, false, 0, Rm::Mem(counter));
        asm.immediate(blocks(avx2) as u8);
    }
    asm.alu_number(Alu::Add, Width::W64, BUFFER, (BLOCK * blocks(avx2)) as u64);
    asm.alu_number(Alu::Sub, Width::W32, PASSES, 1);
    asm.jump_if(Condition::NotEqual, top);
    asm.ret();
}

/// Emits a constant of 128 bits in both halves of a register. It changes r9 and register 11.
pub(crate) fn mask(asm: &mut Asm, to: Vector, scratch: Vector, low: u64, high: u64) {
    for (register, half) in [(to, low), (scratch, high)] {
        asm.number(ROUNDS, half);
        asm.vector2(MOVQ_TO, Length::Xmm, register, Rm::Reg(ROUNDS));
    }
    asm.vector3(PUNPCKLQDQ, Length::Xmm, to, to, Rm::Reg(scratch));
    asm.vector3(PERM2I128, Length::Ymm, to, to, Rm::Reg(to));
    asm.immediate(0x00);
}

struct Stream<'a> {
    asm: &'a mut Asm,
    avx2: bool,
    confined: bool,
}

impl Stream<'_> {
    fn length(&self) -> Length {
        if self.avx2 { Length::Ymm } else { Length::Legacy }
    }

    /// Returns the first registers of the sets of rows that the rounds interleave.
    fn sets(&self) -> &'static [Vector] {
        if self.avx2 { &[0, 4] } else { &[0] }
    }

    /// Returns a register besides the rows.
    fn scratch(&self, set: Vector) -> Vector {
        if self.avx2 { 10 + set / 4 } else { 4 }
    }

    fn state(&self, distance: i32) -> Rm {
        Rm::Mem(Memory { base: STATE, distance, confined: self.confined })
    }

    fn constants(&mut self) {
        if self.avx2 {
            const UP: u64 = 0x0808_0808_0808_0808;
            for (register, low) in [(ROTATE_16, 0x0504_0706_0100_0302), (ROTATE_8, 0x0605_0407_0201_0003)] {
                mask(self.asm, register, 11, low, low + UP);
            }
        }
    }

    /// Loads a row of the state. Row 3 of the second set has its own counters.
    fn row(&mut self, to: Vector, set: Vector, row: i32) {
        let distance = 16 * row + if row == 3 { 8 * i32::from(set) } else { 0 };
        let op = if self.avx2 && row < 3 { BROADCASTI128 } else { MOVDQU_LOAD };
        let (length, state) = (self.length(), self.state(distance));
        self.asm.vector2(op, length, to, state);
    }

    fn load(&mut self) {
        for &set in self.sets() {
            for row in 0..4 {
                self.row(set + row as u8, set, row);
            }
        }
    }

    fn rounds(&mut self) {
        self.asm.number(ROUNDS, 10);
        let top = self.asm.label();
        self.asm.bind(top);
        for shuffles in [[0x39, 0x4e, 0x93], [0x93, 0x4e, 0x39]] {
            for (to, from, with, turn) in [(0, 1, 3, 16), (2, 3, 1, 12), (0, 1, 3, 8), (2, 3, 1, 7)] {
                self.quarter([to, from, with], turn);
            }
            for (row, shuffle) in (1..).zip(shuffles) {
                for &set in self.sets() {
                    let length = self.length();
                    self.asm.vector2(PSHUFD, length, set + row, Rm::Reg(set + row));
                    self.asm.immediate(shuffle);
                }
            }
        }
        self.asm.alu_number(Alu::Sub, Width::W32, ROUNDS, 1);
        self.asm.jump_if(Condition::NotEqual, top);
    }

    /// Emits `to += from; with = (with ^ to) <<< turn` for all sets.
    fn quarter(&mut self, [to, from, with]: [Vector; 3], turn: u8) {
        for (op, a, b) in [(PADDD, to, from), (PXOR, with, to)] {
            self.each(|stream, set| stream.three(op, set + a, set + b));
        }
        match turn {
            16 | 8 if self.avx2 => {
                let mask = if turn == 16 { ROTATE_16 } else { ROTATE_8 };
                self.each(|stream, set| stream.three(PSHUFB, set + with, mask));
            }
            _ => self.each(|stream, set| stream.rotate(set + with, stream.scratch(set), turn)),
        }
    }

    fn each(&mut self, mut emit: impl FnMut(&mut Self, Vector)) {
        for &set in self.sets() {
            emit(self, set);
        }
    }

    fn three(&mut self, op: Op, to: Vector, with: Vector) {
        let length = self.length();
        self.asm.vector3(op, length, to, to, Rm::Reg(with));
    }

    fn rotate(&mut self, register: Vector, scratch: Vector, turn: u8) {
        let length = self.length();
        self.asm.vector_shift(SHIFT32, 6, length, scratch, register, turn);
        self.asm.vector_shift(SHIFT32, 2, length, register, register, 32 - turn);
        self.asm.vector3(POR, length, register, register, Rm::Reg(scratch));
    }

    /// Adds the state, and writes the blocks in order.
    fn finish(&mut self) {
        for &set in self.sets() {
            let scratch = self.scratch(set);
            for row in 0..4 {
                self.row(scratch, set, row);
                self.three(PADDD, set + row as u8, scratch);
            }
            let out = 32 * i32::from(set);
            if !self.avx2 {
                (0..4).for_each(|row| self.store(row, 16 * i32::from(row)));
                continue;
            }
            for (half, distance) in [(0x20, 0), (0x31, 64)] {
                for (pair, more) in [(0, 0), (2, 32)] {
                    self.asm.vector3(PERM2I128, Length::Ymm, scratch, set + pair, Rm::Reg(set + pair + 1));
                    self.asm.immediate(half);
                    self.store(scratch, out + distance + more);
                }
            }
        }
    }

    fn store(&mut self, from: Vector, distance: i32) {
        let place = Memory { base: BUFFER, distance, confined: true };
        let length = self.length();
        self.asm.vector2(MOVDQU_STORE, length, from, Rm::Mem(place));
    }
}
