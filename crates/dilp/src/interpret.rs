//! The meaning of pipes: an interpreter that is slow and plain.
//!
//! Each pipe goes over the whole stream by itself, in order. A composed loop must give the same
//! bytes and registers.

use crate::pipe::{Action, Body, Operand, Pipe, Step, Tail, Target, Width};

/// Sends a source through pipes. `registers` are those of all pipes in order. Those that steps
/// write change.
///
/// # Panics
/// Panics if the registers are fewer than those of the pipes.
pub fn interpret(pipes: &[Pipe], registers: &mut [u64], source: &[u8]) -> Vec<u8> {
    let mut stream = source.to_vec();
    let mut rest = registers;
    for pipe in pipes {
        let (own, others) = rest.split_at_mut(pipe.keeps.len());
        rest = others;
        stream = match &pipe.body {
            Body::Steps(steps) => pass(pipe, steps, own, &stream),
            Body::ChaCha20 => chacha20(own, &stream),
        };
    }
    stream
}

fn pass(pipe: &Pipe, steps: &[Step], registers: &mut [u64], stream: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u64> = registers.iter().zip(&pipe.keeps).map(|(r, keep)| r & keep.width.mask()).collect();
    let mut out = Vec::new();
    for bytes in stream.chunks(pipe.input.bytes()) {
        if bytes.len() < pipe.input.bytes() && pipe.tail == Tail::Pass {
            out.extend_from_slice(bytes);
            continue;
        }
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let result = apply(steps, &mut kept, u64::from_le_bytes(word));
        let real = (bytes.len() * pipe.output.bytes()).div_ceil(pipe.input.bytes());
        out.extend_from_slice(&result.to_le_bytes()[..real]);
    }
    for step in steps {
        if let Target::Keep(keep) = step.target {
            registers[keep] = kept[keep];
        }
    }
    out
}

/// Applies the steps to one word.
fn apply(steps: &[Step], kept: &mut [u64], word: u64) -> u64 {
    let mut out = word;
    let mut locals = [0; crate::pipe::MAX_LOCALS];
    for step in steps {
        let value = |operand| match operand {
            Operand::In => word,
            Operand::Keep(keep) => kept[keep],
            Operand::Local(local) => locals[local],
            Operand::Number(number) => number,
        };
        let result = compute(step.action, step.width, value(step.a), value(step.b));
        match step.target {
            Target::Out => out = result,
            Target::Keep(keep) => kept[keep] = result,
            Target::Local(local) => locals[local] = result,
        }
    }
    out
}

/// Computes one action.
fn compute(action: Action, width: Width, a: u64, b: u64) -> u64 {
    let (bits, mask) = (width.bits(), width.mask());
    let (wide, a, b) = (a, a & mask, b & mask);
    let left = |n: u64| a.checked_shl(n as u32).unwrap_or(0);
    let right = |n: u64| a.checked_shr(n as u32).unwrap_or(0);
    let other = |n: u64| u64::from(bits) - n;
    mask & match action {
        Action::Move => a,
        Action::Add => a.wrapping_add(b),
        Action::Sub => a.wrapping_sub(b),
        Action::Mul => a.wrapping_mul(b),
        Action::And => a & b,
        Action::Or => a | b,
        Action::Xor => a ^ b,
        Action::Not => !a,
        Action::Shl => left(b),
        Action::Shr => right(b),
        Action::Rol => left(b) | right(other(b)),
        Action::Ror => right(b) | left(other(b)),
        Action::Swap => a.swap_bytes() >> (64 - bits),
        Action::Ones => {
            let sum = u128::from(a) + u128::from(b);
            ((sum & u128::from(mask)) + (sum >> bits)) as u64
        }
        Action::Less => u64::from(a < b),
        Action::Equal => u64::from(a == b),
        Action::Crc32 => return crc(crate::crc::IEEE, wide as u32, b, bits),
        Action::Crc32c => return crc(crate::crc::CASTAGNOLI, wide as u32, b, bits),
    }
}

/// Divides bit by bit. `polynomial` is in reflected form, without its highest term.
fn crc(polynomial: u32, crc: u32, word: u64, bits: u32) -> u64 {
    let mut state = u64::from(crc);
    for bit in 0..bits {
        let low = (state ^ word >> bit) & 1;
        state = (state >> 1) ^ (low * u64::from(polynomial));
    }
    state
}

fn chacha20(registers: &mut [u64], stream: &[u8]) -> Vec<u8> {
    let mut state = [0; 16];
    state[..4].copy_from_slice(&crate::chacha::CONSTANTS);
    for (word, register) in state[4..].iter_mut().zip(&*registers) {
        *word = *register as u32;
    }
    let mut out = Vec::with_capacity(stream.len());
    for bytes in stream.chunks(64) {
        let key = block(&state);
        out.extend(bytes.iter().zip(key).map(|(byte, key)| byte ^ key));
        state[12] = state[12].wrapping_add(1);
    }
    registers[8] = u64::from(state[12]);
    out
}

/// Returns a block of the key stream (RFC 8439, section 2.3).
fn block(state: &[u32; 16]) -> [u8; 64] {
    const ROUND: [[usize; 4]; 8] = [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ];
    let mut x = *state;
    for _ in 0..10 {
        for [a, b, c, d] in ROUND {
            for (to, from, with, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                x[to] = x[to].wrapping_add(x[from]);
                x[with] = (x[with] ^ x[to]).rotate_left(turn);
            }
        }
    }
    let mut out = [0; 64];
    for (bytes, (x, state)) in out.chunks_mut(4).zip(x.iter().zip(state)) {
        bytes.copy_from_slice(&x.wrapping_add(*state).to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn known_answers_of_the_interpreter() {
        let mut registers = [0xffff_ffff];
        assert_eq!(interpret(&[builtin::crc32()], &mut registers, b"123456789"), b"123456789");
        assert_eq!(!registers[0] as u32, 0xcbf4_3926);
        let mut registers = [0xffff_ffff];
        interpret(&[builtin::crc32c()], &mut registers, b"123456789");
        assert_eq!(!registers[0] as u32, 0xe306_9283);
        // RFC 1071, section 3. The sum is in network order there.
        let mut registers = [0];
        interpret(&[builtin::checksum()], &mut registers, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((registers[0] as u16).swap_bytes(), 0xddf2);
        assert_eq!(interpret(&[builtin::swap(Width::W32)], &mut [], b"abcdefghij"), b"dcbahgfeij");
    }

    #[test]
    fn two_gauges_change_the_length() {
        let widen = Pipe::parse("pipe widen\ngauge 8 -> 16\nout = move.16 in").unwrap();
        assert_eq!(interpret(std::slice::from_ref(&widen), &mut [], b"abc"), b"a\0b\0c\0");
        let narrow = Pipe::parse("pipe narrow\ngauge 16 -> 8\nout = move.8 in").unwrap();
        assert_eq!(interpret(std::slice::from_ref(&narrow), &mut [], b"abcde"), b"ace");
        assert_eq!(interpret(&[widen, narrow], &mut [], b"abcde"), b"abcde");
    }
}
