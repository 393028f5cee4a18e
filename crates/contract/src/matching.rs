//! The checks of mode match (segment matching, Wahbe et al. section 3.1): what stands before each
//! store and each indirect branch.
//!
//! ```text
//! mov %rcx,%gs:RCX ; lea ADDRESS,%rcx ; ... ; int3 ; ... ; mov %gs:RCX,%rcx
//! ```
//!
//! All but the `lea` is fixed, byte for byte. A check notes the address at [`NOTE`], traps if the
//! address is wrong, and leaves every register as it was. The fixed bytes name
//! [`HEADER_BASE`](crate::layout::HEADER_BASE) (and the word's upper half),
//! [`HEADER_MINUS`](crate::layout::HEADER_MINUS) and
//! [`HEADER_REGIONS`](crate::layout::HEADER_REGIONS).

use crate::layout::TCB_SCRATCH;

/// `u64` in the TCB: what rcx held before a check.
pub const SAVED: u64 = TCB_SCRATCH + 8 * 4;
/// `u64` in the TCB: the address that the last check looked at.
pub const NOTE: u64 = TCB_SCRATCH + 8 * 6;

/// The beginning of a check. The `lea` follows.
///
/// ```text
/// mov %rcx,%gs:0x300f30
/// ```
pub const HEAD: [u8; 10] = [0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0x30, 0x0f, 0x30, 0x00];

/// Behind the `lea` of a store, where the flags are free: traps unless the address lies in the
/// window, or has the upper half of common addresses of a shared region of the domain.
///
/// ```text
/// mov %rcx,%gs:0x300f40 ; shr $32,%rcx ; cmp %gs:0xff004,%ecx ; je 1f
/// movzbl %gs:0x300f44,%ecx ; mov %gs:0xff800(,%rcx,8),%rcx ; add %gs:0x300f40,%rcx ; shr $32,%rcx ; je 1f ; int3
/// 1: mov %gs:0x300f30,%rcx
/// ```
pub const STORE: [u8; 67] = [
    0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0x40, 0x0f, 0x30, 0x00, // mov %rcx,%gs:0x300f40
    0x48, 0xc1, 0xe9, 0x20, // shr $32,%rcx
    0x65, 0x3b, 0x0c, 0x25, 0x04, 0xf0, 0x0f, 0x00, // cmp %gs:0xff004,%ecx
    0x74, 0x22, // je 1f
    0x65, 0x0f, 0xb6, 0x0c, 0x25, 0x44, 0x0f, 0x30, 0x00, // movzbl %gs:0x300f44,%ecx
    0x65, 0x48, 0x8b, 0x0c, 0xcd, 0x00, 0xf8, 0x0f, 0x00, // mov %gs:0xff800(,%rcx,8),%rcx
    0x65, 0x48, 0x03, 0x0c, 0x25, 0x40, 0x0f, 0x30, 0x00, // add %gs:0x300f40,%rcx
    0x48, 0xc1, 0xe9, 0x20, // shr $32,%rcx
    0x74, 0x01, 0xcc, // je 1f ; int3
    0x65, 0x48, 0x8b, 0x0c, 0x25, 0x30, 0x0f, 0x30, 0x00, // 1: mov %gs:0x300f30,%rcx
];

/// The same where the flags hold something.
///
/// ```text
/// mov %rcx,%gs:0x300f40 ; mov %rax,%gs:0x300f38 ; mov %gs:0xff038,%rax ; lea (%rcx,%rax),%rcx
/// mov %rcx,%gs:0x300f50 ; mov %gs:0x300f54,%ecx ; jrcxz 1f
/// movzbl %gs:0x300f44,%ecx ; mov %gs:0xff800(,%rcx,8),%rcx ; mov %gs:0x300f40,%rax ; lea (%rcx,%rax),%rcx
/// mov %rcx,%gs:0x300f50 ; mov %gs:0x300f54,%ecx ; jrcxz 1f ; int3
/// 1: mov %gs:0x300f38,%rax ; mov %gs:0x300f30,%rcx
/// ```
pub const STORE_KEEPING_FLAGS: [u8; 123] = [
    0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0x40, 0x0f, 0x30, 0x00, // mov %rcx,%gs:0x300f40
    0x65, 0x67, 0x48, 0x89, 0x04, 0x25, 0x38, 0x0f, 0x30, 0x00, // mov %rax,%gs:0x300f38
    0x65, 0x48, 0x8b, 0x04, 0x25, 0x38, 0xf0, 0x0f, 0x00, // mov %gs:0xff038,%rax
    0x48, 0x8d, 0x0c, 0x01, // lea (%rcx,%rax),%rcx
    0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0x50, 0x0f, 0x30, 0x00, // mov %rcx,%gs:0x300f50
    0x65, 0x8b, 0x0c, 0x25, 0x54, 0x0f, 0x30, 0x00, // mov %gs:0x300f54,%ecx
    0xe3, 0x34, // jrcxz 1f
    0x65, 0x0f, 0xb6, 0x0c, 0x25, 0x44, 0x0f, 0x30, 0x00, // movzbl %gs:0x300f44,%ecx
    0x65, 0x48, 0x8b, 0x0c, 0xcd, 0x00, 0xf8, 0x0f, 0x00, // mov %gs:0xff800(,%rcx,8),%rcx
    0x65, 0x48, 0x8b, 0x04, 0x25, 0x40, 0x0f, 0x30, 0x00, // mov %gs:0x300f40,%rax
    0x48, 0x8d, 0x0c, 0x01, // lea (%rcx,%rax),%rcx
    0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0x50, 0x0f, 0x30, 0x00, // mov %rcx,%gs:0x300f50
    0x65, 0x8b, 0x0c, 0x25, 0x54, 0x0f, 0x30, 0x00, // mov %gs:0x300f54,%ecx
    0xe3, 0x01, 0xcc, // jrcxz 1f ; int3
    0x65, 0x48, 0x8b, 0x04, 0x25, 0x38, 0x0f, 0x30, 0x00, // 1: mov %gs:0x300f38,%rax
    0x65, 0x48, 0x8b, 0x0c, 0x25, 0x30, 0x0f, 0x30, 0x00, // mov %gs:0x300f30,%rcx
];

