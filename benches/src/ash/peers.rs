//! Applications in processes of their own, which answer messages themselves or for the engine.

use crate::fork::{self, Child, Shared};
use anyhow::Context;
use sfi_ash::native::NativeHandler;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

/// Processes that only compute.
pub(super) struct Busy(Vec<std::process::Child>);

impl Busy {
    /// Starts this many.
    pub(super) fn start(count: usize) -> anyhow::Result<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..count {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            all.0.push(shell.spawn().context("`sh` does not start")?);
        }
        Ok(all)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A child that is gone already needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Gives a process the priority and the processors of any other.
fn settle(ordinary: bool) {
    if ordinary {
        // A process that keeps its priority is measured as it is.
        let _ = fork::real_time(false);
        let _ = fork::unpin();
    }
}

/// Starts a process that answers increments on a UDP socket of the kernel, blocked or polling.
pub(super) fn serve(address: &str, polling: bool, ordinary: bool) -> anyhow::Result<Child> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(polling)?;
    let child = Child::start(move || {
        settle(ordinary);
        let (mut sum, mut data) = (0_u64, [0; 8]);
        loop {
            if let Ok((8, from)) = socket.recv_from(&mut data) {
                sum = sum.wrapping_add(u64::from_le_bytes(data));
                let _ = socket.send_to(&sum.to_le_bytes(), from);
            }
        }
    });
    child.context("no process")
}

/// Starts a process that handles messages for the engine, woken by a futex, and returns the handler
/// that asks it.
pub(super) fn upcall(ordinary: bool) -> anyhow::Result<(Child, NativeHandler)> {
    let shared = Shared::new()?;
    // The child has a copy of the address space, in which the words are the same memory.
    let words = shared.words();
    let child = Child::start(|| {
        settle(ordinary);
        let (mut sum, mut last) = (0_u64, 0);
        loop {
            fork::wait_while(&words.request, last);
            last = words.request.load(Ordering::Acquire);
            sum = sum.wrapping_add(words.value.load(Ordering::Relaxed));
            words.value.store(sum, Ordering::Relaxed);
            words.answer.store(last, Ordering::Release);
            fork::wake(&words.answer);
        }
    });
    let child = child.context("no process")?;
    let handler = Box::new(move |call: &mut sfi_ash::native::NativeCall<'_>| {
        let mut data = [0; 8];
        let at = call.head().payload();
        if call.head().length() - at != 8 || call.read(at, &mut data).is_err() {
            return false;
        }
        let words = shared.words();
        words.value.store(u64::from_le_bytes(data), Ordering::Relaxed);
        let before = words.answer.load(Ordering::Relaxed);
        words.request.store(before.wrapping_add(1), Ordering::Release);
        fork::wake(&words.request);
        fork::wait_while(&words.answer, before);
        call.reply(&words.value.load(Ordering::Relaxed).to_le_bytes())
    });
    Ok((child, handler))
}
