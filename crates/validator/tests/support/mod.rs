//! Objects of the tests, and the words of proofs.

#![allow(dead_code, reason = "no test uses all of it")]

use sfi_rewriter::{Options, Output};
use sfi_validator::{Proof, validate};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles or assembles a source.
pub fn object(source: &Path, flags: &[&str]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("unit.o");
    let mut command = Command::new("gcc");
    command
        .args(["-c", "-w", "-fPIC"])
        .arg("-I")
        .arg(root().join("fixtures/rt"))
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&path);
    let status = command.stderr(std::process::Stdio::null()).status();
    status.expect("gcc is needed: install the package `gcc`").success().then(|| std::fs::read(path).expect("object"))
}

/// Returns the findings of a proof.
pub fn words(proof: &Proof) -> String {
    proof.findings.iter().map(|finding| format!("{finding}\n")).collect()
}

/// Assembles code of `f` and others.
pub fn assembled(code: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let source = directory.path().join("unit.s");
    let text = format!(".globl f\n.type f,@function\n{code}\n.section .note.GNU-stack,\"\",@progbits\n");
    std::fs::write(&source, text).expect("source");
    object(&source, &[]).unwrap_or_else(|| panic!("does not assemble:\n{code}"))
}

/// Rewrites an object that is not refused.
pub fn rewritten(original: &[u8], options: Options) -> Output {
    sfi_rewriter::rewrite(original, &options).unwrap_or_else(|refusals| panic!("{refusals:?}"))
}

/// Returns the bytes of a section.
pub fn section(bytes: &[u8], name: &str) -> std::ops::Range<usize> {
    use object::{Object, ObjectSection};
    let file = object::File::parse(bytes).expect("object");
    let (start, size) = file.section_by_name(name).and_then(|section| section.file_range()).expect(name);
    start as usize..(start + size) as usize
}

/// Checks that a rewrite of some code is noticed not to be one of other programs. Each has another
/// text in place of one of the code's, and the words of its proof have a third one.
pub fn other_programs_are_noticed(code: &str, output: &Output, programs: &[(&str, &str, &str)]) {
    for (from, to, said) in programs {
        assert!(code.contains(from), "{from}");
        let original = assembled(&code.replace(from, to));
        let words = words(&validate(&original, &output.bytes, &output.traces));
        assert!(words.contains("wrong: ") && words.contains(said), "{to}:\n{words}");
    }
}
