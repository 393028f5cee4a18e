//! The memo gives the facts that decoding would give again.

#[path = "../../tests/support/random.rs"]
mod random;

use super::{Memo, MemoEntry};
use crate::facts::{Facts, Field};
use crate::instruction::Rules;
use crate::options::Options;
use crate::region::Step;
use crate::sweep::{Stage, Text};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::RngExt;
use sfi_contract::{Anchors, Mode};

/// Returns the bytes of the instruction that the text begins with, its facts, and whether the memo
/// may learn them. `None` if the instruction breaks a rule by itself.
fn read<'a>(text: &'a [u8], options: &Options) -> Option<(&'a [u8], Facts, bool)> {
    let mut decoder = Decoder::with_ip(64, text, 0x40_0000, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    if instruction.is_invalid() {
        return None;
    }
    let raw = &text[..instruction.len()];
    let (facts, faults, lasting) = Rules::new(options).read(raw, &instruction, &decoder);
    faults.is_empty().then_some((raw, facts, lasting))
}

fn fresh(text: &[u8], options: &Options) -> Option<Facts> {
    read(text, options).map(|(_, facts, _)| facts)
}

fn learned(instructions: &[&[u8]]) -> Memo {
    let mut memo = Memo::default();
    memo.reserve(1 << 12);
    for bytes in instructions {
        let (raw, facts, lasting) = read(bytes, &Options::default()).expect("accepted");
        assert_eq!(raw, *bytes);
        if lasting {
            memo.learn(raw, &facts);
        }
    }
    memo
}

fn recall(memo: &mut Memo, text: &[u8]) -> Option<Facts> {
    memo.recall(text).copied().or_else(|| memo.recall_older(text))
}

/// Learns random instructions. A decoder finds the facts that the memo recalls, for these
/// instructions, for the bytes after them and for changed ones.
#[test]
fn a_hit_is_what_a_decoder_finds() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for mode in [Mode::Write, Mode::Full] {
        let options = Options { mode, ..Options::default() };
        let mut memo = Memo::default();
        memo.reserve(1 << 20);
        let (mut accepted, mut found, mut others) = (0, 0, 0);
        for _ in 0..40_000 {
            let mut text = random::random(&mut rng);
            let Some((raw, facts, lasting)) = read(&text, &options) else { continue };
            accepted += 1;
            if lasting {
                memo.learn(raw, &facts);
            }
            found += u32::from(recall(&mut memo, &text).is_some());
            for _ in 0..8 {
                let at = rng.random_range(0..text.len());
                text[at] = if rng.random() { rng.random() } else { text[at] ^ 1 << rng.random_range(0..8) };
                if let Some(facts) = recall(&mut memo, &text) {
                    assert_eq!(Some(facts), fresh(&text, &options), "{text:02x?} in mode {mode}");
                    others += 1;
                }
            }
        }
        println!("mode {mode}: {accepted} learned, {found} found again, {others} recalled for changed bytes");
        assert!(accepted > 1000 && others > 1000, "{accepted} {others}");
        // The guess is right for nearly all. Otherwise the memo would only cost time.
        assert!(found * 10 > accepted * 8, "{found} of {accepted}");
    }
}

#[test]
fn a_changed_byte_of_the_head_is_another_instruction() {
    // mov %rax,%gs:8(%edi)
    let bytes = [0x65, 0x67, 0x48, 0x89, 0x47, 0x08];
    let mut memo = learned(&[&bytes]);
    assert!(recall(&mut memo, &bytes).is_some());
    for byte in 0..5 {
        for bit in 0..8 {
            let mut other = bytes;
            other[byte] ^= 1 << bit;
            assert!(recall(&mut memo, &other).is_none(), "{other:02x?}");
        }
    }
    assert!(recall(&mut memo, &bytes[..5]).is_none(), "it reaches beyond the text's end");
    let facts = recall(&mut memo, &[0x65, 0x67, 0x48, 0x89, 0x47, 0x80]).expect("another displacement");
    assert_eq!(facts.shape.length(), 6);
}

/// Tries every immediate of one byte for every form with an immediate: the facts stay, and both
/// decoders agree.
#[test]
fn nothing_follows_from_an_immediate() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let options = Options::default();
    let (mut forms, mut compared) = (std::collections::BTreeSet::new(), 0);
    for _ in 0..200_000 {
        let text = random::random(&mut rng);
        let Some((raw, facts, _)) = read(&text, &options) else { continue };
        let Field { offset: at, size } = facts.immediate();
        if size == 0 || facts.is_branch() || !forms.insert(raw[..at].to_vec()) {
            continue;
        }
        for value in 0..=255 {
            let mut other = raw.to_vec();
            other[at..].fill_with(|| rng.random());
            other[at] = value;
            assert_eq!(fresh(&other, &options), Some(facts), "{other:02x?}");
            compared += 1;
        }
    }
    println!("{} heads, {compared} instructions", forms.len());
    assert!(forms.len() > 500, "{}", forms.len());
}

/// Tries random displacements, but for EVEX's of 0: the facts stay, and both decoders agree.
#[test]
fn nothing_follows_from_a_displacement() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let options = Options::default();
    let mut compared = 0;
    for _ in 0..100_000 {
        let text = random::random(&mut rng);
        let Some((raw, facts, _)) = read(&text, &options) else { continue };
        let Field { offset: at, size } = facts.displacement();
        for _ in 0..if size == 0 { 0 } else { 16 } {
            let mut other = raw.to_vec();
            other[at..at + size].fill_with(|| rng.random());
            assert_eq!(fresh(&other, &options), Some(facts), "{other:02x?}");
            compared += 1;
        }
    }
    assert!(compared > 10_000, "{compared}");
}

