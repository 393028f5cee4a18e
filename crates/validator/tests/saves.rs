//! Registers that functions save on the control stack: the validator proves them, and finds
//! mistakes.

mod support;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use sfi_rewriter::{Mode, Options, Output};
use sfi_validator::{Verdict, validate};
use std::path::PathBuf;
use support::{assembled, object, other_programs_are_noticed, root, section, words};

fn rewritten(original: &[u8], mode: Mode, budget: bool) -> Output {
    support::rewritten(original, Options { mode, budget, saves: true })
}

/// Decodes the text.
fn instructions(bytes: &[u8]) -> impl Iterator<Item = Instruction> {
    Decoder::new(64, &bytes[section(bytes, ".text")], DecoderOptions::NONE).into_iter()
}

/// Counts the pushes of the new code.
fn pushes(bytes: &[u8]) -> usize {
    instructions(bytes).filter(|ins| ins.mnemonic() == Mnemonic::Push).count()
}

/// Replaces the only place of some bytes of the text.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> = section(bytes, ".text").filter(|at| bytes[*at..].starts_with(from)).collect();
    assert_eq!(places.len(), 1, "{from:x?}");
    let mut bytes = bytes.to_vec();
    bytes[places[0]..][..to.len()].copy_from_slice(to);
    bytes
}

/// A function with two words and a local.
const EVEN: &str = "\
f:  push %rbx
    push %rbp
    mov %rdi,%rbx
    mov %rsi,%rbp
    sub $24,%rsp
    mov %rdx,8(%rsp)
    call g@PLT
    add 8(%rsp),%rax
    add %rbx,%rax
    add %rbp,%rax
    add $24,%rsp
    pop %rbp
    pop %rbx
    ret";

/// A function with three words, and one way on which it pushes one of them.
const ODD: &str = "\
f:  push %rbx
    mov %rdi,%rbx
    call g@PLT
    test %eax,%eax
    je 1f
    push %rbp
    push %r12
    sub $16,%rsp
    mov %rsi,%rbp
    mov %rax,%r12
    mov %rsp,%rdi
    movaps %xmm0,(%rsp)
    call g@PLT
    add %rbp,%rax
    add %r12,%rax
    add (%rsp),%rax
    add $16,%rsp
    pop %r12
    pop %rbp
1:  add %rbx,%rax
    pop %rbx
    ret";

/// A function in which r15 is another register, one in which it lives in the frame, ends that are
/// alike, and a call that never returns.
const OTHERS: [(&str, usize); 4] = [
    (
        "f: push %r15\npush %rbx\nsub $8,%rsp\nmov %rdi,%r15\nmov %rsi,%rbx\ncall g@PLT\nadd %r15,%rax\nadd %rbx,%rax\n\
      add $8,%rsp\npop %rbx\npop %r15\nret",
        2,
    ),
    (
        "f: push %r15\npush %r14\npush %r13\npush %r12\npush %rbp\npush %rbx\nsub $8,%rsp\nmov %rdi,%r15\nmov %rsi,%r14\n\
      mov %rdx,%r13\nmov %rcx,%r12\nmov %r8,%rbp\nmov %r9,%rbx\ncall g@PLT\nadd %r15,%rax\nadd %r14,%rax\nadd %r13,%rax\n\
      add %r12,%rax\nadd %rbp,%rax\nadd %rbx,%rax\nadd $8,%rsp\npop %rbx\npop %rbp\npop %r12\npop %r13\npop %r14\n\
      pop %r15\nret",
        4,
    ),
    (
        "f: push %rbx\npush %rbp\nsub $24,%rsp\nmov %rdi,%rbx\ntest %edi,%edi\nje 1f\ncall g@PLT\nadd %rbx,%rax\n\
      add $24,%rsp\npop %rbp\npop %rbx\nret\n1: call h@PLT\nmov %rax,%rbp\ncall g@PLT\nadd %rbp,%rax\nadd $24,%rsp\n\
      pop %rbp\npop %rbx\nret",
        2,
    ),
    (LAST, 1),
];

