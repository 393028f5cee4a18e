//! The two decoders against each other, over the instructions that the first one accepts.
//!
//! The verifier refuses an instruction on which they disagree, so a disagreement is no escape. But
//! it is a form that stock code cannot use, or a decoder's mistake. `second` mends all that were
//! found (its errata and gaps). Only odd encodings that no assembler writes stay refused.
//! `SFI_SECOND_SECONDS=3600 cargo test --release -p sfi-verifier --test second` runs longer.

#[path = "support/random.rs"]
mod random;

#[path = "../../crates/contract/tests/policy_table/instance.rs"]
#[allow(dead_code)]
mod instance;

use iced_x86::{Code, Decoder, DecoderOptions, Encoder, Instruction, Register, RoundingControl};
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::RngExt;
use sfi_contract::policy::{self, Memory};
use sfi_contract::{Anchors, Rule};
use sfi_verifier::{FinalText, Options, verify_text};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const TEXT: u64 = 0x40_0000;

/// Returns the rules that a text of one instruction breaks.
fn rules(bytes: &[u8], second: bool) -> Vec<(Rule, String)> {
    // One byte follows, so that a branch with displacement 0 has a target.
    let mut bytes = bytes.to_vec();
    bytes.push(0xcc);
    let text = FinalText { bytes: &bytes, offset: TEXT, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
    let found = verify_text(&text, &Options { second, ..Options::default() }).err().unwrap_or_default();
    found.into_iter().map(|violation| (violation.rule, violation.detail)).collect()
}

/// Returns encodings of a form: with registers, and with confined memory at several kinds of
/// address.
fn encodings(code: Code) -> Vec<Vec<u8>> {
    let form = policy::lookup(code).expect("listed");
    let mut encodings = Vec::new();
    let mut push = |instruction: &Instruction| {
        let mut encoder = Encoder::new(64);
        if encoder.encode(instruction, TEXT).is_ok() {
            encodings.push(encoder.take_buffer());
        }
    };
    push(&instance::instance(code, false));
    if form.memory == Memory::None {
        return encodings;
    }
    let gather = form.memory == Memory::Gather;
    for base in
        [Register::R13D, Register::ESP, Register::EDI, Register::R12D, Register::EBP, Register::None, Register::EIP]
    {
        for (index, scale) in [(Register::None, 1), (Register::R9D, 1), (Register::EAX, 8), (Register::R12D, 2)] {
            for (displacement, size) in [(0u64, 1), (64, 1), (0x1234_5678, 4)] {
                let mut instruction = instance::instance(code, true);
                instruction.set_memory_base(base);
                if !gather {
                    instruction.set_memory_index(index);
                }
                instruction.set_memory_index_scale(if gather || index != Register::None { scale } else { 1 });
                instruction.set_memory_displacement64(displacement);
                instruction.set_memory_displ_size(if base == Register::None || base == Register::EIP {
                    4
                } else {
                    size
                });
                if form.memory != Memory::Address {
                    instruction.set_segment_prefix(Register::GS);
                }
                push(&instruction);
            }
        }
    }
    encodings
}

/// Both decoders read every form of the list alike, as an assembler writes it.
#[test]
fn every_form_is_read_alike() {
    let (mut accepted, mut forms) = (0, 0);
    let mut differences: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (code, _) in policy::allowed() {
        let before = accepted;
        for bytes in encodings(code) {
            if !rules(&bytes, false).is_empty() {
                continue;
            }
            accepted += 1;
            for (rule, detail) in rules(&bytes, true) {
                differences.entry(format!("{code:?}: {rule} {detail}")).or_default().push(format!("{bytes:02x?}"));
            }
        }
        forms += u32::from(accepted > before);
    }
    println!("{accepted} encodings of {forms} forms");
    for (what, bytes) in &differences {
        println!("{what}: {} {}", bytes.len(), bytes[0]);
    }
    assert!(differences.is_empty(), "{} forms differ", differences.len());
    assert!(forms > 2500 && accepted > 20_000, "{accepted} encodings of {forms} forms");
}

/// Says whether no assembler writes these bytes: they set a bit that the first decoder ignores, or
/// a rounding mode for an exact result.
fn is_odd(instruction: &Instruction, bytes: &[u8]) -> bool {
    let exact = matches!(
        instruction.code(),
        Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er | Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er
    );
    let mut encoder = Encoder::new(64);
    exact && instruction.rounding_control() != RoundingControl::None
        || encoder.encode(instruction, TEXT).is_err()
        || encoder.take_buffer() != bytes
}

/// Bytes that the fuzzer below found. The decoders differ on encodings that processors may read
/// differently.
#[test]
fn what_the_fuzzer_found_stays_refused() {
    for (bytes, difference) in [
        // fnstsw %ax with REX.B: %ax to one, %r8w to the other
        (&[0x41, 0xdf, 0xe0][..], "the second decoder reads other registers"),
        // EVEX.X or EVEX.B where no register has that bit
        (&[0x62, 0x92, 0x7d, 0x28, 0x7b, 0xc1], "the second decoder does not know it"),
        (&[0x62, 0xb2, 0x7e, 0x48, 0x38, 0xeb], "the second decoder does not know it"),
        (&[0x62, 0xb2, 0xfe, 0x48, 0x28, 0xeb], "the second decoder does not know it"),
        // VEX.B where the register is a mask register: kandq, kmovd, kshiftlw
        (&[0xc4, 0xc1, 0xdc, 0x41, 0xc3], "the second decoder does not know it"),
        (&[0xc4, 0xc1, 0x7b, 0x93, 0xc0], "the second decoder does not know it"),
        (&[0xc4, 0xc3, 0xf9, 0x32, 0xc9, 0x03], "the second decoder does not know it"),
        // EVEX.X where the register is a general one: vcvtusi2sd
        (&[0x62, 0xb1, 0x7f, 0x08, 0x7b, 0xc0], "the second decoder does not know it"),
        // vcvtdq2pd and vcvtudq2pd with a rounding mode: both assemblers refuse it, every integer
        // of 32 bits is exact
        (&[0x62, 0x01, 0x7e, 0xfb, 0xe6, 0xee], "the second decoder does not know it"),
        (&[0x62, 0xf1, 0x7e, 0x79, 0x7a, 0xee], "the second decoder does not know it"),
    ] {
        assert!(rules(bytes, false).is_empty(), "{bytes:02x?}: the first decoder reads it");
        assert_eq!(rules(bytes, true), [(Rule::SecondReading, difference.to_owned())], "{bytes:02x?}");
    }
}

/// Forms that yaxpeax-x86 reads wrongly or not at all, and the verifier knows about.
#[test]
fn errata_and_gaps_are_accepted() {
    for bytes in [
        // gathers with xmm4 as index, which it takes for none: vpgatherdd, vgatherdpd
        &[0x65, 0x67, 0xc4, 0xe2, 0x4d, 0x90, 0x2c, 0x25, 0, 0, 0, 0][..],
        &[0x65, 0x67, 0xc4, 0xe2, 0xc9, 0x92, 0x2c, 0x25, 0x40, 0, 0, 0],
        &[0x66, 0x41, 0x0f, 0x3a, 0x20, 0xe9, 0x00], // pinsrb $0,%r9d,%xmm5
        &[0xdd, 0x65, 0x10],                         // frstor 16(%rbp)
        &[0xe3, 0x00],                               // jrcxz
        &[0xc5, 0xfb, 0x92, 0xd0],                   // kmovd %eax,%k2
        &[0x65, 0x67, 0xc4, 0xe1, 0xf8, 0x91, 0x17], // kmovq %k2,%gs:(%edi)
        &[0x62, 0xf1, 0x55, 0x08, 0x71, 0xd6, 0x00], // vpsrlw $0,%xmm6,%xmm5
        &[0xc4, 0xe2, 0x55, 0x50, 0xe6],             // vpdpbusd (VEX)
    ] {
        assert_eq!(rules(bytes, true), [], "{bytes:02x?}");
    }
}

/// Changes a few bits or bytes, or inserts a byte at the front.
fn mutate(bytes: &mut Vec<u8>, random: &mut TestRng) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len().min(6));
        match random.random_range(0..4) {
            0 => bytes[at] = random.random(),
            1 => bytes.insert(0, [0x66, 0xf2, 0xf3, 0xf0, 0x65, 0x67, 0x40, 0x48][random.random_range(0..8)]),
            _ => bytes[at] ^= 1 << random.random_range(0..8),
        }
    }
    bytes.extend((0..12).map(|_| random.random::<u8>()));
    bytes.truncate(15);
}

