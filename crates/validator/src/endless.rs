//! Calls that do not return, and system calls that do not.
//!
//! The name of a function says that it never returns only if the object does not define it.

use crate::code::{Dest, Flow, Index, Old};
use iced_x86::{Code as Opcode, Mnemonic, Register};
use sfi_contract::names;
use sfi_elf::Place;

/// Says whether a call is of a function of another object that never returns.
pub(crate) fn calls(old: &Old<'_, '_>, call: Index) -> bool {
    let Flow::Call(Dest::Symbol(symbol)) = old.flow[call] else { return false };
    let symbol = &old.pair.old.symbols[symbol];
    symbol.place == Place::Undefined && names::never_returns(symbol.name)
}

/// Says whether a system call ends the thread or the program. `before`: the instruction before it.
pub(crate) fn exits(old: &Old<'_, '_>, before: Index, at: Index) -> bool {
    const EXIT: [u64; 2] = [60, 231];
    let ins = &old.text.insns[before].ins;
    old.text.insns[at].ins.mnemonic() == Mnemonic::Syscall
        && ins.code() == Opcode::Mov_r32_imm32
        && ins.op0_register() == Register::EAX
        && EXIT.contains(&ins.immediate(1))
}
