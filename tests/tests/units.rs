//! Random translation units that stress conventions behave in a domain as natively.
//!
//! `SFI_UNITS` and `SFI_UNITS_SEED` choose the units, `SFI_UNITS_COMPILERS` the compilers.

use rayon::prelude::*;
use sfi_tests::units::{BATCH, Fared, batch};

/// The number of units, unless `SFI_UNITS` gives another.
const UNITS: u64 = 1000;

#[test]
fn random_units_do_the_same_in_a_domain() {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}: {e}")),
        Err(_) => default,
    };
    let (count, first) = (number("SFI_UNITS", UNITS), number("SFI_UNITS_SEED", 0));
    let compilers = std::env::var("SFI_UNITS_COMPILERS").unwrap_or_else(|_| "gcc,clang".to_owned());
    let compilers: Vec<&str> = compilers.split(',').collect();
    let batches = first / BATCH..(first + count).div_ceil(BATCH);
    let results: Vec<_> = batches.into_par_iter().map(|number| batch(number, &compilers)).collect();
    let all = results.len();
    let fared = |how: Fared| results.iter().filter(|r| matches!(r, Ok(f) if *f == how)).count();
    let (same, proved, refused) = (fared(Fared::Same), fared(Fared::Proved), fared(Fared::Refused));
    println!("of {all} programs of {BATCH} units {same} compared, {proved} only proved, {refused} refused");
    let failures: Vec<String> = results.iter().filter_map(|r| r.as_ref().err()).map(|e| format!("{e:#}")).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(refused * 5 <= all, "{refused} of {all} are refused");
}
