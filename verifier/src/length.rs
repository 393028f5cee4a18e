//! A quick guess of an instruction's shape, by which [`crate::memo`] looks it up. A wrong guess
//! costs time and nothing else.

/// The length of the head in the upper half, of the whole instruction in the lower. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape(pub u8);

impl Shape {
    #[inline]
    pub(crate) fn head(self) -> usize {
        usize::from(self.0 >> 4)
    }

    #[inline]
    pub(crate) fn length(self) -> usize {
        usize::from(self.0 & 15)
    }
}

/// Returns the first 8 bytes. Missing bytes count as 0.
#[inline]
pub(crate) fn window(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |window, byte| window << 8 | u64::from(*byte)),
    }
}

/// The parts of an entry of [`FORMS`]. They can be added up. The upper byte is a [`Shape`] without
/// ModRM, SIB and displacement. This part is one byte of the head.
const HEAD: u16 = 0x1100;
/// One byte after the head.
const TAIL: u16 = 0x0100;
/// The lower byte says how far to shift [`addresses`]. This part counts the bytes before ModRM, if
/// there is a ModRM byte.
const MODRM: u16 = 0x08;
/// A prefix: skip it and look again at the byte after it.
const PREFIX: u16 = HEAD + 0x20;
/// An encoding that [`rare`] reads.
const RARE: u16 = 0x80;
/// The bits of the lower byte: the place of ModRM, and the mark of a form that needs another look.
const PLACE: u32 = 0x1f;
const AGAIN: u32 = 0xe0;

/// The form of an instruction by its first two bytes. Entries with the same first byte lie
/// together.
static FORMS: [u16; 65536] = {
    let mut table = [0; 65536];
    let mut pair = 0;
    while pair < 65536 {
        table[pair] = form((pair >> 8) as u8, pair as u8);
        pair += 1;
    }
    table
};

const fn form(first: u8, second: u8) -> u16 {
    match (first, second) {
        (0x62 | 0xc4 | 0xc5, _) | (0x0f, 0x38 | 0x3a) => RARE,
        (0x0f, op) => 2 * HEAD + behind_0f(op, 2 * MODRM),
        // Two prefixes, or a pair that only the third byte decides.
        (0x65, 0x67) | (0x67, 0x65) => 2 * PREFIX,
        (
            0x40..=0x4f | 0x65..=0x67 | 0xf0 | 0xf2 | 0xf3,
            0x40..=0x4f | 0x65..=0x67 | 0x0f | 0x62 | 0xc4 | 0xc5 | 0xf6 | 0xf7,
        ) => PREFIX,
        (0x48..=0x4f, 0xb8..=0xbf) => 2 * HEAD + 8 * TAIL,
        (0x66, op) => match 2 * HEAD + behind(op, 2 * MODRM) {
            form if form >> 8 & 0xf == 6 => form - 2 * TAIL,
            form => form,
        },
        (0x40..=0x4f | 0x65 | 0x67 | 0xf0 | 0xf2 | 0xf3, op) => 2 * HEAD + behind(op, 2 * MODRM),
        // `test` has an immediate. `not`, `neg`, `mul` and `div` have none.
        (0xf6, modrm) if modrm & 0x30 == 0 => HEAD + TAIL + MODRM,
        (0xf7, modrm) if modrm & 0x30 == 0 => HEAD + 4 * TAIL + MODRM,
        (0xf6 | 0xf7, _) => HEAD + MODRM,
        (op, _) => HEAD + behind(op, MODRM),
    }
}

/// Returns the parts that follow an opcode of one byte (SDM volume 2, appendix A, table A-2),
/// without an operand size prefix.
const fn behind(op: u8, modrm: u16) -> u16 {
    match op {
        0x00..0x40 => match op & 7 {
            0..4 => modrm,
            4 => TAIL,
            5 => 4 * TAIL,
            _ => 0,
        },
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => modrm,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => modrm + TAIL,
        0x69 | 0x81 | 0xc7 => modrm + 4 * TAIL,
        0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xe0..=0xe3 | 0xeb => TAIL,
        0xa9 | 0xb8..=0xbf | 0xe8 | 0xe9 => 4 * TAIL,
        _ => 0,
    }
}

/// Returns the parts that follow an opcode after 0f (table A-3).
const fn behind_0f(op: u8, modrm: u16) -> u16 {
    match op {
        0x05..=0x0b | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => 0,
        0x80..=0x8f => 4 * TAIL,
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => modrm + TAIL,
        _ => modrm,
    }
}

/// The shape of ModRM, SIB and displacement. The index is ModRM with the lower three bits of the
/// next byte above it. The next byte is SIB if there is one.
static ADDRESS: [u8; 2048] = {
    let mut table = [0; 2048];
    let mut bytes = 0;
    while bytes < 2048 {
        let (modrm, base) = (bytes & 0xff, bytes >> 8);
        let sib = modrm & 7 == 4 && modrm < 0xc0;
        let displacement = match modrm >> 6 {
            0 if modrm & 7 == 5 || sib && base == 5 => 4 * TAIL,
            1 => TAIL,
            2 => 4 * TAIL,
            _ => 0,
        };
        table[bytes] = ((if sib { 2 * HEAD } else { HEAD } + displacement) >> 8) as u8;
        bytes += 1;
    }
    table
};

/// Returns the entry of [`ADDRESS`] for the lowest two bytes.
#[inline]
fn address(bytes: u64) -> u8 {
    ADDRESS[(bytes & 0x7ff) as usize]
}

/// Guesses the shape from the first 8 bytes. The next guess waits for this one, so the path is
/// short: the entries of [`ADDRESS`] are read for every possible place of ModRM before the place is
/// known.
#[inline]
pub(crate) fn guess(window: u64) -> Shape {
    let look = |rest: u64| u32::from(FORMS[usize::from((rest as u16).swap_bytes())]);
    let (mut rest, mut prefixes, mut form) = (window, 0, look(window));
    while form & AGAIN != 0 {
        if form & u32::from(RARE) != 0 {
            return Shape(((prefixes >> 8) as u8).wrapping_add(rare(rest)));
        }
        prefixes += form;
        rest >>= (form & AGAIN) >> 2;
        form = look(rest);
    }
    let address = addresses(rest) >> (form & PLACE);
    Shape((((prefixes + form) >> 8) + address) as u8)
}

/// Returns the shapes of ModRM, SIB and displacement for ModRM in the second and in the third byte.
#[inline]
fn addresses(bytes: u64) -> u32 {
    u32::from(address(bytes >> 8)) << 8 | u32::from(address(bytes >> 16)) << 16
}

/// Returns the whole shape of an instruction with VEX, EVEX or an opcode of three bytes.
#[inline(never)]
fn rare(rest: u64) -> u8 {
    let byte = |n: u32| (rest >> (n * 8)) as u8;
    let (map, at) = match byte(0) {
        0x0f => (byte(1) >> 1 & 1 | 2, 2),
        0xc5 => (1, 2),
        0xc4 => (byte(1), 3),
        _ => (byte(1), 4),
    };
    let form = match map & 3 {
        1 => behind_0f(byte(at), MODRM),
        3 => MODRM + TAIL,
        _ => MODRM,
    };
    let address = if form & MODRM == 0 { 0 } else { address(rest >> (8 * at + 8)) };
    (((at as u16 + 1) * HEAD + form) >> 8) as u8 + address
}
