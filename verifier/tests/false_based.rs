//! False claims of based loads: texts of mode full made of pieces by chance, and texts in which
//! bytes are changed. A judge of its own follows all ways through the accepted texts and knows what
//! the registers hold. It takes only the legal targets from the verifier, which are the ways in.
//! `SFI_BASED_CASES=10000000 cargo test --release -p sfi-verifier --test false_based` runs longer.

mod support;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register};
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::RngExt;
use sfi_contract::{Anchors, Mode, Rule};
use sfi_verifier::{FinalText, Options, verify_text};
use std::collections::BTreeMap;
use support::hex;

const OFFSET: u64 = 0x40_0000;

/// Returns the legal targets of a text, `None` if it is refused.
fn ways_in(bytes: &[u8]) -> Option<Vec<u64>> {
    let options = Options { mode: Mode::Full, ..Options::default() };
    let refused = |slots: &[u64]| {
        let text = FinalText { bytes, offset: OFFSET, gateways: &[], slots, anchors: Anchors::EXAMPLE };
        verify_text(&text, &options).err().unwrap_or_default()
    };
    let all: Vec<u64> = (0..bytes.len() as u64).map(|at| OFFSET + at).collect();
    let violations = refused(&all);
    let illegal: Vec<u64> = violations.iter().filter(|v| v.rule == Rule::FinalSlot).map(|v| v.offset).collect();
    if violations.len() > illegal.len() {
        return None;
    }
    Some(all.into_iter().filter(|at| !illegal.contains(at)).map(|at| at - OFFSET).collect())
}

/// The sure content of a register.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Anything,
    /// The window's base.
    Base,
    /// A number below 2^32.
    Number,
}

type State = [Holds; 16];
const UNKNOWN: State = [Holds::Anything; 16];

/// Says whether it is `mov %gs:__sfi_header,%r64`, in a domain with [`Anchors::EXAMPLE`].
fn is_header(i: &Instruction) -> bool {
    i.code() == Code::Mov_r64_rm64
        && i.segment_prefix() == Register::GS
        && [i.memory_base(), i.memory_index()] == [Register::None; 2]
        && i.memory_displacement64() == Anchors::EXAMPLE.header
}

/// Says whether the load of an instruction stays in window and guard.
fn stays(i: &Instruction, state: &State) -> bool {
    let holds = |register: Register| if register.is_gpr64() { state[register.number()] } else { Holds::Anything };
    let size = i.memory_size().size() as u64;
    i.segment_prefix() == Register::GS
        || holds(i.memory_base()) == Holds::Base
            && holds(i.memory_index()) == Holds::Number
            && i.memory_index_scale() == 1
            && i.memory_displacement64() < 0x1_0000 - size
}

/// Describes a load that may leave window and guard. Says also how many others there are.
fn wrong(bytes: &[u8], ways: &[u64]) -> Result<usize, String> {
    let mut factory = InstructionInfoFactory::new();
    let mut states: BTreeMap<u64, State> = ways.iter().map(|at| (*at, UNKNOWN)).collect();
    let mut todo = ways.to_vec();
    let mut based = BTreeMap::new();
    while let Some(at) = todo.pop() {
        // The text's end is a trap.
        let Some(rest) = bytes.get(at as usize..).filter(|rest| !rest.is_empty()) else { continue };
        let i = Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode();
        let state = states[&at];
        let info = factory.info(&i);
        let loads = info.used_memory().iter().any(|m| m.segment() == Register::DS && m.access() != OpAccess::None);
        if i.memory_base().is_gpr64() && loads {
            if !stays(&i, &state) {
                return Err(format!("{i} at {at:#x}"));
            }
            based.insert(at, ());
        }
        let mut after = state;
        for used in info.used_registers() {
            let register = used.register();
            if register.is_gpr() && used.access() != OpAccess::Read && used.access() != OpAccess::CondRead {
                after[register.full_register().number()] = Holds::Anything;
            }
        }
        let zero_extends = matches!(i.code(), Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Lea_r32_m);
        if zero_extends && i.op0_register().is_gpr32() {
            after[i.op0_register().number()] = Holds::Number;
        } else if is_header(&i) {
            after[i.op0_register().number()] = Holds::Base;
        }
        let (next, target) = (i.next_ip(), i.near_branch_target());
        let ways = match i.flow_control() {
            FlowControl::Next => vec![(next, after)],
            FlowControl::UnconditionalBranch => vec![(target, after)],
            FlowControl::ConditionalBranch => vec![(target, after), (next, after)],
            FlowControl::Call => vec![(target, after), (next, UNKNOWN)],
            FlowControl::IndirectCall => vec![(next, UNKNOWN)],
            _ => Vec::new(),
        };
        for (to, state) in ways {
            let joined = match states.get(&to) {
                Some(old) => std::array::from_fn(|n| if old[n] == state[n] { old[n] } else { Holds::Anything }),
                None => state,
            };
            if states.insert(to, joined) != Some(joined) {
                todo.push(to);
            }
        }
    }
    Ok(based.len())
}

