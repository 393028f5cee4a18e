//! Waiting threads of a domain: `futex`, and sleeps that signals interrupt.
//!
//! The word of a futex is compared with the queues locked, and a wake locks them too. So no wake is
//! lost between the comparison and the wait. `tests/queues.rs` runs this file with other locks, in
//! every order of some threads.

use crate::errno::Errno;
use crate::sync::{Arc, AtomicBool, Condvar, HostCall, Mutex, MutexGuard, Ordering, PoisonError, Stopper};
use sfi_contract::layout::WINDOW_SIZE;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The longest time between two looks whether the call or the domain is over.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The waiting threads.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    inner: Mutex<Inner>,
    /// Set if the domain ends, so that nobody waits any more.
    over: AtomicBool,
    /// Set if a signal was sent and not taken. Most calls only look at this.
    sent: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    /// Threads by the window offset of the word that they wait for, the first to be woken first.
    queues: HashMap<u64, VecDeque<u64>>,
    sleepers: HashMap<u64, Sleeper>,
    /// Signals that were sent to a thread and that it has not seen.
    directed: HashMap<u64, u64>,
    /// Signals that were sent to the domain and that no thread has taken.
    common: u64,
    /// The threads that made a call.
    runners: BTreeMap<u64, Runner>,
}

/// A thread that a signal can interrupt while it runs the domain's code.
#[derive(Debug)]
struct Runner {
    /// The signals that it blocks.
    blocked: u64,
    stopper: Stopper,
}

#[derive(Debug)]
struct Sleeper {
    /// The word, unless the thread only sleeps.
    key: Option<u64>,
    /// The wakes that it waits for.
    bits: u32,
    /// The signals that do not end its wait.
    blocked: u64,
    state: Wakening,
    condition: Arc<Condvar>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakening {
    Waiting,
    Woken,
    Interrupted,
}

/// The reason and the end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// The thread that waits, and the signals that it blocks.
    pub thread: u64,
    pub blocked: u64,
    /// The word and the value that it must have.
    pub word: Option<(u64, u32)>,
    pub bits: u32,
    pub end: Option<Instant>,
}

fn key(address: u64) -> u64 {
    address % WINDOW_SIZE
}

impl Inner {
    /// Forgets a thread that waits no more.
    fn forget(&mut self, thread: u64) -> Option<Wakening> {
        let sleeper = self.sleepers.remove(&thread)?;
        if let Some(key) = sleeper.key.filter(|_| sleeper.state != Wakening::Woken) {
            self.leave(key, thread);
        }
        Some(sleeper.state)
    }

