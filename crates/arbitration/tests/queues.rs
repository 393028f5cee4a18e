//! Models of the queues of waiting threads and of their signals. The code is `futex.rs` itself. Its
//! locks are those of loom, which runs each model in all orders of its threads.

#[path = "../src/errno.rs"]
#[allow(dead_code, reason = "a model uses a part")]
mod errno;
#[path = "../src/futex.rs"]
#[allow(dead_code, reason = "a model uses a part")]
mod futex;
#[path = "queues_model/sync.rs"]
mod sync;

use errno::Errno;
use futex::{Wait, Waits};
use loom::sync::atomic::AtomicU32;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sync::{Arc, AtomicBool, BROKEN, Breach, HostCall, Mutex, Ordering, Stopper, is};

/// Preemptions in one run.
const PREEMPTIONS: usize = 3;
/// The bit of a signal.
const SIGNAL: u64 = 1 << 9;
/// Its number, and another signal's bit.
const NUMBER: u64 = 10;
const OTHER: u64 = 1 << 3;
const ANY: u32 = u32::MAX;
/// Two words of a domain.
const WORDS: [u64; 2] = [64, 128];

/// The threads of a domain, which has the numbers 1 and 2, and one word of memory.
struct Domain {
    waits: Waits,
    word: AtomicU32,
    arbiter: Mutex<()>,
    /// Set when the timer's time is over.
    is_late: AtomicBool,
    /// Set while a thread is to be interrupted in its own code.
    wanted: [Arc<AtomicBool>; 2],
}

/// A thread, as `Member` in crew/mod.rs.
struct Thread<'d> {
    domain: &'d Domain,
    number: u64,
    blocked: u64,
    told: u64,
    /// Signals that it took.
    pending: u64,
}

impl Domain {
    /// Makes a domain whose threads made a call each, and block these signals.
    fn new(blocked: [u64; 2]) -> Arc<Self> {
        let wanted = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (arbiter, is_late) = (Mutex::new(()), AtomicBool::new(false));
        let domain = Self { waits: Waits::default(), word: AtomicU32::new(0), arbiter, is_late, wanted };
        for (thread, blocked) in (1..).zip(blocked) {
            domain.waits.enrol(thread, blocked, Stopper(Arc::clone(&domain.wanted[thread as usize - 1])));
        }
        Arc::new(domain)
    }

    fn thread(&self, number: u64, blocked: u64) -> Thread<'_> {
        Thread { domain: self, number, blocked, told: blocked, pending: 0 }
    }

    fn is_wanted(&self, thread: u64) -> bool {
        self.wanted[thread as usize - 1].load(Ordering::SeqCst)
    }
}

impl Thread<'_> {
    /// The end of a call after which it blocks `blocked`, as `Shared::conclude`. `common` are the
    /// domain's signals that it did not take. Signals that it takes call handlers.
    fn conclude(&mut self, blocked: u64, common: u64) {
        let Domain { waits, .. } = self.domain;
        self.pending |= waits.take(self.number);
        self.blocked = blocked;
        if self.told != blocked || common != 0 || waits.is_sent() || self.domain.is_wanted(self.number) {
            self.told = blocked;
            let wanted = &self.domain.wanted[self.number as usize - 1];
            let mut wish = None;
            let told = if is(Breach::StaleMask) { 0 } else { blocked };
            waits.settle(self.number, told, common, |want| match is(Breach::LateWish) {
                true => wish = Some(want),
                false => wanted.store(want, Ordering::SeqCst),
            });
            wish.inspect(|want| wanted.store(*want, Ordering::SeqCst));
        }
    }

    /// Waits, for a word if there is one.
    fn wait(&mut self, word: Option<(u64, u32)>) -> Result<(), Errno> {
        let cx = HostCall { word: &self.domain.word };
        let wait = Wait { thread: self.number, blocked: self.blocked, word, bits: ANY, end: None };
        self.domain.waits.wait(&cx, &wait)
    }

    /// Says whether the signal reached it, or will interrupt it.
    fn is_told(&self) -> bool {
        self.pending & SIGNAL != 0 || self.domain.is_wanted(self.number)
    }
}

fn run(breach: Option<Breach>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        BROKEN.with(|broken| broken.set(breach));
        model();
    });
}

/// Runs a model with a mistake, which loom must find.
fn finds(breach: Breach, model: impl Fn() + Send + Sync + 'static) {
    let found = catch_unwind(AssertUnwindSafe(|| run(Some(breach), model)));
    assert!(found.is_err(), "the model does not notice {breach:?}");
}

/// One thread waits for a word, the other one changes it and wakes.
fn waits_for_a_word() {
    let domain = Domain::new([0; 2]);
    let other = Arc::clone(&domain);
    let thread = thread::spawn(move || {
        other.word.store(1, Ordering::SeqCst);
        other.waits.wake(WORDS[0], 1, ANY);
    });
    let ended = domain.thread(1, 0).wait(Some((WORDS[0], 0)));
    assert!(matches!(ended, Ok(()) | Err(Errno::AGAIN)), "{ended:?}");
    thread.join().unwrap();
}

