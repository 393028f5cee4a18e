//! The system calls that a domain may make: names, groups, and the set of a policy.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use syscalls::x86_64::Sysno;

/// The calls about sockets. All of them need the grant.
pub(crate) const SOCKETS: [i64; 14] = [
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
];

/// Groups of the calls that [`crate::Arbiter`] can answer.
const GROUPS: &[(&str, &[i64])] = &[
    (
        "io",
        &[
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_pread64,
            libc::SYS_preadv,
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_pwrite64,
            libc::SYS_pwritev,
            libc::SYS_lseek,
            libc::SYS_close,
            libc::SYS_dup,
            libc::SYS_dup2,
            libc::SYS_dup3,
            libc::SYS_pipe,
            libc::SYS_pipe2,
            libc::SYS_poll,
            libc::SYS_ppoll,
            libc::SYS_select,
            libc::SYS_pselect6,
            libc::SYS_fcntl,
            libc::SYS_ioctl,
            libc::SYS_fstat,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_ftruncate,
            libc::SYS_fadvise64,
        ],
    ),
    (
        "files",
        &[
            libc::SYS_open,
            libc::SYS_openat,
            libc::SYS_creat,
            libc::SYS_stat,
            libc::SYS_lstat,
            libc::SYS_newfstatat,
            libc::SYS_statx,
            libc::SYS_access,
            libc::SYS_faccessat,
            libc::SYS_faccessat2,
            libc::SYS_readlink,
            libc::SYS_readlinkat,
            libc::SYS_getdents64,
            libc::SYS_getcwd,
            libc::SYS_chdir,
            libc::SYS_fchdir,
        ],
    ),
    (
        "changes",
        &[
            libc::SYS_unlink,
            libc::SYS_unlinkat,
            libc::SYS_rmdir,
            libc::SYS_rename,
            libc::SYS_renameat,
            libc::SYS_renameat2,
            libc::SYS_mkdir,
            libc::SYS_mkdirat,
            libc::SYS_link,
            libc::SYS_linkat,
            libc::SYS_symlink,
            libc::SYS_symlinkat,
            libc::SYS_truncate,
            libc::SYS_chmod,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_chown,
            libc::SYS_lchown,
            libc::SYS_fchown,
            libc::SYS_fchownat,
            libc::SYS_utimensat,
        ],
    ),
    (
        "memory",
        &[libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise],
    ),
    (
        "time",
        &[
            libc::SYS_clock_gettime,
            libc::SYS_clock_getres,
            libc::SYS_gettimeofday,
            libc::SYS_time,
            libc::SYS_times,
            libc::SYS_getrusage,
            libc::SYS_nanosleep,
            libc::SYS_clock_nanosleep,
        ],
    ),
    ("random", &[libc::SYS_getrandom]),
    ("sockets", &SOCKETS),
    (
        "process",
        &[
            libc::SYS_getpid,
            libc::SYS_gettid,
            libc::SYS_getppid,
            libc::SYS_getpgrp,
            libc::SYS_getuid,
            libc::SYS_geteuid,
            libc::SYS_getgid,
            libc::SYS_getegid,
            libc::SYS_uname,
            libc::SYS_sysinfo,
            libc::SYS_getrlimit,
            libc::SYS_prlimit64,
            libc::SYS_umask,
            libc::SYS_set_tid_address,
            libc::SYS_clone,
            libc::SYS_set_robust_list,
            libc::SYS_get_robust_list,
            libc::SYS_futex,
            libc::SYS_sched_yield,
            libc::SYS_sched_getaffinity,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_rt_sigpending,
            libc::SYS_rt_sigsuspend,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_pause,
            libc::SYS_alarm,
            libc::SYS_setitimer,
            libc::SYS_getitimer,
            libc::SYS_sigaltstack,
            libc::SYS_kill,
            libc::SYS_fork,
            libc::SYS_vfork,
            libc::SYS_execve,
            libc::SYS_wait4,
            libc::SYS_tkill,
            libc::SYS_tgkill,
            libc::SYS_arch_prctl,
        ],
    ),
];

