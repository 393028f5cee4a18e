//! Line tables survive. Stores carry their own line in their immediate. The test finds them in the
//! rewritten object, and binutils' `addr2line` and this workspace's reader must both name that line
//! and the function.

use iced_x86::{Decoder, DecoderOptions, OpKind};
use object::{Object, ObjectSection, ObjectSymbol};
use sfi_rewriter::{Mode, Options, Output, rewrite};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const MARK: u64 = 0x5f10_0000;

/// A marked store of a rewritten object.
struct Store {
    section: usize,
    name: String,
    offset: u64,
    line: u64,
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lines").join(name)
}

fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; run `cargo xtask setup`"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

fn compile(compiler: &str, arguments: &[&str], source: &Path, out: &Path) -> Vec<u8> {
    run(Command::new(compiler).args(arguments).arg(source).arg("-o").arg(out));
    std::fs::read(out).expect("object")
}

fn rewritten(bytes: &[u8]) -> Output {
    let output =
        rewrite(bytes, &Options { mode: Mode::Write, ..Default::default() }).unwrap_or_else(|r| panic!("{}", r[0]));
    let again = rewrite(bytes, &Options { mode: Mode::Write, ..Default::default() }).expect("second time");
    assert_eq!(output.bytes, again.bytes, "not deterministic");
    let report = sfi_verifier::verify(&output.bytes, &sfi_verifier::Options::default()).expect("readable");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    output
}

fn stores(bytes: &[u8]) -> Vec<Store> {
    let file = object::File::parse(bytes).expect("the output parses");
    let mut stores = Vec::new();
    for section in file.sections().filter(|s| s.kind() == object::SectionKind::Text) {
        let mut decoder = Decoder::with_ip(64, section.data().expect("data"), 0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let ins = decoder.decode();
            let shape =
                ins.op_count() == 2 && ins.op0_kind() == OpKind::Memory && ins.op1_kind() == OpKind::Immediate32;
            if shape && ins.immediate(1) & !0xfff == MARK {
                let name = section.name().expect("name").to_owned();
                stores.push(Store {
                    section: section.index().0,
                    name,
                    offset: ins.ip(),
                    line: ins.immediate(1) & 0xfff,
                });
            }
        }
    }
    stores
}

/// Checks all marked stores of a rewritten object. Returns the lines that it found.
fn check(path: &Path, bytes: &[u8], file: &str) -> BTreeSet<u64> {
    std::fs::write(path, bytes).expect("write");
    let parsed = sfi_verifier::elf::parse(bytes).expect("readable");
    let stores = stores(bytes);
    assert!(!stores.is_empty(), "no store in {}", path.display());
    let places: Vec<(usize, u64)> = stores.iter().map(|s| (s.section, s.offset)).collect();
    let ours = sfi_debuginfo::lookup_in(&parsed, &places);
    let mut seen = BTreeSet::new();
    for (store, frames) in stores.iter().zip(ours) {
        let at = format!("{}: {}+{:#x}", path.display(), store.name, store.offset);
        // Functions of the library may be inlined into the statement.
        let frame = frames.iter().find(|f| f.file.as_ref().is_some_and(|f| f.ends_with(file)));
        assert_eq!(frame.and_then(|f| f.line), Some(store.line), "{at}: {frames:?}");
        let section = stores.iter().filter(|s| s.name == store.name).map(|s| s.section).collect::<BTreeSet<_>>();
        if section.len() == 1 {
            let theirs = run(Command::new("addr2line")
                .args(["-f", "-i", "-j", &store.name, "-e"])
                .arg(path)
                .arg(format!("{:#x}", store.offset)));
            let lines: Vec<&str> = theirs.lines().collect();
            // Both find the same functions and places, from the innermost out.
            let place = |line: &str| line.split(" (").next().unwrap_or(line).to_owned();
            let theirs: Vec<_> = lines.chunks_exact(2).map(|pair| (pair[0].to_owned(), place(pair[1]))).collect();
            let own: Vec<_> =
                frames.iter().map(|f| (f.function.clone().unwrap_or("??".into()), f.to_string())).collect();
            assert_eq!(theirs, own, "{at}");
        }
        seen.insert(store.line);
    }
    seen
}

fn marked(file: &str) -> BTreeSet<u64> {
    let text = std::fs::read_to_string(source(file)).expect("source");
    let has = |line: &str| line.contains("MARK(") && !line.starts_with("#define");
    text.lines().enumerate().filter(|(_, l)| has(l)).map(|(n, _)| n as u64 + 1).collect()
}

#[test]
fn c_and_cpp_of_both_compilers() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (old, new) = (directory.path().join("old.o"), directory.path().join("new.o"));
    for compiler in ["gcc", "clang"] {
        for arguments in [
            &["-gdwarf-4", "-O0"][..],
            &["-gdwarf-5", "-O2"],
            &["-gdwarf-5", "-O0", "-ffunction-sections"],
            &["-gdwarf-4", "-O2", "-ffunction-sections", "-gz=zlib"],
        ] {
            let all = [&["-c", "-fno-asynchronous-unwind-tables", "-fno-exceptions"], arguments].concat();
            let bytes = compile(compiler, &all, &source("marked.c"), &old);
            let seen = check(&new, &rewritten(&bytes).bytes, "marked.c");
            assert_eq!(seen, marked("marked.c"), "{compiler} {arguments:?}");
            let bytes = compile(compiler, &all, &source("marked.cpp"), &old);
            let seen = check(&new, &rewritten(&bytes).bytes, "marked.cpp");
            assert_eq!(seen, marked("marked.cpp"), "{compiler} {arguments:?}");
        }
    }
}

