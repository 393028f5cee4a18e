//! The length of a brute-force search (Yarvin et al. section 2).
//!
//! `M` of `V` places hold the memory that the searcher looks for. A wrong guess costs the delay
//! `D`. `P(n)`, the probability that `n` guesses at different places all miss, is `C(V-n, M) / C(V,
//! M)`. The paper's time to breach is `n D` for the `n` with `P(n) = 1/2`. The mean number of
//! guesses is `(V + 1) / (M + 1)`.

use sfi_contract::layout::WINDOW_SIZE;

/// A search by guesses at places, each with the same chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Number of places, all equally likely.
    pub places: u64,
    /// Number of places that hold something. Less than `places`.
    pub targets: u64,
}

impl Search {
    /// Returns the search for `mapped` bytes in `windows` possible windows.
    ///
    /// The longest run of these bytes is `run` long, so the searcher tries one address for each
    /// multiple of `run`. It leaves out the first one of each window, which is never mapped.
    /// Returns `None` if there is nothing to find.
    pub fn for_memory(windows: u64, run: u64, mapped: u64) -> Option<Search> {
        let slots = (WINDOW_SIZE.checked_div(run)? - 1).max(1);
        let places = windows * slots;
        let targets = ((mapped + run / 2) / run).clamp(1, places - 1);
        Some(Search { places, targets })
    }

    /// Returns the probability that `guesses` at different places all miss.
    pub fn all_miss(self, guesses: u64) -> f64 {
        if guesses > self.places - self.targets {
            return 0.0;
        }
        // Each target escapes all guesses, or each guess escapes all targets: the shorter of the
        // two products gives the same result.
        let (few, many) = if self.targets < guesses { (self.targets, guesses) } else { (guesses, self.targets) };
        let all = self.places as f64;
        (0..few).map(|i| (-(many as f64) / (all - i as f64)).ln_1p()).sum::<f64>().exp()
    }

    /// Returns the number of guesses after which the search has succeeded with probability one
    /// half.
    pub fn median(self) -> u64 {
        let (mut low, mut high) = (0, self.places);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.all_miss(middle) > 0.5 { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the mean number of guesses, with the successful one.
    pub fn mean(self) -> f64 {
        (self.places as f64 + 1.0) / (self.targets as f64 + 1.0)
    }

    /// Returns the standard deviation of the number of guesses: that of the least element of a
    /// random subset (negative hypergeometric distribution).
    pub fn deviation(self) -> f64 {
        let (v, m) = (self.places as f64, self.targets as f64);
        (m * (v + 1.0) * (v - m) / ((m + 1.0) * (m + 1.0) * (m + 2.0))).sqrt()
    }
}

/// Writes a time for people: a number of two digits and its unit.
pub fn duration(seconds: f64) -> String {
    const UNITS: [(f64, &str); 8] = [
        (31_556_952.0, "years"),
        (604_800.0, "weeks"),
        (86_400.0, "days"),
        (3600.0, "hours"),
        (60.0, "minutes"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "µs"),
    ];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or((1e-9, "ns"));
    let value = seconds / unit;
    let digits = if value < 10.0 { 1 } else { 0 };
    format!("{value:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of the paper: 64-bit addresses and segments of 8 KiB.
    #[test]
    fn the_papers_table_comes_out() {
        let places = 1 << 51;
        let years = |megabytes: u64, delay: f64| {
            let search = Search { places, targets: megabytes << 7 };
            search.median() as f64 * delay / 31_556_952.0
        };
        // The table gives two digits.
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.03, "{value} for {expected}");
        near(years(16, 1.0), 24_162.0);
        near(years(256, 1.0), 1510.0);
        near(years(2048, 1.0), 188.0);
        near(years(16, 1e-3), 24.0);
        near(years(16, 1e-6) * 31_556_952.0, 1.25 * 604_800.0);
        near(years(2048, 1e-6) * 31_556_952.0, 1.7 * 3600.0);
    }

    /// 16 MiB in one run take half of 2^35 / 4096 guesses, and a little less, because the first
    /// bytes of a window are never mapped.
    #[test]
    fn memory_is_searched_by_its_longest_run() {
        let windows = (1 << 15) - 3;
        let search = Search::for_memory(windows, 16 << 20, 16 << 20).unwrap();
        assert_eq!(search, Search { places: windows * 255, targets: 1 });
        assert!((search.mean() / f64::from(1 << 22) - 1.0).abs() < 0.01);
        // A search finds sixteen runs of 1 MiB as fast.
        let scattered = Search::for_memory(windows, 1 << 20, 16 << 20).unwrap();
        assert!((scattered.mean() / search.mean() * 17.0 / 32.0 - 1.0).abs() < 0.01);
        assert_eq!(Search::for_memory(windows, 3 << 30, 3 << 30).unwrap().places, windows);
        assert_eq!(Search::for_memory(windows, 0, 0), None);
    }

    /// The formulas agree with a count over every way to place two targets among seven.
    #[test]
    fn small_cases_are_counted() {
        let search = Search { places: 7, targets: 2 };
        let firsts: Vec<u64> = (1..=7).flat_map(|a| (a + 1..=7).map(move |_| a)).collect();
        let count = firsts.len() as f64;
        for n in 0..=7 {
            let missed = firsts.iter().filter(|first| **first > n).count() as f64;
            assert!((search.all_miss(n) - missed / count).abs() < 1e-12, "{n}");
        }
        let mean = firsts.iter().sum::<u64>() as f64 / count;
        let variance = firsts.iter().map(|f| (*f as f64 - mean).powi(2)).sum::<f64>() / count;
        assert!((search.mean() - mean).abs() < 1e-12);
        assert!((search.deviation() - variance.sqrt()).abs() < 1e-12);
        assert_eq!(search.median(), 2);
    }

    #[test]
    fn times_are_readable() {
        let texts = [0.5e-6, 41e-6, 0.0042, 7.0, 3600.0 * 30.0, 1e9].map(duration);
        assert_eq!(texts, ["500 ns", "41 µs", "4.2 ms", "7.0 s", "1.2 days", "32 years"]);
    }
}
