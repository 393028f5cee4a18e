//! Rules `SFI-B04` to `SFI-B07`: a budgeted text pays for its instructions before it runs them.
//!
//! [`sfi_contract::budget`] defines the charges. They divide a text into segments: one begins with
//! each charge, and one after each `int3`, behind which control never goes on. A branch leads to a
//! charge, to an `int3`, or forward within its own segment. A call leads to a charge. So all ways
//! into a segment lead through its charge, and after that control only moves forward in it. Each of
//! its instructions runs at most once for one charge.

use crate::instruction::registers;
use crate::report::Findings;
use crate::sweep::{Map, Text};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use sfi_contract::Rule;
use sfi_contract::budget::{Amount, Charge, REGISTER, charge};
use sfi_contract::policy::{self, Class, general};

/// A piece of text in which control only moves forward.
struct Segment {
    start: u64,
    /// The instructions that its charge pays for. `None` for a segment without a charge, into which
    /// nothing leads.
    paid: Option<u32>,
    instructions: u32,
}

/// Applies the rules to a text that was swept. `ways` are the offsets of other ways into it.
pub(crate) fn check(text: &Text<'_>, map: &mut Map, ways: &[u64], findings: &mut Findings) {
    let segments = segments(text, map, findings);
    let of = |offset: u64| segments.partition_point(|segment| segment.start <= offset);
    let leads_on = |at: u64| text.bytes.get(at as usize).is_some_and(|byte| *byte != 0xcc);
    let is_charge =
        |at: u64| of(at).checked_sub(1).is_some_and(|i| segments[i].start == at && segments[i].paid.is_some());
    let mut refuse = |rule, at, detail: &str| findings.add_instruction(rule, text.bytes, text.base, at, detail);
    for segment in &segments {
        if segment.paid.is_some_and(|paid| paid < segment.instructions) {
            let detail = format!("{} instructions follow up to the next charge", segment.instructions);
            refuse(Rule::ChargeAmount, segment.start, &detail);
        }
    }
    for branch in &map.branches {
        let to = branch.target.wrapping_sub(text.base);
        let forward = text.bytes[branch.at as usize] != CALL && to > branch.at && of(to) == of(branch.at);
        if leads_on(to) && !is_charge(to) && !forward {
            refuse(Rule::Uncharged, branch.at, &format!("no charge at the target {:#x}", branch.target));
        }
    }
    for way in ways {
        if leads_on(*way) && !is_charge(*way) {
            refuse(Rule::Uncharged, *way, "a dispatch slot leads to this place, which is no charge");
        }
    }
}

/// The opcode of a direct call.
const CALL: u8 = 0xe8;

/// Finds the segments of a text, and makes each charge an unsafe region.
fn segments(text: &Text<'_>, map: &mut Map, findings: &mut Findings) -> Vec<Segment> {
    let new = |start: usize, paid| Segment { start: start as u64, paid, instructions: 0 };
    let mut segments = vec![new(0, None)];
    let mut decoder = Decoder::with_ip(64, text.bytes, text.base, DecoderOptions::NONE);
    let mut covered: Vec<(u64, u64)> = Vec::new();
    // The charge of a count that ends at the sweep's place: its start and its end.
    let mut counted = None;
    let (mut at, mut i) = (0, Instruction::default());
    while decoder.can_decode() {
        decoder.decode_out(&mut i);
        let mut end = decoder.position();
        let found = charge(&text.bytes[at..]).filter(|charge| traps(text, map, at, charge));
        if let Some(Charge { amount, first, length, .. }) = found {
            match amount {
                Amount::Constant(paid) => segments.push(new(at, Some(paid))),
                Amount::Count => counted = Some((at, at + length)),
            }
            map.targets.remove(at + 1, at + first);
            covered.push((at as u64, (at + length - 1) as u64));
            end = at + length;
            if decoder.set_position(end).is_err() {
                break;
            }
        } else if let Some(form) = policy::lookup(i.code()) {
            let mut refuse = |rule, detail| findings.add_instruction(rule, text.bytes, text.base, at as u64, detail);
            if (registers(&i, form) >> 16) as u16 & general(REGISTER) != 0 {
                refuse(Rule::BudgetRegister, "r14 outside a charge, or a charge that is malformed or without a trap");
            }
            if form.class == Class::String && (i.has_rep_prefix() || i.has_repne_prefix()) {
                let region = map.regions.partition_point(|region| region.1 < at as u64);
                let region = map.regions.get(region).filter(|region| region.0 < at as u64);
                let start = region.map_or(at, |region| region.0 as usize);
                match counted.filter(|(_, end)| *end == start) {
                    Some((from, _)) => {
                        map.targets.remove(from + 1, at);
                        covered.push((from as u64, (end - 1) as u64));
                    }
                    None => refuse(Rule::RepeatUncharged, "`sub %rcx,%r14 ; jb` is not right before it"),
                }
            }
        }
        if text.bytes[at] == 0xcc {
            segments.push(new(at + 1, None));
        } else if let Some(segment) = segments.last_mut() {
            segment.instructions = segment.instructions.saturating_add(if found.is_some() { 2 } else { 1 });
        }
        at = end;
    }
    map.regions.extend(covered);
    map.regions.sort_unstable();
    segments
}

/// Says whether the branch of a charge leads to an `int3` of the text.
fn traps(text: &Text<'_>, map: &Map, at: usize, charge: &Charge) -> bool {
    let trap = (at as u64).wrapping_add(charge.trap as u64);
    map.targets.contains(trap) && text.bytes.get(trap as usize) == Some(&0xcc)
}
