//! The second check, over the relocated bytes that will run.

use crate::Verifier;
use crate::budget;
use crate::facts::Uses;
use crate::matching;
use crate::options::Options;
use crate::report::{Findings, Violation};
use crate::saves;
use crate::sweep::{Map, Stage, Text, sweep};
use sfi_contract::saves::Saves;
use sfi_contract::{Anchors, Mode, Rule, Usage};

/// A domain's text as it will be mapped.
#[derive(Clone, Copy, Debug)]
pub struct FinalText<'a> {
    /// The relocated bytes in one piece: sections, with `int3` between and after them.
    pub bytes: &'a [u8],
    /// Window offset of the first byte.
    pub offset: u64,
    /// Window offsets of the gateway stubs' entries.
    pub gateways: &'a [u64],
    /// Window offsets that the dispatch table's slots hold.
    pub slots: &'a [u64],
    /// The offsets of the domain's header page, dispatch table and TCB page.
    pub anchors: Anchors,
}

/// The facts about a final text that was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The state of the processor that it uses.
    pub usage: Usage,
    /// The places where registers are saved on the control stack. Offsets count from its first
    /// byte.
    pub saves: Saves,
}

/// Checks the final text: all rules about instructions again, and `SFI-T01` to `SFI-T04`. A branch
/// that had a relocation is now a branch like any other.
///
/// # Errors
/// All violations, in the order of their offsets in the window; at most [`crate::MAX_VIOLATIONS`].
pub fn verify_text(text: &FinalText<'_>, options: &Options) -> Result<Checked, Vec<Violation>> {
    Verifier::new(options).verify_text(text)
}

impl Verifier {
    /// Checks a final text, like [`verify_text`].
    ///
    /// # Errors
    /// As [`verify_text`].
    pub fn verify_text(&mut self, text: &FinalText<'_>) -> Result<Checked, Vec<Violation>> {
        let mut findings = Findings::default();
        let swept = Text { bytes: text.bytes, base: text.offset, stage: Stage::Final(text.anchors) };
        self.memo.reserve(text.bytes.len());
        self.maps.resize_with(self.maps.len().max(1), Map::default);
        let map = &mut self.maps[0];
        sweep(&swept, &self.options, &mut self.memo, map, &mut findings);
        // Rule SFI-T02 judges the slots that hold no place of the text.
        let ways: Vec<u64> = text.slots.iter().map(|slot| slot.wrapping_sub(text.offset)).collect();
        saves::check(&swept, map, &ways, &mut findings);
        if self.options.budget {
            budget::check(&swept, map, &ways, &mut findings);
        }
        if self.options.mode == Mode::Match {
            matching::check(&swept, map, &mut findings);
        }
        let mut gateways = text.gateways.to_vec();
        gateways.sort_unstable();
        check_branches(text, map, &gateways, &mut findings);
        check_slots(text, map, &gateways, &mut findings);
        if findings.list.is_empty() {
            return Ok(Checked { usage: map.uses.usage(), saves: std::mem::take(&mut map.saves) });
        }
        findings.list.sort_by_key(|violation| (violation.offset, violation.rule));
        Err(findings.list)
    }
}

/// Says whether control may reach a place: a legal target in the text, or exactly a gateway's
/// entry.
fn is_target(text: &FinalText<'_>, map: &Map, gateways: &[u64], offset: u64) -> bool {
    let inside = offset.checked_sub(text.offset).is_some_and(|offset| map.targets.contains(offset));
    inside || gateways.binary_search(&offset).is_ok()
}

/// Checks rule `SFI-T01`: every direct branch reaches a target.
fn check_branches(text: &FinalText<'_>, map: &mut Map, gateways: &[u64], findings: &mut Findings) {
    for branch in &map.branches {
        if gateways.binary_search(&branch.target).is_ok() {
            map.uses.join(Uses::AWAY);
        } else if !is_target(text, map, gateways, branch.target) {
            let detail = format!("the target is window offset {:#x}", branch.target as i64);
            findings.add_instruction(Rule::FinalTarget, text.bytes, text.offset, branch.at, &detail);
        }
    }
}

/// Checks rule `SFI-T02`: every slot holds a target.
fn check_slots(text: &FinalText<'_>, map: &Map, gateways: &[u64], findings: &mut Findings) {
    for (index, slot) in text.slots.iter().enumerate() {
        if !is_target(text, map, gateways, *slot) {
            findings.add(Rule::FinalSlot, *slot, format!("slot {index} holds window offset {slot:#x}"));
        }
    }
}
