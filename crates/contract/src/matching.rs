//! The checks of mode match (segment matching, Wahbe et al. section 3.1). One stands before each
//! store and each indirect branch.
//!
//! ```text
//! mov %rcx,%gs:SAVED ; lea ADDRESS,%rcx ; ... ; int3 ; ... ; mov %gs:SAVED,%rcx
//! ```
//!
//! All bytes but the `lea` are fixed, with fields for the places that they name ([`Pattern`]). A
//! check notes the address at [`NOTE`], traps if the address is wrong, and leaves every register as
//! it was.

use crate::anchor::Anchored;
use crate::layout::{HEADER_BASE, HEADER_MINUS, HEADER_MINUS_DISPATCH, HEADER_REGIONS, TCB_SCRATCH};

/// `u64` in the TCB: the value of rcx before a check.
pub const SAVED: Anchored = TCB_SCRATCH.plus(8 * 4);
/// `u64` in the TCB: the value of rax before a check.
const SAVED_RAX: Anchored = TCB_SCRATCH.plus(8 * 5);
/// `u64` in the TCB: the address that the last check tested.
pub const NOTE: Anchored = TCB_SCRATCH.plus(8 * 6);
/// `u64` in the TCB: a difference of addresses, whose upper half a check loads.
const DIFFERENCE: Anchored = TCB_SCRATCH.plus(8 * 8);

/// Instructions that are fixed but for the offsets of places. These have 32 bits each and are 0 in
/// the bytes.
#[derive(Debug)]
pub struct Pattern {
    /// The bytes.
    pub bytes: &'static [u8],
    /// The positions of the places' offsets in the bytes, ascending.
    pub fields: &'static [(usize, Anchored)],
}

impl Pattern {
    /// Says whether the bytes begin with the pattern. Its fields may hold any number.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        let mut at = 0;
        let ends = self.fields.iter().map(|(field, _)| (*field, field + 4));
        bytes.len() >= self.bytes.len()
            && ends.chain([(self.bytes.len(), 0)]).all(|(field, behind)| {
                let from = std::mem::replace(&mut at, behind);
                self.bytes[from..field] == bytes[from..field]
            })
    }
}

/// The beginning of a check. The `lea` follows.
///
/// ```text
/// mov %rcx,%gs:SAVED
/// ```
pub const HEAD: Pattern = Pattern { bytes: &[0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0], fields: &[(6, SAVED)] };

/// The end of a store's check, after the `lea`, where the flags are free. It traps unless the
/// address lies in the window, or has the upper half of the common addresses of a shared region of
/// the domain.
///
/// ```text
/// mov %rcx,%gs:NOTE ; shr $32,%rcx ; cmp %gs:HEADER_BASE+4,%ecx ; je 1f
/// movzbl %gs:NOTE+4,%ecx ; mov %gs:HEADER_REGIONS(,%rcx,8),%rcx
/// add %gs:NOTE,%rcx ; shr $32,%rcx ; je 1f ; int3
/// 1: mov %gs:SAVED,%rcx
/// ```
pub const STORE: Pattern = Pattern {
    bytes: &[
        0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0, // mov %rcx,%gs:NOTE
        0x48, 0xc1, 0xe9, 0x20, // shr $32,%rcx
        0x65, 0x3b, 0x0c, 0x25, 0, 0, 0, 0, // cmp %gs:HEADER_BASE+4,%ecx
        0x74, 0x22, // je 1f
        0x65, 0x0f, 0xb6, 0x0c, 0x25, 0, 0, 0, 0, // movzbl %gs:NOTE+4,%ecx
        0x65, 0x48, 0x8b, 0x0c, 0xcd, 0, 0, 0, 0, // mov %gs:HEADER_REGIONS(,%rcx,8),%rcx
        0x65, 0x48, 0x03, 0x0c, 0x25, 0, 0, 0, 0, // add %gs:NOTE,%rcx
        0x48, 0xc1, 0xe9, 0x20, // shr $32,%rcx
        0x74, 0x01, 0xcc, // je 1f ; int3
        0x65, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, // 1: mov %gs:SAVED,%rcx
    ],
    fields: &[(6, NOTE), (18, HEADER_BASE.plus(4)), (29, NOTE.plus(4)), (38, HEADER_REGIONS), (47, NOTE), (63, SAVED)],
};

