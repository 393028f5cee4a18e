//! The process that the domain sees: one thread, number 1, alone. The answers are constants and
//! records, and tell nothing about the host.

use crate::clock::Clock;
use crate::errno::Errno;
use rustix::process::Resource;
use sfi_loader::HostCall;

/// The domain's process and thread number.
pub(crate) const SELF: u64 = 1;

/// A domain's request to end.
///
/// For a whole program ([`crate::Arbiter::program`]) the host function raises it as a panic payload
/// (`resume_unwind`), which the embedding catches. Any other domain ends alone, and its callers get
/// a fault of the kind [`sfi_loader::FaultKind::Exit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

/// `uname`: writes six fields of 65 bytes.
pub(crate) fn uname(cx: &mut HostCall<'_>, out: u64) -> Result<u64, Errno> {
    let fields = ["Linux", "domain", "6.1.0", "#1", "x86_64", "(none)"];
    let mut bytes = Vec::new();
    for field in fields {
        let end = bytes.len() + 65;
        bytes.extend(field.as_bytes());
        bytes.resize(end, 0);
    }
    cx.write(out, &bytes)?;
    Ok(0)
}

/// `sysinfo`: reports the memory of the heap, one process, and 0 for all other fields.
pub(crate) fn sysinfo(cx: &mut HostCall<'_>, out: u64, (total, free): (u64, u64)) -> Result<u64, Errno> {
    // uptime, loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap, procs (u16)
    // and padding, totalhigh, freehigh, mem_unit
    let words = [0, 0, 0, 0, total, free, 0, 0, 0, 0, 1, 0, 0, 1];
    let bytes: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
    cx.write(out, &bytes)?;
    Ok(0)
}

/// `getrlimit` and `prlimit64`: writes the limit twice, as soft and as hard one. A new limit must
/// be the present one, as when a shell sets the size of core files to 0.
pub(crate) fn limit(
    cx: &mut HostCall<'_>,
    [resource, new, out]: [u64; 3],
    descriptors: usize,
    heap: u64,
) -> Result<u64, Errno> {
    /// Number of kinds of limits.
    const KINDS: u64 = 16;
    if resource >= KINDS {
        return Err(Errno::INVAL);
    }
    // C libraries declare the numbers with different types.
    let is = |kind: Resource| resource == kind as u64;
    let value = if is(Resource::Nofile) {
        descriptors as u64
    } else if is(Resource::Data) || is(Resource::As) {
        heap
    } else if is(Resource::Core) || is(Resource::Nproc) {
        0
    } else {
        u64::MAX
    };
    let limits = [value.to_le_bytes(), value.to_le_bytes()].concat();
    if new != 0 && cx.read(new, limits.len())? != limits {
        return Err(Errno::PERM);
    }
    if out != 0 {
        cx.write(out, &limits)?;
    }
    Ok(0)
}

/// `sched_getaffinity`: reports one processor.
pub(crate) fn affinity(cx: &mut HostCall<'_>, size: u64, out: u64) -> Result<u64, Errno> {
    if size < 8 {
        return Err(Errno::INVAL);
    }
    cx.write(out, &1u64.to_le_bytes())?;
    Ok(8)
}

/// `futex` in a program with one thread: a wake finds no waiter, and a wait ends only with its
/// time.
pub(crate) fn futex(cx: &HostCall<'_>, args: &[u64; 6], clock: &Clock) -> Result<u64, Errno> {
    let [address, operation, value, timeout, ..] = *args;
    match operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET | libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => Ok(0),
        libc::FUTEX_WAIT => {
            let now: [u8; 4] = cx.read(address, 4)?.try_into().map_err(|_| Errno::FAULT)?;
            if u32::from_le_bytes(now) != value as u32 {
                return Err(Errno::AGAIN);
            }
            if timeout == 0 {
                return Err(Errno(libc::EDEADLK));
            }
            clock.wait(cx, timeout)?;
            Err(Errno::TIMEDOUT)
        }
        _ => Err(Errno::NOSYS),
    }
}
