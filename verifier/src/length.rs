//! A quick guess of an instruction's shape, to look it up by. Nothing depends on it but speed: see [`crate::memo`].

use crate::facts::Shape;

/// Parts of a [`Shape`] that can be added up: one more byte in front of the open field, and in all.
const BYTE: u16 = 0x0101;
/// A byte of the open field.
const OPEN: u16 = 0x1001;

/// Of an opcode: the shape of opcode and immediate, and besides: there is a ModRM byte,
const MODRM: u16 = 0x10;
/// the immediate depends on more, see [`odd_immediate`],
const ODD: u16 = 0x20;
/// the opcode has more bytes, see [`escaped`].
const ESCAPE: u16 = 0x40;

/// Opcodes of one byte, then those behind 0f (SDM volume 2, appendix A, tables ).
static OPCODE: [u16; 512] = {
    let mut table = [0; 512];
    let mut op = 0;
    while op < 256 {
        table[op] = BYTE
            + match op {
                0x62 | 0xc4 | 0xc5 => ESCAPE,
                0x00..0x40 => match op & 7 {
                    0..4 => MODRM,
                    4 => 1,
                    5 => ODD,
                    _ => 0,
                },
                0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => MODRM,
                0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => MODRM | 1,
                0x69 | 0x81 | 0xc7 | 0xf6 | 0xf7 => MODRM | ODD,
                0x70..=0x7f | 0xe0..=0xe3 | 0xeb => OPEN,
                0xe8 | 0xe9 => 4 * OPEN,
                0xa8 | 0xb0..=0xb7 => 1,
                0xa9 | 0xb8..=0xbf => ODD,
                _ => 0,
            };
        table[256 + op] = 2 * BYTE
            + match op {
                0x38 | 0x3a => ESCAPE,
                0x05..=0x0b | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => 0,
                0x80..=0x8f => 4 * OPEN,
                0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => MODRM | 1,
                _ => MODRM,
            };
        op += 1;
    }
    table
};

/// By ModRM: the shape of ModRM, SIB and displacement.
static ADDRESS: [u16; 256] = {
    let mut table = [0; 256];
    let mut modrm = 0;
    while modrm < 256 {
        let sib = if modrm & 7 == 4 && modrm < 0xc0 { BYTE } else { 0 };
        let displacement = match modrm >> 6 {
            0 if modrm & 7 == 5 => 4 * OPEN,
            1 => OPEN,
            2 => 4 * OPEN,
            _ => 0,
        };
        table[modrm] = BYTE + sib + displacement;
        modrm += 1;
    }
    table
};

/// 1 for prefixes, REX among them.
static PREFIX: [u8; 256] = {
    let mut table = [0; 256];
    (table[0x65], table[0x66], table[0x67], table[0xf0], table[0xf2], table[0xf3]) = (1, 1, 1, 1, 1, 1);
    let mut rex = 0x40;
    while rex < 0x50 {
        table[rex] = 1;
        rex += 1;
    }
    table
};

/// The length and the shape by the first 8 bytes. The next guess waits for the length of this one, so as little as possible waits
/// for anything on the way there.
#[inline]
pub(crate) fn guess(window: u64) -> (usize, Shape) {
    let prefix = |n: u32| PREFIX[usize::from((window >> (n * 8)) as u8)];
    let (first, second, third, fourth) = (prefix(0), prefix(1), prefix(2), prefix(3));
    let prefixes = first + (first & second) + (first & second & third) + (first & second & third & fourth);
    let rest = window >> (prefixes * 8);
    let two = rest as u8 == 0x0f;
    let mut address = if two { address(rest >> 16) } else { address(rest >> 8) };
    let mut opcode = OPCODE[if two { 256 + usize::from((rest >> 8) as u8) } else { usize::from(rest as u8) }];
    if opcode & (ODD | ESCAPE) != 0 {
        (opcode, address) = odd(window, u32::from(prefixes), opcode, address);
    }
    address &= if opcode & MODRM != 0 { u16::MAX } else { 0 };
    let shape = u16::from(prefixes) * BYTE + (opcode & !MODRM) + address;
    // Without an open field there is no offset either.
    let open = u16::from(shape >= OPEN).wrapping_neg();
    (usize::from(shape & 15), Shape(shape & (15 | open)))
}

/// The shape of ModRM, SIB and displacement.
#[inline]
fn address(modrm: u64) -> u16 {
    // No base, but a displacement.
    let constant = if modrm & 0x07c7 == 0x0504 { 4 * OPEN } else { 0 };
    ADDRESS[usize::from(modrm as u8)] + constant
}

/// Opcode and address of what is not so simple.
#[inline(never)]
fn odd(window: u64, prefixes: u32, opcode: u16, address_of_one: u16) -> (u16, u16) {
    let rest = window >> (prefixes * 8);
    if opcode & ESCAPE == 0 {
        let short = (0..prefixes).any(|n| (window >> (n * 8)) as u8 == 0x66);
        let wide = prefixes > 0 && (window >> (prefixes * 8 - 8)) as u8 & 0xf8 == 0x48;
        return ((opcode & !ODD) + odd_immediate(rest, short, wide), address_of_one);
    }
    let opcode = escaped(rest);
    let address = address(rest >> (opcode >> 5 & 0x38));
    // The displacement of EVEX is scaled.
    (opcode, if rest as u8 == 0x62 { address & 15 } else { address })
}

/// Opcodes behind 0f 38, 0f 3a, VEX and EVEX.
fn escaped(rest: u64) -> u16 {
    let byte = |n: u32| (rest >> (n * 8)) as u8;
    let map = |map: u8, opcode: u8| match map & 3 {
        1 => OPCODE[256 + usize::from(opcode)] & (MODRM | 1),
        map => MODRM | u16::from(map == 3),
    };
    match (byte(0), byte(1)) {
        (0x0f, opcode) => 3 * BYTE + MODRM + u16::from(opcode == 0x3a),
        (0xc5, _) => 3 * BYTE + map(1, byte(2)),
        (0xc4, fields) => 4 * BYTE + map(fields, byte(3)),
        (_, fields) => 5 * BYTE + map(fields, byte(4)),
    }
}

/// Immediates that depend on the operand size or on ModRM.
fn odd_immediate(rest: u64, short: bool, wide: bool) -> u16 {
    match rest as u8 {
        // `test` only
        0xf6 | 0xf7 if rest >> 8 & 0x30 != 0 => 0,
        0xf6 => 1,
        0xb8..=0xbf if wide => 8,
        _ if short => 2,
        _ => 4,
    }
}
