//! Loads by the window's base (rule SFI-L03): both outcomes of each condition.

mod support;

use sfi_contract::Mode::{Full, Match, Write};
use sfi_contract::{Anchors, Mode, Rule};
use sfi_verifier::{FinalText, Options, Verifier, verify, verify_text};
use support::*;

const BASE: &str = "65 67 48 8b 14 25 00 f0 0f 00"; // mov %gs:__sfi_header,%rdx
const NUMBER: &str = "89 c6"; // mov %eax,%esi
const LOAD: &str = "8a 04 32"; // mov (%rdx,%rsi),%al

/// Returns the rules that a text of mode full breaks as an object and as a final text, with these
/// offsets in slots.
#[track_caller]
fn both(code: &str, slots: &[u64]) -> [Vec<Rule>; 2] {
    let bytes = hex(code);
    let slots: Vec<u64> = slots.iter().map(|slot| 0x40_0000 + slot).collect();
    let text = FinalText { bytes: &bytes, offset: 0x40_0000, gateways: &[], slots: &slots, anchors: Anchors::EXAMPLE };
    let mut found: Vec<Rule> =
        verify_text(&text, &options(Full)).err().unwrap_or_default().iter().map(|v| v.rule).collect();
    found.dedup();
    [support::text(code, Full), found]
}

#[track_caller]
fn fine(code: &str) {
    assert_eq!(both(code, &[0]), [vec![], vec![]], "`{code}`");
}

#[track_caller]
fn broken(code: &str) {
    assert_eq!(both(code, &[]), [[Rule::LoadBased], [Rule::LoadBased]], "`{code}`");
}

/// A branch in the text leads to an illegal target.
#[track_caller]
fn closed(code: &str) {
    assert_eq!(both(code, &[]), [[Rule::BranchIntoRegion], [Rule::FinalTarget]], "`{code}`");
}

#[test]
fn accepted_only_in_mode_full() {
    let code = format!("{BASE} {NUMBER} {LOAD} c3");
    fine(&code);
    accept(&code, Write);
    accept(LOAD, Write);
    accept(LOAD, Match);
    for mode in [Full, Write, Match] {
        let rules = |budget| {
            let options = Options { mode, budget, ..Options::default() };
            let bytes = Elf::text(&hex(&format!("49 83 ee 06 72 10 {code} cc"))).build();
            rules_of(&verify(&bytes, &options).unwrap())
        };
        assert_eq!(rules(true), [], "mode {mode} with a budget");
        assert_eq!(rules(false), []);
    }
}

#[test]
fn the_base() {
    // Every register can have it but rsp, in both forms of the address.
    for code in [
        "65 67 48 8b 04 25 00 f0 0f 00 89 de 8a 0c 30",       // rax
        "65 67 48 8b 2c 25 00 f0 0f 00 89 de 8a 4c 35 00",    // rbp
        "65 67 4c 8b 2c 25 00 f0 0f 00 89 de 41 8a 4c 35 00", // r13
        "65 67 4c 8b 24 25 00 f0 0f 00 89 de 41 8a 0c 34",    // r12
        "65 67 4c 8b 3c 25 00 f0 0f 00 41 89 dc 43 8a 0c 27", // r15 and r12
        "67 65 48 8b 14 25 00 f0 0f 00 89 de 8a 0c 32",       // prefixes in the other order
    ] {
        fine(code);
    }
    assert!(both("65 67 48 8b 24 25 00 f0 0f 00 89 de 8a 0c 34", &[])[0].contains(&Rule::StackPointer));
    for code in [
        format!("{NUMBER} {LOAD}"),                                      // none
        format!("{NUMBER} {BASE} {LOAD}"),                               // the number is older
        format!("65 67 48 8b 14 25 08 f0 0f 00 {NUMBER} {LOAD}"),        // another word
        format!("65 67 8b 14 25 00 f0 0f 00 {NUMBER} {LOAD}"),           // half of it
        format!("48 03 d0 {NUMBER} {LOAD}"),                             // add %rax,%rdx
        format!("65 48 03 14 25 00 f0 0f 00 {NUMBER} {LOAD}"),           // added
        format!("{BASE} 48 89 d1 {NUMBER} 8a 04 31"),                    // a copy
        format!("{BASE} {NUMBER} 8a 04 16"),                             // roles exchanged
        format!("{BASE} 8a 04 12"),                                      // (%rdx,%rdx)
        format!("{BASE} 89 d2 8a 04 12"),                                // mov %edx,%edx
        format!("{BASE} 65 67 48 8b 0c 25 00 f0 0f 00 {NUMBER} {LOAD}"), // a second base, in rcx
        format!("{BASE} {NUMBER} {BASE} {LOAD}"),                        // a new hold
    ] {
        broken(&code);
    }
    // Without 67 the load of the base is none of mode full.
    assert!(both(&format!("65 48 8b 14 25 00 f0 0f 00 {NUMBER} {LOAD}"), &[])[1].contains(&Rule::LoadUnconfined));
}