/// The second decoder agrees on the random and mutated encodings that the verifier accepts with the
/// first one alone.
#[test]
fn accepted_bytes_are_read_alike() {
    let seconds = std::env::var("SFI_SECOND_SECONDS").ok().map_or(15, |n| n.parse().expect("a number"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rng = match seconds {
        0..=60 => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        _ => TestRng::from_seed(RngAlgorithm::ChaCha, &rand_seed()),
    };
    let seeds: Vec<Vec<u8>> = policy::allowed().flat_map(|(code, _)| encodings(code)).collect();
    let (mut tried, mut accepted, mut odd) = (0u64, 0u64, 0u64);
    let mut differences: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
    while tried % 1024 != 0 || Instant::now() < end {
        tried += 1;
        let bytes = if tried % 4 == 0 {
            random::random(&mut rng)
        } else {
            let mut bytes = seeds[rng.random_range(0..seeds.len())].clone();
            mutate(&mut bytes, &mut rng);
            bytes
        };
        let instruction = Decoder::with_ip(64, &bytes, TEXT, DecoderOptions::NONE).decode();
        let bytes = &bytes[..instruction.len().min(bytes.len())];
        if instruction.is_invalid() || policy::lookup(instruction.code()).is_none() || !rules(bytes, false).is_empty() {
            continue;
        }
        accepted += 1;
        for (rule, detail) in rules(bytes, true) {
            assert_eq!(rule, Rule::SecondReading);
            if is_odd(&instruction, bytes) {
                odd += 1;
                continue;
            }
            let example = || (0, format!("{bytes:02x?}"));
            differences.entry((format!("{:?}", instruction.code()), detail)).or_insert_with(example).0 += 1;
        }
    }
    println!(
        "{tried} instructions tried, {accepted} accepted by one decoder, {odd} odd ones of these refused by the other"
    );
    for ((code, detail), (count, example)) in &differences {
        println!("{code}: {detail}: {count} {example}");
    }
    assert!(differences.is_empty(), "{} forms are read differently", differences.len());
    assert!(accepted > tried / 20, "only {accepted} of {tried} were accepted");
}

/// Returns a new seed for each long run.
fn rand_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    seed[..16].copy_from_slice(&clock.as_nanos().to_le_bytes());
    seed
}
