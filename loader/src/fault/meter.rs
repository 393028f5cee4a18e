//! The use of budgets, charged when domains are entered and left.
//!
//! In worlds with budgets the processor's time-stamp counter is read at every crossing: by the
//! gates (`gate/meter.s`) between domains, and here if the host takes part. The time since the last
//! crossing is charged to the domain that ran. So the charge does not depend on when the watchdog
//! looks, and no domain can tell when it will be charged. Calls in worlds without budgets have no
//! such cost.
//!
//! The counter goes on while the thread waits for a processor. If a budget counts processor time,
//! the thread's own clock is read too: at the beginning and the end of a call of the host, before
//! a domain is ended, and by the first crossing after each [`LOOK_PERIOD`]. If the domains were
//! charged more than the thread ran, the rest was spent waiting. It is given back to the domain
//! whose turn ended at the reading, but for no longer than that turn ([`look`]). A shorter turn
//! than the period may have waited before it. The rest is shared out in proportion to the charges
//! ([`settle`]). So a wait lowers the charge of another domain by less than a period. A wait of
//! less than [`LEAST_WAIT`] is charged. Since the thread's clock also counts host functions, all
//! domains together are never charged less than they used.
//!
//! A domain can be over its budget only after all domains together have used as much as the one
//! with the least left. That sum is one word, so a call's end, a host function's return and the
//! watchdog compare two words.

use crate::fault::clock::{now, processor, rate};
use crate::fault::lanes;
use crate::fault::limits::{Budget, TIME_SIGNAL, nanos, reason};
use crate::fault::purse::Spent;
use crate::fault::watch;
use crate::gate::fault::{RawFault, Trace};
use crate::gate::records::{Account, Context, DomainState, Status, Waits};
use crate::gate::{LEAST_WAIT, LOOK_PERIOD};
use std::ptr;
use std::time::Duration;

/// If a call used more ticks than this since the last comparison, its end asks whether the thread
/// waited. It is less than the shortest turn that a scheduler gives another thread.
const MANY_TICKS: u64 = 20_000;

/// Opens an account, with nothing charged.
pub(crate) fn open(account: &mut Account, budget: &Budget) {
    *account = Account { wall: nanos(budget.wall), cpu: nanos(budget.cpu), ..Account::default() };
}

/// Sets the budgets of an account, and keeps what was charged.
pub(crate) fn bound(account: &mut Account, budget: &Budget) {
    (account.wall, account.cpu) = (nanos(budget.wall), nanos(budget.cpu));
}

/// Returns the time that was charged: wall clock and processor time.
pub(crate) fn used(spent: Spent) -> (Duration, Duration) {
    let time = |ticks: u64| Duration::from_nanos((ticks as f64 * rate()) as u64);
    (time(spent.ticks), time(spent.ran))
}

/// Begins a call of the host in a world where a budget counts processor time.
///
/// # Safety
/// `context` is that of the world that this thread runs.
pub(crate) unsafe fn begin(context: *mut Context) {
    // SAFETY: see the function's contract.
    unsafe {
        let pace = ((1u64 << 32) as f64 / rate()) as u64;
        let (look, ticks, clock) = (now().saturating_add(LOOK_PERIOD), (*context).ticks, processor());
        (*context).waits = Waits { look, ticks, clock, pace, left: 0, answer: [0; 2] };
    }
}

/// Notes that a domain begins to run, or goes on.
///
/// # Safety
/// As for [`begin`].
#[inline]
pub(crate) unsafe fn resume(context: *mut Context) {
    // SAFETY: see the function's contract.
    unsafe {
        let now = now();
        (*context).since = now;
        // The host's time is no domain's turn.
        if now >= (*context).waits.look {
            look(context, ptr::null_mut(), 0);
        }
    }
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
        if now >= (*context).waits.look {
            look(context, domain, ticks);
        }
    }
}

