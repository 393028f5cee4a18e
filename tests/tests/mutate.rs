//! Objects that the verifier accepts, damaged a few thousand times each: bytes of text,
//! relocations, symbols, section headers, anything. The verifier must not panic. A second opinion
//! ([`naive`]), written independently, judges every mutant that is still accepted. Accepted mutants
//! are then loaded and run.
//!
//! `SFI_MUTANTS` sets the number of copies of each object; `cargo xtask soak` tries millions.
//!
//! The damage is drawn from a fixed seed. A failure names the object, its number and the damage,
//! and can be repeated.

mod forge;
mod inmate;
mod naive;

use forge::Elf;
use libtest_mimic::{Arguments, Failed, Trial};
use sfi_contract::Mode;
use sfi_tests::random::Random;
use sfi_verifier::{Options, verify};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Mutants of each object, unless `SFI_MUTANTS` says otherwise.
const MUTANTS: u64 = 2000;
/// Time limit of all objects together for each [`MUTANTS`] of them, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Programs of the corpus that are rewritten and damaged.
const PROGRAMS: [&str; 6] = ["string_ops", "callbacks", "avx512", "computed_goto", "atomics", "cold"];

/// Accepted mutants of each object that are run, for each [`MUTANTS`].
const RUN: usize = 40;

/// Returns the number of mutants of each object.
fn mutants() -> u64 {
    let text = std::env::var("SFI_MUTANTS").ok();
    text.map_or(MUTANTS, |n| n.parse().expect("SFI_MUTANTS is a number")).max(MUTANTS)
}

