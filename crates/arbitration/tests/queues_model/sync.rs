//! The parts of the models: loom's locks, a word of memory in place of a domain's, and a mark in
//! place of an interruption. And mistakes that a model must notice.

pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
pub(crate) use std::sync::PoisonError;

use crate::errno::Errno;
use loom::sync::atomic::AtomicU32;
use std::cell::Cell;
use std::sync::LockResult;
use std::time::Duration;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// Nobody is woken.
    NoWake,
    /// A call's end interrupts its thread, or gives that up, after the queues are free again.
    LateWish,
    /// A call's end looks for signals before the mask that other threads know is the new one.
    StaleMask,
    /// The timer's signal is sent in the middle of a call's end.
    NoArbiter,
}

std::thread_local! {
    /// The mistake of the present model. loom runs all threads of a model on one thread.
    pub(crate) static BROKEN: Cell<Option<Breach>> = const { Cell::new(None) };
}

pub(crate) fn is(breach: Breach) -> bool {
    BROKEN.with(|broken| broken.get() == Some(breach))
}

/// A condition whose waits have no end, so that loom finds a wake that is lost.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait_timeout<'g, T>(
        &self,
        guard: MutexGuard<'g, T>,
        _: Duration,
    ) -> LockResult<(MutexGuard<'g, T>, ())> {
        Ok((self.0.wait(guard).unwrap(), ()))
    }

    pub(crate) fn notify_one(&self) {
        if !is(Breach::NoWake) {
            self.0.notify_one();
        }
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// The call of a thread, whose domain has one word.
#[derive(Clone, Debug)]
pub(crate) struct HostCall<'c> {
    pub word: &'c AtomicU32,
}

/// The memory of a domain.
pub(crate) struct Memory<'m>(&'m HostCall<'m>);

impl HostCall<'_> {
    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory(self)
    }

    pub(crate) fn is_over(&self) -> bool {
        false
    }
}

impl Memory<'_> {
    pub(crate) fn load(&self, _: u64) -> Result<u32, Errno> {
        Ok(self.0.word.load(Ordering::SeqCst))
    }
}

/// Says that a thread is to be interrupted while it computes.
#[derive(Clone, Debug)]
pub(crate) struct Stopper(pub Arc<AtomicBool>);

impl Stopper {
    pub(crate) fn interrupt(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
