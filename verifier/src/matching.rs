//! Rule `SFI-M01`: in mode match every store and every indirect branch directly follows its check,
//! and nothing branches in between.
//!
//! [`sfi_contract::matching`] defines the checks. An address that names no register needs none,
//! because the linker chose it.

use crate::report::Findings;
use crate::sweep::{Map, Text};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
use sfi_contract::Rule;
use sfi_contract::matching::{Check, HEAD, Pattern, tail};
use sfi_contract::policy::{self, Class, Memory};

/// Base, index, scale and displacement of an address.
type Address = (Register, Register, u32, u32);

/// A check that stands in the text.
#[derive(PartialEq, Eq)]
struct Checked {
    check: Check,
    address: Address,
    /// A `jrcxz` skips it.
    guarded: bool,
}

/// Applies the rule to a text that was swept.
pub(crate) fn check(text: &Text<'_>, map: &mut Map, findings: &mut Findings) {
    let mut decoder = Decoder::with_ip(64, text.bytes, text.base, DecoderOptions::NONE);
    let (mut checked, mut start, mut at) = (Vec::new(), 0, 0);
    let mut covered: Vec<(u64, u64)> = Vec::new();
    let mut regions = map.regions.iter().peekable();
    while at < text.bytes.len() {
        if let Some((found, end)) = read(text, &mut decoder, at) {
            start = if checked.is_empty() { at } else { start };
            checked.push(found);
            at = end;
            continue;
        }
        let Some(i) = decode(text, &mut decoder, at) else { break };
        while regions.next_if(|region| region.1 < at as u64).is_some() {}
        let needed = needed(&i);
        if !needed.is_empty() && checked != needed {
            let detail = "its check is not right before it";
            findings.add_instruction(Rule::Unmatched, text.bytes, text.base, at as u64, detail);
        } else if !needed.is_empty() {
            map.targets.remove(start + 1, at);
            covered.push((start as u64, (at + i.len() - 1) as u64));
        }
        at += i.len();
        // The checks stand before the whole unsafe region, so the list is kept until its end.
        if !regions.peek().is_some_and(|region| region.0 < at as u64 && at as u64 <= region.1) {
            checked.clear();
        }
    }
    // The checks' own branches stay inside them and need no legal target.
    let within = |at: u64| covered.get(covered.partition_point(|c| c.1 < at)).is_some_and(|c| c.0 <= at);
    map.branches.retain(|branch| !within(branch.at));
    map.regions.extend(covered);
    map.regions.sort_unstable();
}

fn decode(text: &Text<'_>, decoder: &mut Decoder<'_>, at: usize) -> Option<Instruction> {
    decoder.set_position(at).ok()?;
    decoder.set_ip(text.base.wrapping_add(at as u64));
    Some(decoder.decode()).filter(|i| !i.is_invalid())
}

/// Returns the check at an offset, and the offset after it.
fn read(text: &Text<'_>, decoder: &mut Decoder<'_>, at: usize) -> Option<(Checked, usize)> {
    let (guarded, start) = match text.bytes.get(at..)? {
        // A forward branch only: the displacement is signed.
        [0xe3, over @ ..0x80, ..] => (Some(usize::from(*over)), at + 2),
        _ => (None, at),
    };
    let names =
        |start: usize, pattern: &Pattern| pattern.fields.iter().all(|(at, place)| text.names(start + at, *place));
    if !HEAD.fits(text.bytes.get(start..)?) || !names(start, &HEAD) {
        return None;
    }
    let at = start + HEAD.bytes.len();
    // 67 would test the lower half of the address only.
    let lea = decode(text, decoder, at).filter(|_| text.bytes[at] != 0x67)?;
    let end = decoder.position();
    let (check, tail) = tail(&text.bytes[end..]).filter(|(_, tail)| names(end, tail))?;
    let length = tail.bytes.len();
    let skips_it = guarded.is_none_or(|over| start + over == end + length);
    let fits = lea.code() == Code::Lea_r64_m && lea.op0_register() == Register::RCX && skips_it;
    fits.then(|| (Checked { check, address: address(&lea), guarded: guarded.is_some() }, end + length))
}

/// Returns the operand's address. It compares whole registers: the upper halves count too.
fn address(i: &Instruction) -> Address {
    let [base, index] = [i.memory_base(), i.memory_index()].map(Register::full_register);
    (base, index, i.memory_index_scale(), i.memory_displacement64() as u32)
}

/// Returns the checks that must stand before an instruction.
fn needed(i: &Instruction) -> Vec<Checked> {
    let Some(form) = policy::lookup(i.code()) else { return Vec::new() };
    let one = |check, address| vec![Checked { check, address, guarded: false }];
    let constant = [Register::None, Register::EIP, Register::RIP];
    let named = [i.memory_base(), i.memory_index()].iter().any(|register| !constant.contains(register));
    match form.class {
        Class::IndirectBranch => one(Check::Branch, (i.memory_base().full_register(), Register::None, 1, 0)),
        // A string store needs a check of its first and of its last byte.
        Class::String if i.op0_kind() == OpKind::MemoryESRDI => {
            let (size, guarded) = (i.memory_size().size() as u32, i.has_rep_prefix());
            let last = match guarded {
                true => (Register::RDI, Register::RCX, size, u32::MAX),
                false => (Register::RDI, Register::None, 1, size - 1),
            };
            let ends = [(Register::RDI, Register::None, 1, 0), last];
            ends.map(|address| Checked { check: Check::Store, address, guarded }).into()
        }
        _ if matches!(form.memory, Memory::Store | Memory::Lockable) && named => one(Check::Store, address(i)),
        _ => Vec::new(),
    }
}