fn main() -> ExitCode {
    if let Some(folder) = std::env::var_os(inmate::FOLDER) {
        return inmate::main(Path::new(&folder));
    }
    let tests: &[(&str, fn())] = &[
        ("the_second_opinion_is_one", the_second_opinion_is_one),
        ("mutants_are_refused_or_harmless", mutants_are_refused_or_harmless),
        ("accepted_mutants_stay_inside", accepted_mutants_stay_inside),
    ];
    let trials = tests.iter().map(|(name, test)| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok::<(), Failed>(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// An accepted object.
struct Original {
    name: String,
    mode: Mode,
    bytes: Vec<u8>,
}

/// Returns all fixtures that are accepted as objects, and rewritten programs in both modes.
fn originals(folder: &str) -> Vec<Original> {
    let mut all = Vec::new();
    for fixture in forge::fixtures("accepted").expect("the fixtures can be read") {
        if fixture.text.is_none() {
            let bytes = fixture.build(folder).expect("the fixture builds");
            all.push(Original { name: fixture.name, mode: fixture.mode, bytes });
        }
    }
    for (name, bytes) in programs(folder) {
        for mode in [Mode::Write, Mode::Full] {
            let options = sfi_rewriter::Options { mode, ..Default::default() };
            match sfi_rewriter::rewrite(&bytes, &options) {
                Ok(output) => all.push(Original { name: format!("{name}-{mode}"), mode, bytes: output.bytes }),
                Err(refusals) => panic!("{name}: {}", refusals[0]),
            }
        }
    }
    all
}

fn programs(folder: &str) -> Vec<(&'static str, Vec<u8>)> {
    compile(folder, "corpus", &PROGRAMS)
}

fn compile(folder: &str, from: &str, names: &[&'static str]) -> Vec<(&'static str, Vec<u8>)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&out).expect("a folder");
    let compile = |name: &'static str| {
        let object = out.join(format!("{name}.o"));
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-march=x86-64-v4", "-c", "-I"]).arg(fixtures.join("rt"));
        gcc.arg(fixtures.join(from).join(format!("{name}.c"))).arg("-o").arg(&object);
        let run = gcc.output().expect("gcc is needed for this test");
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        (name, std::fs::read(object).expect("the object"))
    };
    names.iter().copied().map(compile).collect()
}

/// Bytes with a meaning for a decoder.
const TELLING: [u8; 40] = [
    0x00, 0x01, 0x04, 0x05, 0x0f, 0x10, 0x24, 0x25, 0x26, 0x2e, 0x36, 0x3e, 0x40, 0x41, 0x48, 0x4f, 0x62, 0x64, 0x65,
    0x66, 0x67, 0x80, 0x89, 0x8b, 0x90, 0xa4, 0xaa, 0xc3, 0xc4, 0xc5, 0xcc, 0xcd, 0xe8, 0xe9, 0xeb, 0xf0, 0xf2, 0xf3,
    0xff, 0x7f,
];

/// Damages a copy in one to three places. Returns a description of the damage.
fn mutate(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = original.to_vec();
    let elf = Elf(original);
    let sections: Vec<usize> = (1..elf.sections()).collect();
    let of_type = |kinds: &[u64]| -> Vec<usize> {
        let wanted = |i: &usize| kinds.contains(&elf.section_field(*i, "type")) && !elf.bytes(*i).is_empty();
        sections.iter().copied().filter(wanted).collect()
    };
    let texts: Vec<usize> = sections
        .iter()
        .copied()
        .filter(|i| elf.section_field(*i, "flags") & 4 != 0 && !elf.bytes(*i).is_empty())
        .collect();
    let mut done = Vec::new();
    for _ in 0..=random.below(3) {
        let (at, new, what) = match random.below(10) {
            0..=5 if !texts.is_empty() => text_damage(&elf, random.pick(&texts), original, random),
            6 if !of_type(&[4]).is_empty() => {
                let table = elf.bytes(random.pick(&of_type(&[4])));
                let entry = table.start + random.below(table.len() / 24) * 24;
                match random.below(4) {
                    0 => (entry, nudge(original, entry, 8, random), "relocation offset"),
                    1 => (entry + 8, vec![random.below(45) as u8], "relocation type"),
                    2 => (entry + 12, vec![random.below(32) as u8], "relocation symbol"),
                    _ => (entry + 16, nudge(original, entry + 16, 8, random), "relocation addend"),
                }
            }
            7 if !of_type(&[2]).is_empty() => {
                let table = elf.bytes(random.pick(&of_type(&[2])));
                let entry = table.start + random.below(table.len() / 24) * 24;
                match random.below(4) {
                    0 | 1 => (entry + 8, nudge(original, entry + 8, 8, random), "symbol value"),
                    2 => (entry + 4, vec![random.next() as u8], "symbol info"),
                    _ => (entry + 6, vec![random.below(elf.sections() + 1) as u8], "symbol section"),
                }
            }
            8 => {
                let header = elf.header(random.pick(&sections));
                match random.below(8) {
                    0 => (header + 4, vec![random.below(20) as u8], "section type"),
                    1 => (header + 8, vec![random.next() as u8], "section flags"),
                    2 => (header + 24, nudge(original, header + 24, 8, random), "section offset"),
                    3 => (header + 32, nudge(original, header + 32, 8, random), "section size"),
                    4 => (header + 40, vec![random.below(elf.sections() + 1) as u8], "section link"),
                    5 => (header + 44, vec![random.below(elf.sections() + 1) as u8], "section info"),
                    6 => (header + 48, vec![random.next() as u8], "section alignment"),
                    _ => (header + 56, vec![random.next() as u8], "section entry size"),
                }
            }
            _ => (random.below(bytes.len()), vec![random.next() as u8], "any byte"),
        };
        if let Some(place) = bytes.get_mut(at..at + new.len()) {
            place.copy_from_slice(&new);
            done.push(format!("{what} at file offset {at:#x} = {new:02x?}"));
        }
    }
    (bytes, done.join(", "))
}

fn text_damage(elf: &Elf<'_>, section: usize, original: &[u8], random: &mut Random) -> (usize, Vec<u8>, &'static str) {
    let range = elf.bytes(section);
    let at = range.start + random.below(range.len());
    match random.below(6) {
        0 => (at, vec![original[at] ^ 1 << random.below(8)], "text bit"),
        1 => (at, vec![random.next() as u8], "text byte"),
        2 | 3 => (at, vec![random.pick(&TELLING)], "text byte"),
        4 => {
            // A short run from elsewhere in the text, often of whole instructions.
            let from = range.start + random.below(range.len());
            let length = (1 + random.below(12)).min(range.end - at).min(range.end - from);
            (at, original[from..from + length].to_vec(), "text copied")
        }
        // Everything moves by one byte, and prefixes vanish.
        _ => (at, original[(at + 1).min(range.end - 1)..range.end].iter().take(14).copied().collect(), "text shifted"),
    }
}

/// Returns a word with a small or a wild change.
fn nudge(original: &[u8], at: usize, width: usize, random: &mut Random) -> Vec<u8> {
    let mut word = [0; 8];
    word[..width].copy_from_slice(&original[at..at + width]);
    let old = u64::from_le_bytes(word);
    let new = match random.below(4) {
        0 | 1 => old.wrapping_add(random.pick(&[1, 2, 3, 4, 8, u64::MAX, u64::MAX - 1, u64::MAX - 3])),
        2 => random.next() & 0x3f,
        _ => random.next(),
    };
    new.to_le_bytes()[..width].to_vec()
}

/// Computes the object's own seed, independent of the other objects (FNV-1a).
fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// One mutant.
struct Mutant {
    number: u64,
    bytes: Vec<u8>,
    what: String,
}

/// Returns the accepted mutants of one object. Fails if the verifier panics. Lists differences of
/// opinion.
fn accepted(original: &Original, seed: u64, count: u64, differences: &mut Vec<String>) -> Vec<Mutant> {
    let mut random = Random(seed);
    let mut kept = Vec::new();
    for number in 0..count {
        let (bytes, what) = mutate(&original.bytes, &mut random);
        let place = || format!("{} mutant {number} (seed {seed}): {what}", original.name);
        let mut safe = false;
        for mode in [Mode::Write, Mode::Full] {
            let options = Options { mode, ..Options::default() };
            let answer =
                catch_unwind(AssertUnwindSafe(|| verify(&bytes, &options).is_ok_and(|report| report.is_safe())));
            let Ok(answer) = answer else { panic!("the verifier panicked: {}", place()) };
            if answer && let Err(why) = naive::judge(&bytes, mode) {
                let path =
                    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutate/difference-{}.o", differences.len()));
                std::fs::write(&path, &bytes).expect("the mutant can be kept");
                differences.push(format!(
                    "accepted for mode {mode}, but {why}\n  {}\n  kept in {}",
                    place(),
                    path.display()
                ));
            }
            safe |= answer && mode == original.mode;
        }
        if safe && bytes != original.bytes {
            kept.push(Mutant { number, bytes, what });
        }
    }
    kept
}

/// The second opinion accepts the originals, and refuses the hostile objects about instructions.
fn the_second_opinion_is_one() {
    for original in originals("opinion") {
        let options = Options { mode: original.mode, ..Options::default() };
        let report = verify(&original.bytes, &options).expect("readable");
        assert!(report.is_safe(), "{}: {:?}", original.name, report.violations);
        naive::judge(&original.bytes, original.mode).unwrap_or_else(|why| panic!("{}: {why}", original.name));
    }
    // The oracle need not see objects that are refused for other reasons than an escape (not
    // reviewed, not canonical, container). Nor in mode match: a check names a wrong address, and
    // the store after it is confined without the check. Nor a way around a charge of a budget:
    // nothing escapes, it only takes longer.
    let escapes = [
        "SFI-S01", "SFI-S02", "SFI-S03", "SFI-S04", "SFI-L01", "SFI-L02", "SFI-L03", "SFI-C01", "SFI-C02", "SFI-B01",
        "SFI-B02", "SFI-I01", "SFI-F01", "SFI-F02",
    ];
    let mut missed = Vec::new();
    let mut seen = 0;
    for fixture in forge::fixtures("hostile").expect("the fixtures can be read") {
        if fixture.text.is_none()
            && fixture.mode != Mode::Match
            && fixture
                .expect
                .iter()
                .any(|rule| escapes.contains(&rule.as_str()) && !(fixture.budget && rule == "SFI-B02"))
        {
            let bytes = fixture.build("opinion").expect("the fixture builds");
            seen += 1;
            if naive::judge(&bytes, fixture.mode).is_ok() {
                missed.push(fixture.name);
            }
        }
    }
    assert!(seen > 200, "{seen} hostile objects");
    assert!(missed.is_empty(), "the second opinion accepts {missed:?}");
}

fn mutants_are_refused_or_harmless() {
    let start = Instant::now();
    let (mut tried, mut kept, mut differences) = (0, 0, Vec::new());
    let (each, patience) = (mutants(), PATIENCE * (mutants() / MUTANTS) as u32);
    for original in &originals("mutate") {
        kept += accepted(original, seed(&original.name), each, &mut differences).len() as u64;
        tried += each;
        assert!(start.elapsed() < patience, "{tried} mutants took {:?}: the verifier is slow on some", start.elapsed());
    }
    assert!(
        differences.is_empty(),
        "{} differences\n{}",
        differences.len(),
        differences[..differences.len().min(2000)].join("\n")
    );
    println!("{tried} mutants, {kept} still accepted, {:?}", start.elapsed());
    assert!(tried >= 100_000 && kept > 1000, "{tried} tried, {kept} accepted: the damage is not the right kind");
}

/// Returns the rewritten runtime and the assembled sibling, as files by mode.
fn company(folder: &str) -> BTreeMap<inmate::ModeName, Vec<PathBuf>> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let sources = compile(folder, "rt", &["string", "malloc", "printf", "stdlib", "abort"]);
    let sibling = out.join("sibling.s");
    let text = ".text\n.globl sum\n.type sum, @function\nsum: lea (%rdi,%rsi), %rax\nret\n.data\n.globl pattern\npattern: .skip 65536\n";
    std::fs::write(&sibling, text).expect("a file");
    forge::assemble(&sibling, &out.join("sibling.o")).expect("it assembles");
    let mut files = BTreeMap::new();
    for mode in [Mode::Write, Mode::Full, Mode::Match] {
        let mut paths = Vec::new();
        for (name, object) in &sources {
            let path = out.join(format!("rt-{name}-{mode}.o"));
            let rewritten = sfi_rewriter::rewrite(object, &sfi_rewriter::Options { mode, ..Default::default() });
            std::fs::write(&path, rewritten.unwrap_or_else(|r| panic!("{name}: {}", r[0])).bytes).expect("a file");
            paths.push(path);
        }
        files.insert(inmate::ModeName(mode.name()), paths);
    }
    files
}

