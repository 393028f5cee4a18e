//! System calls and signal handlers. This code of the domain asks the arbiter and calls the
//! handlers that the arbiter names. The arbiter only answers, so a handler is called like any
//! function of the domain and may leave by `siglongjmp`.

use crate::function::call_external;
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use sfi_contract::layout::{DISPATCH, DISPATCH_MASK};
use sfi_contract::requests::{
    AGAIN, FAULTED, FRAME_CONTEXT, FRAME_CONTEXT_MASK, FRAME_CONTEXT_RIP, FRAME_INFO, FRAME_MASK, FRAME_SIGNAL,
    FRAME_SIZE, FRAME_STACK, MARK, NEXT, RETURNED, SIGRETURN,
};

/// The red zone: bytes below r15 that the caller of `__sfi_syscall` may be using.
pub(crate) const RED_ZONE: i32 = 128;
/// Bytes of number, arguments and mark, then sixteen vector registers and the answer.
const FRAME: i32 = 64 + 16 * 16 + 16;

/// `mov %reg, %gs:disp(%r15d)`
pub(crate) fn save(a: &mut CodeAssembler, disp: i32, register: AsmRegister64) -> Result<(), IcedError> {
    a.mov(qword_ptr(r15d + disp).gs(), register)
}

/// `mov %gs:disp(%r15d), %reg`
pub(crate) fn restore(a: &mut CodeAssembler, register: AsmRegister64, disp: i32) -> Result<(), IcedError> {
    a.mov(register, qword_ptr(r15d + disp).gs())
}

const VECTORS: [AsmRegisterXmm; 16] =
    [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12, xmm13, xmm14, xmm15];

/// Offset in a handler's frame of the data stack pointer from before.
const BEFORE: i32 = FRAME_SIZE as i32 - 8;
/// `lea 0(%rip),%r15`
pub(crate) const LEA_STACK: [u8; 7] = [0x4c, 0x8d, 0x3d, 0, 0, 0, 0];

/// Writes the replacement of `syscall`. It sends a request at r15, and then calls the handlers of
/// signals.
pub(crate) fn syscall(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut again, mut out, mut signals) = (a.create_label(), a.create_label(), a.create_label());
    // A system call preserves everything but rax, rcx and r11 (psABI A.2.1).
    let below = RED_ZONE + FRAME;
    let answer = 64 + 16 * 16;
    a.lea(r15, qword_ptr(r15 - below))?;
    for (i, register) in [rax, rdi, rsi, rdx, r10, r8, r9].into_iter().enumerate() {
        save(a, 8 * i as i32, register)?;
    }
    for (i, register) in VECTORS.into_iter().enumerate() {
        a.movups(xmmword_ptr(r15d + (64 + 16 * i as i32)).gs(), register)?;
    }
    a.set_label(&mut again)?;
    a.xor(ecx, ecx)?;
    save(a, MARK as i32, rcx)?;
    a.mov(rdi, r15)?;
    call_external(a)?;
    restore(a, rcx, MARK as i32)?;
    a.test(rcx, rcx)?;
    a.jne(signals)?;
    a.set_label(&mut out)?;
    for (i, register) in VECTORS.into_iter().enumerate() {
        a.movups(register, xmmword_ptr(r15d + (64 + 16 * i as i32)).gs())?;
    }
    for (i, register) in [rdi, rsi, rdx, r10, r8, r9].into_iter().enumerate() {
        restore(a, register, 8 * (i as i32 + 1))?;
    }
    a.lea(r15, qword_ptr(r15 + below))?;
    a.ret()?;
    a.set_label(&mut signals)?;
    save(a, answer, rax)?;
    call_external(a)?;
    restore(a, rax, answer)?;
    restore(a, rcx, MARK as i32)?;
    a.cmp(ecx, AGAIN as i32)?;
    a.je(again)?;
    a.jmp(out)
}

/// Calls the handlers of pending signals, each in a frame of its own below r15.
pub(crate) fn handlers(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut next, mut done) = (a.create_label(), a.create_label());
    a.mov(rax, r15)?;
    a.lea(r15, qword_ptr(r15 - FRAME_SIZE as i32))?;
    a.and(r15, -16)?;
    save(a, BEFORE, rax)?;
    a.set_label(&mut next)?;
    request(a, NEXT)?;
    a.test(rax, rax)?;
    a.je(done)?;
    handler(a)?;
    // The argument of this request is the mask in the handler's context: the one from before the
    // handler, unless the handler changed it, as musl's for cancellation does.
    restore(a, rax, FRAME_CONTEXT_MASK as i32)?;
    save(a, FRAME_MASK as i32, rax)?;
    request(a, SIGRETURN)?;
    // A handler that names another place in its context leaves the interrupted code. musl's for
    // asynchronous cancellation names a function that does not return.
    restore(a, rax, FRAME_CONTEXT_RIP as i32)?;
    a.test(rax, rax)?;
    a.je(next)?;
    call_slot(a)?;
    a.ud2()?;
    a.set_label(&mut done)?;
    restore(a, r15, BEFORE)?;
    a.ret()
}

/// Writes the function that the host enters after a fault that the domain catches. rdi, rsi and rdx
/// are signal, code and address, and r15 is that of the faulting code. `lea` loads a stack that
/// only this function uses.
pub(crate) fn fault(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut over = a.create_label();
    a.mov(rcx, r15)?;
    a.db(&LEA_STACK)?;
    for (i, register) in [rdi, rsi, rdx, rcx].into_iter().enumerate() {
        save(a, 8 * (i as i32 + 1), register)?;
    }
    request(a, FAULTED)?;
    a.test(rax, rax)?;
    a.je(over)?;
    restore(a, r15, FRAME_STACK as i32)?;
    handler(a)?;
    request(a, RETURNED)?;
    a.set_label(&mut over)?;
    a.ud2()
}

/// `mov $number,%rax ; mov %rax,%gs:(%r15d) ; mov %r15,%rdi ; call __sfi_arbitrate`
fn request(a: &mut CodeAssembler, number: i64) -> Result<(), IcedError> {
    a.mov(rax, number)?;
    save(a, 0, rax)?;
    a.mov(rdi, r15)?;
    call_external(a)
}

/// Calls the handler in rax with the arguments that its frame at r15 holds.
fn handler(a: &mut CodeAssembler) -> Result<(), IcedError> {
    restore(a, rdi, FRAME_SIGNAL as i32)?;
    a.lea(rsi, qword_ptr(r15 + FRAME_INFO as i32))?;
    a.lea(rdx, qword_ptr(r15 + FRAME_CONTEXT as i32))?;
    call_slot(a)
}

/// `and $0xffff8,%eax ; call *%gs:__sfi_dispatch(%eax)`
fn call_slot(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.and(eax, DISPATCH_MASK as i32)?;
    let displacement = DISPATCH.symbolic() as i64;
    let slot = MemoryOperand::new(Register::EAX, Register::None, 1, displacement, 4, false, Register::GS);
    a.add_instruction(Instruction::with1(Code::Call_rm64, slot)?)
}
