//! Indirect calls that compare their target: the validator proves them, and finds mistakes.

mod support;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use sfi_contract::names::UNWIND_SECTION;
use sfi_rewriter::{Mode, Options, Output};
use sfi_validator::validate;
use support::{assembled, other_programs_are_noticed, rewritten, section, words};

/// A call through rows of two functions.
const CALL: &str = "\
f:  .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset 3,-16
    mov %rdi,%rbx
    mov (%rdi),%rax
    call *8(%rax)
    add %eax,8(%rbx)
    pop %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .type a,@function
a:  lea 1(%rdi),%eax
    ret
    .type b,@function
b:  lea 2(%rdi),%eax
    ret
    .type g,@function
g:  lea 3(%rdi),%eax
    ret
    .section .data.rel.ro,\"aw\"
    .type rows,@object
rows: .quad g,a,g,b
    .size rows,.-rows";

/// Returns the instructions from the first comparison to the place where all calls go on.
fn guesses(output: &Output) -> Vec<Instruction> {
    let mut decoder = Decoder::new(64, &output.bytes[section(&output.bytes, ".text")], DecoderOptions::NONE);
    let code = decoder.iter().skip_while(|ins| ins.mnemonic() != Mnemonic::Lea);
    code.take_while(|ins| ins.mnemonic() != Mnemonic::Add).collect()
}

#[test]
fn guesses_are_proved() {
    use Mnemonic::{And, Call, Cmp, Je, Jmp, Lea};
    let original = assembled(CALL);
    for mode in [Mode::Write, Mode::Full] {
        let output = rewritten(&original, Options { mode, ..Options::default() });
        let names: Vec<_> = guesses(&output).iter().map(Instruction::mnemonic).collect();
        assert_eq!(names, [Lea, Cmp, Je, Lea, Cmp, Je, And, Call, Jmp, Call, Jmp, Call], "mode {mode}");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{mode}:\n{}", words(&proof));
        // The unwinder knows all three calls.
        let record = section(&output.bytes, UNWIND_SECTION);
        assert_eq!(output.bytes[record.start + 16..][..4], 3u32.to_le_bytes(), "mode {mode}");
    }
    for options in [
        Options { mode: Mode::Match, ..Options::default() },
        Options { mode: Mode::Write, budget: true, ..Options::default() },
    ] {
        let output = rewritten(&original, options);
        let text = Decoder::new(64, &output.bytes[section(&output.bytes, ".text")], DecoderOptions::NONE);
        let direct = text.into_iter().filter(|ins| ins.is_call_near()).count();
        assert_eq!(direct, 0, "{options:?}");
    }
}

#[test]
fn mistakes_of_guesses_are_noticed() {
    let original = assembled(CALL);
    let output = rewritten(&original, Options { mode: Mode::Write, ..Options::default() });
    let text = section(&output.bytes, ".text").start;
    let mut mistakes = 0;
    for ins in guesses(&output) {
        let place = text + ins.ip() as usize;
        let last = place + ins.len() - 1;
        let byte = |at: usize| output.bytes[at];
        // `a`, `b` and `g` have four bytes each.
        let changes: Vec<(usize, u8)> = match ins.mnemonic() {
            // The address comes into another register.
            Mnemonic::Lea => vec![(place + 2, 0x15)],
            // Other registers, and other comparisons.
            Mnemonic::Cmp => vec![(last, 0xd9), (last, 0xd0), (place + 1, 0x85), (place, 0x4c)],
            // Other conditions, and other places.
            Mnemonic::Je => vec![(place, 0x75), (place, 0x72), (place, 0xeb), (last, 0), (last, byte(last) + 7)],
            Mnemonic::Jmp => vec![(last, 0), (last, byte(last) + 4)],
            // Another function.
            Mnemonic::Call if ins.is_call_near() => vec![(place + 1, byte(place + 1) + 4), (place, 0xe9)],
            _ => Vec::new(),
        };
        for (at, value) in changes {
            let mut bytes = output.bytes.clone();
            assert_ne!(bytes[at], value, "{:?}", ins.mnemonic());
            bytes[at] = value;
            let proof = validate(&original, &bytes, &output.traces);
            assert!(!proof.holds(), "{value:#x} at {:#x} of {:?} is not noticed", at - place, ins.mnemonic());
            mistakes += 1;
        }
    }
    assert!(mistakes >= 25, "{mistakes}");
}

/// Programs that do something else than the guesses.
const OTHER_PROGRAMS: [(&str, &str, &str); 4] = [
    ("call *8(%rax)", "call *16(%rax)", "compares something else than its target"),
    ("mov (%rdi),%rax", "mov (%rsi),%rax", "overwritten"),
    ("call *8(%rax)", "call a", "the call leads elsewhere"),
    ("call *8(%rax)", "call *8(%rbx)", "compares something else than its target"),
];

#[test]
fn guesses_of_other_programs_are_noticed() {
    let output = rewritten(&assembled(CALL), Options { mode: Mode::Write, ..Options::default() });
    other_programs_are_noticed(CALL, &output, &OTHER_PROGRAMS);
}
