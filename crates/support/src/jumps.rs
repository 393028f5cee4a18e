//! `setjmp` and `longjmp`: the data stack pointer, the preserved registers and the control stack's
//! depth come back.
//!
//! A `jmp_buf` has eight words of its own in musl and glibc: rbx, rbp, r12, r13, r14, r15, the home
//! of the original r15, and a word whose upper half is the depth and whose lower half the dispatch
//! slot to continue at. A forged one gives registers that its author could have loaded as well, and
//! a depth and a slot that `__sfi_cut` checks and masks.
//!
//! Signal masks are not saved: a domain has no signals of its own.

use crate::function::{Function, call_external, function, jump_external};
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use sfi_contract::layout::TCB_R15;
use sfi_contract::{Mode, names};

/// Registers in the order of the buffer's first words.
const REGISTERS: [AsmRegister64; 6] = [rbx, rbp, r12, r13, r14, r15];
/// The original r15.
const HOME: i32 = 48;
/// Depth and slot.
const PLACE: i32 = 56;

pub(crate) fn functions(mode: Mode) -> Result<Vec<Function>, IcedError> {
    let set = function("setjmp", &[names::DEPTH], mode, setjmp)?;
    let jump = function("longjmp", &[names::CUT], mode, longjmp)?;
    let resume = function("__sfi_resume", &[names::CUT], mode, resume)?;
    Ok(vec![
        Function { aliases: &["_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp"], ..set },
        Function { aliases: &["_longjmp", "siglongjmp", "__longjmp_chk"], ..jump },
        resume,
    ])
}

/// `%gs:TCB_R15` with the 32-bit address size.
fn home() -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, TCB_R15 as i64, 4, false, Register::GS)
}

/// `int setjmp(jmp_buf)`; r11: the slot of the place behind the call.
fn setjmp(a: &mut CodeAssembler) -> Result<(), IcedError> {
    for (i, register) in REGISTERS.into_iter().enumerate() {
        a.mov(qword_ptr(edi + 8 * i as i32).gs(), register)?;
    }
    a.add_instruction(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, home())?)?;
    a.mov(qword_ptr(edi + HOME).gs(), rax)?;
    a.mov(dword_ptr(edi + PLACE).gs(), r11d)?;
    call_external(a)?;
    // The depth counts the returns of this call and of this function, which the caller does not
    // have.
    a.sub(eax, 2)?;
    a.mov(dword_ptr(edi + (PLACE + 4)).gs(), eax)?;
    a.xor(eax, eax)?;
    a.ret()
}

/// `void longjmp(jmp_buf, int)`
fn longjmp(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // 0 becomes 1.
    a.mov(eax, esi)?;
    a.cmp(eax, 1)?;
    a.adc(eax, 0)?;
    restore(a)
}

/// `void __sfi_resume(words, rax, rdx)`: as `longjmp`, with both registers of a result. The
/// unwinder's way into a landing pad.
fn resume(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, rsi)?;
    restore(a)
}

/// Loads the buffer at rdi and goes there. Keeps rax and rdx.
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