#[test]
fn no_wake_is_lost() {
    run(None, waits_for_a_word);
}

#[test]
fn a_lost_wake_is_found() {
    finds(Breach::NoWake, waits_for_a_word);
}

/// A thread that moves to another queue is woken there.
#[test]
fn moved_threads_are_woken() {
    run(None, || {
        let domain = Domain::new([0; 2]);
        let other = Arc::clone(&domain);
        let thread = thread::spawn(move || {
            let cx = HostCall { word: &other.word };
            let moved = other.waits.requeue(&cx, (WORDS[0], WORDS[1]), (0, 1), Some(0)).unwrap();
            other.word.store(1, Ordering::SeqCst);
            let woken = other.waits.wake(WORDS[1], 1, ANY);
            assert_eq!(woken, moved, "a thread that moved was not found");
            other.waits.wake(WORDS[0], 1, ANY);
        });
        let ended = domain.thread(1, 0).wait(Some((WORDS[0], 0)));
        assert!(matches!(ended, Ok(()) | Err(Errno::AGAIN)), "{ended:?}");
        thread.join().unwrap();
    });
}

/// A thread ends a call that opens another signal, while another one sends it a signal.
fn a_call_ends() {
    let domain = Domain::new([OTHER, 0]);
    let other = Arc::clone(&domain);
    let thread = thread::spawn(move || other.waits.send(1, SIGNAL));
    let mut me = domain.thread(1, OTHER);
    me.conclude(0, 0);
    thread.join().unwrap();
    assert!(me.is_told(), "nobody interrupts the thread, which may make no call any more");
}

#[test]
fn signals_reach_a_thread_whose_call_ends() {
    run(None, a_call_ends);
}

#[test]
fn a_wish_after_the_queues_are_free_is_found() {
    finds(Breach::LateWish, a_call_ends);
}

/// A thread blocks the signal and opens it again, while another one sends it. While it is blocked
/// nobody interrupts the thread.
fn a_mask_changes() {
    let domain = Domain::new([0; 2]);
    let other = Arc::clone(&domain);
    let thread = thread::spawn(move || other.waits.send(1, SIGNAL));
    let mut me = domain.thread(1, 0);
    me.conclude(SIGNAL, 0);
    let interrupted = me.pending == 0 && domain.is_wanted(1);
    assert!(!interrupted, "the signal is blocked");
    me.conclude(0, 0);
    thread.join().unwrap();
    assert!(me.is_told());
}

#[test]
fn a_blocked_signal_waits_and_comes() {
    run(None, a_mask_changes);
}

#[test]
fn a_mask_that_others_do_not_know_is_found() {
    finds(Breach::StaleMask, a_mask_changes);
}

/// A thread goes to sleep while a signal for it comes.
fn goes_to_sleep() {
    let domain = Domain::new([0; 2]);
    let other = Arc::clone(&domain);
    let thread = thread::spawn(move || other.waits.send(1, SIGNAL));
    assert_eq!(domain.thread(1, 0).wait(None), Err(Errno::INTR));
    thread.join().unwrap();
}

#[test]
fn signals_end_waits() {
    run(None, goes_to_sleep);
}

#[test]
fn a_wait_that_no_signal_ends_is_found() {
    finds(Breach::NoWake, goes_to_sleep);
}

/// A signal of the domain, which the second thread blocks and leaves over, ends the wait of the
/// first one.
#[test]
fn another_thread_takes_the_domains_signal() {
    run(None, || {
        let domain = Domain::new([0, SIGNAL]);
        let other = Arc::clone(&domain);
        let thread = thread::spawn(move || {
            let mut second = other.thread(2, SIGNAL);
            second.conclude(SIGNAL, SIGNAL);
            assert!(!second.is_told());
        });
        assert_eq!(domain.thread(1, 0).wait(None), Err(Errno::INTR));
        thread.join().unwrap();
    });
}

/// The timer's signal comes while the second thread ends a call, in which it may not see yet that
/// the time is over. Afterwards the first one does not go to sleep.
fn the_timer_ends() {
    let domain = Domain::new([0, SIGNAL]);
    let other = Arc::clone(&domain);
    let timer = thread::spawn(move || {
        other.is_late.store(true, Ordering::SeqCst);
        let _locked = (!is(Breach::NoArbiter)).then(|| other.arbiter.lock().unwrap());
        other.waits.send_to_any(NUMBER);
    });
    let other = Arc::clone(&domain);
    let second = thread::spawn(move || {
        let _locked = other.arbiter.lock().unwrap();
        let common = if other.is_late.load(Ordering::SeqCst) { SIGNAL } else { 0 };
        other.thread(2, SIGNAL).conclude(SIGNAL, common);
    });
    timer.join().unwrap();
    second.join().unwrap();
    assert!(domain.waits.is_interrupted(1, 0), "the first thread would sleep");
}

#[test]
fn the_timer_ends_a_wait() {
    run(None, the_timer_ends);
}

#[test]
fn a_timer_that_does_not_wait_for_calls_is_found() {
    finds(Breach::NoArbiter, the_timer_ends);
}
