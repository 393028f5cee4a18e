//! Random compositions do what their pipes do one by one.
//!
//! `SFI_DILP_CASES` and `SFI_DILP_SEED` choose the number of compositions and the first seed.

mod support;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sfi_contract::Mode;
use sfi_dilp::{ComposeError, Features, Options, Pipe, Sink, Transfer, interpret};
use support::{Domain, MODES, features, random};

/// Compositions in one domain.
const BATCH: usize = 250;
/// Runs of each composition.
const RUNS: usize = 3;

struct Case {
    pipes: Vec<Pipe>,
    transfer: Transfer,
    options: Options,
}

fn case(rng: &mut impl Rng, mode: Mode, features: &[Features], number: usize) -> Case {
    loop {
        let pipes = random::pipes(rng);
        let features = features[rng.random_range(0..features.len())];
        let sink = if rng.random_bool(0.1) { Sink::Drop } else { Sink::Store };
        let options = Options { mode, features, sink, budget: false };
        match Transfer::compose(format!("case{number}"), &pipes, &options) {
            Ok(transfer) => return Case { pipes, transfer, options },
            // Gauges that do not fit each other are refused, and the next pipes are tried.
            Err(ComposeError::Unit) => {}
            Err(error) => panic!("{error}: {pipes:?}"),
        }
    }
}

fn run(domain: &mut Domain, rng: &mut impl Rng, case: &Case) -> anyhow::Result<()> {
    let mut source = vec![0; random::length(rng)];
    rng.fill_bytes(&mut source);
    let registers: Vec<u64> = (0..case.transfer.registers()).map(|_| random::number(rng)).collect();
    let (mut expected, mut found) = (registers.clone(), registers.clone());
    let out = interpret(&case.pipes, &mut expected, &source);
    let shifts = [rng.random_range(0..64), rng.random_range(0..64)];
    let stored = domain.run(case.transfer.name(), shifts, &mut found, &source, out.len())?;
    let wanted = if case.options.sink == Sink::Drop { vec![0xa5; out.len()] } else { out };
    anyhow::ensure!(stored == wanted, "{} bytes differ from {:?}", source.len(), first(&stored, &wanted));
    anyhow::ensure!(found == expected, "{} bytes: registers {found:x?}, not {expected:x?}", source.len());
    Ok(())
}

fn first(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

fn batch(seed: u64, count: usize, vectors: &mut usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mode = MODES[(seed % 2) as usize];
    let features = features();
    let cases: Vec<Case> = (0..count).map(|number| case(&mut rng, mode, &features, number)).collect();
    *vectors += cases.iter().filter(|case| case.transfer.is_vector()).count();
    let mut domain = Domain::new(mode, cases.iter().map(|case| &case.transfer)).unwrap();
    for case in &cases {
        for _ in 0..RUNS {
            if let Err(error) = run(&mut domain, &mut rng, case) {
                let pipes: String = case.pipes.iter().map(Pipe::to_string).collect();
                panic!("seed {seed}, {:?}: {error:#}\n{pipes}\n{}", case.options, case.transfer.listing());
            }
        }
    }
}

#[test]
fn random_compositions_do_what_their_pipes_do() {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}: {e}")),
        Err(_) => default,
    };
    let (cases, seed) = (number("SFI_DILP_CASES", 3000) as usize, number("SFI_DILP_SEED", 1));
    let (mut done, mut vectors) = (0, 0);
    for seed in seed.. {
        let count = BATCH.min(cases - done);
        if count == 0 {
            break;
        }
        batch(seed, count, &mut vectors);
        done += count;
    }
    println!("{done} compositions, {vectors} of them with vectors");
    assert!(!std::is_x86_feature_detected!("avx2") || vectors * 10 > done, "only {vectors} with vectors");
}
