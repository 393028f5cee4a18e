//! Section 5.4 of Wahbe et al.: `savings = (1 - r) t_c - h t_d`.
//!
//! `t_c` is the share of its time that a program spends in crossings when it uses the other
//! mechanism. `t_d` is the share in distrusted code. The paper's examples (30% of the time crossing
//! needs 10% less, 10% needs 39% less) only follow with `t_d = 1 - t_c`, so all code that does not
//! cross is distrusted code. Figure 6 halves it. This is [`Model::distrusted`] here.

/// Another way to isolate code.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Name, as on the command line.
    pub name: String,
    /// Cost of a crossing, there and back, nanoseconds.
    pub crossing: f64,
    /// Overhead of its code over native code: 0 for hardware.
    pub overhead: f64,
}

/// A mechanism with its costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// `h`: overhead of code in a domain over native code.
    pub overhead: f64,
    /// Cost of a crossing between domains, there and back, nanoseconds.
    pub crossing: f64,
    /// Share of distrusted code in the time without crossings: 1 in figure 5, 0.5 in figure 6.
    pub distrusted: f64,
}

impl Model {
    /// Returns `r`: the cost of a crossing relative to that of another mechanism.
    pub fn ratio(&self, other: &Other) -> f64 {
        self.crossing / other.crossing
    }

    /// Returns the overhead of distrusted code over that in another mechanism.
    fn extra(&self, other_overhead: f64) -> f64 {
        (self.overhead - other_overhead) * self.distrusted
    }

    /// Returns the share of crossings from which on isolation in domains takes less time. `None`:
    /// it never does.
    pub fn break_even(&self, r: f64, other_overhead: f64) -> Option<f64> {
        let extra = self.extra(other_overhead);
        let share = extra / (1.0 - r + extra);
        match (r < 1.0, extra <= 0.0) {
            (true, true) => Some(0.0),
            (true, false) => Some(share),
            // Crossings cost more, so it pays only below a share.
            (false, _) => None,
        }
    }

    /// Returns the largest ratio at which isolation in domains pays, for a share of crossings. It
    /// is negative if no ratio is small enough.
    pub fn largest_ratio(&self, crossing: f64) -> f64 {
        1.0 - self.extra(0.0) * (1.0 - crossing) / crossing
    }
}

/// Returns the share of time in crossings of `nanoseconds`, for so many of them in each millisecond
/// of other work.
pub fn share(nanoseconds: f64, per_millisecond: f64) -> f64 {
    let time = nanoseconds * per_millisecond / 1e6;
    time / (1.0 + time)
}

/// A run that was measured in domains, nanoseconds.
#[derive(Clone, Debug)]
pub struct Run {
    /// Number of crossings.
    pub crossings: u64,
    /// Time in domains.
    pub inside: f64,
    /// Time of the whole run.
    pub total: f64,
    /// Time that the code in domains would take natively.
    native: f64,
}

impl Run {
    /// Describes a run.
    pub fn new(crossings: u64, inside: f64, total: f64, model: &Model) -> Self {
        Self { crossings, inside, total, native: inside / (1.0 + model.overhead) }
    }

    /// Returns the time that domains save over another mechanism. Negative: they take longer.
    pub fn savings(&self, model: &Model, other: &Other) -> f64 {
        let crossings = self.crossings as f64 * (other.crossing - model.crossing);
        crossings - (model.overhead - other.overhead) * self.native
    }

    /// Returns the cost of a crossing at which a mechanism without overhead takes the same time.
    pub fn break_even(&self, model: &Model) -> f64 {
        model.crossing + model.overhead * self.native / self.crossings as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the formula's savings, with the share of crossings `t_c`.
    fn savings(model: &Model, r: f64, t_c: f64) -> f64 {
        let t_d = model.distrusted * (1.0 - t_c);
        (1.0 - r) * t_c - model.overhead * t_d
    }

    fn paper(distrusted: f64) -> Model {
        Model { overhead: 0.043, crossing: 1110.0, distrusted }
    }

    #[test]
    fn the_examples_of_the_paper_follow() {
        let model = paper(1.0);
        assert!((model.largest_ratio(0.3) - 0.90).abs() < 0.005);
        assert!((model.largest_ratio(0.1) - 0.61).abs() < 0.005);
        // DEC-MIPS: 1.80 us would do better at 10%.
        assert!((model.crossing / model.largest_ratio(0.1) - 1810.0).abs() < 10.0);
        let pipe = Other { name: "pipe".to_owned(), crossing: 204_720.0, overhead: 0.0 };
        assert!((model.break_even(model.ratio(&pipe), 0.0).unwrap() - 0.0414).abs() < 0.0001);
        assert!((paper(0.5).break_even(0.0, 0.0).unwrap() - 0.0210).abs() < 0.0001);
    }

    #[test]
    fn break_even_is_where_nothing_is_saved() {
        for r in [0.0, 0.1, 0.5, 0.99] {
            for distrusted in [0.1, 0.5, 1.0] {
                let model = paper(distrusted);
                let share = model.break_even(r, 0.0).unwrap();
                assert!(savings(&model, r, share).abs() < 1e-12);
                assert!(savings(&model, r, share + 0.001) > 0.0);
                assert!((model.largest_ratio(share) - r).abs() < 1e-9);
            }
        }
        assert_eq!(paper(1.0).break_even(1.0, 0.0), None);
        assert_eq!(paper(1.0).break_even(0.5, 0.2), Some(0.0));
    }

    #[test]
    fn a_run_breaks_even_where_nothing_is_saved() {
        let model = Model { overhead: 0.02, crossing: 10.0, distrusted: 1.0 };
        let run = Run::new(1000, 1_020_000.0, 2_000_000.0, &model);
        assert!((run.break_even(&model) - 30.0).abs() < 1e-9);
        let other = |crossing: f64, overhead: f64| Other { name: String::new(), crossing, overhead };
        assert!(run.savings(&model, &other(30.0, 0.0)).abs() < 1e-6);
        assert!((run.savings(&model, &other(130.0, 0.0)) - 100_000.0).abs() < 1e-6);
        assert!((run.savings(&model, &other(30.0, 0.5)) - 500_000.0).abs() < 1e-6);
        assert!(run.savings(&model, &other(29.0, 0.0)) < 0.0);
    }

    #[test]
    fn shares_grow_to_one() {
        assert!((share(1000.0, 1000.0) - 0.5).abs() < 1e-12);
        assert!(share(1.0, 1e12) < 1.0 && share(1.0, 1e12) > 0.99);
    }
}
