//! False claims of mode match: checks that differ from those of the contract in one byte, that test
//! another address, or that a branch passes by. A judge of its own decides what the accepted texts
//! may look like: it takes from the contract the fixed bytes of a check and nothing else.

mod support;

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};
use sfi_contract::Anchors;
use sfi_contract::Mode::Match;
use sfi_contract::matching::{BRANCH, HEAD, STORE, STORE_KEEPING_FLAGS};
use sfi_verifier::{FinalText, Options, verify_text};
use support::{filled, hex};

const OFFSET: u64 = 0x40_0000;

fn accepted(bytes: &[u8]) -> bool {
    let text = FinalText { bytes, offset: OFFSET, gateways: &[], slots: &[], anchors: Anchors::EXAMPLE };
    verify_text(&text, &Options { mode: Match, ..Options::default() }).is_ok()
}

fn decode(bytes: &[u8]) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, bytes, OFFSET, DecoderOptions::NONE);
    std::iter::from_fn(|| decoder.can_decode().then(|| decoder.decode())).collect()
}

/// The address that an instruction computes: registers in 64 bits, scale, displacement in 32 bits.
type Address = (Register, Register, u32, u32);

fn address(base: Register, index: Register, scale: u32, displacement: u64) -> Address {
    let scale = if index == Register::None { 1 } else { scale };
    (base.full_register(), index.full_register(), scale, displacement as u32)
}

/// Says whether bytes end in a check of this address: `skip`, the head, a 64-bit `lea` to rcx, and
/// one of the ends. Returns where the check begins.
fn check_before(bytes: &[u8], ends: &[Vec<u8>], wanted: Address, skipped: bool) -> Option<usize> {
    let head = filled(&HEAD);
    ends.iter().find_map(|end| {
        let rest = bytes.strip_suffix(&end[..])?;
        (3..=8).find_map(|length| {
            let at = rest.len().checked_sub(length)?;
            let (before, lea) = rest.split_at(at);
            let i = Decoder::with_ip(64, lea, 0, DecoderOptions::NONE).decode();
            let tests = address(i.memory_base(), i.memory_index(), i.memory_index_scale(), i.memory_displacement64());
            // REX.W with what it extends, then the opcode, and nothing before them.
            let plain = lea[0] & 0xf8 == 0x48 && lea[1] == 0x8d && i.len() == length;
            let fits = plain && i.op0_register() == Register::RCX && tests == wanted;
            let before = before.strip_suffix(&head[..]).filter(|_| fits)?;
            if !skipped {
                return Some(before.len());
            }
            let over = u8::try_from(bytes.len() - before.len()).ok()?;
            before.strip_suffix(&[0xe3, over]).map(<[u8]>::len)
        })
    })
}

/// Describes the mistake of a text of mode match.
fn wrong(bytes: &[u8]) -> Option<String> {
    let mut factory = InstructionInfoFactory::new();
    let stores = [filled(&STORE), filled(&STORE_KEEPING_FLAGS)];
    let branches = [filled(&BRANCH)];
    let mut inside = Vec::new();
    let code = decode(bytes);
    for (n, i) in code.iter().enumerate() {
        let start = (i.ip() - OFFSET) as usize;
        let none = Register::None;
        // Where the unsafe region that holds the instruction begins.
        let region = |back: usize| code[n.checked_sub(back).unwrap_or(n)].ip() as usize - OFFSET as usize;
        let wanted: Vec<(Address, &[Vec<u8>], usize, bool)> = if i.is_jmp_near_indirect() || i.is_call_near_indirect() {
            vec![(address(i.memory_base(), none, 1, 0), &branches, region(1), false)]
        } else if i.is_string_instruction() {
            let writes = i.op0_kind() == iced_x86::OpKind::MemoryESRDI;
            let (size, repeated) = (i.memory_size().size() as u32, i.has_rep_prefix());
            let last = if repeated {
                (Register::RDI, Register::RCX, size, u32::MAX)
            } else {
                (Register::RDI, none, 1, size - 1)
            };
            let first = (Register::RDI, none, 1, 0);
            // The one of the last byte stands nearer.
            if writes {
                vec![(last, &stores, region(2), repeated), (first, &stores, usize::MAX, repeated)]
            } else {
                vec![]
            }
        } else {
            let info = factory.info(i);
            let write = |access| {
                !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
            };
            let named = |r: Register| !matches!(r, Register::None | Register::EIP | Register::RIP);
            let mut found = info.used_memory().iter().filter(|m| write(m.access()));
            let found = found.find(|m| named(m.base()) || named(m.index()));
            // rsp is the control stack, which `call` and `ret` use.
            found.filter(|m| m.base() != Register::RSP).map_or(vec![], |_| {
                let wanted =
                    address(i.memory_base(), i.memory_index(), i.memory_index_scale(), i.memory_displacement64());
                vec![(wanted, &stores, start, false)]
            })
        };
        let mut end = start;
        for (address, ends, at, skipped) in &wanted {
            end = end.min(*at);
            match check_before(&bytes[..end], ends, *address, *skipped) {
                Some(begin) => end = begin,
                None => return Some(format!("no check of {address:?} before {i} at {start:#x}")),
            }
        }
        if !wanted.is_empty() {
            inside.push((end, start + i.len()));
        }
    }
    // A branch that is no part of a check leads into none.
    for i in code.iter().filter(|i| i.is_jmp_short_or_near() || i.is_jcc_short_or_near() || i.is_call_near()) {
        let (from, to) = ((i.ip() - OFFSET) as usize, i.near_branch64().wrapping_sub(OFFSET) as usize);
        if let Some((begin, end)) =
            inside.iter().find(|(begin, end)| *begin < to && to < *end && !(*begin..*end).contains(&from))
        {
            return Some(format!("a branch to {to:#x}, into {begin:#x}..{end:#x}"));
        }
    }
    None
}

