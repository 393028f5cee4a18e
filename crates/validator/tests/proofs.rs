//! The validator proves the rewriter's own cases and programs of the corpus in every mode, and
//! finds mistakes.

mod support;

use sfi_debuginfo::map::{Keeping, Trace};
use sfi_rewriter::{Mode, Options, rewrite};
use sfi_validator::{Verdict, validate};
use std::path::PathBuf;
use support::{object, root, words};

fn sources(directory: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(directory)).expect("sources");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == extension));
    paths.sort();
    paths
}

/// Proves and verifies every object that the rewriter does not refuse. Returns their number.
fn prove(paths: &[PathBuf], flags: &[&str]) -> usize {
    let mut count = 0;
    for path in paths {
        let Some(original) = object(path, flags) else { continue };
        let modes = [Mode::Write, Mode::Full, Mode::Match].map(|mode| (mode, false));
        for (mode, budget) in modes.into_iter().chain([(Mode::Write, true), (Mode::Full, true)]) {
            let Ok(output) = rewrite(&original, &Options { mode, budget, ..Options::default() }) else { continue };
            let proof = validate(&original, &output.bytes, &output.traces);
            let budgeted = if budget { ", budgeted" } else { "" };
            assert!(proof.holds(), "{} in mode {}{budgeted}:\n{}", path.display(), mode.name(), words(&proof));
            let options = sfi_verifier::Options { mode, budget, clock: true, ..Default::default() };
            let verdict = sfi_verifier::verify(&output.bytes, &options).expect("readable");
            assert!(verdict.is_safe(), "{} in mode {mode}{budgeted}: {:?}", path.display(), verdict.violations);
            count += usize::from(!budget);
        }
    }
    count
}

/// The checks of mode match are steps that change nothing.
#[test]
fn checked_stores_and_branches_are_proved() {
    let source = sources("fixtures/matching", "c").into_iter().find(|path| path.ends_with("stores.c")).unwrap();
    for flags in [["-O0", "-fcf-protection=none"], ["-O2", "-fcf-protection=none"]] {
        let original = object(&source, &flags).unwrap();
        let output = rewrite(&original, &Options { mode: Mode::Match, ..Default::default() }).unwrap();
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{flags:?}:\n{}", words(&proof));
    }
}

#[test]
fn cases_of_the_rewriter_are_proved() {
    let count = prove(&sources("rewriter/tests/cases", "s"), &[]);
    assert!(count >= 120, "only {count}");
}

#[test]
fn programs_of_the_corpus_are_proved() {
    let corpus = sources("fixtures/corpus", "c");
    for level in ["-O0", "-O2", "-O3"] {
        let count = prove(&corpus, &[level]);
        assert!(count >= 150, "only {count} at {level}");
    }
}

/// Addresses of 32 and 64 bits, return addresses and branches that are written as calls, frames
/// that begin with a loop over their pages.
#[test]
fn code_of_other_flags_is_proved() {
    let narrow = [root().join("fixtures/corpus/narrow_addresses.c")];
    let calls = [root().join("fixtures/corpus/retpolines.c")];
    let frames = [root().join("fixtures/corpus/big_frames.c")];
    let thrown = [root().join("fixtures/programs/exceptions.cc")];
    let medium = [root().join("fixtures/corpus/medium_model.c")];
    for level in ["-O0", "-O2", "-Os"] {
        assert_eq!(prove(&frames, &[level, "-fstack-clash-protection"]), 3, "{level}");
        for pic in ["-fPIC", "-fno-pic"] {
            assert_eq!(prove(&medium, &[level, "-mcmodel=medium", pic]), 3, "{level} {pic}");
        }
        assert_eq!(prove(&narrow, &[level, "-fno-pic"]), 3, "{level}");
        assert_eq!(prove(&thrown, &[level, "-std=c++17", "-fno-pic"]), 3, "{level}");
        let flags = [level, "-fcf-protection=none", "-mindirect-branch-register", "-mfunction-return=thunk-inline"];
        for branches in ["-mindirect-branch=thunk", "-mindirect-branch=thunk-inline"] {
            assert_eq!(prove(&calls, &[&flags[..], &[branches]].concat()), 3, "{level} {branches}");
        }
    }
}

