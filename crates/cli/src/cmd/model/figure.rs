//! The figures as data: axes, curves, points. Text and SVG draw the same.

use super::formula::{Model, Other, share};

/// An axis from `low` to `high`.
#[derive(Clone, Debug)]
pub struct Axis {
    pub name: &'static str,
    pub low: f64,
    pub high: f64,
    /// Equal distances are equal ratios.
    pub logarithmic: bool,
    /// Values with a label.
    pub marks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns the place of a value between 0 and 1, limited to the axis.
    pub fn place(&self, value: f64) -> f64 {
        let scale = |v: f64| if self.logarithmic { v.max(f64::MIN_POSITIVE).ln() } else { v };
        ((scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))).clamp(0.0, 1.0)
    }

    /// Returns the value at a place between 0 and 1.
    pub fn value(&self, place: f64) -> f64 {
        if self.logarithmic {
            self.low * (self.high / self.low).powf(place)
        } else {
            self.low + (self.high - self.low) * place
        }
    }
}

/// A curve or a point, with a letter.
#[derive(Clone, Debug)]
pub struct Curve {
    pub letter: char,
    pub name: String,
    /// One point, or many from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// Upper border of the shaded region, by x.
    pub shade: Option<Vec<(f64, f64)>>,
    pub curves: Vec<Curve>,
}

/// Points of a curve.
const POINTS: usize = 160;

fn percent(value: f64) -> String {
    format!("{}%", value * 100.0)
}

fn decades(from: i32, to: i32, text: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    (from..=to).map(|power| 10f64.powi(power)).map(|value| (value, text(value))).collect()
}

/// Letters of the other mechanisms.
fn letter(i: usize) -> char {
    char::from(b'a' + (i % 26) as u8)
}

/// Returns figure 5 or 6: where isolation in domains takes less time.
pub fn region(number: u32, model: &Model, others: &[Other]) -> Figure {
    let x = Axis {
        name: "share of time in crossings",
        low: 0.001,
        high: 1.0,
        logarithmic: true,
        marks: decades(-3, 0, percent),
    };
    let y = Axis {
        name: "r: crossing relative to the other mechanism's",
        low: 0.0,
        high: 1.0,
        logarithmic: false,
        marks: [0.0, 0.5, 1.0].map(|value| (value, value.to_string())).into(),
    };
    let border = (0..=POINTS).map(|i| x.value(i as f64 / POINTS as f64));
    let shade = border.map(|share| (share, model.largest_ratio(share).clamp(0.0, 1.0))).collect();
    let point = |(i, other): (usize, &Other)| {
        let r = model.ratio(other);
        let at = (other.overhead == 0.0).then(|| model.break_even(r, 0.0)).flatten()?;
        let name = format!("{}: r = {r:.4}, from {:.2}% of time in crossings on", other.name, at * 100.0);
        Some(Curve { letter: letter(i), name, points: vec![(at, r)] })
    };
    let curves = others.iter().enumerate().filter_map(point).collect();
    let title = format!(
        "Figure {number}. Domains take less time in the shaded region ({}% of the rest is distrusted, h = {:.1}%)",
        model.distrusted * 100.0,
        model.overhead * 100.0
    );
    Figure { title, x, y, shade: Some(shade), curves }
}

/// Returns figure 7: time in crossings by their number.
pub fn crossings(model: &Model, others: &[Other]) -> Figure {
    let x = Axis {
        name: "crossings in a millisecond of other work",
        low: 0.1,
        high: 100_000.0,
        logarithmic: true,
        marks: decades(-1, 5, |value| value.to_string()),
    };
    let y = Axis {
        name: "share of time in crossings",
        low: 0.0,
        high: 1.0,
        logarithmic: false,
        marks: [0.0, 0.5, 1.0].map(|value| (value, percent(value))).into(),
    };
    let places: Vec<f64> = (0..=POINTS).map(|i| x.value(i as f64 / POINTS as f64)).collect();
    let curve = |letter: char, name: &str, cost: f64| Curve {
        letter,
        name: format!("{name}: {cost:.1} ns"),
        points: places.iter().map(|rate| (*rate, share(cost, *rate))).collect(),
    };
    let domains = curve('*', "domains", model.crossing);
    let others = others.iter().enumerate().map(|(i, other)| curve(letter(i), &other.name, other.crossing));
    let curves = others.chain([domains]).collect();
    Figure { title: "Figure 7. Share of time in crossings".to_owned(), x, y, shade: None, curves }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_places_are_inverse() {
        for logarithmic in [false, true] {
            let axis = Axis { name: "", low: 0.5, high: 8.0, logarithmic, marks: Vec::new() };
            for place in [0.0, 0.25, 0.9, 1.0] {
                assert!((axis.place(axis.value(place)) - place).abs() < 1e-12);
            }
            assert_eq!((axis.place(0.0), axis.place(9.0)), (0.0, 1.0));
        }
    }
}
