//! `getcontext`, `setcontext`, `makecontext` and `swapcontext`: fibers, each on a data stack of its
//! own.
//!
//! The loader keeps the return addresses of fibers that wait, in numbered places (`__sfi_keep`,
//! `__sfi_bring`). The domain keeps the rest in the `ucontext_t`: registers, the home of the
//! original r15, the number of the place, and the dispatch slot where it goes on. The loader trusts
//! none of it. A table says which `ucontext_t` each place belongs to, so that one without a place
//! may hold anything. A context that `swapcontext` saved gives its place back when it goes on, and
//! goes on once. One that `getcontext` saved goes on as often as the program wants.
//!
//! Signal masks and floating-point environments are not part of a context. When a function that
//! `makecontext` was given returns and there is no `uc_link`, the call into the domain returns 0.

use crate::function::{Function, call_external, fixed, function, jump_external};
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use sfi_contract::layout::{DISPATCH, DISPATCH_MASK, TCB_R15};
use sfi_contract::{Mode, names};

/// The start of both libcs' `ucontext_t`: `uc_link`, and address and size of `uc_stack`.
const LINK: i32 = 8;
const STACK: i32 = 16;
const STACK_SIZE: i32 = 32;
/// Words of its `gregs`, from the start on.
const fn word(number: i32) -> i32 {
    40 + 8 * number
}
/// Registers in the order of the first words.
const REGISTERS: [AsmRegister64; 6] = [rbx, rbp, r12, r13, r14, r15];
const SP: i32 = word(5);
const HOME: i32 = word(6);
/// The way in which it was saved, and the number of its place.
const KIND: i32 = word(7);
const PLACE: i32 = word(7) + 4;
/// The dispatch slot where it goes on.
const SLOT: i32 = word(8);
/// Six arguments and the function that `makecontext` was given.
const ARGUMENTS: i32 = word(9);
const FUNCTION: i32 = word(15);

/// Saved by `getcontext`.
const GOT: i32 = 0x6701;
/// Saved by `swapcontext`.
const SWAPPED: i32 = 0x6702;
/// Made by `makecontext`.
const MADE: i32 = 0x6703;
/// Places that the table has room for. The loader may give fewer.
const PLACES: i32 = 1024;
/// Name and bytes of the table.
pub(crate) const TABLE: (&str, u64) = ("__sfi_context_places", 4 * PLACES as u64);

/// `lea table(%rip),%r8`
pub(crate) const LEA_TABLE: [u8; 7] = [0x4c, 0x8d, 0x05, 0, 0, 0, 0];
/// `lea __sfi_context_on(%rip),%rax`
pub(crate) const LEA_ON: ([u8; 7], &str) = ([0x48, 0x8d, 0x05, 0, 0, 0, 0], ON);
/// `lea __sfi_context_start(%rip),%rdx`
pub(crate) const LEA_START: ([u8; 7], &str) = ([0x48, 0x8d, 0x15, 0, 0, 0, 0], START);
/// The code at which a saved context goes on. It returns to the caller of the function that saved
/// it.
const ON: &str = "__sfi_context_on";
/// The code at which a made context begins.
const START: &str = "__sfi_context_start";

pub(crate) fn functions(mode: Mode) -> Result<Vec<Function>, IcedError> {
    Ok(vec![
        function("getcontext", &[names::KEEP], mode, get)?,
        function("swapcontext", &[names::KEEP, "setcontext"], mode, swap)?,
        function("setcontext", &[names::BRING, names::CUT], mode, set)?,
        function("makecontext", &[], mode, make)?,
        function(START, &["setcontext"], mode, start)?,
        function(ON, &[], mode, |a| a.ret())?,
    ])
}

fn word_at(offset: i32) -> AsmMemoryOperand {
    qword_ptr(edi + offset).gs()
}

fn half_at(offset: i32) -> AsmMemoryOperand {
    dword_ptr(edi + offset).gs()
}

/// Returns the operand of an entry of the table at r8.
fn entry(number: AsmRegister32) -> AsmMemoryOperand {
    dword_ptr(r8d + number * 4).gs()
}

/// Saves registers to the context at rdi and finds a place for it: its own, or the first free one.
/// ecx: its number, which may be too large.
fn save(a: &mut CodeAssembler, kind: i32) -> Result<(), IcedError> {
    let (mut scan, mut next, mut free, mut found) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label());
    for (number, register) in (0..).zip(REGISTERS) {
        a.mov(word_at(word(number)), register)?;
    }
    a.add_instruction(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, fixed(TCB_R15))?)?;
    a.mov(word_at(HOME), rax)?;
    a.mov(half_at(KIND), kind)?;
    a.db(&LEA_ON.0)?;
    a.mov(half_at(SLOT), eax)?;
    a.db(&LEA_TABLE)?;
    a.mov(ecx, half_at(PLACE))?;
    a.cmp(ecx, PLACES)?;
    a.jae(scan)?;
    a.cmp(entry(ecx), edi)?;
    a.je(found)?;
    a.set_label(&mut scan)?;
    a.xor(ecx, ecx)?;
    a.set_label(&mut next)?;
    a.cmp(entry(ecx), 0)?;
    a.je(free)?;
    a.add(ecx, 1)?;
    a.cmp(ecx, PLACES)?;
    a.jb(next)?;
    // The stub faults for this number.
    a.jmp(found)?;
    a.set_label(&mut free)?;
    a.mov(entry(ecx), edi)?;
    a.mov(half_at(PLACE), ecx)?;
    a.set_label(&mut found)
}