/// A program with loops, calls, a frame and registers under pressure.
const PROGRAM: &str = "\
int outside(int);
int many(int *p, int n) {
    int a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = 0;
    for (int i = 0; i < n; i++) {
        g += outside(a + b) * c;
        a ^= d; b += e; c -= f; d += g; e ^= i; f += a;
    }
    return a + b + c + d + e + f + g;
}
int two(int x) { return x > 3 ? outside(x) : x; }
void stores(int *p, int n) { p[n] = outside(p[0]) + p[1]; p[2] ^= n; }
";

/// Returns the program, its rewritten form and the traces. `saves`: its functions save registers on
/// the control stack.
fn program(saves: bool) -> (Vec<u8>, Vec<u8>, Vec<Trace>) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("program.c");
    std::fs::write(&source, PROGRAM).expect("source");
    let original = object(&source, &["-O2"]).expect("compiles");
    let output = rewrite(&original, &Options { saves, ..Options::default() }).expect("rewritten");
    (original, output.bytes, output.traces)
}

/// Changes every instruction of the new code in turn. The validator notices each change that has an
/// effect.
#[test]
fn a_changed_instruction_is_noticed() {
    let [without, with] = [false, true].map(each_changed_instruction_is_noticed);
    assert!(with < without, "saves make no difference");
}

/// Returns the number of changes.
fn each_changed_instruction_is_noticed(saves: bool) -> usize {
    use object::{Object, ObjectSection};
    let (original, bytes, traces) = program(saves);
    assert!(validate(&original, &bytes, &traces).holds());
    let file = object::File::parse(&*bytes).expect("readable");
    let text = file.section_by_name(".text").expect("text");
    let (start, size) = text.file_range().expect("bytes");
    let code = bytes[start as usize..(start + size) as usize].to_vec();
    let mut decoder = iced_x86::Decoder::new(64, &code, iced_x86::DecoderOptions::NONE);
    let (mut changed, mut missed) = (0, Vec::new());
    while decoder.can_decode() {
        let at = decoder.position();
        let ins = decoder.decode();
        if ins.mnemonic() == iced_x86::Mnemonic::Nop {
            continue;
        }
        // As many bytes of nop instead of the instruction.
        let mut other = bytes.clone();
        other[start as usize + at..start as usize + at + ins.len()].fill(0x90);
        changed += 1;
        if validate(&original, &other, &traces).holds() {
            missed.push(format!("{at:#x}: left out"));
        }
        // Another displacement or immediate: changes the last byte, unless a relocation covers it.
        let last = start as usize + at + ins.len() - 1;
        let relocated =
            text.relocations().any(|(offset, _)| (offset..offset + 4).contains(&((at + ins.len() - 1) as u64)));
        if ins.len() > 2 && !relocated {
            let mut other = bytes.clone();
            other[last] ^= 8;
            changed += 1;
            if validate(&original, &other, &traces).holds() {
                missed.push(format!("{at:#x}: last byte"));
            }
        }
    }
    assert!(changed > 100, "only {changed}");
    assert!(missed.is_empty(), "{missed:#?}");
    changed
}

/// A switch whose target goes through memory before a jump takes it. The rewriter counts what is
/// loaded as a pointer to a function and uses the jump's register. No compiler writes this.
const STORED_TARGET: &str = "
    .globl f
    .type f,@function
f:  mov $479,%eax
    lea table(%rip),%r8
    movslq (%r8,%rdi,4),%rdi
    add %r8,%rdi
    test %esi,%esi
    je 3f
    jmp *%rdi
3:  PASS
1:  ret
2:  mov $3,%eax
    ret
    .section .rodata
table: .long 1b-table, 2b-table
    .bss
word: .skip 8
    .section .note.GNU-stack,\"\",@progbits
";

/// A jump to a pointer leads to no case of a switch. One to a value that may be a case's address
/// does, by whatever way the value came.
#[test]
fn a_target_that_was_stored_leads_to_the_cases() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("stored.s");
    let verdict = |pass: &str| {
        std::fs::write(&source, STORED_TARGET.replace("PASS", pass)).expect("source");
        let original = object(&source, &[]).expect("assembles");
        let output = rewrite(&original, &Options::default()).unwrap_or_else(|r| panic!("{pass}: {r:?}"));
        let proof = validate(&original, &output.bytes, &output.traces);
        (proof.findings.iter().map(|f| f.verdict).max(), words(&proof))
    };
    let (verdict_of_switch, words) = verdict("jmp *%rdi");
    assert_eq!(verdict_of_switch, None, "{words}");
    for pass in [
        "mov %rdi,word(%rip)\nmov word(%rip),%rax\njmp *%rax",
        "mov %rdi,word(%rip)\nmov word(%rip),%rcx\nmov %rcx,%rax\njmp *%rax",
        "movq %rdi,%xmm0\nmovq %xmm0,%rax\njmp *%rax",
    ] {
        let (verdict, words) = verdict(pass);
        assert_eq!(verdict, Some(Verdict::Wrong), "{pass}:\n{words}");
        assert!(words.contains("the function returns with rax overwritten"), "{words}");
    }
}

