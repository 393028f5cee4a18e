//! Measurements that `sfi bench` runs on the user's machine. They need no compiler, because they
//! make their objects here. Only the handlers of [`ash`] are compiled.

#![deny(unsafe_code)]

pub mod ash;
pub mod compile;
pub mod crossing;
pub mod far;
mod fork;
pub mod instance;
pub mod link;
mod objects;
pub mod tcp;

/// A measured operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Name, as in the JSON output.
    pub name: &'static str,
    /// Median, nanoseconds.
    pub nanoseconds: f64,
}

/// Returns the median, not a number without samples.
pub fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
