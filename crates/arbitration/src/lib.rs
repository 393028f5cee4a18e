//! Arbitration: what becomes of a domain's system calls (Wahbe et al. section 3.3).
//!
//! A domain cannot execute `syscall`; rewritten code calls the gateway `__sfi_syscall` instead, whose support code in the domain
//! passes number and arguments to the host function [`GATEWAY`]. The [`Arbiter`] answers from its own records where it can, and reaches the
//! kernel only with descriptors and paths of its own: no pointer, descriptor or path of a domain is ever passed on. Every
//! argument is copied in before it is looked at, because a shared region may change meanwhile.
//!
//! What is not granted fails with `ENOSYS` or `EPERM` ([`Policy`]), and is counted.

#![forbid(unsafe_code)]

mod clock;
mod descriptors;
mod errno;
mod files;
mod heap;
mod paths;
mod policy;
mod start;
mod transfer;

pub use descriptors::Stdio;
pub use paths::Preopen;
pub use policy::{Denial, Policy};
pub use start::{ARGUMENT_BYTES, Program, arguments, random_bytes};

use descriptors::Descriptors;
use errno::Errno;
use heap::Heap;
use sfi_loader::{HostCall, HostError};
use std::collections::BTreeMap;

/// Name of the host function that the support code calls with a pointer to a [`Request`].
pub const GATEWAY: &str = sfi_contract::names::ARBITRATE;

/// A domain asked to end. The host function raises it as a panic payload (`resume_unwind`), which the embedding catches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

/// A system call: number and six arguments, as the support code stores them (seven words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the call (x86-64 table).
    pub number: i64,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub args: [u64; 6],
}

impl Request {
    /// Size in memory.
    pub const SIZE: usize = 56;

    fn parse(bytes: &[u8]) -> Option<Request> {
        let mut words = bytes.chunks_exact(8).map(|w| w.try_into().map(u64::from_le_bytes).unwrap_or(0));
        let number = words.next()? as i64;
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = words.next()?;
        }
        Some(Request { number, args })
    }
}

/// The arbitration code of one domain.
#[derive(Debug)]
pub struct Arbiter {
    policy: Policy,
    descriptors: Descriptors,
    /// Made at the first call: the domain's header says where its heap is.
    heap: Option<Heap>,
    refused: BTreeMap<i64, u64>,
}

impl Arbiter {
    /// An arbiter that grants what a policy says; descriptors 0 to 2 are `stdio`.
    pub fn new(policy: Policy, stdio: Stdio) -> Self {
        Arbiter { policy, descriptors: Descriptors::new(stdio), heap: None, refused: BTreeMap::new() }
    }

    /// How often each system call was refused, by number.
    pub fn refused(&self) -> &BTreeMap<i64, u64> {
        &self.refused
    }

    /// Answers one call: the host function behind [`GATEWAY`].
    ///
    /// # Errors
    /// The request itself is not readable memory of the domain.
    pub fn host_call(&mut self, cx: &mut HostCall<'_>) -> Result<u64, HostError> {
        let bytes = cx.read(cx.arg(0), Request::SIZE)?;
        let Some(request) = Request::parse(&bytes) else { return Err(HostError::new("short request")) };
        if self.heap.is_none() {
            self.heap = Some(Heap::of(cx)?);
        }
        let answer = self.answer(cx, &request);
        tracing::trace!(number = request.number, ?answer, "system call");
        Ok(match answer {
            Ok(value) => value,
            Err(Errno(code)) => -i64::from(code) as u64,
        })
    }

