//! A quick guess of an instruction's shape, to look it up by. Nothing depends on it but speed: see [`crate::memo`].

use crate::facts::Shape;

/// Parts of a [`Shape`] that can be added up: a byte of the head,
const HEAD: u16 = 0x11;
/// and one behind it.
const TAIL: u16 = 0x01;
/// There is a ModRM byte, and this number of bytes in front of it;
const MODRM: u16 = 0x100;
const MODRM_AT: u16 = 0x800;
/// or these are prefixes, of which one or two bytes are to be left out to look again;
const MORE: u16 = 0x2000;
/// or it is VEX or EVEX, see [`vex`].
const VEX: u16 = 0x8000;

/// What two bytes say that may stand at an instruction's beginning.
static PAIR: [u16; 65536] = {
    let mut table = [0; 65536];
    let mut pair = 0;
    while pair < 65536 {
        table[pair] = shape_of(pair as u8, (pair >> 8) as u8);
        pair += 1;
    }
    table
};

const fn shape_of(first: u8, second: u8) -> u16 {
    match (first, second) {
        (0x62 | 0xc4 | 0xc5, _) => VEX,
        (0x0f, 0x38) => 3 * HEAD + MODRM + 3 * MODRM_AT,
        (0x0f, 0x3a) => 3 * HEAD + TAIL + MODRM + 3 * MODRM_AT,
        (0x0f, op) => 2 * HEAD + behind_0f(op) + 2 * MODRM_AT,
        // Two prefixes, or what the third byte decides on.
        (0x65, 0x67) | (0x67, 0x65) => 2 * MORE,
        (
            0x40..=0x4f | 0x65..=0x67 | 0xf0 | 0xf2 | 0xf3,
            0x40..=0x4f | 0x65..=0x67 | 0x0f | 0x62 | 0xc4 | 0xc5 | 0xf6 | 0xf7,
        ) => MORE,
        (0x48..=0x4f, 0xb8..=0xbf) => 2 * HEAD + 8 * TAIL,
        (0x66, op) => match behind(op) {
            form if form & 0xf == 4 => 2 * HEAD + form - 2 * TAIL + 2 * MODRM_AT,
            form => 2 * HEAD + form + 2 * MODRM_AT,
        },
        (0x40..=0x4f | 0x65 | 0x67 | 0xf0 | 0xf2 | 0xf3, op) => 2 * HEAD + behind(op) + 2 * MODRM_AT,
        // `test` has an immediate, `not` and its kin have none.
        (0xf6, modrm) if modrm & 0x30 == 0 => HEAD + TAIL + MODRM + MODRM_AT,
        (0xf7, modrm) if modrm & 0x30 == 0 => HEAD + 4 * TAIL + MODRM + MODRM_AT,
        (0xf6 | 0xf7, _) => HEAD + MODRM + MODRM_AT,
        (op, _) => HEAD + behind(op) + MODRM_AT,
    }
}

/// What follows an opcode of one byte (SDM volume 2, appendix A, table A-2), if there is no operand size prefix.
const fn behind(op: u8) -> u16 {
    match op {
        0x00..0x40 => match op & 7 {
            0..4 => MODRM,
            4 => TAIL,
            5 => 4 * TAIL,
            _ => 0,
        },
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => MODRM,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => MODRM + TAIL,
        0x69 | 0x81 | 0xc7 => MODRM + 4 * TAIL,
        0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xe0..=0xe3 | 0xeb => TAIL,
        0xa9 | 0xb8..=0xbf | 0xe8 | 0xe9 => 4 * TAIL,
        _ => 0,
    }
}

/// What follows an opcode behind 0f (table A-3).
const fn behind_0f(op: u8) -> u16 {
    match op {
        0x05..=0x0b | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => 0,
        0x80..=0x8f => 4 * TAIL,
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => MODRM + TAIL,
        _ => MODRM,
    }
}

/// By ModRM: the shape of ModRM, SIB and displacement.
static ADDRESS: [u8; 256] = {
    let mut table = [0; 256];
    let mut modrm = 0;
    while modrm < 256 {
        let sib = if modrm & 7 == 4 && modrm < 0xc0 { HEAD } else { 0 };
        let displacement = match modrm >> 6 {
            0 if modrm & 7 == 5 => 4 * TAIL,
            1 => TAIL,
            2 => 4 * TAIL,
            _ => 0,
        };
        table[modrm] = (HEAD + sib + displacement) as u8;
        modrm += 1;
    }
    table
};

/// The shape by the first 8 bytes. The next guess waits for this one, so as little as possible waits for anything on the way there.
#[inline]
pub(crate) fn guess(window: u64) -> Shape {
    let (mut rest, mut shape) = (window, 0);
    let mut pair = PAIR[usize::from(rest as u16)];
    while pair & (3 * MORE) != 0 {
        let prefixes = pair / MORE;
        shape += prefixes * HEAD;
        rest >>= prefixes * 8;
        pair = PAIR[usize::from(rest as u16)];
    }
    shape += if pair == VEX { vex(rest) } else { pair };
    if pair & MODRM != 0 {
        shape += address(rest >> (pair >> 8 & 0x18));
    }
    Shape(shape as u8)
}

/// The shape of ModRM, SIB and displacement.
#[inline]
fn address(modrm: u64) -> u16 {
    // No base, but a displacement.
    let constant = if modrm & 0x07c7 == 0x0504 { 4 * TAIL } else { 0 };
    u16::from(ADDRESS[usize::from(modrm as u8)]) + constant
}

/// The whole shape of an instruction with VEX or EVEX.
#[inline(never)]
fn vex(rest: u64) -> u16 {
    let byte = |n: u32| (rest >> (n * 8)) as u8;
    let (map, at) = match byte(0) {
        0xc5 => (1, 2),
        0xc4 => (byte(1), 3),
        _ => (byte(1), 4),
    };
    let form = match map & 3 {
        1 => behind_0f(byte(at)),
        map => MODRM + u16::from(map == 3),
    };
    let address = if form & MODRM != 0 { address(rest >> (8 * at + 8)) } else { 0 };
    (at as u16 + 1) * HEAD + address + (form & 0xff)
}
