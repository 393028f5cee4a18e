//! Copies of r15's value in registers of the new program whose own values it lost: mistakes that
//! the validator finds.

mod support;

use sfi_rewriter::{Options, rewrite};
use sfi_validator::validate;
use support::{object, words};

/// r15 lives in its slot of the frame, because the call preserves it and the function uses all
/// other preserved registers more. The rewritten program has other instructions than the original
/// one at SET and USE.
const HOMED: &str = "
    .globl f
    .type f,@function
f:  push %r15
    push %r14
    push %r13
    push %r12
    push %rbp
    push %rbx
    mov %rdi,%r15
    mov %rsi,%r14
    mov %rdx,%r13
    mov %rcx,%r12
    mov %r8,%rbp
    mov %r9,%rbx
    call other@PLT
1:  add %r14,%r13
    add %r13,%r12
    add %r12,%rbp
    add %rbp,%rbx
    dec %rbx
    jne 1b
    SET
    USE
    pop %rbx
    pop %rbp
    pop %r12
    pop %r13
    pop %r14
    pop %r15
    ret
    .section .note.GNU-stack,\"\",@progbits
";

/// Instructions that read r15, and those of the same length that read r11 in its place.
const WHOLE: [&str; 2] = ["lea 1(%r15),%rax", "lea 1(%r11),%rax"];
const BYTE: [&str; 2] = ["movzbl %r15b,%eax", "movzbl %r11b,%eax"];

/// Assembles the program with two instructions.
fn homed(set: &str, reads: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("homed.s");
    std::fs::write(&source, HOMED.replace("SET", set).replace("USE", reads)).expect("source");
    object(&source, &[]).expect("assembles")
}

/// The home does not get the value of r15. Another register has it, or only its low byte.
#[test]
fn a_register_with_the_low_byte_of_r15_holds_no_more_of_it() {
    for (set, [reads, by], right) in [
        (["movzbl %dil,%r15d", "movzbl %dil,%r11d"], WHOLE, true),
        (["setb %r15b", "setb %r11b"], WHOLE, false),
        (["setb %r15b", "setb %r11b"], BYTE, true),
    ] {
        let original = homed(set[0], reads);
        let output = rewrite(&homed(set[1], by), &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert_eq!(proof.holds(), right, "{set:?}, {by}:\n{}", words(&proof));
    }
}

/// The home keeps the value of r15. A register has the same low byte and is no copy, so nothing may
/// read it in place of the home.
#[test]
fn a_register_with_the_low_byte_of_the_home_is_no_copy_of_it() {
    let original = homed("mov %edi,%r11d", WHOLE[0]);
    let output = rewrite(&homed("mov %r15b,%r11b", WHOLE[1]), &Options::default()).expect("rewritten");
    // mov 8(%r15),%rax ; mov %al,%r11b
    let from = [0x49, 0x8b, 0x47, 8, 0x41, 0x88, 0xc3];
    let places: Vec<usize> = (0..output.bytes.len()).filter(|at| output.bytes[*at..].starts_with(&from)).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    for (loads, right) in [
        // mov 8(%r15),%r11 ; nop
        ([0x4d, 0x8b, 0x5f, 8, 0x0f, 0x1f, 0x00], true),
        // movzbl 8(%r15),%r11d ; nop
        ([0x45, 0x0f, 0xb6, 0x5f, 8, 0x66, 0x90], false),
    ] {
        let mut bytes = output.bytes.clone();
        bytes[places[0]..][..loads.len()].copy_from_slice(&loads);
        let proof = validate(&original, &bytes, &output.traces);
        let words = words(&proof);
        assert_eq!(proof.holds(), right, "{loads:x?}:\n{words}");
        assert!(right || words.contains("wrong: the function returns with rax overwritten"), "{words}");
    }
}
