//! Rewrites objects with each mistake in turn and names the part that notices:
//!
//! ```text
//! planted MISTAKES STEP FILE...
//! ```

use sfi_rewriter::{Mode, Options, PLANTED, Trace};
use sfi_validator::Verdict;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// An object, and how it is rewritten without a mistake.
struct Case {
    name: String,
    options: Options,
    original: Vec<u8>,
    /// Nothing if the rewriter refuses the object. A mistake may then accept it.
    right: Option<(Vec<u8>, Vec<Trace>)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().unwrap();
    let (count, step) = (number(0), number(1));
    let mut cases = Vec::new();
    for name in &arguments[2..] {
        let original = std::fs::read(name).unwrap();
        let name = Path::new(name).file_name().unwrap().to_string_lossy();
        // Small objects are about single instructions and run in every mode.
        let modes: &[Mode] = if original.len() < 6000 { &Mode::ALL } else { &[Mode::Write] };
        for &mode in modes {
            let options = Options { mode, ..Options::default() };
            let right = sfi_rewriter::rewrite(&original, &options).ok();
            let right = right.map(|output| (output.bytes, output.traces));
            if let Some((bytes, traces)) = &right {
                // An object that is not proved without a mistake cannot show one.
                let proof = sfi_validator::validate(&original, bytes, traces);
                assert!(proof.holds(), "{name} in mode {} is not proved", mode.name());
            }
            cases.push(Case { name: name.to_string(), options, original: original.clone(), right });
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    for mistake in (0..count).step_by(step) {
        PLANTED.store(mistake + 1, Relaxed);
        // A thread of its own remembers no effects of instructions from before the mistake.
        let judged = std::thread::scope(|scope| scope.spawn(|| judge(&cases)).join());
        println!("{mistake}\t{}", judged.unwrap());
    }
}

/// Returns the part that notices first, and the object. The validator looks before the verifier.
fn judge(cases: &[Case]) -> String {
    let (mut changed, mut refused, mut unproved) = (0, 0, None);
    for case in cases {
        let at = |who: &str| format!("{who}\t{} {}", case.name, case.options.mode.name());
        let result = catch_unwind(AssertUnwindSafe(|| {
            sfi_rewriter::rewrite(&case.original, &case.options)
        }));
        let output = match result {
            Err(_) => return at("rewriter stops"),
            Ok(Err(_)) => {
                refused += usize::from(case.right.is_some());
                continue;
            }
            Ok(Ok(output)) => output,
        };
        let same = |a: &[Trace], b: &[Trace]| format!("{a:?}") == format!("{b:?}");
        let right = |(bytes, traces): &(_, Vec<Trace>)| output.bytes == *bytes && same(&output.traces, traces);
        if case.right.as_ref().is_some_and(right) {
            continue;
        }
        changed += 1;
        let proof = sfi_validator::validate(&case.original, &output.bytes, &output.traces);
        match proof.findings.iter().map(|f| (f.verdict, f.what.clone())).max_by_key(|f| f.0) {
            Some((Verdict::Wrong, what)) => return format!("{}\t{what}", at("validator")),
            Some((_, what)) => unproved = Some(format!("{}\t{what}", at("validator, unproved"))),
            None => {}
        }
        let options = sfi_verifier::Options { mode: case.options.mode, ..Default::default() };
        match sfi_verifier::verify(&output.bytes, &options) {
            Ok(report) if report.violations.is_empty() => {}
            Ok(report) => return format!("{}\t{}", at("verifier"), report.violations[0].rule.id()),
            Err(_) => return at("verifier"),
        }
    }
    match (unproved, changed, refused) {
        (Some(unproved), ..) => unproved,
        (None, 0, 0) => "no object changes".to_owned(),
        (None, 0, _) => "only refusals".to_owned(),
        _ => format!("NOBODY\t{changed} objects change"),
    }
}