/// Calls that every policy grants: the end of a program, and the calls of a libc before `main`.
/// They reach only the domain's own records.
const ALWAYS: [i64; 9] = [
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_arch_prctl,
    libc::SYS_set_tid_address,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_futex,
];

fn known(number: i64) -> Option<Sysno> {
    usize::try_from(number).ok().and_then(Sysno::new)
}

/// Says whether the kernel has a call with this number.
pub(crate) fn is_known(number: i64) -> bool {
    known(number).is_some()
}

/// Returns the name of a call, or its number if it has none.
pub(crate) fn name(number: i64) -> String {
    known(number).map_or_else(|| number.to_string(), |call| call.name().to_owned())
}

/// A set of system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls(BTreeSet<i64>);

/// The error for a name that is neither a group nor a call that can be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCall {
    /// The kernel has no such call and there is no such group.
    #[error(
        "`{0}` is neither a system call nor a group (io, files, changes, memory, time, random, process, sockets, all)"
    )]
    Unknown(String),
    /// Arbitration never grants this call.
    #[error("`{0}` cannot be granted: arbitration has no answer for it")]
    Ungrantable(String),
}

impl Calls {
    /// Returns the calls of a libc's set-up and end.
    pub fn none() -> Calls {
        Calls(ALWAYS.into())
    }

    /// Returns all calls that the arbiter can answer.
    pub fn all() -> Calls {
        Calls(ALWAYS.into_iter().chain(GROUPS.iter().flat_map(|(_, calls)| calls.iter().copied())).collect())
    }

    /// Adds a call or a group by name.
    ///
    /// # Errors
    /// [`BadCall`].
    pub fn allow(mut self, name: &str) -> Result<Calls, BadCall> {
        self.0.extend(named(name)?);
        Ok(self)
    }

    /// Removes a call or a group. Set-up and end stay.
    ///
    /// # Errors
    /// [`BadCall`].
    pub fn deny(mut self, name: &str) -> Result<Calls, BadCall> {
        for call in named(name)?.into_iter().filter(|c| !ALWAYS.contains(c)) {
            self.0.remove(&call);
        }
        Ok(self)
    }

    /// Says whether a call is in the set.
    pub fn contains(&self, number: i64) -> bool {
        self.0.contains(&number)
    }
}

impl Default for Calls {
    fn default() -> Self {
        Calls::all()
    }
}

fn named(name: &str) -> Result<Vec<i64>, BadCall> {
    if name == "all" {
        return Ok(Calls::all().0.into_iter().collect());
    }
    if let Some((_, calls)) = GROUPS.iter().find(|(group, _)| *group == name) {
        return Ok(calls.to_vec());
    }
    let number = Sysno::from_str(name).map_err(|_| BadCall::Unknown(name.to_owned()))?.id() as i64;
    if Calls::all().contains(number) { Ok(vec![number]) } else { Err(BadCall::Ungrantable(name.to_owned())) }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|n| name(*n)).collect();
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_made_of_groups_and_names() {
        let calls = Calls::none().allow("time").unwrap().allow("write").unwrap().deny("nanosleep").unwrap();
        assert!(calls.contains(libc::SYS_clock_gettime) && calls.contains(libc::SYS_write));
        assert!(!calls.contains(libc::SYS_nanosleep) && !calls.contains(libc::SYS_read));
        assert!(Calls::all().deny("all").unwrap().contains(libc::SYS_exit_group));
        assert_eq!(Calls::none().allow("ptrace"), Err(BadCall::Ungrantable("ptrace".into())));
        assert_eq!(Calls::none().allow("nonsense"), Err(BadCall::Unknown("nonsense".into())));
        assert_eq!((name(59).as_str(), name(-1).as_str(), name(100_000).as_str()), ("execve", "-1", "100000"));
    }
}
