//! Orders of prefixes that no assembler writes.

/// Says whether a byte is a prefix of any kind, also one that 64-bit mode ignores.
fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
}

/// Says whether the order is canonical: at most one prefix of each group, then at most one REX, and
/// neither 66, F0, F2, F3 nor REX before VEX or EVEX.
fn is_canonical(bytes: &[u8]) -> bool {
    let group = |byte: &u8| if byte & 0xfc == 0xf0 { 0xf0 } else { *byte };
    let legacy = bytes.iter().take_while(|byte| matches!(byte, 0x65..=0x67 | 0xf0 | 0xf2 | 0xf3));
    let legacy: Vec<u8> = legacy.map(group).collect();
    let twice = (1..legacy.len()).any(|i| legacy[..i].contains(&legacy[i]));
    let vector = |byte: u8| matches!(byte, 0xc4 | 0xc5 | 0x62);
    !twice
        && match bytes[legacy.len()..] {
            [0x40..=0x4f, next, ..] => !is_prefix(next) && !vector(next),
            [next, ..] if vector(next) => legacy.iter().all(|byte| matches!(byte, 0x65 | 0x67)),
            [next, ..] => !is_prefix(next),
            [] => true,
        }
}

/// Returns the bytes of a canonical instruction with one more prefix, at every place where the
/// result is not canonical.
pub fn neighbours(bytes: &[u8]) -> Vec<Vec<u8>> {
    assert!(is_canonical(bytes), "{bytes:02x?}");
    let mut all = Vec::new();
    for byte in [0x26, 0x2e, 0x36, 0x3e, 0x40, 0x48, 0x4f, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3] {
        for place in 0..bytes.len() {
            // The new byte is a prefix only if all bytes before it are.
            if !bytes[..place].iter().all(|byte| is_prefix(*byte)) {
                break;
            }
            let mut longer = bytes.to_vec();
            longer.insert(place, byte);
            if !is_canonical(&longer) {
                all.push(longer);
            }
        }
    }
    all
}
