//! The verifier's speed on real text: `cargo run --release -p sfi-benches --example verify --
//! [--only=WORDS] [ARCHIVE...]`.
//!
//! The members of static archives are rewritten. The results are verified in memory on one core, in
//! rounds that take turns with the bare decoders, and then on all cores. The example prints MB of
//! text per second: the median and the best round.

use anyhow::Context;
use rayon::prelude::*;
use sfi_contract::Mode;
use sfi_verifier::{Options, Verifier};
use std::time::Instant;

const DEFAULT: [&str; 3] = ["libcrypto.a", "libsqlite3.a", "libc.a"];
const ROUNDS: usize = 15;

/// A rewritten object.
struct Rewritten {
    bytes: Vec<u8>,
    text: Vec<Vec<u8>>,
}

fn rewritten(path: &str) -> anyhow::Result<Vec<Rewritten>> {
    use object::read::archive::ArchiveFile;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{path}`"))?;
    let archive = ArchiveFile::parse(&*bytes)?;
    let members: Vec<&[u8]> = archive.members().map(|m| m?.data(&*bytes)).collect::<Result<_, _>>()?;
    let options = sfi_rewriter::Options { mode: Mode::Write, ..Default::default() };
    let objects = members.par_iter().filter_map(|member| sfi_rewriter::rewrite(member, &options).ok());
    objects.map(|output| Ok(Rewritten { text: text(&output.bytes)?, bytes: output.bytes })).collect()
}

/// Returns the contents of an object's executable sections.
fn text(bytes: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let object = sfi_verifier::elf::parse(bytes)?;
    Ok(object.sections.iter().filter(|s| s.is_executable()).map(|s| s.data.to_vec()).collect())
}

/// Returns the seconds that this thread has run. Other work of the machine does not count.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the seconds that a round takes, by this thread's time or by the wall clock.
fn time(on_the_wall: bool, round: impl FnOnce()) -> f64 {
    let wall = Instant::now();
    let start = cpu();
    round();
    if on_the_wall { wall.elapsed().as_secs_f64() } else { cpu() - start }
}

fn bare_iced(objects: &[Rewritten]) {
    let mut instruction = iced_x86::Instruction::default();
    for text in objects.iter().flat_map(|o| &o.text) {
        let mut decoder = iced_x86::Decoder::with_ip(64, text, 0, iced_x86::DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            std::hint::black_box(&instruction);
        }
    }
}

fn bare_yaxpeax(objects: &[Rewritten]) {
    let decoder = yaxpeax_x86::long_mode::InstDecoder::default();
    for text in objects.iter().flat_map(|o| &o.text) {
        let mut at = 0;
        while at < text.len() {
            let end = text.len().min(at + 15);
            let length = match decoder.decode_slice(&text[at..end]) {
                Ok(instruction) => {
                    std::hint::black_box(&instruction);
                    instruction_length(&instruction)
                }
                Err(_) => 1,
            };
            at += length;
        }
    }
}

fn instruction_length(instruction: &yaxpeax_x86::long_mode::Instruction) -> usize {
    use yaxpeax_arch::LengthedInstruction;
    instruction.len().to_const() as usize
}

fn verify(verifier: &mut Verifier, object: &Rewritten) {
    let report = verifier.verify(&object.bytes).expect("readable");
    assert!(report.is_safe(), "{:#?}", report.violations);
}

fn all(objects: &[Rewritten], options: &Options) {
    let mut verifier = Verifier::new(options);
    objects.iter().for_each(|object| verify(&mut verifier, object));
}

fn all_cores(objects: &[Rewritten], options: &Options) {
    objects.par_iter().for_each_init(|| Verifier::new(options), verify);
}

fn main() -> anyhow::Result<()> {
    let (only, mut paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--only="));
    if paths.is_empty() {
        paths = DEFAULT.iter().map(|name| format!("/usr/lib/x86_64-linux-gnu/{name}")).collect();
    }
    let both = Options::default();
    let one = Options { second: false, ..both };
    for path in &paths {
        let objects = rewritten(path)?;
        let bytes: usize = objects.iter().flat_map(|o| &o.text).map(Vec::len).sum();
        let rounds: [(&str, &dyn Fn()); 6] = [
            ("iced-x86 alone", &|| bare_iced(&objects)),
            ("yaxpeax-x86 alone", &|| bare_yaxpeax(&objects)),
            ("verifier, one decoder", &|| all(&objects, &one)),
            ("verifier, both decoders", &|| all(&objects, &both)),
            ("verifier, one decoder, all cores", &|| all_cores(&objects, &one)),
            ("verifier, both decoders, all cores", &|| all_cores(&objects, &both)),
        ];
        let rounds: Vec<_> =
            rounds.into_iter().filter(|(name, _)| only.iter().all(|o| name.contains(&o["--only=".len()..]))).collect();
        let mut seconds = vec![Vec::new(); rounds.len()];
        for _ in 0..ROUNDS {
            for (round, seconds) in rounds.iter().zip(&mut seconds) {
                seconds.push(time(round.0.contains("all cores"), round.1));
            }
        }
        println!("{path}: {} objects, {bytes} bytes of text", objects.len());
        for ((name, _), seconds) in rounds.iter().zip(&mut seconds) {
            seconds.sort_by(f64::total_cmp);
            let speed = |seconds: f64| bytes as f64 / seconds / 1e6;
            println!("  {name:<34} {:>6.0} MB/s, best {:>6.0}", speed(seconds[ROUNDS / 2]), speed(seconds[0]));
        }
    }
    Ok(())
}
