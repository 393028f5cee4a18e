//! The verifier never panics, whatever the bytes are, and gives one answer for one object.

mod support;

use proptest::prelude::*;
use sfi_contract::{Anchors, Mode};
use sfi_verifier::{FinalText, Options, Verifier, verify, verify_text};
use support::*;

/// Returns an object with something of everything.
fn rich() -> Vec<u8> {
    let code = "f3 0f 1e fa 65 67 48 89 07 e8 00 00 00 00 48 8b 05 00 00 00 00 89 ff 65 48 03 3c 25 00 f0 0f 00 f3 48 ab \
                81 e0 f8 ff 0f 00 65 67 ff 90 00 00 10 00 74 02 eb fe c3 48 b8 00 00 00 00 00 00 00 00 c3";
    let mut elf = Elf::text(&hex(code)).symbol(symbol("g", 0, 0)).symbol(symbol("h", 1, 4));
    elf.add(section(".data", PROGBITS, A | W, vec![0; 32]));
    let mut bss = section(".bss", NOBITS, A | W, Vec::new());
    bss.size = Some(64);
    elf.add(bss);
    elf.relocations(1, &[(10, R_PLT32, 2, -4), (17, R_PC32, 2, -4), (56, R_64, 1, 0)])
        .relocations(2, &[(0, R_64, 1, 0), (8, R_64, 2, 3)])
        .group(&[1, 2], 1)
        .build()
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(Mode::ALL.to_vec())
}

#[test]
fn the_rich_object_is_accepted() {
    let bytes = rich();
    let report = verify(&bytes, &Options::default()).unwrap();
    assert!(report.is_safe(), "{:#?}", report.violations);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_objects_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
        mode in any_mode(),
    ) {
        let mut bytes = rich();
        for (index, value) in edits {
            let i = index.index(bytes.len());
            bytes[i] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = verify(&bytes, &options(mode));
    }

    #[test]
    fn wild_words_in_headers_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![
            0u64, 1, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX - 3, u64::MAX,
        ])), 1..6),
        mode in any_mode(),
    ) {
        let mut bytes = rich();
        for (index, value) in edits {
            let i = index.index(bytes.len() / 4 - 1) * 4;
            bytes[i..i + 8].copy_from_slice(&value.to_le_bytes());
        }
        let _ = verify(&bytes, &options(mode));
    }

    #[test]
    fn random_text_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), mode in any_mode()) {
        let elf = Elf::text(&bytes).relocations(1, &[(3, R_32, 1, 0), (90, R_PLT32, 1, -4)]).build();
        let _ = verify(&elf, &options(mode));
        let text = FinalText { bytes: &bytes, offset: 0x40_0000, gateways: &[0x50_0000], slots: &[0x40_0000], anchors: Anchors::EXAMPLE };
        let _ = verify_text(&text, &options(mode));
    }

    #[test]
    fn random_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut file = rich()[..64].to_vec();
        file.extend_from_slice(&bytes);
        let _ = verify(&file, &Options::default());
        let _ = verify(&bytes, &Options::default());
    }

    /// A text that is accepted as an object is accepted as final text. The reverse holds for texts
    /// without relocations.
    #[test]
    fn both_checks_agree(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "90", "c3", "65 67 48 89 07", "48 8b 07", "48 89 07", "89 ff", "65 48 03 3c 25 00 f0 0f 00", "aa", "f3 48 ab", "eb 00",
            "eb 02", "eb f8", "81 e0 f8 ff 0f 00", "65 67 ff 90 00 00 10 00", "ff d0", "50", "b8 0f 05 00 00", "74 f0", "48 8d 07",
            "65 67 8b 07", "ac", "89 f6", "65 48 03 34 25 00 f0 0f 00", "a4", "0f a2", "66 90",
        ]), 0..14),
        mode in any_mode(),
    ) {
        let bytes = hex(&pieces.join(" "));
        let mut elf = Elf::text(&bytes);
        elf.symbols.clear();
        let object = elf.build();
        let accepted = verify(&object, &options(mode)).unwrap().is_safe();
        let text = FinalText { bytes: &bytes, offset: 0x40_0000, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
        prop_assert_eq!(accepted, verify_text(&text, &options(mode)).is_ok());
    }
}

