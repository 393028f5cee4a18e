//! Processes: musl's `posix_spawn` and `posix_spawnp`, which are requests to the arbiter, and
//! `vfork`. `system` and `popen` call the first two.

use crate::function::jump_external;
use crate::signals::restore;
use crate::threads::{FRAME, send};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use sfi_contract::requests::EXECUTE;

/// Returns -1, in place of musl's `vfork` where there is no program to fork.
pub(crate) fn none(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(eax, -1)?;
    a.ret()
}

/// `fork` (unistd_64.h)
const FORK: i64 = 57;

/// `vfork()` of a program, which is a fork here: the child has memory of its own. musl's function
/// reads its return address.
pub(crate) fn fork(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.lea(r15, qword_ptr(r15 - FRAME))?;
    send(a, FORK, &[])?;
    a.lea(r15, qword_ptr(r15 + FRAME))?;
    // Sets `errno`: __syscall_ret(answer)
    a.mov(rdi, rax)?;
    jump_external(a)
}

/// `posix_spawn(pid, path, actions, attributes, arguments, environment)`
pub(crate) fn spawn(a: &mut CodeAssembler) -> Result<(), IcedError> {
    request(a, 0)
}

/// `posix_spawnp`, which searches for the program.
pub(crate) fn spawn_found(a: &mut CodeAssembler) -> Result<(), IcedError> {
    request(a, 1)
}

/// Asks for a program. Stores its number at rdi, and returns 0 or an error.
fn request(a: &mut CodeAssembler, search: i32) -> Result<(), IcedError> {
    let (mut failed, mut out) = (a.create_label(), a.create_label());
    a.lea(r15, qword_ptr(r15 - FRAME))?;
    a.mov(qword_ptr(r15d + KEPT).gs(), rdi)?;
    a.mov(edi, search)?;
    send(a, EXECUTE, &[rsi, rdx, rcx, r8, r9, rdi])?;
    restore(a, rdi, KEPT)?;
    a.lea(r15, qword_ptr(r15 + FRAME))?;
    a.test(eax, eax)?;
    a.js(failed)?;
    a.test(rdi, rdi)?;
    a.je(out)?;
    a.mov(dword_ptr(edi).gs(), eax)?;
    a.set_label(&mut out)?;
    a.xor(eax, eax)?;
    a.ret()?;
    a.set_label(&mut failed)?;
    a.neg(eax)?;
    a.ret()
}

/// Offset of a word between the request and the red zone, which keeps the pointer.
const KEPT: i32 = 64;