    fn answer(&mut self, cx: &mut HostCall<'_>, request: &Request) -> Result<u64, Errno> {
        let [a, b, c, d, ..] = request.args;
        let Some(heap) = self.heap.as_mut() else { return Err(Errno::NOSYS) };
        let files = &mut self.descriptors;
        match request.number {
            libc::SYS_read => transfer::read(cx, files, a, &[(b, c)]),
            libc::SYS_readv => transfer::read(cx, files, a, &transfer::vector(cx, b, c)?),
            libc::SYS_pread64 => transfer::pread(cx, files, a, (b, c), d),
            libc::SYS_write => transfer::write(cx, files, a, &[(b, c)]),
            libc::SYS_writev => transfer::write(cx, files, a, &transfer::vector(cx, b, c)?),
            libc::SYS_pwrite64 => transfer::pwrite(cx, files, a, (b, c), d),
            libc::SYS_lseek => files::seek(files, a, b, c),
            libc::SYS_close => files.close(a),
            libc::SYS_dup => files.duplicate(a),
            libc::SYS_fcntl => files.control(a, b, c),
            libc::SYS_ioctl => files.get(a).and(Err(Errno::NOTTY)),
            libc::SYS_open => files::open(cx, &self.policy, files, a, b, c),
            libc::SYS_openat => files::open_at(cx, &self.policy, files, a, b, (c, d)),
            libc::SYS_stat | libc::SYS_lstat => files::stat(cx, &self.policy, a, b, request.number == libc::SYS_stat),
            libc::SYS_newfstatat => files::stat_at(cx, &self.policy, files, a, b, (c, d)),
            libc::SYS_fstat => files::fstat(cx, files, a, b),
            libc::SYS_ftruncate => files::truncate(files, a, b),
            libc::SYS_fsync | libc::SYS_fdatasync => files::sync(files, a),
            libc::SYS_access => files::access(cx, &self.policy, a, b),
            libc::SYS_faccessat => files::access_at(cx, &self.policy, a, b, c),
            libc::SYS_unlink => files::unlink(cx, &self.policy, a, false),
            libc::SYS_rmdir => files::unlink(cx, &self.policy, a, true),
            libc::SYS_mkdir => files::mkdir(cx, &self.policy, a, b),
            libc::SYS_rename => files::rename(cx, &self.policy, a, b),
            libc::SYS_readlink => Err(Errno::INVAL),
            libc::SYS_getcwd => files::getcwd(cx, a, b),
            libc::SYS_brk => heap.brk(cx, a),
            libc::SYS_mmap => heap.map(cx, files, &request.args),
            libc::SYS_munmap => heap.unmap(a, b),
            libc::SYS_mprotect => heap.protect(a, b, c),
            libc::SYS_madvise => heap.check(a, b).map(|()| 0),
            libc::SYS_mremap => Err(Errno::NOMEM),
            libc::SYS_clock_gettime => clock::get(cx, a, b),
            libc::SYS_clock_getres => clock::resolution(cx, b),
            libc::SYS_gettimeofday => clock::time_of_day(cx, a),
            libc::SYS_time => clock::seconds(cx, a),
            libc::SYS_nanosleep => clock::sleep(cx, a),
            libc::SYS_clock_nanosleep => clock::sleep(cx, c),
            libc::SYS_getrandom => transfer::random(cx, a, b),
            libc::SYS_exit | libc::SYS_exit_group => std::panic::resume_unwind(Box::new(Exit(a as i32))),
            // One thread, alone in its world.
            libc::SYS_getpid | libc::SYS_gettid | libc::SYS_set_tid_address => Ok(1),
            libc::SYS_getppid | libc::SYS_getuid | libc::SYS_geteuid | libc::SYS_getgid | libc::SYS_getegid => Ok(0),
            libc::SYS_sched_yield | libc::SYS_rt_sigprocmask | libc::SYS_rt_sigaction | libc::SYS_sigaltstack => Ok(0),
            libc::SYS_tkill | libc::SYS_kill | libc::SYS_tgkill => {
                let signal = if request.number == libc::SYS_tgkill { c } else { b };
                std::panic::resume_unwind(Box::new(Exit(128 + (signal & 0x7f) as i32)))
            }
            libc::SYS_arch_prctl => start::set_thread_pointer(a, b),
            number => {
                *self.refused.entry(number).or_default() += 1;
                tracing::debug!(number, "system call refused");
                Err(self.policy.denial.errno())
            }
        }
    }
}

/// Reads a little-endian word out of a domain.
fn word(cx: &HostCall<'_>, pointer: u64) -> Result<u64, Errno> {
    let bytes = cx.read(pointer, 8)?;
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Errno::FAULT)
}
