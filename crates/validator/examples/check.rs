//! Rewrites objects and members of archives, and validates the results: `check [--mode MODE]
//! [--budget] [--no-saves] [--each] [--limit FINDINGS] [--refused REFUSALS] FILE...`. With
//! `--no-saves` functions save registers in their frames, and with `--each` it prints the outcome
//! of each object.
use object::read::archive::ArchiveFile;
use sfi_rewriter::{Mode, Options};
use std::time::{Duration, Instant};

fn main() {
    let mut mode = Mode::Write;
    let (mut limit, mut refused) = (5usize, 0usize);
    let (mut budget, mut no_saves, mut each) = (false, false, false);
    let mut totals = [0usize; 4];
    let (mut rewriting, mut validating) = (Duration::ZERO, Duration::ZERO);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--mode" {
            mode = arguments.next().unwrap().parse().unwrap();
            continue;
        }
        let flag = match argument.as_str() {
            "--budget" => Some(&mut budget),
            "--no-saves" => Some(&mut no_saves),
            "--each" => Some(&mut each),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            continue;
        }
        if argument == "--limit" {
            limit = arguments.next().unwrap().parse().unwrap();
            continue;
        }
        if argument == "--refused" {
            refused = arguments.next().unwrap().parse().unwrap();
            continue;
        }
        let bytes = std::fs::read(&argument).unwrap();
        let mut one = |name: String, bytes: &[u8]| {
            let start = Instant::now();
            let output = match sfi_rewriter::rewrite(bytes, &Options { mode, budget, saves: !no_saves }) {
                Ok(output) => output,
                Err(refusals) => {
                    totals[3] += 1;
                    if each {
                        println!("{name}: refused");
                    }
                    refusals.iter().take(refused).for_each(|refusal| println!("## {name}: {refusal}"));
                    return;
                }
            };
            let rewritten = start.elapsed();
            let start = Instant::now();
            let proof = sfi_validator::validate(bytes, &output.bytes, &output.traces);
            let validated = start.elapsed();
            rewriting += rewritten;
            validating += validated;
            let worst = proof.findings.iter().map(|f| f.verdict).max();
            let (total, outcome) = match worst {
                None => (0, "proved"),
                Some(sfi_validator::Verdict::Unproved) => (1, "unproved"),
                Some(sfi_validator::Verdict::Wrong) => (2, "wrong"),
            };
            totals[total] += 1;
            if each {
                println!("{name}: {outcome}");
            }
            if !proof.findings.is_empty() {
                println!("## {name}: {} findings, {} functions proved", proof.findings.len(), proof.functions);
                for finding in proof.findings.iter().take(limit) {
                    println!("{finding}");
                }
            }
        };
        if let Ok(archive) = ArchiveFile::parse(&*bytes) {
            for member in archive.members() {
                let member = member.unwrap();
                let name = format!("{argument}({})", String::from_utf8_lossy(member.name()));
                one(name, member.data(&*bytes).unwrap());
            }
        } else {
            one(argument, &bytes);
        }
    }
    println!("proved {} unproved {} wrong {} refused {}", totals[0], totals[1], totals[2], totals[3]);
    println!("rewriting {rewriting:?} validating {validating:?}");
}
