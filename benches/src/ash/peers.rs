//! Applications in processes of their own, which answer messages themselves or for the engine.

use crate::fork::{self, Child, Shared};
use anyhow::Context;
use sfi_ash::native::NativeHandler;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;

/// Processes that only compute.
pub(super) struct Busy(#[expect(dead_code, reason = "they end when they are dropped")] Vec<Child>);

impl Busy {
    /// Starts this many, with the priority and the processors of any other process.
    pub(super) fn start(count: usize) -> anyhow::Result<Self> {
        let start = || {
            Child::start(|| {
                settle(true);
                loop {
                    std::hint::spin_loop();
                }
            })
        };
        (0..count).map(|_| start().context("no process")).collect::<anyhow::Result<_>>().map(Self)
    }
}

/// Gives a new process the priority and the processors of any other, or the priority of the thread
/// that started it.
fn settle(ordinary: bool) {
    // A process that does not get them is measured as it is.
    let _ = if ordinary { fork::unpin() } else { fork::real_time(true) };
}

/// The way in which a process waits for its messages.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// It polls, and does not block.
    pub(super) polling: bool,
    /// It lets others run between two polls.
    pub(super) yields: bool,
    /// It has the priority of any other process.
    pub(super) ordinary: bool,
}

/// Starts a process that answers increments on a UDP socket of the kernel.
pub(super) fn serve(address: &str, how: How) -> anyhow::Result<Child> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(how.polling)?;
    let child = Child::start(move || {
        settle(how.ordinary);
        let (mut sum, mut data) = (0_u64, [0; 8]);
        loop {
            if let Ok((8, from)) = socket.recv_from(&mut data) {
                sum = sum.wrapping_add(u64::from_le_bytes(data));
                let _ = socket.send_to(&sum.to_le_bytes(), from);
            } else if how.yields {
                std::thread::yield_now();
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
