//! A tenant that makes system calls which its host describes. Needs gcc.

use std::path::Path;
use std::process::Command;

/// `ask(request)` makes the system call that a record in memory describes: its number and six
/// arguments.
const TENANT: &str = ".text
.globl ask
.type ask,@function
ask:
    call __sfi_arbitrate@PLT
    ret
.section .note.GNU-stack,\"\",@progbits
";

/// Assembles the tenant, with files in a folder.
pub fn tenant(directory: &Path) -> Vec<u8> {
    let (source, object) = (directory.join("in.s"), directory.join("out.o"));
    std::fs::write(&source, TENANT).unwrap();
    assert!(Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status().unwrap().success());
    std::fs::read(object).unwrap()
}
