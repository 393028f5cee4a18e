//! Unwind tables: the records of calls and landing pads. Damaged tables end in a refusal or an
//! object, never in a panic.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use sfi_rewriter::{Mode, Options, Reason, rewrite};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

const SOURCE: &str = "
struct Guard { ~Guard(); };
int work(int);
int f(int n) {
    Guard a;
    try { n = work(n); Guard b; n += work(n + 1); } catch (int x) { n = work(x); } catch (const char *) { throw; }
    return work(n);
}
template <class T> T g(T n) { Guard a; return work(n); }
template int g(int);
";

fn compile(compiler: &str, level: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (source, object) = (directory.path().join("a.cc"), directory.path().join("a.o"));
    std::fs::write(&source, SOURCE).expect("source");
    let status = Command::new(compiler).args(["-fPIC", level, "-c"]).arg(&source).arg("-o").arg(&object).status();
    assert!(status.expect("g++ and clang are needed").success());
    std::fs::read(object).expect("object")
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Every record describes calls of its section: a call instruction precedes each return address.
#[test]
fn records_name_the_places_behind_calls() {
    for compiler in ["g++", "clang++"] {
        for level in ["-O0", "-O2"] {
            let output = rewrite(&compile(compiler, level), &Options { mode: Mode::Write, ..Default::default() })
                .expect("it is rewritten");
            let file = object::File::parse(&*output.bytes).expect("an object");
            assert!(file.sections().all(|s| !s.name().is_ok_and(|n| n == ".eh_frame" || n.starts_with(".gcc_except"))));
            let (mut calls, mut pads, mut personalities) = (0, 0, 0);
            for section in file.sections().filter(|s| s.name() == Ok("sfi_unwind")) {
                let data = section.data().expect("data");
                assert_eq!((data.len() % 8, word(data, 8)), (0, data.len()));
                let base = section.relocations().find(|(offset, _)| *offset == 0).expect("a base").1;
                let RelocationTarget::Symbol(symbol) = base.target() else { panic!("the base is no symbol") };
                let symbol = file.symbol_by_index(symbol).expect("a symbol");
                let text = file.section_by_index(symbol.section_index().expect("a section")).expect("a section");
                assert_eq!(symbol.address(), 0);
                let text = text.data().expect("text");
                let (functions, count) = (word(data, 12), word(data, 16));
                let first = 24 + 16 * functions;
                let mut last = 0;
                for call in (0..count).map(|i| first + 12 * i) {
                    let behind = word(data, call);
                    assert!(behind > last && word(data, call + 8) < functions);
                    last = behind;
                    // call rel32
                    assert_eq!(text[behind - 5], 0xe8, "{compiler} {level}: {behind:#x}");
                    calls += 1;
                }
                for (offset, reloc) in section.relocations() {
                    let kind = offset as usize;
                    personalities += usize::from((24..first).contains(&kind));
                    pads += usize::from(kind > first && reloc.size() == 64);
                }
            }
            assert!(
                calls >= 10 && pads >= 3 && personalities >= 2,
                "{compiler} {level}: {calls} {pads} {personalities}"
            );
        }
    }
}

/// A function whose personality is named by a local symbol. The symbol's section is mergeable, so
/// the assembler makes no symbol for the section.
const BY_SYMBOL: &str = r#"
        .text
        .globl  f
        .type   f,@function
f:
        .cfi_startproc
        .cfi_personality 0x9b, ref
        .cfi_lsda 0x1b, .Llsda
        sub     $8, %rsp
        .cfi_def_cfa_offset 16
.Lcall:
        call    g@PLT
.Lafter:
        add     $8, %rsp
        .cfi_def_cfa_offset 8
        ret
.Lpad:
        call    h@PLT
        ud2
        .cfi_endproc
        .size   f, .-f
        .section .gcc_except_table,"a",@progbits
.Llsda: .byte 0xff, 0xff, 1
        .uleb128 .Lend-.Lsites
.Lsites: .uleb128 .Lcall-f
        .uleb128 .Lafter-.Lcall
        .uleb128 .Lpad-f
        .uleb128 0
.Lend:
        .section .rodata.ref,"aM",@progbits,8
        .quad   0
ref:    .quad   __gxx_personality_v0
"#;

#[test]
fn a_personality_may_be_named_by_a_local_symbol() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (source, object) = (directory.path().join("a.s"), directory.path().join("a.o"));
    std::fs::write(&source, BY_SYMBOL).expect("source");
    assert!(Command::new("as").arg(&source).arg("-o").arg(&object).status().expect("as").success());
    let output = rewrite(&std::fs::read(object).expect("object"), &Options { mode: Mode::Write, ..Default::default() });
    let bytes = output.expect("it is rewritten").bytes;
    let file = object::File::parse(&*bytes).expect("an object");
    let records = file.sections().find(|s| s.name() == Ok("sfi_unwind")).expect("records");
    let (_, reloc) = records.relocations().find(|(offset, _)| *offset == 24).expect("a personality");
    let RelocationTarget::Symbol(symbol) = reloc.target() else { panic!("no symbol") };
    let symbol = file.symbol_by_index(symbol).expect("a symbol");
    let section = file.section_by_index(symbol.section_index().expect("a section")).expect("a section");
    assert_eq!(section.name(), Ok(".rodata.ref"));
    assert_eq!(symbol.address() as i64 + reloc.addend(), 8);
}

#[test]
fn a_group_needs_a_signature() {
    let mut bytes = compile("g++", "-O2");
    let (table, count) = (word(&bytes, 40), usize::from(u16::from_le_bytes([bytes[60], bytes[61]])));
    // sh_type is SHT_GROUP
    let group = (0..count).map(|i| table + 64 * i).find(|at| word(&bytes, at + 4) == 17).expect("a group");
    // sh_info
    bytes[group + 44..group + 48].copy_from_slice(&0x8000_0019_u32.to_le_bytes());
    let refusals = rewrite(&bytes, &Options { mode: Mode::Write, ..Default::default() }).expect_err("no such symbol");
    assert_eq!(refusals[0].reason, Reason::NotRelocatable);
}

#[test]
fn damaged_tables_are_refused_or_left_out() {
    let whole = compile("g++", "-O2");
    let file = object::File::parse(&*whole).expect("an object");
    let mut places = Vec::new();
    for section in file.sections() {
        let name = section.name().expect("a name");
        if name == ".eh_frame" || name.starts_with(".gcc_except_table") || name == ".rela.eh_frame" {
            let (start, size) = section.file_range().expect("bytes");
            places.extend(start..start + size);
        }
    }
    assert!(places.len() > 200);
    let (mut refused, mut accepted) = (0, 0);
    for &place in &places {
        for change in [0x01u8, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[place as usize] ^= change;
            let result = catch_unwind(AssertUnwindSafe(|| {
                rewrite(&bytes, &Options { mode: Mode::Write, ..Default::default() })
            }));
            match result.unwrap_or_else(|_| panic!("a panic at {place:#x} ^ {change:#x}")) {
                Ok(_) => accepted += 1,
                Err(refusals) => {
                    refused += usize::from(refusals.iter().any(|r| r.reason == Reason::ExceptionTables));
                }
            }
        }
    }
    assert!(refused > 50 && accepted > 50, "{refused} refused, {accepted} accepted");
}