/// Compares the ticks that were charged since the last time with the thread's clock. If the thread
/// waited, `domain` gets back the wait, but no more than the ticks of its turn, which ends now. The
/// rest is left for [`settle`]. `sfi_meter_look` in gate/meter.s does the same.
///
/// # Safety
/// As for [`charge`]; `domain` is null if the host's turn ends.
#[cold]
unsafe fn look(context: *mut Context, domain: *mut DomainState, turn: u64) {
    // SAFETY: see the function's contract.
    unsafe {
        let waited = waited(&mut *context).filter(|waited| *waited >= LEAST_WAIT as i64).unwrap_or(0) as u64;
        let own = waited.min(turn);
        if let Some(domain) = domain.as_mut() {
            domain.account.relief += own;
        }
        let waits = &mut (*context).waits;
        waits.left += waited - own;
        waits.look = now().saturating_add(LOOK_PERIOD);
    }
}

/// Returns the ticks of those that were charged since the last comparison in which the thread
/// cannot have run. They are negative if the host used processor time. `None` if no budget counts
/// processor time.
fn waited(context: &mut Context) -> Option<i64> {
    let waits = &mut context.waits;
    if waits.look == u64::MAX {
        return None;
    }
    let clock = processor();
    let ran = (u128::from(clock.saturating_sub(waits.clock)) * u128::from(waits.pace)) >> 32;
    let charged = context.ticks.wrapping_sub(waits.ticks);
    (waits.clock, waits.ticks) = (clock, context.ticks);
    Some(charged as i64 - ran as i64)
}

/// Says whether the end of a call has to find out about waits.
///
/// # Safety
/// As for [`begin`].
pub(crate) unsafe fn is_unclear(context: *const Context) -> bool {
    // SAFETY: see the function's contract.
    let (waits, ticks) = unsafe { ((*context).waits, (*context).ticks) };
    waits.look != u64::MAX && (waits.left > 0 || ticks.saturating_sub(waits.ticks) > MANY_TICKS)
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
        let last = waited(&mut *context).unwrap_or(0).max(0) as u64;
        let waited = last + std::mem::take(&mut (*context).waits.left);
        let states = || std::iter::successors((*context).domains.as_mut(), |state| state.next.as_mut());
        let accounts = || states().map(|state| &mut state.account);
        let rate = rate();
        if waited > 0 {
            let paid = |a: &Account| a.ticks.saturating_sub(a.relief);
            let pending = |a: &Account| paid(a).saturating_sub(a.mark);
            let all: u64 = accounts().map(|a| pending(a)).sum();
            for account in accounts() {
                account.relief += (pending(account) as f64 / all.max(1) as f64 * waited as f64) as u64;
                account.mark = paid(account);
            }
        }
        let (mut due, mut least) = (0, u64::MAX);
        for state in states().filter(|state| state.dead == Status::Ok) {
            let (account, spent) = (state.account, watch.spent(state));
            let left = |budget: u64, ticks: u64| match budget {
                0 => u64::MAX,
                nanos => ((nanos as f64 / rate) as u64).saturating_sub(ticks),
            };
            let cpu = left(account.cpu, spent.ran);
            let wall = left(account.wall, spent.ticks);
            let why = match (cpu, wall) {
                (0, _) => reason::DOMAIN_CPU,
                (_, 0) => reason::DOMAIN_WALL,
                _ => {
                    least = least.min(cpu).min(wall);
                    continue;
                }
            };
            if std::ptr::eq(&raw const *state, current) {
                // A domain that just ended in another lane has one fault.
                due = if lanes::is_over(current) { 0 } else { why };
            } else if let Some(door) = lanes::reach(state) {
                // The domain waits or is idle. A call or a return to it finds it dead. If its door
                // is closed, those that may be inside end it.
                let fault = RawFault { signal: TIME_SIGNAL, code: why as i32, ..RawFault::default() };
                lanes::end_by(state, fault, Trace::EMPTY);
                if let (Some(room), Some(door)) = (state.room.as_ref(), door) {
                    room.go_out(&*door);
                }
            }
        }
        watch.nobody_before(watch.ticks(context).saturating_add(least));
        due
    }
}
