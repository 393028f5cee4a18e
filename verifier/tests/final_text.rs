//! The second check, over the bytes that will run.

mod support;

use sfi_contract::Mode::{self, Full, Match, Write};
use sfi_contract::{Anchors, Rule};
use sfi_verifier::{FinalText, Options, verify_text};
use support::hex;

const OFFSET: u64 = 0x40_0000;

fn check(code: &str, gateways: &[u64], slots: &[u64], mode: Mode) -> Vec<Rule> {
    check_at(OFFSET, code, gateways, slots, mode)
}

fn check_at(offset: u64, code: &str, gateways: &[u64], slots: &[u64], mode: Mode) -> Vec<Rule> {
    let bytes = hex(code);
    let text = FinalText { bytes: &bytes, offset, gateways, slots, anchors: Anchors::EXAMPLE };
    match verify_text(&text, &Options { mode, ..Options::default() }) {
        Ok(_) => Vec::new(),
        Err(violations) => {
            assert!(!violations.is_empty());
            let mut rules: Vec<Rule> = violations.iter().map(|v| v.rule).collect();
            rules.dedup();
            rules
        }
    }
}

#[test]
fn t01_branches() {
    let gateway = OFFSET + 0x1000;
    // jmp to the gateway: e9 at OFFSET, next is OFFSET + 5
    let jump = |target: u64| {
        let distance = (target.wrapping_sub(OFFSET + 5) as u32).to_le_bytes();
        format!("e9 {:02x}{:02x}{:02x}{:02x} cc", distance[0], distance[1], distance[2], distance[3])
    };
    assert_eq!(check(&jump(gateway), &[gateway], &[], Write), []);
    assert_eq!(check(&jump(OFFSET), &[gateway], &[], Write), []);
    assert_eq!(check(&jump(OFFSET + 5), &[gateway], &[], Write), []);
    for target in [gateway + 1, gateway - 1, OFFSET + 1, OFFSET + 6, OFFSET - 1, 0, 1 << 31] {
        assert_eq!(check(&jump(target), &[gateway], &[], Write), [Rule::FinalTarget], "{target:#x}");
    }
    assert_eq!(check(&jump(gateway), &[], &[], Write), [Rule::FinalTarget]);
    // Gateways need no order.
    assert_eq!(check(&jump(gateway), &[gateway + 64, gateway, gateway + 32], &[], Write), []);
    // Into an unsafe region.
    let region = "89 ff 65 48 03 3c 25 00 f0 0f 00 aa cc";
    assert_eq!(check(&format!("eb 02 {region}"), &[], &[], Write), [Rule::FinalTarget]);
    assert_eq!(check(&format!("eb 00 {region}"), &[], &[], Write), []);
}

#[test]
fn t02_slots() {
    let code = "b8 0f 05 00 00 89 ff 65 48 03 3c 25 00 f0 0f 00 aa c3";
    for (slot, legal) in [(0, true), (1, false), (5, true), (7, false), (16, false), (17, true), (18, false)] {
        let expected = if legal { vec![] } else { vec![Rule::FinalSlot] };
        assert_eq!(check(code, &[], &[OFFSET + slot], Write), expected, "slot {slot}");
    }
    assert_eq!(check(code, &[7], &[7], Write), []);
    assert_eq!(check(code, &[], &[0], Write), [Rule::FinalSlot]);
    assert_eq!(check(code, &[], &[u64::MAX], Write), [Rule::FinalSlot]);
}

#[test]
fn t03_loads() {
    // mov distance(%rip),%rax at OFFSET; the next instruction is OFFSET + 7
    let load = |target: i64| {
        let distance = ((target - OFFSET as i64 - 7) as i32).to_le_bytes();
        format!("48 8b 05 {:02x}{:02x}{:02x}{:02x}", distance[0], distance[1], distance[2], distance[3])
    };
    for target in [0, OFFSET as i64, 0x7000_0000] {
        assert_eq!(check(&load(target), &[], &[], Full), []);
    }
    for target in [-1, -4096, -(1 << 30)] {
        assert_eq!(check(&load(target), &[], &[], Full), [Rule::FinalLoad]);
        assert_eq!(check(&load(target), &[], &[], Write), []);
    }
}