/// Behind the `lea` of an indirect branch: traps unless the pointer is the address of a dispatch
/// slot.
///
/// ```text
/// mov %rcx,%gs:0x300f40 ; sub %gs:0xff000,%rcx ; lea -0x100000(%rcx),%rcx ; test $~0xffff8,%rcx ; je 1f ; int3
/// 1: mov %gs:0x300f30,%rcx
/// ```
pub const BRANCH: [u8; 45] = [
    0x65, 0x67, 0x48, 0x89, 0x0c, 0x25, 0x40, 0x0f, 0x30, 0x00, // mov %rcx,%gs:0x300f40
    0x65, 0x48, 0x2b, 0x0c, 0x25, 0x00, 0xf0, 0x0f, 0x00, // sub %gs:0xff000,%rcx
    0x48, 0x8d, 0x89, 0x00, 0x00, 0xf0, 0xff, // lea -0x100000(%rcx),%rcx
    0x48, 0xf7, 0xc1, 0x07, 0x00, 0xf0, 0xff, // test $0xfffffffffff00007,%rcx
    0x74, 0x01, 0xcc, // je 1f ; int3
    0x65, 0x48, 0x8b, 0x0c, 0x25, 0x30, 0x0f, 0x30, 0x00, // 1: mov %gs:0x300f30,%rcx
];

/// The instruction that a check precedes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A store.
    Store,
    /// An indirect branch.
    Branch,
}

/// The ends of checks: what follows the `lea`.
const TAILS: [(Check, &[u8]); 3] =
    [(Check::Store, &STORE), (Check::Store, &STORE_KEEPING_FLAGS), (Check::Branch, &BRANCH)];

/// The check whose end, behind the `lea`, the bytes begin with, and how long that is.
pub fn tail(bytes: &[u8]) -> Option<(Check, usize)> {
    TAILS.into_iter().find(|(_, tail)| bytes.starts_with(tail)).map(|(check, tail)| (check, tail.len()))
}

/// The check whose `int3` the bytes before `at` end with, and the bytes of it that follow.
pub fn trapped(bytes: &[u8], at: usize) -> Option<(Check, usize)> {
    let (before, after) = (bytes.get(..at)?, bytes.get(at..)?);
    TAILS.into_iter().find_map(|(check, tail)| {
        let trap = tail.iter().rposition(|byte| *byte == 0xcc)? + 1;
        let (head, rest) = tail.split_at(trap);
        (before.ends_with(head) && after.starts_with(rest)).then_some((check, rest.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DISPATCH_MASK, DISPATCH_OFFSET, HEADER_BASE, HEADER_MINUS, HEADER_REGIONS, TCB_SCRATCH_SLOTS};

    /// The numbers in the bytes are those of the layout.
    #[test]
    fn numbers() {
        let word = |bytes: &[u8], at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        let slot = |n: u64| TCB_SCRATCH + 8 * n;
        assert_eq!((word(&HEAD, 6), slot(8) < slot(TCB_SCRATCH_SLOTS)), (SAVED, true));
        for tail in [&STORE[..], &STORE_KEEPING_FLAGS, &BRANCH] {
            assert_eq!((word(tail, 6), word(tail, tail.len() - 4)), (NOTE, SAVED));
        }
        assert_eq!(word(&STORE, 18), HEADER_BASE + 4);
        assert_eq!([16, 25].map(|at| word(&STORE_KEEPING_FLAGS, at)), [slot(5), HEADER_MINUS]);
        assert_eq!([39, 90].map(|at| word(&STORE_KEEPING_FLAGS, at)), [slot(8); 2]);
        assert_eq!([47, 98, 110].map(|at| word(&STORE_KEEPING_FLAGS, at)), [slot(8) + 4, slot(8) + 4, slot(5)]);
        for (tail, at) in [(&STORE[..], 24), (&STORE_KEEPING_FLAGS, 53)] {
            assert_eq!([at + 5, at + 14, at + 23].map(|at| word(tail, at)), [NOTE + 4, HEADER_REGIONS, NOTE]);
        }
        assert_eq!(word(&BRANCH, 15), HEADER_BASE);
        assert_eq!(word(&BRANCH, 22), u64::from((DISPATCH_OFFSET as u32).wrapping_neg()));
        assert_eq!(word(&BRANCH, 29), u64::from(!DISPATCH_MASK));
    }

    #[test]
    fn traps_are_found_in_place() {
        for (check, tail) in TAILS {
            let trap = tail.iter().rposition(|byte| *byte == 0xcc).unwrap();
            let text = [&[0x90; 3], tail, &[0x90; 3]].concat();
            for at in 0..text.len() {
                let expected = (at == 3 + trap + 1).then_some((check, tail.len() - trap - 1));
                assert_eq!(trapped(&text, at), expected, "{at}");
            }
            assert_eq!(super::tail(tail), Some((check, tail.len())));
            assert_eq!(super::tail(&tail[1..]), None);
        }
    }
}