/// `int getcontext(ucontext_t *)`
fn get(a: &mut CodeAssembler) -> Result<(), IcedError> {
    save(a, GOT)?;
    a.mov(edi, ecx)?;
    call_external(a)?;
    a.xor(eax, eax)?;
    a.ret()
}

/// `int swapcontext(ucontext_t *from, const ucontext_t *to)`
fn swap(a: &mut CodeAssembler) -> Result<(), IcedError> {
    save(a, SWAPPED)?;
    a.mov(rdx, rsi)?;
    a.mov(edi, ecx)?;
    call_external(a)?;
    a.mov(rdi, rdx)?;
    jump_external(a)
}

/// `int setcontext(const ucontext_t *)`
fn set(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut saved, mut made, mut dead) = (a.create_label(), a.create_label(), a.create_label());
    a.mov(edx, half_at(PLACE))?;
    a.mov(eax, half_at(KIND))?;
    a.cmp(eax, GOT)?;
    a.je(saved)?;
    a.cmp(eax, MADE)?;
    a.je(made)?;
    a.cmp(eax, SWAPPED)?;
    a.jne(dead)?;
    a.cmp(edx, PLACES)?;
    a.jae(dead)?;
    a.xor(eax, eax)?;
    a.db(&LEA_TABLE)?;
    a.mov(entry(edx), eax)?;
    a.mov(half_at(KIND), eax)?;
    a.set_label(&mut saved)?;
    load(a)?;
    // The place is the stub's first argument.
    a.mov(edi, edx)?;
    jump_external(a)?;
    a.set_label(&mut made)?;
    a.xor(eax, eax)?;
    a.mov(half_at(KIND), eax)?;
    load(a)?;
    // A fiber begins without return addresses.
    a.xor(edi, edi)?;
    jump_external(a)?;
    a.set_label(&mut dead)?;
    a.ud2()
}

/// Loads the context at rdi. esi: where it goes on. Keeps rdx.
fn load(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, word_at(HOME))?;
    a.add_instruction(Instruction::with2(Code::Mov_rm64_r64, fixed(TCB_R15), Register::RAX)?)?;
    for (number, register) in (0..).zip(REGISTERS) {
        a.mov(register, word_at(word(number)))?;
    }
    a.mov(esi, half_at(SLOT))?;
    a.xor(eax, eax)
}

/// `void makecontext(ucontext_t *, void (*)(void), int, ...)`
fn make(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut free, mut place, mut copy) = (a.create_label(), a.create_label(), a.create_label());
    for (number, register) in (0..).zip([rcx, r8, r9]) {
        a.mov(word_at(ARGUMENTS + 8 * number), register)?;
    }
    // The context needs no place any more.
    a.db(&LEA_TABLE)?;
    a.mov(eax, half_at(PLACE))?;
    a.cmp(eax, PLACES)?;
    a.jae(free)?;
    a.cmp(entry(eax), edi)?;
    a.jne(free)?;
    a.mov(entry(eax), 0)?;
    a.set_label(&mut free)?;
    a.mov(half_at(KIND), MADE)?;
    a.mov(word_at(FUNCTION), rsi)?;
    // The stack, with room for the arguments from the seventh on.
    a.mov(rax, word_at(STACK))?;
    a.add(rax, word_at(STACK_SIZE))?;
    a.and(rax, -16)?;
    a.cmp(edx, 3)?;
    a.jle(place)?;
    for number in 3..6 {
        a.mov(rsi, qword_ptr(r15d + 8 * (number - 3)).gs())?;
        a.mov(word_at(ARGUMENTS + 8 * number), rsi)?;
    }
    a.sub(edx, 6)?;
    a.jle(place)?;
    a.lea(esi, dword_ptr(rdx * 8 + 8))?;
    a.and(esi, -16)?;
    a.sub(rax, rsi)?;
    a.set_label(&mut copy)?;
    a.mov(rsi, qword_ptr(r15d + edx * 8 + 16).gs())?;
    a.mov(qword_ptr(eax + edx * 8 - 8).gs(), rsi)?;
    a.sub(edx, 1)?;
    a.jne(copy)?;
    a.set_label(&mut place)?;
    a.mov(word_at(SP), rax)?;
    a.mov(word_at(word(0)), rdi)?;
    a.xor(eax, eax)?;
    for number in 1..5 {
        a.mov(word_at(word(number)), rax)?;
    }
    a.mov(word_at(HOME), rax)?;
    a.db(&LEA_START.0)?;
    a.mov(half_at(SLOT), edx)?;
    a.ret()
}

/// Calls the function of the context at rbx, and goes on with the next context.
fn start(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut last = a.create_label();
    for (number, register) in (0..).zip([rdi, rsi, rdx, rcx, r8, r9]) {
        a.mov(register, qword_ptr(ebx + (ARGUMENTS + 8 * number)).gs())?;
    }
    a.mov(r10, qword_ptr(ebx + FUNCTION).gs())?;
    a.xor(eax, eax)?;
    // and $0xffff8,%r10d ; call *%gs:__sfi_dispatch(%r10d)
    a.and(r10d, DISPATCH_MASK as i32)?;
    let displacement = DISPATCH.symbolic() as i64;
    let slot = MemoryOperand::new(Register::R10D, Register::None, 1, displacement, 4, false, Register::GS);
    a.add_instruction(Instruction::with1(Code::Call_rm64, slot)?)?;
    a.mov(rdi, qword_ptr(ebx + LINK).gs())?;
    a.test(rdi, rdi)?;
    a.je(last)?;
    jump_external(a)?;
    a.set_label(&mut last)?;
    a.xor(eax, eax)?;
    a.ret()
}