/// A result that the new code overwrites before it is passed on. The rewritten program has MORE in
/// place of the original's `mov $7,%r11d`.
const PASSED_ON: &str = "
    .globl f
    .type f,@function
f:  sub $8,%rsp
    call before@PLT
    MORE
    PASS
    call behind@PLT
    add $8,%rsp
    ret
    .section .note.GNU-stack,\"\",@progbits
";

/// Unknown functions leave nothing on purpose in the registers of arguments, but a copy of their
/// result is on purpose. So is a copy of a register that the caller set.
#[test]
fn an_overwritten_result_that_is_passed_on_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("passed.s");
    let object = |more: &str, pass: &str| {
        std::fs::write(&source, PASSED_ON.replace("MORE", more).replace("PASS", pass)).expect("source");
        object(&source, &[]).expect("assembles")
    };
    const NOTHING: &str = "mov $7,%r11d";
    const RESULT: &str = ".byte 0x40; mov $7,%eax";
    for (more, pass, expected) in [
        (NOTHING, "mov %rax,%rdi", None),
        (RESULT, "mov %rax,%rdi", Some("the call may take rdi")),
        (RESULT, "mov %eax,%edi", Some("the call may take rdi")),
        (RESULT, "mov %rax,%rcx\nmov %rcx,%r8", Some("the call may take rcx, r8")),
        (RESULT, "mov $3,%eax", None),
        (".byte 0x40; mov $7,%edx", "mov %eax,%edi", None),
    ] {
        let original = object(NOTHING, pass);
        let output = rewrite(&object(more, pass), &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        let words = words(&proof);
        match expected {
            Some(expected) => assert!(words.contains(expected), "{more}, {pass}:\n{words}"),
            None => assert!(proof.holds(), "{more}, {pass}:\n{words}"),
        }
    }
}

/// A callee of the object that leaves rdi alone. The rewritten one has MORE in place of the
/// original's `mov $7,%r11d`.
const LEFT_ALONE: &str = "
    .globl f
    .type f,@function
f:  sub $8,%rsp
    call g
    call behind@PLT
    add $8,%rsp
    ret
    BIND g
    .type g,@function
g:  MORE
    ret
    .section .note.GNU-stack,\"\",@progbits
";

/// A caller may keep an argument in what a function leaves alone, unless the linker may take
/// another function.
#[test]
fn an_overwritten_argument_is_noticed_unless_another_callee_may_be_linked() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("alone.s");
    let object = |more: &str, bind: &str| {
        std::fs::write(&source, LEFT_ALONE.replace("MORE", more).replace("BIND", bind)).expect("source");
        object(&source, &[]).expect("assembles")
    };
    const NOTHING: &str = "mov $7,%r11d";
    for (more, bind, holds) in [
        (NOTHING, ".globl", true),
        (".byte 0x40; mov $7,%edi", ".globl", false),
        (".byte 0x40; mov $7,%edi", ".local", false),
        (".byte 0x40; mov $7,%edi", ".weak", true),
        (".byte 0x40; mov $7,%edi", ".globl same; .set same, g; .weak", false),
        (".byte 0x40; mov $7,%ebx", ".weak", false),
    ] {
        let original = object(NOTHING, bind);
        let output = rewrite(&object(more, bind), &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        let words = words(&proof);
        assert_eq!(proof.holds(), holds, "{more}, {bind}:\n{words}");
        assert!(holds || words.contains("edi") || words.contains("rdi") || words.contains("rbx"), "{words}");
    }
}

/// Reads of a function's bytes. The rewriter does not follow addresses through the frame.
const READS_TEXT: &str = "
    .globl f
    .type f,@function
f:  lea f(%rip),%rax
    push %rax
    pop %rcx
    PASS
    ret
    .section .note.GNU-stack,\"\",@progbits
";

