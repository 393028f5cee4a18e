//! System calls: their numbers and how many arguments they take (Linux, `arch/x86/entry/syscalls`).
//!
//! The kernel does not look at the other argument registers. A function that makes system calls
//! itself may leave in them what a callee left there.

use crate::code::{Index, Old};
use crate::sets::{AllEffects, RAX, number as register};
use iced_x86::{Code as Opcode, Instruction, Mnemonic, OpKind};

/// The registers of arguments, in order.
pub(crate) const ARGUMENTS: [usize; 6] = [7, 6, 2, 10, 8, 9];

const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;
const FUTEX: u64 = 202;
/// FUTEX_WAKE, and FUTEX_WAKE_PRIVATE.
const WAKE: [u64; 2] = [1, 129];

/// System calls with fewer than six arguments: number and arguments.
const FEWER: [(u64, usize); 96] = [
    (0, 3),  // read
    (1, 3),  // write
    (2, 3),  // open
    (3, 1),  // close
    (4, 2),  // stat
    (5, 2),  // fstat
    (6, 2),  // lstat
    (7, 3),  // poll
    (8, 3),  // lseek
    (10, 3), // mprotect
    (11, 2), // munmap
    (12, 1), // brk
    (13, 4), // rt_sigaction
    (14, 4), // rt_sigprocmask
    (16, 3), // ioctl
    (17, 4), // pread64
    (18, 4), // pwrite64
    (19, 3), // readv
    (20, 3), // writev
    (21, 2), // access
    (22, 1), // pipe
    (23, 5), // select
    (24, 0), // sched_yield
    (25, 5), // mremap
    (26, 3), // msync
    (28, 3), // madvise
    (32, 1), // dup
    (33, 2), // dup2
    (34, 0), // pause
    (35, 2), // nanosleep
    (37, 1), // alarm
    (38, 3), // setitimer
    (39, 0), // getpid
    (40, 4), // sendfile
    (41, 3), // socket
    (42, 3), // connect
    (43, 3), // accept
    (46, 3), // sendmsg
    (47, 3), // recvmsg
    (48, 2), // shutdown
    (49, 3), // bind
    (50, 2), // listen
    (51, 3), // getsockname
    (52, 3), // getpeername
    (53, 4), // socketpair
    (54, 5), // setsockopt
    (55, 5), // getsockopt
    (57, 0), // fork
    (58, 0), // vfork
    (59, 3), // execve
    (EXIT, 1),
    (61, 4),  // wait4
    (62, 2),  // kill
    (63, 1),  // uname
    (73, 2),  // flock
    (74, 1),  // fsync
    (75, 1),  // fdatasync
    (77, 2),  // ftruncate
    (79, 2),  // getcwd
    (80, 1),  // chdir
    (81, 1),  // fchdir
    (82, 2),  // rename
    (83, 2),  // mkdir
    (84, 1),  // rmdir
    (86, 2),  // link
    (87, 1),  // unlink
    (88, 2),  // symlink
    (89, 3),  // readlink
    (90, 2),  // chmod
    (91, 2),  // fchmod
    (92, 3),  // chown
    (93, 3),  // fchown
    (95, 1),  // umask
    (96, 2),  // gettimeofday
    (97, 2),  // getrlimit
    (98, 2),  // getrusage
    (102, 0), // getuid
    (104, 0), // getgid
    (107, 0), // geteuid
    (108, 0), // getegid
    (110, 0), // getppid
    (131, 2), // sigaltstack
    (186, 0), // gettid
    (217, 3), // getdents64
    (228, 2), // clock_gettime
    (229, 2), // clock_getres
    (EXIT_GROUP, 1),
    (233, 4), // epoll_ctl
    (257, 4), // openat
    (258, 3), // mkdirat
    (262, 4), // newfstatat
    (263, 3), // unlinkat
    (267, 4), // readlinkat
    (291, 1), // epoll_create1
    (292, 3), // dup3
    (318, 3), // getrandom
];

/// Says whether a system call ends the thread or the program. `before`: the instruction before it.
pub(crate) fn exits(old: &Old<'_, '_>, before: Index, at: Index) -> bool {
    let call = old.text.insns[at].ins.mnemonic() == Mnemonic::Syscall;
    call && constant(&old.text.insns[before].ins, RAX).is_some_and(|number| [EXIT, EXIT_GROUP].contains(&number))
}

/// The straight line before a system call.
pub(crate) struct Line<'x, Before> {
    pub effects: &'x AllEffects,
    /// Returns the instruction before one, if control comes from nowhere else.
    pub before: Before,
}

impl<Before: Fn(Index) -> Option<Index>> Line<'_, Before> {
    /// Returns the registers of the arguments that a system call takes. They are all six if its
    /// number is not seen.
    pub(crate) fn arguments(&self, old: &Old<'_, '_>, at: Index) -> &'static [usize] {
        let taken = match self.constant(old, at, RAX) {
            Some(FUTEX) if self.constant(old, at, ARGUMENTS[1]).is_some_and(|what| WAKE.contains(&what)) => 3,
            Some(number) => FEWER.binary_search_by_key(&number, |call| call.0).map_or(6, |at| FEWER[at].1),
            None => 6,
        };
        &ARGUMENTS[..taken]
    }

    /// Returns the constant that a register has before an instruction, if it gets it in the line.
    fn constant(&self, old: &Old<'_, '_>, mut at: Index, which: usize) -> Option<u64> {
        loop {
            at = (self.before)(at)?;
            if self.effects[at].changes & 1 << which != 0 {
                return constant(&old.text.insns[at].ins, which);
            }
        }
    }
}

/// Returns the constant that an instruction puts into a register.
fn constant(ins: &Instruction, which: usize) -> Option<u64> {
    let into = ins.op_count() == 2 && ins.op0_kind() == OpKind::Register && register(ins.op0_register()) == Some(which);
    let same = || ins.op1_kind() == OpKind::Register && ins.op0_register() == ins.op1_register();
    match ins.code() {
        _ if !into => None,
        Opcode::Mov_r32_imm32 => Some(u64::from(ins.immediate32())),
        Opcode::Xor_r32_rm32 | Opcode::Xor_rm32_r32 if same() => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(FEWER.is_sorted_by(|a, b| a.0 < b.0 && a.1 < 6 && b.1 < 6));
    }
}
