//! The price of a wrong guess, from the penalties of a manifest's owners.

use sfi_contract::Mode;
use sfi_loader::manifest::{Manifest, Penalty};
use std::collections::VecDeque;
use std::time::Duration;

/// Simulated faults in a row. The first half only raises the penalty to its steady value.
const MANY: usize = 2048;

/// Returns the lowest price of a guess among the domains that can search, or among all if none can.
/// Domains without an owner pay nothing.
pub fn of(manifest: &Manifest) -> Duration {
    let domains = || manifest.domains.values();
    let can_search = domains().filter(|d| d.mode != Mode::Full);
    let pays = |domain: &sfi_loader::manifest::Domain| {
        let owner = domain.owner.as_ref().and_then(|name| manifest.owners.get(name));
        owner.map_or(Duration::ZERO, |owner| each_of_many(owner.penalty))
    };
    can_search.map(pays).min().or_else(|| domains().map(pays).min()).unwrap_or_default()
}

/// Returns the mean delay of one of many faults in a row, if the domain faults again as soon as the
/// penalty for the last fault is over.
fn each_of_many(penalty: Penalty) -> Duration {
    let rule = match penalty {
        Penalty::None => return Duration::ZERO,
        Penalty::Constant(delay) => return delay.0,
        Penalty::Adaptive(rule) => rule,
    };
    let (first, most, window) = (rule.first.0, rule.most.0, rule.window.0);
    let mut now = Duration::ZERO;
    let mut recent: VecDeque<Duration> = VecDeque::new();
    let mut half = Duration::ZERO;
    for fault in 0..MANY {
        while recent.front().is_some_and(|at| now - *at > window) {
            recent.pop_front();
        }
        let factor = 1_u32.checked_shl(recent.len() as u32).unwrap_or(u32::MAX);
        recent.push_back(now);
        now = now.saturating_add(first.checked_mul(factor).unwrap_or(most).min(most));
        if fault == MANY / 2 {
            half = now;
        }
    }
    (now - half) / (MANY / 2 - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use sfi_loader::manifest::{Adaptive, Time};

    fn adaptive(first: u64, most: u64, window: u64) -> Duration {
        let [first, most, window] = [first, most, window].map(|ms| Time(Duration::from_millis(ms)));
        each_of_many(Penalty::Adaptive(Adaptive { first, most, window }))
    }

    #[test]
    fn many_faults_pay_the_most_that_the_window_keeps_up() {
        assert_eq!(each_of_many(Penalty::Constant(Time(Duration::from_secs(1)))), Duration::from_secs(1));
        assert_eq!(adaptive(10, 10_000, 600_000), Duration::from_secs(10));
        // Never two faults within the window: each costs the first price.
        assert_eq!(adaptive(10, 10_000, 0).as_millis(), 10);
        let between = adaptive(10, 10_000, 1000).as_millis();
        assert!((11..10_000).contains(&between), "{between} ms");
    }

    #[test]
    fn who_pays_least_counts() {
        let manifest = |a: &str, b: &str| {
            let text = format!(
                "[entry]\ndomain = \"a\"\nfunction = \"f\"\n[domains.a]\n{a}\n[domains.b]\n{b}\n[owners.x]\npenalty = \"2 s\"\n[owners.y]\npenalty = \"3 s\"\n"
            );
            of(&Manifest::parse(&text, std::path::Path::new("m.toml")).unwrap()).as_secs()
        };
        assert_eq!(manifest("owner = \"x\"", "owner = \"y\""), 2);
        assert_eq!(manifest("owner = \"x\"\nmode = \"full\"", "owner = \"y\""), 3);
        assert_eq!(manifest("owner = \"x\"", ""), 0);
        assert_eq!(manifest("mode = \"full\"", "owner = \"y\""), 3);
    }
}
