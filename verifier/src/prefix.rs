//! Legacy and REX prefixes on raw bytes (Intel SDM volume 2, section 2.1 and 2.2.1).
//!
//! The decoder is not asked. The bytes alone decide about prefixes, so that a store counts as
//! confined only if the bytes 65 and 67 are really there.

use crate::report::Fault;
use sfi_contract::Rule;
use sfi_contract::policy::prefix::{P65, P66, P67, PF0, PF2, PF3, REX};

/// The prefixes of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefixes {
    /// The prefixes seen, as bits of [`sfi_contract::policy::prefix`].
    pub seen: u8,
    /// The REX byte, 0 if there is none.
    pub rex: u8,
    /// The byte after the prefixes.
    pub opcode: u8,
}

const FS: u8 = 1 << 7;
const IGNORED_SEGMENT: u8 = FS | REX;
const GROUP_1: u8 = PF0 | PF2 | PF3;

/// The prefix bit of each byte: 0 if the byte is no prefix, [`FS`] for 64, [`IGNORED_SEGMENT`] for
/// 26, 2E, 36 and 3E.
static KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte {
            0x66 => P66,
            0xf3 => PF3,
            0xf2 => PF2,
            0xf0 => PF0,
            0x65 => P65,
            0x67 => P67,
            0x64 => FS,
            0x26 | 0x2e | 0x36 | 0x3e => IGNORED_SEGMENT,
            0x40..=0x4f => REX,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// Checks rules `SFI-D03` and `SFI-F01` on the prefix bytes alone: at most one of each group in any
/// order, then at most one REX, then the opcode.
pub(crate) fn scan(instruction: &[u8]) -> Result<Prefixes, Fault> {
    let mut prefixes = Prefixes { seen: 0, rex: 0, opcode: 0 };
    for &byte in instruction {
        let kind = KINDS[usize::from(byte)];
        if kind == 0 {
            prefixes.opcode = byte;
            break;
        }
        let group = if kind & GROUP_1 != 0 { GROUP_1 } else { kind };
        if kind & FS | prefixes.seen & (group | REX) != 0 {
            return Err(match kind {
                FS => (Rule::FsNamed, "prefix 64"),
                IGNORED_SEGMENT => (Rule::Prefix, "a segment prefix that 64-bit mode ignores (26, 2e, 36, 3e)"),
                _ if prefixes.seen & REX != 0 => (Rule::Prefix, "REX is not the last prefix"),
                _ if prefixes.seen & kind != 0 => (Rule::Prefix, "the same prefix twice"),
                _ => (Rule::Prefix, "two of the prefixes f0, f2, f3"),
            });
        }
        prefixes.rex = if kind == REX { byte } else { 0 };
        prefixes.seen |= kind;
    }
    // VEX (C4, C5) and EVEX (62) carry REX, 66, F2 and F3 themselves. After such a prefix they
    // raise #UD (SDM 2.3.2).
    if matches!(prefixes.opcode, 0xc4 | 0xc5 | 0x62) && prefixes.seen & !(P65 | P67) != 0 {
        return Err((Rule::Prefix, "66, f0, f2, f3 or REX in front of VEX or EVEX"));
    }
    Ok(prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_prefixes_are_read() {
        let seen = |bytes: &[u8]| scan(bytes).map(|p| (p.seen, p.rex));
        assert_eq!(seen(&[0x90]), Ok((0, 0)));
        assert_eq!(seen(&[0x48, 0x89, 0x07]), Ok((REX, 0x48)));
        assert_eq!(seen(&[0x65, 0x67, 0x48, 0x89, 0x07]), Ok((P65 | P67 | REX, 0x48)));
        assert_eq!(seen(&[0x67, 0x66, 0xf0, 0x65, 0x41, 0x01]), Ok((P65 | P66 | P67 | PF0 | REX, 0x41)));
        assert_eq!(seen(&[0x65, 0x67, 0xc5, 0xf8, 0x11, 0x07]), Ok((P65 | P67, 0)));
        assert_eq!(seen(&[]), Ok((0, 0)));
    }

    #[test]
    fn odd_prefixes_are_defects() {
        let odd: [&[u8]; 14] = [
            &[0x66, 0x66, 0x90],
            &[0x65, 0x65, 0x8b, 0x07],
            &[0x67, 0x67, 0x8b, 0x07],
            &[0xf2, 0xf3, 0xa4],
            &[0xf0, 0xf3, 0x01, 0x07],
            &[0x48, 0x66, 0x89, 0x07],
            &[0x48, 0x48, 0x89, 0x07],
            &[0x48, 0x65, 0x89, 0x07],
            &[0x2e, 0x90],
            &[0x65, 0x3e, 0x8b, 0x07],
            &[0x40, 0xc5, 0xf8, 0x77],
            &[0x66, 0xc5, 0xf8, 0x77],
            &[0xf3, 0x62, 0xf1],
            &[0xf0, 0xc4, 0xe2],
        ];
        for bytes in odd {
            assert!(matches!(scan(bytes), Err((Rule::Prefix, _))), "{bytes:x?}");
        }
        assert!(matches!(scan(&[0x64, 0x8b, 0x07]), Err((Rule::FsNamed, _))));
        assert!(matches!(scan(&[0x65, 0x64, 0x8b, 0x07]), Err((Rule::FsNamed, _))));
    }
}
