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