/// A slot does not have the bytes of the code that it leads to.
#[test]
fn a_read_of_text_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("reads.s");
    for (pass, right) in [
        ("mov (%rcx),%rax", false),
        ("movzbl 3(%rcx,%rdi),%eax", false),
        ("add $4,%rcx\nmov %rcx,%rdx\ncmp %rdi,(%rdx)", false),
        ("mov %rcx,(%rdi)", true),
        ("mov (%rdi),%rcx\nmov (%rcx),%rax", true),
        // A callee that gets the address of the word may change it.
        ("push %rcx\nlea (%rsp),%rdi\ncall g@PLT\npop %rcx\nmov (%rcx),%rax", true),
        // The word may be inside the structure whose address it gets.
        ("push %rcx\nlea -8(%rsp),%rdi\nsub $8,%rsp\ncall g@PLT\npop %rcx\npop %rcx\nmov (%rcx),%rax", true),
        ("push %rcx\nlea 8(%rsp),%rdi\ncall g@PLT\npop %rcx\nmov (%rcx),%rax", false),
    ] {
        std::fs::write(&source, READS_TEXT.replace("PASS", pass)).expect("source");
        let original = object(&source, &[]).expect("assembles");
        let output = rewrite(&original, &Options::default()).unwrap_or_else(|r| panic!("{pass}: {r:?}"));
        let proof = validate(&original, &output.bytes, &output.traces);
        let words = words(&proof);
        assert_eq!(proof.holds(), right, "{pass}:\n{words}");
        assert!(right || words.contains("wrong: the original program reads bytes of its text"), "{words}");
    }
}

/// Functions whose stack pointer may be another one at their end. The rewriter tells places of a
/// realigned frame apart by their operands only.
const FOREIGN_STACK: [&str; 9] = [
    // The index changes between the store and the load.
    "and $-64,%rsp\nmov %rax,8(%rsp,%r9,8)\ndec %r9\nmov 8(%rsp,%r9,8),%rsp\nret",
    "and $-64,%rsp\nmov %rax,8(%rsp,%r9,8)\nxchg %r9,%rcx\nmov 8(%rsp,%r9,8),%rsp\nret",
    // A called function may change the index.
    "and $-64,%rsp\nmov %rax,8(%rsp,%r9,8)\ncall g\nmov 8(%rsp,%r9,8),%rsp\nret",
    // The frame moves.
    "and $-64,%rsp\nmov %rax,8(%rsp)\nsub %rdx,%rsp\nmov 8(%rsp),%rsp\nret",
    // One of two frames does not hold it.
    "test %edi,%edi\nje 1f\nand $-64,%rsp\nmov %rax,8(%rsp)\njmp 2f\n1: and $-32,%rsp\nmov %rax,16(%rsp)\n\
     2: mov 8(%rsp),%rsp\nret",
    // The loop may end below the other register, or begin at its branch.
    "lea -4096(%rsp),%r11\n1: sub %rdx,%rsp\ncmp %r11,%rsp\nja 1b\nadd $4096,%rsp\nret",
    "lea -4096(%rsp),%r11\njmp 2f\n1: sub $1024,%rsp\ncmp %r11,%rsp\n2: jne 1b\nadd $4096,%rsp\nret",
    // A jump to an unknown function.
    "and $-64,%rsp\njmp *%rcx",
    // A system call that returns.
    "test %edi,%edi\nje 2f\nand $-64,%rsp\nmov $61,%eax\nsyscall\n2: ret",
];

#[test]
fn a_return_on_another_stack_is_not_proved() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("foreign.s");
    for body in FOREIGN_STACK {
        let text = format!(".globl f\n.type f,@function\nf: mov %rsp,%rax\n{body}\n.size f,.-f\n");
        std::fs::write(&source, text).expect("source");
        let original = object(&source, &[]).expect("assembles");
        let output = rewrite(&original, &Options::default()).unwrap_or_else(|r| panic!("{body}: {r:?}"));
        let words = words(&validate(&original, &output.bytes, &output.traces));
        assert!(words.contains("is not known to be the one at its entry"), "{body}:\n{words}");
    }
}

