//! Rule `SFI-C03`: saved registers on the control stack.

mod support;

use sfi_contract::Mode::{Full, Match, Write};
use sfi_contract::matching::{HEAD, STORE, STORE_KEEPING_FLAGS};
use sfi_contract::saves::Saves;
use sfi_contract::{Anchors, Rule};
use sfi_verifier::{FinalText, Options, verify, verify_text};
use support::{Elf, filled, hex, rules, rules_of};

const OFFSET: u64 = 0x40_0000;

/// Returns the rules that an object breaks, the same in all modes.
fn broken(code: &str) -> Vec<Rule> {
    let bytes = Elf::text(&hex(code)).build();
    let [rules, full, matching] = [Write, Full, Match]
        .map(|mode| rules_of(&verify(&bytes, &Options { mode, ..Options::default() }).expect("readable")));
    assert!(rules == full && rules == matching, "{code}: {rules:?}, {full:?}, {matching:?}");
    rules
}

/// Returns the saves of a final text, or the rules that it breaks.
fn at_last(code: &str, gateways: &[u64], slots: &[u64]) -> Result<Saves, Vec<Rule>> {
    let text = FinalText { bytes: &hex(code), offset: OFFSET, gateways, slots, anchors: Anchors::EXAMPLE };
    match verify_text(&text, &Options::default()) {
        Ok(checked) => Ok(checked.saves),
        Err(found) => {
            let mut rules: Vec<Rule> = found.iter().map(|violation| violation.rule).collect();
            rules.dedup();
            Err(rules)
        }
    }
}

/// All registers but rsp can be saved, with and without REX.
#[test]
fn every_register_is_saved_and_removed() {
    let rex = |register: u8| if register < 8 { String::new() } else { "41 ".to_owned() };
    for register in (0..16).filter(|register| *register != 4) {
        let (push, pop) = (0x50 + register % 8, 0x58 + register % 8);
        let [push, pop] = [push, pop].map(|opcode| format!("{}{opcode:02x}", rex(register)));
        assert_eq!(broken(&format!("{push} {pop} c3")), [], "{register}");
        assert_eq!(broken(&format!("{push} c3")), [Rule::StackDepth], "{register}");
        assert_eq!(broken(&format!("{pop} c3")), [Rule::StackDepth], "{register}");
    }
    // push %rsp, pop %rsp
    assert_eq!(broken("54 58 c3"), [Rule::StackPointer]);
    assert_eq!(broken("53 5c c3"), [Rule::StackPointer]);
    // Prefixes without a meaning.
    for prefix in ["40", "42", "44", "48", "65", "66", "67", "f0", "f2", "f3", "2e", "64"] {
        let rules = broken(&format!("{prefix} 53 5b c3"));
        assert!(!rules.is_empty(), "{prefix}");
    }
}

/// A place has one depth, whatever leads there.
#[test]
fn ways_agree() {
    // push %rbx ; je over the pop, to it, behind the return
    assert_eq!(broken("53 74 00 5b c3"), []);
    assert_eq!(broken("53 74 01 5b c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 74 02 5b c3 c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 74 02 5b c3 5b c3"), []);
    // A loop whose condition comes last: push ; jmp 2f ; 1: nop ; 2: jne 1b ; pop ; ret
    assert_eq!(broken("53 eb 01 90 75 fd 5b c3"), []);
    // The same with a push or pop in the loop.
    assert_eq!(broken("53 eb 01 53 75 fd 5b c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 eb 01 5b 75 fd 5b c3"), [Rule::StackDepth]);
    // Only later code reaches a place: jmp 2f ; 1: pop ; ret ; 2: push ; jmp 1b
    assert_eq!(broken("eb 02 5b c3 53 eb fb"), []);
    assert_eq!(broken("eb 02 5b c3 90 eb fb"), [Rule::StackDepth]);
    // jrcxz and loop are branches, too.
    assert_eq!(broken("53 e3 01 5b c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 e2 01 5b c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 0f 84 01 00 00 00 5b c3"), [Rule::StackDepth]);
    // A call stands before the branch.
    assert_eq!(broken("53 e8 00 00 00 00 74 02 5b c3 5b c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 e8 06 00 00 00 74 02 5b c3 5b c3 c3"), []);
    // Behind a trap nothing goes on.
    assert_eq!(broken("53 0f 0b c3"), []);
    assert_eq!(broken("53 cc c3"), []);
    assert_eq!(broken("53 90 c3"), [Rule::StackDepth]);
    // Behind a return another function begins.
    assert_eq!(broken("53 5b c3 53 5b c3"), []);
    assert_eq!(broken("53 5b c3 5b c3"), [Rule::StackDepth]);
}

