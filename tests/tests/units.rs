//! Random translation units that stress conventions behave in a domain as natively.
//!
//! `SFI_UNITS` and `SFI_UNITS_SEED` choose the units.

use sfi_tests::units::random_unit;

/// The number of units, unless `SFI_UNITS` gives another.
const UNITS: u64 = 100;

#[test]
fn random_units_do_the_same_in_a_domain() {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}: {e}")),
        Err(_) => default,
    };
    let (count, first) = (number("SFI_UNITS", UNITS), number("SFI_UNITS_SEED", 1));
    let (mut compared, mut failures) = (0, Vec::new());
    for seed in first..first + count {
        match random_unit(seed) {
            Ok(taken) => compared += u64::from(taken),
            Err(error) => failures.push(format!("unit {seed}: {error:#}")),
        }
    }
    println!("{compared} of {count} units compared, the others are refused");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(compared * 4 >= count, "only {compared} of {count}");
}
