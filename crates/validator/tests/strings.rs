//! Repeated string instructions: mistakes that the validator finds.

mod support;

use sfi_rewriter::{Mode, Options, rewrite};
use sfi_validator::validate;
use support::{object, words};

/// A comparison whose flags are read. Zero bytes leave those of `cmp`.
const COMPARED: &str = "
    .globl f
    .type f,@function
f:  mov %rdx,%rcx
    cmp %esi,%edx
    repe cmpsb
    setb %al
    movzbl %al,%eax
    ret
    .section .note.GNU-stack,\"\",@progbits
";

/// A comparison overwrites the flags that its region has changed, and a copy does not. So a copy in
/// place of the comparison needs more than the branch that skips zero bytes.
#[test]
fn flags_that_a_copy_needs_are_not_those_of_a_comparison() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("compared.s");
    std::fs::write(&source, COMPARED).expect("source");
    let original = object(&source, &[]).expect("assembles");
    let output = rewrite(&original, &Options { mode: Mode::Full, ..Default::default() }).expect("rewritten");
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let copies = |bytes: &[u8]| {
        let places: Vec<usize> = (0..bytes.len() - 1).filter(|at| bytes[*at..*at + 2] == [0xf3, 0xa6]).collect();
        assert_eq!(places.len(), 1, "{places:?}");
        let mut copies = bytes.to_vec();
        copies[places[0] + 1] = 0xa4;
        copies
    };
    let proof = validate(&copies(&original), &copies(&output.bytes), &output.traces);
    assert!(
        words(&proof).contains("the original program reads CF, which the new code has overwritten"),
        "{}",
        words(&proof)
    );
}

/// A fill before a loop. The data stack pointer moves to its place at the loop after it.
const FILLED: &str = "
    .globl f
    .type f,@function
f:  sub $8,%rsp
    mov %rax,(%rsp)
    mov $512,%ecx
    rep stosq
1:  call g@PLT
    jmp 1b
    .section .note.GNU-stack,\"\",@progbits
";

/// A fill of nothing is skipped. The data stack pointer must move nevertheless.
#[test]
fn a_skipped_fill_moves_the_stack_pointer_too() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("filled.s");
    std::fs::write(&source, FILLED).expect("source");
    let original = object(&source, &[]).expect("assembles");
    for mode in [Mode::Write, Mode::Full] {
        let output = rewrite(&original, &Options { mode, ..Default::default() }).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{}", words(&proof));
        // `jrcxz`, over the fill, to `lea -16(%r15),%r15`.
        let moves = [0x4d, 0x8d, 0x7f, 0xf0];
        let is_skip = |at: &usize| {
            let over = at + 2 + usize::from(output.bytes[at + 1]);
            output.bytes[*at] == 0xe3 && output.bytes[over..].starts_with(&moves)
        };
        let skips: Vec<usize> = (0..output.bytes.len() - 0x100).filter(is_skip).collect();
        assert_eq!(skips.len(), 1, "{skips:?}");
        let mut skipped = output.bytes.clone();
        skipped[skips[0] + 1] += moves.len() as u8;
        let proof = validate(&original, &skipped, &output.traces);
        assert!(words(&proof).contains("moves the data stack pointer"), "{}", words(&proof));
    }
}
