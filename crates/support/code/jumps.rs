//! `setjmp` and `longjmp`. A jump brings back the data stack pointer, the preserved registers and
//! the depth of the control stack.
//!
//! A `jmp_buf` has eight words for them in musl and glibc: rbx, rbp, r12, r13, r14, r15, the home
//! of the original r15, and a last word. Its upper half is the depth, and its lower half is the
//! dispatch slot to continue at. A forged buffer gives registers that the domain could load anyway,
//! and a depth and a slot that `__sfi_cut` checks and masks.
//!
//! `sigsetjmp` saves the signal mask after these words if it is asked to, as both libcs do.

use crate::function::{Function, call_external, fixed, function, jump_external};
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use sfi_contract::layout::TCB_R15;
use sfi_contract::{Mode, names};

/// Registers in the order of the buffer's first words.
const REGISTERS: [AsmRegister64; 6] = [rbx, rbp, r12, r13, r14, r15];
/// Offset of the original r15.
const HOME: i32 = 48;
/// Offset of the slot. The depth follows it.
const PLACE: i32 = 56;

pub(crate) fn functions(mode: Mode) -> Result<Vec<Function>, IcedError> {
    let set = function("setjmp", &[names::DEPTH], mode, setjmp)?;
    let set_mask = function("sigsetjmp", &[names::SYSCALL, names::DEPTH], mode, sigsetjmp)?;
    let jump = function("longjmp", &[names::CUT], mode, longjmp)?;
    let jump_mask = function("siglongjmp", &[names::SYSCALL, names::CUT], mode, siglongjmp)?;
    let resume = function("__sfi_resume", &[names::CUT], mode, resume)?;
    Ok(vec![
        Function { aliases: &["_setjmp", "__setjmp"], ..set },
        Function { aliases: &["__sigsetjmp"], ..set_mask },
        Function { aliases: &["_longjmp", "__longjmp_chk"], ..jump },
        jump_mask,
        resume,
    ])
}

/// Offset of the flag that the signal mask was saved, and of the mask.
const SAVED: i32 = 64;
const MASK: i32 = 72;
/// Number of `rt_sigprocmask`, its command to set a mask, and the size of a mask.
const SIGPROCMASK: i32 = 14;
const SIG_SETMASK: i32 = 2;
const MASK_BYTES: i32 = 8;

/// Returns the operand `%gs:TCB_R15` with 32-bit address size.
fn home() -> MemoryOperand {
    fixed(TCB_R15)
}

/// `int setjmp(jmp_buf)`. r11 holds the slot of the return address.
fn setjmp(a: &mut CodeAssembler) -> Result<(), IcedError> {
    for (i, register) in REGISTERS.into_iter().enumerate() {
        a.mov(qword_ptr(edi + 8 * i as i32).gs(), register)?;
    }
    a.add_instruction(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, home())?)?;
    a.mov(qword_ptr(edi + HOME).gs(), rax)?;
    a.mov(dword_ptr(edi + PLACE).gs(), r11d)?;
    call_external(a)?;
    // The depth counts the return addresses of this call and of this function. The jump's target
    // has neither.
    a.sub(eax, 2)?;
    a.mov(dword_ptr(edi + (PLACE + 4)).gs(), eax)?;
    a.xor(eax, eax)?;
    a.ret()
}

/// `int sigsetjmp(sigjmp_buf, int)`. r11 is as for `setjmp`.
fn sigsetjmp(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut plain = a.create_label();
    a.mov(dword_ptr(edi + SAVED).gs(), esi)?;
    a.test(esi, esi)?;
    a.je(plain)?;
    // rt_sigprocmask(SIG_BLOCK, NULL, &mask, 8) changes rax, rcx and r11.
    a.mov(dword_ptr(edi + PLACE).gs(), r11d)?;
    a.lea(rdx, qword_ptr(rdi + MASK))?;
    a.xor(edi, edi)?;
    a.xor(esi, esi)?;
    a.mov(r10d, MASK_BYTES)?;
    a.mov(eax, SIGPROCMASK)?;
    call_external(a)?;
    a.lea(rdi, qword_ptr(rdx - MASK))?;
    a.mov(r11d, dword_ptr(edi + PLACE).gs())?;
    a.set_label(&mut plain)?;
    setjmp(a)
}

/// `void siglongjmp(sigjmp_buf, int)`
fn siglongjmp(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut plain = a.create_label();
    a.mov(eax, dword_ptr(edi + SAVED).gs())?;
    a.test(eax, eax)?;
    a.je(plain)?;
    // rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8)
    a.mov(r8d, esi)?;
    a.lea(rsi, qword_ptr(rdi + MASK))?;
    a.mov(edi, SIG_SETMASK)?;
    a.xor(edx, edx)?;
    a.mov(r10d, MASK_BYTES)?;
    a.mov(eax, SIGPROCMASK)?;
    call_external(a)?;
    a.lea(rdi, qword_ptr(rsi - MASK))?;
    a.mov(esi, r8d)?;
    a.set_label(&mut plain)?;
    longjmp(a)
}

/// `void longjmp(jmp_buf, int)`
fn longjmp(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // 0 becomes 1.
    a.mov(eax, esi)?;
    a.cmp(eax, 1)?;
    a.adc(eax, 0)?;
    restore(a)
}

/// `void __sfi_resume(words, rax, rdx)`: a `longjmp` with both result registers. The unwinder
/// enters landing pads with it.
fn resume(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, rsi)?;
    restore(a)
}

/// Loads the buffer at rdi and continues at its slot. Keeps rax and rdx.
fn restore(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rcx, qword_ptr(edi + HOME).gs())?;
    a.add_instruction(Instruction::with2(Code::Mov_rm64_r64, home(), Register::RCX)?)?;
    for (i, register) in REGISTERS.into_iter().enumerate() {
        a.mov(register, qword_ptr(edi + 8 * i as i32).gs())?;
    }
    a.mov(esi, dword_ptr(edi + PLACE).gs())?;
    a.mov(edi, dword_ptr(edi + (PLACE + 4)).gs())?;
    jump_external(a)
}