/// A call that never returns stands before a function, where nothing is saved.
const LAST: &str = "\
f:  push %rbx
    mov %rdi,%rbx
    call g@PLT
    test %eax,%eax
    jne 2f
    pop %rbx
    ret
2:  call abort@PLT
    .globl k
    .type k,@function
k:  xor %eax,%eax
    ret";

#[test]
fn saves_are_proved() {
    for (code, count) in [(EVEN, 2), (ODD, 3)].into_iter().chain(OTHERS) {
        let original = assembled(code);
        let modes = [Mode::Write, Mode::Full, Mode::Match].map(|mode| (mode, false));
        for (mode, budget) in modes.into_iter().chain([(Mode::Write, true), (Mode::Full, true)]) {
            if budget && code.contains("%r14") {
                continue;
            }
            let output = rewritten(&original, mode, budget);
            assert_eq!(pushes(&output.bytes), count, "{code}");
            let proof = validate(&original, &output.bytes, &output.traces);
            assert!(proof.holds(), "{mode}, {budget}:\n{code}\n{}", words(&proof));
        }
    }
}

#[test]
fn programs_with_saves_are_proved() {
    let mut sources: Vec<(PathBuf, &[&str])> = Vec::new();
    for (directory, extension, flags) in [
        ("rewriter/tests/cases", "s", &[][..]),
        ("fixtures/corpus", "c", &["-O2"]),
        ("fixtures/programs", "cc", &["-O2"]),
    ] {
        let entries =
            std::fs::read_dir(root().join(directory)).expect("sources").map(|entry| entry.expect("entry").path());
        sources
            .extend(entries.filter(|path| path.extension().is_some_and(|e| e == extension)).map(|path| (path, flags)));
    }
    let mut count = 0;
    for (path, flags) in sources {
        let Some(original) = object(&path, flags) else { continue };
        for (mode, budget) in [(Mode::Write, false), (Mode::Full, false), (Mode::Write, true)] {
            let Ok(output) = sfi_rewriter::rewrite(&original, &Options { mode, budget, saves: true }) else { continue };
            let proof = validate(&original, &output.bytes, &output.traces);
            assert!(proof.holds(), "{} in mode {mode}, {budget}:\n{}", path.display(), words(&proof));
            let granted = sfi_verifier::Options { mode, budget, clock: true, ..Default::default() };
            let verdict = sfi_verifier::verify(&output.bytes, &granted).expect("readable");
            assert_eq!(verdict.violations, [], "{} in mode {mode}, {budget}", path.display());
            count += pushes(&output.bytes);
        }
    }
    assert!(count >= 100, "only {count}");
}

const PUSH_RBX: u8 = 0x53;
const POP_RBX: u8 = 0x5b;
const POP_RBP: u8 = 0x5d;
const NOP: u8 = 0x90;

/// Each change of the new code is noticed.
#[test]
fn mistakes_of_saves_are_noticed() {
    let original = assembled(EVEN);
    let output = rewritten(&original, Mode::Write, false);
    let ends = [POP_RBP, POP_RBX];
    let displaced = |by: u8| [0x49, 0x03, 0x47, by];
    let (local, other) = (displaced(8), displaced(16));
    let lowers = |by: i8| [0x4d, 0x8d, 0x7f, by as u8];
    for (from, to, said) in [
        (&ends[..], &[POP_RBX, POP_RBX][..], "a word of the control stack gets into another register"),
        (&ends[..], &[POP_RBX, POP_RBP][..], "a word of the control stack gets into another register"),
        (&ends[..], &[NOP, POP_RBX][..], "the new code does not push or pop the word of the control stack"),
        (&[PUSH_RBX, 0x55], &[NOP, 0x55], "0 stores instead of 1"),
        (&[PUSH_RBX, 0x55], &[0x55, PUSH_RBX], "the new code does not push or pop the word of the control stack"),
        (&[PUSH_RBX, 0x55], &[PUSH_RBX, PUSH_RBX], "the new code does not push or pop the word of the control stack"),
        (&local, &other, ""),
        (&lowers(-32), &lowers(-24), "the data stack pointer is 8 bytes from the stack pointer at a call, not 0"),
    ] {
        let proof = validate(&original, &replaced(&output.bytes, from, to), &output.traces);
        let words = words(&proof);
        let wrong = proof.findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
        assert!(wrong && words.contains(said), "{from:x?} to {to:x?}:\n{words}");
    }
}

