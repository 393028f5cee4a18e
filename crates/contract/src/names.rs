//! Names that the loader defines or that the parts agree on.

/// Symbol: the header page ([`crate::layout::HEADER_OFFSET`]), read-only data for the domain.
pub const HEADER: &str = "__sfi_header";
/// Symbol: `int` in the TCB ([`crate::layout::TCB_ERROR`]) that a failed crossing sets to a
/// nonzero error code, like `errno`. The domain clears it itself.
pub const ERROR: &str = "__sfi_error";
/// Function: the arbitration gateway that replaces `syscall`. It takes its arguments in the registers of the Linux
/// system call convention (rax = number; rdi, rsi, rdx, r10, r8, r9) and changes rax, rcx and r11 only.
pub const SYSCALL: &str = "__sfi_syscall";
/// Host function that the support code behind [`SYSCALL`] calls with a pointer to number and arguments.
pub const ARBITRATE: &str = "__sfi_arbitrate";
/// Prefix of local symbols that the rewriter adds for code labels.
pub const LABEL_PREFIX: &str = ".Lsfi";
/// Name of the note section.
pub const NOTE_SECTION: &str = ".note.sfi";
/// Owner name inside the note section.
pub const NOTE_OWNER: &[u8] = b"sfi\0";
