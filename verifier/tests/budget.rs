//! Rules `SFI-B04` to `SFI-B07`: charges of a budgeted text.

mod support;

use sfi_contract::Mode::{Full, Match, Write};
use sfi_contract::{Anchors, Mode, Rule};
use sfi_verifier::{FinalText, Options, verify, verify_text};
use support::{Elf, RDI, RSI, hex, rules_of};

const OFFSET: u64 = 0x40_0000;

/// Returns the rules that a budgeted object breaks.
fn broken(code: &str, mode: Mode) -> Vec<Rule> {
    let bytes = Elf::text(&hex(code)).build();
    rules_of(&verify(&bytes, &Options { mode, budget: true, ..Options::default() }).expect("readable"))
}

/// Returns the rules that a budgeted final text breaks.
fn broken_at_last(code: &str, gateways: &[u64], slots: &[u64], mode: Mode) -> Vec<Rule> {
    let text = FinalText { bytes: &hex(code), offset: OFFSET, gateways, slots, anchors: Anchors::EXAMPLE };
    let found = verify_text(&text, &Options { mode, budget: true, ..Options::default() });
    let mut rules: Vec<Rule> = found.err().unwrap_or_default().iter().map(|violation| violation.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// `sub $amount,%r14 ; jb +over`
fn charge(amount: u8, over: u8) -> String {
    format!("49 83 ee {amount:02x} 72 {over:02x}")
}

#[test]
fn b04_the_register_is_only_charged() {
    assert_eq!(broken(&format!("{} c3 cc", charge(3, 1)), Write), []);
    // inc %r14 ; mov %r14,%rax ; lea (%rax,%r14),%rax ; movq %xmm0,%r14
    for code in ["49 ff c6", "4c 89 f0", "4a 8d 04 30", "66 49 0f 7e c6"] {
        let length = hex(code).len() as u8;
        let text = format!("{} {code} c3 cc", charge(4, length + 1));
        assert_eq!(broken(&text, Write), [Rule::BudgetRegister], "{code}");
        assert_eq!(broken_at_last(&text, &[], &[], Write), [Rule::BudgetRegister], "{code}");
        // Other texts may do so.
        let bytes = Elf::text(&hex(&text)).build();
        assert!(verify(&bytes, &Options::default()).expect("readable").is_safe(), "{code}");
    }
    // The trap is a nop, is missing, or lies outside the text.
    for over in [0, 2, 3] {
        let rules = broken(&format!("{} 90 c3 90", charge(9, over)), Write);
        assert!(rules.contains(&Rule::BudgetRegister), "{over}: {rules:?}");
    }
}

#[test]
fn b05_branches_lead_to_charges() {
    let start = charge(9, 4);
    // jmp to the charge, to the trap, and to an instruction between
    assert_eq!(broken(&format!("{start} 90 eb f7 90 cc"), Write), []);
    assert_eq!(broken(&format!("{start} 90 eb 01 90 cc"), Write), []);
    assert_eq!(broken(&format!("{start} 90 eb 00 90 cc"), Write), []);
    assert_eq!(broken(&format!("{start} 90 eb fd 90 cc"), Write), [Rule::Uncharged]);
    // Calls never lead forward within a segment.
    assert_eq!(broken(&format!("{} e8 00 00 00 00 c3 cc", charge(9, 6)), Write), [Rule::Uncharged]);
    assert_eq!(broken(&format!("{} e8 f5 ff ff ff c3 cc", charge(9, 6)), Write), []);
    // A forward branch over a charge needs a charge at its target.
    let second = charge(9, 3);
    assert_eq!(broken(&format!("{} 74 07 {second} 90 90 c3 cc", charge(9, 11)), Write), [Rule::Uncharged]);
    assert_eq!(broken(&format!("{} 74 00 {second} 90 90 c3 cc", charge(9, 11)), Write), []);
    // Into and behind a charge.
    assert_eq!(broken(&format!("{} eb fa 90 cc", charge(9, 3)), Write), [Rule::BranchIntoRegion, Rule::Uncharged]);
    assert_eq!(broken(&format!("{} eb fc 90 cc", charge(9, 3)), Write), [Rule::BranchIntoRegion, Rule::Uncharged]);
    assert_eq!(broken(&format!("{} eb fe 90 cc", charge(9, 3)), Write), [Rule::Uncharged]);
    // A segment ends at an int3.
    assert_eq!(broken(&format!("{} 74 01 cc 90 c3", charge(9, 2)), Write), [Rule::Uncharged]);
}

#[test]
fn b05_slots_lead_to_charges() {
    let code = format!("{} 90 c3 cc", charge(4, 2));
    for (slot, rules) in [
        (0, vec![]),
        (4, vec![Rule::Uncharged, Rule::FinalSlot]),
        (6, vec![Rule::Uncharged]),
        (7, vec![Rule::Uncharged]),
        (8, vec![]),
        (64, vec![Rule::FinalSlot]),
    ] {
        assert_eq!(broken_at_last(&code, &[], &[OFFSET + slot], Write), rules, "slot {slot}");
    }
    assert_eq!(broken_at_last(&code, &[OFFSET + 64], &[OFFSET + 64, OFFSET], Write), []);
}

#[test]
fn b06_charges_suffice() {
    for (amount, rules) in [(3, vec![Rule::ChargeAmount]), (4, vec![]), (5, vec![])] {
        assert_eq!(broken(&format!("{} 90 c3 cc 90", charge(amount, 2)), Write), rules, "{amount}");
    }
    // Up to the next charge.
    let second = charge(3, 1);
    assert_eq!(broken(&format!("{} 90 {second} c3 cc", charge(3, 8)), Write), []);
    assert_eq!(broken(&format!("{} 90 {second} c3 cc", charge(2, 8)), Write), [Rule::ChargeAmount]);
}

#[test]
fn b07_repetitions_are_charged() {
    let count = |over: u8| format!("49 29 ce 72 {over:02x}");
    // rep stos
    assert_eq!(broken(&format!("{} {RDI} f3 aa c3 cc", charge(9, 14)), Write), [Rule::RepeatUncharged]);
    assert_eq!(broken(&format!("{} {} {RDI} f3 aa c3 cc", charge(9, 19), count(14)), Write), []);
    assert_eq!(
        broken(&format!("{} {} 90 {RDI} f3 aa c3 cc", charge(9, 20), count(15)), Write),
        [Rule::RepeatUncharged]
    );
    // stos
    assert_eq!(broken(&format!("{} {RDI} aa c3 cc", charge(9, 13)), Write), []);
    // repne scas, and a branch to it
    assert_eq!(broken(&format!("{} {} f2 ae c3 cc", charge(9, 8), count(3)), Write), []);
    let skipped = format!("{} 74 05 {} f2 ae c3 cc", charge(9, 10), count(3));
    assert_eq!(broken(&skipped, Write), [Rule::BranchIntoRegion]);
    // rep movs of mode full
    let copy = format!("{} {} {RSI} {RDI} f3 a4 c3 cc", charge(10, 30), count(25));
    assert_eq!(broken(&copy, Full), []);
    assert_eq!(broken(&format!("{} {RSI} {RDI} f3 a4 c3 cc", charge(9, 25)), Full), [Rule::RepeatUncharged]);
}

/// A check of mode match branches over an `int3`, so no text is budgeted and checked.
#[test]
fn not_in_mode_match() {
    let bytes = [hex(&charge(9, 3)), hex("eb 01 cc 90 c3")].concat();
    let text = FinalText { bytes: &bytes, offset: OFFSET, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
    assert!(verify_text(&text, &Options { mode: Match, budget: true, ..Options::default() }).is_err());
}