#[test]
fn nothing_writes_the_base() {
    for code in [
        "48 ff c2",          // inc %rdx
        "ff c2",             // inc %edx
        "fe c2",             // inc %dl
        "b6 00",             // mov $0,%dh
        "66 ba 00 00",       // mov $0,%dx
        "48 89 d8 48 f7 e3", // mul %rbx
        "48 99",             // cqto
        "0f a2",             // cpuid
        "48 87 d3",          // xchg %rdx,%rbx
        "48 92",             // xchg %rax,%rdx
        "48 0f c1 d3",       // xadd %rdx,%rbx
        "48 0f b1 da",       // cmpxchg %rbx,%rdx
        "48 0f 44 d3",       // cmove
        "0f 94 c2",          // sete %dl
        "48 8d 52 00",       // lea 0(%rdx),%rdx
        "65 67 48 0f c7 0f", // cmpxchg16b
        "65 67 48 0f c1 17", // xadd to memory
        "65 67 48 87 17",    // xchg with memory
        "66 48 0f 7e c2",    // movq %xmm0,%rdx
        "c4 e2 6b f6 db",    // mulx %rbx,%rdx,%rbx
        "65 67 48 8b 14 25 08 f0 0f 00",
    ] {
        broken(&format!("{BASE} {code} {NUMBER} {LOAD}"));
        broken(&format!("{BASE} {NUMBER} {code} {LOAD}"));
    }
    // Not even an instruction that changes nothing may stand in between.
    for code in ["90", "85 c0", "f3 0f 1e fa", "89 c1", "75 00"] {
        broken(&format!("{BASE} {code} {LOAD}"));
        broken(&format!("{BASE} {NUMBER} {code} {LOAD}"));
    }
    // Strings move rdi.
    let rdi = "65 67 48 8b 3c 25 00 f0 0f 00";
    broken(&format!("{rdi} {NUMBER} {RDI} aa 8a 04 37"));
    // The load itself may write it, and each load has a base of its own.
    fine(&format!("{BASE} {NUMBER} 48 8b 14 32"));
    broken(&format!("{BASE} {NUMBER} {LOAD} {LOAD}"));
    broken(&format!("{BASE} {NUMBER} {LOAD} {NUMBER} {LOAD}"));
    fine(&format!("{BASE} {NUMBER} {LOAD} {BASE} {NUMBER} {LOAD}"));
}

#[test]
fn the_number() {
    for code in [
        "89 c6",    // mov %eax,%esi
        "8b f0",    // the other encoding
        "89 f6",    // mov %esi,%esi
        "8b f6",    //
        "44 89 c6", // mov %r8d,%esi
        "89 d6",    // the base's own lower half
    ] {
        fine(&format!("{BASE} {code} {LOAD}"));
        broken(&format!("{BASE} {code} 48 ff c6 {LOAD}"));
        broken(&format!("{code} {LOAD}"));
        broken(&format!("{BASE} {code} 8a 04 0a")); // another register as index
    }
    for code in [
        "48 89 c6",       // mov %rax,%rsi
        "8d 34 18",       // lea (%rax,%rbx),%esi
        "67 8d 34 18",    // lea (%eax,%ebx),%esi
        "48 8d 34 18",    // lea (%rax,%rbx),%rsi
        "66 89 c6",       // mov %ax,%si
        "40 88 c6",       // mov %al,%sil
        "48 63 f0",       // movslq
        "65 67 8b 30",    // from memory
        "0f 44 f0",       // cmove
        "96",             // xchg %eax,%esi
        "01 c6",          // add %eax,%esi
        "0f b6 f0",       // movzbl
        "be 00 00 00 00", // mov $0,%esi
        "31 f6",          // xor %esi,%esi
        "90",
    ] {
        broken(&format!("{BASE} {code} {LOAD}"));
    }
    // N is B, in each order.
    broken(&format!("{BASE} 89 c2 8a 04 12"));
    broken(&format!("{BASE} 89 d2 8a 04 12"));
    // The masks of string instructions are numbers, too. Behind a base they are nothing else.
    fine(&format!("{BASE} 89 ff 8a 04 3a"));
    let stos = "89 ff 65 48 03 3c 25 00 f0 0f 00 aa";
    fine(&format!("{BASE} 90 {stos}"));
    assert_eq!(both(&format!("{BASE} {stos}"), &[]), [[Rule::StringMask]; 2]);
    assert_eq!(both(&format!("{BASE} 89 ff 8a 04 3a 65 48 03 3c 25 00 f0 0f 00 aa"), &[]), [[Rule::StringMask]; 2]);
}

