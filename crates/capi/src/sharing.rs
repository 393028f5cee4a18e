//! Threads that wait for a world, instead of being turned away.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The order in which threads get a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Any order: a thread that comes may go before those that wait.
    Any,
    /// First come, first served.
    Queue,
}

/// The threads that wait for one world.
#[derive(Debug)]
pub(crate) struct Turns {
    order: Order,
    /// Threads that wait, for `Order::Any`.
    waiting: AtomicUsize,
    /// The numbers of the next thread that comes, and of the one whose turn it is.
    numbers: Mutex<(u64, u64)>,
    changed: Condvar,
}

/// Tries of a thread before it sleeps. Calls are often shorter than a switch of threads.
const TRIES: u32 = 100;

impl Turns {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, waiting: AtomicUsize::new(0), numbers: Mutex::new((0, 0)), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, u64)> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is this thread's turn and `take` succeeds.
    pub(crate) fn wait(&self, take: impl Fn() -> bool) {
        match self.order {
            Order::Any => self.wait_for_any(take),
            Order::Queue => self.queue(take),
        }
    }

    fn wait_for_any(&self, take: impl Fn() -> bool) {
        for _ in 0..TRIES {
            if take() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut held = self.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // The thread that leaves frees the world and then looks for others. This thread counts
        // itself and then looks at the world. So one of them sees the other.
        fence(Ordering::SeqCst);
        while !take() {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn queue(&self, take: impl Fn() -> bool) {
        let mut held = self.lock();
        let number = held.0;
        held.0 += 1;
        while held.1 != number {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        // The one before freed the world before it passed the turn on.
        while !take() {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees the world with `free`, and wakes the threads that wait.
    pub(crate) fn pass(&self, free: impl FnOnce()) {
        match self.order {
            Order::Any => {
                free();
                fence(Ordering::SeqCst);
                if self.waiting.load(Ordering::SeqCst) > 0 {
                    drop(self.lock());
                    self.changed.notify_one();
                }
            }
            Order::Queue => {
                let mut held = self.lock();
                free();
                held.1 += 1;
                drop(held);
                self.changed.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Threads that came one after the other, while the world was in use, get it in this order.
    #[test]
    fn a_queue_serves_who_came_first() {
        const THREADS: u64 = 16;
        let (turns, used, served) = (Turns::new(Order::Queue), AtomicBool::new(false), Mutex::new(Vec::new()));
        let take = || used.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        turns.wait(take);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (turns, used, served) = (&turns, &used, &served);
                scope.spawn(move || {
                    turns.wait(take);
                    served.lock().unwrap().push(thread);
                    turns.pass(|| used.store(false, Ordering::SeqCst));
                });
                // The first number is of this test itself.
                while turns.lock().0 < thread + 2 {
                    std::thread::yield_now();
                }
            }
            assert!(served.lock().unwrap().is_empty());
            turns.pass(|| used.store(false, Ordering::SeqCst));
        });
        assert_eq!(served.into_inner().unwrap(), (0..THREADS).collect::<Vec<_>>());
    }
}
