//! False claims of budgets: budgeted texts in which bytes are changed, added, removed or exchanged.
//! A judge of its own follows all ways through the accepted texts and counts. It takes nothing from
//! the contract: a charge is what the processor does with it.

mod support;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, Register};
use sfi_contract::{Anchors, Mode};
use sfi_verifier::{FinalText, Options, verify_text};
use std::collections::HashMap;
use support::{RDI, RSI, hex};

const OFFSET: u64 = 0x40_0000;

fn accepted(bytes: &[u8], slots: &[u64], mode: Mode) -> bool {
    let slots: Vec<u64> = slots.iter().map(|slot| OFFSET + slot).collect();
    let text = FinalText { bytes, offset: OFFSET, gateways: &[], slots: &slots, anchors: Anchors::EXAMPLE };
    verify_text(&text, &Options { mode, budget: true, ..Options::default() }).is_ok()
}

/// A text and the ways through it.
struct Judge<'t> {
    bytes: &'t [u8],
    factory: InstructionInfoFactory,
    /// The most instructions from a place up to the next charge. `None` while it is computed.
    most: HashMap<(u64, bool), Option<u64>>,
    /// Charges that ways lead to.
    charges: Vec<u64>,
}

/// The effect of two instructions on the budget.
enum Charge {
    Constant(u64),
    Count,
}

impl Judge<'_> {
    fn decode(&self, at: u64) -> Option<Instruction> {
        let rest = self.bytes.get(at as usize..).filter(|rest| !rest.is_empty())?;
        let i = Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode();
        (!i.is_invalid()).then_some(i)
    }

    fn is_trap(&self, at: u64) -> bool {
        self.bytes.get(at as usize) == Some(&0xcc)
    }

    /// Reads a charge: what is subtracted from r14, in 64 bits, and a branch on the borrow to an
    /// `int3`. Returns the place after it.
    fn charge(&self, at: u64) -> Option<(Charge, u64)> {
        let (sub, branch) = (self.decode(at)?, self.decode(at + self.decode(at)?.len() as u64)?);
        if sub.mnemonic() != Mnemonic::Sub || sub.op0_register() != Register::R14 || sub.has_lock_prefix() {
            return None;
        }
        let amount = match sub.code() {
            Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 => {
                Charge::Constant(u64::try_from(sub.immediate(1) as i64).ok()?)
            }
            Code::Sub_rm64_r64 | Code::Sub_r64_rm64 if sub.op1_register() == Register::RCX => Charge::Count,
            _ => return None,
        };
        let traps = branch.mnemonic() == Mnemonic::Jb && self.is_trap(branch.near_branch_target());
        traps.then(|| (amount, branch.next_ip()))
    }

    /// Returns the most instructions that run from a place up to the next charge of a constant.
    /// `counted`: a count was charged, and only masks of pointers ran since.
    fn most(&mut self, at: u64, counted: bool) -> Result<u64, String> {
        if self.is_trap(at) {
            return Ok(0);
        }
        match self.charge(at) {
            Some((Charge::Constant(_), _)) => {
                self.charges.push(at);
                return Ok(0);
            }
            Some((Charge::Count, next)) => return Ok(2 + self.most(next, true)?),
            None => {}
        }
        match self.most.get(&(at, counted)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err(format!("a loop without a charge at {at:#x}")),
            None => {}
        }
        self.most.insert((at, counted), None);
        let i = self.decode(at).ok_or_else(|| format!("control leaves the text at {at:#x}"))?;
        let info = self.factory.info(&i);
        let named = info.used_registers().iter().any(|used| used.register().full_register() == Register::R14);
        if named || (0..i.op_count()).any(|n| i.op_register(n).full_register() == Register::R14) {
            return Err(format!("{i} names r14 at {at:#x}"));
        }
        let repeats = i.has_rep_prefix() || i.has_repne_prefix();
        if i.is_string_instruction() && repeats && !counted {
            return Err(format!("{i} at {at:#x} has no charge of its count"));
        }
        let masks = matches!(i.code(), Code::Mov_rm32_r32 | Code::Mov_r32_rm32 | Code::Add_r64_rm64)
            && [Register::RDI, Register::RSI].contains(&i.op0_register().full_register());
        let next = i.next_ip();
        let after = match i.flow_control() {
            FlowControl::Next => self.most(next, counted && masks)?,
            FlowControl::UnconditionalBranch => self.most(i.near_branch_target(), false)?,
            FlowControl::ConditionalBranch => self.most(i.near_branch_target(), false)?.max(self.most(next, false)?),
            FlowControl::Call | FlowControl::IndirectCall => {
                if i.flow_control() == FlowControl::Call {
                    self.entry(i.near_branch_target())?;
                }
                self.most(next, false)?
            }
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => 0,
            // An `int3` with a prefix.
            FlowControl::Interrupt if i.code() == Code::Int3 => 0,
            other => return Err(format!("{i} at {at:#x}: {other:?}")),
        };
        self.most.insert((at, counted), Some(1 + after));
        Ok(1 + after)
    }

    /// Checks a place that control comes to from elsewhere.
    fn entry(&mut self, at: u64) -> Result<(), String> {
        match self.charge(at) {
            Some((Charge::Constant(_), _)) => {
                self.charges.push(at);
                Ok(())
            }
            _ if self.is_trap(at) => Ok(()),
            _ => Err(format!("no charge at the entry {at:#x}")),
        }
    }
}

