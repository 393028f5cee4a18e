//! The fuzzers' targets over their seeds, over fuzzers' finds (`fixtures/fuzz/NAME`), and over
//! damaged copies of both.

use libtest_mimic::{Arguments, Failed, Trial};
use sfi_contract::Mode;
use sfi_tests::build;
use sfi_tests::paths::fixture;
use sfi_tests::target::{TARGETS, Target};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Damaged copies of each input, at most.
const COPIES: u64 = 200;
/// Time limit of a target for damaged copies.
const PATIENCE: Duration = Duration::from_secs(8);

/// Programs of the corpus and their compiler flags. They include the longest heads of instructions.
const PROGRAMS: [(&str, &str); 4] =
    [("string_ops", "x86-64"), ("callbacks", "x86-64"), ("computed_goto", "x86-64-v3"), ("matmul", "x86-64-v4")];

fn main() -> ExitCode {
    let trials = TARGETS.iter().map(|target| Trial::test(target.name, move || run(target)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn run(target: &Target) -> Result<(), Failed> {
    let inputs = inputs(target.name)?;
    if inputs.len() < 3 {
        return Err(format!("{} inputs for {}", inputs.len(), target.name).into());
    }
    for input in &inputs {
        (target.run)(input);
    }
    let (start, mut random, mut tried) = (Instant::now(), 0x9e37_79b9_7f4a_7c15u64, 0);
    for copy in 0..COPIES {
        for input in inputs.iter().filter(|i| !i.is_empty()) {
            if start.elapsed() > PATIENCE {
                break;
            }
            let mut damaged = input.clone();
            for _ in 0..=copy % 4 {
                // xorshift64
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = (random >> 8) as usize % damaged.len();
                damaged[at] = random as u8;
            }
            (target.run)(&damaged);
            tried += 1;
        }
    }
    println!("{}: {} inputs, {tried} damaged copies", target.name, inputs.len());
    if tried >= 50 { Ok(()) } else { Err(format!("only {tried} copies in {PATIENCE:?}").into()) }
}

/// Returns the files of the folder. For the targets that take objects, adds programs that are
/// compiled now, as they are or rewritten.
fn inputs(name: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(fixture(&format!("fuzz/{name}")))? {
        inputs.push(std::fs::read(entry?.path())?);
    }
    if name != "manifest" {
        for (index, (program, cpu)) in PROGRAMS.into_iter().enumerate() {
            let object = build::object(&format!("{program}.c"), &["-O3", "-fPIE", &format!("-march={cpu}")])?;
            let mode = Mode::ALL[index % 2];
            inputs.push(match name {
                "rewriter" => object,
                _ => {
                    sfi_rewriter::rewrite(&object, &sfi_rewriter::Options { mode, ..Default::default() })
                        .map_err(|r| anyhow::anyhow!("{}", r[0]))?
                        .bytes
                }
            });
        }
    }
    Ok(inputs)
}
