//! Switches that compare their index: the validator proves them, and finds mistakes.

mod support;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use object::{Object, ObjectSection};
use sfi_rewriter::{Mode, Options, Output};
use sfi_validator::{Verdict, validate};
use support::{assembled, other_programs_are_noticed, section, words};

/// Five runs of six entries.
const SWITCH: &str = "\
f:  push %rbx
    mov %rsi,%rbx
    call g@PLT
    mov %eax,%eax
    lea table(%rip),%rdx
    movslq (%rdx,%rax,4),%rcx
    nopl (%rax)
    add %rdx,%rcx
    jmp *%rcx
.La: mov $1,%eax
    pop %rbx
    ret
.Lb: mov $2,%eax
    pop %rbx
    ret
.Lc: lea (%rbx,%rbx),%eax
    pop %rbx
    ret
.Ld: mov $4,%eax
    pop %rbx
    ret
    .type h,@function
h:  lea other(%rip),%rdx
    ret
    .data
    .quad others
    .section .rodata
    .balign 4
table: .long .La-table,.Lb-table,.Lb-table,.Lc-table,.La-table,.Ld-table
other: .long 0
others: .long 0,0";

fn rewritten(original: &[u8], mode: Mode) -> Output {
    support::rewritten(original, Options { mode, ..Options::default() })
}

#[test]
fn searches_are_proved() {
    let original = assembled(SWITCH);
    for mode in [Mode::Write, Mode::Full] {
        let output = rewritten(&original, mode);
        let text = Decoder::new(64, &output.bytes[section(&output.bytes, ".text")], DecoderOptions::NONE);
        let compares = text.into_iter().filter(|ins| ins.mnemonic() == Mnemonic::Cmp).count();
        assert_eq!(compares, 3, "mode {mode}");
        let proof = validate(&original, &output.bytes, &output.traces);
        assert!(proof.holds(), "{mode}:\n{}", words(&proof));
        let file = object::File::parse(&*output.bytes).expect("object");
        assert_eq!(file.section_by_name(".rodata").expect("table").relocations().count(), 0);
    }
}

/// The beginning of `cmp $number,%eax`.
const CMP: [u8; 2] = [0x83, 0xf8];

#[test]
fn mistakes_of_searches_are_noticed() {
    let original = assembled(SWITCH);
    let output = rewritten(&original, Mode::Write);
    let text = section(&output.bytes, ".text");
    let at = text.clone().find(|at| output.bytes[*at..].starts_with(&CMP)).expect("a search");
    let code = &output.bytes[at..text.end];
    // The branches by their places, and the search as a whole.
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let search: Vec<_> = decoder.iter().take_while(|ins| ins.mnemonic() != Mnemonic::Mov).collect();
    let names: Vec<_> = search.iter().map(|ins| ins.mnemonic()).collect();
    assert!(names.starts_with(&[Mnemonic::Cmp, Mnemonic::Je]), "{names:?}");
    let mut mistakes = 0;
    for ins in &search {
        let place = ins.ip() as usize;
        let (opcode, last) = (code[place], place + ins.len() - 1);
        let changes: Vec<(usize, u8)> = match ins.mnemonic() {
            // Another number, and another register.
            Mnemonic::Cmp => vec![(last, code[last] + 1), (last, code[last] - 1), (place + 1, 0xfa)],
            // Other conditions, and the next instruction.
            Mnemonic::Jmp => vec![(last, 0)],
            _ => vec![(place, opcode ^ 1), (place, 0x7c), (place, 0x77), (place, 0xeb), (last, 0)],
        };
        for (change, byte) in changes {
            let mut bytes = output.bytes.clone();
            bytes[at + change] = byte;
            let proof = validate(&original, &bytes, &output.traces);
            let wrong = proof.findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
            assert!(wrong, "{byte:#x} at {change:#x} of {names:?}:\n{}", words(&proof));
            mistakes += 1;
        }
    }
    assert!(mistakes >= 15, "{mistakes}");
}

/// Programs that do something else than the searches.
const OTHER_PROGRAMS: [(&str, &str, &str); 6] = [
    (".Lc-table,.La-table", ".La-table,.Lc-table", "the switch leads elsewhere for the index 3"),
    (".Ld-table", ".Lc-table", "the switch leads elsewhere for the index 5"),
    ("nopl (%rax)", "lea 1(%rax),%rax", "the original program uses the entry of a switch"),
    ("nopl (%rax)", "lea 1(%rcx),%rcx", "the original program uses the entry of a switch"),
    // Something else may read the table.
    (".quad others", ".quad table+4", "relocations of data are missing"),
    (".section .rodata", ".section .rodata\n.globl table", "relocations of data are missing"),
];

#[test]
fn searches_of_other_programs_are_noticed() {
    let output = rewritten(&assembled(SWITCH), Mode::Write);
    other_programs_are_noticed(SWITCH, &output, &OTHER_PROGRAMS);
}

#[test]
fn a_switch_of_a_table_that_another_function_names_compares_nothing() {
    let original = assembled(&SWITCH.replace("lea other(%rip)", "lea table(%rip)"));
    let output = rewritten(&original, Mode::Write);
    let proof = validate(&original, &output.bytes, &output.traces);
    assert!(proof.holds(), "{}", words(&proof));
    let text = &output.bytes[section(&output.bytes, ".text")];
    assert!(!text.windows(2).any(|two| two == CMP), "the switch compares");
}
