//! Owners' accounts: the messages that their handlers may still handle in this tick.

use std::time::{Duration, Instant};

/// Messages that an involuntary abort costs, besides its own.
pub const FAULT_CHARGE: i64 = 64;

/// An owner's account. Each message that a handler of the owner gets costs one. At each tick it is
/// refilled, but debts stay: an owner whose handlers fault waits for ticks.
#[derive(Clone, Debug)]
pub struct Account {
    quota: i64,
    left: i64,
}

impl Account {
    /// Opens an account for this many messages per tick.
    pub fn new(quota: u32) -> Self {
        Self { quota: quota.into(), left: quota.into() }
    }

    /// Pays for a message. Returns false if the account is empty.
    #[inline]
    pub fn pay(&mut self) -> bool {
        let pays = self.left > 0;
        self.left -= i64::from(pays);
        pays
    }

    /// Charges an involuntary abort.
    pub fn charge(&mut self) {
        self.left = self.left.saturating_sub(FAULT_CHARGE);
    }

    /// Refills it after ticks.
    pub fn refill(&mut self, ticks: u32) {
        self.left = self.left.saturating_add(self.quota.saturating_mul(ticks.into())).min(self.quota);
    }

    /// Returns the messages that are left, negative after charges.
    pub fn left(&self) -> i64 {
        self.left
    }
}

/// Counts ticks.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    length: Duration,
    next: Instant,
}

impl Ticks {
    /// Begins to count.
    pub fn new(length: Duration) -> Self {
        Self { length, next: Instant::now() + length }
    }

    /// Returns the ticks that ended since the last call.
    pub fn ended(&mut self, now: Instant) -> u32 {
        let Some(over) = now.checked_duration_since(self.next) else { return 0 };
        let more = over.as_nanos() / self.length.as_nanos().max(1);
        self.next = now + self.length;
        u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account() {
        let mut account = Account::new(3);
        assert_eq!([(); 4].map(|()| account.pay()), [true, true, true, false]);
        account.refill(1);
        assert_eq!(account.left(), 3);
        account.refill(u32::MAX);
        assert_eq!(account.left(), 3, "nothing is saved up");
        account.charge();
        assert_eq!(account.left(), 3 - FAULT_CHARGE);
        let ticks = (1..).find(|_| {
            account.refill(1);
            account.pay()
        });
        assert_eq!(ticks, Some(21), "three messages a tick pay 61 back");
        assert!(!Account::new(0).pay());
    }

    #[test]
    fn ticks() {
        let start = Instant::now();
        let length = Duration::from_millis(10);
        let mut ticks = Ticks { length, next: start + length };
        assert_eq!(ticks.ended(start), 0);
        assert_eq!(ticks.ended(start + length), 1);
        assert_eq!(ticks.ended(start + length), 0);
        assert_eq!(ticks.ended(start + 7 * length), 6);
    }
}