#[test]
fn what_is_to_be_a_region_has_its_number() {
    // and $0xffff8,%eax and $0xffff0,%eax; add %gs:0xff000,%rdi and %gs:0x1000; jmp
    // *%gs:0x100000(%eax) and *%gs:0x100008(%eax)
    let pairs: [(&[u8], &[u8]); 3] = [
        (&[0x25, 0xf8, 0xff, 0x0f, 0], &[0x25, 0xf0, 0xff, 0x0f, 0]),
        (&[0x65, 0x48, 0x03, 0x3c, 0x25, 0, 0xf0, 0x0f, 0], &[0x65, 0x48, 0x03, 0x3c, 0x25, 0, 0x10, 0, 0]),
        (&[0x65, 0x67, 0xff, 0xa0, 0, 0, 0x10, 0], &[0x65, 0x67, 0xff, 0xa0, 8, 0, 0x10, 0]),
    ];
    for (right, wrong) in pairs {
        for learned_from in [right, wrong] {
            let mut memo = learned(&[learned_from]);
            let facts = recall(&mut memo, wrong).expect("the same head");
            let text = |bytes| Text { bytes, base: 0, stage: Stage::Final(Anchors::EXAMPLE) };
            let step = |bytes| {
                let named = facts.place().is_some_and(|place| text(bytes).names(facts.displacement().offset, place));
                facts.step_of(bytes, named)
            };
            assert!(!matches!(step(right), Step::Other | Step::Astray), "{right:02x?}");
            assert!(matches!(step(wrong), Step::Other | Step::Astray), "{wrong:02x?}");
        }
    }
}

#[test]
fn a_scaled_displacement_of_zero_teaches_nothing() {
    // `vmovups 0(%rdi),%zmm0` with a displacement byte, and `vmovups 64(%rdi),%zmm0`: EVEX scales
    // it.
    let zero = [0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 0x00];
    let one = [0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 0x01];
    assert!(recall(&mut learned(&[&zero]), &one).is_none());
    assert!(recall(&mut learned(&[&one]), &zero).is_some());
}

#[test]
fn a_register_behind_the_displacement_is_compared() {
    // `vblendvps %xmm3,%xmm2,%xmm1,%xmm0` and its form with memory: the last byte names a register.
    let register = [0xc4, 0xe3, 0x71, 0x4a, 0xc2, 0x30];
    let memory = [0xc4, 0xe3, 0x71, 0x4a, 0x47, 0x08, 0x30];
    let head = |bytes| read(bytes, &Options::default()).map(|(_, facts, lasting)| (facts.shape.head(), lasting));
    assert_eq!(head(&register[..]), Some((6, true)));
    assert_eq!(head(&memory[..]), Some((5, false)));
}

#[test]
fn a_head_of_more_than_eight_bytes_is_not_remembered() {
    // vmovups %zmm0,%gs:64(%edi,%eiz,1)
    let long = [0x65, 0x67, 0x62, 0xf1, 0x7c, 0x48, 0x11, 0x44, 0x27, 0x01];
    assert_eq!(fresh(&long, &Options::default()).map(|facts| facts.shape.head()), Some(9));
    assert!(recall(&mut learned(&[&long]), &long).is_none());
}

/// Four entries share a cache line, and none lies in two.
#[test]
fn an_entry_is_small() {
    assert_eq!(size_of::<MemoEntry>(), 16);
}

/// The memo knows two instructions of one hash, and each use puts the used one first. A third
/// replaces the one used before.
#[test]
fn the_last_two_of_a_hash_are_known() {
    let add = |modrm| [0x48, 0x01, modrm];
    let slot = |memo: &Memo, bytes: &[u8]| memo.look(bytes).0;
    let mut memo = learned(&[]);
    memo.entries.truncate(64);
    let mut of_one_hash = (0xc0..=0xffu8).map(add).filter(|bytes| slot(&memo, bytes) == slot(&memo, &add(0xc0)));
    let [Some(a), Some(b), Some(c)] = [(); 3].map(|()| of_one_hash.next()) else { panic!("three of 64 in 32 places") };
    let facts = |bytes| fresh(bytes, &Options::default()).expect("accepted");
    memo.learn(&a, &facts(&a));
    memo.learn(&b, &facts(&b));
    assert_eq!((memo.recall(&a), memo.recall(&b)), (None, Some(&facts(&b))));
    assert_eq!((memo.recall_older(&b), memo.recall_older(&a)), (None, Some(facts(&a))));
    assert_eq!((memo.recall(&a), memo.recall(&b)), (Some(&facts(&a)), None));
    memo.learn(&c, &facts(&c));
    assert_eq!([&c, &a, &b].map(|bytes| recall(&mut memo, bytes).is_some()), [true, true, false]);
}

#[test]
fn without_room_nothing_is_known() {
    let mut memo = Memo::default();
    let (raw, facts, _) = read(&[0x90], &Options::default()).expect("nop");
    memo.learn(raw, &facts);
    assert!(recall(&mut memo, &[0x90]).is_none());
    memo.reserve(0);
    assert!(recall(&mut memo, &[0x90]).is_none());
    memo.learn(raw, &facts);
    assert!(recall(&mut memo, &[0x90]).is_some());
}
