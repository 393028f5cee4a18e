//! The time of a world's domains in all of its lanes.
//!
//! Each lane charges accounts of its own ([`crate::fault::meter`]), so a charge has one writer. A
//! budget holds for the sum. Lanes read the accounts of the others while these change, so a sum may
//! be behind by what runs now. The watchdog counts that too, and makes the lanes charge it.
//!
//! Accounts only grow. A life begins, or a budget is given anew, by noting the sums.

use crate::gate::ids::{DomainId, Id};
use crate::gate::records::{Account, Context, DomainState};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The records of all lanes. A lane's are null before it is built and after it is dropped. All
/// lanes of a world are dropped together, when no thread has one, so records that are not null live
/// as long as any call.
#[derive(Debug)]
pub(crate) struct Purse {
    contexts: Box<[AtomicPtr<Context>]>,
    /// By domain and lane.
    states: Box<[AtomicPtr<DomainState>]>,
    /// The sums that do not count, by domain: ticks, those in which threads ran, and crossings.
    before: Box<[[AtomicU64; 3]]>,
}

/// The time of a domain in its present life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub ticks: u64,
    /// Ticks of these in which the thread ran.
    pub ran: u64,
    pub crossings: u64,
}

impl Spent {
    /// Returns the time of an account that one lane alone charges.
    pub(crate) fn of(account: &Account) -> Self {
        let Account { ticks, relief, crossings, .. } = *account;
        Self { ticks, ran: ticks.saturating_sub(relief), crossings }
    }
}

impl Purse {
    /// Makes the purse of a world.
    pub(super) fn new(domains: usize, lanes: usize) -> Self {
        let zero = |_| [0; 3].map(AtomicU64::new);
        Self {
            contexts: (0..lanes).map(|_| AtomicPtr::default()).collect(),
            states: (0..lanes * domains).map(|_| AtomicPtr::default()).collect(),
            before: (0..domains).map(zero).collect(),
        }
    }

    /// Notes a lane's context, or null before it is freed.
    pub(crate) fn attach(&self, lane: usize, context: *mut Context) {
        self.contexts[lane].store(context, Ordering::Release);
    }

    /// Notes a lane's record of a domain, or null before it is freed.
    pub(crate) fn record(&self, lane: usize, domain: DomainId, state: *mut DomainState) {
        self.states[domain.place() * self.contexts.len() + lane].store(state, Ordering::Release);
    }

    /// Returns the ticks that were charged in all lanes. Async-signal-safe.
    ///
    /// # Safety
    /// A lane of the world is in a call, or this thread drops none meanwhile.
    pub(super) unsafe fn ticks(&self) -> u64 {
        // SAFETY: see the function's contract and the type. A word that another thread writes is
        // old or new.
        let of = |context: *mut Context| unsafe { ptr::read_volatile(&raw const (*context).ticks) };
        self.contexts().map(of).fold(0, u64::wrapping_add)
    }

    /// Returns the time of a domain in all lanes. Async-signal-safe.
    ///
    /// # Safety
    /// As for [`Purse::ticks`].
    pub(crate) unsafe fn spent(&self, domain: DomainId) -> Spent {
        // SAFETY: see the function's contract.
        let all = unsafe { self.sums(domain) };
        let before = self.before[domain.place()].each_ref().map(|word| word.load(Ordering::Acquire));
        let [ticks, ran, crossings] = std::array::from_fn(|i| all[i].saturating_sub(before[i]));
        Spent { ticks, ran, crossings }
    }

    /// Forgets the time of a domain so far.
    ///
    /// # Safety
    /// As for [`Purse::ticks`].
    pub(crate) unsafe fn forgive(&self, domain: DomainId) {
        // SAFETY: see the function's contract.
        let all = unsafe { self.sums(domain) };
        self.before[domain.place()].iter().zip(all).for_each(|(word, sum)| word.store(sum, Ordering::Release));
    }

    unsafe fn sums(&self, domain: DomainId) -> [u64; 3] {
        let lanes = self.contexts.len();
        let mut all = [0u64; 3];
        for state in &self.states[domain.place() * lanes..][..lanes] {
            let state = state.load(Ordering::Acquire);
            if !state.is_null() {
                // SAFETY: as in `ticks`.
                let Spent { ticks, ran, crossings } =
                    Spent::of(&unsafe { ptr::read_volatile(&raw const (*state).account) });
                all = [all[0].wrapping_add(ticks), all[1].wrapping_add(ran), all[2].wrapping_add(crossings)];
            }
        }
        all
    }

    /// Returns the contexts of all lanes. Those that live are as in [`Purse::ticks`].
    pub(super) fn contexts(&self) -> impl Iterator<Item = *mut Context> + '_ {
        self.contexts.iter().map(|context| context.load(Ordering::Acquire)).filter(|context| !context.is_null())
    }
}
