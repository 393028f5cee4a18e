//! Every number in the tables of relocations, symbols and sections at its ends: the rewriter refuses or rewrites, and does not panic where
//! sums are checked for overflow, as in this build.

use sfi_rewriter::{Mode, Options, rewrite};
use std::path::Path;
use std::process::Command;

const EXTREMES: [u64; 5] = [0, 1 << 63, i64::MAX as u64, u64::MAX, 0xffff_fffc];

fn compile(source: &str, options: &[&str]) -> Vec<u8> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let folder = tempfile::tempdir().expect("temporary directory");
    let out = folder.path().join("a.o");
    let mut gcc = Command::new("gcc");
    gcc.args(["-c", "-w", "-I"]).arg(fixtures.join("rt")).args(options).arg(fixtures.join(source)).arg("-o").arg(&out);
    assert!(gcc.status().expect("gcc is needed: install the package `gcc`").success(), "{source} does not compile");
    std::fs::read(out).expect("object")
}

fn word(object: &[u8], at: usize) -> usize {
    u64::from_le_bytes(object[at..at + 8].try_into().expect("8 bytes")) as usize
}

/// Where the object has numbers of 64 bits: offsets and addends of relocations, values and sizes of symbols, sizes, alignments and so on of
/// sections.
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

fn try_all(object: &[u8]) {
    let (mut rewritten, mut refused) = (0, 0);
    for at in numbers(object) {
        for value in EXTREMES {
            let mut changed = object.to_vec();
            changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
            for mode in Mode::ALL {
                match rewrite(&changed, &Options { mode }) {
                    Ok(_) => rewritten += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    println!("{rewritten} rewritten, {refused} refused");
    assert!(rewritten > 50 && refused > 50, "{rewritten} rewritten, {refused} refused");
}

#[test]
fn of_switch_tables_with_debug_information() {
    try_all(&compile("corpus/switch_tables.c", &["-O2", "-g", "-fPIC"]));
}

#[test]
fn of_computed_jumps() {
    try_all(&compile("corpus/computed_goto.c", &["-O2", "-fno-pic", "-mcmodel=large"]));
}

#[test]
fn of_exception_tables() {
    try_all(&compile("corpus/shapes.cpp", &["-O1", "-g", "-fPIC"]));
}

#[test]
fn of_functions_chosen_at_load_time() {
    try_all(&compile("corpus/ifunc.c", &["-O2", "-fPIE"]));
}

#[test]
fn of_thread_locals() {
    try_all(&compile("corpus/tls/main.c", &["-O2", "-fPIC", "-ftls-model=global-dynamic"]));
}
