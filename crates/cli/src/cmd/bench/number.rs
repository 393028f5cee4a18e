//! Rounding of numbers in reports.

pub fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