/// A load whose address has 32 bits in the original program. Without a segment the new program
/// needs the window's base in the register, which 32 bits do not have.
#[test]
fn an_address_of_32_bits_needs_its_segment() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("narrow.s");
    let object = |load: &str| {
        let text = format!(".globl f\n.type f,@function\nf: mov (%rdi),%ecx\n{load}\nret\n");
        std::fs::write(&source, text).expect("source");
        object(&source, &[]).expect("assembles")
    };
    let original = object("mov 4(%ecx),%eax");
    for (load, right) in [("mov 4(%ecx),%eax", true), (".byte 0x3e; mov 4(%rcx),%eax", false)] {
        let output = rewrite(&object(load), &Options::default()).expect("rewritten");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert_eq!(proof.holds(), right, "{load}:\n{}", words(&proof));
    }
}

/// A load of an entry of the GOT. `first` and `second` are local names of one section.
#[test]
fn an_entry_of_the_got_for_another_place_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("entry.s");
    let object = |name: &str| {
        let text = format!(
            ".globl f\n.type f,@function\nf: mov {name}@GOTPCREL(%rip),%rax\nmov %rdi,8(%rax)\nret\n\
             .data\n.quad 1\nfirst: .quad 2\nsecond: .quad 3\n"
        );
        std::fs::write(&source, text).expect("source");
        object(&source, &[]).expect("assembles")
    };
    for (name, right) in [("first", true), ("second", false)] {
        let output = rewrite(&object(name), &Options::default()).expect("rewritten");
        let proof = validate(&object("first"), &output.bytes, &output.traces);
        let found = proof.findings.iter().filter(|f| f.verdict == Verdict::Wrong).count();
        assert_eq!((proof.holds(), found != 0), (right, !right), "{name}:\n{}", words(&proof));
    }
}

/// Two switches with the same three targets in another order. Each jumps by an array of slots.
const SWITCHES: &str = "
    .macro switch name, a, b, c
    .globl \\name
    .type \\name,@function
\\name: lea \\name\\()_table(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    jmp *%rax
\\name\\()1: mov $1,%eax
    ret
\\name\\()2: mov $2,%eax
    ret
    .section .rodata
\\name\\()_table: .long \\name\\()\\a - \\name\\()_table, \\name\\()\\b - \\name\\()_table, \\name\\()\\c - \\name\\()_table
    .text
    .endm
    switch first, 1, 2, 2
    switch second, 2, 1, 2
    .section .note.GNU-stack,\"\",@progbits
";

/// Sections of an object: place in the file and size.
fn section(bytes: &[u8], name: &str) -> (usize, usize) {
    let object = sfi_elf::parse(bytes).expect("readable");
    let section = object.sections.iter().find(|section| section.name == name).expect("a section");
    (section.offset as usize, section.size as usize)
}

/// A slot of an array leads to the place of its table's entry.
#[test]
fn a_wrong_array_of_slots_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("switches.s");
    std::fs::write(&source, SWITCHES).expect("source");
    let original = object(&source, &[]).expect("assembles");
    let output = rewrite(&original, &Options::default()).expect("rewritten");
    let judge = |bytes: &[u8]| validate(&original, bytes, &output.traces);
    assert!(judge(&output.bytes).holds(), "{}", words(&judge(&output.bytes)));
    let (words_at, size) = section(&output.bytes, ".rela.sfi.slots");
    assert_eq!(size, 6 * 24);
    let wrong = |bytes: &[u8], what: &str| {
        let said = words(&judge(bytes));
        assert!(said.contains("wrong: ") && said.contains(what), "{what}: {said}");
    };
    // Offset, type and symbol, addend of each word.
    let entry = |number: usize| words_at + 24 * number;
    for (a, b) in [(0, 1), (0, 2), (3, 4), (0, 4)] {
        let mut other = output.bytes.clone();
        (0..8).for_each(|byte| other.swap(entry(a) + 8 + byte, entry(b) + 8 + byte));
        wrong(&other, "leads elsewhere in its array of slots");
    }
    for number in 0..6 {
        let mut other = output.bytes.clone();
        other[entry(number) + 16] = 1;
        wrong(&other, "leads elsewhere in its array of slots");
        let mut other = output.bytes.clone();
        other[entry(number) + 8] = 2;
        wrong(&other, "leads elsewhere in its array of slots");
    }
    // The last word is one short, and each jump takes another array.
    let mut short = output.bytes.clone();
    short[entry(5)] = 0xf0;
    wrong(&short, "leads elsewhere in its array of slots");
    let (text, size) = section(&output.bytes, ".rela.text");
    let mut names = 0;
    for at in (text..text + size).step_by(24).filter(|at| output.bytes[at + 8] == 11) {
        let slots = output.bytes[at + 16] == 0 || output.bytes[at + 16] == 24;
        for addend in [0u8, 8, 24].into_iter().filter(|addend| slots && *addend != output.bytes[at + 16]) {
            let mut other = output.bytes.clone();
            other[at + 16] = addend;
            let proof = judge(&other);
            if proof.holds() {
                // The displacement of the region names the dispatch table.
                panic!("an addend of {addend} at {:#x}", at - text);
            }
            names += 1;
        }
    }
    assert!(names >= 4, "{names}");
}

