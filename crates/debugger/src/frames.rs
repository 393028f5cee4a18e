//! Unwind rules.
//!
//! The control stack holds nothing but return addresses and the gates' frames, and the code of a
//! domain moves rsp by calls and returns only. So in a domain one rule holds at every instruction:
//! the return address is the word at rsp. The gates' frames have fixed layouts.
//!
//! The other preserved registers of a caller are not known, because their places are on the data
//! stack. Debug information of domains describes no variables, so nobody asks for them.

use gimli::write::{Address, CallFrameInstruction as Rule, CommonInformationEntry, DebugFrame, EndianVec};
use gimli::write::{Expression, FrameDescriptionEntry, FrameTable};
use gimli::{Encoding, Format, LittleEndian, Register, X86_64};
use sfi_loader::{GateCaller, GateCode};
use std::ops::Range;

const WORD: u64 = 8;

/// Returns `.debug_frame` of a domain's text.
pub(crate) fn of_domain(text: Range<u64>) -> Vec<u8> {
    let mut entry = entry(false);
    entry.add_instruction(Rule::Cfa(X86_64::RSP, WORD as i32));
    entry.add_instruction(Rule::Offset(X86_64::RA, -(WORD as i32)));
    [X86_64::RBX, X86_64::RBP].into_iter().for_each(|register| entry.add_instruction(Rule::Undefined(register)));
    written(vec![(entry, text)])
}

/// Returns `.debug_frame` of the gates.
pub(crate) fn of_gates(gates: &[GateCode]) -> Vec<u8> {
    written(gates.iter().map(|gate| (rules(gate.caller), gate.addresses.clone())).collect())
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

fn written(entries: Vec<(CommonInformationEntry, Range<u64>)>) -> Vec<u8> {
    let mut table = FrameTable::default();
    for (entry, text) in entries {
        let id = table.add_cie(entry);
        // A window is not larger than 4 GiB, and text is less.
        let length = u32::try_from(text.end - text.start).unwrap_or(u32::MAX);
        table.add_fde(id, FrameDescriptionEntry::new(Address::Constant(text.start), length));
    }
    let mut section = DebugFrame::from(EndianVec::new(LittleEndian));
    table.write_debug_frame(&mut section).expect("addresses are constants and distances are small");
    section.0.into_vec()
}
