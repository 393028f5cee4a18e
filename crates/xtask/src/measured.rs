//! Measured figures in the form of docs/measured, which the plots are made from. The programs that
//! measure include this file.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The number of this form. Another form gets another number.
pub const SCHEMA: u32 = 1;

/// Speed and size of programs: `cargo xtask bench --json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    #[serde(deserialize_with = "this_form")]
    pub schema: u32,
    pub programs: Vec<Program>,
}

/// One program. Times and texts are ratios to the native program's, by the way of building.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub name: String,
    pub native_ms: f64,
    /// `None`: it could not be built so.
    pub time: BTreeMap<String, Option<f64>>,
    pub text: BTreeMap<String, f64>,
}

/// Objects of static archives that are rewritten: `cargo xtask coverage --write`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    #[serde(deserialize_with = "this_form")]
    pub schema: u32,
    /// The first mode has its archives.
    pub modes: Vec<Sums>,
}

/// The sums of a mode.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    pub mode: String,
    pub objects: usize,
    pub rewritten: usize,
    pub verified: usize,
    /// `None`: the run left out the proofs.
    pub proved: Option<usize>,
    /// Refused objects by the code of the first refusal.
    pub refused: BTreeMap<String, usize>,
    pub seconds: f64,
    /// Text after rewriting to text before.
    pub text: Option<f64>,
    pub archives: Vec<Archive>,
}

/// One archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    pub package: String,
    pub archive: String,
    pub objects: usize,
    pub rewritten: usize,
    pub verified: usize,
    pub proved: Option<usize>,
    pub refused: BTreeMap<String, usize>,
    pub seconds: f64,
    pub text: Option<f64>,
}

/// Returns a number as a table has it, with some digits after the point. A half, as in 1.0625, goes
/// to the even digit there.
pub fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Writes figures, a record to a line.
///
/// # Errors
/// A figure is no number.
pub fn write(figures: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string(figures)?.replace("},{", "},\n{") + "\n")
}

/// Reads figures.
///
/// # Errors
/// The text is no JSON of this form.
pub fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}

/// Reads the number of the form.
///
/// # Errors
/// It is another form.
pub fn this_form<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(from)?;
    if found == SCHEMA { Ok(found) } else { Err(D::Error::custom(format!("form {found} is not {SCHEMA}"))) }
}