#[test]
fn the_displacement_and_the_form() {
    let with = |load: &str| format!("{BASE} {NUMBER} {load}");
    for load in [
        "8a 44 32 7f",
        "8a 84 32 ff 7f 00 00", // 0x7fff
        "8a 84 32 00 00 00 00",
        "80 3c 32 05", // cmpb $5
        "81 bc 32 ff 7f 00 00 00 00 00 80",
        "62 f1 7c 48 28 44 32 7f", // vmovaps 127*64,%zmm0
        "62 f1 7c 58 58 44 32 7f", // vaddps {1to16}
        "dd a4 32 ff 7f 00 00",    // frstor
        "0f 2f 04 32",             // comiss
        "48 0f 44 04 32",          // cmove
        "0f b6 04 32",
        "66 0f ba 24 32 03", // bt $3
    ] {
        fine(&with(load));
    }
    for load in [
        "8a 44 32 80",          // -128
        "8a 44 32 ff",          // -1
        "8a 84 32 00 80 00 00", // 0x8000
        "8a 84 32 ff ff ff ff",
        "8a 84 32 00 00 00 80",
        "81 bc 32 00 80 00 00 00 00 00 00", // cmpl
        "62 f1 7c 48 28 44 32 ff",          // -64
        "62 f1 7c 48 28 44 32 80",
        "62 f1 7c 48 28 84 32 00 80 00 00",
    ] {
        broken(&with(load));
    }
    for (load, rule) in [
        ("8a 04 72", Rule::LoadUnconfined),             // scale 2
        ("8a 04 f2", Rule::LoadUnconfined),             // scale 8
        ("8a 02", Rule::LoadUnconfined),                // no index
        ("8a 04 35 00 00 00 00", Rule::LoadUnconfined), // no base
        ("67 8a 04 32", Rule::LoadUnconfined),
        ("65 8a 04 32", Rule::LoadUnconfined),
        ("64 8a 04 32", Rule::FsNamed),
        ("2e 8a 04 32", Rule::Prefix),
        ("88 04 32", Rule::StoreSegment),
        ("00 04 32", Rule::StoreSegment),
        ("ff 04 32", Rule::StoreSegment),
        ("0f a3 04 32", Rule::StoreMoving), // bt %eax
        ("ff 34 32", Rule::StackImplicit),
        ("0f 18 04 32", Rule::SilentAccess),          // a hint
        ("62 f1 7c 49 28 04 32", Rule::SilentAccess), // a mask
        ("c4 e2 7d 2c 04 32", Rule::SilentAccess),    // vmaskmovps
        ("62 f2 7d 49 90 04 32", Rule::SilentAccess), // a gather
    ] {
        assert_eq!(both(&with(load), &[]), [[rule], [rule]], "{load}");
    }
    for load in ["ff 24 32", "ff 14 32"] {
        assert!(both(&with(load), &[]).iter().all(|found| found.contains(&Rule::IndirectBranch)), "{load}");
    }
    // These load nothing, or are confined.
    for code in ["48 8d 04 32", "0f 1f 04 32", "65 67 8a 04 32"] {
        accept(code, Full);
    }
}

/// The displacement is no field that somebody may still change.
#[test]
fn relocations() {
    let code = format!("{BASE} {NUMBER} 8a 84 32 00 00 00 00 b8 00 00 00 00 c3");
    let rules = |offset| {
        let elf = Elf::text(&hex(&code)).symbol(symbol("data", 0, 0)).relocations(1, &[(offset, R_32S, 2, 0)]);
        rules(&elf, Full)
    };
    assert_eq!(rules(20), []);
    assert_eq!(rules(15), [Rule::RelocationGuard]);
    // A number for the base, and an addend
    let elf = Elf::text(&hex(&code)).symbol(symbol("other", 0, 0)).relocations(1, &[(6, R_32S, 2, 0)]);
    assert_eq!(support::rules(&elf, Full), [Rule::LoadBased]);
}