/// The whole operand of a store lies in the window, in every mode and with any immediate after it.
#[test]
fn t04_stores() {
    // (before the displacement, after it)
    let forms = [
        ("48 89 05", ""),          // mov %rax,d(%rip)
        ("66 c7 05", "34 12"),     // movw $0x1234,d(%rip)
        ("c7 05", "78 56 34 12"),  // movl $0x12345678,d(%rip)
        ("80 0d", "01"),           // orb $1,d(%rip)
        ("f0 48 0f c7 0d", ""),    // lock cmpxchg16b d(%rip)
        ("62 f1 7c 49 11 05", ""), // vmovups %zmm0,d(%rip){%k1}
        ("dd 35", ""),             // fnsave d(%rip)
    ];
    for (before, behind) in forms {
        let length = (hex(before).len() + 4 + hex(behind).len()) as i64;
        let rules = |text: u64, target: i64, mode| {
            let distance = i32::try_from(target - text as i64 - length).expect("within 2 GiB").to_le_bytes();
            let distance: String = distance.iter().map(|byte| format!("{byte:02x} ")).collect();
            check_at(text, &format!("{before} {distance} {behind}"), &[], &[], mode)
        };
        for mode in [Write, Match, Full] {
            for target in [0, 1, OFFSET as i64, 0x7000_0000] {
                assert_eq!(rules(OFFSET, target, mode), [], "{before} to {target:#x}");
            }
            for target in [-1, -8, -63, -128, -4096, -(1 << 30)] {
                assert_eq!(rules(OFFSET, target, mode), [Rule::FinalStore], "{before} to {target:#x}");
            }
            let end = 1i64 << 32;
            for target in [end - 128, end - 4096] {
                assert_eq!(rules(0xf000_0000, target, mode), [], "{before} to {target:#x}");
            }
            for target in [end - 127, end - 64, end - 1, end, end + 4096, end + 0x6000_0000] {
                assert_eq!(rules(0xf000_0000, target, mode), [Rule::FinalStore], "{before} to {target:#x}");
            }
        }
    }
}

#[test]
fn instruction_rules_hold_again() {
    for (code, rule) in [
        ("48 89 07", Rule::StoreSegment),
        ("65 48 89 07", Rule::StoreAddressSize),
        ("0f 05", Rule::System),
        ("06", Rule::Undecodable),
        ("6a 00", Rule::StackImplicit),
        ("58", Rule::StackDepth),
        ("ff e0", Rule::IndirectBranch),
        ("aa", Rule::StringMask),
        ("48 89 e0", Rule::StackPointer),
        ("b8 00", Rule::Undecodable),
    ] {
        assert_eq!(check(code, &[], &[], Write), [rule], "{code}");
    }
    assert_eq!(check("48 8b 07", &[], &[], Full), [Rule::LoadUnconfined]);
    assert_eq!(check("48 8b 07", &[], &[], Write), []);
    assert_eq!(check("", &[], &[], Write), []);
}

#[test]
fn offsets_are_those_of_the_window() {
    let bytes = hex("90 48 89 07");
    let text = FinalText { bytes: &bytes, offset: OFFSET, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
    let violations = verify_text(&text, &Options::default()).unwrap_err();
    assert_eq!(violations[0].offset, OFFSET + 1);
    assert_eq!(violations[0].instruction.as_deref(), Some("mov %rax, (%rdi)"));
}

/// The stub that a branch reaches may use GS, although the text does not.
#[test]
fn a_branch_to_a_stub_counts_as_gs() {
    let gs = |code: &str| {
        let text = FinalText {
            bytes: &hex(code),
            offset: OFFSET,
            gateways: &[OFFSET - 0x40, OFFSET - 0x20],
            slots: &[OFFSET - 0x40, OFFSET],
            anchors: Anchors::EXAMPLE,
        };
        verify_text(&text, &Options::default()).unwrap().usage.gs
    };
    // call and jmp to either stub, a jcc, and the last of several branches.
    for code in ["e8 db ff ff ff c3", "eb de", "e9 bb ff ff ff", "74 be c3", "eb 01 c3 75 db c3"] {
        assert!(gs(code), "{code}");
    }
    assert!(!gs("eb 00 e8 01 00 00 00 c3 c3") && !gs("c3"));
}