/// Describes the mistake of a budgeted text.
fn wrong(bytes: &[u8], slots: &[u64]) -> Option<String> {
    let mut judge = Judge { bytes, factory: InstructionInfoFactory::new(), most: HashMap::new(), charges: Vec::new() };
    for slot in slots {
        if let Err(why) = judge.entry(*slot) {
            return Some(why);
        }
    }
    let mut done = Vec::new();
    while let Some(at) = judge.charges.pop() {
        if done.contains(&at) {
            continue;
        }
        done.push(at);
        let Some((Charge::Constant(amount), next)) = judge.charge(at) else { continue };
        match judge.most(next, false) {
            Ok(most) if most + 2 <= amount => {}
            Ok(most) => return Some(format!("{} instructions for {amount} at {at:#x}", most + 2)),
            Err(why) => return Some(why),
        }
    }
    None
}

/// Returns a text of pieces, and its slots. `T` is the distance to the `int3` at the end, after the
/// branch of a charge; `F` one byte of a distance to the piece with that number.
fn text(pieces: &[&str], slots: &[usize]) -> (Vec<u8>, Vec<u64>) {
    let length = |piece: &str| hex(&piece.replace('T', "00").replace(['F', 'B'], "0")).len();
    let starts: Vec<usize> =
        pieces.iter().scan(0, |at, piece| Some(std::mem::replace(at, *at + length(piece)))).collect();
    let end: usize = pieces.iter().map(|piece| length(piece)).sum();
    let mut bytes = Vec::new();
    for piece in pieces {
        for word in piece.split_whitespace() {
            let next = bytes.len() as i64 + 1;
            match word.as_bytes() {
                b"T" => bytes.push((end as i64 - next) as u8),
                [b'F', digit] => bytes.push((starts[usize::from(digit - b'0')] as i64 - next) as u8),
                _ => bytes.extend(hex(word)),
            }
        }
    }
    bytes.push(0xcc);
    (bytes, slots.iter().map(|slot| starts[*slot] as u64).collect())
}

/// Returns accepted texts: loops, branches over instructions, calls, counts, and jumps by slots.
fn texts() -> Vec<(Vec<u8>, Vec<u64>, Mode)> {
    let stos = format!("49 83 ee 08 72 T 49 29 ce 72 T {RDI} f3 48 ab c3");
    let movs = format!("49 83 ee 0a 72 T 49 29 ce 72 T {RSI} {RDI} f3 a4 c3");
    let indirect = "49 83 ee 05 72 T 25 f8 ff 0f 00 65 67 ff 90 00 00 10 00 c3";
    let all: [(&[&str], &[usize], Mode); 4] = [
        // A loop with branches forward, and a call: xor, mov | dec, je, inc, jne | ret
        (
            &[
                "49 83 ee 04 72 T 31 c0 b9 0a 00 00 00",
                "49 83 ee 06 72 T ff c9 74 02 ff c0 75 F1",
                "49 83 ee 05 72 T e3 01 90 c3",
            ],
            &[0],
            Mode::Write,
        ),
        (&["49 83 ee 07 72 T 31 c0 e8 04 00 00 00 ff c0 c3 90", "49 83 ee 03 72 T c3"], &[0, 1], Mode::Write),
        (&[&stos, indirect], &[0, 1], Mode::Write),
        (&[&movs, "49 81 ee 03 00 00 00 72 T c3"], &[0, 1], Mode::Full),
    ];
    all.into_iter()
        .map(|(pieces, slots, mode)| {
            let (bytes, slots) = text(pieces, slots);
            (bytes, slots, mode)
        })
        .collect()
}

#[test]
fn the_texts_are_budgeted_and_the_judge_sees_mistakes() {
    for (text, slots, mode) in texts() {
        assert!(accepted(&text, &slots, mode), "{text:02x?}");
        assert_eq!(wrong(&text, &slots), None, "{text:02x?}");
    }
    let (text, slots, _) = &texts()[0];
    let changed = |at: usize, byte: u8| {
        let mut text = text.clone();
        text[at] = byte;
        wrong(&text, slots)
    };
    // Too small an amount, a branch of another charge that does not trap, and a loop past a charge.
    assert!(changed(3, 3).is_some() && changed(5, 2).is_some() && changed(26, 0xf6).is_some());
}

/// Every byte takes every value, pairs of neighbours many, and bytes are added, removed and moved.
#[test]
fn accepted_texts_pay_for_all_that_runs() {
    let (mut tried, mut kept) = (0, 0);
    for (text, slots, mode) in texts() {
        let mut judge = |changed: &[u8]| {
            tried += 1;
            if accepted(changed, &slots, mode) {
                kept += 1;
                assert_eq!(wrong(changed, &slots), None, "{changed:02x?}");
            }
        };
        for at in 0..text.len() {
            for byte in 0..=255 {
                let mut changed = text.clone();
                changed[at] = byte;
                judge(&changed);
                changed.insert(at, text[at]);
                judge(&changed);
                if let Some(next) = changed.get(at + 2) {
                    // Amounts, distances and opcodes of charges and branches.
                    let near = [0x00, 0x01, 0x72, 0x74, 0x75, 0xcc, 0xee, 0xeb, next.wrapping_add(1), !next];
                    for value in near {
                        let mut pair = text.clone();
                        (pair[at], pair[at + 1]) = (byte, value);
                        judge(&pair);
                    }
                }
            }
            judge(&[&text[..at], &text[at + 1..]].concat());
            for to in 0..text.len() {
                let mut moved = text.clone();
                moved.swap(at, to);
                judge(&moved);
                for length in 1..8 {
                    if to + length <= text.len() && at + length <= text.len() {
                        let mut copied = text.clone();
                        copied.copy_within(at..at + length, to);
                        judge(&copied);
                    }
                }
            }
        }
    }
    println!("{tried} texts, {kept} accepted");
    assert!(tried > 100_000 && kept > 1000, "{tried} {kept}");
}
