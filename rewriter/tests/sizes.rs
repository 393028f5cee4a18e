//! Sizes that a hostile object names are refused, or cost no more than the object's own size
//! suggests.

use sfi_rewriter::{Mode, Options, Output, Reason, Refusal, rewrite};
use std::process::Command;

/// Assembles a source. Returns the object's bytes.
fn assemble(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("temporary directory");
    let (from, to) = (folder.path().join("a.s"), folder.path().join("a.o"));
    std::fs::write(&from, source).expect("source");
    let status = Command::new("gcc").arg("-c").arg(&from).arg("-o").arg(&to).status();
    assert!(status.expect("gcc is needed: install the package `gcc`").success(), "it does not assemble");
    std::fs::read(to).expect("object")
}

fn run(object: &[u8]) -> Result<Output, Vec<Refusal>> {
    rewrite(object, &Options { mode: Mode::Write, ..Default::default() })
}

fn word(object: &[u8], at: usize) -> u64 {
    object[at..at + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Returns the offset of the header of the first section of a kind with contents.
fn header(object: &[u8], kind: u8, flags: u64) -> usize {
    let mut headers = (word(object, 40) as usize..object.len()).step_by(64);
    headers
        .find(|at| object[at + 4] == kind && word(object, at + 8) == flags && word(object, at + 32) != 0)
        .expect("a section")
}

/// Returns an object whose `.rodata` has this alignment.
fn aligned(align: u64) -> Vec<u8> {
    let mut object = assemble(".globl f\n.type f, @function\nf: ret\n.section .rodata\n.quad 1\n");
    let at = header(&object, 1, 2) + 48;
    object[at..at + 8].copy_from_slice(&align.to_le_bytes());
    object
}

#[test]
fn an_alignment_is_no_room_in_the_file() {
    for shift in [0, 3, 12, 21, 40, 55, 63] {
        let object = aligned(1 << shift);
        let output = run(&object).expect("the verifier judges it");
        assert!(output.bytes.len() < 4096, "2^{shift}: {} bytes", output.bytes.len());
        let kept = header(&output.bytes, 1, 2);
        assert_eq!(word(&output.bytes, kept + 48), 1 << shift);
    }
}

#[test]
fn an_alignment_is_a_power_of_two() {
    for align in [3, 24, u64::MAX, (1 << 55) + 8] {
        let refusals = run(&aligned(align)).map(|_| ()).expect_err("it is refused");
        assert_eq!(refusals[0].reason, Reason::NotRelocatable, "{}", refusals[0]);
        assert!(refusals[0].detail.contains("alignment"), "{}", refusals[0]);
    }
}

#[test]
fn sections_do_not_overlap() {
    let mut object = aligned(8);
    let at = header(&object, 1, 2);
    let size = object.len() as u64;
    object[at + 24..at + 32].copy_from_slice(&0u64.to_le_bytes());
    object[at + 32..at + 40].copy_from_slice(&size.to_le_bytes());
    let refusals = run(&object).map(|_| ()).expect_err("it is refused");
    assert_eq!(refusals[0].reason, Reason::NotRelocatable, "{}", refusals[0]);
    assert!(refusals[0].detail.contains("overlap"), "{}", refusals[0]);
}

/// Data in text is copied to a multiple of the text's alignment, once for each run.
#[test]
fn copies_of_data_in_text_are_small() {
    let one = "lea 1f(%rip),%rax\nmov (%rax),%rax\njmp 2f\n1: .quad 0x0606060606060606\n2:\n";
    let object = assemble(&format!(".globl f\n.type f, @function\nf:\n{}ret\n", one.repeat(300)));
    let mut aligned = object.clone();
    let at = header(&object, 1, 6) + 48;
    aligned[at..at + 8].copy_from_slice(&(1u64 << 30).to_le_bytes());
    if let (Ok(plain), Ok(aligned)) = (run(&object), run(&aligned)) {
        let (plain, aligned) = (plain.bytes.len(), aligned.bytes.len());
        assert!(aligned < plain + 300 * 4200, "{plain} bytes become {aligned}");
    } else {
        panic!("data in text is not copied any more");
    }
}

#[test]
fn functions_do_not_share_an_exception_table() {
    let function = |name: &str, table: &str| {
        format!(
            ".globl {name}\n.type {name}, @function\n{name}:\n.cfi_startproc\n.cfi_lsda 0x1b, {table}\n.cfi_personality 0x9b, ref\n\
             sub $8,%rsp\n.cfi_def_cfa_offset 16\ncall g\nadd $8,%rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n"
        )
    };
    let table = |name: &str| format!("{name}: .byte 0xff, 0xff, 1, 4, 0, 9, 0, 0\n");
    let rest = format!(
        ".section .gcc_except_table,\"a\"\n{}{}.section .data.rel.ro,\"aw\"\nref: .quad __gxx_personality_v0\n",
        table("t"),
        table("u")
    );
    let apart = format!("{}{}{rest}", function("a", "t"), function("b", "u"));
    run(&assemble(&apart)).map(|_| ()).expect("each has its own");
    let shared = format!("{}{}{rest}", function("a", "t"), function("b", "t"));
    let refusals = run(&assemble(&shared)).map(|_| ()).expect_err("it is refused");
    assert_eq!(refusals[0].reason, Reason::ExceptionTables, "{}", refusals[0]);
}

/// Makes units with the attributes that name the code they describe.
fn units(count: usize, name: &str, abbreviations: &str) -> Vec<u8> {
    assemble(&format!(
        ".globl f\n.type f, @function\nf: ret\ne:\n.section .debug_str,\"MS\",@progbits,1\n{name}\n\
         .section .debug_abbrev\n.byte 1, 0x11, 0, 0x03, 0x0e, 0x11, 0x01, 0x12, 0x07, 0, 0\n{abbreviations}\n.byte 0\n\
         .section .debug_info\n.rept {count}\n.long 11b - 10b\n10: .short 4\n.long 0\n.byte 8\n.byte 1\n.long 0\n.quad f\n\
         .quad e - f\n11:\n.endr\n"
    )
    .replace("11b - 10b", "11f - 10f"))
}

#[test]
fn units_share_abbreviations() {
    let many = ".Ln = 2\n.rept 20000\n.uleb128 .Ln\n.byte 0x2e, 0, 0x03, 0x0e, 0, 0\n.Ln = .Ln + 1\n.endr";
    let output = run(&units(2000, ".asciz \"name\"", many)).expect("debug information is no reason to refuse");
    assert_eq!(output.notes, [""; 0]);
}

#[test]
fn names_are_paid_for() {
    let long = ".rept 100000\n.byte 0x61\n.endr\n.byte 0";
    let output = run(&units(10, long, "")).expect("debug information is no reason to refuse");
    assert_eq!(output.notes, [""; 0]);
    let output = run(&units(4000, long, "")).expect("debug information is no reason to refuse");
    assert_eq!(output.notes, ["debug information was dropped: too many units"]);
}
