//! Memory that runs out: the kernel refuses one system call of the loader.
//!
//! A seccomp filter of the calling thread traps the calls by which the loader gets memory, if its
//! own code makes them. The C library's calls pass, because Rust ends the process when its
//! allocator fails. The signal's handler makes each call in the place of the code, but the one
//! whose turn it is.

use libc::{c_int, c_long, c_void, sock_filter};
use std::sync::atomic::{AtomicI64, Ordering};

/// The calls that may fail for want of memory.
const CALLS: [c_long; 5] =
    [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_memfd_create, libc::SYS_ftruncate];

/// Calls until one fails.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

/// Makes this thread's calls fail when [`failing`] says so. It lasts as long as the thread.
pub fn prepare() {
    let text = text();
    assert_eq!(text.start >> 32, (text.end - 1) >> 32, "the program's text crosses a border of 4 GiB");
    let instruction = |code: u32, jt: u8, jf: u8, k: u64| sock_filter { code: code as u16, jt, jf, k: k as u32 };
    let load = |offset: u64| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let give = |what: u32| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, what.into());
    let equal = |k: u64, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, k);
    let least = |k: u64, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, jt, jf, k);
    // The number of the call, then the upper and the lower half of the code's address.
    let mut filter = vec![load(0)];
    for (i, call) in CALLS.iter().enumerate() {
        filter.push(equal(*call as u64, (CALLS.len() - i) as u8, 0));
    }
    filter.push(give(libc::SECCOMP_RET_ALLOW));
    filter.extend([load(12), equal(text.start >> 32, 0, 3)]);
    filter.extend([load(8), least(text.start & 0xffff_ffff, 0, 1), least(text.end & 0xffff_ffff, 0, 1)]);
    filter.extend([give(libc::SECCOMP_RET_ALLOW), give(libc::SECCOMP_RET_TRAP)]);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: valid structures. The filter is for this thread only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trapped as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program), 0, "no seccomp");
    }
}

/// Does something while the call of this number fails, from 0. Says also whether it came to that.
pub fn failing<R>(number: i64, what: impl FnOnce() -> R) -> (R, bool) {
    LEFT.store(number, Ordering::SeqCst);
    let result = what();
    (result, LEFT.swap(i64::MAX, Ordering::SeqCst) < 0)
}

/// Makes a call that the filter trapped, or refuses it.
extern "C" fn trapped(_: c_int, _: *mut libc::siginfo_t, machine: *mut c_void) {
    // SAFETY: the kernel passes the state before the call, with the arguments of a call that the
    // loader wanted.
    unsafe {
        let registers = &mut (*machine.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = |register: c_int| registers[register as usize];
        let [a, b, c] = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX].map(at);
        let [d, e, f] = [libc::REG_R10, libc::REG_R8, libc::REG_R9].map(at);
        let result = if LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            -c_long::from(libc::ENOMEM)
        } else {
            match libc::syscall(at(libc::REG_RAX), a, b, c, d, e, f) {
                -1 => -c_long::from(*libc::__errno_location()),
                result => result,
            }
        };
        registers[libc::REG_RAX as usize] = result;
    }
}

/// Returns the addresses of the program's own code.
fn text() -> std::ops::Range<u64> {
    let here = prepare as *const () as u64;
    let ranges = super::common::maps().into_iter().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    });
    ranges.into_iter().find(|range| range.contains(&here)).expect("this code is mapped")
}
