//! Every number in the tables of relocations, symbols and sections at the ends of its range. The
//! rewriter rewrites or refuses, the verifier and the loader accept or refuse, and nothing panics,
//! although this build checks sums for overflow.

use sfi_rewriter::{Mode, Options, rewrite};
use sfi_tests::build;
use sfi_tests::target;

const EXTREMES: [u64; 5] = [0, 1 << 63, i64::MAX as u64, u64::MAX, 0xffff_fffc];

fn word(object: &[u8], at: usize) -> usize {
    u64::from_le_bytes(object[at..at + 8].try_into().expect("8 bytes")) as usize
}

/// Returns the offsets of the object's 64-bit numbers: offsets and addends of relocations, values
/// and sizes of symbols, sizes, alignments and similar fields of sections.
fn numbers(object: &[u8]) -> Vec<usize> {
    const SYMTAB: u8 = 2;
    const RELA: u8 = 4;
    let mut numbers = Vec::new();
    for header in (word(object, 40)..object.len()).step_by(64) {
        numbers.extend([8, 16, 24, 32, 48, 56].map(|field| header + field));
        let entries = (word(object, header + 24)..).step_by(24).take(word(object, header + 32) / 24);
        match object[header + 4] {
            SYMTAB => numbers.extend(entries.flat_map(|entry| [entry + 8, entry + 16])),
            RELA => numbers.extend(entries.flat_map(|entry| [entry, entry + 16])),
            _ => {}
        }
    }
    numbers
}

/// Returns the object with each of its numbers at each end.
fn changed(object: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let places = numbers(object).into_iter().flat_map(|at| EXTREMES.map(|value| (at, value)));
    places.map(|(at, value)| {
        let mut changed = object.to_vec();
        changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
        changed
    })
}

fn try_all(source: &str, options: &[&str]) {
    let object = &build::object(source, options).expect("it compiles");
    let (mut rewritten, mut refused) = (0, 0);
    for changed in changed(object) {
        for mode in Mode::ALL {
            match rewrite(&changed, &Options { mode, ..Default::default() }) {
                Ok(_) => rewritten += 1,
                Err(_) => refused += 1,
            }
        }
    }
    println!("{rewritten} rewritten, {refused} refused");
    assert!(rewritten > 50 && refused > 50, "{rewritten} rewritten, {refused} refused");
    let output =
        rewrite(object, &Options { mode: Mode::Write, ..Default::default() }).expect("it is rewritten as it is");
    for changed in changed(&output.bytes) {
        target::verifier(&changed);
        target::loader(&changed);
    }
}

#[test]
fn of_switch_tables_with_debug_information() {
    try_all("switch_tables.c", &["-O2", "-g", "-fPIC"]);
}

#[test]
fn of_computed_jumps() {
    try_all("computed_goto.c", &["-O2", "-fno-pic", "-mcmodel=large"]);
}

#[test]
fn of_exception_tables() {
    try_all("shapes.cpp", &["-O1", "-g", "-fPIC"]);
}

#[test]
fn of_functions_chosen_at_load_time() {
    try_all("ifunc.c", &["-O2", "-fPIE"]);
}

#[test]
fn of_thread_locals() {
    try_all("tls/main.c", &["-O2", "-fPIC", "-ftls-model=global-dynamic"]);
}