/// The end of a store's check, after the `lea`, where the flags are live. It traps as [`STORE`]
/// does.
///
/// ```text
/// mov %rcx,%gs:NOTE ; mov %rax,%gs:SAVED_RAX ; mov %gs:HEADER_MINUS,%rax ; lea (%rcx,%rax),%rcx
/// mov %rcx,%gs:DIFFERENCE ; mov %gs:DIFFERENCE+4,%ecx ; jrcxz 1f
/// movzbl %gs:NOTE+4,%ecx ; mov %gs:HEADER_REGIONS(,%rcx,8),%rcx
/// mov %gs:NOTE,%rax ; lea (%rcx,%rax),%rcx
/// mov %rcx,%gs:DIFFERENCE ; mov %gs:DIFFERENCE+4,%ecx ; jrcxz 1f ; int3
/// 1: mov %gs:SAVED_RAX,%rax ; mov %gs:SAVED,%rcx
/// ```
pub const STORE_KEEPING_FLAGS: Pattern = Pattern {
    bytes: &[
        0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0, // mov %rcx,%gs:NOTE
        0x65, 0x67, 0x48, 0x89, 0x04, 0x25, 0, 0, 0, 0, // mov %rax,%gs:SAVED_RAX
        0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, // mov %gs:HEADER_MINUS,%rax
        0x48, 0x8d, 0x0c, 0x01, // lea (%rcx,%rax),%rcx
        0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0, // mov %rcx,%gs:DIFFERENCE
        0x65, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, // mov %gs:DIFFERENCE+4,%ecx
        0xe3, 0x34, // jrcxz 1f
        0x65, 0x0f, 0xb6, 0x0c, 0x25, 0, 0, 0, 0, // movzbl %gs:NOTE+4,%ecx
        0x65, 0x48, 0x8b, 0x0c, 0xcd, 0, 0, 0, 0, // mov %gs:HEADER_REGIONS(,%rcx,8),%rcx
        0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, // mov %gs:NOTE,%rax
        0x48, 0x8d, 0x0c, 0x01, // lea (%rcx,%rax),%rcx
        0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0, // mov %rcx,%gs:DIFFERENCE
        0x65, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, // mov %gs:DIFFERENCE+4,%ecx
        0xe3, 0x01, 0xcc, // jrcxz 1f ; int3
        0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, // 1: mov %gs:SAVED_RAX,%rax
        0x65, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, // mov %gs:SAVED,%rcx
    ],
    fields: &[
        (6, NOTE),
        (16, SAVED_RAX),
        (25, HEADER_MINUS),
        (39, DIFFERENCE),
        (47, DIFFERENCE.plus(4)),
        (58, NOTE.plus(4)),
        (67, HEADER_REGIONS),
        (76, NOTE),
        (90, DIFFERENCE),
        (98, DIFFERENCE.plus(4)),
        (110, SAVED_RAX),
        (119, SAVED),
    ],
};

/// The end of an indirect branch's check, after the `lea`. It traps unless the pointer is the
/// address of a dispatch slot.
///
/// ```text
/// mov %rcx,%gs:NOTE ; add %gs:HEADER_MINUS_DISPATCH,%rcx ; test $~0xffff8,%rcx ; je 1f ; int3
/// 1: mov %gs:SAVED,%rcx
/// ```
pub const BRANCH: Pattern = Pattern {
    bytes: &[
        0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0, // mov %rcx,%gs:NOTE
        0x65, 0x48, 0x03, 0x0c, 0x25, 0, 0, 0, 0, // add %gs:HEADER_MINUS_DISPATCH,%rcx
        0x48, 0xf7, 0xc1, 0x07, 0x00, 0xf0, 0xff, // test $0xfffffffffff00007,%rcx
        0x74, 0x01, 0xcc, // je 1f ; int3
        0x65, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, // 1: mov %gs:SAVED,%rcx
    ],
    fields: &[(6, NOTE), (15, HEADER_MINUS_DISPATCH), (34, SAVED)],
};