/// Objects that a verifier has seen do not change its later answers.
#[test]
fn what_was_seen_before_changes_nothing() {
    let pieces = [
        "90",
        "c3",
        "65 67 48 89 47 08",
        "65 67 48 89 47 10",
        "48 89 47 08",
        "89 ff",
        "65 48 03 3c 25 00 f0 0f 00",
        "65 48 03 3c 25 00 10 00 00",
        "aa",
        "f3 48 ab",
        "eb 00",
        "eb 02",
        "eb f8",
        "e9 00 00 00 00",
        "e9 f0 ff ff ff",
        "81 e0 f8 ff 0f 00",
        "81 e0 f8 ff 1f 00",
        "65 67 ff 90 00 00 10 00",
        "65 67 ff 90 08 00 10 00",
        "50",
        "b8 0f 05 00 00",
        "b8 00 00",
        "48 8b 05 00 00 00 00",
        "48 8b 05 10 00 00 00",
        "62 f1 7c 48 10 47 01",
        "0f a2",
    ];
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| hex(piece)).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut accepted = 0;
    for mode in Mode::ALL {
        let mut verifier = Verifier::new(&options(mode));
        for _ in 0..3000 {
            let mut text = Vec::new();
            for _ in 0..6 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.extend(&pieces[(random >> 33) as usize % pieces.len()]);
            }
            let mut elf = Elf::text(&text);
            if random >> 63 == 0 {
                elf = elf.relocations(1, &[(random >> 60, R_PC32, 1, -4)]);
            }
            let object = elf.build();
            let (again, fresh) = (verifier.verify(&object).unwrap(), verify(&object, &options(mode)).unwrap());
            assert_eq!(again.violations, fresh.violations, "{text:02x?}");
            assert_eq!((again.usage, again.instructions), (fresh.usage, fresh.instructions), "{text:02x?}");
            let (offset, anchors) = (0x40_0000, Anchors::EXAMPLE);
            let slots = [offset, offset + (random >> 59)];
            let last = FinalText { bytes: &text, offset, gateways: &[], slots: &slots, anchors };
            assert_eq!(verifier.verify_text(&last), verify_text(&last, &options(mode)), "{text:02x?}");
            accepted += u32::from(fresh.is_safe());
        }
    }
    assert!(accepted > 0);
}

/// Asserts that the verifier refuses these bytes in the time that a few megabytes may take on a
/// busy machine. Work that grows with the square of the file takes hours.
#[track_caller]
fn refused_soon(what: &str, bytes: &[u8]) {
    let start = std::time::Instant::now();
    let safe = verify(bytes, &Options::default()).is_ok_and(|report| report.is_safe());
    let seconds = start.elapsed().as_secs_f64();
    assert!(!safe, "{what} is accepted");
    assert!(seconds < 20.0, "{what}: {seconds} s for {} bytes", bytes.len());
}

#[test]
fn tables_that_claim_more_than_the_file_are_refused_soon() {
    for claim in [24u64 << 32, u64::MAX - 23, 1 << 62, 24 * (u64::from(u32::MAX) + 1)] {
        let mut elf = Elf::text(&hex("c3")).relocations(1, &[(0, R_64, 1, 0)]);
        elf.sections.last_mut().unwrap().size = Some(claim);
        refused_soon("a relocation table", &elf.build());
        let mut elf = Elf::text(&hex("c3")).group(&[1, 1], 1);
        elf.sections.last_mut().unwrap().size = Some(claim);
        refused_soon("a group", &elf.build());
        let mut elf = Elf::text(&hex("c3"));
        elf.sections[TEXT].size = Some(claim);
        refused_soon("a text", &elf.build());
    }
}

#[test]
fn many_sections_over_the_same_bytes_are_refused_soon() {
    let mut elf = Elf::text(&vec![0x90; 1 << 20]);
    for _ in 0..20_000 {
        let mut same = section(".text", PROGBITS, A | X, Vec::new());
        (same.offset, same.size) = (Some(64), Some(1 << 20));
        elf.add(same);
    }
    refused_soon("20,000 texts over one megabyte", &elf.build());
}

#[test]
fn cyclic_groups_are_refused_soon() {
    let mut elf = Elf::text(&hex("c3"));
    let count = 10_000;
    for i in 0..count {
        // Each names the next one and the text; the last names the first.
        elf = elf.group(&[1, 2 + (i + 1) % count, 1], 1);
    }
    refused_soon("10,000 groups in a circle", &elf.build());
}

#[test]
fn long_texts_of_violations_are_refused_soon() {
    for (what, code) in
        [("syscalls", "0f 05"), ("invalid bytes", "06"), ("wild branches", "eb 7f"), ("half regions", "89 ff")]
    {
        let code = hex(code);
        let mut elf = Elf::text(&code.repeat((4 << 20) / code.len()));
        elf.sections[TEXT].data.push(0x06);
        // Places where decoding goes on.
        for value in 0..50_000 {
            elf.symbols.push(symbol("f", 1, value * 80));
        }
        refused_soon(what, &elf.build());
    }
}

#[test]
fn relocations_in_reverse_are_refused_soon() {
    let entries: Vec<_> = (0..200_000u64).rev().map(|i| (i * 2, R_64, 1, 0)).collect();
    let elf = Elf::text(&vec![0x90; 1 << 20]).relocations(1, &entries);
    refused_soon("200,000 overlapping relocations", &elf.build());
}
