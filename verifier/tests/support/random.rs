//! Random instructions.

use proptest::test_runner::TestRng;
use rand::RngExt;

/// Returns random bytes that often are an instruction: some prefixes, an opcode map, an opcode, and
/// ModRM with the bytes after it.
pub(super) fn random(rng: &mut TestRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Mostly the prefixes that confined operands need.
    if rng.random_ratio(2, 3) {
        bytes.extend_from_slice(&[0x65, 0x67]);
    }
    for _ in 0..rng.random_range(0..3) {
        const PREFIXES: [u8; 10] = [0x65, 0x67, 0x66, 0xf3, 0xf2, 0xf0, 0x48, 0x41, 0x4c, 0x2e];
        bytes.push(PREFIXES[rng.random_range(0..PREFIXES.len())]);
    }
    match rng.random_range(0..8) {
        0 | 1 => {}
        2 => bytes.push(0x0f),
        3 => bytes.extend_from_slice(&[0x0f, 0x38]),
        4 => bytes.extend_from_slice(&[0x0f, 0x3a]),
        5 => bytes.extend_from_slice(&[0xc5, rng.random()]),
        6 => bytes.extend_from_slice(&[0xc4, rng.random::<u8>() & 0xe0 | rng.random_range(1..4), rng.random()]),
        _ => bytes.extend_from_slice(&[
            0x62,
            rng.random::<u8>() & 0xf0 | rng.random_range(1..4),
            rng.random::<u8>() | 4,
            rng.random(),
        ]),
    }
    bytes.extend((0..12).map(|_| rng.random::<u8>()));
    bytes
}
