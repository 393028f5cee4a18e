//! Unwind rules.
//!
//! The control stack holds nothing but return addresses, saved registers and the gates' frames. The
//! verifier knows at each place of a domain's text how many registers its function has saved there.
//! So in a domain the return address is the word above them, and the word at rsp where nothing is
//! saved. The gates' frames have fixed layouts.
//!
//! The other preserved registers of a caller are not known, because their places are on the data
//! stack or among the saved ones. Debug information of domains describes no variables, so nobody
//! asks for them.

use gimli::write::{Address, CallFrameInstruction as Rule, CommonInformationEntry, DebugFrame, EndianVec};
use gimli::write::{Expression, FrameDescriptionEntry, FrameTable};
use gimli::{Encoding, Format, LittleEndian, Register, X86_64};
use sfi_loader::{GateCaller, GateCode};
use std::ops::Range;

const WORD: u64 = 8;

/// Returns `.debug_frame` of a domain's text. `saves` are the places where registers are saved on
/// the control stack and their number, by address.
pub(crate) fn of_domain(text: Range<u64>, saves: impl Iterator<Item = (Range<u64>, u8)>) -> Vec<u8> {
    let mut entry = entry(false);
    entry.add_instruction(Rule::Cfa(X86_64::RSP, WORD as i32));
    entry.add_instruction(Rule::Offset(X86_64::RA, -(WORD as i32)));
    [X86_64::RBX, X86_64::RBP].into_iter().for_each(|register| entry.add_instruction(Rule::Undefined(register)));
    let mut rules: Vec<(u64, u8)> = Vec::new();
    for (range, depth) in saves {
        // The end of a range is often the start of another one.
        match rules.last_mut().filter(|last| last.0 == range.start) {
            Some(last) => last.1 = depth,
            None => rules.push((range.start, depth)),
        }
        rules.push((range.end, 0));
    }
    let rule = |depth: u8| Rule::CfaOffset(WORD as i32 * (1 + i32::from(depth)));
    let rules = rules.into_iter().filter(|(at, _)| text.contains(at));
    let rules = rules.map(|(at, depth)| ((at - text.start) as u32, rule(depth))).collect();
    written(vec![(entry, text, rules)])
}

/// Returns `.debug_frame` of the gates.
pub(crate) fn of_gates(gates: &[GateCode]) -> Vec<u8> {
    written(gates.iter().map(|gate| (rules(gate.caller), gate.addresses.clone(), Vec::new())).collect())
}

fn rules(caller: GateCaller) -> CommonInformationEntry {
    // A host function's frames lie on the host's stack, and its caller's on the control stack.
    // Debuggers take a stack that goes backwards for damaged, except after a signal's frame.
    let mut entry = entry(matches!(caller, GateCaller::Host { .. }));
    let mut known = Vec::new();
    let frame = match caller {
        GateCaller::Domain { above } => {
            entry.add_instruction(Rule::Cfa(X86_64::RSP, (above + WORD) as i32));
            None
        }
        // At the word: the flags, rbx, rbp, the return address.
        GateCaller::Entry { word } => {
            known = vec![(X86_64::RBX, -3), (X86_64::RBP, -2)];
            Some((word, 3 * WORD))
        }
        GateCaller::Host { word, above } => Some((word, above)),
    };
    if let Some((word, above)) = frame {
        let mut place = Expression::new();
        place.op_breg(X86_64::RSP, word as i64);
        place.op_deref();
        place.op_plus_uconst(above + WORD);
        entry.add_instruction(Rule::CfaExpression(place));
    }
    entry.add_instruction(Rule::Offset(X86_64::RA, -(WORD as i32)));
    for register in [X86_64::RBX, X86_64::RBP] {
        let place = known.iter().find(|(other, _): &&(Register, i32)| *other == register);
        entry.add_instruction(
            place.map_or(Rule::Undefined(register), |(_, words)| Rule::Offset(register, words * WORD as i32)),
        );
    }
    entry
}

/// Returns an entry without rules.
fn entry(signal: bool) -> CommonInformationEntry {
    let encoding = Encoding { address_size: WORD as u8, format: Format::Dwarf32, version: 1 };
    let mut entry = CommonInformationEntry::new(encoding, 1, -(WORD as i8), X86_64::RA);
    entry.signal_trampoline = signal;
    // r12 to r15 of a caller are nowhere known.
    for register in [X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15] {
        entry.add_instruction(Rule::Undefined(register));
    }
    entry
}

/// The rules of a range of text: those of its start, and changes at distances from it.
type Described = (CommonInformationEntry, Range<u64>, Vec<(u32, Rule)>);

fn written(entries: Vec<Described>) -> Vec<u8> {
    let mut table = FrameTable::default();
    for (entry, text, changes) in entries {
        let id = table.add_cie(entry);
        // A window is not larger than 4 GiB, and text is less.
        let length = u32::try_from(text.end - text.start).unwrap_or(u32::MAX);
        let mut description = FrameDescriptionEntry::new(Address::Constant(text.start), length);
        changes.into_iter().for_each(|(at, rule)| description.add_instruction(at, rule));
        table.add_fde(id, description);
    }
    let mut section = DebugFrame::from(EndianVec::new(LittleEndian));
    table.write_debug_frame(&mut section).expect("addresses are constants and distances are small");
    section.0.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{BaseAddresses, CfaRule, UnwindContext, UnwindSection};

    #[test]
    fn return_addresses_lie_above_saved_registers() {
        let text = 0x7000_1000..0x7000_1100;
        let at = |start: u64, end: u64| text.start + start..text.start + end;
        let saves = [(at(1, 3), 1), (at(3, 0x50), 2), (at(0x50, 0x51), 1), (at(0xf0, 0x100), 15)];
        let section = of_domain(text.clone(), saves.clone().into_iter());
        let section = gimli::DebugFrame::new(&section, gimli::LittleEndian);
        let bases = BaseAddresses::default();
        for address in text {
            let entry = section.fde_for_address(&bases, address, gimli::DebugFrame::cie_from_offset).unwrap();
            let mut context = UnwindContext::new();
            let row = entry.unwind_info_for_address(&section, &bases, &mut context, address).unwrap();
            let depth = saves.iter().find(|(range, _)| range.contains(&address)).map_or(0, |(_, depth)| *depth);
            let offset = 8 * (1 + i64::from(depth));
            assert_eq!(*row.cfa(), CfaRule::RegisterAndOffset { register: X86_64::RSP, offset }, "{address:#x}");
        }
    }
}