const BASE: &str = "65 67 48 8b 14 25 00 f0 0f 00"; // mov %gs:__sfi_header,%rdx
const NUMBER: &str = "89 c6"; // mov %eax,%esi
const LOAD: &str = "48 8b 04 32"; // mov (%rdx,%rsi),%rax

/// Pieces of code. `F` is a distance of one byte to another piece, `C` one of four bytes.
const PIECES: [&str; 54] = [
    BASE,
    "65 67 48 8b 0c 25 00 f0 0f 00", // mov %gs:__sfi_header,%rcx
    "65 67 48 8b 14 25 08 f0 0f 00", // mov %gs:__sfi_header+8,%rdx
    NUMBER,
    "8b f0",       // mov %eax,%esi
    "8d 34 18",    // lea (%rax,%rbx),%esi
    "67 8d 34 18", // lea (%eax,%ebx),%esi
    "89 f6",       // mov %esi,%esi
    "89 c1",       // mov %eax,%ecx
    "89 c2",       // mov %eax,%edx
    LOAD,
    "65 67 48 8b 14 25 00 f0 0f 00 89 c6 48 8b 04 32",
    "65 67 48 8b 14 25 00 f0 0f 00 89 c6 8a 44 32 08", // 8(%rdx,%rsi)
    "89 f6 48 8b 34 32",                               // mov (%rdx,%rsi),%rsi
    "89 f6 48 8b 14 32",                               // mov (%rdx,%rsi),%rdx
    "8d 34 18 8a 84 32 ff 7f 00 00",                   // 0x7fff(%rdx,%rsi)
    "89 c6 8a 84 32 00 80 00 00",                      // 0x8000(%rdx,%rsi)
    "89 c6 8a 44 32 ff",                               // -1(%rdx,%rsi)
    "89 c6 8a 04 31",                                  // (%rcx,%rsi)
    "89 c6 8a 04 16",                                  // (%rsi,%rdx)
    "89 c1 8a 04 0a",                                  // (%rdx,%rcx)
    "89 c6 02 04 72",                                  // (%rdx,%rsi,2)
    "8a 04 12",                                        // (%rdx,%rdx)
    "67 8a 04 32",                                     // (%edx,%esi)
    "65 67 8a 04 32",                                  // %gs:(%edx,%esi)
    "65 67 48 89 04 32",                               // a store
    "48 ff c2",                                        // inc %rdx
    "48 ff c6",                                        // inc %rsi
    "48 89 c6",                                        // mov %rax,%rsi
    "48 96",                                           // xchg %rax,%rsi
    "96",                                              // xchg %eax,%esi
    "0f a2",                                           // cpuid
    "48 f7 e3",                                        // mul %rbx
    "48 0f b1 de",                                     // cmpxchg %rbx,%rsi
    "40 b6 01",                                        // mov $1,%sil
    "48 0f c1 d3",                                     // xadd %rdx,%rbx
    "0f 44 f0",                                        // cmove %eax,%esi
    "48 63 f0",                                        // movslq %eax,%rsi
    "48 89 c2",                                        // mov %rax,%rdx
    "81 e0 f8 ff 0f 00 65 67 ff 90 00 00 10 00",       // call through the table
    "81 e0 f8 ff 0f 00 65 67 ff a0 00 00 10 00",       // jmp
    "89 f6 65 48 03 34 25 00 f0 0f 00 ac",             // lods
    "e8 C",
    "c3",
    "cc",
    "90",
    "75 F",
    "75 F",
    "75 F",
    "eb F",
    "eb F",
    "e3 F",
    "e2 F", // loop
    "85 c0",
];

