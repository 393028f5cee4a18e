//! Shared parts of the loader's tests: domains written in assembly, in the form that the contract
//! demands.
#![allow(dead_code)]

use sfi_loader::{CallError, DomainSpec, FaultKind};
use std::io::Write;
use std::process::{Command, Stdio};

/// Assembles AT&T text with gcc. A missing compiler is a failure, never a skipped test.
pub fn assemble(text: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let object = directory.path().join("out.o");
    let mut gcc = Command::new("gcc")
        .args(["-c", "-x", "assembler", "-o"])
        .arg(&object)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("gcc is needed for these tests");
    let source = format!("{text}\n.section .note.GNU-stack,\"\",@progbits\n");
    gcc.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(gcc.wait().unwrap().success(), "gcc refused:\n{text}");
    std::fs::read(object).unwrap()
}

/// Returns the assembly text of a function.
pub fn function(name: &str, body: &str) -> String {
    format!(".text\n.globl {name}\n.type {name},@function\n{name}:\n{body}\n.size {name},.-{name}\n")
}

/// An indirect call through the pointer in rax.
pub const CALL_RAX: &str = "and $0xffff8,%eax\ncall *%gs:__sfi_dispatch(%eax)\n";

/// Returns the kind of the fault in which a call ended. Any other end fails the test.
pub fn kind(result: Result<u64, CallError>) -> FaultKind {
    match result {
        Err(CallError::Fault(fault)) => fault.kind,
        other => panic!("{other:?}"),
    }
}

/// Returns this process' mappings, without those of the heap and of libraries' lazily grown memory.
pub fn maps() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns the text of a function that begins with a charge of this amount, and its trap.
pub fn paying(name: &str, amount: u32, body: &str) -> String {
    function(name, &format!("sub ${amount},%r14\njb 9f\n{body}\n9:\nint3"))
}

/// Counts down from its argument: 3 instructions, then 5 for each step.
pub fn spin() -> String {
    paying("spin", 3, "mov %rdi,%rax\n1:\nsub $5,%r14\njb 9f\ndec %rax\njne 1b\nret")
}

/// Describes a domain with this text and a budget of instructions.
pub fn budgeted(name: &str, text: &str, most: u64) -> DomainSpec {
    DomainSpec::new(name).object("text.o", assemble(text)).instructions(most)
}