/// Returns a check: the head, the `lea`, an end.
fn checked(lea: &str, end: &[u8]) -> Vec<u8> {
    [filled(&HEAD), hex(lea), end.to_vec()].concat()
}

/// Returns accepted texts with checks of every kind.
fn texts() -> Vec<Vec<u8>> {
    let stores = [
        ("48 8d 4f 08", "65 67 48 89 57 08"),    // mov %rdx,%gs:8(%edi)
        ("48 8d 4c 98 f0", "65 67 89 54 98 f0"), // mov %edx,%gs:-16(%eax,%ebx,4)
        ("48 8d 09", "65 67 48 89 11"),          // mov %rdx,%gs:(%ecx)
        // lock addl $1,%gs:0x1000(%r12d)
        ("49 8d 8c 24 00 10 00 00", "65 67 f0 41 83 84 24 00 10 00 00 01"),
        ("48 8d 0f", "65 67 c5 fe 7f 07"), // vmovdqu %ymm0,%gs:(%edi)
    ];
    let mut all = Vec::new();
    for end in [filled(&STORE), filled(&STORE_KEEPING_FLAGS)] {
        for (lea, store) in stores {
            all.push([checked(lea, &end), hex(store), vec![0xc3]].concat());
        }
        // stosl, and rep stosb.
        let rebase = hex("89 ff 65 48 03 3c 25 00 f0 0f 00");
        let ends = [checked("48 8d 0f", &end), checked("48 8d 4f 03", &end)].concat();
        all.push([ends, rebase.clone(), hex("ab c3")].concat());
        // A `jrcxz` reaches over the shorter check only.
        let ends = ["48 8d 0f", "48 8d 4c 0f ff"].map(|lea| {
            let check = checked(lea, &end);
            [vec![0xe3, check.len() as u8], check].concat()
        });
        if ends.iter().all(|check| check.len() < 0x80) {
            all.push([ends.concat(), rebase, hex("f3 aa c3")].concat());
        }
    }
    // and $0xffff8,%eax ; jmp *%gs:table(%eax), after its check
    all.push(
        [checked("48 8d 08", &filled(&BRANCH)), hex("25 f8 ff 0f 00 65 67 ff a0 00 00 10 00"), vec![0xc3]].concat(),
    );
    all
}

#[test]
fn the_judge_agrees_with_the_contract() {
    for text in texts() {
        assert!(accepted(&text), "{text:02x?}");
        assert_eq!(wrong(&text), None, "{text:02x?}");
        // Without its first byte, and without the check.
        let store = text.len() - 24;
        assert!(!accepted(&text[store..]) || wrong(&text[store..]).is_none());
    }
}

/// Every byte of every text takes every other value.
#[test]
fn one_byte_makes_no_false_claim() {
    let (mut tried, mut kept) = (0, 0);
    for text in texts() {
        for at in 0..text.len() {
            for value in 0..=255 {
                let mut text = text.clone();
                if std::mem::replace(&mut text[at], value) == value {
                    continue;
                }
                tried += 1;
                if accepted(&text) {
                    kept += 1;
                    assert_eq!(wrong(&text), None, "byte {at} is {value:#x}: {text:02x?}");
                }
            }
        }
    }
    println!("{tried} texts, {kept} accepted");
    assert!(tried > 200_000 && kept > 1_000, "{tried} {kept}");
}

/// A branch to every byte of every text, from before and from after it. Every text without one of
/// its bytes, or with a byte twice.
#[test]
fn nothing_passes_a_check_by() {
    let (mut tried, mut kept) = (0, 0);
    let mut judge = |text: &[u8]| {
        tried += 1;
        if accepted(text) {
            kept += 1;
            assert_eq!(wrong(text), None, "{text:02x?}");
        }
    };
    for text in texts() {
        for to in 0..text.len() as i32 {
            let jump = |opcode: &[u8], distance: i32| [opcode, &distance.to_le_bytes()].concat();
            for opcode in [&[0xe9][..], &[0x0f, 0x84], &[0xe8]] {
                judge(&[jump(opcode, to), text.clone()].concat());
                let length = (text.len() + opcode.len() + 4) as i32;
                judge(&[text.clone(), jump(opcode, to - length)].concat());
            }
            judge(&[&text[..to as usize], &text[to as usize + 1..]].concat());
            judge(&[&text[..=to as usize], &text[to as usize..]].concat());
            // A prefix, a nop, a store to the place of rcx, and changes of the address between.
            for inserted in ["67", "65", "90", "65 67 48 89 0c 25 30 0f 20 00", "48 ff c7", "48 8d 7f 01"] {
                judge(&[&text[..to as usize], &hex(inserted), &text[to as usize..]].concat());
            }
        }
    }
    println!("{tried} texts, {kept} accepted");
    assert!(tried > 10_000 && kept > 100, "{tried} {kept}");
}