#[test]
fn branches() {
    // base | 10: number | 12: load | 15: ret
    let region = format!("{BASE} {NUMBER} {LOAD}");
    fine(&format!("eb 00 {region} c3"));
    fine(&format!("eb 0f {region} 90 c3"));
    for distance in ["0a", "0c"] {
        closed(&format!("eb {distance} {region} c3"));
        closed(&format!("74 {distance} {region} c3"));
        closed(&format!("e3 {distance} {region} c3"));
        closed(&format!("e8 {distance} 00 00 00 {region} c3"));
    }
    // into instructions
    for distance in ["01", "0b", "0d"] {
        closed(&format!("eb {distance} {region} c3"));
    }
    // back: to the start only
    fine(&format!("{region} 75 ef c3"));
    fine(&format!("{region} e2 ef c3"));
    for distance in ["f9", "fb"] {
        closed(&format!("{region} 75 {distance} c3"));
        closed(&format!("{region} e2 {distance} c3"));
    }
    // from one region into another
    closed(&format!("{region} {region} eb ec"));
    fine(&format!("{region} {region} eb ef"));
}

#[test]
fn symbols_and_slots() {
    // nop | 1: base | 11: number | 13: load | 16: nop | 17: ret
    let code = format!("90 {BASE} {NUMBER} {LOAD} 90 c3");
    let end = hex(&code).len() as u64;
    for value in 0..=end {
        let rules = rules(&Elf::text(&hex(&code)).symbol(symbol("g", 1, value)), Full);
        let legal = [0, 1, 16, 17, 18].contains(&value);
        assert_eq!(rules, if legal { vec![] } else { vec![Rule::SymbolTarget] }, "value {value}");
        let slot = both(&code, &[value]);
        assert_eq!(slot[1], if legal && value != end { vec![] } else { vec![Rule::FinalSlot] }, "slot {value}");
    }
}

/// A relocated branch to a symbol is one from outside, wherever it stands.
#[test]
fn relocated_branches() {
    let rules = |value| {
        let code = hex(&format!("{BASE} {NUMBER} {LOAD} e9 00 00 00 00"));
        rules(&Elf::text(&code).symbol(symbol("g", 1, value)).relocations(1, &[(16, R_PLT32, 2, -4)]), Full)
    };
    assert_eq!(rules(0), []);
    assert_eq!(rules(10), [Rule::SymbolTarget]);
    assert_eq!(rules(12), [Rule::SymbolTarget]);
}

/// A region ends with its section, and in a final text it does not go on in the next one.
#[test]
fn ends_of_texts() {
    let mut elf = Elf::text(&hex(BASE));
    elf.add(section(".text.2", PROGBITS, A | X, hex(&format!("{NUMBER} {LOAD} c3"))));
    assert_eq!(rules(&elf, Full), [Rule::LoadBased]);
    // Padding is int3.
    fine(&format!("{BASE} {NUMBER} {LOAD} cc cc cc"));
    broken(&format!("{BASE} {NUMBER} cc {LOAD}"));
    fine(&format!("{BASE} {NUMBER} {LOAD}"));
    // Behind bytes that do not decode the check goes on at the next symbol, without the base.
    let cut = Elf::text(&hex(&format!("{BASE} {NUMBER} 06 {NUMBER} {LOAD}"))).symbol(symbol("g", 1, 13));
    assert_eq!(rules(&cut, Full), [Rule::Undecodable, Rule::LoadBased]);
}

/// Verdicts do not depend on other texts that a verifier has seen.
#[test]
fn memory() {
    let right = format!("{BASE} {NUMBER} {LOAD} 75 ef c3");
    let wrong = ["90", "c3", "48 ff c2", "48 ff c6"].map(|code| format!("{BASE} {NUMBER} {code} {LOAD} 75 ef c3"));
    let mut verifier = Verifier::new(&options(Full));
    for code in [&right].into_iter().chain(&wrong).chain([&right]).chain(&wrong) {
        let bytes = Elf::text(&hex(code)).build();
        let alone = rules_of(&verify(&bytes, &options(Full)).unwrap());
        assert_eq!(rules_of(&verifier.verify(&bytes).unwrap()), alone, "{code}");
    }
}

#[test]
fn reports_say_what_is_missing() {
    let detail = |code: &str| {
        let bytes = Elf::text(&hex(code)).build();
        let report = verify(&bytes, &options(Mode::Full)).unwrap();
        report.violations.into_iter().map(|v| v.detail).collect::<Vec<_>>().join("; ")
    };
    assert!(detail(LOAD).contains("__sfi_header"));
    assert!(detail(&format!("{BASE} {LOAD}")).contains("%r32"));
    assert!(detail(&format!("{BASE} {NUMBER} 8a 44 32 ff")).contains("0x7fff"));
}
