//! Requests of the support code in a domain to the arbiter that are no system calls, and the frame
//! in the domain's memory that a signal's handler gets. Both sides belong to the domain: the
//! arbiter trusts nothing that it finds there.

/// Word of every request, after number and arguments. The arbiter writes 0, [`WAITING`] or
/// [`AGAIN`]. If it is not 0, the support code calls the handlers of waiting signals.
pub const MARK: u64 = 56;
/// [`MARK`]: signals wait.
pub const WAITING: u64 = 1;
/// [`MARK`]: signals wait, and the call is to be made again afterwards.
pub const AGAIN: u64 = 2;

/// Asks for the next signal: the handler to call, or 0.
pub const NEXT: i64 = 1 << 32;
/// A fault's signal: the handler to call, or 0. Arguments: signal, code, address, data stack
/// pointer.
pub const FAULTED: i64 = NEXT + 1;
/// A fault's handler returned.
pub const RETURNED: i64 = NEXT + 2;
/// `clone`: starts a thread. Arguments: the flags in the upper half and the function's pointer in
/// the lower one, the stack, the word that is cleared at the thread's end, the function's argument,
/// the word that gets the thread's number, the thread pointer.
pub const SPAWN: i64 = NEXT + 3;
/// The calling thread ends, after an `munmap` of its own stack. Arguments: address, length.
pub const LEAVE: i64 = NEXT + 4;
/// `posix_spawn`: starts a program. Arguments: path, musl's file actions, musl's attributes,
/// arguments, environment, and whether the path is a name to search for. The answer is the
/// program's number.
pub const EXECUTE: i64 = NEXT + 5;
/// `rt_sigreturn`: a handler returned. Argument: the mask of before.
pub const SIGRETURN: i64 = 15;

/// Bytes of a frame, from the request on.
pub const FRAME_SIZE: u64 = 1152;
/// The signal mask of before: the argument of [`SIGRETURN`].
pub const FRAME_MASK: u64 = 8;
/// The signal's number.
pub const FRAME_SIGNAL: u64 = 16;
/// Answer of [`FAULTED`]: the address of the handler's frame.
pub const FRAME_STACK: u64 = 40;
/// `siginfo_t`.
pub const FRAME_INFO: u64 = 64;
/// `ucontext_t`: zeros but for the mask.
pub const FRAME_CONTEXT: u64 = 192;
/// The place in it where the thread goes on. If a handler writes a function there, that function is
/// called and must not return. The interrupted code goes on no more.
pub const FRAME_CONTEXT_RIP: u64 = FRAME_CONTEXT + 168;
/// The mask in it.
pub const FRAME_CONTEXT_MASK: u64 = FRAME_CONTEXT + 296;
/// The end of [`FRAME_CONTEXT`].
pub const FRAME_END: u64 = FRAME_CONTEXT + 936;

const _: () = assert!(FRAME_END + 8 <= FRAME_SIZE);
