//! What is remembered is what would be found again.

#[path = "../../tests/support/random.rs"]
mod random;

use super::Memo;
use crate::Options;
use crate::facts::Facts;
use crate::instruction::Rules;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::RngExt;
use sfi_contract::Mode;

/// The facts of the instruction that the bytes begin with and the bytes themselves, if it breaks no rule by itself.
fn fresh<'a>(text: &'a [u8], options: &Options) -> Option<(&'a [u8], Facts)> {
    let mut decoder = Decoder::with_ip(64, text, 0x40_0000, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    if instruction.is_invalid() {
        return None;
    }
    let raw = &text[..instruction.len()];
    let (facts, faults) = Facts::new(raw, &instruction, &decoder, &Rules::new(options));
    faults.is_empty().then_some((raw, facts))
}

fn learned(instructions: &[&[u8]]) -> Memo {
    let mut memo = Memo::default();
    memo.reserve(1 << 12);
    for bytes in instructions {
        let (raw, facts) = fresh(bytes, &Options::default()).expect("accepted");
        assert_eq!(raw, *bytes);
        memo.learn(raw, facts);
    }
    memo
}

/// Random instructions are learned; whatever is recalled for them, for what follows them and for changed ones is what a decoder finds there.
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
            let Some((raw, facts)) = fresh(&text, &options) else { continue };
            accepted += 1;
            memo.learn(raw, facts);
            let length = raw.len();
            found += u32::from(memo.recall(&text).is_some());
            for _ in 0..8 {
                let at = rng.random_range(0..text.len());
                text[at] = if rng.random() { rng.random() } else { text[at] ^ 1 << rng.random_range(0..8) };
                if let Some((length, facts)) = memo.recall(&text) {
                    let expected = fresh(&text, &options).map(|(raw, facts)| (raw.len(), facts));
                    assert_eq!(Some((length, *facts)), expected, "{text:02x?} in mode {mode}");
                    others += 1;
                }
            }
            // Nothing is recalled for a part of it.
            for cut in 0..length {
                if let Some((part, _)) = memo.recall(&text[..cut]) {
                    assert!(part <= cut, "{text:02x?}");
                }
            }
        }
        println!("mode {mode}: {accepted} learned, {found} found again, {others} recalled for changed bytes");
        assert!(accepted > 1000 && others > 1000, "{accepted} {others}");
        // The guess is right for nearly all; else the memo would only cost time.
        assert!(found * 10 > accepted * 8, "{found} of {accepted}");
    }
}

#[test]
fn a_changed_byte_is_another_instruction() {
    // mov %rax,%gs:8(%edi): all bytes but the displacement count
    let bytes = [0x65, 0x67, 0x48, 0x89, 0x47, 0x08];
    let memo = learned(&[&bytes]);
    assert!(memo.recall(&bytes).is_some());
    for byte in 0..5 {
        for bit in 0..8 {
            let mut other = bytes;
            other[byte] ^= 1 << bit;
            assert!(memo.recall(&other).is_none(), "{other:02x?}");
        }
    }
    let (length, facts) = memo.recall(&[0x65, 0x67, 0x48, 0x89, 0x47, 0x80]).expect("another displacement");
    assert_eq!((length, facts.shape.length()), (6, 6));
}

#[test]
fn what_is_cut_short_by_the_end_is_not_known() {
    // Zeros, for the window is filled up with them: mov $0,%eax; lea 0(%rax),%rax; jmp
    for bytes in [&[0xb8, 0, 0, 0, 0][..], &[0x48, 0x8d, 0x80, 0, 0, 0, 0], &[0xe9, 0, 0, 0, 0]] {
        let memo = learned(&[bytes]);
        assert!(memo.recall(bytes).is_some());
        assert!(memo.recall(&[bytes, &[0xc3]].concat()).is_some());
        for cut in 0..bytes.len() {
            assert!(memo.recall(&bytes[..cut]).is_none(), "{bytes:02x?} cut to {cut}");
        }
    }
}

#[test]
fn a_displacement_that_decides_is_compared() {
    // add %gs:0x1000,%rdi and add %gs:0xff000,%rdi
    let other = [0x65, 0x48, 0x03, 0x3c, 0x25, 0, 0x10, 0, 0];
    let rebase = [0x65, 0x48, 0x03, 0x3c, 0x25, 0, 0xf0, 0x0f, 0];
    assert!(learned(&[&other]).recall(&rebase).is_none());
    assert!(learned(&[&rebase]).recall(&other).is_none());
    // jmp *%gs:0x100000(%eax) and *%gs:0x100008(%eax)
    let jump = [0x65, 0x67, 0xff, 0xa0, 0, 0, 0x10, 0];
    assert!(learned(&[&jump]).recall(&[0x65, 0x67, 0xff, 0xa0, 8, 0, 0x10, 0]).is_none());
    // vmovups 64(%rdi),%zmm0 and 128(%rdi): EVEX scales
    let load = [0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 0x01];
    assert!(learned(&[&load]).recall(&[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 0x02]).is_none());
}

#[test]
fn without_room_nothing_is_known() {
    let mut memo = Memo::default();
    let (raw, facts) = fresh(&[0x90], &Options::default()).expect("nop");
    memo.learn(raw, facts);
    assert!(memo.recall(&[0x90]).is_none());
    memo.reserve(0);
    assert!(memo.recall(&[0x90]).is_none());
    memo.learn(raw, facts);
    assert!(memo.recall(&[0x90]).is_some());
}
