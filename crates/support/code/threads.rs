//! Threads: musl's `__clone` and `__unmapself`, which are requests to the arbiter. The new thread
//! begins in its function, so nothing here runs in it.

use crate::function::call_external;
use crate::signals::{RED_ZONE, restore, save};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use sfi_contract::requests::{LEAVE, MARK, SPAWN};

/// Bytes of number, arguments and mark, with the red zone above them, a multiple of 16.
pub(crate) const FRAME: i32 = 80 + RED_ZONE;

/// `__clone(function, stack, flags, argument, parent, pointer, clear)`. The last argument lies on
/// the stack.
pub(crate) fn clone(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.lea(r15, qword_ptr(r15 - FRAME))?;
    a.mov(edi, edi)?;
    a.shl(rdx, 32)?;
    a.or(rdi, rdx)?;
    restore(a, rdx, FRAME)?;
    send(a, SPAWN, &[rdi, rsi, rdx, rcx, r8, r9])?;
    a.lea(r15, qword_ptr(r15 + FRAME))?;
    a.ret()
}

/// `__unmapself(address, length)`: a thread without a stack cannot make a second request.
pub(crate) fn leave(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.lea(r15, qword_ptr(r15 - FRAME))?;
    send(a, LEAVE, &[rdi, rsi])?;
    a.ud2()
}

/// Sends a request at r15, with a mark that says that no signal was asked for.
pub(crate) fn send(a: &mut CodeAssembler, number: i64, arguments: &[AsmRegister64]) -> Result<(), IcedError> {
    a.mov(rax, number)?;
    save(a, 0, rax)?;
    for (i, register) in arguments.iter().enumerate() {
        save(a, 8 * (i as i32 + 1), *register)?;
    }
    a.xor(eax, eax)?;
    save(a, MARK as i32, rax)?;
    a.mov(rdi, r15)?;
    call_external(a)
}