/// A call begins an activation of its own.
#[test]
fn calls_lead_to_places_without_saves() {
    // push ; call 1f ; pop ; ret ; 1: ret
    assert_eq!(broken("53 e8 02 00 00 00 5b c3 c3"), []);
    // ... ; 1: pop ; ret, and behind the push
    assert_eq!(broken("53 e8 02 00 00 00 5b c3 5b c3"), [Rule::StackDepth]);
    assert_eq!(broken("53 e8 00 00 00 00 5b c3"), [Rule::StackDepth]);
    // A function calls itself.
    assert_eq!(broken("53 e8 fa ff ff ff 5b c3"), []);
    assert_eq!(broken("53 e8 fb ff ff ff 5b c3"), [Rule::StackDepth]);
    // An indirect call at any depth, an indirect jump at none.
    let region = |branch: &str| format!("81 e0 f8 ff 0f 00 65 67 ff {branch} 00 00 10 00");
    let text = |code: &str, slots: &[u64]| at_last(code, &[], slots).map(|_| ());
    assert_eq!(text(&format!("53 {} 5b c3", region("90")), &[]), Ok(()));
    assert_eq!(text(&format!("53 {}", region("a0")), &[]), Err(vec![Rule::StackDepth]));
    assert_eq!(text(&format!("53 5b {}", region("a0")), &[]), Ok(()));
}

/// The final text knows slots and gateways.
#[test]
fn ways_from_elsewhere_lead_to_places_without_saves() {
    let text = |code: &str, gateways: &[u64], slots: &[u64]| at_last(code, gateways, slots).map(|_| ());
    assert_eq!(text("53 5b c3", &[], &[OFFSET, OFFSET + 2]), Ok(()));
    assert_eq!(text("53 5b c3", &[], &[OFFSET + 1]), Err(vec![Rule::StackDepth]));
    // Nothing is saved at a text's beginning, even if only a jump leads there: 1: pop ; ret ; push
    // ; jmp 1b
    assert_eq!(text("5b c3 53 eb fb", &[], &[OFFSET + 2]), Err(vec![Rule::StackDepth]));
    assert_eq!(text("90 5b c3 53 eb fb", &[], &[OFFSET + 3]), Err(vec![Rule::StackDepth]));
    assert_eq!(text("cc 5b c3 53 eb fb", &[], &[OFFSET + 3]), Ok(()));
    // A call of a gateway, and a jump there.
    let gate = OFFSET - 0x100;
    assert_eq!(text("53 e8 fa fe ff ff 5b c3", &[gate], &[]), Ok(()));
    assert_eq!(text("53 e9 fa fe ff ff", &[gate], &[]), Err(vec![Rule::StackDepth]));
    assert_eq!(text("53 5b e9 f9 fe ff ff", &[gate], &[]), Ok(()));
}

#[test]
fn depths_are_reported() {
    let saves = at_last("53 55 90 5d 5b c3 41 54 41 5c c3", &[], &[]).expect("accepted");
    let depths: Vec<u8> = (0..11).map(|offset| saves.depth(offset)).collect();
    assert_eq!(depths, [0, 1, 2, 2, 1, 0, 0, 0, 1, 1, 0]);
    assert!(at_last("90 c3", &[], &[]).expect("accepted").is_empty());
}

/// Fifteen words are the most.
#[test]
fn words_are_counted() {
    let text = |words: usize| format!("{} {} c3", "53 ".repeat(words), "5b ".repeat(words));
    assert_eq!(broken(&text(15)), []);
    assert_eq!(broken(&text(16)), [Rule::StackDepth]);
    assert_eq!(broken(&text(300)), [Rule::StackDepth]);
}

/// Depths that no order of the text tells are found in one pass: many places that only later code
/// reaches.
#[test]
fn long_chains_take_no_long() {
    // push ; jmp to the last ; then n times: jmp to the one before ; the first: pop ; ret
    let n = 60_000_u32;
    let mut code = vec![0x53];
    let jump = |code: &mut Vec<u8>, to: i64| {
        code.push(0xe9);
        let distance = to - (code.len() as i64 + 4);
        code.extend_from_slice(&(distance as i32).to_le_bytes());
    };
    let at = |i: u32| 1 + 5 + 2 + 5 * i64::from(i);
    jump(&mut code, at(n - 1));
    code.extend_from_slice(&[0x5b, 0xc3]);
    for i in 0..n {
        jump(&mut code, if i == 0 { 6 } else { at(i - 1) });
    }
    let bytes = Elf::text(&code).build();
    let begin = std::time::Instant::now();
    assert!(verify(&bytes, &Options::default()).expect("readable").is_safe());
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

/// The checks of mode match branch over a trap, and words may be saved there, in objects as in the
/// final text.
#[test]
fn checks_of_mode_match_keep_the_depth() {
    for end in [filled(&STORE), filled(&STORE_KEEPING_FLAGS)] {
        // mov %rdx,%gs:(%edi), after its check
        let store = [filled(&HEAD), hex("48 8d 0f"), end, hex("65 67 48 89 17")].concat();
        let options = Options { mode: Match, ..Options::default() };
        for (before, after, expected) in
            [("53", "5b c3", vec![]), ("53", "c3", vec![Rule::StackDepth]), ("90", "5b c3", vec![Rule::StackDepth])]
        {
            let bytes = [hex(before), store.clone(), hex(after)].concat();
            assert_eq!(rules(&Elf::text(&bytes), Match), expected, "{before} {after}");
            let text =
                FinalText { bytes: &bytes, offset: OFFSET, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
            let found =
                verify_text(&text, &options).map_or_else(|all| all.iter().map(|v| v.rule).collect(), |_| vec![]);
            assert_eq!(found, expected, "{before} {after}");
        }
    }
}