/// Switches that leave their target in rax. `g` leaves it alone on one of its ways, and `k` has a
/// switch on one.
const SPENT: &str = "
    .macro switch a, b
    lea 9f(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    jmp *%rax
    .section .rodata
9:  .long \\a - 9b, \\b - 9b
    .text
    .endm
    .globl f
    .type f,@function
f:  sub $8,%rsp
    switch 1f, 2f
1:  call g
    lea 1(%r8),%rcx
2:  lea 1(%r8),%rdi
    add $8,%rsp
    ret
    .type g,@function
g:  test %esi,%esi
    je 3f
    lea 1(%r8),%rdx
    mov $2,%eax
3:  ret
    .type h,@function
h:  sub $8,%rsp
    call f
    lea 1(%r8),%rsi
    add $8,%rsp
    ret
    .type k,@function
k:  test %esi,%esi
    je 5f
    switch 4f, 5f
4:  mov $4,%eax
5:  ret
    .type m,@function
m:  sub $8,%rsp
    mov $5,%eax
    call k
    add $8,%rsp
    ret
    .section .note.GNU-stack,\"\",@progbits
";

/// A function may return with the target of its switch. Nobody may read it, and it makes no other
/// register right.
#[test]
fn a_spent_target_that_is_read_is_noticed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("spent.s");
    std::fs::write(&source, SPENT).expect("source");
    let original = object(&source, &[]).expect("assembles");
    // With saves the switch of `f` compares.
    let output = rewrite(&original, &Options { saves: false, ..Options::default() }).expect("rewritten");
    assert_eq!(section(&output.bytes, ".sfi.slots").1, 4 * 8);
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let patch = |bytes: &[u8], from: &[u8], to: &[u8]| {
        let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
        assert_eq!(places.len(), 1, "{from:x?}");
        let mut bytes = bytes.to_vec();
        bytes[places[0]..][..to.len()].copy_from_slice(to);
        bytes
    };
    // Both programs read rax in place of r8.
    for (operands, what) in [
        (0x48, "the original program reads rax, which the new code has overwritten"),
        (0x78, "the original program reads rax, which the new code has overwritten"),
        (0x50, "the function called reads rax, which the new code has overwritten"),
        (0x70, "the original program reads rax, which the new code has overwritten in a function called"),
    ] {
        let [original, bytes] =
            [&original, &output.bytes].map(|bytes| patch(bytes, &[0x49, 0x8d, operands], &[0x48, 0x8d, operands]));
        let words = words(&validate(&original, &bytes, &output.traces));
        assert!(words.contains("wrong: ") && words.contains(what), "{operands:x}:\n{words}");
    }
    // The new program has another value, and `k` may leave it alone.
    let bytes = patch(&output.bytes, &[0xb8, 5, 0, 0, 0], &[0xb8, 6, 0, 0, 0]);
    let words = words(&validate(&original, &bytes, &output.traces));
    assert!(words.contains("wrong: the function returns with rax overwritten"), "{words}");
}

/// The trace is no proof: if it lies about r15, the proof fails.
#[test]
fn a_wrong_trace_proves_nothing() {
    let (original, bytes, traces) = program(false);
    let lie = |change: &dyn Fn(&mut sfi_debuginfo::map::Step)| {
        let mut traces = traces.clone();
        traces.iter_mut().flat_map(|t| &mut t.steps).for_each(change);
        validate(&original, &bytes, &traces)
    };
    for proof in [
        lie(&|step| step.r15 = Keeping::Renamed(3)),
        lie(&|step| step.slot = step.slot.map(|slot| slot + 8)),
        lie(&|step| step.new += 1),
    ] {
        assert!(!proof.holds());
        assert!(proof.findings.iter().any(|f| f.verdict >= Verdict::Unproved));
    }
}