/// Returns a text of pieces by chance. Many begin with the window's base.
fn any_text(rng: &mut TestRng) -> Vec<u8> {
    let mut pieces = vec![PIECES[rng.random_range(0..PIECES.len())], PIECES[rng.random_range(0..3)]];
    pieces.extend((0..rng.random_range(2..10)).map(|_| match rng.random_range(0..4) {
        0 => PIECES[rng.random_range(10..16)],
        1 => PIECES[rng.random_range(45..PIECES.len())],
        _ => PIECES[rng.random_range(0..PIECES.len())],
    }));
    let length = |piece: &str| hex(&piece.replace('F', "00").replace('C', "00000000")).len();
    let starts: Vec<usize> =
        pieces.iter().scan(0, |at, piece| Some(std::mem::replace(at, *at + length(piece)))).collect();
    let mut bytes = Vec::new();
    for piece in &pieces {
        for word in piece.split_whitespace() {
            // Sometimes behind the first byte or the first instruction of a piece.
            let to = starts[rng.random_range(0..starts.len())] + if rng.random_ratio(1, 8) { 2 } else { 0 };
            let from = |width: usize, bytes: &[u8]| to as i64 - (bytes.len() + width) as i64;
            match word {
                "F" => bytes.push(from(1, &bytes) as u8),
                "C" => bytes.extend((from(4, &bytes) as i32).to_le_bytes()),
                _ => bytes.extend(hex(word)),
            }
        }
    }
    bytes
}

/// Judges a text if the verifier accepts it. Returns the number of its based loads.
fn judge(bytes: &[u8]) -> Option<usize> {
    let ways = ways_in(bytes)?;
    Some(wrong(bytes, &ways).unwrap_or_else(|why| panic!("{why}: {bytes:02x?}")))
}

#[test]
fn the_judge_sees_mistakes() {
    let wrong = |code: &str, ways: &[u64]| wrong(&hex(code), ways);
    assert_eq!(wrong(&format!("{BASE} {NUMBER} {LOAD} 75 f8 c3"), &[0]), Ok(1));
    for (code, ways) in [
        (format!("{BASE} {NUMBER} {LOAD} 75 f8 c3"), &[0, 10][..]),
        (format!("{BASE} {NUMBER} {LOAD} 75 f8 c3"), &[0, 12]),
        (format!("{BASE} {NUMBER} {LOAD} 48 ff c2 75 f5 c3"), &[0]),
        (format!("{BASE} {NUMBER} 48 ff c6 {LOAD} c3"), &[0]),
        (format!("{BASE} {NUMBER} e8 00 00 00 00 {LOAD}"), &[0]),
        (format!("{BASE} {NUMBER} 8a 44 32 ff"), &[0]),
    ] {
        assert!(wrong(&code, ways).is_err(), "{code}");
    }
}

#[test]
fn accepted_texts_stay_in_window_and_guard() {
    let cases: u64 = std::env::var("SFI_BASED_CASES").ok().map_or(100_000, |n| n.parse().expect("a number"));
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let (mut accepted, mut based) = (0, 0);
    for _ in 0..cases {
        if let Some(loads) = judge(&any_text(&mut rng)) {
            accepted += 1;
            based += u64::from(loads != 0);
        }
    }
    println!("{cases} texts, {accepted} accepted, {based} with based loads");
    assert!(based > cases / 100, "{accepted} accepted of {cases}, {based} with based loads");
}

/// Every byte takes every value, and bytes are added, removed and moved.
#[test]
fn changed_texts_stay_in_window_and_guard() {
    let texts = [
        format!("{BASE} {NUMBER} 48 8b 44 32 08 48 85 c0 75 ea c3"),
        // forward over a region, and back to it
        format!("eb 13 {BASE} {NUMBER} 8a 84 32 ff 7f 00 00 85 c0 75 e9 90 c3"),
        // two regions, and a load of EVEX with a displacement of 127 * 64
        format!("89 d8 {BASE} {NUMBER} {LOAD} {BASE} {NUMBER} 62 f1 7c 48 28 44 32 7f e2 ea e3 d8 c3"),
    ];
    let (mut tried, mut kept) = (0, 0);
    for text in texts.map(|text| hex(&text)) {
        assert!(judge(&text).is_some_and(|loads| loads != 0), "{text:02x?}");
        let mut judge = |changed: &[u8]| {
            tried += 1;
            kept += usize::from(judge(changed).is_some_and(|loads| loads != 0));
        };
        for at in 0..text.len() {
            for byte in 0..=255 {
                let mut changed = text.clone();
                changed[at] = byte;
                judge(&changed);
                changed.insert(at, text[at]);
                judge(&changed);
            }
            judge(&[&text[..at], &text[at + 1..]].concat());
            for (to, length) in (0..text.len()).flat_map(|to| (1..8).map(move |length| (to, length))) {
                if to + length <= text.len() && at + length <= text.len() {
                    let mut copied = text.clone();
                    copied.copy_within(at..at + length, to);
                    judge(&copied);
                }
            }
        }
    }
    println!("{tried} texts, {kept} accepted with based loads");
    assert!(tried > 10_000 && kept > 500, "{tried} {kept}");
}
