//! The use of budgets, charged when domains are entered and left.
//!
//! In worlds with budgets the processor's time-stamp counter is read at every crossing: by the
//! gates (`gate/meter.s`) between domains, and here if the host takes part. The time since the last
//! crossing is charged to the domain that ran. So the charge does not depend on when the watchdog
//! looks, and no domain can tell when it will be charged. Calls in worlds without budgets have no
//! such cost.
//!
//! The counter goes on while the thread waits for a processor. If a budget counts processor time,
//! the thread's own clock is read at the beginning and the end of a call of the host, and before a
//! domain is ended. If the domains were charged more than the thread ran, the rest was spent
//! waiting. It is given back in proportion to each domain's charge ([`settle`]). Since the thread's
//! clock also counts host functions, all domains together are never charged less than they used.
//! One domain can be, and another one more: nobody knows in whose turn the thread waited.
//!
//! A domain can be over its budget only after all domains together have used as much as the one
//! with the least left. That sum is one word, so a call's end, a host function's return and the
//! watchdog compare two words.

use crate::fault::clock::{moment, now, rate};
use crate::fault::limits::{Budget, TIME_SIGNAL, nanos, reason};
use crate::fault::watch;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::records::{Account, Context, DomainState, Status};
use std::time::Duration;

/// Opens an account, with nothing charged.
pub(crate) fn open(account: &mut Account, budget: &Budget) {
    *account = Account { wall: nanos(budget.wall), cpu: nanos(budget.cpu), ..Account::default() };
}

/// Returns the time charged to an account: wall clock and processor time.
pub(crate) fn used(account: &Account) -> (Duration, Duration) {
    let time = |ticks: u64| Duration::from_nanos((ticks as f64 * rate()) as u64);
    (time(account.ticks), time(account.ticks.saturating_sub(account.relief)))
}

/// Notes that a domain begins to run, or goes on.
///
/// # Safety
/// `context` is that of the world that this thread runs.
#[inline]
pub(crate) unsafe fn resume(context: *mut Context) {
    // SAFETY: see the function's contract.
    unsafe { (*context).since = now() };
}

/// Charges the domain that ran until now. Async-signal-safe.
///
/// # Safety
/// As for [`resume`]; `domain` is one of the world's.
#[inline]
pub(crate) unsafe fn charge(context: *mut Context, domain: *mut DomainState) {
    // SAFETY: see the function's contract.
    unsafe {
        let now = now();
        // Counters of two processors may differ a little.
        let ticks = (now.wrapping_sub((*context).since) as i64).max(0) as u64;
        (*context).since = now;
        (*context).ticks += ticks;
        (*domain).account.ticks += ticks;
    }
}

/// Brings the accounts up to date and ends the domains that are over their budgets. The caller ends
/// `current` itself: the result is the [`reason`] for it, or 0 if it need not end.
/// Async-signal-safe.
///
/// # Safety
/// As for [`resume`], in a world with budgets. All time is charged, and no code of the world is in
/// the middle of changing its domains.
#[cold]
pub(crate) unsafe fn settle(context: *mut Context, current: *const DomainState) -> u32 {
    // SAFETY: see the function's contract; states live as long as the world.
    unsafe {
        let Some(watch) = watch::of(&*context) else { return 0 };
        let states = || std::iter::successors((*context).domains.as_mut(), |state| state.next.as_mut());
        let accounts = || states().map(|state| &mut state.account);
        let rate = rate();
        let waited = watch.waited((*context).ticks, rate);
        if waited > 0 {
            let pending = |a: &Account| a.ticks.saturating_sub(a.mark);
            let all: u64 = accounts().map(|a| pending(a)).sum();
            for account in accounts() {
                account.relief += (pending(account) as f64 / all.max(1) as f64 * waited as f64) as u64;
                account.mark = account.ticks;
            }
        }
        let (mut due, mut least) = (0, u64::MAX);
        for state in states().filter(|state| state.dead == Status::Ok) {
            let account = state.account;
            let left = |budget: u64, ticks: u64| match budget {
                0 => u64::MAX,
                nanos => ((nanos as f64 / rate) as u64).saturating_sub(ticks),
            };
            let cpu = left(account.cpu, account.ticks.saturating_sub(account.relief));
            let wall = left(account.wall, account.ticks);
            let why = match (cpu, wall) {
                (0, _) => reason::DOMAIN_CPU,
                (_, 0) => reason::DOMAIN_WALL,
                _ => {
                    least = least.min(cpu).min(wall);
                    continue;
                }
            };
            if std::ptr::eq(&raw const *state, current) {
                due = why;
            } else {
                // The domain waits or is idle. A call or a return to it finds it dead.
                state.fault = RawFault { signal: TIME_SIGNAL, code: why as i32, when: moment(), ..RawFault::default() };
                state.trace = Trace::EMPTY;
                state.dead = Status::Dead;
                state.sp = 0;
            }
        }
        watch.nobody_before((*context).ticks.saturating_add(least));
        due
    }
}
