//! The process that a domain believes to be: one thread, number 1, alone. Constants and records;
//! nothing of the host.

use crate::clock::Clock;
use crate::errno::Errno;
use crate::words::word;
use sfi_loader::HostCall;

/// The domain's process and thread number.
pub(crate) const SELF: u64 = 1;
/// Signals, 1 to this.
const SIGNALS: u64 = 64;
/// Bytes of a signal set.
const SET: u64 = 8;

/// A domain asked to end. For a whole program ([`crate::Arbiter::program`]) the host function
/// raises it as a panic payload (`resume_unwind`), which the embedding catches. Any other domain
/// ends alone, with a fault of the kind [`sfi_loader::FaultKind::Exit`] for its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

/// Which signals the domain ignores.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    ignored: u64,
    mask: u64,
}

impl Signals {
    /// `rt_sigaction`: only whether a signal is ignored is remembered. No handler ever runs.
    pub(crate) fn action(&mut self, cx: &mut HostCall<'_>, args: &[u64; 6]) -> Result<u64, Errno> {
        let [signal, new, old, size, ..] = *args;
        let kills = signal as i32 == libc::SIGKILL || signal as i32 == libc::SIGSTOP;
        if signal == 0 || signal > SIGNALS || size != SET || new != 0 && kills {
            return Err(Errno::INVAL);
        }
        let bit = 1 << (signal - 1);
        let handler = if new == 0 { None } else { Some(word(cx, new)?) };
        if old != 0 {
            // struct kernel_sigaction: handler, flags, restorer, mask
            let mut bytes = [0; 32];
            bytes[0] = u8::from(self.ignored & bit != 0);
            cx.write(old, &bytes)?;
        }
        if let Some(handler) = handler {
            self.ignored = if handler == libc::SIG_IGN as u64 { self.ignored | bit } else { self.ignored & !bit };
        }
        Ok(0)
    }

    /// `rt_sigprocmask`: kept, without any meaning.
    pub(crate) fn mask(&mut self, cx: &mut HostCall<'_>, args: &[u64; 6]) -> Result<u64, Errno> {
        let [how, new, old, size, ..] = *args;
        if size != SET {
            return Err(Errno::INVAL);
        }
        let set = if new == 0 { None } else { Some(word(cx, new)?) };
        if old != 0 {
            cx.write(old, &self.mask.to_le_bytes())?;
        }
        if let Some(set) = set {
            self.mask = match how as i32 {
                libc::SIG_BLOCK => self.mask | set,
                libc::SIG_UNBLOCK => self.mask & !set,
                libc::SIG_SETMASK => set,
                _ => return Err(Errno::INVAL),
            };
        }
        Ok(0)
    }

    /// A signal to the domain itself does what it does by default, which may be to end it; others
    /// it cannot reach.
    pub(crate) fn send(&self, to: &[u64], signal: u64) -> Result<Option<Exit>, Errno> {
        if to.iter().any(|pid| *pid as u32 != SELF as u32) {
            return Err(Errno::SRCH);
        }
        let signal = signal as u32;
        if u64::from(signal) > SIGNALS {
            return Err(Errno::INVAL);
        }
        let harmless = [0, libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
        if harmless.contains(&(signal as i32)) || self.ignored & 1 << (signal - 1) != 0 {
            return Ok(None);
        }
        Ok(Some(Exit(128 + signal as i32)))
    }
}

/// `uname`: six fields of 65 bytes.
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

/// `sysinfo`: as much memory as the heap has, and nothing else.
pub(crate) fn sysinfo(cx: &mut HostCall<'_>, out: u64, (total, free): (u64, u64)) -> Result<u64, Errno> {
    // uptime, loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap, procs (u16)
    // and padding, totalhigh, freehigh, mem_unit
    let words = [0, 0, 0, 0, total, free, 0, 0, 0, 0, 1, 0, 0, 1];
    let bytes: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
    cx.write(out, &bytes)?;
    Ok(0)
}

/// `getrlimit`, and `prlimit64` without a new limit.
pub(crate) fn limit(
    cx: &mut HostCall<'_>,
    resource: u64,
    out: u64,
    descriptors: usize,
    heap: u64,
) -> Result<u64, Errno> {
    /// Kinds of limits there are.
    const KINDS: u64 = 16;
    if resource >= KINDS {
        return Err(Errno::INVAL);
    }
    let value = match resource as u32 {
        libc::RLIMIT_NOFILE => descriptors as u64,
        libc::RLIMIT_DATA | libc::RLIMIT_AS => heap,
        libc::RLIMIT_CORE | libc::RLIMIT_NPROC => 0,
        _ => u64::MAX,
    };
    if out != 0 {
        cx.write(out, &[value.to_le_bytes(), value.to_le_bytes()].concat())?;
    }
    Ok(0)
}

/// `sched_getaffinity`: one processor.
pub(crate) fn affinity(cx: &mut HostCall<'_>, size: u64, out: u64) -> Result<u64, Errno> {
    if size < 8 {
        return Err(Errno::INVAL);
    }
    cx.write(out, &1u64.to_le_bytes())?;
    Ok(8)
}

/// `futex` of a program with one thread: nobody waits, and nobody would wake.
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
            clock.sleep(cx, timeout)?;
            Err(Errno::TIMEDOUT)
        }
        _ => Err(Errno::NOSYS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_reach_only_the_domain_itself() {
        let mut signals = Signals::default();
        assert_eq!(signals.send(&[2], 9), Err(Errno::SRCH));
        assert_eq!(signals.send(&[u64::MAX], 9), Err(Errno::SRCH));
        assert_eq!(signals.send(&[1], 65), Err(Errno::INVAL));
        assert_eq!(signals.send(&[1, 1], 0), Ok(None));
        assert_eq!(signals.send(&[1], libc::SIGCHLD as u64), Ok(None));
        assert_eq!(signals.send(&[1], 15), Ok(Some(Exit(143))));
        signals.ignored = 1 << 14;
        assert_eq!(signals.send(&[1], 15), Ok(None));
    }
}