/// The instruction that a check precedes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A store.
    Store,
    /// An indirect branch.
    Branch,
}

/// The ends of checks, which follow the `lea`.
const TAILS: [(Check, &Pattern); 3] =
    [(Check::Store, &STORE), (Check::Store, &STORE_KEEPING_FLAGS), (Check::Branch, &BRANCH)];

/// Returns the check whose end the bytes begin with. The end follows the `lea`, and its fields may
/// hold any number.
pub fn tail(bytes: &[u8]) -> Option<(Check, &'static Pattern)> {
    TAILS.into_iter().find(|(_, tail)| tail.fits(bytes))
}

/// Returns the check whose `int3` is the last byte before `at`, and the number of its bytes that
/// follow.
pub fn trapped(bytes: &[u8], at: usize) -> Option<(Check, usize)> {
    TAILS.into_iter().find_map(|(check, tail)| {
        let trap = tail.bytes.iter().rposition(|byte| *byte == 0xcc)? + 1;
        let fits = tail.fits(bytes.get(at.checked_sub(trap)?..)?);
        fits.then_some((check, tail.bytes.len() - trap))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DISPATCH_MASK;

    /// A field is four zero bytes that end an instruction, after a ModRM and a SIB byte without
    /// registers.
    #[test]
    fn fields() {
        for pattern in [&HEAD, &STORE, &STORE_KEEPING_FLAGS, &BRANCH] {
            assert!(pattern.fields.is_sorted_by(|a, b| a.0 + 4 <= b.0));
            for (at, place) in pattern.fields {
                assert_eq!(pattern.bytes[*at..at + 4], [0; 4], "{place:?}");
                assert!(matches!(pattern.bytes[at - 1], 0x25 | 0xcd) && pattern.bytes[at - 2] & 0xc7 == 0x04);
            }
            // No other operand is without registers.
            let all = pattern.bytes.windows(2).filter(|w| w[0] & 0xc7 == 0x04 && matches!(w[1], 0x25 | 0xcd)).count();
            assert_eq!(all, pattern.fields.len());
        }
        assert_eq!(BRANCH.bytes[22..26], (!DISPATCH_MASK).to_le_bytes());
    }

    #[test]
    fn bytes_fit_whatever_the_fields_hold() {
        for pattern in [&HEAD, &STORE, &STORE_KEEPING_FLAGS, &BRANCH] {
            for at in 0..pattern.bytes.len() {
                let mut bytes = [pattern.bytes, &[0x90]].concat();
                bytes[at] ^= 1;
                assert_eq!(pattern.fits(&bytes), pattern.fields.iter().any(|f| (f.0..f.0 + 4).contains(&at)), "{at}");
                assert!(!pattern.fits(&pattern.bytes[..at]));
            }
        }
    }

    #[test]
    fn traps_are_found_in_place() {
        for (check, tail) in TAILS {
            let trap = tail.bytes.iter().rposition(|byte| *byte == 0xcc).unwrap();
            let text = [&[0x90; 3], tail.bytes, &[0x90; 3]].concat();
            for at in 0..text.len() {
                let expected = (at == 3 + trap + 1).then_some((check, tail.bytes.len() - trap - 1));
                assert_eq!(trapped(&text, at), expected, "{at}");
            }
            let found = super::tail(tail.bytes).map(|(check, tail)| (check, tail.bytes));
            assert_eq!(found, Some((check, tail.bytes)));
            assert!(super::tail(&tail.bytes[1..]).is_none());
        }
    }
}