#[test]
fn rust() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (old, new) = (directory.path().join("old.o"), directory.path().join("new.o"));
    for level in ["1", "2"] {
        let level = format!("-Copt-level={level}");
        let arguments = [
            "--edition=2024",
            "--crate-type=lib",
            "--emit=obj",
            "-g",
            "-Cpanic=abort",
            "-Coverflow-checks=off",
            &level,
        ];
        let bytes = compile("rustc", &arguments, &source("marked.rs"), &old);
        let output = rewritten(&bytes);
        let lines = check(&new, &output.bytes, "marked.rs");
        assert!(lines.len() == 3, "{lines:?}");
    }
}

#[test]
fn the_linker_keeps_them() {
    // Relocations are complete, so two objects linked into one still name their lines.
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = |name: &str| directory.path().join(name);
    let c = compile("gcc", &["-c", "-g", "-O2"], &source("marked.c"), &path("old.o"));
    let cpp = compile("clang", &["-c", "-g", "-O2", "-fno-exceptions"], &source("marked.cpp"), &path("old.o"));
    std::fs::write(path("one.o"), rewritten(&c).bytes).expect("write");
    std::fs::write(path("two.o"), rewritten(&cpp).bytes).expect("write");
    run(Command::new("ld").arg("-r").arg(path("one.o")).arg(path("two.o")).arg("-o").arg(path("both.o")));
    let both = std::fs::read(path("both.o")).expect("object");
    let parsed = sfi_verifier::elf::parse(&both).expect("readable");
    let mut files = BTreeSet::new();
    for store in stores(&both) {
        let frames = sfi_debuginfo::lookup_in(&parsed, &[(store.section, store.offset)]);
        assert_eq!(frames[0][0].line, Some(store.line));
        files.insert(frames[0][0].file.clone().expect("file").rsplit_once('/').expect("path").1.to_owned());
    }
    assert_eq!(files.into_iter().collect::<Vec<_>>(), ["marked.c", "marked.cpp"]);
}

#[test]
fn without_debug_information_nothing_changes_and_text_never_does() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let old = directory.path().join("old.o");
    let plain = rewritten(&compile("gcc", &["-c", "-O2"], &source("marked.c"), &old)).bytes;
    let with = rewritten(&compile("gcc", &["-c", "-O2", "-g"], &source("marked.c"), &old)).bytes;
    let sections = |bytes: &[u8]| -> Vec<(String, Vec<u8>)> {
        let file = object::File::parse(bytes).expect("the output parses");
        let named = |s: object::Section<'_, '_>| (s.name().unwrap_or("").to_owned(), s.data().expect("data").to_vec());
        file.sections().map(named).collect()
    };
    assert!(sections(&plain).iter().all(|(name, _)| !name.contains("debug") && !name.contains(".sfi.map")));
    assert!(sections(&with).iter().any(|(name, _)| name == ".debug_line"));
    let text = |bytes: &[u8]| sections(bytes).into_iter().filter(|(n, _)| n.starts_with(".text")).collect::<Vec<_>>();
    assert_eq!(text(&plain), text(&with));
    // Variables are left out, because their places would be wrong.
    let file = object::File::parse(&*with).expect("the output parses");
    assert!(file.section_by_name(".debug_loclists").is_none() && file.section_by_name(".debug_loc").is_none());
    assert!(file.symbols().any(|s| s.name() == Ok("looped")));
}

#[test]
fn malformed_debug_information_is_dropped_with_a_note() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let old = directory.path().join("old.o");
    let bytes = compile("gcc", &["-c", "-O2", "-g"], &source("marked.c"), &old);
    let file = object::File::parse(&*bytes).expect("parses");
    let mut dropped = 0;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let ranges: Vec<(u64, u64)> = [".debug_info", ".debug_line", ".debug_abbrev", ".debug_rnglists"]
        .iter()
        .filter_map(|name| file.section_by_name(name)?.file_range())
        .collect();
    assert_eq!(ranges.len(), 4);
    for _ in 0..300 {
        let mut mutated = bytes.clone();
        for _ in 0..1 + next() % 8 {
            let (start, size) = ranges[next() as usize % ranges.len()];
            mutated[(start + next() % size) as usize] = next() as u8;
        }
        let output =
            rewrite(&mutated, &Options { mode: Mode::Write, ..Default::default() }).expect("the code is as it was");
        dropped += usize::from(!output.notes.is_empty());
        // A reader finds places or none, and does not panic.
        for bytes in [&mutated, &output.bytes] {
            let parsed = sfi_verifier::elf::parse(bytes).expect("readable");
            let code = parsed.sections.iter().position(|s| s.name == ".text").expect("text");
            let places: Vec<(usize, u64)> = (0..64).map(|n| (code, 7 * n)).collect();
            assert_eq!(sfi_debuginfo::lookup_in(&parsed, &places).len(), places.len());
        }
    }
    assert!(dropped > 20, "{dropped}");
}
