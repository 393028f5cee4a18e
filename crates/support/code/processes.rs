//! Processes: musl's `posix_spawn` and `posix_spawnp`, which are requests to the arbiter. `system`
//! and `popen` call them.

use crate::signals::restore;
use crate::threads::{FRAME, send};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use sfi_contract::requests::EXECUTE;

/// `-ENOSYS`
const NO_CALL: i32 = -38;

/// Returns -ENOSYS, as the system call would: a domain cannot be doubled. musl's own function reads
/// its return address.
pub(crate) fn none(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(eax, NO_CALL)?;
    a.ret()
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
