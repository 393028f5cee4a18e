//! Measurements that `sfi bench` runs on the user's machine. They need no compiler: the objects they load are made here.

#![forbid(unsafe_code)]

pub mod crossing;
mod objects;

/// A measured operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Name, as in the JSON output.
    pub name: &'static str,
    /// Median, nanoseconds.
    pub nanoseconds: f64,
}