/// The rewritten program has the first text where the original has the second one.
const OTHER_PROGRAMS: [(&str, &str, &str); 9] = [
    ("add 8(%rsp),%rax", "add 24(%rsp),%rax", "a word of the control stack is not only saved"),
    ("add 8(%rsp),%rax", "add 19(%rsp),%rax", "a word of the control stack is not only saved"),
    ("add 8(%rsp),%rax", "lea 32(%rsp),%rax", "a word of the control stack is not only saved"),
    ("mov %rdx,8(%rsp)", "mov %rdx,48(%rsp)", "a word of the control stack is not only saved"),
    (
        "lea 8(%rsp),%rsp\nlea 16(%rsp),%rsp",
        "lea 32(%rsp),%rsp\nlea -8(%rsp),%rsp",
        "passes a word of the control stack",
    ),
    ("pop %rbp\n    pop %rbx", "pop %rbx\n    pop %rbp", "is not that of one register"),
    ("mov %rdi,%rbx", "mov %rsp,%rbx", "a word of the control stack is not only saved"),
    ("mov $7,%eax", "call h@PLT", "the data stack has another alignment at a call"),
    ("call g@PLT", "call setjmp@PLT", "the function calls one that returns twice"),
];

/// The words must be nothing but saves in the original program.
#[test]
fn words_that_are_no_saves_are_noticed() {
    let code = EVEN.replace("push %rbp\n", "mov $7,%eax\npush %rbp\n");
    let code = code.replace("add $24,%rsp", "lea 8(%rsp),%rsp\nlea 16(%rsp),%rsp");
    let new = assembled(&code);
    let output = rewritten(&new, Mode::Write, false);
    assert!(validate(&new, &output.bytes, &output.traces).holds());
    other_programs_are_noticed(&code, &output, &OTHER_PROGRAMS);
}

/// Programs whose words are no saves. The rewriter keeps them on the data stack.
#[test]
fn other_words_stay_on_the_data_stack() {
    for code in [
        // Another alignment at the first call.
        "f: push %rbx\ncall g@PLT\ntest %eax,%eax\nje 1f\npush %rbp\nsub $8,%rsp\nmov %edi,(%rsp)\ncall h@PLT\n\
         add $8,%rsp\npop %rbp\n1: pop %rbx\nret",
        // The red zone, before and after the push.
        "f: mov %rdi,-48(%rsp)\npush %rbx\nmov -40(%rsp),%rbx\nmov %rbx,%rax\npop %rbx\nret",
    ] {
        let original = assembled(code);
        let output = rewritten(&original, Mode::Write, false);
        assert_eq!(pushes(&output.bytes), 0, "{code}");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{code}\n{}", words(&proof));
    }
}

/// Behind a call that never returns, a trap stands before code where other words are saved.
#[test]
fn a_missing_trap_before_other_words_is_noticed() {
    let original = assembled(LAST);
    let output = rewritten(&original, Mode::Write, false);
    let words = words(&validate(&original, &replaced(&output.bytes, &[0x0f, 0x0b], &[0x66, NOP]), &output.traces));
    assert!(words.contains("control comes from a call to code with other words on the control stack"), "{words}");
}