/// Loads mutants that the verifier still accepts and calls their functions. Takes a few of each
/// object, those with damaged text first.
fn accepted_mutants_stay_inside() {
    let company = company("company");
    let mut jobs = Vec::new();
    let run = RUN * (mutants() / MUTANTS) as usize;
    for original in &originals("inmates") {
        let mut mutants = accepted(original, !seed(&original.name), mutants() / 4, &mut Vec::new());
        mutants.sort_by_key(|mutant| (!mutant.what.contains("text"), mutant.number));
        for mutant in mutants.into_iter().take(run) {
            let what = format!("{} mutant {}: {}", original.name, mutant.number, mutant.what);
            jobs.push(inmate::Job { mode: original.mode, object: mutant.bytes, what });
        }
        jobs.push(inmate::Job { mode: original.mode, object: original.bytes.clone(), what: original.name.clone() });
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inmates-run");
    let sibling = Path::new(env!("CARGO_TARGET_TMPDIR")).join("company/sibling.o");
    let tally = inmate::run(&folder, &jobs, &company, &sibling);
    println!("{} jobs: {tally:?}", jobs.len());
    assert_eq!(tally.refused + tally.ran + tally.hung, jobs.len() as u64, "every job is accounted for");
    assert!(tally.ran >= 500 && tally.returned >= 500 && tally.faulted >= 500, "too few ran: {tally:?}");
}
