//! The atomics of the models, with loom's parts, and mistakes that a model must notice.

pub(crate) use loom::sync::atomic::Ordering;

use loom::sync::atomic::fence;
use loom::sync::{Condvar, Mutex};
use std::cell::Cell;
use std::time::Duration;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// `membarrier` does nothing: no other thread executes a fence.
    NoBarrier,
    /// Nobody is woken.
    NoWake,
    /// A lane sleeps without noting what it waits for.
    SilentWait,
}

loom::lazy_static! {
    /// The threads that sleep. Every wake wakes all, as a futex may.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

std::thread_local! {
    /// The mistake of the present model. loom runs all threads of a model on one thread.
    pub(crate) static BROKEN: Cell<Option<Breach>> = const { Cell::new(None) };
}

fn is(breach: Breach) -> bool {
    BROKEN.with(|broken| broken.get() == Some(breach))
}

/// Defines an atomic. loom takes sequentially consistent accesses for weaker ones, so each has
/// fences, as the instructions of x86-64 have the effect of.
macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(if order == Ordering::SeqCst { Ordering::Acquire } else { order })
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                if order != Ordering::SeqCst {
                    return self.0.store(value, order);
                }
                self.0.store(value, Ordering::Release);
                fence(Ordering::SeqCst);
            }

            pub(crate) fn swap(&self, value: $value, _: Ordering) -> $value {
                let old = self.0.swap(value, Ordering::AcqRel);
                fence(Ordering::SeqCst);
                old
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicI32, i32);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

impl AtomicU32 {
    pub(crate) fn fetch_add(&self, value: u32, _: Ordering) -> u32 {
        let old = self.0.fetch_add(value, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        old
    }
}

pub(crate) fn compiler_fence(order: Ordering) {
    if !is(Breach::NoBarrier) {
        fence(order);
    }
}

pub(crate) fn prepare() -> std::io::Result<()> {
    Ok(())
}

pub(crate) fn barrier() {
    if !is(Breach::NoBarrier) {
        fence(Ordering::SeqCst);
    }
}

pub(crate) fn sleep(word: &AtomicU32, value: u32, _: Duration) {
    let (lock, changed) = &*SLEEPERS;
    let held = lock.lock().unwrap();
    if word.load(Ordering::SeqCst) == value {
        drop(changed.wait(held));
    }
}

pub(crate) fn wake(_: &AtomicU32) {
    let (lock, changed) = &*SLEEPERS;
    let held = lock.lock().unwrap();
    if !is(Breach::NoWake) {
        changed.notify_all();
    }
    drop(held);
}
