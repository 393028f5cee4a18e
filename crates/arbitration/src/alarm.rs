//! The timer of a domain (`alarm`, `setitimer`). A thread of the host waits for its end and lets
//! the domain know, which waits or computes.

use sfi_loader::start_helper;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of the waiting thread's stack.
const STACK: usize = 64 << 10;

/// The timer. Dropping it ends the thread.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The end of the timer, if nobody was told of it yet.
    end: Option<Instant>,
    /// The end that was set last, so that the same one is not told twice.
    last: Option<Instant>,
    started: bool,
    over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for ends until the alarm is dropped, and passes them on.
    fn run(&self, tell: impl Fn()) {
        let mut state = self.lock();
        while !state.over {
            let left = state.end.map(|end| end.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => {
                    state.end = None;
                    drop(state);
                    tell();
                    self.lock()
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl Alarm {
    /// Sets the end, or none. The first one starts the thread, which calls the function that `tell`
    /// gives at each end. If it does not start, threads see the end at their calls.
    pub(crate) fn set<T: Fn() + Send + 'static>(&self, end: Option<Instant>, tell: impl FnOnce() -> T) {
        let mut state = self.0.lock();
        if state.last == end {
            return;
        }
        (state.end, state.last) = (end, end);
        if !state.started {
            let (shared, tell) = (Arc::clone(&self.0), tell());
            let builder = std::thread::Builder::new().name("sfi-timer".into()).stack_size(STACK);
            state.started = start_helper(builder, move || shared.run(tell)).is_ok();
        }
        self.0.changed.notify_one();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_one();
    }
}
