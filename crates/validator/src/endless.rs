//! Calls that do not return.

use crate::code::{Dest, Flow, Index, Old};
use iced_x86::{Code as Opcode, Mnemonic, Register};

/// Says whether a call is of a function that is known not to return.
pub(crate) fn calls(old: &Old<'_, '_>, call: Index) -> bool {
    const NAMES: [&str; 14] = [
        "abort",
        "exit",
        "_exit",
        "_Exit",
        "__assert_fail",
        "__stack_chk_fail",
        "__chk_fail",
        "longjmp",
        "siglongjmp",
        "_Unwind_Resume",
        "__cxa_throw",
        "__cxa_rethrow",
        "__cxa_throw_bad_array_new_length",
        "_ZSt9terminatev",
    ];
    match old.flow[call] {
        Flow::Call(Dest::Symbol(symbol)) => {
            let name = old.pair.old.symbols[symbol].name;
            NAMES.contains(&name) || name.contains("__throw_") || name.starts_with("__gnat_rcheck_")
        }
        _ => false,
    }
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