    fn leave(&mut self, key: u64, thread: u64) {
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.retain(|other| *other != thread);
            if queue.is_empty() {
                self.queues.remove(&key);
            }
        }
    }

    /// Marks at most `most` threads of a queue that wait for one of `bits` as woken. Returns their
    /// conditions, which are told once the queues are free.
    fn wake(&mut self, key: u64, most: u64, bits: u32) -> Vec<Arc<Condvar>> {
        let Some(queue) = self.queues.remove(&key) else { return Vec::new() };
        let (mut woken, mut rest) = (Vec::new(), VecDeque::new());
        for thread in queue {
            let Some(sleeper) = self.sleepers.get_mut(&thread) else { continue };
            if (woken.len() as u64) < most && sleeper.bits & bits != 0 && sleeper.state == Wakening::Waiting {
                sleeper.state = Wakening::Woken;
                woken.push(Arc::clone(&sleeper.condition));
            } else {
                rest.push_back(thread);
            }
        }
        if !rest.is_empty() {
            self.queues.insert(key, rest);
        }
        woken
    }

    fn is_interrupted(&self, thread: u64, blocked: u64) -> bool {
        (self.directed.get(&thread).unwrap_or(&0) | self.common) & !blocked != 0
    }

    /// Ends the wait of a thread for a signal that it does not block. Says whether it waited.
    fn interrupt(&mut self, thread: u64, signals: u64) -> bool {
        match self.sleepers.get_mut(&thread) {
            Some(sleeper) if sleeper.state == Wakening::Waiting && signals & !sleeper.blocked != 0 => {
                sleeper.state = Wakening::Interrupted;
                sleeper.condition.notify_one();
                true
            }
            _ => false,
        }
    }

    /// Makes one thread that does not block a signal of the domain take it: one that waits, or one
    /// that runs.
    fn offer(&mut self, signals: u64) {
        let all: Vec<u64> = self.runners.keys().copied().collect();
        if all.iter().any(|thread| self.interrupt(*thread, signals)) {
            return;
        }
        let open =
            |thread: &&u64| !self.sleepers.contains_key(*thread) && self.runners[*thread].blocked & signals != signals;
        if let Some(thread) = all.iter().find(open) {
            self.runners[thread].stopper.interrupt();
        }
    }
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all waits, and every later one.
    pub(crate) fn end(&self) {
        let inner = self.lock();
        self.over.store(true, Ordering::Release);
        inner.sleepers.values().for_each(|sleeper| sleeper.condition.notify_all());
    }

    /// Says whether the domain ends.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits until a wake, a signal, the end of the time or the end of the call.
    pub(crate) fn wait(&self, cx: &HostCall<'_>, wait: &Wait) -> Result<(), Errno> {
        let mut inner = self.lock();
        if let Some((address, value)) = wait.word {
            if cx.memory().load(address)? != value {
                return Err(Errno::AGAIN);
            }
            inner.queues.entry(key(address)).or_default().push_back(wait.thread);
        }
        let condition = Arc::new(Condvar::new());
        let key = wait.word.map(|(address, _)| key(address));
        let state =
            if inner.is_interrupted(wait.thread, wait.blocked) { Wakening::Interrupted } else { Wakening::Waiting };
        let sleeper = Sleeper { key, bits: wait.bits, blocked: wait.blocked, state, condition: Arc::clone(&condition) };
        inner.sleepers.insert(wait.thread, sleeper);
        loop {
            let state = inner.sleepers.get(&wait.thread).map_or(Wakening::Interrupted, |sleeper| sleeper.state);
            let left = wait.end.map(|end| end.saturating_duration_since(Instant::now()));
            let result = match state {
                Wakening::Woken => Some(Ok(())),
                Wakening::Interrupted => Some(Err(Errno::INTR)),
                Wakening::Waiting if self.is_over() || cx.is_over() => Some(Err(Errno::INTR)),
                Wakening::Waiting if left.is_some_and(|left| left.is_zero()) => Some(Err(Errno::TIMEDOUT)),
                Wakening::Waiting => None,
            };
            if let Some(result) = result {
                inner.forget(wait.thread);
                return result;
            }
            let time = left.map_or(LOOK, |left| left.min(LOOK));
            inner = condition.wait_timeout(inner, time).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes at most `most` threads that wait for a word and for one of `bits`. Returns their
    /// number.
    pub(crate) fn wake(&self, address: u64, most: u64, bits: u32) -> u64 {
        let woken = self.lock().wake(key(address), most, bits);
        woken.iter().for_each(|condition| condition.notify_one());
        woken.len() as u64
    }

    /// Wakes at most `wake` threads that wait for a word, and lets at most `most` others wait for
    /// another word. With a value, only if the word has it. Returns the number of threads.
    pub(crate) fn requeue(
        &self,
        cx: &HostCall<'_>,
        (from, to): (u64, u64),
        (wake, most): (u64, u64),
        value: Option<u32>,
    ) -> Result<u64, Errno> {
        let mut inner = self.lock();
        if let Some(value) = value
            && cx.memory().load(from)? != value
        {
            return Err(Errno::AGAIN);
        }
        let (from, to) = (key(from), key(to));
        let woken = inner.wake(from, wake, u32::MAX);
        let mut moved = 0;
        while moved < most && from != to {
            let Some(thread) = inner.queues.get_mut(&from).and_then(VecDeque::pop_front) else { break };
            if let Some(sleeper) = inner.sleepers.get_mut(&thread) {
                sleeper.key = Some(to);
                inner.queues.entry(to).or_default().push_back(thread);
                moved += 1;
            }
        }
        if inner.queues.get(&from).is_some_and(VecDeque::is_empty) {
            inner.queues.remove(&from);
        }
        drop(inner);
        woken.iter().for_each(|condition| condition.notify_one());
        Ok(woken.len() as u64 + moved)
    }

    /// Sends signals to a thread, by their bits. Interrupts its wait, or the code that it runs.
    pub(crate) fn send(&self, thread: u64, signals: u64) {
        let mut inner = self.lock();
        self.sent.store(true, Ordering::Release);
        *inner.directed.entry(thread).or_default() |= signals;
        if !inner.interrupt(thread, signals)
            && let Some(runner) = inner.runners.get(&thread)
            && signals & !runner.blocked != 0
        {
            runner.stopper.interrupt();
        }
    }

    /// Sends a signal to the domain, by its number: to one thread that does not block it. Called
    /// with the arbiter locked, and the next call's end knows of the signal.
    pub(crate) fn send_to_any(&self, signal: u64) {
        let bit = 1 << (signal - 1);
        let mut inner = self.lock();
        self.sent.store(true, Ordering::Release);
        inner.common |= bit;
        inner.offer(bit);
    }

    /// Notes that a thread can be interrupted. It blocks these signals.
    pub(crate) fn enrol(&self, thread: u64, blocked: u64, stopper: Stopper) {
        self.lock().runners.insert(thread, Runner { blocked, stopper });
    }

    /// Forgets a thread that leaves. Its signals are lost.
    pub(crate) fn leave(&self, thread: u64) {
        self.take(thread);
        self.lock().runners.remove(&thread);
    }

    /// Notes the end of a call, after which a thread blocks `blocked` and the signals of `common`
    /// wait for any thread. Tells `want` whether a signal waits for the calling thread, so that it
    /// must be interrupted. Called with the arbiter locked, so that the last call's facts stand.
    pub(crate) fn settle(&self, thread: u64, blocked: u64, common: u64, want: impl FnOnce(bool)) {
        let mut inner = self.lock();
        if let Some(runner) = inner.runners.get_mut(&thread) {
            runner.blocked = blocked;
        }
        inner.common = common;
        self.sent.store(common != 0 || !inner.directed.is_empty(), Ordering::Release);
        if common & blocked != 0 {
            inner.offer(common & blocked);
        }
        // With the queues locked, so that a signal of another thread comes before or after this.
        want(inner.directed.get(&thread).is_some_and(|signals| signals & !blocked != 0));
    }

    /// Says whether a signal that it does not block was sent to a thread.
    pub(crate) fn is_interrupted(&self, thread: u64, blocked: u64) -> bool {
        self.sent.load(Ordering::Acquire) && self.lock().is_interrupted(thread, blocked)
    }

    /// Takes the signals that were sent to a thread.
    pub(crate) fn take(&self, thread: u64) -> u64 {
        if !self.sent.load(Ordering::Acquire) {
            return 0;
        }
        let mut inner = self.lock();
        let signals = inner.directed.remove(&thread).unwrap_or(0);
        self.sent.store(inner.common != 0 || !inner.directed.is_empty(), Ordering::Release);
        signals
    }

    /// Says whether some signal was sent and not taken.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }
}
