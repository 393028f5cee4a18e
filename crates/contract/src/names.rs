//! Names that the loader defines, or that several parts use.

/// Symbol: the header page ([`crate::layout::HEADER`]), read-only data for the domain.
pub const HEADER: &str = "__sfi_header";
/// Symbol: the block of the dispatch table ([`crate::layout::DISPATCH`]).
pub const DISPATCH: &str = "__sfi_dispatch";
/// Symbol: the TCB page ([`crate::layout::TCB`]).
pub const TCB: &str = "__sfi_tcb";
/// Symbol: `int` in the TCB ([`crate::layout::TCB_ERROR`]) that a failed crossing sets to a
/// nonzero error code, like `errno`. The domain clears it itself.
pub const ERROR: &str = "__sfi_error";
/// Symbol: `const long *` in the TCB ([`crate::layout::TCB_CLIENT_STACK`]). When an import that
/// trusts the domain calls it, an image that names this symbol finds its stack arguments through
/// it, on the client's data stack. Nothing is copied. The pointer is valid until the next crossing.
pub const CLIENT_STACK: &str = "__sfi_client_stack";
/// Function: the arbitration gateway that replaces `syscall`. It takes its arguments in the
/// registers of the Linux system call convention (rax = number; rdi, rsi, rdx, r10, r8, r9) and
/// changes rax, rcx and r11 only.
pub const SYSCALL: &str = "__sfi_syscall";
/// Function: returns the number of the domain's own words on the control stack, since the frame
/// that entered the domain: return addresses and saved registers. The return address of this call
/// counts too. Changes rax, r10 and r11 only.
pub const DEPTH: &str = "__sfi_depth";
/// Function: returns the word number `rdi` of those that [`DEPTH`] counts, from the outermost, 0.
/// Faults if there is none. Changes rax, r10 and r11 only.
pub const RETURN: &str = "__sfi_return";
/// Function: drops words until `rdi` are left, and jumps to the dispatch slot `rsi`, masked like
/// the pointer of any indirect branch. Faults if fewer are there, or if the innermost that is left
/// is a saved register. Changes rdi, rsi, r10 and r11 only.
pub const CUT: &str = "__sfi_cut";
/// Function: keeps a copy of the words that [`DEPTH`] counts, but for the return address of this
/// call, in place number `rdi` of the intermediary. Faults if the domain has no such place, if they
/// are too many for one, or if registers are saved where it is called. Changes rcx, rdi, rsi, r10
/// and r11 only.
pub const KEEP: &str = "__sfi_keep";
/// Function: replaces the words that [`DEPTH`] counts by those of place number `rdi`,
/// which is empty until [`KEEP`] fills it, and jumps to the dispatch slot `rsi`, masked like the
/// pointer of any indirect branch. Faults if the domain has no such place, or if the control stack
/// has no room. Changes rcx, rdi, rsi, r10 and r11 only.
pub const BRING: &str = "__sfi_bring";
/// Host function that the support code of [`SYSCALL`] calls with a pointer to number and arguments.
pub const ARBITRATE: &str = "__sfi_arbitrate";
/// Function of the support code: where a domain goes on that faulted and handles the fault's
/// signal itself.
pub const FAULT: &str = "__sfi_fault";
/// Function of the support code: calls the handlers of waiting signals. An interrupted thread goes
/// on there.
pub const HANDLERS: &str = "__sfi_handlers";
/// Section of unwind tables. They are data for the unwinder in the domain, which finds them between
/// `__start_` and `__stop_` followed by this name.
pub const UNWIND_SECTION: &str = "sfi_unwind";
/// Section of arrays of dispatch slots. Each of its words has a relocation to a place in text of
/// its object, and becomes a slot of the dispatch table. So a switch jumps by its index alone.
pub const SLOTS_SECTION: &str = ".sfi.slots";
/// Functions that return a second time. The second return goes to the place after their call. The
/// rewriter passes the dispatch slot of this place in r11.
pub const RETURNS_TWICE: [&str; 5] = ["setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp"];
/// Functions of the C library and of the run-time library of C++ that never return. A name says so
/// only for a symbol that its object does not define.
pub const NEVER_RETURN: [&str; 14] = [
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
/// Prefix of the functions of GNAT that raise an exception.
pub const RAISES: &str = "__gnat_rcheck_";
/// Beginning of the last part of the names of C++ functions that only throw.
pub const THROWS: &str = "__throw_";
/// Prefix of local symbols that the rewriter adds for code labels.
pub const LABEL_PREFIX: &str = ".Lsfi";
/// Name of the note section.
pub const NOTE_SECTION: &str = ".note.sfi";
/// Name of the owner in the note section.
pub const NOTE_OWNER: &[u8] = b"sfi\0";

/// Says whether an undefined symbol of this name is a function that never returns.
pub fn never_returns(name: &str) -> bool {
    // _ZSt20__throw_length_errorPKc: the length of a part of the name precedes it.
    let throws = |at: usize| name.as_bytes()[..at].last().is_some_and(u8::is_ascii_digit);
    NEVER_RETURN.contains(&name)
        || name.starts_with(RAISES)
        || (name.starts_with("_Z") && name.find(THROWS).is_some_and(throws))
}