/// Adds the directives for unwind tables to the code of a function.
fn unwound(code: &str) -> String {
    let mut text = String::new();
    for line in code.lines() {
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "f:").collect();
        let constant = |word: &str| word.strip_prefix('$')?.strip_suffix(",%rsp")?.parse::<i32>().ok();
        let directives = match words[..] {
            ["push", register] => format!(".cfi_adjust_cfa_offset 8\n.cfi_rel_offset {register},0"),
            ["pop", register] => format!(".cfi_adjust_cfa_offset -8\n.cfi_restore {register}"),
            ["sub", by] => constant(by).map_or(String::new(), |by| format!(".cfi_adjust_cfa_offset {by}")),
            ["add", by] => constant(by).map_or(String::new(), |by| format!(".cfi_adjust_cfa_offset -{by}")),
            ["ret"] => ".cfi_endproc".to_owned(),
            _ => String::new(),
        };
        text += &format!("{line}\n{directives}\n");
    }
    text.replace("f:", "f: .cfi_startproc\n")
}

/// A function whose frame is left out.
const LEFT_OUT: &str = "\
f:  push %rbx
    push %r12
    sub $8,%rsp
    mov %rdi,%rbx
    call g@PLT
    mov %rax,%r12
    lea (%rbx,%r12),%rax
    add $8,%rsp
    pop %r12
    pop %rbx
    ret
";

/// A function with three words and a local.
const THREE: &str = "\
f:  push %r12
    push %rbp
    push %rbx
    sub $16,%rsp
    mov %rdi,8(%rsp)
    call g@PLT
    add 8(%rsp),%rax
    mov %rax,%rbx
    mov %rax,%rbp
    mov %rax,%r12
    add $16,%rsp
    pop %rbx
    pop %rbp
    pop %r12
    ret
";

/// The row of the call of `f`: the distance of the frame's address, the words on the control stack,
/// and those of rbx, rbp and r12.
const ROWS: [(&str, u8, u8, &[u8]); 3] =
    [(EVEN, 32, 2, &[0, 1]), (THREE, 16, 3, &[2, 1, 0]), (LEFT_OUT, 0, 2, &[0, 1])];

#[test]
fn frames_with_saves_are_found_and_mistakes_are_noticed() {
    for (code, distance, count, numbers) in ROWS {
        let original = assembled(&unwound(code));
        let output = rewritten(&original, Mode::Write, false);
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{code}: {}", words(&proof));
        // One function, one call, one row.
        let record = section(&output.bytes, "sfi_unwind");
        let [call, row] = [record.start + 24 + 16, record.start + 24 + 16 + 12];
        assert_eq!(output.bytes[record.start + 12..][..8], [1, 0, 0, 0, 1, 0, 0, 0], "{code}");
        let (head, rest) = output.bytes[row..record.end].split_at(16);
        assert_eq!((head[4].count_ones() as usize, head[2]), (numbers.len(), head[4]), "{code}");
        assert_eq!((head[0], head[5], head[8]), (7, count, distance), "{code}");
        let found: Vec<u8> = rest.iter().step_by(4).take(numbers.len()).copied().collect();
        assert_eq!(found, numbers, "{code}");
        for at in row..row + 16 + 4 * numbers.len() {
            let mut bytes = output.bytes.clone();
            bytes[at] ^= 1;
            let words = words(&validate(&original, &bytes, &output.traces));
            assert!(words.contains("wrong: the unwinder gets another frame at the call"), "{at}, {code}: {words}");
        }
        let mut bytes = output.bytes.clone();
        bytes[call] += 1;
        let words = words(&validate(&original, &bytes, &output.traces));
        assert!(words.contains("wrong: the unwinder does not find the call's frame"), "{code}: {words}");
    }
}

/// A table about another frame than the code has gives no row.
#[test]
fn tables_that_do_not_fit_the_frame_end_unwinding() {
    let code = unwound(EVEN).replacen(".cfi_adjust_cfa_offset 24", ".cfi_adjust_cfa_offset 32", 1);
    let original = assembled(&code.replacen(".cfi_adjust_cfa_offset -24", ".cfi_adjust_cfa_offset -32", 1));
    let output = rewritten(&original, Mode::Write, false);
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    use object::Object;
    let file = object::File::parse(&*output.bytes).expect("object");
    assert!(file.section_by_name("sfi_unwind").is_none());
}
